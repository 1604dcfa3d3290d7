"""Scores of a run against the reference run: execution, header, density, skill.

Definitions and edge cases: specification of the completion evaluation, section 4.4. Damaged outputs of a candidate
lower its score; a damaged reference is an error, never a score.
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
from envs.etk.build.outputs import Outputs
from envs.etk.build.picture import FieldPicture, packed, small
from envs.etk.build.plotfile import Plotfile, PlotfileError, header_text, inject

Norm = Literal["l1", "l2", "linf"]
STAGES = ("compile", "execution", "header", "density")
EXPECT = tuple(f"plt{number:05d}" for number in range(1, 6))
MAX_REFINEMENT = 64
"""A candidate with more than this many times the reference's cells counts as damaged. Of its Header, at most this many
times the length of the reference's Header is read."""
ALWAYS_ALLOWED_CELLS = 1 << 24
"""This number of cells (128 MiB) is allowed even if the reference has far fewer."""
TIME_TOLERANCE = 1e-9
"""Relative difference up to which two times are equal."""


class ApplicationError(ValueError):
    """Configuration, cases or reference data that cannot be used; the message says what to do, in one line."""


@dataclass(frozen=True)
class Metric:
    """What is compared, and how.

    expect: names of the plotfiles that a run must write. field: the component that is compared. norm: of the
    difference, relative to the same norm of the reference. compare: the `last` expected plotfile, the `mean` over all,
    or a list of names. strict_finite: the execution fails if a value of `field` in any expected plotfile is not finite.
    weights: of the STAGES in the total.

    Raises:
        ApplicationError: an invalid value.
    """

    expect: Sequence[str] = EXPECT
    field: str = "density"
    norm: Norm = "l1"
    compare: str | Sequence[str] = "last"
    strict_finite: bool = True
    weights: Mapping[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(STAGES, 0.25))

    def __post_init__(self) -> None:
        if isinstance(self.expect, str) or not self.expect or not all(map(_plain_name, self.expect)):
            raise ApplicationError("expect: must be a list of at least one folder name")
        if self.norm not in ("l1", "l2", "linf"):
            raise ApplicationError(f"norm={self.norm!r}: must be l1, l2 or linf")
        if unknown := set(self.weights) - set(STAGES):
            raise ApplicationError(f"weights: unknown stage {', '.join(sorted(unknown))}; use {', '.join(STAGES)}")
        values = self.weights.values()
        if not all(math.isfinite(value) and value >= 0 for value in values) or not sum(values):
            raise ApplicationError("weights: none may be negative, and not all may be zero")
        if isinstance(self.compare, str) and self.compare not in ("last", "mean"):
            raise ApplicationError(f"compare={self.compare!r}: must be last, mean or a list of names")
        if not self.compared or not set(self.compared) <= set(self.expect):
            raise ApplicationError("compare: must name at least one plotfile, all of them in expect")

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the plotfiles whose fields are compared."""
        if self.compare == "last":
            return (self.expect[-1],)
        return tuple(self.expect if self.compare == "mean" else self.compare)

    def total(self, **scores: float) -> float:
        """Weighted mean over STAGES; a stage without a score counts as 0."""
        sums = sum(weight * scores.get(stage, 0.0) for stage, weight in self.weights.items())
        return sums / sum(self.weights.values())


def _plain_name(name: object) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(r"[\w.+-]+", name)) and name not in (".", "..")


@dataclass(frozen=True)
class RunScore:
    """The scores of a run.

    execution, header, density: in [0, 1]. baseline: the density score of the reference's initial field, which a program
    that does nothing would get. skill: the share of that field's error that the candidate avoids. Both are None if the
    reference has no initial plotfile. equal_time: if times differ, the density score at a time that both runs reached,
    with the later output interpolated linearly; None if the outputs do not allow it. picture: the field of the last
    compared plotfile in the cells of the reference's picture, as `packed` returns it; empty if it was not compared.
    """

    execution: float = 0.0
    header: float = 0.0
    density: float = 0.0
    skill: float | None = 0.0
    baseline: float | None = None
    time_mismatch: bool = False
    equal_time: float | None = None
    reasons: tuple[str, ...] = ()
    picture: str = ""


class Run:
    """The plotfiles of one run, each read once."""

    def __init__(self, outputs: Outputs, metric: Metric, max_cells: int | None = None) -> None:
        self.outputs, self.metric = outputs, metric
        self._limits = {} if max_cells is None else {"max_cells": max_cells}
        self.header = functools.cache(functools.partial(header_text, outputs))
        self.plotfile = functools.cache(functools.partial(Plotfile, outputs))
        self.values = functools.cache(self._values)

    def _values(self, name: str) -> np.ndarray:
        """The field at the finest level. Raises FileNotFoundError, KeyError, PlotfileError."""
        return self.plotfile(name).field(self.metric.field, **self._limits)

    def has(self, name: str) -> bool:
        """Whether the run has a plotfile of this name."""
        try:
            return bool(self.header(name))
        except FileNotFoundError:
            return False


class Reference(Run):
    """The reference run, which is checked on construction.

    Attributes:
        initial: name of the plotfile of its initial state, empty if there is none.
        baseline: the density score of that state, None if there is none.
        picture: of the field in the last compared plotfile, without a result.

    Raises:
        ApplicationError: a plotfile, Header or field is missing, damaged or not finite.
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
                    raise ApplicationError(f"reference: {metric.field} of {name} is not finite everywhere")
            except FileNotFoundError:
                raise ApplicationError(f"reference: no {name}/Header") from None
            except KeyError:
                raise ApplicationError(f"reference: {name} has no field {metric.field!r}") from None
            except PlotfileError as error:
                raise ApplicationError(f"reference: {error}") from None
        try:
            self.baseline = self._mean_similarity(self.values(self.initial)) if self.initial else None
        except ValueError:  # its levels do not divide those of a later output, so it cannot be compared
            self.initial, self.baseline = "", None
        name = metric.compared[-1]
        last, cells = self.plotfile(name), self.plotfile(name).finest_shape
        shown = packed(small(self.values(name), cells))
        self.picture = FieldPicture(metric.field, name, last.time, cells, shown)

    def failed(self, *reasons: str) -> RunScore:
        """The score of a run that failed."""
        return RunScore(skill=0.0 if self.initial else None, baseline=self.baseline, reasons=reasons)

    def score(self, outputs: Outputs) -> RunScore:
        """Compare a run whose exit status was 0."""
        largest = max(self.values(name).size for name in self.metric.compared)
        max_cells = max(ALWAYS_ALLOWED_CELLS, MAX_REFINEMENT * largest)
        run = Run(outputs, self.metric, max_cells)
        headers = []
        for name in self.metric.expect:
            try:
                expected = self.header(name)
                headers.append(word_bleu(run.header(name)[: MAX_REFINEMENT * len(expected)], expected))
            except FileNotFoundError as error:
                return self.failed(f"no {name}: {error}")
        if self.metric.strict_finite:
            not_finite = [name for name in self.metric.expect if _not_finite(run, name)]
            if not_finite:
                return self.failed(f"{self.metric.field} is not finite in {', '.join(not_finite)}")
        reasons: list[str] = []
        densities, skills = zip(*(self._field_scores(run, name, reasons) for name in self.metric.compared), strict=True)
        mistimed = [name for name in self.metric.expect if self._time_differs(run, name)]
        if mistimed:
            reasons.append(f"other times than the reference's: {', '.join(mistimed)}")
        return RunScore(
            execution=1.0,
            header=_mean(headers),
            density=_mean(densities),
            skill=_mean(skills) if self.initial else None,
            baseline=self.baseline,
            time_mismatch=bool(mistimed),
            equal_time=self._equal_time(run, densities) if mistimed else None,
            reasons=tuple(reasons),
            picture=self._picture_of(run),
        )

    def _picture_of(self, run: Run) -> str:
        name = self.picture.plotfile
        try:
            if run.plotfile(name).shape != self.plotfile(name).shape:
                return ""
            return packed(small(run.values(name), self.picture.cells))
        except (FileNotFoundError, KeyError, PlotfileError):
            return ""

    def _mean_similarity(self, values: np.ndarray) -> float:
        return _mean([self._similarity_to(name, values) for name in self.metric.compared])

    def _similarity_to(self, name: str, values: np.ndarray) -> float:
        expected = self.values(name)
        shape = tuple(map(max, values.shape[::-1], expected.shape[::-1]))
        return similarity(inject(values, shape), inject(expected, shape), self.metric.norm)

    def _field_scores(self, run: Run, name: str, reasons: list[str]) -> tuple[float, float]:
        """Density score and skill of one plotfile; if they are 0, the reason is added to `reasons`."""
        try:
            if run.plotfile(name).shape != self.plotfile(name).shape:
                raise PlotfileError(f"{name}: a domain of another size or dimension")
            values, expected = run.values(name), self.values(name)
            shape = tuple(map(max, values.shape[::-1], expected.shape[::-1]))
            try:
                values, expected = inject(values, shape), inject(expected, shape)
            except ValueError:
                raise PlotfileError(f"{name}: refinement levels that do not divide each other") from None
            if not np.isfinite(values).all():
                raise PlotfileError(f"{name}: {self.metric.field} is not finite")
        except KeyError:
            reasons.append(f"{name} has no field {self.metric.field!r}")
        except (FileNotFoundError, PlotfileError) as error:
            reasons.append(str(error))
        else:
            score = similarity(values, expected, self.metric.norm)
            if score == 0.0:
                reasons.append(f"{name}: {self.metric.field} differs by 100 % or more")
            return score, self._skill(values, expected)
        return 0.0, 0.0

    def _skill(self, values: np.ndarray, expected: np.ndarray) -> float:
        """The skill, at the resolution of the initial state if that is finer; 0 if the resolutions do not fit."""
        if not self.initial:
            return 0.0
        initial = self.values(self.initial)
        shape = tuple(map(max, expected.shape[::-1], initial.shape[::-1]))
        try:
            return skill(inject(values, shape), inject(expected, shape), inject(initial, shape), self.metric.norm)
        except ValueError:
            return 0.0

    def _time_differs(self, run: Run, name: str) -> bool:
        try:
            return not math.isclose(run.plotfile(name).time, self.plotfile(name).time, rel_tol=TIME_TOLERANCE)
        except PlotfileError:
            return False

    def _equal_time(self, run: Run, densities: Sequence[float]) -> float | None:
        """The mean density score, with each compared plotfile taken at the earlier of its two times."""
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
        """The candidate's and the reference's field at the earlier of their times; None if that is not possible."""
        time = min(run.plotfile(name).time, self.plotfile(name).time)
        if self.initial and time <= self.plotfile(self.initial).time:
            return None  # all runs agree at the beginning
        names = [*dict.fromkeys([*filter(None, [self.initial]), *self.metric.expect])]
        try:
            values, expected = (side.values(name) if side.plotfile(name).time <= time else _between(side, names, time)
                                for side in (run, self))  # fmt: skip
        except (FileNotFoundError, KeyError, PlotfileError):
            return None
        if values is None or expected is None or values.shape != expected.shape or not np.isfinite(values).all():
            return None
        return values, expected


def _between(run: Run, names: Sequence[str], time: float) -> np.ndarray | None:
    """A run's field at a time between two of its outputs, interpolated linearly; None without such outputs."""
    for before, after in itertools.pairwise(filter(run.has, names)):
        early, late = run.plotfile(before).time, run.plotfile(after).time
        if early <= time < late and run.values(before).shape == run.values(after).shape:
            share = (time - early) / (late - early)
            return (1 - share) * run.values(before) + share * run.values(after)
    return None


def _not_finite(run: Run, name: str) -> bool:
    """Whether the field can be read and has a value that is not finite."""
    try:
        return not np.isfinite(run.values(name)).all()
    except (FileNotFoundError, KeyError, PlotfileError):
        return False


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def similarity(candidate: np.ndarray, reference: np.ndarray, norm: Norm = "l1") -> float:
    """max(0, 1 - |a - r| / |r|) of arrays of one shape; 0 if a value, or the difference, is not finite."""
    if not np.isfinite(candidate).all():
        return 0.0
    if not reference.any():
        return 0.0 if candidate.any() else 1.0
    candidate, reference = _scaled(reference, candidate, reference)
    return max(0.0, 1.0 - _share(_size(candidate - reference, norm), _size(reference, norm)))


def skill(candidate: np.ndarray, reference: np.ndarray, initial: np.ndarray, norm: Norm = "l1") -> float:
    """max(0, 1 - |a - r| / |r0 - r|): 0 is no better than the initial state r0."""
    candidate, reference, initial = _scaled(reference, candidate, reference, initial)
    error, initial_error = _size(candidate - reference, norm), _size(initial - reference, norm)
    if not initial_error:
        return 0.0 if error else 1.0
    return max(0.0, 1.0 - _share(error, initial_error))


def _scaled(by: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays divided by the power of two next to the largest value of `by`: sums then neither overflow nor vanish."""
    exponent = int(np.frexp(np.abs(by).max())[1])
    with np.errstate(over="ignore"):
        return [np.ldexp(array, -exponent) for array in arrays]


def _size(array: np.ndarray, norm: Norm) -> float:
    with np.errstate(over="ignore"):
        if norm == "linf":
            return float(np.abs(array).max())
        return float(np.abs(array).sum() if norm == "l1" else np.sqrt(np.square(array).sum()))


def _share(part: float, whole: float) -> float:
    """part / whole; infinite if `part` overflowed."""
    return part / whole if math.isfinite(part) else math.inf
