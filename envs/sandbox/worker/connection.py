"""The check process's connection to the program of a `check` job. See candidate.py for the records.

What the program sends is hostile: it is parsed with limits and rebuilt as plain data, or as a stand-in (objects.py).
"""

import functools
import io
import json
import types
from collections.abc import Callable
from typing import Any

import codec
import effects
import library_types
import objects
import passed
import program
from objects import CandidateGone, CandidateRaised, EntryPoint, Made, Remote

FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, functools.partial),
    *(types.WrapperDescriptorType, types.MethodWrapperType),
)
NOT_PASSED = {
    *(eval, exec, compile, open, input, __import__, getattr, setattr, delattr, vars, globals, locals, breakpoint)
}
"""Functions that a program could turn against the test."""


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
        self._encode = codec.make_encoder(most, self._keep, library_types.written)
        self._decode = codec.make_decoder(
            {"h": self._remote, "k": self._own, "n": self._own, "a": codec.array if arrays else codec.nested}
            | library_types.READ
        )
        self._functions: list[Callable[..., Any]] = []
        self._passed: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._thrown: list[Exception] = []
        self._remotes: dict[int, Remote] = {}
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
        value = self._ask("run" if effects.is_discarded(frame, entry) else "call", None, args, kwargs)
        if type(value) is Remote:
            vars(value)[objects.TRUTH] = vars(value)[objects.CLAIM]
        return value

    def use(self, frame: types.FrameType, called: Remote, args: tuple, kwargs: dict) -> Any:
        """Call an object of the program, such as a method or a closure, for a test's `frame`."""
        discarded = effects.is_discarded(frame, called, vars(called)[objects.NAME])
        return self._ask("run object" if discarded else "call object", None, (called, *args), kwargs)

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
        changed = operation in ("run", "run object")
        try:
            if record[0] == "v" and len(record) == (4 if changed else 2):
                if changed:
                    own = args[1:] if operation == "run object" else args
                    effects.change_all(own, self._decode(record[2]), _is_stand_in)
                    effects.change(kwargs, self._decode(record[3]), _is_stand_in)
                return self._decode(record[1])
        except ValueError as error:
            raise self.lost("unreadable answer") from error
        if record[0] == "e" and len(record) == 5:
            raise self._raised(record[1], record[2], record[3], record[4], operation)
        raise self.lost("unreadable answer")

    def _raised(self, text: Any, names: Any, number: Any, parts: Any, operation: str) -> Exception:
        """The exception that the program has raised; one of a function of the test itself if it has the number of
        that."""
        try:
            args, attributes = self._decode(parts) if parts is not None else ((str(text),), {})
        except (ValueError, TypeError) as unreadable:
            raise self.lost("unreadable answer") from unreadable
        if type(names) is not list or type(args) is not tuple or type(attributes) is not dict:
            raise self.lost("unreadable answer")
        if type(number) is int and 0 <= number < len(self._thrown):
            return self._thrown[number]
        if names[-1:] == ["StopIteration"] and operation == "next":
            return StopIteration()
        for name in names:
            error = library_types.error_of(name, args, attributes, program.BUILT_IN) if type(name) is str else None
            if error is not None:
                vars(error)["told"] = str(text)  # for notes: its class, and its line in the program
                return error
        return CandidateRaised(str(text))

    def _called(self, number: Any, args: Any, kwargs: Any) -> str:
        """Call a function that the test has passed to the program, and encode the answer."""
        try:
            args, kwargs = self._decode(args), self._decode(kwargs)
            return '["v",' + self._encode(self._functions[number](*args, **kwargs)) + "]\n"
        except Exception as error:
            names = [program.BUILT_IN[base] for base in type(error).__mro__ if base in program.BUILT_IN]
            text = error.args[0] if [type(part) for part in error.args] == [str] else str(error)
            number = -1
            if not isinstance(error, StopIteration | StopAsyncIteration):  # which would end an iteration of the test
                number = len(self._thrown)
                self._thrown.append(error)
            return json.dumps(["e", text[:300], names[0], number]) + "\n"

    def _keep(self, value: Any) -> str | None:
        """Encode an object of the program, or a function or an iterator of the test."""
        if type(value) in (Remote, Made):
            return f'["h",{vars(value)[objects.PLACE]}]'
        if type(value) is EntryPoint:
            return '["h",0]'
        function, tag, told = value, "k", ""
        if isinstance(value, io.IOBase):  # it has __next__ too, but a program reads and writes it in other ways
            return None
        if hasattr(type(value), "__next__"):
            function, tag = functools.partial(next, value), "n"
        elif not isinstance(value, FUNCTIONS) or (type(value) is types.BuiltinFunctionType and value in NOT_PASSED):
            return None
        number = self._numbers.setdefault(id(value), len(self._passed))
        if number == len(self._passed):
            self._functions.append(function)
            self._passed.append(value)  # which also keeps its identity from being used again
            told = "," + passed.described(value, self._encode) if tag == "k" else ""
        return f'["{tag}",{number}{told}]'

    def _own(self, number: int) -> Any:
        """What the test has passed, which comes back."""
        return self._passed[number]

    def _remote(self, place: int, truth: bool | None = None, what: str = "object") -> Remote:
        """The stand-in for an object: each time the same, so that `is` compares what the program has."""
        if type(place) is not int or type(what) is not str or truth not in (True, False, None):
            raise ValueError("not an object")
        self.seen = what[:80]
        remote = self._remotes.setdefault(place, Remote(self, place, truth, self.seen))
        vars(remote)[objects.CLAIM] = truth
        return remote

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


def _is_stand_in(value: object) -> bool:
    return type(value) in objects.STAND_INS
