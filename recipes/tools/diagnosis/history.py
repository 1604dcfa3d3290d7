"""A run's records as the diagnosis reads them: its steps in three windows, first, middle and last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from recipes.records.jsonl import Record, by_step, finite, read_config, read_jsonl, setting, stream_jsonl
from recipes.tools.diagnosis.windows import MIN_WINDOW, Change, change, mean, steps_text, three_digits, values

MIN_STEPS = 15
"""Steps below which no trend is judged: three windows of five."""
MAX_WINDOW = 50
"""Steps in a window at most, so that what began late in a long run is not averaged away."""
MAX_TEXT = 400
"""Characters of an answer that are kept to compare it with others; a long run's answers would fill the memory."""
SOLVED = 0.9
"""Share of samples that pass from which a task counts as learned; the rest is exploration at temperature 1."""
SIGNIFICANT = 3.0
"""Standard errors of a real change: with some ten comparisons a run, one run in a hundred has a false one."""
SELECTED = ("reward", "pass_rate")
"""Metrics that also exist as `from_prompt/`: of answers that neither a refill nor a prefix has selected."""
MIN_RISE = 0.1
"""Rise in reward, as a share of the largest, that is progress: learning the form alone, at a weight of 0.1, is less."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the diagnosis needs of one line of completions.jsonl, which starts at byte `offset`."""

    offset: int
    step: int
    task_id: str
    reward: float | None
    verdict: str
    completion: str
    """Its first MAX_TEXT characters."""


Evaluated = tuple[str, str, float, str, int]
"""An evaluation: task, split, temperature, when, step. One that was made again with other samples is the same."""


@dataclass(frozen=True)
class History:
    """A run's records: configuration, metrics (a row a step, in order), stored answers, evaluations."""

    config: Record
    rows: list[Record]
    answers: list[Answer]
    evals: list[Record]
    held_out: Mapping[Evaluated, Mapping[str, float]] = field(default_factory=dict)
    """For each evaluation: the share of a problem's graded answers that passed, by the problem's id."""

    @cached_property
    def judged(self) -> list[Record]:
        """The rows by which trends are judged: those of steps with a rollout where not all have one
        (recipe.trl.num_iterations above 1)."""
        return [row for row in self.rows if finite(row.get("reward"))] or self.rows

    @cached_property
    def window(self) -> int:
        """Rows in the first and in the last window: a third of the run within the bounds above."""
        return min(MAX_WINDOW, max(MIN_WINDOW, len(self.judged) // 3))

    @property
    def first(self) -> list[Record]:
        return self.judged[: self.window]

    @property
    def middle(self) -> list[Record]:
        return self.judged[self.window : -self.window]

    @property
    def last(self) -> list[Record]:
        return self.judged[-self.window :]

    @property
    def early_steps(self) -> str:
        """The first window in words."""
        return steps_text(self.first)

    @property
    def late_steps(self) -> str:
        """The last window in words."""
        return steps_text(self.last)

    def text(self, change: Change) -> str:
        """A change from the first window to the last: `0.12 (steps 1 to 20) to 0.3 (steps 41 to 60)`."""
        before, after = three_digits(change.before), three_digits(change.after)
        return f"{before} ({self.early_steps}) to {after} ({self.late_steps})"

    @cached_property
    def late_answers(self) -> list[Answer]:
        """The graded stored answers of the last window."""
        start = self.last[0]["step"] if self.last else 0
        return [a for a in self.answers if a.step >= start and a.reward is not None]

    def change(self, key: str) -> Change | None:
        """From the first window to the last; None where either has fewer than MIN_WINDOW values."""
        return change(values(self.first, key), values(self.last, key))

    def fall(self, key: str) -> tuple[list[Record], Change] | None:
        """The largest significant fall of a metric to the last window, and the earlier window it fell from."""
        changes = [(rows, change(values(rows, key), values(self.last, key))) for rows in (self.first, self.middle)]
        falls = [(rows, c) for rows, c in changes if c is not None and c.z <= -SIGNIFICANT]
        return min(falls, key=lambda fall: fall[1].rise, default=None)

    @cached_property
    def improved(self) -> bool:
        """Whether the reward is significantly higher than at first, by more than the form of answers pays."""
        reward = self.change("reward")
        return reward is not None and reward.z >= SIGNIFICANT and reward.rise >= MIN_RISE * self.largest_reward

    def setting(self, dotted: str) -> Any:
        """The configuration's value at a dotted key, None where it has none."""
        return setting(self.config, dotted)

    @cached_property
    def answers_per_prompt(self) -> int | None:
        """Completions sampled for each prompt of a step; None where the configuration does not say."""
        count = self.setting("recipe.trl.num_generations") or self.setting("recipe.samples_per_prompt")
        return count if type(count) is int else None

    @cached_property
    def answers_per_step(self) -> int | None:
        """Completions sampled in a step; None where the configuration does not say."""
        prompts = self.setting("recipe.prompts_per_step")
        return prompts * self.answers_per_prompt if type(prompts) is int and self.answers_per_prompt else None

    @cached_property
    def channels(self) -> dict[str, Record]:
        """The reward channels' configurations by name."""
        channels = self.setting("task.reward")
        return {n: c for n, c in channels.items() if isinstance(c, dict)} if isinstance(channels, dict) else {}

    @cached_property
    def form_channel(self) -> str | None:
        """The name of the channel that pays for the form of an answer, None without one."""
        forms = (name for name, c in self.channels.items() if str(c.get("_target_", "")).endswith(".Form"))
        return next(forms, None)

    @cached_property
    def largest_reward(self) -> float:
        """The reward of an answer that every channel gives a score of 1: the sum of their weights, or their mean's."""
        paid = (c for c in self.channels.values() if c.get("enabled", True) and finite(c.get("weight")))
        total = sum(abs(float(c["weight"])) for c in paid) or 1.0
        return 1.0 if self.setting("task.mean_reward") else total

    @cached_property
    def solved(self) -> bool:
        """Whether nearly every late sample passes (SOLVED): what looks like collapse is then convergence."""
        passed, reward = values(self.last, "pass_rate"), values(self.last, "reward")
        if passed and mean(passed) >= SOLVED:
            return True
        return bool(reward) and mean(reward) >= SOLVED * self.largest_reward


def load_history(folder: Path) -> History:
    """The records of a run directory.

    Raises FileNotFoundError without config.yaml, and ValueError for a file that is not YAML or JSON lines.
    """
    config, _ = read_config(folder / "config.yaml")
    evals = read_jsonl(folder / "evals.jsonl")
    return history(
        config,
        by_step(read_jsonl(folder / "metrics.jsonl")),
        stream_jsonl(folder / "completions.jsonl"),
        evals,
        shares_passed(with_splits((row for _, row in stream_jsonl(folder / "eval_samples.jsonl")), evals)),
    )


def history(
    config: Record,
    steps: dict[int, Record],
    completions: Iterable[tuple[int, Record]],
    evals: list[Record],
    held_out: Mapping[Evaluated, Mapping[str, float]] | None = None,
) -> History:
    """A History of rows by step, (byte offset, row) of completions.jsonl, rows of evals.jsonl, and `shares_passed`.

    Reward and pass rate are those of all answers from the prompt alone where the run trained on a selection of them.
    """
    rows = [
        row | {"step": step} | {k: row[f"from_prompt/{k}"] for k in SELECTED if f"from_prompt/{k}" in row}
        for step, row in steps.items()
    ]
    return History(config, rows, [answer(offset, row) for offset, row in completions], evals, held_out or {})


def evaluated(row: Record) -> Evaluated:
    """Which evaluation a row of evals.jsonl or of eval_samples.jsonl belongs to."""
    task, split = str(row.get("task")), str(row.get("split"))
    return task, split, float(row.get("temperature") or 0.0), str(row.get("when")), int(row.get("step") or 0)


def with_splits(samples: Iterable[Record], evals: Sequence[Record]) -> Iterator[Record]:
    """Rows of eval_samples.jsonl with the `split` of their evaluation: older versions wrote it to evals.jsonl alone."""
    unsaid = {"split": None}
    splits = {evaluated(row | unsaid): row.get("split") for row in evals}
    only = next(iter(splits.values()), None) if len({*splits.values()}) == 1 else None
    return ({"split": splits.get(evaluated(row | unsaid), only)} | row for row in samples)


def shares_passed(rows: Iterable[Record]) -> dict[Evaluated, dict[str, float]]:
    """For each evaluation the share of each problem's graded answers that passed, of rows of eval_samples.jsonl that
    have a split. Of an evaluation that was made again, with other samples for example, the later answers hold."""
    verdicts: dict[Evaluated, dict[tuple[str, int], bool | None]] = defaultdict(dict)
    for number, row in enumerate(rows):
        key, place = evaluated(row), (str(row.get("task_id")), int(row.get("sample", number)))
        if place in verdicts[key]:
            verdicts[key] = {}
        verdicts[key][place] = row.get("passed")
    shares = {}
    for key, passed in verdicts.items():
        by_problem: dict[str, list[bool]] = defaultdict(list)
        for (problem, _), verdict in passed.items():
            if verdict is not None:
                by_problem[problem].append(bool(verdict))
        shares[key] = {problem: fmean(each) for problem, each in by_problem.items()}
    return shares


def answer(offset: int, row: Record) -> Answer:
    """The part of a line of completions.jsonl that is kept."""
    reward, step, text = row.get("reward"), row.get("step"), row.get("completion")
    text = text if isinstance(text, str) else ""
    return Answer(
        offset,
        step=int(step) if step is not None and finite(step) else 0,
        task_id=str(row.get("task_id", "")),
        reward=float(reward) if reward is not None and finite(reward) else None,
        verdict=str(row.get("verdict", "")),
        completion=text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ({len(text)} characters)",
    )
