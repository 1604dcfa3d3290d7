"""Functions that a test passes to the program of a `check` job: what the program is told of them, and its stand-ins.

A decorator asks for a function's name and docstring, and what curries a function for its parameters. So a stand-in has
them, as a function of the program's own would; its body asks the check process to call the test's.
"""

import types
from collections.abc import Callable
from typing import Any

import codec

VARIABLE, KEYWORDS = 4, 8
"""Flags of code with a parameter *args, and with **kwargs."""


def described(function: Any, encode: Callable[[object], str]) -> str:
    """Name, docstring, and for Python's own functions parameters with their defaults, encoded as a list."""
    told: list[Any] = [text_of(function, "__name__"), text_of(function, "__doc__")]
    own = function.__func__ if type(function) is types.MethodType else function
    if type(own) is not types.FunctionType:
        return encode(told)
    code, first = own.__code__, int(own is not function)
    names, count = code.co_varnames, code.co_argcount
    rest = count + code.co_kwonlyargcount
    star = names[rest] if code.co_flags & VARIABLE else None
    stars = names[rest + bool(star)] if code.co_flags & KEYWORDS else None
    by_name = own.__kwdefaults__ or {}
    told += [list(names[first:count]), max(0, code.co_posonlyargcount - first), star, list(names[count:rest]), stars]
    told += [[_sent(value, encode) for value in own.__defaults__ or ()]]
    told += [{name: _sent(value, encode) for name, value in by_name.items()}]
    told += [{name: kind for name, kind in own.__annotations__.items() if _sent(kind, encode)}]
    return encode(told)


def text_of(value: Any, name: str) -> str | None:
    text = getattr(value, name, None)
    return text if isinstance(text, str) else None


def _sent(value: Any, encode: Callable[[object], str]) -> list[Any]:
    """A value in a list; an empty list for one that cannot be sent."""
    try:
        encode(value)
    except codec.Unsupported:
        return []
    return [value]


def stand_in(call: Callable[[tuple, dict], Any], told: list[Any] | None) -> Callable[..., Any]:
    """A function as `described` tells of it, which `call` answers with the arguments that it is given."""
    if not told or len(told) == 2:

        def function(*args, **kwargs):
            return call(args, kwargs)

        name, doc = told or (None, None)
    else:
        name, doc, *parameters, notes = told
        function = _with_parameters(call, *parameters)
        function.__annotations__ = notes
    function.__name__ = function.__qualname__ = name or "function"
    function.__doc__ = doc
    return function


def _with_parameters(
    call: Callable[[tuple, dict], Any],
    names: list[str],
    only: int,
    star: str | None,
    keywords: list[str],
    stars: str | None,
    defaults: list[list[Any]],
    by_name: dict[str, list[Any]],
) -> Any:
    """A function with these parameters. What is not given is not passed on: the test's function has its own default."""
    values = tuple(value[0] if value else object() for value in defaults)
    named = {name: value[0] if value else object() for name, value in by_name.items()}

    def given(positional: tuple, more: tuple, by_keyword: dict, others: dict) -> Any:
        used = len(positional)
        for default in () if more else reversed(values):
            if positional[used - 1] is not default:
                break
            used -= 1
        kept = {name: value for name, value in by_keyword.items() if name not in named or value is not named[name]}
        return call(positional[:used] + more, kept | others)

    plain = len(names) - len(values)
    listed = [name if place < plain else f"{name}=__values__[{place - plain}]" for place, name in enumerate(names)]
    if only:
        listed.insert(only, "/")
    if star or keywords:
        listed.append(f"*{star or ''}")
    listed += [f"{name}=__named__[{name!r}]" if name in named else name for name in keywords]
    if stars:
        listed.append(f"**{stars}")
    positional = "".join(f"{name}, " for name in names)
    by_keyword = ", ".join(f"{name!r}: {name}" for name in keywords)
    body = f"__given__(({positional}), {star or '()'}, {{{by_keyword}}}, {stars or '{}'})"
    space: dict[str, Any] = {"__given__": given, "__values__": values, "__named__": named, "__name__": "__main__"}
    exec(f"def function({', '.join(listed)}):\n    return {body}\n", space)
    return space["function"]
