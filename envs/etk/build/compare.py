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
from envs.etk.build.composite import Field, on_common_cells
from envs.etk.build.formats import FORMATS
from envs.etk.build.outputs import Outputs
from envs.etk.build.picture import FieldPicture, drawn
from envs.etk.build.plotfile import PlotfileError
from envs.etk.build.rounding import LARGEST, TIME_TOLERANCE, allowed, without_rounding

Norm = Literal["l1", "l2", "linf"]
STAGES = ("compile", "execution", "header", "density")
EXPECT = tuple(f"plt{number:05d}" for number in range(1, 6))
MAX_HEADER = 64
"""Of a candidate's Header, at most this many times the length of the reference's Header is compared."""


class ApplicationError(ValueError):
    """Configuration, cases or reference data that cannot be used; the message says what to do, in one line."""


@dataclass(frozen=True)
class Metric:
    """What is compared, and how.

    expect: names of the results that a run must write, such as plt00001 or out/heat_0010.txt. format: one of FORMATS
    (formats.py). field: the component, column or array that is compared. norm: of the difference, relative to the same
    norm of the reference. compare: the `last` expected result, the `mean` over all, or a list of names. strict_finite:
    the execution fails if a value of `field` in any expected result is not finite. weights: of the STAGES in the total.

    Raises:
        ApplicationError: an invalid value.
    """

    expect: Sequence[str] = EXPECT
    format: str = "amrex"
    field: str = "density"
    norm: Norm = "l1"
    compare: str | Sequence[str] = "last"
    strict_finite: bool = True
    weights: Mapping[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(STAGES, 0.25))

    def __post_init__(self) -> None:
        if isinstance(self.expect, str) or not self.expect or not all(map(_plain_name, self.expect)):
            raise ApplicationError("expect: must be a list of at least one name of a result, a path inside the run")
        if self.format not in FORMATS:
            raise ApplicationError(f"format={self.format!r}: must be one of {', '.join(FORMATS)}")
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
            raise ApplicationError("compare: must name at least one result, all of them in expect")

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the results whose fields are compared."""
        if self.compare == "last":
            return (self.expect[-1],)
        return tuple(self.expect if self.compare == "mean" else self.compare)

    @property
    def initial(self) -> str:
        """The name that the result of the initial state would have: the first expected one with the number at its end
        set to 0, as plt00000 or heat_0000.txt; empty where it has no number."""
        name, numbered = re.subn(r"\d+(?=(?:\.[a-zA-Z]\w*)?$)", _zeros, self.expect[0], count=1)
        return name if numbered else ""

    def total(self, **scores: float) -> float:
        """Weighted mean over STAGES; a stage without a score counts as 0."""
        sums = sum(weight * scores.get(stage, 0.0) for stage, weight in self.weights.items())
        return sums / sum(self.weights.values())


def _zeros(digits: re.Match[str]) -> str:
    return "0" * len(digits[0])


def _plain_name(name: object) -> bool:
    parts = name.split("/") if isinstance(name, str) else [""]
    return all(re.fullmatch(r"[\w.+-]+", part) and part not in (".", "..") for part in parts)


@dataclass(frozen=True)
class RunScore:
    """The scores of a run.

    execution, header, density: in [0, 1]. baseline: the density score of the reference's initial field, which a program
    that does nothing would get. skill: the share of that field's error that the candidate avoids. Both are None if the
    reference has no result of its initial state. equal_time: if times differ, the density score at a time that both
    runs reached, with the later output interpolated linearly; None if the outputs do not allow it. largest: the largest
    difference in any cell of a compared result, as a share of the reference's largest value. picture: the field of the
    last compared result in the cells of the reference's picture, as `packed` returns it; empty if it was not compared.
    """

    execution: float = 0.0
    header: float = 0.0
    density: float = 0.0
    skill: float | None = 0.0
    baseline: float | None = None
    time_mismatch: bool = False
    equal_time: float | None = None
    largest: float = 0.0
    reasons: tuple[str, ...] = ()
    picture: str = ""


class Run:
    """The results of one run, each read once."""

    def __init__(self, outputs: Outputs, metric: Metric) -> None:
        self.outputs, self.metric = outputs, metric
        self.header = functools.cache(functools.partial(FORMATS[metric.format].header, outputs))
        self.result = functools.cache(functools.partial(FORMATS[metric.format].read, outputs))
        self.values = functools.cache(self._values)

    def _values(self, name: str) -> Field:
        """The compared field. Raises FileNotFoundError, KeyError, PlotfileError."""
        return self.result(name).field(self.metric.field)

    def has(self, name: str) -> bool:
        """Whether the run has a result of this name."""
        try:
            return bool(self.header(name))
        except FileNotFoundError:
            return False


class Reference(Run):
    """The reference run, which is checked on construction.

    Attributes:
        initial: name of the result of its initial state, empty if there is none.
        baseline: the density score of that state, None if there is none.
        rounding: the largest difference of a cell that is rounding, see `allowed`; LARGEST without an initial state.
        picture: of the field in the last compared result, without a result.

    Raises:
        ApplicationError: a result, its header or its field is missing, damaged or not finite.
    """

    def __init__(self, outputs: Outputs, metric: Metric) -> None:
        super().__init__(outputs, metric)
        self.initial = metric.initial if metric.initial and self.has(metric.initial) else ""
        for name in dict.fromkeys([*metric.expect, *filter(None, [self.initial])]):
            try:
                if metric.field not in (names := self.result(name).names):
                    raise ApplicationError(
                        f"reference: {name} has no field {metric.field!r}; it has {', '.join(names)}"
                    )
                if not self.values(name).finite:
                    raise ApplicationError(f"reference: {metric.field} of {name} is not finite everywhere")
            except FileNotFoundError:
                raise ApplicationError(f"reference: no result {name} of format={metric.format}") from None
            except PlotfileError as error:
                raise ApplicationError(f"reference: {error}") from None
        try:
            self.baseline = self._mean_similarity(self.values(self.initial)) if self.initial else None
        except ValueError:  # its levels do not divide those of a later output, so it cannot be compared
            self.initial, self.baseline = "", None
        self.rounding = max(map(self._rounding, metric.compared)) if self.initial else LARGEST
        name = metric.compared[-1]
        values = self.values(name)
        shown = drawn(values, values.finest_shape)
        self.picture = FieldPicture(metric.field, name, self.result(name).time, values.finest_shape, shown)

    def failed(self, *reasons: str) -> RunScore:
        """The score of a run that failed."""
        return RunScore(skill=0.0 if self.initial else None, baseline=self.baseline, reasons=reasons)

    def score(self, outputs: Outputs) -> RunScore:
        """Compare a run whose exit status was 0."""
        run = Run(outputs, self.metric)
        headers = []
        for name in self.metric.expect:
            try:
                expected = self.header(name)
                own = run.header(name)[: MAX_HEADER * len(expected)]
                headers.append(word_bleu(without_rounding(own, expected), expected))
            except FileNotFoundError as error:
                return self.failed(f"no {name}: {error}")
        if self.metric.strict_finite:
            not_finite = [name for name in self.metric.expect if _not_finite(run, name)]
            if not_finite:
                return self.failed(f"{self.metric.field} is not finite in {', '.join(not_finite)}")
        reasons: list[str] = []
        of_fields = [self._field_scores(run, name, reasons) for name in self.metric.compared]
        densities, skills, furthest = zip(*of_fields, strict=True)
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
            largest=max(furthest),
            reasons=tuple(reasons),
            picture=self._picture_of(run),
        )

    def _picture_of(self, run: Run) -> str:
        name = self.picture.plotfile
        try:
            values = run.values(name)
            return drawn(values, self.picture.cells) if values.shape == self.values(name).shape else ""
        except (FileNotFoundError, KeyError, ValueError):
            return ""

    def _rounding(self, name: str) -> float:
        change = 1.0 - self._similarity_to(name, self.values(self.initial), "linf")
        patches = [patch.values.ravel() for level in self.values(name).levels for patch in level.patches]
        return allowed(change, np.concatenate(patches))

    def _mean_similarity(self, values: Field) -> float:
        return _mean([self._similarity_to(name, values) for name in self.metric.compared])

    def _similarity_to(self, name: str, values: Field, norm: Norm | None = None) -> float:
        volumes, (candidate, expected) = on_common_cells(values, self.values(name))
        return similarity(candidate, expected, norm or self.metric.norm, volumes)

    def _field_scores(self, run: Run, name: str, reasons: list[str]) -> tuple[float, float, float]:
        """Density score, skill and largest difference of one result; if the scores are 0, the reason is added to
        `reasons`."""
        try:
            values = run.values(name)
            if values.shape != self.values(name).shape:
                raise PlotfileError(f"{name}: a domain of another size or dimension")
            if not values.finite:
                raise PlotfileError(f"{name}: {self.metric.field} is not finite")
            try:
                score = self._similarity_to(name, values)
            except ValueError as error:
                raise PlotfileError(f"{name}: levels that cannot be compared with the reference's: {error}") from None
        except KeyError:
            reasons.append(f"{name} has no field {self.metric.field!r}")
        except (FileNotFoundError, PlotfileError) as error:
            reasons.append(str(error))
        else:
            if score == 0.0:
                reasons.append(f"{name}: {self.metric.field} differs by 100 % or more")
            return score, self._skill(values, self.values(name)), 1.0 - self._similarity_to(name, values, "linf")
        return 0.0, 0.0, 1.0

    def _skill(self, values: Field, expected: Field) -> float:
        """The skill; 0 if the levels of the initial state do not fit."""
        if not self.initial:
            return 0.0
        try:
            volumes, (results, wanted, initial) = on_common_cells(values, expected, self.values(self.initial))
        except ValueError:
            return 0.0
        return skill(results, wanted, initial, self.metric.norm, volumes)

    def _time_differs(self, run: Run, name: str) -> bool:
        try:
            return not math.isclose(run.result(name).time, self.result(name).time, rel_tol=TIME_TOLERANCE)
        except PlotfileError:
            return False

    def _equal_time(self, run: Run, densities: Sequence[float]) -> float | None:
        """The mean density score, with each compared result taken at the earlier of its two times."""
        scores = []
        for name, score in zip(self.metric.compared, densities, strict=True):
            if self._time_differs(run, name):
                compared = self._at_one_time(run, name)
                if compared is None:
                    return None
                volumes, values, expected = compared
                score = similarity(values, expected, self.metric.norm, volumes)
            scores.append(score)
        return _mean(scores)

    def _at_one_time(self, run: Run, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Volumes, and the candidate's and the reference's values at the earlier of their times; None if that is not
        possible."""
        time = min(run.result(name).time, self.result(name).time)
        if self.initial and time <= self.result(self.initial).time:
            return None  # all runs agree at the beginning
        names = [*dict.fromkeys([*filter(None, [self.initial]), *self.metric.expect])]
        try:
            sides = [
                [(1.0, side.values(name))] if side.result(name).time <= time else _between(side, names, time)
                for side in (run, self)
            ]
            fields = [field for side in sides for _, field in side]
            if not all(sides) or not all(field.finite for field in fields):
                return None
            volumes, arrays = on_common_cells(*fields)
        except (FileNotFoundError, KeyError, ValueError):
            return None
        remaining = iter(arrays)
        values, expected = (sum(share * next(remaining) for share, _ in side) for side in sides)
        return volumes, np.asarray(values), np.asarray(expected)


def _between(run: Run, names: Sequence[str], time: float) -> list[tuple[float, Field]]:
    """Two outputs of a run and their shares in its field at a time between them; empty without such outputs."""
    for before, after in itertools.pairwise(filter(run.has, names)):
        early, late = run.result(before).time, run.result(after).time
        if early <= time < late:
            share = (time - early) / (late - early)
            return [(1 - share, run.values(before)), (share, run.values(after))]
    return []


def _not_finite(run: Run, name: str) -> bool:
    """Whether the field can be read and has a value that is not finite."""
    try:
        return not run.values(name).finite
    except (FileNotFoundError, KeyError, PlotfileError):
        return False


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def similarity(
    candidate: np.ndarray, reference: np.ndarray, norm: Norm = "l1", volumes: np.ndarray | None = None
) -> float:
    """max(0, 1 - |a - r| / |r|) of arrays of one shape; 0 if a value, or the difference, is not finite.

    `volumes`: of the cells; None: all are equal.
    """
    if not np.isfinite(candidate).all():
        return 0.0
    if not reference.any():
        return 0.0 if candidate.any() else 1.0
    candidate, reference = _scaled(reference, candidate, reference)
    return max(0.0, 1.0 - _share(_size(candidate - reference, norm, volumes), _size(reference, norm, volumes)))


def skill(
    candidate: np.ndarray,
    reference: np.ndarray,
    initial: np.ndarray,
    norm: Norm = "l1",
    volumes: np.ndarray | None = None,
) -> float:
    """max(0, 1 - |a - r| / |r0 - r|): 0 is no better than the initial state r0. `volumes`: see similarity."""
    candidate, reference, initial = _scaled(reference, candidate, reference, initial)
    error, initial_error = (_size(each - reference, norm, volumes) for each in (candidate, initial))
    if not initial_error:
        return 0.0 if error else 1.0
    return max(0.0, 1.0 - _share(error, initial_error))


def _scaled(by: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays divided by the power of two next to the largest value of `by`: sums then neither overflow nor vanish."""
    exponent = int(np.frexp(np.abs(by).max())[1])
    with np.errstate(over="ignore"):
        return [np.ldexp(array, -exponent) for array in arrays]


def _size(array: np.ndarray, norm: Norm, volumes: np.ndarray | None) -> float:
    with np.errstate(over="ignore"):
        if norm == "linf":
            return float(np.abs(array).max())
        sizes = np.abs(array) if norm == "l1" else np.square(array)
        total = (sizes if volumes is None else sizes * volumes).sum()
        return float(total if norm == "l1" else np.sqrt(total))


def _share(part: float, whole: float) -> float:
    """part / whole; infinite if `part` overflowed."""
    return part / whole if math.isfinite(part) else math.inf
