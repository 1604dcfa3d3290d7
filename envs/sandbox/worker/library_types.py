"""What of the standard library the test and the program of a `check` job pass to each other: collections, dates and
times by value, and exceptions by name.

They are written as e (a deque: its largest length, items), j (a Counter, OrderedDict or defaultdict: its name, a
dictionary, the built-in type of what it lacks), p (a named tuple: name, fields, items) and g (the name of a type of
`datetime`, then numbers or the text of `isoformat`); see codec.py. Subclasses of them are written as their base type,
and dates in a time zone other than a fixed offset not at all.
"""

import collections
import functools
import sys
from collections.abc import Callable
from typing import Any

import codec

DATES = ("datetime", "date", "time")
DICTIONARIES: dict[type, str] = {
    kind: kind.__name__ for kind in (collections.Counter, collections.OrderedDict, collections.defaultdict)
}
MOST_FIELDS = 255
"""Of a named tuple."""
LONGEST = 40
"""Characters of the text of a date with its time and offset."""
ERRORS = frozenset(
    {
        *("_csv", "binascii", "calendar", "configparser", "copy", "decimal", "graphlib", "ipaddress", "json.decoder"),
        *("numpy.exceptions", "numpy.linalg", "queue", "_queue", "re", "re._constants", "sre_constants", "statistics"),
        *("struct", "xml.etree.ElementTree", "zlib", "zoneinfo", "zoneinfo._common"),
    }
)
"""Modules whose exceptions a test may catch by their own names. No testing library is among them: a program that raises
`unittest.SkipTest` would end the test without a failure."""


AWKWARD = ("StopIteration", "StopAsyncIteration")
"""Exceptions that are not raised again under their own name: they would end a `map` or `all` of the test early."""


def written(
    value: Any,
    encode: Callable[[object], str],
    kind_of: Callable[[Any], type] = type,
    deque: type = collections.deque,
    modules: dict[str, Any] = sys.modules,
    listed: Callable[[Any], list] = list,
    names: tuple[str, ...] = DATES,
    attribute: Callable[..., Any] = getattr,
    dictionaries: dict[type, str] = DICTIONARIES,
    plain: Callable[[Any], dict] = dict,
    built_in: frozenset[type | None] = frozenset({None, *codec.TYPES.values()}),
    subclass: Callable[..., bool] = issubclass,
    tuple_: type = tuple,
) -> str | None:
    """The text of a value of these types, None for others. Names are bound here, as in the encoder."""
    kind = kind_of(value)
    if kind is deque:
        return '["e"' + encode([value.maxlen, *listed(value)])[4:]
    if kind in dictionaries:
        factory = attribute(value, "default_factory", None)
        return '["j"' + encode([dictionaries[kind], plain(value), factory if factory in built_in else None])[4:]
    if subclass(kind, tuple_):
        fields = attribute(kind, "_fields", None)
        return '["p"' + encode([kind.__name__, listed(fields), *listed(value)])[4:] if fields else None
    library = modules.get("datetime")
    if library is None:
        return None
    if kind is attribute(library, "timedelta", None):
        return f'["g","timedelta",{value.days},{value.seconds},{value.microseconds}]'
    for name in names:
        if kind is attribute(library, name, None):
            zone = attribute(value, "tzinfo", None)
            fixed = zone is None or kind_of(zone) is library.timezone
            return f'["g","{name}","{value.isoformat()}"]' if fixed and not attribute(value, "fold", 0) else None
    return None


def _deque(most: Any, *items: Any) -> object:
    if most is not None and (type(most) is not int or most < len(items)):
        raise ValueError("not a deque")
    return collections.deque(items, most)


def _dictionary(name: Any, items: Any, factory: Any) -> object:
    if name not in DICTIONARIES.values() or type(items) is not dict or not (factory is None or type(factory) is type):
        raise ValueError("not a dictionary")
    if name == "defaultdict":
        return collections.defaultdict(factory, items)
    return getattr(collections, name)(items)


@functools.lru_cache(64)
def _tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields, rename=True)


def _named_tuple(name: Any, fields: Any, *items: Any) -> object:
    named = [name, *fields] if type(fields) is list and len(fields) == len(items) <= MOST_FIELDS else [None]
    if not all(type(each) is str and each.isascii() and len(each) <= 100 for each in named):
        raise ValueError("not a named tuple")
    return _tuple_class(name, tuple(fields))._make(items)


def _moment(name: Any, *parts: Any) -> object:
    import datetime  # few tests need it, and each page of a module makes each fork slower

    if name == "timedelta" and len(parts) == 3 and all(type(part) is int for part in parts):
        return datetime.timedelta(*parts)
    if name not in DATES or len(parts) != 1 or type(parts[0]) is not str or len(parts[0]) > LONGEST:
        raise ValueError("not a date or time")
    return getattr(datetime, name).fromisoformat(parts[0])


def error_names(kind: type, built_in: dict[type, str], attribute: Callable[..., Any] = getattr) -> list[str]:
    """The names of an exception's classes that the check process may know, the last of them built in."""
    names: list[str] = []
    for base in kind.__mro__:
        if base in built_in:
            names.append(built_in[base])
            break
        if (module := attribute(base, "__module__", None)) in ERRORS:
            names.append(f"{module}.{base.__qualname__}")
    return names


def error_of(name: str, args: tuple, attributes: dict, built_in: dict[type, str]) -> Any:
    """An exception of that class with these arguments and attributes; None if this process does not have the class, or
    if it does not take them."""
    kind: Any = next((kind for kind, known in built_in.items() if known == name and name not in AWKWARD), None)
    module, _, short = name.rpartition(".")
    if module in ERRORS:
        kind = getattr(sys.modules.get(module), short, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception | SystemExit):
        return None
    try:
        # of a library's, the constructor may need more than what is in `args`
        error: Any = kind(*args) if kind in built_in else kind.__new__(kind, *args)
        str(error)
    except Exception:
        return None
    vars(error).update({name: value for name, value in attributes.items() if type(name) is str and name[:1] != "_"})
    return error


READ: dict[str, Callable[..., Any]] = {"e": _deque, "g": _moment, "j": _dictionary, "p": _named_tuple}
"""What a decoder needs for them (codec.make_decoder)."""
