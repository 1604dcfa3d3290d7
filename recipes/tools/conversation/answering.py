"""A policy that answers in a terminal: token by token, until it ends, is cut, or Ctrl-C stops the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from recipes.cli.errors import UserError
from recipes.sampling.generate import Decoding, end_ids, sample


@dataclass
class Answer:
    """ids: sampled, the end token included. text: without special tokens. stopped: by Ctrl-C."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    stopped: bool = False


class Streamed:
    """Tells `say` each piece of an answer as soon as its characters are complete. `complete`: as `sample` takes it."""

    def __init__(self, tokenizer: Any, say: Callable[[str], None], complete: Callable[[list[int]], bool] | None):
        self.answer = Answer()
        self._tokenizer, self._say, self._complete = tokenizer, say, complete
        self._said = 0

    def __call__(self, ids: list[int]) -> bool:
        """Whether the answer needs nothing further; `sample` asks after each token."""
        self.answer.ids = list(ids)
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # the rest of a character is in the next token
            self._tell(text)
        return self._complete is not None and self._complete(ids)

    def end(self, ids: Sequence[int]) -> None:
        """The whole answer; the part that has not been shown is shown now."""
        self.answer.ids = list(ids)
        self._tell(self._tokenizer.decode(self.answer.ids, skip_special_tokens=True))

    def _tell(self, text: str) -> None:
        self._say(text[self._said :])
        self._said, self.answer.text = len(text), text


class Answering:
    """
    policy: ready to sample. seed: of sampled answers.
    """

    def __init__(self, policy: Any, tokenizer: Any, decoding: Decoding, seed: int = 0):
        self.policy, self.tokenizer, self.decoding = policy, tokenizer, decoding
        self._generator = torch.Generator(policy.device).manual_seed(seed)

    def answer(
        self,
        prompt: Sequence[int],
        say: Callable[[str], None],
        complete: Callable[[list[int]], bool] | None = None,
    ) -> Answer:
        """The answer to a prompt of token ids. Ctrl-C stops it; what was written until then is returned."""
        streamed = Streamed(self.tokenizer, say, complete)
        ends, pad = end_ids(self.tokenizer, self.policy), self.tokenizer.pad_token_id
        try:
            [ids] = sample(self.policy, [prompt], 1, self.decoding, ends, pad, streamed, self._generator)
            streamed.end(ids)
        except KeyboardInterrupt:
            streamed.answer.stopped = True
        return streamed.answer


def check_length(tokens: int, context: int | None, answer: int, remedy: str) -> None:
    """Raise UserError for a prompt that leaves no room for an answer of `answer` tokens.

    tokens: of the prompt. context: that the model can see at once, None where it does not say.
    """
    if context is not None and tokens + answer > context:
        raise UserError(
            f"the question has {tokens} tokens with its chat form, and max_new_tokens={answer} more do not fit into "
            f"the model's context of {context}: {remedy}"
        )
