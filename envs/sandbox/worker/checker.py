"""The trusted side of a `check` job: a process of its own, confined like the program that it tests."""

import builtins
import dis
import functools
import json
import math
import os
import re
import resource
import socket
import sys
import types
from collections.abc import Iterator

import codec
import connection
import objects
import program

JOBS = 1000
"""Number of jobs that one process serves."""
MOST_KIB = 256 << 10
"""Resident memory in KiB above which the process is replaced."""
NOTE = 1000
"""Characters of the note on a failure."""
PLAIN = "__plain__"
"""Name of `objects.plain` in a test."""
HARMLESS = frozenset(
    {
        *("bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools"),
        *("json", "math", "numpy", "operator", "random", "re", "statistics", "string", "typing"),
    }
)
"""Modules that a test may import and leave as they were; of another module nobody knows."""
LASTING = frozenset(
    {
        *("setattr", "delattr", "exec", "eval", "vars", "globals", "__dict__", "__builtins__", "__import__"),
        *("setcontext", "seterr", "seterrcall", "set_printoptions"),
    }
)
"""Names by which a test may change what later tests see."""


def checker_body(channel: int, limits: dict) -> None:
    """Serve `check` jobs until the server closes the socket or a new process is due.

    A job is one packet with two descriptors: its payload, which the verdict overwrites, and the socket to the
    candidate. The answer is one packet, `done` or `last` and the verdict's word; the text of a test must not stay in
    the server's memory. One process can serve many jobs, because tests are trusted and receive plain data. Each job has
    its own names, limits and processor time.
    """
    server = socket.socket(fileno=channel)
    for jobs_left in reversed(range(JOBS)):
        data, descriptors, _, _ = socket.recv_fds(server, 64, 2)
        if not data:
            break
        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = math.ceil(used.ru_utime + used.ru_stime + limits["cpu_s"])
        resource.setrlimit(resource.RLIMIT_CPU, program.capped(resource.RLIMIT_CPU, soft, resource.RLIM_INFINITY))
        _seed()
        word, lasts = _check(descriptors[0], descriptors[1], limits)
        for descriptor in descriptors:
            os.close(descriptor)
        large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_KIB
        if not jobs_left or large or lasts:
            server.send(b"last " + word.encode())
            break
        server.send(b"done " + word.encode())
    os._exit(0)


def _seed() -> None:
    """Seed the random generators anew. The candidate knows the state of the process from which this one was forked, and
    may guess a seed that an earlier job's test has set."""
    for name in ("random", "numpy.random"):
        if (module := sys.modules.get(name)) is not None:
            module.seed()


def _check(payload: int, line: int, limits: dict) -> tuple[str, bool]:
    """The trusted side of one job: run the test with a proxy for the candidate, and overwrite the payload with the
    verdict: the nonce, a word and a note. Returns the word, and whether this process is not as it was."""
    job = json.loads(program.read_all(payload))
    verdict = ["error", "no verdict"]
    try:
        arrays = re.search(r"\bnumpy\b", job["check"] + (job["setup"] or "")) is not None
        candidate = connection.Candidate(line, limits["output_kib"] << 10, arrays)
        verdict = _run_check(job, candidate)
        if verdict[0] == "pass" and candidate.gone:
            verdict = ["fail", candidate.gone]
        elif verdict[0] == "pass" and not candidate.calls:
            verdict = ["error", "the test never called the entry point"]
    except objects.CandidateGone as error:
        verdict = ["fail", str(error)]
    except codec.Unsupported as error:
        verdict = ["error", f"the test passes a value that cannot be sent: {error}"]
    except BaseException as error:
        verdict = ["fail", vars(error).get("told") or program.describe(error)]
    os.ftruncate(payload, 0)
    os.pwrite(payload, json.dumps([job["nonce"], verdict[0], verdict[1][:NOTE]]).encode(), 0)
    return verdict[0], _lasts(job["check"], job["setup"] or "")


@functools.lru_cache(maxsize=1024)
def _compiled(source: str, name: str, guarded: bool = False) -> types.CodeType:
    """Compile, with a cache across jobs: all completions of a problem have the same test.

    `guarded`: pass what `is` compares through `objects.plain`, because no object can refuse to be compared by `is`.
    """
    if not guarded:
        return compile(source, name, "exec", dont_inherit=True)
    import ast  # few tests need it

    tree = ast.parse(source, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
            sides: list[ast.expr] = [
                ast.Call(ast.Name(PLAIN, ast.Load()), [side], []) for side in (node.left, *node.comparators)
            ]
            node.left, node.comparators = sides[0], sides[1:]
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


def _calls_check(code: types.CodeType) -> bool:
    """Whether a test itself reads the name `check`, which is then a function of its own and not what a caller calls."""
    return any(each.opname == "LOAD_NAME" and each.argval == "check" for each in dis.get_instructions(code))


def _names(code: types.CodeType) -> set[str]:
    """The names that a module and its functions read."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


@functools.lru_cache(maxsize=1024)
def _lasts(*sources: str) -> bool:
    """Whether a test may change what later tests of this process see: an attribute, a context, another module."""
    for source in sources:
        try:
            instructions = list(_instructions(_compiled(source, "<check>")))
        except Exception:  # it was never run
            continue
        for each in instructions:
            if each.opname in ("STORE_ATTR", "DELETE_ATTR") or each.argval in LASTING:
                return True
            if each.opname == "IMPORT_NAME" and each.argval.split(".")[0] not in HARMLESS:
                return True
    return False


def _instructions(code: types.CodeType) -> Iterator[dis.Instruction]:
    yield from (each for each in dis.get_instructions(code) if each.opname != "LOAD_CONST")
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _instructions(part)


@functools.lru_cache(maxsize=1024)
def _classes_asked_for(source: str) -> set[str]:
    """Names that a test catches, or asks `isinstance` or `issubclass` about."""
    import ast

    asked: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            asked.append(node.type)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            asked.append(node.args[1] if node.func.id in ("isinstance", "issubclass") else None)
    return {each.id for kind in asked if kind is not None for each in ast.walk(kind) if isinstance(each, ast.Name)}


@functools.lru_cache(maxsize=1024)
def _bound(source: str) -> set[str]:
    """Names that a test imports, defines or assigns itself."""
    import ast

    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _run_check(job: dict, candidate: connection.Candidate) -> list[str]:
    program.restore_streams()
    module = sys.modules["check"] = program.new_module("check")
    space, name = module.__dict__, job["entry"]
    try:
        if job["setup"]:
            exec(_compiled(job["setup"], "<setup>"), space)
        test = _compiled(job["check"], "<check>")
    except Exception as error:
        return ["error", f"the test itself is broken: {program.describe(error)}"]
    names = _names(test) if candidate.classes else set()
    bound = _bound(job["check"]) if names else set()
    known = bound.union(space, dir(builtins))
    lacking = [n for n in candidate.classes if n in names and n not in known]
    if lacking:
        if asked := sorted(_classes_asked_for(job["check"]).intersection(lacking)):
            return ["error", f"the test asks for the program's own class {asked[0]}, which stays in the program"]
        test = _compiled(job["check"], "<check>", guarded=True)
        space.update({n: functools.partial(candidate.make, n) for n in lacking})
    space[name] = space["candidate"] = candidate.entry
    space[PLAIN] = objects.plain
    try:
        exec(test, space)
        if name != "check" and callable(space.get("check")) and not _calls_check(test):
            space["check"](candidate.entry)
    except AssertionError as error:
        if "told" in vars(error):  # the program's own assert, not a line of the test
            raise
        what = f" (a result of type {candidate.seen} is not plain data: return plain data)" if candidate.seen else ""
        return ["fail", _assertion(error, job["check"]) + what]
    except ImportError as error:
        if "told" in vars(error):  # the program raised it
            raise
        return ["error", f"the test itself cannot import: {program.describe(error)}"]
    return ["pass", ""]


def _assertion(error: AssertionError, source: str) -> str:
    """The failed line of the test, which is more informative than the exception."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<check>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.split("\n")
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"test line {line}: {text}" if text else program.describe(error)
