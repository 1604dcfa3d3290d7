"""Encodes values as text: tagged JSON in ASCII, which is decoded to exact built-in types only.

null, true, false, strings, small integers and finite floats are written as in JSON. All other values are lists that
begin with a tag: i (hexadecimal integer), f (nan, inf), c (complex), b (hexadecimal bytes), l, t, s, z (list, tuple,
set, frozenset), d (key, value, key, value, ...), y (a built-in type, by name) and h (an object that stays in the
program, by number). Subclasses are written as their base type.
"""

import json
from collections.abc import Callable
from json.encoder import encode_basestring_ascii as _quote
from typing import Any

_decoder: Any = json.JSONDecoder()  # typeshed does not know scan_once
_scan = _decoder.scan_once
MAX_DEPTH = 200
SMALL = 1 << 53
FEW = 64
"""Number of keys of a set or dictionary that may share a hash; each further one is compared with all before it."""


TYPES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, type(None))
}


class Handle:
    """An object that stays in the program; it equals only itself. `_told` forwards attributes that a test sets on
    it."""

    _place: int  # names that a test is unlikely to set
    _told: "Callable[[Handle, str, Any], None] | None"

    def __init__(self, place: int, told: "Callable[[Handle, str, Any], None] | None" = None) -> None:
        vars(self).update(_place=place, _told=told)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._told is not None:
            self._told(self, name, value)
        vars(self)[name] = value


class Unsupported(TypeError):
    """The value cannot be sent because of its type, depth or size."""


class Excess(Unsupported):
    """The value is nested too deeply or too large."""


def _make_scalar() -> Callable[[type, Any, int], str | None]:
    """A function that encodes a value that is not a container, and returns None for a container; see `make_encoder` for
    the bound names."""
    quote, subclass, error = _quote, issubclass, Excess
    integer, real, pair, text, raw = (
        int.__pos__,
        float.__pos__,
        complex.__pos__,
        str.__str__,
        bytes.__getitem__,
    )
    bits, hexed, real_repr, int_repr = int.bit_length, int.__format__, float.__repr__, int.__repr__
    to_hex, str_size, bytes_size, everything = bytes.hex, str.__len__, bytes.__len__, slice(None)
    bool_, int_, float_, str_, bytes_, complex_, small = bool, int, float, str, bytes, complex, SMALL
    names, meta, handle = {kind: name for name, kind in TYPES.items()}, type, Handle

    def real_text(value: float) -> str:
        written = real_repr(value)
        return written if written[-1] not in "fn" else '["f","' + written + '"]'

    def scalar(kind: type, value: Any, room: int) -> str | None:
        if value is None:
            return "null"
        if kind is bool_:
            return "true" if value else "false"
        if subclass(kind, int_):
            value = integer(value)
            if -small < value < small:
                return int_repr(value)
            if bits(value) > 4 * room:
                raise error("result too large")
            return '["i","' + hexed(value, "x") + '"]'
        if subclass(kind, float_):
            return real_text(real(value))
        if subclass(kind, str_):
            if str_size(value) > room:
                raise error("result too large")
            return quote(text(value))
        if subclass(kind, bytes_):
            if bytes_size(value) > room:
                raise error("result too large")
            return '["b","' + to_hex(raw(value, everything)) + '"]'
        if subclass(kind, complex_):
            value = pair(value)
            return '["c",' + real_text(value.real) + "," + real_text(value.imag) + "]"
        if kind is meta and value in names:
            return '["y",' + quote(names[value]) + "]"
        if kind is handle:
            return '["h",' + int_repr(value._place) + "]"
        return None

    return scalar


def _make_flat() -> Callable[[Any], str | None]:
    """A function that quickly encodes a small integer, a list of them or a list of strings, with the encoder's result;
    it returns None for other values."""
    kind_of, kinds, each, join, quote, size = type, set, map, ",".join, _quote, len
    int_repr, small, largest, least, list_, int_ = int.__repr__, SMALL, max, min, list, int
    dict_ = dict
    integers, texts = {int}, {str}

    def flat(value: Any) -> str | None:
        kind = kind_of(value)
        if kind is int_:
            return int_repr(value) if -small < value < small else None
        if (kind is list_ or kind is dict_) and not value:
            return '["l"]' if kind is list_ else '["d"]'
        if kind is list_ and size(value) < 1000:
            item_kinds = kinds(each(kind_of, value))
            if item_kinds == integers and least(value) > -small and largest(value) < small:
                return '["l",' + join(each(int_repr, value)) + "]"
            if item_kinds == texts:
                return '["l",' + join(each(quote, value)) + "]"
        return None

    return flat


def make_encoder(limit: int) -> Callable[[object], str]:
    """An encoder for values of at most `limit` characters that shares no name with the rest of the program.

    All names that it needs are bound here, so that a program that replaces builtins still reports its results. Values
    are read through the methods of the base types; an overridden `__iter__`, `__len__` or `__class__` is not called.
    Raises Unsupported.
    """
    scalar, kind_of, subclass, size, error = _make_scalar(), type, issubclass, len, Unsupported
    sequences = (
        (list, '["l"', list.__iter__),
        (tuple, '["t"', tuple.__iter__),
        (set, '["s"', set.__iter__),
        (frozenset, '["z"', frozenset.__iter__),
    )
    dict_, items_of, join, max_depth = dict, dict.items, "".join, MAX_DEPTH
    name_of = type.__dict__["__name__"].__get__
    flat, excess = _make_flat(), Excess

    def encode(value: object) -> str:
        short = flat(value)
        if short is not None and size(short) <= limit:
            return short
        out: list[str] = []
        room = limit

        def spend(characters: int) -> None:
            nonlocal room
            room -= characters
            if room < 0:
                raise excess("result too large")

        def put(value: Any, depth: int) -> None:
            kind = kind_of(value)
            written = scalar(kind, value, room)
            if written is not None:
                out.append(written)
                return spend(size(written) + 1)
            if depth >= max_depth:
                raise excess("result nested too deeply")
            spend(6)
            if subclass(kind, dict_):
                out.append('["d"')
                for key, item in items_of(value):
                    out.append(",")
                    put(key, depth + 1)
                    out.append(",")
                    put(item, depth + 1)
                return out.append("]")
            for base, opening, iterate in sequences:
                if subclass(kind, base):
                    out.append(opening)
                    for item in iterate(value):
                        out.append(",")
                        put(item, depth + 1)
                    return out.append("]")
            raise error("unsupported type " + name_of(kind))

        put(value, 0)
        return join(out)

    return encode


def make_decoder(kept: list[Any]) -> Callable[[object], object]:
    """A decoder that, like the encoder, needs no name that a program can replace.

    It rebuilds the value of a parsed record; handles are indices of `kept`. Raises ValueError for anything that the
    encoder never writes.
    """
    kind_of, size, pairs, max_depth = type, len, zip, MAX_DEPTH
    plain, list_, str_, int_, float_ = (bool, str, int, float), list, str, int, float
    complex_, dict_, unhex = complex, dict, bytes.fromhex
    groups, named = {"t": tuple, "s": set, "z": frozenset}, TYPES
    kinds, each, scalars, hashed = set, map, {bool, str, int, float, type(None)}, hash
    few = FEW
    broken, awkward = ValueError, (KeyError, IndexError, TypeError, OverflowError)

    def scalar(tag: str, rest: list) -> object:
        if size(rest) != 1 or kind_of(rest[0]) is not str_:
            raise broken("not an encoded scalar")
        return int_(rest[0], 16) if tag == "i" else float_(rest[0]) if tag == "f" else unhex(rest[0])

    def apart(keys: list[Any]) -> list[Any]:
        if size(keys) > few and 2 * size(kinds(each(hashed, keys))) < size(keys):
            raise broken("keys that are made to collide")
        return keys

    def decode(node: Any, depth: int = 0) -> object:
        kind = kind_of(node)
        if node is None or kind in plain:
            return node
        if kind is not list_ or not node or kind_of(node[0]) is not str_ or depth > max_depth:
            raise broken("not an encoded value")
        tag, rest = node[0], node[1:]
        try:
            if tag in ("i", "f", "b"):
                return scalar(tag, rest)
            flat = kinds(each(kind_of, rest)) <= scalars
            items: list[Any] = rest if flat else [decode(item, depth + 1) for item in rest]
            if tag == "l":
                return items
            if tag == "c":
                real, imag = items
                return complex_(float_(real), float_(imag))
            if tag == "y":
                return named[items[0]]
            if tag == "h":
                return kept[items[0]]
            if tag == "d":
                return dict_(pairs(apart(items[::2]), items[1::2], strict=True))
            return groups[tag](items if tag == "t" else apart(items))
        except awkward as error:
            raise broken("not an encoded value") from error

    return decode


decode = make_decoder([])


def parse(text: str) -> Any:
    """Parse the JSON of an untrusted program; text that would make the parser recurse deeply is refused. Raises
    ValueError."""
    if text.count("[") + text.count("{") > MAX_DEPTH:
        depth = deepest = 0
        in_string = escaped = False
        for char in text:
            if in_string:
                if escaped:
                    escaped = False
                elif char == "\\":
                    escaped = True
                elif char == '"':
                    in_string = False
            elif char == '"':
                in_string = True
            elif char in "[{":
                depth += 1
                deepest = max(deepest, depth)
            elif char in "]}":
                depth -= 1
        if deepest > MAX_DEPTH + 2:
            raise ValueError("nested too deeply")
    try:
        value, end = _scan(text, 0)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except StopIteration as error:
        raise ValueError("not JSON") from error
    if end != len(text):
        raise ValueError("more than one value")
    return value
