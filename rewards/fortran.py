"""Where a text stops being the beginning of a Fortran file, as far as its statements' brackets and literals tell.

A bracket or a literal is closed within its statement, and a statement ends with its line unless the line is continued:
in free form by & at its end, in fixed form by a mark in the next line's sixth column. Where the preprocessor sees the
file first, comments may be C's, the arguments of a macro (taken to be a name in capitals that begins a statement) may
go on over lines, each branch of a conditional goes on from its #if, and `#if 0` is not looked into.
"""

from __future__ import annotations

import re

from rewards.brackets import OPENING, Judged

FIXED = {".F", ".F77", ".f", ".f77"}
FREE = {".F90", ".f90"}
"""Endings of files whose form is known; the preprocessor runs over those in capitals."""
PIECE = re.compile(
    r"""
    (?P<note>!)
  | (?P<comment>/\*)
  | (?P<quote>["'])
  | (?P<open>[(\[])
  | (?P<close>[)\]])
  | (?P<more>&[^\S\n]*(?=!|\n|\Z))
  | (?P<hollerith>(?<=[(,/\s])\d{1,3}[hH])
  | (?P<other>\w+|[^\w!"'(\[)\]&/]+|.)
    """,
    re.VERBOSE,
)
MACRO = re.compile(r"\s*[A-Z][A-Z0-9_]*\s*\(")
NOTE = re.compile(r"[^\S\n]*!")
FIXED_NOTE = re.compile(r"[cCdD*]|[^\S\n]*!")
CODE = re.compile(r"\s*")
DIRECTIVE = re.compile(r"#[^\S\n]*(if|el|endif)\w*([^\S\n]+0[^\S\n]*$)?", re.MULTILINE)
FIXED_MORE = re.compile(r"[ ]{5}[^ 0\n]|\t[1-9]")
BLANK = re.compile(r"[^\S\n]*(?:\n|\Z)")


def judge_fortran(text: str, fixed: bool, preprocessed: bool) -> Judged:
    """A Fortran file, or the beginning of one.

    Args:
        fixed: fixed form; else free form.
        preprocessed: whether the C preprocessor runs before the compiler.
    """
    return _Reader(text, fixed, preprocessed).read()


class _Reader:
    """One pass over a text. quote: of the open literal, "" for none. macro: whether the statement may be one."""

    def __init__(self, text: str, fixed: bool, preprocessed: bool):
        self.text, self.fixed, self.preprocessed = text, fixed, preprocessed
        self.illegal: int | None = None
        self.brackets: list[str] = []
        self.quote = ""
        self.macro = self.in_comment = self.continued = False
        self.conditionals: list[tuple[tuple[list[str], str, bool, bool], bool]] = []  # state at #if, skipped branch

    @property
    def _open(self) -> bool:
        return bool(self.brackets or self.quote)

    def read(self) -> Judged:
        position = 0
        while position < len(self.text) and self.illegal is None:
            position = self._line(position)
        if self.illegal is not None:
            return Judged(self.illegal, False)
        return Judged(None, not (self._open or self.in_comment or self.continued or self.conditionals))

    def _line(self, start: int) -> int:
        """Read one line and return where the next begins."""
        end = self.text.find("\n", start) % (len(self.text) + 1)
        if not self.in_comment:
            if self.preprocessed and self.text.startswith("#", start):
                while self.text[start:end].rstrip().endswith("\\") and end < len(self.text):
                    end = self.text.find("\n", end + 1) % (len(self.text) + 1)
                self._directive(start)
                return end + 1
            if any(skipped for _, skipped in self.conditionals):
                return end + 1
            if BLANK.match(self.text, start) or self._is_note(start):
                return end + 1
            start = self._begin(start)
        if self.illegal is None:
            self._scan(start, end)
        if self.illegal is None and not self.in_comment:
            self._end(end)
        return end + 1

    def _directive(self, start: int) -> None:
        found = DIRECTIVE.match(self.text, start)
        if found is None:
            return
        if found[1] == "if":
            state = list(self.brackets), self.quote, self.macro, self.continued
            self.conditionals.append((state, found[2] is not None))
        elif self.conditionals:
            state, _ = self.conditionals.pop()
            if found[1] == "el":
                self.conditionals.append((state, False))
                brackets, self.quote, self.macro, self.continued = state
                self.brackets = list(brackets)

    def _is_note(self, start: int) -> bool:
        """Whether the line is a comment."""
        if self.fixed and FIXED_MORE.match(self.text, start):
            return False
        return (FIXED_NOTE if self.fixed else NOTE).match(self.text, start) is not None

    def _begin(self, start: int) -> int:
        """Where a line's code begins: it may go on with a statement, or be one of its own."""
        more = FIXED_MORE.match(self.text, start) if self.fixed else None
        if more is not None:
            return more.end()
        code = CODE.match(self.text, start)
        assert code is not None  # it may match nothing
        if self.fixed and self._open and not self.macro:
            self.illegal = code.end()
        if not self.fixed and self.continued:
            return code.end() + 1 if self.text.startswith("&", code.end()) else start
        if not self._open:
            self.macro = self.preprocessed and MACRO.match(self.text, start) is not None
        return start

    def _scan(self, position: int, end: int) -> None:
        self.continued = False
        while position < end and self.illegal is None:
            if self.in_comment:
                close = self.text.find("*/", position, end)
                self.in_comment = close < 0
                position = end if close < 0 else close + 2
            elif self.quote:
                close = self.text.find(self.quote, position, end)
                if close < 0:
                    self.continued = not self.fixed and self.text[position:end].rstrip().endswith("&")
                    return
                self.quote, position = "", close + 1
            else:
                position = self._piece(position, end)

    def _piece(self, position: int, end: int) -> int:
        found = PIECE.match(self.text, position)
        assert found is not None  # some group takes any character
        kind, piece = found.lastgroup, found.group()
        if kind == "note":
            return end
        if kind == "comment" and self.preprocessed:
            self.in_comment = True
        elif kind == "quote":
            self.quote = piece
        elif kind == "open":
            self.brackets.append(piece)
        elif kind == "close":
            if not self.brackets or self.brackets.pop() != OPENING[piece]:
                self.illegal = position
        elif kind == "more":
            self.continued = not self.fixed
        elif kind == "hollerith":
            return min(end, found.end() + int(piece[:-1]))
        return found.end()

    def _end(self, end: int) -> None:
        """The line's end. In fixed form the next line says whether the statement goes on."""
        if self.fixed or self.continued or not self._open or end == len(self.text):
            return
        if self.quote or not self.macro:
            self.illegal = end
