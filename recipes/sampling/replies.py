"""What the environment says as token ids: the end of the policy's turn, the reply, the beginning of the next turn.

The marks between two messages come from the tokenizer's chat template. The reply itself never becomes a mark: each of
the tokenizer's own that it holds is broken by a space, and it is encoded without special tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.episode import as_text, begun_by
from envs.task import Prompted
from recipes.data.chat_tokens import ids_behind
from rewards.attribution import special_ids

ANSWER, REPLY = "ANSWER-1f2e", "REPLY-3d4c"
"""Stand for the two messages while the template is read."""


class Replies:
    """
    Args:
        tokenizer: the policy's.
        template: further arguments of apply_chat_template.
    """

    def __init__(self, tokenizer: Any, template: Mapping[str, Any]):
        self._tokenizer, self._template = tokenizer, dict(template)
        marks = {*tokenizer.all_special_tokens, *(str(token) for token in tokenizer.added_tokens_decoder.values())}
        self._marks = sorted((mark for mark in marks if len(mark.strip()) > 1), key=len, reverse=True)
        self._special = special_ids(tokenizer)
        self._between: tuple[list[int], list[int]] | None = None

    def __call__(self, prompt: Prompted, answer_ids: Sequence[int], reply: str) -> list[int]:
        """The ids between the end of a turn and the next. An end-of-turn token that the policy has drawn is not
        repeated."""
        if isinstance(prompt, str):
            return self.text(as_text(prompt, self.broken(reply)))
        before, after = self._around()
        ended = bool(answer_ids) and answer_ids[-1] in self._special  # not by a line break at the length limit
        if ended and answer_ids[-1] in before:  # behind a line break in some templates
            before = before[before.index(answer_ids[-1]) + 1 :]
        return [*before, *self.text(self.broken(reply)), *after, *self.text(begun_by(prompt))]

    def broken(self, reply: str) -> str:
        """The reply with the tokenizer's marks broken by a space."""
        while any(mark in reply for mark in self._marks):
            for mark in self._marks:
                reply = reply.replace(mark, f"{mark[0]} {mark[1:]}")
        return reply

    def text(self, text: str) -> list[int]:
        """Ids of a text as text: no mark in it is one."""
        if not text:
            return []
        return [i for i in ids_behind(text, self._tokenizer, split_special_tokens=True) if i not in self._special]

    def _around(self) -> tuple[list[int], list[int]]:
        """The marks before and behind a reply."""
        if self._between is None:
            messages = [
                {"role": "user", "content": "-"},
                {"role": "assistant", "content": ANSWER},
                {"role": "user", "content": REPLY},
            ]
            whole = self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, **self._template
            )
            before, after = whole.split(ANSWER)[1].split(REPLY)
            self._between = tuple(  # type: ignore[assignment]
                ids_behind(part, self._tokenizer) for part in (before, after)
            )
        assert self._between is not None
        return self._between
