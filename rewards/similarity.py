"""Similarity: BLEU of the code against the problem's reference, on tokens of code, each n-gram match where it stands.

Range 0 to 1. Tokens are identifiers, numbers, strings, operators; comments and line ends do not count, since a banner
copied from one file to the next would. What a comment is in Fortran depends on its form, which the ending of the
problem's `data["file"]` tells. BLEU-4 as in envs/bleu.py. Code and reference are cut to the same number of tokens where
there is a budget: 400 generated tokens against a reference of 4,000 would be paid 0 whatever they say. The score is
shared by the matching n-grams' tokens, in proportion to the matches that each takes part in.

The obvious cheat is to copy a file that the prompt shows (files of one thorn are alike). `detail` has for each answer
`bleu`, `bleu_full` (both sides uncut) and `copy_bleu`, the best that such a copy would get, where the problem's
`data["visible"]` holds the texts shown. With `baseline: copy` only what goes beyond is paid.

    python -m rewards.similarity bleu FILE     id, candidate, reference, budget or null (language, file) -> id, bleu
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from envs.bleu import Bleu, bleu
from envs.rows import answer, command, read_rows
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span
from rewards.fortran import FIXED, FREE

C_STRING = r"\"(?:\\(?:\r\n|.)|[^\"\\\r\n])*\"|'(?:\\(?:\r\n|.)|[^'\\\r\n])*'"
STRING = {
    "python": rf"\"\"\".*?\"\"\"|'''.*?'''|{C_STRING}",
    "make": r"\\#",  # no strings, but an escaped mark is no comment
    "c": C_STRING,
    "c++": rf"{C_STRING}|\d(?:'\w|[\w.])*",  # and numbers, whose digits may be in groups
    "fortran": r"\"(?:\"\"|[^\"\r\n])*\"|'(?:''|[^'\r\n])*'",
}
"""By language: what hides a comment."""
SYMBOL = (
    r"[A-Za-z_]\w*|\d[\w.]*|<<=|>>=|\*\*=|//=|\.\.\.|->|=>|::|[-+*/%&|^=!<>:]=|\+\+|--|&&|\|\||<<|>>|\*\*|[^\s\w]|\w+"
)
C_BLOCK = r"/\*.*?(?:\*/|\Z)"
C_COMMENT = rf"//(?:\\(?:\r\n|[\r\n])|[^\r\n])*|{C_BLOCK}"
"""Of C, C++ and CUDA."""
FREE_NOTE = r"![^\r\n]*"
LINE = r"(?:\A|(?<=[\r\n]))"
"""Its beginning; lines may end with a carriage return alone."""
FIXED_NOTE = rf"(?<![\r\n][^\r\n]{{5}}){FREE_NOTE}|{LINE}[cCdD*][^\r\n]*"
"""A mark in the sixth column goes on with the line before."""
COMMENTS = {
    "python": r"#[^\r\n]*",
    "make": r"#[^\r\n]*",
    "c": C_COMMENT,
    "c++": C_COMMENT,
    "fortran": rf"{FREE_NOTE}|{C_BLOCK}|{LINE}[cC*](?=[ \t*=\-\r\n]|\Z)(?![ \t]*=[^=])[^\r\n]*",
}
"""By language; of Fortran where the file's ending does not tell the form, what looks like a comment of either."""
FORTRAN_COMMENTS = {
    suffix: (FIXED_NOTE if suffix in FIXED else FREE_NOTE) + (f"|{C_BLOCK}" if suffix.startswith(".F") else "")
    for suffix in FIXED | FREE
}
"""By the file's ending: the preprocessor takes C's comments out."""


@dataclass(frozen=True)
class Token:
    """A piece of code and its characters, `end` excluded."""

    text: str
    start: int
    end: int


def tokens(code: str, language: str = "python", file: str = "") -> list[Token]:
    """Tokens of code without its comments; the name of its file tells the form of Fortran.

    Raises KeyError for a language that COMMENTS does not know.
    """
    forms = FORTRAN_COMMENTS if language == "fortran" else {}
    comment = forms.get(PurePosixPath(file).suffix, COMMENTS[language])
    pattern = re.compile(f"(?s:(?P<comment>{comment})|(?P<token>{STRING[language]}|{SYMBOL}))")
    found = (match for match in pattern.finditer(code) if match["token"] is not None)
    return [Token(match["token"].replace("\r\n", "\n"), *match.span()) for match in found]


@lru_cache(maxsize=128)
def words(code: str, language: str = "python", file: str = "") -> tuple[str, ...]:
    """The texts of `tokens`. Kept: a reference comes again with each answer."""
    return tuple(token.text for token in tokens(code, language, file))


def code_bleu(
    candidate: str, reference: str, budget: int | None = None, language: str = "python", file: str = ""
) -> float:
    """BLEU of two pieces of code, each cut to its first `budget` tokens."""
    ours = [token.text for token in tokens(candidate, language, file)[:budget]]
    return bleu(ours, words(reference, language, file)[:budget]).score


def has_code(problem: Problem, code: str | None) -> bool:
    """Whether an answer is more than comments, C's where COMMENTS does not know the problem's language."""
    language = problem.language if problem.language in COMMENTS else "c"
    return bool(tokens(code or "", language, problem.data.get("file", "")))


class Similarity:
    """
    Args:
        language: whose comments are left out, one of COMMENTS; None: the problem's.
        budget: tokens of code and reference that are compared; None: all.
        baseline: "copy": pays max(0, (b - c) / (1 - c)) for a BLEU of b where the best copy gets c, and nothing where
            a copy is as good as the reference; None: pays b.

    Raises:
        ValueError: another language or baseline.
    """

    judges_form = False

    def __init__(self, language: str | None = None, budget: int | None = None, baseline: str | None = None):
        if language is not None and language not in COMMENTS:
            raise ValueError(f"similarity.language={language}: one of {', '.join(COMMENTS)}")
        if baseline not in (None, "copy"):
            raise ValueError(f"similarity.baseline={baseline}: copy or null")
        self.language, self.budget, self.baseline = language, budget, baseline
        self._copies: dict[str, float] = {}

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises ValueError where a problem has no reference."""
        return [self._score(p, c) for p, c in zip(problems, completions, strict=True)]

    def _score(self, problem: Problem, completion: Completion) -> ChannelResult:
        if not problem.reference:
            raise ValueError(f"{problem.id} has no reference solution, which the similarity channel needs")
        language, file = self.language or problem.language, problem.data.get("file", "")
        whole = tokens(completion.code or "", language, file)
        ours, theirs = whole[: self.budget], words(problem.reference, language, file)
        found = bleu([t.text for t in ours], theirs[: self.budget])
        full = found if self.budget is None else bleu([t.text for t in whole], theirs)
        detail = {"bleu": found.score, "bleu_full": full.score}
        paid, note = found.score, f"BLEU {found.score:.2f}"
        if "visible" in problem.data:
            copied = detail["copy_bleu"] = self.copy_bleu(problem)
            note += f", a copy {copied:.2f}"
            if self.baseline == "copy":
                paid = max(0.0, (paid - copied) / (1 - copied)) if copied < 1 else 0.0
        if completion.code_span is None:
            return ChannelResult(0.0, note="no code", detail=detail)
        spans = _shares(completion.code_span[0], ours, found, paid)
        return ChannelResult(sum(s.value for s in spans), spans, note=note, detail=detail)

    def copy_bleu(self, problem: Problem) -> float:
        """The best BLEU that a copy of a text in the problem's `data["visible"]` would get; 0 where there is none."""
        if problem.id not in self._copies:
            language, file = self.language or problem.language, problem.data.get("file", "")
            texts = problem.data.get("visible", ())
            copies = (code_bleu(text, problem.reference, self.budget, language, file) for text in texts)
            self._copies[problem.id] = max(copies, default=0.0)
        return self._copies[problem.id]


def _shares(start: int, ours: Sequence[Token], found: Bleu, paid: float) -> tuple[Span, ...]:
    """`paid` over the tokens of the matching n-grams."""
    total = sum(found.matches)
    if not total or not paid:
        return ()
    return tuple(
        Span(start + token.start, start + token.end, paid * count / total)
        for token, count in zip(ours, found.matches, strict=True)
        if count
    )


async def _bleu(path: str) -> None:
    rows = read_rows(path, "candidate", "reference")
    answer(rows, [_public(row) for row in rows if "error" not in row])


def _public(row: dict[str, Any]) -> dict[str, Any]:
    budget, language = row.get("budget"), row.get("language", "c++")
    file = row.get("file", "")
    if not (budget is None or (type(budget) is int and budget > 0)) or language not in COMMENTS:
        return {"error": f"budget must be a positive integer or null, language one of {', '.join(COMMENTS)}"}
    if not isinstance(file, str):
        return {"error": "file must be text: the name of the reference's file"}
    return {"bleu": code_bleu(row["candidate"], row["reference"], budget, language, file)}


main = command("rewards.similarity", "bleu", __doc__.splitlines()[0], _bleu)

if __name__ == "__main__":
    sys.exit(main())
