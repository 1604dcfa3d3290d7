"""The language of conditions on traces: conditions as data, functions that build them, and the evaluator.

A trace is a list of events (kind, text, options): kind GoTo, CheckEntity, Ask, Say, Pick or Place; options a list for
Ask, else None. All of the following is plain JSON, so that a new task can be a JSON file:

    pattern     "text"                     a regular expression, searched, ignoring case; "" matches every text
                {"has": ["a/b", "c"]}      contains a or b, and contains c (plain text)
                {"all": [pattern...]}  {"any": [pattern...]}  {"not": pattern}
    event       {"go": pattern}, likewise check, say, pick, place
                {"ask": pattern, "options": pattern}   the question, and at least one option
                {"away": "place"}          a GoTo whose text lacks that place as whole words
    trace       "trace", or {"after": [trace, event]}, likewise before, after_last, before_last: the events after or
                before the first (last) such event; the whole trace if there is none
    condition   {"in": [trace, event]}
                {"visit": [trace, "place", event]}     the event happens during the first stay at the place
                {"anyvisit": [trace, "place", event]}  during some stay
                {"report": pattern}        said during the first stay at start_loc after having left it
                {"count": [trace, event], "least": n, "most": n}
                {"and": [condition...]}  {"or": [condition...]}  {"not": condition}

All parts of a condition are evaluated: an option that is not text raises TypeError if any part tests it, as in RoboEval
(Hu et al. 2024, arXiv 2311.11183).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

Event = tuple[str, str, Any]
Trace = Sequence[Event]
Pattern = str | dict[str, Any]
Condition = dict[str, Any]
EventTest = dict[str, Any]
TraceTerm = str | dict[str, Any]

T = "trace"
ANY = ""
START = "start_loc"
KINDS = {"go": "GoTo", "check": "CheckEntity", "say": "Say", "pick": "Pick", "place": "Place", "ask": "Ask"}

# --- builders -----------------------------------------------------------------------------------------------------


def has(*items: str) -> Pattern:
    """Contains all items; "a/b" means a or b."""
    return {"has": list(items)}


def go(pattern: Pattern) -> EventTest:
    return {"go": pattern}


def check(pattern: Pattern = ANY) -> EventTest:
    return {"check": pattern}


def say(pattern: Pattern = ANY) -> EventTest:
    return {"say": pattern}


def pick(pattern: Pattern = ANY) -> EventTest:
    return {"pick": pattern}


def place(pattern: Pattern = ANY) -> EventTest:
    return {"place": pattern}


def ask(question: Pattern = ANY, options: Pattern = ANY) -> EventTest:
    return {"ask": question, "options": options}


def away(location: str) -> EventTest:
    return {"away": location}


def after(trace: TraceTerm, event: EventTest) -> TraceTerm:
    return {"after": [trace, event]}


def before(trace: TraceTerm, event: EventTest) -> TraceTerm:
    return {"before": [trace, event]}


def after_last(trace: TraceTerm, event: EventTest) -> TraceTerm:
    return {"after_last": [trace, event]}


def before_last(trace: TraceTerm, event: EventTest) -> TraceTerm:
    return {"before_last": [trace, event]}


def inside(trace: TraceTerm, event: EventTest) -> Condition:
    return {"in": [trace, event]}


def visit(trace: TraceTerm, location: str, event: EventTest) -> Condition:
    return {"visit": [trace, location, event]}


def anyvisit(trace: TraceTerm, location: str, event: EventTest) -> Condition:
    return {"anyvisit": [trace, location, event]}


def report(pattern: Pattern) -> Condition:
    return {"report": pattern}


def count(trace: TraceTerm, event: EventTest, least: int = 0, most: int | None = None) -> Condition:
    return {"count": [trace, event], "least": least, "most": most}


def every(*conditions: Condition) -> Condition:
    return {"and": list(conditions)}


def some(*conditions: Condition) -> Condition:
    return {"or": list(conditions)}


def no(condition: Condition) -> Condition:
    return {"not": condition}


def exactly(wanted: bool, condition: Condition) -> Condition:
    """The condition holds if and only if `wanted`."""
    return condition if wanted else no(condition)


# --- evaluation ---------------------------------------------------------------------------------------------------

Matcher = Callable[[Any], bool]
Tester = Callable[[Event], bool]
Cutter = Callable[[Trace], Trace]
Checker = Callable[[Trace], bool]


def satisfied(condition: Condition, trace: Trace) -> bool:
    """Whether a trace satisfies a condition.

    Raises:
        ValueError: the condition is not part of the language.
        TypeError: a part tests an option that is not text.
    """
    return compiled(json.dumps(condition))(trace)


@functools.lru_cache(maxsize=4096)
def compiled(condition: str) -> Checker:
    """The checker of a condition in JSON. Raises ValueError with the invalid part."""
    return _condition(json.loads(condition))


def _wrong(what: str, value: Any) -> ValueError:
    return ValueError(f"not a {what} of the trace language: {json.dumps(value)[:100]}")


def _pattern(value: Any) -> Matcher:
    if isinstance(value, str):
        try:
            search = re.compile(value, re.IGNORECASE).search
        except re.error as error:
            raise ValueError(f"not a regular expression: {value[:100]!r} ({error})") from error
        return lambda text: search(text) is not None
    if not isinstance(value, dict) or len(value) != 1:
        raise _wrong("pattern", value)
    [(name, parts)] = value.items()
    if name == "not":
        inner = _pattern(parts)
        return lambda text: not inner(text)
    if name == "has" and _texts(parts):
        searches = [re.compile("|".join(map(re.escape, item.split("/"))), re.IGNORECASE).search for item in parts]
        return lambda text: all(search(text) is not None for search in searches)
    if name in ("all", "any") and isinstance(parts, list):
        matchers, combine = [_pattern(part) for part in parts], all if name == "all" else any
        return lambda text: combine([matches(text) for matches in matchers])
    raise _wrong("pattern", value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _event(value: Any) -> Tester:
    if not isinstance(value, dict) or not value:
        raise _wrong("event", value)
    name = next(iter(value))
    if name == "away" and isinstance(value[name], str):
        here = re.compile(rf"\b{re.escape(value[name])}\b", re.IGNORECASE).search
        return lambda event: event[0] == "GoTo" and here(event[1]) is None
    kind = KINDS.get(name)
    if kind is None or set(value) - {name, "options"} or ("options" in value and name != "ask"):
        raise _wrong("event", value)
    matches = _pattern(value[name])
    if name != "ask":
        return lambda event: event[0] == kind and matches(event[1])
    offered = _pattern(value.get("options", ANY))
    return lambda event: event[0] == kind and matches(event[1]) and any(offered(option) for option in event[2])


def _pair(value: Any, length: int = 2) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise _wrong("list of arguments", value)
    return value


def _first(test: Tester, trace: Trace) -> int | None:
    for place, event in enumerate(trace):
        if test(event):
            return place
    return None


def _last(test: Tester, trace: Trace) -> int | None:
    for place in range(len(trace) - 1, -1, -1):
        if test(trace[place]):
            return place
    return None


def _trace(value: Any) -> Cutter:
    if value == T:
        return lambda trace: trace
    if not isinstance(value, dict) or len(value) != 1:
        raise _wrong("trace", value)
    [(name, arguments)] = value.items()
    if name not in ("after", "before", "after_last", "before_last"):
        raise _wrong("trace", value)
    inner_value, event = _pair(arguments)
    return _cut(_trace(inner_value), _event(event), name.startswith("after"), name.endswith("last"))


def _cut(inner: Cutter, test: Tester, keep_after: bool, last: bool) -> Cutter:
    find = _last if last else _first

    def cut(trace: Trace) -> Trace:
        trace = inner(trace)
        place = find(test, trace)
        if place is None:
            return trace
        return trace[place + 1 :] if keep_after else trace[:place]

    return cut


def _condition(value: Any) -> Checker:
    if not isinstance(value, dict) or not value:
        raise _wrong("condition", value)
    name = next(iter(value))
    if name == "count":
        return _count(value)
    if len(value) != 1:
        raise _wrong("condition", value)
    arguments = value[name]
    if name in ("and", "or"):
        if not isinstance(arguments, list):
            raise _wrong("condition", value)
        parts, combine = [_condition(part) for part in arguments], all if name == "and" else any
        return lambda trace: combine([part(trace) for part in parts])
    if name == "not":
        inner = _condition(arguments)
        return lambda trace: not inner(trace)
    if name == "in":
        trace_value, event = _pair(arguments)
        cut, test = _trace(trace_value), _event(event)
        return lambda trace: _first(test, cut(trace)) is not None
    if name == "report":
        return _visit(_trace(after(T, away(START))), START, _event(say(arguments)), first=True)
    if name in ("visit", "anyvisit"):
        trace_value, location, event = _pair(arguments, 3)
        if not isinstance(location, str):
            raise _wrong("condition", value)
        return _visit(_trace(trace_value), location, _event(event), first=name == "visit")
    raise _wrong("condition", value)


def _count(value: dict[str, Any]) -> Checker:
    least, most = value.get("least", 0), value.get("most")
    if set(value) - {"count", "least", "most"} or type(least) is not int or type(most) not in (int, type(None)):
        raise _wrong("condition", value)
    trace_value, event = _pair(value["count"])
    cut, test = _trace(trace_value), _event(event)

    def counted(trace: Trace) -> bool:
        number = sum([test(event) for event in cut(trace)])
        return number >= least and (most is None or number <= most)

    return counted


def _visit(cut: Cutter, location: str, test: Tester, first: bool) -> Checker:
    """Whether the event happens during the first stay at a place, or during any. A stay lasts until the next GoTo to
    another place."""
    arrives, leaves = _event(go(re.escape(location))), _event(away(location))

    def visited(trace: Trace) -> bool:
        rest, happened = cut(trace), False
        arrival: int | None = 0
        while arrival is not None:
            arrival = _first(arrives, rest)
            rest = rest if arrival is None else rest[arrival + 1 :]
            departure = _first(leaves, rest)
            held = _first(test, rest if departure is None else rest[:departure]) is not None
            happened |= held and arrival is not None
            if first:
                break
        return happened

    return visited
