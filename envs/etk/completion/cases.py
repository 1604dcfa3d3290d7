"""Masked lines of a source file, and the file with a completion in their place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from envs.etk.completion.compare import CompletionError


@dataclass(frozen=True)
class Case:
    """Lines `start` to `end` of `file` (from 0, end excluded) are masked.

    weight: in means over cases. kind, difficulty: words for reports. broken: a wrong completion. expected: scores by
    variant (original, empty, broken) and stage, as measured when the set was made.
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
        """How many lines are masked."""
        return self.end - self.start


@dataclass(frozen=True)
class Gap:
    """A case in its file: `before`, `masked` and `after` are its lines, without their ends."""

    case: Case
    before: tuple[str, ...]
    masked: tuple[str, ...]
    after: tuple[str, ...]

    @classmethod
    def of(cls, case: Case, source_dir: Path) -> Gap:
        """Read the file. Raises CompletionError for lines or a file that are not there."""
        path = PurePosixPath(case.file)
        if path.is_absolute() or ".." in path.parts or not (source_dir / path).is_file():
            raise CompletionError(f"case {case.id}: no file {case.file} in {source_dir}")
        lines = tuple(decoded((source_dir / path).read_bytes()).split("\n"))
        if not 0 <= case.start < case.end <= len(lines):
            raise CompletionError(f"case {case.id}: no lines {case.start} to {case.end} in {case.file} ({len(lines)})")
        return cls(case, lines[: case.start], lines[case.start : case.end], lines[case.end :])

    @property
    def original(self) -> str:
        """The completion that restores the file."""
        return "".join(f"{line}\n" for line in self.masked)

    def lines_of(self, completion: str) -> tuple[str, ...]:
        """A completion's lines; one line end at its end belongs to the last of them, and an empty text has none."""
        text = completion.removesuffix("\n")
        return tuple(text.split("\n")) if completion else ()

    def filled(self, completion: str) -> bytes:
        """The file with the completion in the gap: no padding, no cutting; the original restores its bytes."""
        lines = [*self.before, *self.lines_of(completion), *self.after]
        return b"\n".join(map(encoded, lines))


def decoded(data: bytes) -> str:
    """Text from which `encoded` makes the same bytes again, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text; what no encoding has becomes a question mark."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def read_cases(path: Path) -> list[Case]:
    """Cases of a JSON-lines file. Raises CompletionError for a bad row or a second one of the same id."""
    cases: dict[str, Case] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                case = _case(json.loads(line))
            except (ValueError, TypeError) as error:
                raise CompletionError(f"{path.name}, line {number}: {error}") from None
            if case.id in cases:
                raise CompletionError(f"{path.name}, line {number}: a second case {case.id}")
            cases[case.id] = case
    return list(cases.values())


def _case(row: Any) -> Case:
    if not isinstance(row, dict):
        raise TypeError("not a JSON object")
    if missing := {"id", "file", "start", "end"} - row.keys():
        raise TypeError(f"no {', '.join(sorted(missing))}")
    case = Case(**row)
    if not all(isinstance(value, str) for value in (case.id, case.file)):
        raise TypeError("id and file must be text")
    if type(case.start) is not int or type(case.end) is not int:
        raise TypeError("start and end must be whole numbers: lines from 0, end excluded")
    if type(case.weight) not in (int, float) or not 0 <= case.weight < math.inf:
        raise TypeError("weight must be a number, 0 or more")
    return case


def case_row(case: Case) -> str:
    """The case as a line of a JSON-lines file."""
    row = {name: value for name, value in dataclasses.asdict(case).items() if value or name == "start"}
    return json.dumps(row)
