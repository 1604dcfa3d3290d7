"""The first syntactically invalid character of a text: no continuation makes it a Python program any more.

A text is viable while some continuation makes it a program that `ast.parse` accepts. Viability is lost at one character
and never regained, so that bisection finds the character. CPython's own parser decides: with the flag
PyCF_ALLOW_INCOMPLETE_INPUT (see codeop) it reports "incomplete input" if and only if it has accepted every token and
expects another. The grammar is therefore that of the interpreter that runs this module; before Python 3.12 an error
inside an f-string is reported at its closing quote.

This module parses untrusted text: call it in a process that may crash, as rewards/syntax.py does.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
import warnings
from bisect import bisect_left
from collections.abc import Generator, Iterator
from functools import lru_cache

ONLY_AST, ALLOW_INCOMPLETE_INPUT = ast.PyCF_ONLY_AST, 0x4000
INPUT_END = " \\\n"
"""Ends the input where the next token would begin, without a newline token or a check of the indentation."""
_OPERATORS = (
    "**= //= >>= <<= ... .. != %= &= ** *= += -= -> // /= := << <= == >= >> @= ^= |= "
    "% & ( ) * + , - . / : ; < = > @ [ ] ^ { | } ~"
)
OPERATORS = tuple(_OPERATORS.split())
"""A longer operator stands before its own prefixes. Two dots are no operator, but may become three."""
WORDS = tuple(dict.fromkeys([*keyword.kwlist, *keyword.softkwlist]))
IN_LITERAL = ("", "x", *("0" * count for count in range(1, 8)), "{x}", "}", "x}", "\\", "n")
"""Texts that may complete an escape or a field."""
PREFIXES = ("r", "u", "b", "f", "br", "rb", "fr", "rf")
FIELDS_ARE_TOKENS = sys.version_info >= (3, 12)
"""PEP 701; in earlier versions a whole f-string is one token."""
LITERAL = (
    re.compile(r"(?:[^\\{}'\"\r\n]|\\N\{(?:[^}]*\}|[A-Za-z0-9 -]*\Z)|\\.|\{\{|\}\})*", re.DOTALL),
    re.compile(r"[^{}'\"\r\n]*"),
)
"""Characters of an f-string without structure: outside its fields, and in a format specification."""
OPEN_NAME = re.compile(r"\\N(?:\{[A-Za-z0-9 -]*)?\Z")
"""The beginning of a character's name at the end of a text, such as a backslash and `N{BUL`."""
OPENING = re.compile(r"(?i:[rub]|f|br|rb|fr|rf)?(?P<quote>'''|\"\"\"|'|\")")
TOKEN = re.compile(
    r"""
    (?P<newline>\r\n|\r|\n)
  | (?P<blank>[ \t\f]+)
  | (?P<join>\\(?:\r\n|\r|\n)?)
  | (?P<comment>\#[^\r\n]*)
  | (?P<string>(?i:[rub]|f|br|rb|fr|rf)?(?P<quote>'''|\"\"\"|'|"))
  | (?P<number>0[xX](?:_?[0-9a-fA-F])*_?|0[oO](?:_?[0-7])*_?|0[bB](?:_?[01])*_?
      |(?:[0-9](?:_?[0-9])*_?)?\.[0-9](?:_?[0-9])*_?(?:[eE][+-]?(?:[0-9](?:_?[0-9])*_?)?)?[jJ]?
      |[0-9](?:_?[0-9])*_?\.?(?:[eE][+-]?(?:[0-9](?:_?[0-9])*_?)?)?[jJ]?)
  | (?P<name>[^\W\d]\w*)
  | (?P<operator>{operator}|!)
  | (?P<other>.)
    """.replace("{operator}", "|".join(map(re.escape, OPERATORS))),
    re.VERBOSE | re.DOTALL,
)


def first_illegal(text: str) -> int | None:
    """Index of the first character after which no valid program is possible; None if the whole text is viable."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" is a warning, and under -W error a syntax error
        if _parses(text):
            return None
        tokens = list(_tokens(text))
        # the first token after which, if it is finished, the text is no longer viable
        bad = bisect_left(tokens, True, key=lambda token: not _viable_after(text, *token))
        if bad == len(tokens):
            return None
        kind, start, end = tokens[bad]
        # within it, the first character after which the unfinished token has no continuation
        place = bisect_left(range(start + 1, end + 1), True, key=lambda cut: not _open_viable(text[:cut], kind, start))
        if place < end - start:
            return start + place
        return end if end < len(text) else None


def complete(text: str) -> bool:
    """Whether the text is a complete program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parses(text)


def not_compiled(program: str) -> int | None:
    """Index of the character at which Python refuses a program, whether or not its grammar allows it; None where it
    takes it. An error without a place lies on the last character."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(program, "<completion>", "exec", dont_inherit=True)
        except SyntaxError as error:
            lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", program)
            row, column = error.lineno or 0, error.offset or 1
            if not 0 < row <= len(lines):
                return max(0, len(program) - 1)
            line = lines[row - 1]
            if _parses(program):  # errors behind the parser count bytes
                column = len(line.encode("utf-8", "surrogatepass")[: column - 1].decode("utf-8", "replace")) + 1
            place = sum(map(len, lines[: row - 1])) + min(max(0, column - 1), len(line))
            return min(place, max(0, len(program) - 1))
        except (ValueError, MemoryError, RecursionError, OverflowError):
            return max(0, len(program) - 1)
    return None


def _parses(text: str) -> bool:
    try:
        compile(text, "<completion>", "exec", ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def _viable_after(text: str, kind: str, start: int, end: int) -> bool:
    """Whether the text up to the end of a token is viable; the token is finished unless it is an unclosed string."""
    if kind.startswith("part"):
        return _open_viable(text[:end], kind, start)
    if kind != "string":
        return _closed_viable(text[:end])
    if not _closed(text[start:end]):
        return _open_viable(text[:end], kind, start)
    # the parser checks the inside of a literal only after the next token
    return _parses(text[start:end]) and _closed_viable(text[:end])


def _closed_viable(text: str) -> bool:
    """Whether the text, whose last token is finished, has a valid continuation."""
    try:
        compile(text + INPUT_END, "<completion>", "exec", ONLY_AST | ALLOW_INCOMPLETE_INPUT, dont_inherit=True)
    except SyntaxError as error:
        return error.msg == "incomplete input"
    except (ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def _open_viable(text: str, kind: str, start: int) -> bool:
    """Whether some way to finish the last token, which begins at `start`, leaves a viable text."""
    if kind == "string":
        token = _without_open_parts(text[start:])
        wholes = (token + ending for ending in _string_endings(token))
        return any(_closed(w) and _parses(w) and _closed_viable(text[:start] + w) for w in wholes)
    if kind.startswith(("part", "last")):
        closing = kind[5:]
        closings = [closing, closing[1:], closing[2:]]
        text = OPEN_NAME.sub("", text)
        return any(_closed_viable(text + middle + end) for middle in IN_LITERAL for end in closings)
    return any(_closed_viable(text + ending) for ending in _endings(kind, text[start:]))


def _endings(kind: str, token: str) -> Iterator[str]:
    """Texts that may complete a token of which `token` has been read."""
    yield ""
    if kind == "name":
        yield "_"
        yield from (word[len(token) :] for word in WORDS if word.startswith(token) and word != token)
        if token.lower() in PREFIXES:
            yield from ("''", "r''", "b''", "f''")
    elif kind == "number":
        yield from ("0", ".0", "e0", "j", "x0", "o0", "b0", "_0")
        yield from _keyword_endings(token)
    elif kind == "operator":
        yield from (
            operator[len(token) :] for operator in OPERATORS if operator.startswith(token) and operator != token
        )
        if token == ".":
            yield "0"
        if token == "..":
            yield "."
        if token == "!":
            yield "="
    elif kind in ("comment", "join"):
        yield "\n"


def _keyword_endings(number: str) -> Iterator[str]:
    """Rests of keywords that may follow a number directly: `1e` may be the beginning of `1else`."""
    tail = re.search(r"[a-zA-Z]*$", number)
    letters = tail.group() if tail else ""
    for word in ("and", "else", "for", "if", "in", "is", "not", "or"):
        if letters and word.startswith(letters):
            yield word[len(letters) :]


def _string_endings(token: str) -> Iterator[str]:
    """Texts that may close a string, even if it ends in the middle of an escape or of a field."""
    yield ""
    for middle in IN_LITERAL:
        for quote in ("'", '"'):
            yield from (middle + quote * count for count in (1, 2, 3, 4, 5))


def _without_open_parts(token: str) -> str:
    """A string, if it is unclosed without what cannot be judged before that: the beginning of a character's name, and
    where an f-string is one token, all that it contains."""
    opening = OPENING.match(token)
    if opening is None or _closed(token):
        return token
    prefix = token[: opening.start("quote")].lower()
    if "f" in prefix:  # with PEP 701 f-strings have parts, and do not come here
        return token[: opening.end()]
    return token if {"r", "b"} & set(prefix) else OPEN_NAME.sub("", token)


def _closed(token: str) -> bool:
    """Whether the text is one string literal from its prefix to its closing quote."""
    opening = OPENING.match(token)
    if opening is None:
        return False
    rest = _closing(opening.group("quote")).fullmatch(token, opening.end())
    return rest is not None and bool(rest.group("close"))


Token = tuple[str, int, int]
"""Kind, start and end (in characters) of a lexical token."""


def _tokens(text: str, position: int = 0, in_field: bool = False) -> Generator[Token, None, int]:
    """Yields lexical tokens up to the end of the text or of an f-string's field, and returns that position. An unclosed
    string extends to the end of its line or of the text."""
    depth = 0
    while position < len(text):
        if in_field and depth == 0 and text[position] in "}:":
            return position
        match = TOKEN.match(text, position)
        assert match is not None and match.lastgroup is not None  # `other` matches any character
        kind, end, quote = match.lastgroup, match.end(), match.group("quote")
        if quote and FIELDS_ARE_TOKENS and "f" in match.group("string").lower():
            position = yield from _f_string(text, position, end, quote)
            continue
        if quote:
            kind, end = "string", _string_end(text, end, quote)
        depth += (match.group() in "([{") - (match.group() in ")]}")
        yield kind, position, end
        position = end
    return position


def _f_string(text: str, start: int, position: int, quote: str) -> Generator[Token, None, int]:
    """Yields the literal parts of an f-string and the tokens of its fields, and returns the position after it.

    The kind of a literal part is "part" and the text that would close it, or "last" if the string's quote ends it.
    """
    closing = quote
    while position < len(text):
        rest = LITERAL[closing[0] == "}"].match(text, position)
        position = rest.end() if rest else position
        if closing == quote and text.startswith(quote, position):
            yield "last " + closing, start, position + len(quote)
            return position + len(quote)
        here = text[position : position + 1]
        if here == "{":
            yield "part " + closing, start, position
            yield "operator", position, position + 1
            position = yield from _tokens(text, position + 1, in_field=True)
            if position == len(text):
                return position
            closing = "}" + quote if text[position] == ":" else quote
            yield "part " + closing, position, position + 1
            start = position = position + 1
        elif here == "}" and closing != quote:
            yield "part " + closing, start, position
            yield "part " + quote, position, position + 1
            start, closing, position = position + 1, quote, position + 1
        elif here in ("\r", "\n") and len(quote) == 1:
            break
        else:
            position += 1
    yield "part " + closing, start, position
    return position


def _string_end(text: str, position: int, quote: str) -> int:
    rest = _closing(quote).match(text, position)
    assert rest is not None  # the pattern also matches an empty text
    return rest.end()


@lru_cache(maxsize=4)
def _closing(quote: str) -> re.Pattern[str]:
    """Matches the rest of a string, including its closing quote if there is one."""
    if len(quote) == 3:
        return re.compile(rf"(?:\\.|(?!{quote})[^\\])*(?:(?P<close>{quote})|\\?)", re.DOTALL)
    return re.compile(rf"(?:\\(?:\r\n|.)|[^\\\r\n{quote}])*(?:(?P<close>{quote})|\\?)", re.DOTALL)
