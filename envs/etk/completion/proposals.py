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
from envs.etk.languages import FIXED_FORM, HEADERS, Language, hidden, language_of, leftover

MAX_LEFT_OUT = 0.9
"""Lines without which the program avoids a larger share of the initial state's error are not proposed."""
C_STATEMENT = re.compile(r"(?!(?:return|using|typedef|extern|break|continue|delete|case|default)\b)[\w*&(].*[=(].*;")
FORTRAN_STATEMENT = re.compile(r"(?:call\s+\w+.*|(?!.*::)\w[\w%(),: +*/-]*=[^=].*)", re.IGNORECASE)

FIXED_CONTINUED = re.compile(r" {5}[^ 0]|\t[1-9]")
"""A line of fixed-form Fortran that continues the one before it: a mark in its sixth column."""


def statements(text: str, language: Language) -> list[int]:
    """Numbers of the lines, from 0, that hold one whole statement which computes: an assignment or a call."""
    fortran, fixed = language.name == "fortran", language in FIXED_FORM
    pattern = FORTRAN_STATEMENT if fortran else C_STATEMENT
    lines = text.split("\n")
    results, before = [], ""
    for number, line in enumerate(lines):
        code = line.split("!" if fortran else "//")[0].strip()
        whole = code.count("(") == code.count(")") and code.count("{") == code.count("}") and not code.endswith("&")
        if fixed:
            whole = whole and not any(map(FIXED_CONTINUED.match, lines[number : number + 2]))
        else:
            whole = whole and (not before.endswith("&") if fortran else _begins(code, before))
        # what begins a line without a blank before it stands outside of functions
        if whole and line[:1].isspace() and pattern.fullmatch(code):
            results.append(number)
        before = code or before
    return results


def _begins(code: str, before: str) -> bool:
    """Whether a statement of C begins with a line, and does not go on there from the code before it."""
    ended = not before or before[-1] in ";{}:" or before[0] == "#" or before.endswith("*/")
    return ended or (before[-1] == ")" and code[:1].isidentifier())  # the condition of an `if`, for example


def places(text: str, language: Language, longest: int) -> Iterator[tuple[int, int]]:
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
        for start, end in places(decoded(path.read_bytes()), language, longest):
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
