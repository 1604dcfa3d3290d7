"""Scores of a run against the reference run: execution, header, density, skill.

Definitions and edge cases: specification of the completion evaluation, section 4.4. A candidate's damage costs it
points; damage of the reference is an error, never a score.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from envs.bleu import word_bleu
from envs.etk.completion.outputs import Outputs
from envs.etk.completion.plotfile import Plotfile, PlotfileError, header_text, inject

Norm = Literal["l1", "l2", "linf"]
STAGES = ("compile", "execution", "header", "density")
EXPECT = tuple(f"plt{number:05d}" for number in range(1, 6))
FINER = 64
"""A candidate with more than this many times the reference's cells counts as damaged, and no more than this many times
the length of its Header is read."""
AFFORDED = 1 << 24
"""So many cells are no damage, whatever the reference has: 128 MiB, also where a candidate's files are empty."""
SAME_TIME = 1e-9


class CompletionError(ValueError):
    """Configuration or reference data that nothing can be scored with; the text says what to do, in one line."""


@dataclass(frozen=True)
class Metric:
    """What is compared, and how.

    expect: names of the plotfiles that a run must write. field: the component compared.
    norm: of the difference, over the same norm of the reference. compare: `last` expected plotfile, `mean` over all,
    or names. strict_finite: a value of `field` that is not finite in any expected plotfile fails the execution.
    weights: of STAGES in the total.

    Raises:
        CompletionError: any of these that makes no sense.
    """

    expect: Sequence[str] = EXPECT
    field: str = "density"
    norm: Norm = "l1"
    compare: str | Sequence[str] = "last"
    strict_finite: bool = True
    weights: Mapping[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(STAGES, 0.25))

    def __post_init__(self) -> None:
        if isinstance(self.expect, str) or not self.expect or not all(map(_plain_name, self.expect)):
            raise CompletionError("expect: a list of folder names, at least one")
        if self.norm not in ("l1", "l2", "linf"):
            raise CompletionError(f"norm: l1, l2 or linf, not {self.norm!r}")
        if unknown := set(self.weights) - set(STAGES):
            raise CompletionError(f"weights: no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
        values = self.weights.values()
        if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values):
            raise CompletionError("weights: none negative, not all zero")
        if isinstance(self.compare, str) and self.compare not in ("last", "mean"):
            raise CompletionError(f"compare: last, mean or a list of names, not {self.compare!r}")
        if not self.compared or not set(self.compared) <= set(self.expect):
            raise CompletionError("compare: names that are not in expect, or none")

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the plotfiles whose fields are compared."""
        if self.compare == "last":
            return (self.expect[-1],)
        return tuple(self.expect if self.compare == "mean" else self.compare)

    def total(self, **scores: float) -> float:
        """Weighted mean of STAGES; one that is not given counts as zero."""
        sums = sum(weight * scores.get(stage, 0.0) for stage, weight in self.weights.items())
        return sums / sum(self.weights.values())


def _plain_name(name: object) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(r"[\w.+-]+", name)) and name not in (".", "..")


@dataclass(frozen=True)
class RunScore:
    """How a run compares.

    execution, header, density: in [0, 1]. baseline: the density score of the reference's initial field, which is
    what doing nothing earns. skill: the share of that field's error that the candidate avoids. Both None where the
    reference has no initial plotfile. equal_time: where times differ, the density score at a time that both runs
    passed, the later one interpolated linearly; None where its outputs do not allow it.
    """

    execution: float = 0.0
    header: float = 0.0
    density: float = 0.0
    skill: float | None = 0.0
    baseline: float | None = None
    time_mismatch: bool = False
    equal_time: float | None = None
    reasons: tuple[str, ...] = ()


class Run:
    """One run's plotfiles, each read once."""

    def __init__(self, outputs: Outputs, metric: Metric, most_cells: int | None = None) -> None:
        self.outputs, self.metric = outputs, metric
        self._most = {} if most_cells is None else {"most_cells": most_cells}
        self.header = functools.cache(functools.partial(header_text, outputs))
        self.plotfile = functools.cache(functools.partial(Plotfile, outputs))
        self.values = functools.cache(self._values)

    def _values(self, name: str) -> np.ndarray:
        """The field at the finest level. Raises FileNotFoundError, KeyError, PlotfileError."""
        return self.plotfile(name).field(self.metric.field, **self._most)

    def has(self, name: str) -> bool:
        """Whether there is a plotfile of that name."""
        try:
            return bool(self.header(name))
        except FileNotFoundError:
            return False


class Reference(Run):
    """The reference run, checked when made.

    Attributes:
        initial: name of the plotfile of its initial state, empty where there is none.
        baseline: the density score of that state, None without.

    Raises:
        CompletionError: a plotfile, Header or field that is missing, damaged or not finite.
    """

    def __init__(self, outputs: Outputs, metric: Metric) -> None:
        super().__init__(outputs, metric)
        self.initial = re.sub(r"\d+$", lambda digits: "0" * len(digits[0]), metric.expect[0])
        if not self.has(self.initial):
            self.initial = ""
        for name in dict.fromkeys([*metric.expect, *filter(None, [self.initial])]):
            try:
                if metric.field not in self.plotfile(name).names:
                    raise KeyError(metric.field)
                if not np.isfinite(self.values(name)).all():
                    raise CompletionError(f"reference: {metric.field} of {name} is not finite everywhere")
            except FileNotFoundError:
                raise CompletionError(f"reference: no {name}/Header") from None
            except KeyError:
                raise CompletionError(f"reference: {name} has no field {metric.field!r}") from None
            except PlotfileError as error:
                raise CompletionError(f"reference: {error}") from None
        try:
            self.baseline = self._mean_similarity(self.values(self.initial)) if self.initial else None
        except ValueError:  # levels that do not divide those of a later output: no state to begin from
            self.initial, self.baseline = "", None

    def failed(self, *reasons: str) -> RunScore:
        """The score of a run that did not end well."""
        return RunScore(skill=0.0 if self.initial else None, baseline=self.baseline, reasons=reasons)

    def score(self, outputs: Outputs) -> RunScore:
        """Compare a run that ended well by its exit status."""
        most = max(AFFORDED, FINER * max(self.values(name).size for name in self.metric.compared))
        run = Run(outputs, self.metric, most)
        headers = []
        for name in self.metric.expect:
            try:
                its = self.header(name)
                headers.append(word_bleu(run.header(name)[: FINER * len(its)], its))
            except FileNotFoundError as error:
                return self.failed(f"no {name}: {error}")
        if self.metric.strict_finite:
            spoilt = [name for name in self.metric.expect if _spoilt(run, name)]
            if spoilt:
                return self.failed(f"{self.metric.field} is not finite in {', '.join(spoilt)}")
        reasons: list[str] = []
        densities, skills = zip(*(self._field_scores(run, name, reasons) for name in self.metric.compared), strict=True)
        late = [name for name in self.metric.expect if self._time_differs(run, name)]
        if late:
            reasons.append(f"other times than the reference's: {', '.join(late)}")
        return RunScore(
            execution=1.0,
            header=_mean(headers),
            density=_mean(densities),
            skill=_mean(skills) if self.initial else None,
            baseline=self.baseline,
            time_mismatch=bool(late),
            equal_time=self._equal_time(run, densities) if late else None,
            reasons=tuple(reasons),
        )

    def _mean_similarity(self, values: np.ndarray) -> float:
        return _mean([self._similarity_to(name, values) for name in self.metric.compared])

    def _similarity_to(self, name: str, values: np.ndarray) -> float:
        its = self.values(name)
        shape = tuple(map(max, values.shape[::-1], its.shape[::-1]))
        return similarity(inject(values, shape), inject(its, shape), self.metric.norm)

    def _field_scores(self, run: Run, name: str, reasons: list[str]) -> tuple[float, float]:
        """Density score and skill of one plotfile; why they are zero goes to `reasons`."""
        try:
            if run.plotfile(name).shape != self.plotfile(name).shape:
                raise PlotfileError(f"{name}: a domain of another size or dimension")
            mine, its = run.values(name), self.values(name)
            shape = tuple(map(max, mine.shape[::-1], its.shape[::-1]))
            try:
                mine, its = inject(mine, shape), inject(its, shape)
            except ValueError:
                raise PlotfileError(f"{name}: refinement levels that do not divide each other") from None
            if not np.isfinite(mine).all():
                raise PlotfileError(f"{name}: {self.metric.field} is not finite")
        except KeyError:
            reasons.append(f"{name} has no field {self.metric.field!r}")
        except (FileNotFoundError, PlotfileError) as error:
            reasons.append(str(error))
        else:
            score = similarity(mine, its, self.metric.norm)
            if score == 0.0:
                reasons.append(f"{name}: {self.metric.field} differs by all of it or more")
            return score, self._skill(mine, its)
        return 0.0, 0.0

    def _skill(self, mine: np.ndarray, its: np.ndarray) -> float:
        """Of arrays of one shape, composed to the initial state's where that is finer; 0 where that cannot be."""
        if not self.initial:
            return 0.0
        start = self.values(self.initial)
        shape = tuple(map(max, its.shape[::-1], start.shape[::-1]))
        try:
            return skill(inject(mine, shape), inject(its, shape), inject(start, shape), self.metric.norm)
        except ValueError:
            return 0.0

    def _time_differs(self, run: Run, name: str) -> bool:
        try:
            return not math.isclose(run.plotfile(name).time, self.plotfile(name).time, rel_tol=SAME_TIME)
        except PlotfileError:
            return False

    def _equal_time(self, run: Run, densities: Sequence[float]) -> float | None:
        """The mean density score where each compared plotfile is taken at the earlier of its two times."""
        scores = []
        for name, score in zip(self.metric.compared, densities, strict=True):
            if self._time_differs(run, name):
                pair = self._at_one_time(run, name)
                if pair is None:
                    return None
                score = similarity(*pair, self.metric.norm)
            scores.append(score)
        return _mean(scores)

    def _at_one_time(self, run: Run, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """The candidate's and the reference's field at the earlier of their times, None where that cannot be."""
        time = min(run.plotfile(name).time, self.plotfile(name).time)
        if self.initial and time <= self.plotfile(self.initial).time:
            return None  # at the beginning all runs agree
        names = [*dict.fromkeys([*filter(None, [self.initial]), *self.metric.expect])]
        try:
            mine, its = (side.values(name) if side.plotfile(name).time <= time else _between(side, names, time)
                         for side in (run, self))  # fmt: skip
        except (FileNotFoundError, KeyError, PlotfileError):
            return None
        if mine is None or its is None or mine.shape != its.shape or not np.isfinite(mine).all():
            return None
        return mine, its


def _between(run: Run, names: Sequence[str], time: float) -> np.ndarray | None:
    """A run's field at a time between two of those outputs that it has, by linear interpolation."""
    for before, after in itertools.pairwise(filter(run.has, names)):
        early, late = run.plotfile(before).time, run.plotfile(after).time
        if early <= time < late and run.values(before).shape == run.values(after).shape:
            share = (time - early) / (late - early)
            return (1 - share) * run.values(before) + share * run.values(after)
    return None


def _spoilt(run: Run, name: str) -> bool:
    """Whether the field can be read and has a value that is not finite."""
    try:
        return not np.isfinite(run.values(name)).all()
    except (FileNotFoundError, KeyError, PlotfileError):
        return False


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def similarity(candidate: np.ndarray, reference: np.ndarray, norm: Norm = "l1") -> float:
    """max(0, 1 - |a - r| / |r|) of arrays of one shape; 0 where a value, or the difference, is not finite."""
    if not np.isfinite(candidate).all():
        return 0.0
    if not reference.any():
        return 0.0 if candidate.any() else 1.0
    candidate, reference = _scaled(reference, candidate, reference)
    return max(0.0, 1.0 - _share(_size(candidate - reference, norm), _size(reference, norm)))


def skill(candidate: np.ndarray, reference: np.ndarray, initial: np.ndarray, norm: Norm = "l1") -> float:
    """max(0, 1 - |a - r| / |r0 - r|): 0 is no better than doing nothing."""
    candidate, reference, initial = _scaled(reference, candidate, reference, initial)
    error, most = _size(candidate - reference, norm), _size(initial - reference, norm)
    if not most:
        return 0.0 if error else 1.0
    return max(0.0, 1.0 - _share(error, most))


def _scaled(by: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays over the power of two next to the largest value of `by`: sums then neither overflow nor vanish."""
    exponent = int(np.frexp(np.abs(by).max())[1])
    with np.errstate(over="ignore"):
        return [np.ldexp(array, -exponent) for array in arrays]


def _size(array: np.ndarray, norm: Norm) -> float:
    with np.errstate(over="ignore"):
        if norm == "linf":
            return float(np.abs(array).max())
        return float(np.abs(array).sum() if norm == "l1" else np.sqrt(np.square(array).sum()))


def _share(part: float, whole: float) -> float:
    """Their ratio; infinite where the part overflowed."""
    return part / whole if math.isfinite(part) else math.inf
