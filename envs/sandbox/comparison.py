"""Comparison of a program's answers with expected values and outputs, in the caller's process.

Nothing here hashes what a program wrote: a program may choose values whose hashes collide, so that a set of them takes
quadratic time. Sets and dictionaries are compared by digests with a secret key, and each step takes time linear in the
size of the answer.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from envs.sandbox.worker.codec import MAX_DEPTH, SINGLE, TYPES, nested, scalar_of

SECRET = secrets.token_bytes(32)
EXACT = 400
"""Largest exponent of a Decimal that is compared as a number with others; floats have smaller ones."""
MOST_BITS = 1 << 14
"""Bits of an integer that is compared with a Decimal or a Fraction."""
SHOWN = 70
"""Characters of a value in a note."""
ROUNDING = 1e-12
"""Relative difference that floats may have wherever they may have some: of large ones a right program can have other
last digits, and these are more than an absolute difference allows."""
NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A word of an output that is a number. 0110 is none, since it may be a text of digits."""
Number = bool | int | float | complex | Decimal | Fraction


@dataclass(frozen=True)
class Members:
    """A set or a frozenset of a program's answer, with its items in the order in which they were written."""

    items: list[Any]
    frozen: bool


@dataclass(frozen=True)
class Entries:
    """A dictionary of a program's answer."""

    items: list[tuple[Any, Any]]


def decode(node: Any, depth: int = 0) -> Any:
    """The value of a parsed record, with Members and Entries in place of sets and dictionaries. Raises ValueError for
    anything that the encoder never writes."""
    if node is None or type(node) in (bool, str, int, float):
        return node
    if type(node) is not list or not node or type(node[0]) is not str or depth > MAX_DEPTH:
        raise ValueError("not an encoded value")
    tag, rest = node[0], node[1:]
    try:
        if tag in SINGLE:
            return scalar_of(tag, rest)
        items = [decode(item, depth + 1) for item in rest]
        if tag in ("l", "t"):
            return items if tag == "l" else tuple(items)
        if tag in ("s", "z"):
            return Members(items, tag == "z")
        if tag == "d":
            return Entries(list(zip(items[::2], items[1::2], strict=True)))
        if tag == "c":
            real, imaginary = items
            return complex(float(real), float(imaginary))
        if tag == "a":
            return nested(*items)
        if tag == "y":
            return TYPES[items[0]]
    except (LookupError, TypeError, OverflowError) as error:
        raise ValueError("not an encoded value") from error
    raise ValueError("not an encoded value")


def same(value: Any, expected: Any, tol: float = 0.0) -> bool:
    """Python's `==` for plain data, except that NaN equals NaN and floats may differ by `tol` at any depth, large ones
    by ROUNDING of their size unless `tol` is 0. A Decimal or a Fraction also equals the float that is nearest to it.

    `value` is from `decode`, or has exact built-in types; `expected` may have subclasses of them. Raises ValueError for
    a member of a set or a key that cannot be one.
    """
    if isinstance(expected, Number):
        return isinstance(value, Number) and _same_number(value, expected, tol)
    if isinstance(expected, set | frozenset):
        members = _members(value)
        return members is not None and {*map(_digest, members)} == {*map(_digest, expected)}
    if isinstance(expected, list | tuple):
        base = list if isinstance(expected, list) else tuple
        return (
            type(value) is base
            and len(value) == len(expected)
            and all(same(left, right, tol) for left, right in zip(value, expected, strict=True))
        )
    if isinstance(expected, dict):
        return _same_dict(value, expected, tol)
    if isinstance(expected, bytes | bytearray):
        return isinstance(value, bytes | bytearray) and value == expected
    if isinstance(expected, str | None | range):
        return type(value) in (str, type(None), range) and value == expected
    return isinstance(expected, type) and value is expected


def same_items(value: Any, expected: Any, tol: float = 0.0) -> bool:
    """Whether two lists have equal items, each as often, in any order; lists and tuples with equal items are equal.
    Where all items are integers and floats, they may differ as in `same`."""
    if not (isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected)):
        return False
    try:
        if sorted(map(_item_digest, value)) == sorted(map(_item_digest, expected)):
            return True
    except ValueError:  # an item has no digest
        return False
    numbers = all(type(item) in (int, float) and item == item for item in (*value, *expected))
    return tol > 0 and numbers and same(sorted(value), sorted(expected), tol)


def _item_digest(value: Any) -> bytes:
    """`_digest`, for lists, sets and dictionaries too."""
    if isinstance(value, list | tuple):
        return _hashed(b"t", *map(_item_digest, value))
    if isinstance(value, dict | Entries):
        items = value.items if isinstance(value, Entries) else value.items()
        return _hashed(b"d", *sorted({_digest(key): _digest(key) + _item_digest(item) for key, item in items}.values()))
    if (members := _members(value)) is not None:
        return _hashed(b"z", *sorted({*map(_digest, members)}))
    return _digest(value)


def _members(value: Any) -> Iterable[Any] | None:
    if isinstance(value, Members):
        return value.items
    return value if type(value) in (set, frozenset) else None


def _same_dict(value: Any, expected: dict[Any, Any], tol: float) -> bool:
    if type(value) not in (Entries, dict):
        return False
    items = value.items if isinstance(value, Entries) else value.items()
    by_key = {_digest(key): item for key, item in items}
    return len(by_key) == len(expected) and all(
        (digest := _digest(key)) in by_key and same(by_key[digest], item, tol) for key, item in expected.items()
    )


def _digest(value: Any) -> bytes:
    """Equal for hashable values that are equal in Python, and for NaNs. Raises ValueError for a value that cannot be
    hashed."""
    if isinstance(value, Number):
        return _hashed(b"n", _exact(value))
    if isinstance(value, str):
        return _hashed(b"s", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return _hashed(b"b", value)
    if isinstance(value, tuple):
        return _hashed(b"t", *map(_digest, value))
    if isinstance(value, frozenset) or (isinstance(value, Members) and value.frozen):
        return _hashed(b"z", *sorted({*map(_digest, value if isinstance(value, frozenset) else value.items)}))
    if value is None or isinstance(value, type | range):
        return _hashed(b"o", repr(value).encode())
    raise ValueError(f"a {type(value).__name__} cannot be a key")


def _hashed(kind: bytes, *parts: bytes) -> bytes:
    digest = blake2b(kind, digest_size=16, key=SECRET)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _exact(value: Any) -> bytes:
    """The same text for equal numbers of all types."""
    if isinstance(value, complex):
        if value.imag:
            return b"%s,%s" % (_exact(value.real), _exact(value.imag))
        value = value.real
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > EXACT and value:
        sign, digits, exponent = value.as_tuple()
        text = "".join(map(str, digits))
        kept = text.rstrip("0")  # `normalize` would round to the context's digits
        return b"%d%se%d" % (sign, kept.encode(), int(exponent) + len(text) - len(kept))
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return str(float(value)).encode()
        value = Fraction(*value.as_integer_ratio())
    top, bottom = (value.numerator, value.denominator) if isinstance(value, Fraction) else (int(value), 1)
    return b"%x/%x" % (top, bottom)


def _same_number(value: Any, expected: Any, tol: float) -> bool:
    exact = [number for number in (value, expected) if isinstance(number, Decimal | Fraction)]
    if exact:
        return _same_exact(value, expected, tol)
    if value == expected:
        return True
    if value != value and expected != expected:
        return True
    if bool in (type(value), type(expected)) or not {type(value), type(expected)} & {float, complex}:
        return False
    try:
        return tol > 0 and abs(value - expected) <= max(tol, ROUNDING * abs(expected)) < math.inf
    except OverflowError:
        return False


def _same_exact(value: Any, expected: Any, tol: float) -> bool:
    """`_same_number` where a Decimal or a Fraction is involved."""
    numbers = value, expected
    if any(isinstance(number, int) and number.bit_length() > MOST_BITS for number in numbers):
        return False  # a conversion would take quadratic time
    if any(isinstance(number, complex) for number in numbers):
        value, expected = (
            number.real if isinstance(number, complex) and not number.imag else number for number in numbers
        )
        return (
            not isinstance(value, complex) and not isinstance(expected, complex) and _same_number(value, expected, tol)
        )
    if any(number.is_snan() for number in numbers if isinstance(number, Decimal)):
        return False
    if any(number != number for number in numbers):
        return all(number != number for number in numbers)
    if value == expected:
        return True
    if any(isinstance(number, Decimal) and number and abs(number.adjusted()) > EXACT for number in numbers):
        return False
    try:
        if not all(map(math.isfinite, numbers)):
            return False
        if any(isinstance(number, float) for number in numbers) and float(value) == float(expected):
            return True
        difference, size = abs(Fraction(value) - Fraction(expected)), abs(Fraction(expected))
        return tol > 0 and difference <= max(Fraction(tol), Fraction(ROUNDING) * size)
    except OverflowError:
        return False


def as_json(value: Any) -> Any:
    """Plain data after encoding and decoding as JSON: tuples become lists, keys become texts.

    Raises ValueError for a key that JSON does not allow.
    """
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {_key(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Entries):
        return Entries([(_key(key), as_json(item)) for key, item in value.items])
    return value


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | float) or (isinstance(key, int) and key.bit_length() < 1024):
        return json.dumps(key)
    raise ValueError("no key of JSON")


def shown(value: Any) -> str:
    """The beginning of a value's text, for a note; it takes no longer for a large value."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > SHOWN:
            return text[: SHOWN - 3] + "..."
    return text


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple | set | frozenset | Members):
        opening, closing = (
            ("[", "]") if isinstance(value, list) else ("(", ")") if isinstance(value, tuple) else ("{", "}")
        )
        yield opening
        for number, item in enumerate(value.items if isinstance(value, Members) else value):
            yield ", " if number else ""
            yield from _pieces(item)
        yield ",)" if isinstance(value, tuple) and len(value) == 1 else closing
    elif isinstance(value, dict | Entries):
        yield "{"
        for number, (key, item) in enumerate(value.items if isinstance(value, Entries) else value.items()):
            yield ", " if number else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    elif any(part.bit_length() > 1000 for part in _integers(value)):
        yield f"a large {type(value).__name__}"
    else:
        yield repr(value[: 2 * SHOWN] if isinstance(value, str | bytes | bytearray) else value)


def _integers(value: Any) -> tuple[int, ...]:
    """The integers that a value's text has; Python writes only so many digits."""
    if isinstance(value, Fraction):
        return value.numerator, value.denominator
    if isinstance(value, range):
        return value.start, value.stop, value.step
    return (value,) if isinstance(value, int) else ()


def same_output(output: str, expected: str, tol: float = 0.0) -> bool:
    """LiveCodeBench's rule: as many lines, each with equal text or exactly equal numbers (1.50 is 1.5, 1e2 is 100); but
    digits that begin with a 0 are text (0110 is not 110).

    tol: absolute or relative error of numbers of which one has a decimal point or an exponent. With it words are
    compared one by one, so that a line may have texts too.
    """
    output_lines, expected_lines = lines_of(output), lines_of(expected)
    return len(output_lines) == len(expected_lines) and all(
        _same_line(line, other, tol) for line, other in zip(output_lines, expected_lines, strict=True)
    )


def _same_line(line: str, expected: str, tol: float) -> bool:
    if line == expected:
        return True
    words, expected_words = line.split(), expected.split()
    return len(words) == len(expected_words) and all(
        _same_written(word, other, tol) or (tol > 0 and word == other)
        for word, other in zip(words, expected_words, strict=True)
    )


def _same_written(word: str, expected: str, tol: float) -> bool:
    """Whether two words are numbers that are the same."""
    if not (NUMBER.fullmatch(word) and NUMBER.fullmatch(expected)):
        return False
    try:
        if Decimal(word) == Decimal(expected):
            return True
    except InvalidOperation:  # the exponent has too many digits
        return False
    if not tol or not re.search("[.eE]", word + expected):
        return False
    number, other = float(word), float(expected)
    return math.isfinite(other) and abs(number - other) <= tol * max(1.0, abs(other))


def lines_of(text: str) -> list[str]:
    """Lines stripped of white space, without blank lines at the beginning and the end."""
    return [line.strip() for line in text.strip().split("\n")]
