"""The types between the trainer and a reward channel: Completion, Span, ChannelResult, RewardChannel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs.task import Problem, Task


@dataclass(frozen=True)
class Completion:
    """One sampled completion of T tokens.

    text: the completion without special tokens.
    token_ids: the T ids, including the end of sequence if it was drawn.
    offsets: T pairs (start, end) in characters of `text`; for special tokens start == end, except within a character
        that other tokens share. Neither starts nor ends ever decrease.
    code_span: (start, end) in characters of the code that the task extracted; None if there is no code.
    finished: False if the length limit cut the completion.
    closed: True if the code stands in a complete fenced block.
    given: how many of the first tokens were not sampled but given, as the beginning of the answer.
    """

    text: str
    token_ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]
    code_span: tuple[int, int] | None = None
    finished: bool = True
    closed: bool = False
    given: int = 0

    @property
    def sampled_ids(self) -> Sequence[int]:
        """The ids after those that were given."""
        return self.token_ids[self.given :]

    @property
    def code(self) -> str | None:
        return None if self.code_span is None else self.text[self.code_span[0] : self.code_span[1]]


def as_completion(task: Task, text: str, length: Callable[[str], int] = len) -> Completion:
    """A text as an answer to the task, where its token ids are not known.

    length: how many tokens a text has, a token for each character if not given. They are taken to have equal lengths,
    so that only a reward on the last token is exact.
    """
    tokens, extracted = length(text), task.extract(text)
    edges = [len(text) * i // max(1, tokens) for i in range(tokens + 1)]
    return Completion(
        text=text,
        token_ids=range(tokens),
        offsets=list(itertools.pairwise(edges)),
        code_span=None if extracted is None else (extracted.start, extracted.end),
        closed=extracted is not None and extracted.closed,
    )


def require_references(problems: Sequence[Problem], channel: str) -> None:
    """Raises ValueError for a problem without a reference solution, with which `channel` compares answers."""
    for problem in problems:
        if not problem.reference:
            raise ValueError(f"{problem.id} has no reference solution, with which task.reward.{channel} compares")


@dataclass(frozen=True)
class Span:
    """The reward `value` of the characters `start` to `end` (end excluded) of a completion's text.

    part: the part of the answer that it judges, by a name that all answers to the problem share, such as one of several
        functions. Empty: no part of its own. GRPO compares a part with the same part of its group's other answers.
    """

    start: int
    end: int
    value: float
    part: str = ""


def charged(code: tuple[int, int], score: float, places: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """A score in [0, 1] that was lost at some places: 1 on the whole code, and in equal parts on the places what the
    score lacks to 1. Without places there are no spans, so that the score is spread."""
    if not places:
        return ()
    return (Span(*code, 1.0), *(Span(*place, (score - 1.0) / len(places)) for place in places))


@dataclass(frozen=True)
class ChannelResult:
    """A channel's result for one completion.

    score: the reward before weighting. If there are `spans`, it must equal the sum of their values.
    spans: the characters responsible; empty if the channel cannot locate its reward.
    passed: whether the code is correct, from channels that judge correctness; None from the others.
    verdict: one word for logs ("pass", "fail", "timeout"...), may be empty.
    note: one line for a reader.
    detail: further facts for logs and figures, plain data.
    silent: the channel cannot judge this completion; its weight is divided among the other channels, in proportion to
        their own weights.
    picture: makes what a report draws of this completion, plain data. Evaluations call it for the few answers that
        they draw.
    """

    score: float
    spans: tuple[Span, ...] = field(default=())
    passed: bool | None = None
    verdict: str = ""
    note: str = ""
    silent: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)
    picture: Callable[[], Mapping[str, Any]] | None = field(default=None, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: all but `picture`, a function of the process that graded."""
        return self.__dict__ | {"picture": None}


class RewardChannel(Protocol):
    """A new channel is one file with a class like this and one entry under `reward:` in conf/task/<task>.yaml."""

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """One result for each completion, in order; None, never 0, if the infrastructure failed to grade it.

        A channel may also have `async ready(problems)`, which is called before a model loads: it prepares what it needs
        to grade those problems, and raises ValueError with a message of one line if that is not available. A channel
        has `best`, its highest possible score, if that is not 1: 0 for a channel that gives only penalties; and
        `pays_outside_code = True` if it may reward tokens outside the code (fences, prose, length).
        """
        ...


def pays_outside_code(channel: RewardChannel) -> bool:
    """Whether the channel may reward tokens outside the code; False unless it says so."""
    return getattr(channel, "pays_outside_code", False)
