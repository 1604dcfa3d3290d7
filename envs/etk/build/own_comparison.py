"""Results compared by a program of the user's own, in the sandbox: any format, any tolerance.

The program sees the run's results below `result/` and the reference run's below `reference/`, and prints a score. It
comes from the unchanged source, so a candidate cannot replace it; what it reads of a candidate is hostile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from envs.etk.build import formats
from envs.etk.build.application import Application, Comparison, words
from envs.etk.build.compare import ApplicationError, RunScore
from envs.etk.build.picture import FieldPicture
from envs.etk.build.rounding import LARGEST
from envs.sandbox import Job, Outcome, Sandbox

NUMBER = re.compile(rf"(?<![\w.])(?:{formats.NUMBER.pattern})(?![\w.])", re.ASCII | re.IGNORECASE)
SAME = 1 - 1e-6
"""What the reference must score against itself."""


class ComparedByCommand:
    """The reference run of an application with a `comparison`.

    Attributes:
        initial, baseline, rounding, picture: as of a reference without an initial state and without a picture.

    Raises:
        ApplicationError: an expected result, or a file of the comparison, is missing.
    """

    initial = ""
    baseline = None
    rounding = LARGEST
    picture = FieldPicture("", "", 0.0, (), "")

    def __init__(
        self, application: Application, comparison: Comparison, folder: Path, files: Mapping[str, bytes]
    ) -> None:
        self.application, self.comparison = application, comparison
        missing = [name for name in application.metric.expect if not (folder / name).is_file()]
        if missing:
            raise ApplicationError(f"reference: no file {missing[0]}")
        self._given = {f"reference/{name}": (folder / name).read_bytes() for name in application.metric.expect}
        self._own = {PurePosixPath(name).name: data for name, data in files.items()}
        for pattern in comparison.files:
            if not any(fnmatch(name, PurePosixPath(pattern).name) for name in self._own):
                raise ApplicationError(f"comparison.files: no file {pattern} in the built source")

    def failed(self, *reasons: str) -> RunScore:
        """The score of a run that failed."""
        return RunScore(skill=None, reasons=reasons)

    def missing(self, results: Mapping[str, bytes]) -> str | None:
        """Why a run's results cannot be compared; None if all that are expected are there."""
        name = next((name for name in self.application.metric.expect if name not in results), None)
        return name and f"no {name}"

    def job(self, job_id: str, results: Mapping[str, bytes]) -> Job:
        """The job that compares a run's results, by name, with the reference's."""
        given = {f"result/{name}": results[name] for name in self.application.metric.expect}
        executable = [("/bin/chmod", "700", *sorted(self._own))] if self._own else []
        return Job(
            job_id,
            "command",
            files=given | self._given | self._own,
            commands=(*executable, words(self.comparison.command)),
            limits=self.comparison.limits,
        )

    def score(self, outcome: Outcome) -> RunScore:
        """The score that a comparison printed; its last number, from 0 to 1."""
        if outcome.verdict != "pass":
            return RunScore(1.0, 1.0, 0.0, None, reasons=(f"comparison: {outcome.verdict}, {outcome.note}",))
        numbers = NUMBER.findall(outcome.stdout)
        value = formats.number(numbers[-1]) if numbers else math.nan
        if not 0 <= value <= 1:
            last = (outcome.stdout.strip().splitlines() or ["nothing"])[-1][:80]
            return RunScore(1.0, 1.0, 0.0, None, reasons=(f"comparison: no number from 0 to 1 at the end: {last}",))
        reasons = () if value else ("comparison: nothing agrees",)
        return RunScore(1.0, 1.0, value, None, reasons=reasons)

    async def check(self, sandbox: Sandbox) -> None:
        """Compare the reference with itself. Raises ApplicationError if that is not 1, RuntimeError if the sandbox
        failed."""
        own = {name.removeprefix("reference/"): data for name, data in self._given.items()}
        [outcome] = await sandbox.run([self.job(f"{self.application.name}/comparison", own)])
        if not outcome.graded:
            raise RuntimeError(f"the sandbox failed on {outcome.id}: {outcome.note}")
        results = self.score(outcome)
        if results.density < SAME:
            why = "; ".join(results.reasons) or f"it prints {results.density:g}"
            errors = " ".join(outcome.stderr.split())[-200:]
            must = "comparison.command must print 1 for the reference beside itself"
            raise ApplicationError(f"{self.application.name}: {must}: {why} {errors}")
