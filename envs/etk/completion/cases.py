"""Masked lines of a source file, and the file with a completion in their place."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from envs.etk.build.compare import ApplicationError
from envs.etk.build.compiler_messages import CompilerMessage, compiler_messages
from envs.etk.build.evaluation import decoded, encoded
from envs.json_lines import Row, json_lines

MARK = "%%%"
"""The line of a completion between the lines of two places."""
Lines = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """Lines `start` to `end` of `file` (counted from 0, end excluded) are masked.

    more: further masked places of the file, pairs of start and end behind the first place and in order. weight: in
    means over cases. kind, difficulty: labels for reports. broken: a wrong completion. expected: scores by variant
    (original, empty, broken) and stage, as measured when the cases were made.
    """

    id: str
    file: str
    start: int
    end: int
    more: tuple[tuple[int, int], ...] = ()
    weight: float = 1.0
    kind: str = ""
    difficulty: str = ""
    broken: str = ""
    expected: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of masked lines."""
        return sum(end - start for start, end in self.places)

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """All masked places in order."""
        return ((self.start, self.end), *self.more)

    @property
    def alone(self) -> list[Case]:
        """Each place as a case of its own, in which the other places have their original lines."""
        if not self.more:
            return [self]
        return [Case(f"{self.id}/{n}", self.file, start, end) for n, (start, end) in enumerate(self.places, 1)]


@dataclass(frozen=True)
class Gap:
    """A case in its file, whose lines have no line ends.

    kept: the lines before the first masked place, between the places, and behind the last one. masked: the lines of
    each place.
    """

    case: Case
    kept: tuple[Lines, ...]
    masked: tuple[Lines, ...]

    @classmethod
    def of(cls, case: Case, source_dir: Path) -> Gap:
        """Read the file. Raises ApplicationError if the file or the lines do not exist."""
        path = PurePosixPath(case.file)
        if path.is_absolute() or ".." in path.parts or not (source_dir / path).is_file():
            raise ApplicationError(f"case {case.id}: there is no file {case.file} in {source_dir}")
        if not (source_dir / path).resolve().is_relative_to(source_dir.resolve()):
            raise ApplicationError(f"case {case.id}: {case.file} is a link that leads out of source_dir={source_dir}")
        lines = tuple(decoded((source_dir / path).read_bytes()).split("\n"))
        kept, masked, position = [], [], 0
        for number, (start, end) in enumerate(case.places):
            if not position + bool(number) <= start < end <= len(lines):
                raise ApplicationError(
                    f"case {case.id}: no lines {start} to {end} behind line {position}: {case.file} has {len(lines)}, "
                    "counted from 0; places are in order, with a line between them"
                )
            kept.append(lines[position:start])
            masked.append(lines[start:end])
            position = end
        return cls(case, (*kept, lines[position:]), tuple(masked))

    @property
    def original(self) -> str:
        """The completion that restores the file."""
        return f"{MARK}\n".join(self.texts)

    @property
    def texts(self) -> tuple[str, ...]:
        """The masked lines of each place."""
        return tuple("".join(f"{line}\n" for line in lines) for lines in self.masked)

    def pieces(self, completion: str) -> list[Lines]:
        """A completion's lines for each place, as piece_spans divides it."""
        texts = [completion[start:end] for start, end in piece_spans(completion, len(self.masked))]
        return [tuple(text.removesuffix("\n").split("\n")) if text else () for text in texts]

    def filled(self, completion: str) -> bytes:
        """The file with the completion in its places, neither padded nor cut; `original` restores its bytes."""
        lines = list(self.kept[0])
        for piece, kept in zip(self.pieces(completion), self.kept[1:], strict=True):
            lines += [*piece, *kept]
        return b"\n".join(map(encoded, lines))

    def messages(self, output: str, completion: str) -> tuple[CompilerMessage, ...]:
        """A compiler's messages about the filled file; those about a place are located in the completion."""
        pieces, spans = self.pieces(completion), piece_spans(completion, len(self.masked))
        line = own = 0
        located: list[CompilerMessage] = []
        for number, (piece, kept) in enumerate(zip(pieces, self.kept, strict=False)):
            line += len(kept)
            position = spans[number][0]
            here = compiler_messages(output, self.case.file, piece, line)
            moved = [m if m.offset is None else replace(m, line=m.line + own, offset=m.offset + position) for m in here]
            located = [old if old.offset is not None else new for old, new in zip(located or moved, moved, strict=True)]
            line, own = line + len(piece), own + len(piece) + 1
        return tuple(located)


def piece_spans(completion: str, places: int) -> list[tuple[int, int]]:
    """Characters (start, end) of a completion that belong to each place, with the last line's end.

    A line of MARK and blanks ends a place's lines and belongs to none; lines behind the last place's are the last
    one's. Places for which nothing is left are empty, at the end of the completion.
    """
    spans: list[tuple[int, int]] = []
    start = position = 0
    for line in re.findall(r"[^\n]*\n|[^\n]+", completion):
        if line.strip() == MARK and len(spans) + 1 < places:
            spans.append((start, position))
            start = position + len(line)
        position += len(line)
    spans.append((start, position))
    return spans + [(position, position)] * (places - len(spans))


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
    more = row.get("more", [])
    if not isinstance(more, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in more):
        raise TypeError("more must be a list of pairs of start and end")
    case = Case(**{**row, "more": tuple(map(tuple, more))})
    if not all(isinstance(value, str) for value in (case.id, case.file)):
        raise TypeError("id and file must be text")
    if not all(type(line) is int for place in case.places for line in place):
        raise TypeError("start and end must be whole numbers: lines counted from 0, end excluded")
    if type(case.weight) not in (int, float) or not 0 <= case.weight < math.inf:
        raise TypeError("weight must be a number, 0 or more")
    return case


def joined(cases: Sequence[Case], places: int, near: Callable[[Case, Case], bool]) -> list[Case]:
    """Cases of `places` places each, made of cases of one, which lie near each other; some may have fewer.

    In the order of their lines each case goes to the first open group of its file whose places end before it, with a
    line between, and whose first case is `near` it. A case that has several places already stays as it is.
    """
    result = [case for case in cases if case.more]
    groups: list[list[Case]] = []
    for case in sorted((case for case in cases if not case.more), key=lambda case: (case.file, case.start, case.end)):
        of_file = (g for g in groups if len(g) < places and g[-1].file == case.file and g[-1].end < case.start)
        group = next((g for g in of_file if near(g[0], case)), None)
        if group is None:
            groups.append(group := [])
        group.append(case)
    for group in groups:
        first, *others = group
        more = tuple((case.start, case.end) for case in others)
        weight = sum(case.weight for case in group) / len(group)
        name = "+".join(case.id for case in group)
        result.append(Case(name, first.file, first.start, first.end, more, weight) if others else first)
    return result


def case_row(case: Case) -> str:
    """The case as a line of a JSON-lines file."""
    row = {name: value for name, value in dataclasses.asdict(case).items() if value or name == "start"}
    return json.dumps(row)
