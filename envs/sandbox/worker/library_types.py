"""Deques, dates and times, which the test and the program of a `check` job pass to each other by value.

They are written as e (a deque: its largest length, items) and g (the name of a type of `datetime`, then numbers or the
text of `isoformat`); see codec.py. Subclasses of them, and time zones other than a fixed offset, are not kept.
"""

import collections
import sys
from collections.abc import Callable
from typing import Any

DATES = ("datetime", "date", "time")
LONGEST = 40
"""Characters of the text of a date with its time and offset."""


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


READ: dict[str, Callable[..., Any]] = {"e": _deque, "g": _moment}
"""What a decoder needs for them (codec.make_decoder)."""
