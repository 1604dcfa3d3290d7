"""The syntax channel during generation: which token made the code illegal, known as soon as it is drawn.

Where SynCode (Ugare et al. 2024, arXiv 2403.01632) masks what its grammar forbids, this watches and changes nothing:
the same answer as rewards/syntax.py gives for the finished text, for those who want to stop a hopeless completion or to
count illegal tokens while `generate` runs.

    watch = SyntaxWatch(task, TokenBytes(tokenizer), sandbox, prompt_tokens=inputs.input_ids.shape[1])
    output = policy.generate(**inputs, logits_processor=[watch])
    watch.flags(output)      # for each completion the index of its first illegal token, or None
"""

from __future__ import annotations

import asyncio
import codecs
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from transformers import LogitsProcessor

from envs.sandbox import Sandbox
from envs.task import Task
from rewards.attribution import TokenBytes
from rewards.syntax import judge


@dataclass
class _Watched:
    """One completion so far."""

    seen: int = 0  # tokens
    start: int | None = None  # where its code begins, in characters
    flag: int | None = None


class SyntaxWatch(LogitsProcessor):
    """
    Args:
        task: says where the code is.
        token_bytes: of the policy's tokenizer.
        sandbox: where sources are parsed, one job a step for the whole batch.
        prompt_tokens: width of the (left-padded) prompts that the completions follow.
    """

    def __init__(self, task: Task, token_bytes: TokenBytes, sandbox: Sandbox, prompt_tokens: int):
        self.task, self.token_bytes, self.sandbox, self.prompt_tokens = task, token_bytes, sandbox, prompt_tokens
        self._rows: list[_Watched] = []
        self._thread = ThreadPoolExecutor(1, "syntax-watch")  # generate may itself run under an event loop

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Looks at the tokens (B, T) drawn so far and returns `scores` (B, vocabulary) as they are."""
        self._look(input_ids)
        return scores

    def flags(self, output: torch.Tensor) -> list[int | None]:
        """After generation: the first illegal token of each completion in `output` (B, prompt + T), from 0."""
        self._look(output)
        return [row.flag for row in self._rows]

    def _look(self, ids_BT: torch.Tensor) -> None:
        completions = ids_BT[:, self.prompt_tokens :].tolist()
        self._rows = self._rows or [_Watched() for _ in completions]
        asked: list[tuple[_Watched, list[int], str]] = []
        for row, ids in zip(self._rows, completions, strict=True):
            if len(ids) > row.seen and (code := self._code(row, ids)) is not None:
                asked.append((row, ids, code))
            row.seen = len(ids)
        if not asked:
            return
        found = self._thread.submit(asyncio.run, judge(self.sandbox, [code for _, _, code in asked])).result()
        for (row, ids, _), judged in zip(asked, found, strict=True):
            if judged is not None and judged[0] is not None and row.start is not None:
                row.flag = self._token(ids, row.start + judged[0])

    def _code(self, row: _Watched, ids: list[int]) -> str | None:
        """The code so far; None where there is none, or where its flag is known."""
        # half a character is judged when its other half is there
        text = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(b"".join(self._pieces(ids)))
        code = self.task.extract(text)
        if code is None or code.start != row.start:  # another block than the one watched so far
            row.start, row.flag = (None if code is None else code.start), None
        if code is None or row.flag is not None:
            return None
        source = text[code.start : code.end]
        last = source.rpartition("\n")[2]
        return source if code.closed or last.strip() not in ("`", "``") else source[: len(source) - len(last)]

    def _pieces(self, ids: list[int]) -> list[bytes]:
        return [self.token_bytes[i] for i in ids]

    def _token(self, ids: list[int], character: int) -> int:
        """The token with the first byte of a character of the text."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        length, started = 0, 0
        for position, piece in enumerate(self._pieces(ids)):
            for byte in piece:
                if not decoder.getstate()[0]:
                    started = position
                length += len(decoder.decode(bytes([byte])))
                if length > character:
                    return started
        return len(ids) - 1
