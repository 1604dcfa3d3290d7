"""What a reward channel sees and says: Completion, Span, ChannelResult, RewardChannel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs.task import Problem


@dataclass(frozen=True)
class Completion:
    """One sampled answer.

    text: the answer without special tokens.
    token_ids: the T sampled ids, end-of-sequence included where it was drawn.
    offsets: T pairs (start, end) in characters of `text`; special tokens have start == end.
    code_span: (start, end) in characters of the code the task extracted, None where it found none.
    finished: False where the length limit cut the answer.
    closed: True where the code stands in a complete fenced block.
    """

    text: str
    token_ids: Sequence[int]
    offsets: Sequence[tuple[int, int]]
    code_span: tuple[int, int] | None = None
    finished: bool = True
    closed: bool = False

    @property
    def code(self) -> str | None:
        return None if self.code_span is None else self.text[self.code_span[0] : self.code_span[1]]


@dataclass(frozen=True)
class Span:
    """`value` of reward earned by the characters `start` to `end` (end excluded) of a completion's text."""

    start: int
    end: int
    value: float


@dataclass(frozen=True)
class ChannelResult:
    """What a channel says of one completion.

    score: the reward before weighting. Where `spans` are given it must equal the sum of their values.
    spans: the characters responsible; empty where the channel cannot point.
    passed: whether the answer is right, from channels that judge correctness; None from the others.
    verdict: one word for logs ("pass", "fail", "timeout"...), empty where there is none.
    note: one line for a reader.
    detail: further facts for logs and drawings, plain data.
    silent: the channel has nothing to say of this completion; the others are paid its weight in proportion to theirs.
    """

    score: float
    spans: tuple[Span, ...] = field(default=())
    passed: bool | None = None
    verdict: str = ""
    note: str = ""
    silent: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)


class RewardChannel(Protocol):
    """A new channel is one file with a class like this and one entry under `reward:` in conf/task/<task>.yaml."""

    judges_form: bool  # True: may reward tokens outside the code (fences, prose, length)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """One result a completion, in order. None: could not be graded (infrastructure), never a zero.

        A channel may also have `async ready(problems)`: called before a model loads, it prepares what grading those
        problems takes, and raises ValueError with one line where that cannot be had.
        """
        ...
