"""The program's side of a `check` job: it answers requests of the check process until that closes the socket.

A record is one line of JSON. Requests are [operation, name, args, kwargs]: `call` the entry point; `run` it for its
effect on the arguments; `make` an object of the program's class `name`; `run object`, the first of args, for its effect
on the others; or one of OPERATIONS on objects that stay here, of which the entry point has the number 0. Answers are
["v", value], after `run` and `run object` ["v", null, args, kwargs], or ["e", text, names of the exception's classes,
number, its args and attributes].

While it works, the program may itself request ["c", number, args, kwargs], a call of a function that the test has
passed to it. If that raises an exception, the answer has a number, which the program's answer has too if it does not
catch the exception; otherwise it is -1.

Nothing here is trusted; bound names only ensure that an honest program is answered whatever it has replaced.
"""

import operator
from collections.abc import Callable
from typing import Any

import codec
import library_types
import passed
import program

OPERATIONS: dict[str, Callable[..., Any]] = {
    "call object": lambda value, *args, **kwargs: value(*args, **kwargs),
    "get": getattr,
    "set": setattr,
    "delete": delattr,
    "iter": iter,
    "next": next,
    "len": len,
    "hash": hash,
    "item": operator.getitem,
    "set item": operator.setitem,
    "delete item": operator.delitem,
    "text": str,
    "repr": repr,
    "enter": lambda value, kind=type: kind(value).__enter__(value),
    "exit": lambda value, kind=type: kind(value).__exit__(value, None, None, None),
    **{name: getattr(operator, name) for name in ("eq", "lt", "le", "gt", "ge", "lshift", "rshift", "xor")},
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow")},
    "and": operator.and_,
    "or": operator.or_,
}


class Kept:
    """Objects that stay in this process, and functions of the test that stay in the other one, by number.

    It is made in the template, like what encodes and decodes with it, so that a candidate's process copies no pages for
    it. `ask`, which calls a function of the test, is set there.

    Args:
        most: length of an encoded value, in characters.
    """

    def __init__(self, most: int) -> None:
        self.ask: Callable[..., Any] = print
        self.encode = codec.make_encoder(most, self.keep, library_types.written)
        kept = {"h": self.object, "k": self.function, "n": self.iterator, "a": codec.array}
        self.decode = codec.make_decoder(kept | library_types.READ)
        self.operations = dict(OPERATIONS)
        self.objects: list[Any] = []
        self.places: dict[int, int] = {}
        self.functions: dict[int, str] = {}
        """Text of the functions of the test that were passed, by identity; `held` keeps them alive."""
        self.held: list[Any] = []
        self.stand_ins: dict[int, Callable[..., Any]] = {}

    def keep(self, value: Any, identity=id, truth=bool, kind=type, quote=codec._quote, size=len) -> str:
        """Encode an object: its number, its truth value and the name of its type."""
        mine = identity(value)
        if mine in self.functions:
            return self.functions[mine]
        if mine not in self.places:
            self.places[mine] = size(self.objects)
            self.objects.append(value)
        try:
            true = "true" if truth(value) else "false"
        except Exception:
            true = "null"
        return f'["h",{self.places[mine]},{true},{quote(kind(value).__name__[:80])}]'

    def add(self, value: Any) -> int:
        self.places[id(value)] = len(self.objects)
        self.objects.append(value)
        return len(self.objects) - 1

    def object(self, place: int, *_: Any) -> Any:
        """An object that the check process names."""
        return self.objects[place]

    def function(self, number: int, told: list[Any] | None = None) -> Callable[..., Any]:
        """A function that calls the test's, of which the check process tells when it passes it for the first time."""
        if number not in self.stand_ins:
            ask = self.ask
            function = passed.stand_in(lambda args, kwargs: ask(number, args, kwargs), told)
            self.stand_ins[number] = self._passed(function, f'["k",{number}]')
        return self.stand_ins[number]

    def iterator(self, number: int) -> Any:
        """An iterator over the test's."""
        ask = self.ask

        class iterator:
            def __iter__(self):
                return self

            def __next__(self):
                return ask(number, (), {})

        return self._passed(iterator(), f'["n",{number}]')

    def _passed(self, value: Any, text: str) -> Any:
        self.held.append(value)
        self.functions[id(value)] = text
        return value


def warm() -> None:
    """As program.warm, for what a candidate's process uses besides."""
    kept, sample = Kept(1 << 20), [1, 2.5, "text", None, True, (1, "x"), {"k": [1, 2]}, {3}, -1]
    for _ in range(40):
        kept.decode(codec.parse(kept.encode(sample)))


def _server(tools: program.Tools, kept: Kept, space: dict[str, Any]) -> Callable[[list], None]:
    """A function that answers one request of the check process. space: the program's names.

    It is made before the program runs, so that it needs no name that the program can replace. Then the first of the
    objects kept is the entry point.
    """
    send, quote, describe_error, line, parse = tools.send, tools.quote, tools.describe, tools.line, tools.parse
    encode, decode, operations, objects, held = kept.encode, kept.decode, kept.operations, kept.objects, kept.held
    failure, kind, builtin, refused, first = BaseException, type, program.BUILT_IN, codec.Unsupported, next
    named, join, identity = library_types.error_names, ",".join, id
    thrown: dict[int, int] = {}  # numbers of the test's exceptions, by identity; `held` keeps them alive

    def ask(number: int, args: tuple, kwargs: dict) -> Any:
        send(f'["c",{number},' + encode(args) + "," + encode(kwargs) + "]\n")
        while True:
            record = parse(line(), 0)[0]
            if record[0] == "v":
                return decode(record[1])
            if record[0] == "e":
                error = first((error for error, name in builtin.items() if name == record[2]), failure)(record[1])
                held.append(error)
                thrown[identity(error)] = record[3]
                raise error
            serve(record)

    def other(operation: str, name: str, args: Any, kwargs: dict) -> str:
        if operation == "make":
            return '["v",' + encode(kept.add(space[name](*args, **kwargs))) + "]\n"
        if operation in operations:
            return '["v",' + encode(operations[operation](*args, **kwargs)) + "]\n"
        called, *args = args if operation == "run object" else [objects[0], *args]
        called(*args, **kwargs)
        return '["v",null,' + encode(args) + "," + encode(kwargs) + "]\n"

    def parts_of(error: BaseException) -> str:
        try:
            return encode([error.args, error.__dict__])
        except failure:
            return "null"

    def serve(request: list) -> None:
        try:
            operation, name, args, kwargs = request
            args, kwargs = decode(args), decode(kwargs)
            if operation == "call":  # nearly all requests
                record = '["v",' + encode(objects[0](*args, **kwargs)) + "]\n"
            else:
                record = other(operation, name, args, kwargs)
        except failure as error:
            text = str(error) if kind(error) is refused else describe_error(error)
            names = join([quote(name) for name in named(kind(error), builtin)])
            record = f'["e",{quote(text)},[{names}],{thrown.get(identity(error), -1)},{parts_of(error)}]\n'
        send(record)

    kept.ask = ask
    return serve


def candidate_body(payload: int, limits: dict, tools: program.Tools) -> None:
    """Load the solution, and serve the check process."""
    job = tools.read(payload)
    send, leave, quote, describe_error = tools.send, tools.leave, tools.quote, tools.describe
    line, parse, failure, kind = tools.line, tools.parse, BaseException, type
    kept: Kept = tools.kept or Kept(tools.most)
    module = tools.module("solution")
    space = module.__dict__
    serve = _server(tools, kept, space)
    try:
        program.load(job, module)
        kept.add(program.entry_of(job, module))
        send('["ready",' + kept.encode([name for name, value in space.items() if kind(value) is kind][:50]) + "]\n")
    except failure as error:
        send('["load",' + quote(describe_error(error)) + "]\n")
        leave(1)
    while (request := line()) is not None:
        serve(parse(request, 0)[0])
    leave(0)
