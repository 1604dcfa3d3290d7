"""A run's records as the diagnosis reads them: windows of steps, and statistics that one odd step does not move."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from recipes.support.charts import Record, finite, number
from recipes.support.records import by_step, read_config, records, setting

STEPS_LEAST = 15
"""Steps below which no trend is judged: three windows of five."""
WINDOW_LEAST = 5
"""Steps in a window at least: fewer have no standard error to speak of, at 16 to 64 samples a step."""
WINDOW_MOST = 50
"""Steps in a window at most, so that what began late in a long run is not averaged away."""
TEXT_KEPT = 400
"""Characters of an answer that are kept to compare it with others; a long run's answers would fill the memory."""
SOLVED = 0.9
"""Share of samples that pass from which a task counts as learned; the rest is exploration at temperature 1."""
SURE = 3.0
"""Standard errors of a change that is called one: with some ten comparisons a run, a false alarm in a hundred runs."""
ROSE = 0.1
"""Rise in reward, as a share of the largest, that is progress: learning the form alone, at a weight of 0.1, is less."""
ONE_SIDED = 1.645
"""Normal quantile of 95 %."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the diagnosis needs of one line of completions.jsonl, which starts at byte `offset`."""

    offset: int
    step: int
    task_id: str
    reward: float | None
    verdict: str
    completion: str
    """Its first TEXT_KEPT characters."""
    block: bool
    """Whether it has a complete code block."""


class Change(NamedTuple):
    """A metric's mean in two windows; `z` is the difference in standard errors."""

    before: float
    after: float
    z: float
    error: float
    """Standard error of `after - before`."""

    @property
    def rise(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class History:
    """A run's records: configuration, metrics (a row a step, in order), stored answers, evaluations."""

    config: Record
    rows: list[Record]
    answers: list[Answer]
    evals: list[Record]

    @cached_property
    def size(self) -> int:
        """Steps in the first and in the last window: a third of the run within the bounds above."""
        return min(WINDOW_MOST, max(WINDOW_LEAST, len(self.rows) // 3))

    @property
    def first(self) -> list[Record]:
        return self.rows[: self.size]

    @property
    def middle(self) -> list[Record]:
        return self.rows[self.size : -self.size]

    @property
    def last(self) -> list[Record]:
        return self.rows[-self.size :]

    @cached_property
    def late_answers(self) -> list[Answer]:
        """The graded stored answers of the last window."""
        start = self.last[0]["step"] if self.last else 0
        return [a for a in self.answers if a.step >= start and a.reward is not None]

    def change(self, key: str) -> Change | None:
        """From the first window to the last; None where either has fewer than WINDOW_LEAST values."""
        return change(values(self.first, key), values(self.last, key))

    @cached_property
    def improved(self) -> bool:
        """Whether the reward is surely higher than it was, and by more than the form of answers pays."""
        reward = self.change("reward")
        return reward is not None and reward.z >= SURE and reward.rise >= ROSE * self.reward_scale

    def setting(self, dotted: str) -> Any:
        """The configuration's value at a dotted key, None where it has none."""
        return setting(self.config, dotted)

    @cached_property
    def samples_per_step(self) -> int:
        """Completions a step; 1 where the configuration does not say."""
        prompts = self.setting("recipe.prompts_per_step")
        each = self.setting("recipe.num_generations") or self.setting("recipe.samples_per_prompt")
        return prompts * each if type(prompts) is int and type(each) is int else 1

    @cached_property
    def channels(self) -> dict[str, Record]:
        """The reward channels' configurations by name."""
        found = self.setting("task.reward")
        return {n: c for n, c in found.items() if isinstance(c, dict)} if isinstance(found, dict) else {}

    @cached_property
    def reward_scale(self) -> float:
        """The reward of an answer that every channel gives a score of 1: the sum of their weights."""
        return sum(abs(float(c["weight"])) for c in self.channels.values() if finite(c.get("weight"))) or 1.0

    @cached_property
    def solved(self) -> bool:
        """Whether nearly every sample passes now (SOLVED): what looks like collapse is then convergence."""
        passed = values(self.last, "pass_rate")
        reward = values(self.last, "reward")
        if passed and mean(passed) >= SOLVED:
            return True
        return bool(reward) and mean(reward) >= SOLVED * self.reward_scale


def load_history(folder: Path) -> History:
    """The records of a run directory.

    Raises FileNotFoundError without config.yaml and ValueError for a file that cannot be read as what it is.
    """
    config, _ = read_config(folder / "config.yaml")
    return history(
        config,
        by_step(row for _, row in records(folder / "metrics.jsonl")),
        records(folder / "completions.jsonl"),
        [row for _, row in records(folder / "evals.jsonl")],
    )


def history(
    config: Record, steps: dict[int, Record], completions: Iterable[tuple[int, Record]], evals: list[Record]
) -> History:
    """A History of rows by step, (byte offset, row) of completions.jsonl, and rows of evals.jsonl."""
    rows = [row | {"step": step} for step, row in steps.items()]
    return History(config, rows, [answer(offset, row) for offset, row in completions], evals)


def answer(offset: int, row: Record) -> Answer:
    """The part of a line of completions.jsonl that is kept."""
    reward, step, text = row.get("reward"), row.get("step"), row.get("completion")
    text = text if isinstance(text, str) else ""
    kept = text if len(text) <= TEXT_KEPT else f"{text[:TEXT_KEPT]} ({len(text)} characters)"
    return Answer(
        offset,
        int(step) if step is not None and finite(step) else 0,
        str(row.get("task_id", "")),
        float(reward) if reward is not None and finite(reward) else None,
        str(row.get("verdict", "")),
        kept,
        bool(row.get("closed", row.get("code_span") is not None)),
    )


def values(rows: Sequence[Record], key: str) -> list[float]:
    """The finite values of a metric."""
    return [float(row[key]) for row in rows if finite(row.get(key))]


def mean(found: Sequence[float]) -> float:
    """Arithmetic mean, for shares and rewards; metrics without bounds (KL, loss, seconds) take their median."""
    return sum(found) / len(found)


def median(found: Sequence[float]) -> float | None:
    """The median, None of fewer than WINDOW_LEAST values."""
    return statistics.median(found) if len(found) >= WINDOW_LEAST else None


def change(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """Difference of two windows' means, with Welch's standard error; None where either has too few values."""
    if min(len(before), len(after)) < WINDOW_LEAST:
        return None
    error = math.sqrt(sum(statistics.variance(found) / len(found) for found in (before, after)))
    rise = mean(after) - mean(before)
    return Change(mean(before), mean(after), rise / max(error, 1e-9), error)


def at_least(count: float, of: float, normal: float = ONE_SIDED) -> float:
    """Lower end of the one-sided interval of a share (Wilson 1927), of 95 % unless told otherwise; 0 of nothing."""
    if of <= 0:
        return 0.0
    share, z2 = min(1.0, count / of), normal**2
    spread = normal * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, (share + z2 / (2 * of) - spread) / (1 + z2 / of))


def span(rows: Sequence[Record]) -> str:
    """`step 3` or `steps 41 to 60`."""
    first, last = rows[0]["step"], rows[-1]["step"]
    return f"step {first}" if first == last else f"steps {first} to {last}"


def brief(value: float) -> str:
    """A number at three significant digits, with a plain hyphen."""
    return number(float(f"{value:.3g}")).replace("\N{MINUS SIGN}", "-")


def percent(share: float) -> str:
    """`3%`, with a decimal below ten per cent: `1.5%`."""
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"
