"""The check process's side of a `check` job: a stand-in for the entry point, and for objects that stay in the program.
All attributes of a stand-in are the program's.

See candidate.py for the records. What the program sends is hostile: it is parsed with limits and rebuilt as plain data.
An object of the program is a Remote. What is read from it is plain data or another Remote, and it never equals plain
data, whatever the program's class says. Objects that the test itself creates from the program's classes can be passed
to the program and linked, nothing else: if they had a truth value or results, a program could define a class with the
name of a function that the test lacks, and its objects would make the test's assertions true.
"""

import collections
import dis
import functools
import json
import sys
import types
from collections.abc import Callable
from opcode import opmap
from typing import Any

import codec
import library_types
import program

CACHE, POP_TOP = opmap.get("CACHE", -1), opmap["POP_TOP"]
FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, functools.partial),
    *(types.WrapperDescriptorType, types.MethodWrapperType),
)
NOT_PASSED = {
    *(eval, exec, compile, open, input, __import__, getattr, setattr, delattr, vars, globals, locals, breakpoint)
}
"""Functions that a program could turn against the test."""


class CandidateGone(BaseException):
    """The candidate's process ended or sent invalid data, or the test asked what no program may answer. It is not an
    Exception, so that few tests can catch it; those that do are not passed."""


class CandidateRaised(Exception):
    """The candidate raised an exception whose class this process does not know (library_types.error_of)."""


OWNER, PLACE, CLAIM, TRUTH, WHAT = " owner", " place", " claim", " truth", " what"
"""What a stand-in knows, under names that no attribute of a program has."""
ASKED = ("__name__", "__qualname__", "__doc__", "__annotations__", "__defaults__", "__kwdefaults__")
"""Attributes of an entry point with such names that are the program's; the others are the stand-in's."""


def owner_of(value: "Remote | EntryPoint") -> "Candidate":
    return object.__getattribute__(value, "__dict__")[OWNER]


class Remote:
    """An object of the program. CLAIM is the truth value that the program gives; it counts (TRUTH) for a result of the
    entry point, which could as well be True or False itself."""

    def __init__(self, owner: "Candidate", place: int, claim: bool | None, what: str) -> None:
        vars(self).update({OWNER: owner, PLACE: place, CLAIM: claim, TRUTH: None, WHAT: what})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return owner_of(self).ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        owner_of(self).ask("set", self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return owner_of(self).ask("do", self, *args, **kwargs)

    def __iter__(self) -> Any:
        return owner_of(self).ask("iter", self)

    def __next__(self) -> Any:
        return owner_of(self).ask("next", self)

    def __len__(self) -> Any:
        return owner_of(self).ask("len", self)

    def __getitem__(self, key: Any) -> Any:
        return owner_of(self).ask("item", self, key)

    def __contains__(self, item: Any) -> bool:
        # compared here: the program's own answer would count, and `item` is what the test expects
        return any(other is item or other == item for other in self)

    def __str__(self) -> str:
        return owner_of(self).ask("text", self)

    def __bool__(self) -> bool:
        if vars(self)[TRUTH] is None:
            raise owner_of(self).lost(f"the truth value of {self!r} is no plain data; compare plain values")
        return vars(self)[TRUTH]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and vars(other)[PLACE] == vars(self)[PLACE]

    def __hash__(self) -> int:
        return hash((Remote, vars(self)[PLACE]))

    def __repr__(self) -> str:
        return f"<an object of the program, of type {vars(self)[WHAT]}>"


class Made(Remote):
    """An object that the test created from a class of the program. The test can pass it on and set its attributes."""

    def __init__(self, owner: "Candidate", place: int, what: str) -> None:
        Remote.__init__(self, owner, place, None, what)

    def __setattr__(self, name: str, value: Any) -> None:
        Remote.__setattr__(self, name, value)
        vars(self)[name] = value

    def _refuse(self, *_: Any, **__: Any) -> Any:
        what = f"the test reads or compares {self!r}, which it can only pass to the entry point"
        raise owner_of(self).lost(what)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __call__ = __iter__ = __next__ = __len__ = __getitem__ = __contains__ = __str__ = __bool__ = _refuse

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Remote) and vars(other)[PLACE] == vars(self)[PLACE]) or self._refuse()

    __hash__ = Remote.__hash__

    __class__ = property(_refuse)  # isinstance would otherwise answer


def plain(value: Any) -> Any:
    """`value`, if `is` may compare it. Raises CandidateGone."""
    return value._refuse() if type(value) is Made else value


class EntryPoint:
    """What a test has under the name of the entry point."""

    def __init__(self, owner: "Candidate") -> None:
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


class Candidate:
    """The connection to a program. It forwards calls of the entry point; it waits first until the program is ready.

    Args:
        channel: the socket to the program.
        most: largest size of a message in bytes.
        arrays: whether arrays of the program become NumPy's; otherwise they become lists.

    Raises CandidateGone.
    """

    def __init__(self, channel: int, most: int, arrays: bool = False) -> None:
        self._send, self._line = program.writer(channel), program.reader(channel, most * 2)
        self._encode = codec.make_encoder(most, self._keep)
        self._decode = codec.make_decoder(
            {"h": self._remote, "k": self._own, "n": self._own, "a": codec.array if arrays else codec.nested}
            | library_types.READ
        )
        self._functions: list[Callable[..., Any]] = []
        self._passed: list[Any] = []
        self._numbers: dict[int, int] = {}
        self.calls = 0
        """How often the test has used the entry point."""
        self.gone = ""
        """Why it can no longer be judged; empty while it can."""
        self.seen = ""
        """The type of the last object of the program."""
        self._answers = 0
        self.program = Remote(self, 0, None, "function")
        """The entry point as the program has it, the first of its objects."""
        self.entry = EntryPoint(self)
        ready = self._receive()
        if ready[0] != "ready" or len(ready) != 2:
            raise CandidateGone(str(ready[-1]))
        names = codec.decode(ready[1])
        self.classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def call(self, frame: types.FrameType, entry: EntryPoint, args: tuple, kwargs: dict) -> Any:
        """Call the entry point for a test's `frame`."""
        self.calls += 1
        value = self._ask("run" if _discarded(frame, entry) else "call", None, args, kwargs)
        if type(value) is Remote:
            vars(value)[TRUTH] = vars(value)[CLAIM]
        return value

    def make(self, name: str, *args: Any, **kwargs: Any) -> Made:
        """Create an object of a class that the program defines, for a test that passes it to the entry point."""
        place = self._ask("make", name, args, kwargs)
        if type(place) is not int:
            raise self.lost("unreadable answer")
        return Made(self, place, name)

    def ask(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        """An operation on an object of the program."""
        return self._ask(operation, None, args, kwargs)

    def _ask(self, operation: str, name: str | None, args: tuple, kwargs: dict) -> Any:
        try:
            quoted = "null" if name is None else json.dumps(name)
            request = f'["{operation}",{quoted},{self._encode(list(args))},{self._encode(kwargs)}]\n'
        except codec.Excess as error:
            if self._answers:  # otherwise the test is the cause
                raise CandidateRaised(f"the test passes its result on, which cannot be sent: {error}") from error
            raise
        self._write(request)
        while True:
            record = self._receive()
            if record[0] != "c" or len(record) != 4:
                break
            self._write(self._called(*record[1:]))
        self._answers += 1
        try:
            if record[0] == "v" and len(record) == (4 if operation == "run" else 2):
                if operation == "run":
                    _change_all(args, self._decode(record[2]))
                    _change(kwargs, self._decode(record[3]))
                return self._decode(record[1])
        except ValueError as error:
            raise self.lost("unreadable answer") from error
        if record[0] == "e" and len(record) == 3:
            raise self._raised(str(record[1]), record[2] if type(record[2]) is list else [], operation)
        raise self.lost("unreadable answer")

    def _raised(self, text: str, names: list[Any], operation: str) -> Exception:
        if names[-1:] == ["StopIteration"] and operation == "next":
            return StopIteration()
        for name in names:
            error = library_types.error_of(name, text, program.BUILT_IN) if type(name) is str else None
            if error is not None:
                vars(error)["told"] = text  # for notes: its class, and its line in the program
                return error
        return CandidateRaised(text)

    def _called(self, number: Any, args: Any, kwargs: Any) -> str:
        """Call a function that the test has passed to the program, and encode the answer."""
        try:
            args, kwargs = self._decode(args), self._decode(kwargs)
            return '["v",' + self._encode(self._functions[number](*args, **kwargs)) + "]\n"
        except Exception as error:
            names = [program.BUILT_IN[base] for base in type(error).__mro__ if base in program.BUILT_IN]
            return json.dumps(["e", str(error)[:300], names[0]]) + "\n"

    def _keep(self, value: Any) -> str | None:
        """Encode an object of the program, a deque, a date, or a function or an iterator of the test."""
        if (text := library_types.written(value, self._encode)) is not None:
            return text
        if type(value) in (Remote, Made):
            return f'["h",{vars(value)[PLACE]}]'
        if type(value) is EntryPoint:
            return '["h",0]'
        function, tag = value, "k"
        if hasattr(type(value), "__next__"):
            function, tag = functools.partial(next, value), "n"
        elif not isinstance(value, FUNCTIONS) or (type(value) is types.BuiltinFunctionType and value in NOT_PASSED):
            return None
        number = self._numbers.setdefault(id(value), len(self._passed))
        if number == len(self._passed):
            self._functions.append(function)
            self._passed.append(value)  # which also keeps its identity from being used again
        return f'["{tag}",{number}]'

    def _own(self, number: int) -> Any:
        """What the test has passed, which comes back."""
        return self._passed[number]

    def _remote(self, place: int, truth: bool | None = None, what: str = "object") -> Remote:
        if type(place) is not int or type(what) is not str or truth not in (True, False, None):
            raise ValueError("not an object")
        self.seen = what[:80]
        return Remote(self, place, truth, self.seen)

    def _write(self, text: str) -> None:
        try:
            self._send(text)
        except OSError as error:
            raise self.lost("the program ended early") from error

    def _receive(self) -> list:
        try:
            text = self._line()
            record = codec.parse(text) if text is not None else None
        except (OSError, ValueError) as error:
            raise self.lost("unreadable answer") from error
        if type(record) is not list or not record:
            raise self.lost("the program ended early" if record is None else "unreadable answer")
        return record

    def lost(self, why: str) -> CandidateGone:
        self.gone = self.gone or why
        return CandidateGone(why)


def _discarded(frame: types.FrameType, entry: EntryPoint) -> bool:
    """Whether a frame calls the entry point and does not use the result, as in a statement `f(x)`.

    Only then does the test see how the call has changed its arguments. In `assert f(x) == g(x)` the program could
    otherwise choose what the test expects; in `out.extend(map(f, xs))` another function uses the result.
    """
    code, place = frame.f_code.co_code, frame.f_lasti + 2
    while code[place] == CACHE:
        place += 2
    if code[place] != POP_TOP:
        return False
    name = _called(frame.f_code, frame.f_lasti)
    return name is not None and frame.f_locals.get(name, frame.f_globals.get(name)) is entry


@functools.lru_cache(maxsize=1024)
def _called(code: types.CodeType, place: int) -> str | None:
    """The name that a call at `place` calls: the one that is read where the call's source begins. None where it calls
    something else, such as a method."""
    instructions = list(dis.get_instructions(code))
    [call] = [each for each in instructions if each.offset == place]
    start = call.positions and (call.positions.lineno, call.positions.col_offset)
    for each in instructions:
        read = each.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF")
        if read and each.positions and (each.positions.lineno, each.positions.col_offset) == start:
            return str(each.argval)
    return None


def _change_all(old: Any, new: Any) -> None:
    """Change the items of a sequence in place. Raises ValueError for what is not one of the same length."""
    if type(new) not in (list, tuple) or len(new) != len(old):
        raise ValueError("not the arguments of a call")
    for left, right in zip(old, new, strict=True):
        _change(left, right)


def _change(old: Any, new: Any) -> Any:
    """Give a list, dictionary, set, deque, bytearray or array of the test the content that it has after a call, in
    place, and return it; `new` if it is of another type."""
    if type(old) in (Remote, Made, EntryPoint):
        return old
    if isinstance(old, list) and type(new) is list:
        old[:] = [*(_change(left, right) for left, right in zip(old, new, strict=False)), *new[len(old) :]]
    elif isinstance(old, dict) and type(new) is dict:
        changed = {key: _change(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(changed)
    elif isinstance(old, set) and type(new) is set:
        old.clear()
        old.update(new)
    elif isinstance(old, collections.deque) and type(new) is collections.deque:
        old.clear()
        old.extend(new)
    elif isinstance(old, bytearray) and type(new) is bytearray:
        old[:] = new
    elif isinstance(old, tuple) and type(new) is tuple:
        _change_all(old, new)
    elif type(old).__name__ == "ndarray" and getattr(new, "shape", None) == old.shape:
        old[...] = new
    else:
        return new
    return old
