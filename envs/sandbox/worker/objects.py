"""The check process's stand-ins for what stays in the program of a `check` job: the entry point, and objects.

All attributes of a stand-in are the program's. What is read from an object (Remote) is plain data or another Remote,
and it never equals plain data, whatever the program's class says: an operator is the program's only between two of its
own objects, because it may not learn what the test expects. Objects that the test itself creates from the program's
classes (Made) can be passed to the program and linked, nothing else: if they had a truth value or results, a program
could define a class with the name of a function that the test lacks, and its objects would make the test's assertions
true.
"""

import contextlib
import sys
import types
from typing import Any, Protocol


class CandidateGone(BaseException):
    """The candidate's process ended or sent invalid data, or the test asked what no program may answer. It is not an
    Exception, so that few tests can catch it; those that do are not passed."""


class CandidateRaised(Exception):
    """The candidate raised an exception whose class this process does not know (library_types.error_of)."""


OWNER, PLACE, CLAIM, TRUTH, WHAT, NAME = " owner", " place", " claim", " truth", " what", " name"
"""What a stand-in knows, under names that no attribute of a program has."""
ASKED = ("__name__", "__qualname__", "__doc__", "__annotations__", "__defaults__", "__kwdefaults__", "__wrapped__")
"""Attributes of a stand-in with such names that are the program's; the others are the stand-in's."""
KINDS = {
    kind.__name__: kind
    for kind in (
        *(types.GeneratorType, types.CoroutineType, types.FunctionType, types.MethodType, types.BuiltinFunctionType),
        *(map, filter, zip, enumerate, reversed),
    )
}
"""What `isinstance` says of an object whose type has such a name. (A program can return one of them as well.)"""
OPERATORS = (
    *("lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"),
    *("and", "or", "xor"),
)
"""Operators between two objects of the program, as the names of their methods have them; see candidate.py."""


class Owner(Protocol):
    """What a stand-in needs of the connection to its program (connection.Candidate)."""

    calls: int
    program: "Remote"

    def ask(self, operation: str, *args: Any, **kwargs: Any) -> Any: ...
    def call(self, frame: types.FrameType, entry: "EntryPoint", args: tuple, kwargs: dict) -> Any: ...
    def use(self, frame: types.FrameType, called: "Remote", args: tuple, kwargs: dict) -> Any: ...
    def lost(self, why: str) -> CandidateGone: ...


def owner_of(value: "Remote | EntryPoint") -> Owner:
    return object.__getattribute__(value, "__dict__")[OWNER]


def shown(value: "Remote") -> str:
    """What a note says of an object."""
    return f"<an object of the program, of type {vars(value)[WHAT]}>"


def same(value: "Remote", other: object) -> bool:
    """Whether both stand for one object."""
    return isinstance(other, Remote) and vars(other)[PLACE] == vars(value)[PLACE]


class Remote:
    # An object of the program, which has a docstring of its own. CLAIM is the truth value that the program gives; it
    # counts (TRUTH) for a result of the entry point, which could as well be True or False itself. NAME is the attribute
    # from which a test has read it, if it has.

    __doc__: Any = property(lambda self: owner_of(self).ask("get", self, "__doc__"))
    __class__: Any = property(lambda self: KINDS.get(vars(self)[WHAT], Remote))

    def __init__(self, owner: Owner, place: int, claim: bool | None, what: str) -> None:
        vars(self).update({OWNER: owner, PLACE: place, CLAIM: claim, TRUTH: None, WHAT: what, NAME: None})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in ASKED:
            raise AttributeError(name)
        value = owner_of(self).ask("get", self, name)
        if type(value) is Remote:
            vars(value)[NAME] = name
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        owner_of(self).ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        owner_of(self).ask("delete", self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return owner_of(self).use(sys._getframe(1), self, args, kwargs)

    def __iter__(self) -> Any:
        return owner_of(self).ask("iter", self)

    def __next__(self) -> Any:
        return owner_of(self).ask("next", self)

    def __len__(self) -> Any:
        return owner_of(self).ask("len", self)

    def __getitem__(self, key: Any) -> Any:
        return owner_of(self).ask("item", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        owner_of(self).ask("set item", self, key, value)

    def __delitem__(self, key: Any) -> None:
        owner_of(self).ask("delete item", self, key)

    def __contains__(self, item: Any) -> bool:
        # compared here: the program's own answer would count, and `item` is what the test expects
        return any(other is item or other == item for other in self)

    def __enter__(self) -> Any:
        return owner_of(self).ask("enter", self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # it returns None, and raises nothing of the program's then: no program may suppress a failed assert
        with contextlib.suppress(*([] if kind is None else [Exception])):
            owner_of(self).ask("exit", self)

    def __str__(self) -> str:
        return owner_of(self).ask("text", self)

    def __repr__(self) -> str:
        return owner_of(self).ask("repr", self)

    def __bool__(self) -> bool:
        if vars(self)[TRUTH] is None:
            raise owner_of(self).lost(f"the truth value of {shown(self)} is no plain data; compare plain values")
        return vars(self)[TRUTH]

    def __eq__(self, other: object) -> Any:
        return same(self, other) or (type(other) is Remote and owner_of(self).ask("eq", self, other))

    def __hash__(self) -> Any:
        return owner_of(self).ask("hash", self)


def _operator(name: str) -> Any:
    """A method of Remote: the program's operator, if the other side is its object too."""

    def operate(self: Remote, other: object) -> Any:
        return owner_of(self).ask(name, self, other) if type(other) is Remote else NotImplemented

    return operate


for _name in OPERATORS:
    setattr(Remote, f"__{_name}__", _operator(_name))


def _refuse(self: "Made", *_: Any, **__: Any) -> Any:
    what = f"the test reads or compares {shown(self)}, which it can only pass to the entry point"
    raise owner_of(self).lost(what)


class Made(Remote):
    # An object that the test created from a class of the program. The test can pass it on and set its attributes.

    def __init__(self, owner: Owner, place: int, what: str) -> None:
        Remote.__init__(self, owner, place, None, what)

    def __setattr__(self, name: str, value: Any) -> None:
        Remote.__setattr__(self, name, value)
        vars(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _refuse(self)

    __call__ = __iter__ = __next__ = __len__ = __getitem__ = __contains__ = __str__ = __repr__ = __bool__ = _refuse
    __setitem__ = __delitem__ = __delattr__ = __enter__ = __exit__ = _refuse

    def __eq__(self, other: object) -> Any:
        return same(self, other) or _refuse(self)

    def __hash__(self) -> int:
        return hash((Remote, vars(self)[PLACE]))

    __class__ = property(_refuse)  # isinstance would otherwise answer
    __doc__ = property(_refuse)


for _name in OPERATORS:
    setattr(Made, f"__{_name}__", _refuse)


def plain(value: Any) -> Any:
    """`value`, if `is` may compare it. Raises CandidateGone."""
    return _refuse(value) if type(value) is Made else value


class EntryPoint:
    """What a test has under the name of the entry point."""

    def __init__(self, owner: Owner) -> None:
        object.__getattribute__(self, "__dict__")[OWNER] = owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return owner_of(self).call(sys._getframe(1), self, args, kwargs)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in ASKED:
            return object.__getattribute__(self, name)
        owner_of(self).calls += 1
        return owner_of(self).ask("get", owner_of(self).program, name)

    def __setattr__(self, name: str, value: Any) -> None:
        owner_of(self).ask("set", owner_of(self).program, name, value)

    # of an Enum, for example
    def __getitem__(self, key: Any) -> Any:
        owner_of(self).calls += 1
        return owner_of(self).ask("item", owner_of(self).program, key)

    def __iter__(self) -> Any:
        owner_of(self).calls += 1
        return owner_of(self).ask("iter", owner_of(self).program)


STAND_INS = (Remote, Made, EntryPoint)
"""Their classes. `type(value) in STAND_INS` asks nothing of the program."""
