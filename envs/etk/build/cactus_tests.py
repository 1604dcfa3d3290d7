"""Cactus's own test suites: the output of a thorn's test parameter files, compared with the data stored beside them.

`format: cactus` in an application: each expected result is the output folder of one test, `reference` is the thorn's
test folder, and test.ccl there holds the tolerances. As in Cactus, a number agrees if it differs from the stored one by
less than ABSTOL or by less than RELTOL times the larger of both; 1e-12 without an entry. Comments and blank lines do
not count. The score that takes the place of a field's is the share of the stored files that agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from envs.etk.build.compare import ApplicationError, Metric, RunScore
from envs.etk.build.formats import NUMBER, number
from envs.etk.build.outputs import Folder, Outputs
from envs.etk.build.picture import FieldPicture
from envs.etk.build.rounding import LARGEST

DEFAULT = 1e-12
SKIPPED = re.compile(r"\s*([\"#].*)?$")
ENTRY = re.compile(r"\s*(ABSTOL|RELTOL)\s+(\S+)\s*(\S*)\s*$", re.IGNORECASE)
TEST = re.compile(r"\s*TEST\s+(\S+)", re.IGNORECASE)
NOT_COMPARED = (".h5", ".par", ".gz", ".jpeg", ".png")
MAX_TEXT = 64 << 20
"""Longest compared file, in bytes."""


@dataclass(frozen=True)
class Tolerances:
    """What test.ccl says. entries: (test or "", kind, pattern of file names) to value; a test's own entries count
    before those of the thorn. Raises ApplicationError for a value that is no number or a pattern that is none."""

    entries: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Tolerances:
        entries: dict[tuple[str, str, str], float] = {}
        test = ""
        for line in text.splitlines():
            line = line.partition("#")[0]
            if match := TEST.match(line):
                test = match[1]
            elif entry := ENTRY.match(line):
                kind, value, pattern = entry[1].upper(), entry[2], entry[3] or ".*"
                try:
                    re.compile(pattern)
                    entries[test, kind, pattern] = float(value)
                except (ValueError, re.error) as error:
                    raise ApplicationError(f"test.ccl: {line.strip()}: {error}") from None
            elif "}" in line:
                test = ""
        return cls(entries)

    def get(self, kind: str, test: str, file: str) -> float:
        """The tolerance of a test's file; `kind` is ABSTOL or RELTOL.

        The last pattern that fits counts, in the order of their characters and whatever their case, as in
        GetFileTolerances of Cactus's RunTestUtils.pl."""
        found = DEFAULT
        for owner in ("", test):
            for (each, name, pattern), value in sorted(self.entries.items()):
                if each == owner and name == kind and re.search(pattern, file, re.IGNORECASE):
                    found = value
        return found


class TestSuite:
    """The stored data of an application with `format: cactus`.

    Raises:
        ApplicationError: the reference is no test folder, or has no data of an expected test.
    """

    __test__ = False  # no test of pytest
    initial = ""
    baseline = None
    rounding = LARGEST
    picture = FieldPicture("", "", 0.0, (), "")

    def __init__(self, folder: Folder, metric: Metric) -> None:
        ccl = folder.top / "test.ccl"
        self.tolerances = Tolerances.of(ccl.read_text(encoding="latin-1") if ccl.is_file() else "")
        self.stored: dict[str, list[list[str]]] = {}
        for test in metric.expect:
            paths = sorted(path for path in (folder.top / test).rglob("*") if path.is_file())
            compared = [path for path in paths if path.suffix not in NOT_COMPARED and path.stat().st_size <= MAX_TEXT]
            if not compared:
                raise ApplicationError(f"reference: {folder.top} has no stored data of the test {test}")
            for path in compared:
                self.stored[path.relative_to(folder.top).as_posix()] = _rows(path.read_bytes())

    def failed(self, *reasons: str) -> RunScore:
        """The score of a run that failed."""
        return RunScore(skill=None, reasons=reasons)

    def score(self, outputs: Outputs) -> RunScore:
        """Compare a run whose exit status was 0."""
        reasons = []
        for name, stored in self.stored.items():
            try:
                reason = self._difference(name, stored, outputs)
            except FileNotFoundError:
                return self.failed(f"no {name}")
            if reason:
                reasons.append(reason)
        agree = len(self.stored) - len(reasons)
        return RunScore(1.0, 1.0, agree / len(self.stored), None, reasons=tuple(reasons))

    def _difference(self, name: str, stored: list[list[str]], outputs: Outputs) -> str | None:
        """Where a file differs from the stored one; None where it does not. Raises FileNotFoundError."""
        if outputs.size(name) > MAX_TEXT:
            return f"{name}: longer than {MAX_TEXT >> 20} MiB"
        rows = _rows(outputs.read(name))
        if len(rows) != len(stored):
            return f"{name}: {len(rows)} lines of data, {len(stored)} are stored"
        test, _, file = name.partition("/")
        absolute, relative = (self.tolerances.get(kind, test, file) for kind in ("ABSTOL", "RELTOL"))
        for line, (row, expected) in enumerate(zip(rows, stored, strict=True), 1):
            if row != expected and not _agree(row, expected, absolute, relative):
                return f"{name}: line {line} of data is {' '.join(row)[:60]}, stored {' '.join(expected)[:60]}"
        return None


def _rows(data: bytes) -> list[list[str]]:
    lines = data.decode("utf-8", "replace").lower().splitlines()
    return [line.split() for line in lines if not SKIPPED.match(line)]


def _agree(row: list[str], expected: list[str], absolute: float, relative: float) -> bool:
    if len(row) != len(expected):
        return False
    for word, stored in zip(row, expected, strict=True):
        if not NUMBER.fullmatch(stored):
            continue  # a word, which Cactus does not compare either
        if not NUMBER.fullmatch(word):
            return False
        new, old = number(word), number(stored)
        if math.isfinite(new) != math.isfinite(old) or math.isnan(new) != math.isnan(old):
            return False
        if math.isinf(old) and new != old:
            return False
        if math.isfinite(old) and new != old and abs(new - old) >= max(absolute, relative * max(abs(new), abs(old))):
            return False
    return True
