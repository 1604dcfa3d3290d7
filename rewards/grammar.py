"""Where a text stops being the beginning of a Python program.

A text is viable while some continuation makes it a program that `ast.parse` accepts. Viability is lost at one character
and never regained, so that character can be found by bisection. CPython's own parser decides, asked for "incomplete
input" (PyCF_ALLOW_INCOMPLETE_INPUT, see codeop): it says so if and only if it has taken every token and wants
another. The grammar is therefore that of the interpreter that runs this; before 3.12 an error inside an f-string is
found at its closing quote.

Parses untrusted text: call it in a process that may die (rewards/syntax.py does).
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
NOTHING_MORE = " \\\n"
"""Ends the input where the next token would begin: no newline token is made up, no indentation judged."""
_OPERATORS = (
    "**= //= >>= <<= ... .. != %= &= ** *= += -= -> // /= := << <= == >= >> @= ^= |= "
    "% & ( ) * + , - . / : ; < = > @ [ ] ^ { | } ~"
)
OPERATORS = tuple(_OPERATORS.split())
"""Longest first where one begins another; two dots are none, but may become three."""
WORDS = tuple(dict.fromkeys([*keyword.kwlist, *keyword.softkwlist]))
IN_LITERAL = ("", "x", *("0" * count for count in range(1, 8)), "{x}", "}", "x}", "\\", "n")
"""What may complete an escape or a field."""
PREFIXES = ("r", "u", "b", "f", "br", "rb", "fr", "rf")
FIELDS_ARE_TOKENS = sys.version_info >= (3, 12)
"""PEP 701: before, an f-string is one token, whatever is in it."""
LITERAL = (
    re.compile(r"(?:[^\\{}'\"\r\n]|\\N\{[^}]*\}|\\.|\{\{|\}\})*", re.DOTALL),
    re.compile(r"[^{}'\"\r\n]*"),
)
"""Harmless characters of an f-string, outside its fields and in a format specification."""
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
    """Index of the first character after which no valid program is possible; None where the whole text is viable."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" is a warning, and under -W error a syntax error
        if _parses(text):
            return None
        tokens = list(_tokens(text))
        # first token after which, closed, the text is no beginning any more
        bad = bisect_left(tokens, True, key=lambda token: not _viable_after(text, *token))
        if bad == len(tokens):
            return None
        kind, start, end = tokens[bad]
        # within it: the first character with which it, still open, has no continuation
        place = bisect_left(range(start + 1, end + 1), True, key=lambda cut: not _open_viable(text[:cut], kind, start))
        if place < end - start:
            return start + place
        return end if end < len(text) else None


def complete(text: str) -> bool:
    """Whether the text is a program as it stands."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _parses(text)


def _parses(text: str) -> bool:
    try:
        compile(text, "<completion>", "exec", ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def _viable_after(text: str, kind: str, start: int, end: int) -> bool:
    """Whether the text up to the end of a token is viable, the token being finished unless it is an unclosed string."""
    if kind.startswith("part"):
        return _open_viable(text[:end], kind, start)
    if kind != "string":
        return _closed_viable(text[:end])
    if not _closed(text[start:end]):
        return _open_viable(text[:end], kind, start)
    # the parser looks into a literal only once the next token has come
    return _parses(text[start:end]) and _closed_viable(text[:end])


def _closed_viable(text: str) -> bool:
    """Whether the text, its last token being finished, can go on."""
    try:
        compile(text + NOTHING_MORE, "<completion>", "exec", ONLY_AST | ALLOW_INCOMPLETE_INPUT, dont_inherit=True)
    except SyntaxError as error:
        return error.msg == "incomplete input"
    except (ValueError, MemoryError, RecursionError, OverflowError):
        return False
    return True


def _open_viable(text: str, kind: str, start: int) -> bool:
    """Whether some way to finish the last token, which begins at `start`, leaves a viable text."""
    if kind == "string":
        token = text[start:]
        wholes = (token + ending for ending in _string_endings(token))
        return any(_closed(w) and _parses(w) and _closed_viable(text[:start] + w) for w in wholes)
    if kind.startswith(("part", "last")):
        closing = kind[5:]
        closings = [closing, closing[1:], closing[2:]]
        return any(_closed_viable(text + middle + end) for middle in IN_LITERAL for end in closings)
    return any(_closed_viable(text + ending) for ending in _endings(kind, text[start:]))


def _endings(kind: str, token: str) -> Iterator[str]:
    """What may complete a token that has been read so far as `token`."""
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
    """`1e` may be the beginning of `1else`."""
    tail = re.search(r"[a-zA-Z]*$", number)
    letters = tail.group() if tail else ""
    for word in ("and", "else", "for", "if", "in", "is", "not", "or"):
        if letters and word.startswith(letters):
            yield word[len(letters) :]


def _string_endings(token: str) -> Iterator[str]:
    """What may close a string, whose last character may be in the middle of an escape or of a field."""
    yield ""
    for middle in IN_LITERAL:
        for quote in ("'", '"'):
            yield from (middle + quote * count for count in (1, 2, 3, 4, 5))


def _closed(token: str) -> bool:
    """Whether the text is one string literal from its prefix to its closing quote."""
    found = OPENING.match(token)
    if found is None:
        return False
    rest = _closing(found.group("quote")).fullmatch(token, found.end())
    return rest is not None and bool(rest.group("close"))


Token = tuple[str, int, int]
"""Kind, start and end of a lexical token."""


def _tokens(text: str, position: int = 0, in_field: bool = False) -> Generator[Token, None, int]:
    """Lexical tokens up to the end of the text or of an f-string's field; returns where. An unclosed string runs to the
    end of its line or of the text."""
    depth = 0
    while position < len(text):
        if in_field and depth == 0 and text[position] in "}:":
            return position
        found = TOKEN.match(text, position)
        assert found is not None and found.lastgroup is not None  # `other` takes any character
        kind, end, quote = found.lastgroup, found.end(), found.group("quote")
        if quote and FIELDS_ARE_TOKENS and "f" in found.group("string").lower():
            position = yield from _f_string(text, position, end, quote)
            continue
        if quote:
            kind, end = "string", _string_end(text, end, quote)
        depth += (found.group() in "([{") - (found.group() in ")]}")
        yield kind, position, end
        position = end
    return position


def _f_string(text: str, start: int, position: int, quote: str) -> Generator[Token, None, int]:
    """The literal parts of an f-string ("part" and what would close them; "last" for the one that its quote ends) and
    the tokens of its fields."""
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
    found = _closing(quote).match(text, position)
    assert found is not None  # it may match nothing
    return found.end()


@lru_cache(maxsize=4)
def _closing(quote: str) -> re.Pattern[str]:
    """The rest of a string, its quote included where it is there."""
    if len(quote) == 3:
        return re.compile(rf"(?:\\.|(?!{quote})[^\\])*(?:(?P<close>{quote})|\\?)", re.DOTALL)
    return re.compile(rf"(?:\\(?:\r\n|.)|[^\\\r\n{quote}])*(?:(?P<close>{quote})|\\?)", re.DOTALL)
