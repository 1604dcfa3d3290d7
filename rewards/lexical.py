"""Lexical: the first token after which the code is no beginning of any file of its language, C, C++, Fortran or CCL.

Like rewards/syntax.py for languages whose real files no grammar takes: only what is wrong for certain counts, that is
brackets and literals that cannot close (rewards/brackets.py, rewards/fortran.py). Score 0 where there is nothing, else
`penalty` on the first illegal token; `incomplete` where a finished answer leaves something open, on what ends it. A
completion cut by the length limit may be incomplete, one without code is for the form channel. Silent for a language or
a form that is not known, and where the problem's own reference would be charged.

A problem whose code stands in the middle of a file has its lines around it in `data["before"]` and `data["after"]`; the
name of its file, whose ending tells the form of Fortran, in `data["file"]`.

    python -m rewards.lexical check FILE     id, text, language (c++ if not given), file -> id, first_illegal, complete
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from envs.rows import answer, command, read_rows
from envs.task import Problem
from rewards.brackets import Judged, judge_c, judge_ccl
from rewards.channel import ChannelResult, Completion
from rewards.fortran import FIXED, FREE, judge_fortran
from rewards.syntax import placed

SILENT = ChannelResult(0.0, note="not judged", silent=True)


def judge(text: str, language: str, file: str = "") -> Judged | None:
    """Where a text stops being the beginning of a file; None for a language or a form of Fortran that is not known."""
    if language in ("c", "c++"):
        return judge_c(text)
    if language == "ccl":
        return judge_ccl(text)
    suffix = PurePosixPath(file).suffix
    if language == "fortran" and suffix in FIXED | FREE:
        return judge_fortran(text, suffix in FIXED, suffix.startswith(".F"))
    return None


class Lexical:
    """
    Args:
        penalty: of the first illegal token.
        incomplete: of an answer that leaves something open.
    """

    judges_form = True  # it may point at the fence or the end of sequence

    def __init__(self, penalty: float = -1.0, incomplete: float = -1.0):
        self.penalty, self.incomplete = penalty, incomplete
        self._sound: dict[str, bool] = {}

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        return [self._score(p, c) for p, c in zip(problems, completions, strict=True)]

    def _score(self, problem: Problem, completion: Completion) -> ChannelResult:
        if problem.id not in self._sound:
            judged = _within(problem, problem.reference)
            self._sound[problem.id] = judged is not None and judged.first is None and judged.whole
        if not self._sound[problem.id]:
            return SILENT
        if completion.code is None:
            return ChannelResult(0.0, note="no code")
        judged = _within(problem, completion.code)
        assert judged is not None  # the reference was judged
        return placed(completion, judged.first, judged.whole, self.penalty, self.incomplete)


def _within(problem: Problem, code: str) -> Judged | None:
    """The code where it belongs: illegal within itself, and whole where the file is with it."""
    before, after = problem.data.get("before", ""), problem.data.get("after", "")
    file = problem.data.get("file", "")
    judged = judge(before + code, problem.language, file)
    if judged is None or judged.first is not None:
        return judged and Judged(judged.first and judged.first - len(before), False)
    if after:
        end = "" if code.endswith("\n") or not code else "\n"
        filled = judge(before + code + end + after, problem.language, file)
        return Judged(None, filled is not None and filled.first is None and filled.whole)
    return judged


async def _check(path: str) -> None:
    rows = read_rows(path, "text")
    answer(rows, [_public(row) for row in rows if "error" not in row])


def _public(row: dict[str, Any]) -> dict[str, Any]:
    judged = judge(row["text"], row.get("language", "c++"), row.get("file", ""))
    if judged is None:
        return {"error": "language must be c, c++, ccl, or fortran with a file's name"}
    return {"first_illegal": judged.first, "complete": judged.whole}


main = command("rewards.lexical", "check", __doc__.splitlines()[0], _check)

if __name__ == "__main__":
    sys.exit(main())
