"""Masked lines of a source file, and the file with a completion in their place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from envs.etk.build.compare import ApplicationError
from envs.etk.build.evaluation import decoded, encoded
from envs.json_lines import Row, json_lines


@dataclass(frozen=True)
class Case:
    """Lines `start` to `end` of `file` (counted from 0, end excluded) are masked.

    weight: in means over cases. kind, difficulty: labels for reports. broken: a wrong completion. expected: scores by
    variant (original, empty, broken) and stage, as measured when the cases were made.
    """

    id: str
    file: str
    start: int
    end: int
    weight: float = 1.0
    kind: str = ""
    difficulty: str = ""
    broken: str = ""
    expected: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of masked lines."""
        return self.end - self.start


@dataclass(frozen=True)
class Gap:
    """A case in its file: `before`, `masked` and `after` are the file's lines, without line ends."""

    case: Case
    before: tuple[str, ...]
    masked: tuple[str, ...]
    after: tuple[str, ...]

    @classmethod
    def of(cls, case: Case, source_dir: Path) -> Gap:
        """Read the file. Raises ApplicationError if the file or the lines do not exist."""
        path = PurePosixPath(case.file)
        if path.is_absolute() or ".." in path.parts or not (source_dir / path).is_file():
            raise ApplicationError(f"case {case.id}: there is no file {case.file} in {source_dir}")
        lines = tuple(decoded((source_dir / path).read_bytes()).split("\n"))
        if not 0 <= case.start < case.end <= len(lines):
            raise ApplicationError(
                f"case {case.id}: no lines {case.start} to {case.end}: {case.file} has {len(lines)}, counted from 0"
            )
        return cls(case, lines[: case.start], lines[case.start : case.end], lines[case.end :])

    @property
    def original(self) -> str:
        """The completion that restores the file."""
        return "".join(f"{line}\n" for line in self.masked)

    def lines_of(self, completion: str) -> tuple[str, ...]:
        """A completion's lines. A final line end belongs to the last line; an empty completion has no lines."""
        text = completion.removesuffix("\n")
        return tuple(text.split("\n")) if completion else ()

    def filled(self, completion: str) -> bytes:
        """The file with the completion in the gap, neither padded nor cut; `original` restores its bytes."""
        lines = [*self.before, *self.lines_of(completion), *self.after]
        return b"\n".join(map(encoded, lines))


def read_cases(path: Path) -> list[Case]:
    """Cases of a JSON-lines file. Raises ApplicationError for an invalid row or a repeated id."""
    cases: dict[str, Case] = {}
    for number, row in json_lines(path):
        try:
            case = _case(row)
        except (ValueError, TypeError) as error:
            raise ApplicationError(f"{path.name}, line {number}: {error}") from None
        if case.id in cases:
            raise ApplicationError(f"{path.name}, line {number}: a second case {case.id}")
        cases[case.id] = case
    return list(cases.values())


def _case(row: Row | Exception) -> Case:
    if isinstance(row, Exception):
        raise row
    if missing := {"id", "file", "start", "end"} - row.keys():
        raise TypeError(f"missing {', '.join(sorted(missing))}")
    case = Case(**row)
    if not all(isinstance(value, str) for value in (case.id, case.file)):
        raise TypeError("id and file must be text")
    if type(case.start) is not int or type(case.end) is not int:
        raise TypeError("start and end must be whole numbers: lines counted from 0, end excluded")
    if type(case.weight) not in (int, float) or not 0 <= case.weight < math.inf:
        raise TypeError("weight must be a number, 0 or more")
    return case


def case_row(case: Case) -> str:
    """The case as a line of a JSON-lines file."""
    row = {name: value for name, value in dataclasses.asdict(case).items() if value or name == "start"}
    return json.dumps(row)
