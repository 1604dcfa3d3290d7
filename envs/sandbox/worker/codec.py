"""Encodes values as text: tagged JSON in ASCII, which is decoded to exact built-in types only.

null, true, false, strings, small integers and finite floats are written as in JSON. All other values are lists that
begin with a tag: i (hexadecimal integer), f (nan, inf), c (complex), b and u (hexadecimal bytes and bytearray), m
(Decimal), q (Fraction: two hexadecimal integers), r (range: start, stop, step), l, t, s, z (list, tuple, set,
frozenset), d (key, value, key, value, ...), a (an array: type, shape, flat list) and y (a built-in type, by name).
Subclasses are written as their base type, NumPy's scalars as Python's. `check` jobs have more tags: h (an object that
stays in the program, by number), k and n (a function and an iterator of the test), and those of library_types.py.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate, chain
from json.encoder import encode_basestring_ascii as _quote
from typing import Any

_decoder: Any = json.JSONDecoder()  # typeshed does not know scan_once
_scan = _decoder.scan_once
MAX_DEPTH = 200
SMALL = 1 << 53
LONGEST_NUMBER = 4096
"""Characters of a Decimal, and of each part of a Fraction."""
MOST_DIMENSIONS, MOST_EMPTY = 32, 1000
"""Dimensions of an array, and the product of the others if one is 0."""
INSTEAD = {
    **dict.fromkeys(("generator", "map", "filter", "zip", "enumerate", "reversed"), "return list(...) of it"),
    **dict.fromkeys(("dict_keys", "dict_values", "dict_items", "deque"), "return list(...) of it"),
    **dict.fromkeys(("function", "method", "type", "builtin_function_or_method"), "return what a call of it gives"),
}
"""What a program should return in place of other types, by the name of the type."""
SINGLE = frozenset("ifbumqr")
"""Tags of values that are written as one or a few texts."""
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
NO_BRACKETS = bytes(byte for byte in range(256) if byte not in STEPS)

TYPES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, type(None))
}


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
    names, meta = {kind: name for name, kind in TYPES.items()}, type

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
        return None

    return scalar


def _make_foreign() -> Callable[[type, Any, int], tuple[str, Any]]:
    """A function for values of the standard library's and NumPy's types: ("text", encoded), ("value", a plain value to
    encode in its place), ("array", parts) or ("", None) for any other type."""
    modules, subclass, error, range_, bytearray_ = sys.modules, issubclass, Excess, range, bytearray
    whole, size, most, quote, plain_kinds, kind_of = int.__format__, len, LONGEST_NUMBER, _quote, "biufc", type
    real, shape = float, list

    def numpy_value(numpy: Any, kind: type, value: Any, room: int) -> tuple[str, Any]:
        if subclass(kind, numpy.generic):
            item = value.item()
            return "value", real(item) if kind_of(item) is kind else item
        if kind is not numpy.ndarray or value.dtype.kind not in plain_kinds:
            return "value", value.tolist()
        if value.size * 2 > room:
            raise error("result too large")
        if value.dtype.kind in "fc" and value.dtype.itemsize > (8 if value.dtype.kind == "f" else 16):
            value = value.astype("float64" if value.dtype.kind == "f" else "complex128")
        return "array", (value.dtype.name, shape(value.shape), value.ravel().tolist())

    def foreign(kind: type, value: Any, room: int) -> tuple[str, Any]:
        if kind is range_:
            return "text", '["r",' + ",".join(
                ['"' + whole(n, "x") + '"' for n in (value.start, value.stop, value.step)]
            ) + "]"
        if subclass(kind, bytearray_):
            if size(value) > room:
                raise error("result too large")
            return "text", '["u","' + value.hex() + '"]'
        decimal, fractions, numpy = modules.get("decimal"), modules.get("fractions"), modules.get("numpy")
        if decimal is not None and subclass(kind, decimal.Decimal):
            text = decimal.Decimal.__str__(value)
            if size(text) > most:
                raise error("a Decimal with too many digits")
            return "text", '["m",' + quote(text) + "]"
        if fractions is not None and subclass(kind, fractions.Fraction):
            parts = whole(value.numerator, "x"), whole(value.denominator, "x")
            if size(parts[0]) > most or size(parts[1]) > most:
                raise error("a Fraction with too many digits")
            return "text", '["q","' + parts[0] + '","' + parts[1] + '"]'
        if numpy is not None and subclass(kind, (numpy.generic, numpy.ndarray)):
            return numpy_value(numpy, kind, value, room)
        return "", None

    return foreign


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


SEQUENCES = (
    (list, '["l"', list.__iter__),
    (tuple, '["t"', tuple.__iter__),
    (set, '["s"', set.__iter__),
    (frozenset, '["z"', frozenset.__iter__),
)


def _make_other(keep: Callable[[Any], str | None] | None) -> Callable[[type, Any, int], tuple[str, Any]]:
    """A function for values that are no scalars: ("text", encoded), ("value", a plain value to encode in its place), or
    of a container how its text begins, and its parts. Objects that `keep` writes are texts. It raises Unsupported."""
    foreign, error, instead, subclass, sequences = _make_foreign(), Unsupported, INSTEAD, issubclass, SEQUENCES
    name_of, dict_, items_of, flat = type.__dict__["__name__"].__get__, dict, dict.items, chain.from_iterable

    def other(kind: type, value: Any, room: int) -> tuple[str, Any]:
        if subclass(kind, dict_):
            return '["d"', flat(items_of(value))
        for base, opening, iterate in sequences:
            if subclass(kind, base):
                return opening, iterate(value)
        how, result = foreign(kind, value, room)
        if not how and keep is not None:
            how, result = "text", keep(value)
        if result is None and how != "value":
            name = name_of(kind)
            advice = instead.get(name, "use numbers, texts, lists and dictionaries")
            raise error("a value of type " + name + " is not plain data: " + advice)
        return '["a"' if how == "array" else how, result

    return other


def make_encoder(
    limit: int,
    keep: Callable[[Any], str | None] | None = None,
    library: Callable[..., str | None] = lambda value, encode: None,
) -> Callable[[object], str]:
    """An encoder for values of at most `limit` characters that shares no name with the rest of the program.

    `keep` writes objects that are not plain data, `library` values of some types of the standard library; both return
    None for others. All names that the encoder needs are bound here, so that a program that replaces builtins still
    reports its results. An overridden `__iter__`, `__len__` or `__class__` is not called. Raises Unsupported.
    """
    scalar, kind_of, size, join = _make_scalar(), type, len, "".join
    max_depth, built_in = MAX_DEPTH, {dict, list, tuple}
    flat, other, excess = _make_flat(), _make_other(keep), Excess

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
            if written is None and kind not in built_in:
                written = library(value, encode)
            if written is not None:
                out.append(written)
                return spend(size(written) + 1)
            if depth >= max_depth:
                raise excess("result nested too deeply")
            spend(6)
            how, result = other(kind, value, room)
            if how == "value":
                return put(result, depth + 1)
            if how == "text":
                out.append(result)
                return spend(size(result))
            out.append(how)
            for part in result:
                out.append(",")
                put(part, depth + 1)
            return out.append("]")

        put(value, 0)
        return join(out)

    return encode


def nested(name: str, shape: list[int], flat: list[Any]) -> Any:
    """The nested lists of an array. Raises ValueError for a shape that does not fit."""
    if type(shape) is not list or type(flat) is not list:  # a range has any length in a few bytes
        raise ValueError("not the shape of an array")
    whole = empty = 1
    for length in shape:
        if type(length) is not int or not 0 <= length <= max(len(flat), MOST_EMPTY):
            raise ValueError("not the shape of an array")
        whole, empty = whole * length, empty * (length or 1)
        if empty > max(len(flat), MOST_EMPTY):
            raise ValueError("not the shape of an array")
    if len(shape) > MOST_DIMENSIONS or whole != len(flat):
        raise ValueError("not the shape of an array")

    def part(depth: int, items: Iterator[Any]) -> Any:
        return next(items) if depth == len(shape) else [part(depth + 1, items) for _ in range(shape[depth])]

    return part(0, iter(flat))


def array(name: str, shape: list[int], flat: list[Any]) -> Any:
    """NumPy's array where NumPy can be imported, otherwise nested lists. Raises ValueError."""
    lists = nested(name, shape, flat)
    try:
        import numpy
    except ImportError:
        return lists
    kinds = [f"{kind}{bits}" for kind in ("int", "uint", "float", "complex") for bits in (8, 16, 32, 64, 128)]
    if name not in ("bool", *kinds):
        raise ValueError("not the type of an array")
    return numpy.array(flat, dtype=name).reshape(shape)


def scalar_of(tag: str, rest: list[Any]) -> object:
    """The value of a scalar's tag. Raises ValueError, OverflowError or TypeError."""
    if not rest or any(type(part) is not str for part in rest) or len(rest) != {"q": 2, "r": 3}.get(tag, 1):
        raise ValueError("not an encoded scalar")
    if tag in "mq":
        if max(map(len, rest)) > LONGEST_NUMBER:
            raise ValueError("a number with too many digits")
        if tag == "m":
            from decimal import Decimal, InvalidOperation

            try:
                return Decimal(rest[0])
            except InvalidOperation as error:
                raise ValueError("not a Decimal") from error
        from fractions import Fraction

        top, bottom = (int(part, 16) for part in rest)
        if not bottom:
            raise ValueError("not a Fraction")
        return Fraction(top, bottom)
    if tag == "r":
        return range(*(int(part, 16) for part in rest))
    if tag in "bu":
        return bytes.fromhex(rest[0]) if tag == "b" else bytearray.fromhex(rest[0])
    return int(rest[0], 16) if tag == "i" else float(rest[0])


def make_decoder(extra: dict[str, Callable[..., Any]]) -> Callable[[object], object]:
    """A decoder that, like the encoder, needs no name that a program can replace.

    It rebuilds the value of a parsed record; `extra` has functions for the tags of objects and arrays, which get the
    decoded items. Raises ValueError for anything that the encoder never writes. A program that chooses the hashes of
    its keys can make it slow, so the caller's process does not use it (envs/sandbox/comparison.py).
    """
    kind_of, pairs, max_depth = type, zip, MAX_DEPTH
    plain, list_, str_, float_ = (bool, str, int, float), list, str, float
    complex_, dict_, scalar, single = complex, dict, scalar_of, SINGLE
    groups, named = {"t": tuple, "s": set, "z": frozenset}, TYPES
    kinds, each, scalars = set, map, {bool, str, int, float, type(None)}
    broken, awkward = ValueError, (KeyError, IndexError, TypeError, OverflowError)

    def decode(node: Any, depth: int = 0) -> object:
        kind = kind_of(node)
        if node is None or kind in plain:
            return node
        if kind is not list_ or not node or kind_of(node[0]) is not str_ or depth > max_depth:
            raise broken("not an encoded value")
        tag, rest = node[0], node[1:]
        try:
            if tag in single:
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
            if tag == "d":
                return dict_(pairs(items[::2], items[1::2], strict=True))
            if tag in groups:
                return groups[tag](items)
            return extra[tag](*items)
        except awkward as error:
            raise broken("not an encoded value") from error

    return decode


decode = make_decoder({"a": nested})


def depth_of(text: str) -> int:
    """How deeply JSON is nested, up to its first mistake."""
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    marks = outside.encode("utf-8", "replace").translate(None, NO_BRACKETS)
    return max(accumulate(map(STEPS.__getitem__, marks)), default=0)


def parse(text: str) -> Any:
    """Parse the JSON of an untrusted program; text that would make the parser recurse deeply is refused. Raises
    ValueError."""
    if text.count("[") + text.count("{") > MAX_DEPTH and depth_of(text) > MAX_DEPTH + 2:
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
