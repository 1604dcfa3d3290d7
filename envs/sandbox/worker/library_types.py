"""What of the standard library the test and the program of a `check` job pass to each other: deques, dates and times by
value, and exceptions by name.

They are written as e (a deque: its largest length, items) and g (the name of a type of `datetime`, then numbers or the
text of `isoformat`); see codec.py. Subclasses of them, and time zones other than a fixed offset, are not kept.
"""

import collections
import contextlib
import re
import sys
from collections.abc import Callable
from typing import Any

DATES = ("datetime", "date", "time")
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


AWKWARD = (
    *("StopIteration", "StopAsyncIteration"),
    *("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError", "ExceptionGroup"),
)
"""Exceptions that are not raised again under their own name: the first two would end a `map` or `all` of the test
early, and the others need more arguments."""
TOLD = re.compile(r"\w+(?:: (.*?))?(?: \(line \d+\))?", re.DOTALL)
"""An exception as `describe` writes it; the group is its own text."""


def written(
    value: Any,
    encode: Callable[[object], str],
    kind_of: Callable[[Any], type] = type,
    deque: type = collections.deque,
    modules: dict[str, Any] = sys.modules,
    listed: Callable[[Any], list] = list,
    names: tuple[str, ...] = DATES,
    attribute: Callable[..., Any] = getattr,
) -> str | None:
    """The text of a value of these types, None for others. Names are bound here, as in the encoder."""
    kind = kind_of(value)
    if kind is deque:
        return '["e"' + encode([value.maxlen, *listed(value)])[4:]
    library = modules.get("datetime")
    if library is None:
        return None
    if kind is attribute(library, "timedelta", None):
        return f'["g","timedelta",{value.days},{value.seconds},{value.microseconds}]'
    for name in names:
        if kind is attribute(library, name, None):
            return f'["g","{name}","{value.isoformat()}"]'
    return None


def _deque(most: Any, *items: Any) -> object:
    if most is not None and (type(most) is not int or most < len(items)):
        raise ValueError("not a deque")
    return collections.deque(items, most)


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


def _own_text(told: str, kind: type[Exception]) -> Any:
    """An exception's own text, of what `describe` made of it; of a KeyError the key, if it is plain data."""
    match = TOLD.fullmatch(told)
    text = (match[1] or "") if match else told
    if kind is KeyError:
        import ast  # as datetime above

        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(text)
    return text


def error_of(name: str, told: str, built_in: dict[type, str]) -> Exception | None:
    """An exception of that class with its own text; None if this process does not have the class."""
    for kind, known in built_in.items():
        if name == known:
            return kind(_own_text(told, kind)) if issubclass(kind, Exception) and name not in AWKWARD else None
    module, _, short = name.rpartition(".")
    known_here: Any = getattr(sys.modules.get(module), short, None) if module in ERRORS else None
    if not isinstance(known_here, type) or not issubclass(known_here, Exception):
        return None
    try:
        error = known_here.__new__(known_here, _own_text(told, known_here))  # its constructor may need more than a text
        str(error)
    except Exception:
        return None
    return error


READ: dict[str, Callable[..., Any]] = {"e": _deque, "g": _moment}
"""What a decoder needs for them (codec.make_decoder)."""
