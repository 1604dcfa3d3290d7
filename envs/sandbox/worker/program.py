"""The untrusted program's side: code that runs in its own process after confinement.

The caller trusts nothing here. This code only ensures that the results of an honest program arrive even if the program
has replaced builtins. Each body reads its payload from a descriptor, so that the server from which it was forked never
holds it.
"""

import builtins
import gc
import io
import json
import os
import resource
import sys
import threading
import types
from typing import Any

import codec

SOURCE = "<solution>"
BYTE_ORDER_MARK = "\ufeff"
CHANNEL = 3
"""Descriptor of the results, or of the socket to the check process."""
HEADER = 1 << 16
"""Bytes kept free for the first line of a build's record."""
BUILT_IN = {
    kind: name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}


def read_all(descriptor: int) -> bytes:
    """All bytes of a memfd."""
    return os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_END), 0)


def describe(error: BaseException) -> str:
    """`NameError: name 'x' is not defined (line 3)`."""
    if isinstance(error, codec.Unsupported):
        return str(error)
    try:
        text = str(error)
    except BaseException:
        text = "(its text raised another exception)"
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == SOURCE else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == SOURCE:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = error.msg if isinstance(error, SyntaxError) else text
    where = f" (line {line})" if line is not None else ""
    return f"{type(error).__name__}: {text[:300]}".removesuffix(": ") + where


def writer(descriptor: int):
    write, encode = os.write, str.encode

    def send(text: str) -> None:
        data = encode(text, "ascii")
        while data:
            data = data[write(descriptor, data) :]

    return send


def reader(descriptor: int, most: int):
    """A function that reads ASCII lines from a socket; None at its end. It raises ValueError beyond `most` bytes."""
    read, size, decode, error, held = os.read, len, bytearray.decode, ValueError, bytearray()
    first, whole, only = bytes.find, bytes.decode, 1 << 12

    def line() -> str | None:
        if not held:
            piece = read(descriptor, only)
            if piece and first(piece, b"\n") == size(piece) - 1:
                return whole(piece[:-1], "ascii")
            if not piece:
                return None
            held.extend(piece)
        while True:
            end = held.find(b"\n")
            if end >= 0:
                text = decode(held[:end], "ascii")
                del held[: end + 1]
                return text
            piece = read(descriptor, 1 << 16)
            if not piece:
                return None
            held.extend(piece)
            if size(held) > most:
                raise error("a line too long")

    return line


def _stream(descriptor: int, mode: str, errors: str) -> io.TextIOWrapper:
    raw = open(descriptor, mode, closefd=False)  # noqa: SIM115  lives as long as the program
    stream: Any = io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=descriptor == 2)
    stream.mode = mode[0]  # as the interpreter's own has; fast input and output of contests asks for it
    return stream


def set_streams() -> None:
    """Create new standard streams on descriptors 0, 1 and 2."""
    system: Any = sys  # typeshed calls the dunder streams final
    system.__stdin__, system.__stdout__ = _stream(0, "rb", "strict"), _stream(1, "wb", "strict")
    system.__stderr__ = _stream(2, "wb", "backslashreplace")
    restore_streams()


def restore_streams() -> None:
    """Restore the standard streams that `set_streams` created."""
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    sys.argv = ["solution.py"]


def new_module(name: str) -> types.ModuleType:
    """An empty module to run in."""
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__file__"] = "solution.py"
    return module


class Tools:
    """The functions of a program's process, which a template creates once. All names are bound here, so that none that
    a program can replace is needed later."""

    def __init__(self, limits: dict) -> None:
        most = limits["output_kib"] << 10
        decoder: Any = json.JSONDecoder()  # typeshed does not know scan_once
        self.parse, self.encode, self.decode = decoder.scan_once, codec.make_encoder(most), codec.decode
        self.most = most
        self.kept: Any = None
        """candidate.Kept, if the template makes it; a candidate's process makes its own otherwise."""
        self.send, self.line = writer(CHANNEL), reader(CHANNEL, most * 2)
        self.quote, self.describe, self.leave = codec._quote, describe, os._exit
        self.modules = {name: new_module(name) for name in ("solution", "__main__")}

    def read(self, payload: int) -> dict:
        """The payload, which trusted code wrote."""
        job = self.parse(read_all(payload).decode("ascii"), 0)[0]
        os.close(payload)
        return job

    def module(self, name: str) -> types.ModuleType:
        """The module to run in."""
        sys.modules[name] = self.modules[name]
        return self.modules[name]


TYPICAL = """
import math, sys, collections
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, Union

def f(a: List[int], b: List[str], c: Dict[str, int], d: Tuple[int, int], e: Optional[int] = None) -> List[List[int]]:
    return [[n + 1 for n in a if n]]

def g(a: List[float], b: Set[int], c: Optional[str] = None, *d: Union[int, float], e: List[Any] = ()) -> Dict[str, Any]:
    return {name: value for name, value in sorted(zip("ab", a))}

class Solution:
    def h(self, a: List[List[str]], b: List[Tuple[int, int]], c: Optional[List[int]] = None) -> List[bool]:
        return []

f([1], ["a"], {}, (1, 2))
g([1.5], {1})
"""
"""Typical code of programs; `typing` caches the annotations."""


def warm() -> None:
    """Run, in the server, the code of later processes until the interpreter has specialised it, because each page that
    they write to is copied."""
    encode = codec.make_encoder(1 << 20)
    program = compile(TYPICAL, SOURCE, "exec", dont_inherit=True)
    sample = [1, 2.5, "text", None, True, (1, "x"), {"k": [1, 2]}, {3}, -1]
    for _ in range(40):
        codec.decode(codec.parse(encode(sample)))
        exec(program, {"__name__": "solution"})
        describe(ValueError("x"))


def load(job: dict, module: types.ModuleType) -> None:
    """Run the trusted setup and the solution in `module`. A name of the setup that equals the entry point is
    removed."""
    if job["setup"]:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), module.__dict__)
        module.__dict__.pop(job.get("entry", ""), None)
    solution = compile(job["code"].removeprefix(BYTE_ORDER_MARK), SOURCE, "exec", dont_inherit=True)
    frame: types.FrameType | None = sys._getframe()
    below = 1  # exec itself counts
    while frame is not None:
        below, frame = below + 1, frame.f_back
    sys.setrecursionlimit(sys.getrecursionlimit() + below)  # a program has as many frames of its own as in Python
    exec(solution, module.__dict__)


def entry_of(job: dict, module: types.ModuleType):
    """The function to call: a global that the solution defines, or the method of a class `Solution`, of which each call
    makes an object as on the contest's site, or another global. Raises NameError."""
    name = job["entry"]
    function, owner = module.__dict__.get(name), module.__dict__.get("Solution")
    inner = function
    for _ in range(10):  # decorators such as lru_cache
        inner = getattr(inner, "__wrapped__", inner)
    own = getattr(getattr(inner, "__code__", None), "co_filename", None) == SOURCE
    if not own and isinstance(owner, type) and hasattr(owner, name):
        attribute = getattr
        return lambda *args, **kwargs: attribute(owner(), name)(*args, **kwargs)
    if name in module.__dict__:
        return function
    raise NameError(f"name {name!r} is not defined")


def function_body(payload: int, limits: dict, tools: Tools) -> None:
    """Load the solution, call it on each input and write one record for each case."""
    job = tools.read(payload)
    send, leave, quote, describe_error, decode = tools.send, tools.leave, tools.quote, tools.describe, tools.decode
    encode, rebuilt, failure = tools.encode, dict, BaseException
    try:
        module = tools.module("solution")
        load(job, module)
        function = entry_of(job, module)
    except failure as error:
        send('["load",' + quote(describe_error(error)) + "]\n")
        leave(1)
    for args, kwargs in job["inputs"]:
        try:
            value = function(*decode(args), **rebuilt(decode(kwargs)))
            record = '["v",' + encode(value) + "]\n"
        except failure as error:
            record = '["e",' + quote(describe_error(error)) + "]\n"
        send(record)
    leave(0)


def stdio_body(payload: int, limits: dict, tools: Tools) -> None:
    """Run the solution as a script, and exit like the interpreter: join threads, run exit hooks, flush, exit status."""
    job = tools.read(payload)
    send, leave, quote, describe_error = tools.send, tools.leave, tools.quote, tools.describe
    status, note = 0, ""
    try:
        load(job, tools.module("__main__"))
    except SystemExit as error:
        code = error.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
        note = f"exit status {status}"
    except BaseException as error:
        status, note = 1, describe_error(error)
    threads: Any = threading  # typeshed does not know _shutdown
    for step in (threads._shutdown, _run_exit_hooks, _flush):
        try:
            step()
        except BaseException as error:
            status, note = status or 120, note or describe_error(error)
    if status:
        send('["e",' + quote(note) + "]\n")
    leave(status)


def _run_exit_hooks() -> None:
    import atexit

    atexit._run_exitfuncs()


def _flush() -> None:
    """Flush the standard streams, and files that the program left open, by deleting its names."""
    _flush_streams(sys.stdout, sys.__stdout__)
    main = sys.modules.pop("__main__", None)
    if main is not None:
        main.__dict__.clear()
    gc.collect()
    _flush_streams(sys.__stdout__)  # with what its objects printed when they were deleted


def _flush_streams(*streams) -> None:
    for stream in {id(stream): stream for stream in streams if stream is not None}.values():
        try:
            closed = stream.closed
        except ValueError:  # its buffer belongs to another stream now
            continue
        if not closed:
            stream.flush()


def command_body(payload: int, limits: dict, tools: Tools) -> None:
    """Write the job's files to the current folder, run its commands until one fails, and write one record: a line with
    the exit statuses, and names and sizes of the requested files, then their contents."""
    job = tools.read(payload)
    os.set_inheritable(CHANNEL, False)
    import base64  # here, because every program's process has what the module imports
    import glob
    import subprocess

    def wanted(room: int) -> list[tuple[str, bytes]]:
        """Names and contents of the requested files, as far as they fit into `room` bytes."""
        results = []
        for name in sorted({name for pattern in job["keep"] for name in glob.glob(pattern, recursive=True)}):
            inside = os.path.realpath(name).startswith(folders)  # a link may lead to another file of the job
            if inside and os.path.isfile(name) and os.path.getsize(name) <= room:
                with open(name, "rb") as file:
                    data = file.read(room)
                room -= len(data)
                results.append((name, data))
        return results

    for name, data in job["files"].items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(base64.b64decode(data))
    # what was here before the commands, such as a tree that lies elsewhere
    folders = tuple(f"{os.path.realpath(name)}/" for name in (".", *os.listdir(".")))
    statuses, note = [], ""
    for command in job["commands"]:
        try:
            statuses.append(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)
        except OSError as error:
            statuses.append(127)
            note = describe(error)
        if statuses[-1]:
            break
    files = wanted((limits["file_mib"] << 20) - HEADER)  # the record too is a file with this limit
    os.write(CHANNEL, json.dumps([statuses, note, [(name, len(data)) for name, data in files]]).encode() + b"\n")
    for _, data in files:
        while data:
            data = data[os.write(CHANNEL, data) :]
    os._exit(0)


def capped(what: int, soft: int, hard: int) -> tuple[int, int]:
    """Two limits, -1 for none, of which neither is above the hard limit that the process has, as an ordinary user's
    may not be."""
    _, most = resource.getrlimit(what)
    kept = [limit if most == -1 else most if limit == -1 else min(limit, most) for limit in (soft, hard)]
    return kept[0], kept[1]


def limit_to(what: int, soft: int, hard: int) -> None:
    resource.setrlimit(what, capped(what, soft, hard))
