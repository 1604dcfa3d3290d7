"""Cases for a user's own application: which lines can be masked, and which of them matter to its results."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from envs.etk.build.application import Application
from envs.etk.build.evaluation import decoded
from envs.etk.completion.cases import Case
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request
from envs.etk.languages import HEADERS, hidden, language_of, leftover

MAX_LEFT_OUT = 0.9
"""Lines without which the program avoids a larger share of the initial state's error are not proposed."""
C_STATEMENT = re.compile(r"(?!(?:return|using|typedef|extern|break|continue|delete|case|default)\b)[\w*&(].*[=(].*;")
FORTRAN_STATEMENT = re.compile(r"(?:call\s+\w+.*|(?!.*::)\w[\w%(),: +*/-]*=[^=].*)", re.IGNORECASE)


def statements(text: str, language: str) -> list[int]:
    """Numbers of the lines, from 0, that hold one whole statement which computes: an assignment or a call."""
    pattern = FORTRAN_STATEMENT if language == "fortran" else C_STATEMENT
    results = []
    for number, line in enumerate(text.split("\n")):
        code = line.split("!" if language == "fortran" else "//")[0].strip()
        whole = code.count("(") == code.count(")") and code.count("{") == code.count("}") and not code.endswith("&")
        # what begins a line without a blank before it stands outside of functions
        if whole and line[:1].isspace() and pattern.fullmatch(code):
            results.append(number)
    return results


def places(text: str, language: str, longest: int) -> Iterator[tuple[int, int]]:
    """Ranges of up to `longest` neighbouring statements; those of a longer row of statements follow each other."""
    for _, group in itertools.groupby(enumerate(statements(text, language)), lambda pair: pair[1] - pair[0]):
        lines = [number for _, number in group]
        for first in range(0, len(lines), longest):
            part = lines[first : first + longest]
            yield part[0], part[-1] + 1


def candidates(source_dir: Path, longest: int) -> Iterator[Case]:
    """A case for each place of the sources in C, C++ and Fortran; headers, hidden files and backups are left out."""
    for path in sorted(source_dir.rglob("*")):
        name = PurePosixPath(path.relative_to(source_dir))
        language = language_of(path.name)
        skipped = any(map(hidden, name.parts)) or leftover(path.name) or path.suffix in HEADERS
        if skipped or language is None or language.name == "make" or not path.is_file() or path.is_symlink():
            continue
        for start, end in places(decoded(path.read_bytes()), language.name, longest):
            yield Case(f"{name}:{start + 1}-{end}", str(name), start, end)


async def propose(
    application: Application,
    scorer: CompletionScorer,
    keep: Callable[[Case], None],
    longest: int,
    most: int,
    compiling: bool = False,
) -> int:
    """Build and run the application without the lines of each place, and give `keep` the places without whose lines it
    does not compile, does not reach its end, or has other results; the other places are named on standard error, with a
    reason. Returns the number of cases.

    longest: lines of a case. most: places that are tried, spread evenly over the sources. compiling: leave out places
    without whose lines the application does not compile, since this does not show that its results depend on them.

    Raises ApplicationError or RuntimeError where the unchanged application cannot be built or run.
    """
    await scorer.ready()
    found = list(candidates(application.source_dir, longest))
    tried = found[:: -(-len(found) // most)] if found else []
    if tried:
        await scorer.trial(tried[0])
    print(f"{len(found)} places in {application.source_dir}, {len(tried)} are tried", file=sys.stderr)
    kept = broken = 0
    for at in range(0, len(tried), 8):
        part = tried[at : at + 8]
        for case, score in zip(part, await scorer.score([Request(case, "") for case in part]), strict=True):
            if reason := _left_out(application, scorer, case, score, compiling):
                print(f"{case.id}: left out, {reason}", file=sys.stderr)
            else:
                keep(case)
                kept += 1
                broken += bool(score and not score.compile)
    without = f", of which {broken} do not compile without their lines (--compiling leaves these out)" if broken else ""
    print(f"{kept} cases{without}", file=sys.stderr)
    return kept


def _left_out(
    application: Application, scorer: CompletionScorer, case: Case, score: CompletionScore | None, compiling: bool
) -> str:
    """Why a place is no case, from the score of leaving its lines out; empty for a case."""
    if score is None:
        return "the sandbox failed"
    if application.run.printed_by(scorer.gap(case).original):
        return "it prints run.success_regex"
    if score.left_out > MAX_LEFT_OUT:
        return f"the results hardly change ({score.left_out:.3f})"
    return "without it the program does not compile" if compiling and not score.compile else ""
