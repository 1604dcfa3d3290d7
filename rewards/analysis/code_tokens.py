"""Splits source code of seven languages into tokens, without its comments.

A token is an identifier, a number, a string or an operator. Pygments splits real files alike where only its comments
are used, but it does not know C's comments in preprocessed Fortran (each file of the Einstein Toolkit begins with one),
digit groups of C++14 or continued comments with CRLF line ends, and it takes three to six times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from envs.task import Problem

FIXED_FORM = {".F", ".F77", ".f", ".f77"}
FREE_FORM = {".F90", ".f90"}
"""File endings of Fortran whose form is known; files with a capital F pass the preprocessor first."""

C_STRING = r"\"(?:\\(?:\r\n|.)|[^\"\\\r\n])*\"|'(?:\\(?:\r\n|.)|[^'\\\r\n])*'"
STRING = {
    "python": rf"\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|{C_STRING}",
    "make": r"\\#",  # make has no strings, but an escaped mark begins no comment
    "ccl": C_STRING,
    "par": C_STRING,
    "c": C_STRING,
    "c++": rf"{C_STRING}|\d(?:'\w|[\w.])*",  # also numbers, whose digits may be grouped by quotes
    "fortran": r"\"(?:\"\"|[^\"\r\n])*\"|'(?:''|[^'\r\n])*'",
}
"""By language, the literals inside which a comment mark has no meaning."""
SYMBOL = (
    r"[A-Za-z_]\w*|\d[\w.]*|<<=|>>=|\*\*=|//=|\.\.\.|->|=>|::|[-+*/%&|^=!<>:]=|\+\+|--|&&|\|\||<<|>>|\*\*|[^\s\w]|\w+"
)
C_BLOCK = r"/\*.*?(?:\*/|\Z)"
C_COMMENT = rf"//(?:\\(?:\r\n|[\r\n])|[^\r\n])*|{C_BLOCK}"
"""Comments of C, C++ and CUDA."""
FREE_COMMENT = r"![^\r\n]*"
LINE_END = re.compile(r"[\r\n]|\Z")
LINE_START = r"(?:\A|(?<=[\r\n]))"
"""The beginning of a line; lines may end with a carriage return alone."""
FIXED_COMMENT = rf"(?<![\r\n][^\r\n]{{5}}){FREE_COMMENT}|{LINE_START}[cCdD*][^\r\n]*"
"""In fixed form a mark in the sixth column continues the line before and begins no comment."""
COMMENTS = {
    "python": r"#[^\r\n]*",
    "make": r"#[^\r\n]*",
    "ccl": r"#[^\r\n]*",
    "par": rf"#[^\r\n]*|{LINE_START}[ \t]*![^\r\n]*",
    "c": C_COMMENT,
    "c++": C_COMMENT,
    "fortran": rf"{FREE_COMMENT}|{C_BLOCK}|{LINE_START}[cC*](?=[ \t*=\-\r\n]|\Z)(?![ \t]*=[^=])[^\r\n]*",
}
"""By language. For Fortran: what looks like a comment of either form, for files whose ending does not tell the form."""
FORTRAN_COMMENTS = {
    suffix: (FIXED_COMMENT if suffix in FIXED_FORM else FREE_COMMENT) + (f"|{C_BLOCK}" if suffix[1] == "F" else "")
    for suffix in FIXED_FORM | FREE_FORM
}
"""By file ending: the preprocessor also removes C's comments."""


@dataclass(frozen=True)
class Token:
    """A token's text and its characters in the code, `end` excluded."""

    text: str
    start: int
    end: int


def tokens(code: str, language: str = "python", file: str = "") -> list[Token]:
    """The tokens of code, comments excluded. `file` is the file's name, whose ending tells the form of Fortran.

    Raises KeyError for a language that is not in COMMENTS.
    """
    return [Token(match["token"].replace("\r\n", "\n"), *match.span()) for match in _matches(code, language, file)]


def _matches(code: str, language: str, file: str) -> Iterator[re.Match[str]]:
    comments_by_ending = FORTRAN_COMMENTS if language == "fortran" else {}
    comment = comments_by_ending.get(PurePosixPath(file).suffix, COMMENTS[language])
    pattern = re.compile(f"(?s:(?P<comment>{comment})|(?P<token>{STRING[language]}|{SYMBOL}))")
    without = re.compile(f"(?s:(?P<comment>{comment})|(?P<token>{SYMBOL}))")
    place, unclosed = 0, {'"': 0, "'": 0}
    while match := (without if place < unclosed.get(code[place : place + 1], 0) else pattern).search(code, place):
        place, first = match.end(), match.start()
        # where no string begins, none begins at the escaped quotes behind it either
        if first >= unclosed.get(match["token"], len(code)):
            unclosed[match["token"]] = next(LINE_END.finditer(code, first)).start()
        if match["token"] is not None:
            yield match


def words(text: str) -> list[Token]:
    """The words of a text, whatever stands between blanks."""
    return [Token(match[0], *match.span()) for match in re.finditer(r"\S+", text)]


@lru_cache(maxsize=128)
def token_texts(code: str, language: str = "python", file: str = "") -> tuple[str, ...]:
    """The texts of `tokens`. Cached, because every completion of a problem is compared with the same reference."""
    return tuple(token.text for token in tokens(code, language, file))


def has_code(problem: Problem, code: str | None) -> bool:
    """Whether a completion holds more than comments; a language that is not in COMMENTS is read as C."""
    language = problem.language if problem.language in COMMENTS else "c"
    return has_tokens(code or "", language, problem.data.get("file", ""))


def has_tokens(code: str, language: str = "python", file: str = "") -> bool:
    """Whether code holds more than comments."""
    return next(_matches(code, language, file), None) is not None
