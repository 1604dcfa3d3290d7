"""The side of the untrusted program: its own process, after the walls are up.

Nothing here is trusted by the caller. It only makes an honest program's values come back even when the
program has replaced builtins. Each body reads its payload from a descriptor, so that the server it was forked
from never held it.
"""

import builtins
import gc
import io
import json
import os
import sys
import threading
import types
from typing import Any

import codec

SOURCE = "<solution>"
CHANNEL = 3
"""Descriptor of the results, or of the line to the check process."""
BUILT_IN = {
    kind: name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
}


def read_all(descriptor: int) -> bytes:
    """A memfd's bytes from its start."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def describe(error: BaseException) -> str:
    """`NameError: name 'x' is not defined (line 3)`."""
    if type(error) is codec.Unsupported:
        return str(error)
    try:
        text = str(error)
    except Exception:
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
    """ASCII lines from a socket; None at its end. Raises ValueError beyond `most` bytes."""
    read, size, decode, error, held = os.read, len, bytearray.decode, ValueError, bytearray()

    def line() -> str | None:
        while True:
            end = held.find(b"\n")
            if end >= 0:
                found = decode(held[:end], "ascii")
                del held[: end + 1]
                return found
            piece = read(descriptor, 1 << 16)
            if not piece:
                return None
            held.extend(piece)
            if size(held) > most:
                raise error("a line too long")

    return line


def _stream(descriptor: int, mode: str, errors: str) -> io.TextIOWrapper:
    raw = open(descriptor, mode, closefd=False)  # noqa: SIM115  lives as long as the program
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=descriptor == 2)


def streams(name: str) -> types.ModuleType:
    """Fresh standard streams over descriptors 0, 1 and 2, and an empty module to run in."""
    system: Any = sys  # typeshed calls the dunder streams final
    sys.stdin, sys.stdout, sys.stderr = system.__stdin__, system.__stdout__, system.__stderr__ = MADE[name]
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    sys.argv = ["solution.py"]
    return module


MADE: dict = {}
"""What a forked process finds ready: streams by the module's name, an encoder by its limit."""


def ready(limits: dict) -> None:
    """In the server: make what the next process will use, unless it is there."""
    room = limits["output_kib"] << 10
    if room not in MADE:
        MADE[room] = codec.make_encoder(room)
    for name in ("solution", "__main__", "check"):
        if name not in MADE:
            MADE[name] = _stream(0, "rb", "strict"), _stream(1, "wb", "strict"), _stream(2, "wb", "backslashreplace")


def warm() -> None:
    """In the server: run what processes will run until the interpreter has done specialising it, since each page that
    they write to is copied."""
    encode = codec.make_encoder(1 << 20)
    sample = [1, 2.5, "text", None, True, (1, "x"), {"k": [1, 2]}, {3}, -1]
    for _ in range(40):
        codec.decode(codec.parse(encode(sample)))
        exec(compile("def f(x):\n    return x + 1\ny = f(1)", SOURCE, "exec", dont_inherit=True), {})
        describe(ValueError("x"))


def _load(job: dict, module: types.ModuleType) -> None:
    """Run the trusted setup and the solution in `module`; what the setup may call like the entry point is no answer."""
    if job["setup"]:
        exec(compile(job["setup"], "<setup>", "exec", dont_inherit=True), module.__dict__)
        module.__dict__.pop(job.get("entry", ""), None)
    exec(compile(job["code"], SOURCE, "exec", dont_inherit=True), module.__dict__)


def _entry(job: dict, module: types.ModuleType):
    """The function to call: a global of the solution, or the method of that name of a class `Solution`, or a global
    from elsewhere. Raises NameError."""
    name = job["entry"]
    found, owner = module.__dict__.get(name), module.__dict__.get("Solution")
    own = getattr(getattr(found, "__code__", None), "co_filename", None) == SOURCE
    if not own and isinstance(owner, type) and hasattr(owner, name):
        return getattr(owner(), name)
    if name in module.__dict__:
        return found
    raise NameError(f"name {name!r} is not defined")


def function_body(payload: int, limits: dict) -> None:
    """Load the solution, call it on each input and write one record a case."""
    job = json.loads(read_all(payload))
    os.close(payload)
    send, leave, quote, said, decode = writer(CHANNEL), os._exit, codec._quote, describe, codec.decode
    encode = MADE[limits["output_kib"] << 10]
    rebuilt, failure = dict, BaseException
    try:
        module = streams("solution")
        _load(job, module)
        function = _entry(job, module)
    except failure as error:
        send('["load",' + quote(said(error)) + "]\n")
        leave(1)
    for args, kwargs in job["inputs"]:
        try:
            value = function(*decode(args), **rebuilt(decode(kwargs)))
            record = '["v",' + encode(value) + "]\n"
        except failure as error:
            record = '["e",' + quote(said(error)) + "]\n"
        send(record)
    leave(0)


def stdio_body(payload: int, limits: dict) -> None:
    """Run the solution as a script; leave as the interpreter would: threads, exit hooks, flush, exit
    status."""
    job = json.loads(read_all(payload))
    os.close(payload)
    send, leave, quote, said = writer(CHANNEL), os._exit, codec._quote, describe
    status, note = 0, ""
    try:
        _load(job, streams("__main__"))
    except SystemExit as error:
        code = error.code
        status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
        note = f"exit status {status}"
    except BaseException as error:
        status, note = 1, said(error)
    threads: Any = threading  # typeshed does not know _shutdown
    for step in (threads._shutdown, _run_exit_hooks, _flush):
        try:
            step()
        except BaseException as error:
            status, note = status or 120, note or said(error)
    if status:
        send('["e",' + quote(note) + "]\n")
    leave(status)


def _run_exit_hooks() -> None:
    import atexit

    atexit._run_exitfuncs()


def _flush() -> None:
    """Flush the standard streams, and files that the program left open by letting go of its names."""
    for stream in {id(stream): stream for stream in (sys.stdout, sys.__stdout__)}.values():
        if stream is not None and not stream.closed:
            stream.flush()
    sys.modules["__main__"].__dict__.clear()
    gc.collect()


def command_body(payload: int, limits: dict) -> None:
    """Write the job's files into the current folder, run its commands until one fails, and write one record: the exit
    statuses, and the files asked for."""
    job = json.loads(read_all(payload))
    os.close(payload)
    os.set_inheritable(CHANNEL, False)
    import base64  # not with the rest: what is imported above, every program carries
    import glob
    import subprocess

    def kept(room: int) -> dict[str, str]:
        """Contents in base 64 of the files asked for, as far as they fit into `room` bytes."""
        found = {}
        for name in sorted({name for pattern in job["keep"] for name in glob.glob(pattern, recursive=True)}):
            if os.path.isfile(name) and not os.path.islink(name):
                room -= os.path.getsize(name) * 4 // 3
                if room > 0:
                    with open(name, "rb") as file:
                        found[name] = base64.b64encode(file.read()).decode()
        return found

    for name, data in job["files"].items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "wb") as file:
            file.write(base64.b64decode(data))
    statuses, note = [], ""
    for command in job["commands"]:
        try:
            statuses.append(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)
        except OSError as error:
            statuses.append(127)
            note = describe(error)
        if statuses[-1]:
            break
    record = json.dumps([statuses, note, kept(limits["file_mib"] << 20)])
    writer(CHANNEL)(record)
    os._exit(0)


def candidate_body(payload: int, limits: dict) -> None:
    """Load the solution, then answer calls from the check process, by value, until it hangs up.

    Requests are (args, kwargs), a call of the entry point, or (class, args, kwargs), an object to be kept here. A
    result that is no plain data is told by its truth alone, which is all that a test can ask of it.
    """
    job = json.loads(read_all(payload))
    os.close(payload)
    most = limits["output_kib"] << 10
    kept: list[Any] = []
    send, leave, quote, said, decode = writer(CHANNEL), os._exit, codec._quote, describe, codec.make_decoder(kept)
    decoder: Any = json.JSONDecoder()  # typeshed does not know scan_once
    line, encode, parse = reader(CHANNEL, most * 2), MADE[most], decoder.scan_once
    failure, kind, builtin, truth, unsupported = BaseException, type, BUILT_IN, bool, codec.Unsupported
    try:
        module = streams("solution")
        space = module.__dict__
        _load(job, module)
        function = _entry(job, module)
        send('["ready",' + encode([name for name, value in space.items() if kind(value) is kind][:50]) + "]\n")
    except failure as error:
        send('["load",' + quote(said(error)) + "]\n")
        leave(1)
    while (request := line()) is not None:
        try:
            *wanted, args, kwargs = decode(parse(request, 0)[0])
            value = (space[wanted[0]] if wanted else function)(*args, **kwargs)
            if wanted:
                kept.append(value)
                record = '["v",true]\n'
            else:
                try:
                    record = '["v",' + encode(value) + "]\n"
                except unsupported as error:
                    record = '["o",' + quote(said(error)) + (",true]\n" if truth(value) else ",false]\n")
        except failure as error:
            names = [builtin[base] for base in kind(error).__mro__ if base in builtin]
            record = '["e",' + quote(said(error)) + "," + quote(names[0]) + "]\n"
        send(record)
    leave(0)
