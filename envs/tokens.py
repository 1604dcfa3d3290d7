"""Lengths in tokens, for limits that are a model's."""

from __future__ import annotations

from typing import Any

from envs.packaged import model_source
from envs.task import TaskError


class CountTokens:
    """The length of a text in tokens of a model's tokenizer, special tokens left out.

    Args:
        path: as in model.path: hub name, local folder, or "package:NAME".

    Raises:
        TaskError: no such tokenizer.
    """

    def __init__(self, path: str):
        from transformers import AutoTokenizer  # seconds to import

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model_source(path))
        except (OSError, ValueError) as error:
            raise TaskError(f"no tokenizer of {path} to count tokens with: {str(error).splitlines()[0]}") from None
        self._tokenizer.model_max_length = int(1e9)  # texts are measured, not read: no warning that they are long

    def __call__(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
