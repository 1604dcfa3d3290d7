"""Similarity: BLEU of the code against the problem's reference, on tokens of code, each n-gram match where it stands.

Range 0 to 1. Tokens are identifiers, numbers, strings, operators; comments and line ends do not count, since a banner
copied from one file to the next would. BLEU-4 as in envs/bleu.py. Code and reference are cut to the same number of
tokens where there is a budget: 400 generated tokens against a reference of 4,000 would be paid 0 whatever they say.
The score is shared by the matching n-grams' tokens, in proportion to the matches that each takes part in.

    python -m rewards.similarity bleu FILE     id, candidate, reference, budget or null -> id, bleu
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.bleu import bleu
from envs.rows import answer, command, read_rows
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

STRING = r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
SYMBOL = (
    r"[A-Za-z_]\w*|\d[\w.]*|<<=|>>=|\*\*=|//=|\.\.\.|->|=>|::|[-+*/%&|^=!<>:]=|\+\+|--|&&|\|\||<<|>>|\*\*|[^\s\w]|\w+"
)
C_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
"""Of C, C++ and CUDA; a string before it hides it."""
COMMENTS = {
    "python": r"#[^\n]*",
    "make": r"#[^\n]*",
    "c": C_COMMENT,
    "c++": C_COMMENT,
    "fortran": r"![^\n]*|(?m:^[cC*](?=[ \t*=\-]|$)[^\n]*)",
}


@dataclass(frozen=True)
class Token:
    """A piece of code and its characters, `end` excluded."""

    text: str
    start: int
    end: int


def tokens(code: str, language: str = "python") -> list[Token]:
    """Tokens of code without its comments. Raises KeyError for a language that COMMENTS does not know."""
    pattern = re.compile(f"(?s:(?P<comment>{COMMENTS[language]})|(?P<token>{STRING}|{SYMBOL}))")
    return [Token(m["token"], *m.span()) for m in pattern.finditer(code) if m["token"] is not None]


def code_bleu(candidate: str, reference: str, budget: int | None = None, language: str = "python") -> float:
    """BLEU of two pieces of code, each cut to its first `budget` tokens."""
    ours, theirs = ([t.text for t in tokens(code, language)[:budget]] for code in (candidate, reference))
    return bleu(ours, theirs).score


class Similarity:
    """
    Args:
        language: whose comments are left out, one of COMMENTS; None: the problem's.
        budget: tokens of code and reference that are compared; None: all.
    """

    judges_form = False

    def __init__(self, language: str | None = None, budget: int | None = None):
        if language is not None and language not in COMMENTS:
            raise ValueError(f"similarity.language={language}: one of {', '.join(COMMENTS)}")
        self.language, self.budget = language, budget

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises ValueError where a problem has no reference."""
        return [self._score(p, c) for p, c in zip(problems, completions, strict=True)]

    def _score(self, problem: Problem, completion: Completion) -> ChannelResult:
        if not problem.reference:
            raise ValueError(f"{problem.id} has no reference solution, which the similarity channel needs")
        if completion.code is None or completion.code_span is None:
            return ChannelResult(0.0, note="no code")
        language = self.language or problem.language
        ours = tokens(completion.code, language)[: self.budget]
        theirs = tokens(problem.reference, language)[: self.budget]
        found = bleu([t.text for t in ours], [t.text for t in theirs])
        start, total = completion.code_span[0], sum(found.matches)
        spans = tuple(
            Span(start + token.start, start + token.end, found.score * count / total)
            for token, count in zip(ours, found.matches, strict=True)
            if count
        )
        note = f"BLEU {found.score:.2f}"
        return ChannelResult(sum(s.value for s in spans), spans, note=note) if spans else ChannelResult(0.0, note=note)


async def _bleu(path: str) -> None:
    rows = read_rows(path, "candidate", "reference")
    answer(rows, [_public(row) for row in rows if "error" not in row])


def _public(row: dict[str, Any]) -> dict[str, Any]:
    budget, language = row.get("budget"), row.get("language", "c++")
    if not (budget is None or (type(budget) is int and budget > 0)) or language not in COMMENTS:
        return {"error": f"budget must be a positive integer or null, language one of {', '.join(COMMENTS)}"}
    return {"bleu": code_bleu(row["candidate"], row["reference"], budget, language)}


main = command("rewards.similarity", "bleu", __doc__.splitlines()[0], _bleu)

if __name__ == "__main__":
    sys.exit(main())
