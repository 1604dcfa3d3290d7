"""The trusted half of the sandbox: it makes a worker's input, and the verdict from the worker's output.

It never runs or parses a program.

Expected values are used only here. The output is a bounded number of bytes, whose values are rebuilt as exact built-in
types before they are compared, in time linear in its size (envs/sandbox/comparison.py).
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from envs.sandbox.comparison import as_json, decode, same, same_items, same_output, shown
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, StdioCase, Verdict
from envs.sandbox.worker.codec import Unsupported, make_encoder, parse

Judged = TypeVar("Judged")
MAX_NOTE = 200
"""Characters of an outcome's note."""
JUDGED_HERE = 1 << 14
"""Bytes of a program's output that the event loop judges itself, in about a millisecond."""
MAX_BUILD_RECORD = 1 << 20
"""Bytes of the first line of a build's record."""
MAX_ERROR_RECORD = 8 << 10
"""Bytes of a record that describes an exception."""
ENCODE = make_encoder(1 << 26)
LOAD = "while loading: "
"""Prefix of the note of an exception that the source raised before its first case."""


class BadJob(ValueError):
    """The job itself is invalid; its program is not the cause."""


@dataclass(frozen=True)
class Ended:
    """A worker's report of how a program ended."""

    end: str
    code: int
    signal: str
    other_signal: str
    seconds: float
    disk_full: bool = False
    """Whether the host's disk had too little room for the files that the program was allowed to write."""

    @property
    def stopped_by(self) -> tuple[Verdict, str] | None:
        """The verdict and the note if the program did not end by itself."""
        name = self.signal or self.other_signal
        if self.end == "timeout":
            return "timeout", "wall-clock limit"
        if self.end == "stopped":
            return "killed", "stopped by the sandbox"
        if self.end in ("files", "memory"):
            return "killed", "file limit" if self.end == "files" else "memory limit"
        if name:
            return "killed", "CPU time limit" if name == "SIGXCPU" else f"ended by {name}"
        return None

    @property
    def out_of_time(self) -> bool:
        """Whether a time limit ended the program, of wall time or of CPU time."""
        return self.end == "timeout" or "SIGXCPU" in (self.signal, self.other_signal)


Run = tuple[Ended, bytes, bytes]
"""One run of a `stdio` job: how it ended, its standard output and its note."""


def function_payload(job: Job) -> bytes:
    """Source and inputs of a `function` job. Raises BadJob where it has no cases, or an argument cannot be sent."""
    encode = ENCODE
    inputs = []
    if not job.cases or not all(isinstance(case, FunctionCase) for case in job.cases):
        raise BadJob("a function job needs FunctionCase cases")
    try:
        for case in job.cases:
            assert isinstance(case, FunctionCase)
            inputs.append([json.loads(encode(list(case.args))), json.loads(encode(dict(case.kwargs)))])
    except (Unsupported, TypeError, ValueError) as error:
        raise BadJob(f"case {len(inputs) + 1}: an argument cannot be sent: {error}") from error
    return _json(code=job.code, setup=job.setup, entry=_entry(job), inputs=inputs)


def stdio_payload(job: Job) -> bytes:
    """Source of a `stdio` job."""
    return _json(code=job.code, setup=job.setup)


def command_payload(job: Job) -> bytes:
    """Files and commands of a `command` job. Raises BadJob for a path that leads out of its folder."""
    for name in job.files:
        if name.startswith("/") or ".." in name.split("/") or "\0" in name or not name:
            raise BadJob(f"the path {name!r} leads out of the job's folder")
    for name in (*job.tree.writable, *job.tree.hidden) if job.tree else ():
        if name != "." and (name.startswith("/") or {"..", ".", ""} & set(name.split("/")) or "\0" in name):
            raise BadJob(f"the path {name!r} of Job.tree leads out of it")
    if not job.commands or not all(job.commands):
        raise BadJob("a command job needs commands")
    files = {name: base64.b64encode(data).decode() for name, data in job.files.items()}
    return _json(files=files, commands=job.commands, keep=job.keep)


def candidate_payload(job: Job) -> bytes:
    """The data that the candidate's process of a `check` job may see."""
    return _json(code=job.code, setup=job.setup, entry=_entry(job))


def check_payload(job: Job) -> tuple[bytes, str]:
    """The input of the check process, and the nonce that its verdict must contain."""
    if job.check_src is None:
        raise BadJob("a check job needs check_src")
    nonce = secrets.token_hex(16)
    return _json(check=job.check_src, setup=job.setup, entry=_entry(job), nonce=nonce), nonce


def _entry(job: Job) -> str:
    if not job.entry_point:
        raise BadJob(f"a {job.kind} job needs an entry point")
    return job.entry_point


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode("ascii")


# --- verdicts -----------------------------------------------------------------------------------------------


async def judged(size: int, judge: Callable[..., Judged], *arguments: Any) -> Judged:
    """`judge(*arguments)`; in a thread if it reads many bytes of a program, so that the event loop serves the other
    programs meanwhile."""
    return judge(*arguments) if size <= JUDGED_HERE else await asyncio.to_thread(judge, *arguments)


async def run_function(job: Job, limits: Limits, run: Callable[[Job], Awaitable[tuple[Ended, bytes]]]) -> Outcome:
    """The outcome of a job's cases in one process, or in several if the times are for one case.

    run: runs the cases of a job in a process; gives how it ended and one record for each case that it came to.
    """
    raw, seconds, remaining = b"", 0.0, job
    while True:
        ended, records = await run(remaining)
        seconds += ended.seconds
        count = await judged(len(records), answered, remaining, limits, ended, records)
        if not count:
            ended, raw = replace(ended, seconds=seconds), raw + records
            return await judged(len(raw), judge_function, job, limits, ended, raw)
        raw += records[: records.rindex(b"\n") + 1]
        remaining = replace(remaining, cases=remaining.cases[count:])


def judge_function(job: Job, limits: Limits, ended: Ended, raw: bytes) -> Outcome:
    """Compare one record for each case; a missing record is a failed case."""
    *records, rest = raw.split(b"\n")
    results: list[bool] = []
    first = ""
    for number, (case, record) in enumerate(zip(job.cases, records, strict=False), 1):
        assert isinstance(case, FunctionCase)  # function_payload has checked it
        note = _case_note(case.expected, record, job)
        results.append(note is None)
        if note is not None and not first:
            first = note.removeprefix(LOAD) if note.startswith(LOAD) else f"case {number}: {note}"
    verdict: Verdict = "pass"
    if len(raw) > limits.output_kib << 10:
        verdict, first, results = "killed", "output limit", []
    elif len(records) > job.total or rest:
        verdict, first, results = "fail", "unreadable result", []
    elif ended.stopped_by and len(records) < job.total:
        verdict, first = ended.stopped_by[0], first or ended.stopped_by[1]
    elif len(records) < job.total:
        verdict, first = "fail", first or f"exited during case {len(records) + 1}"
    elif not all(results):
        verdict = "fail"
    results += [False] * (job.total - len(results))
    return outcome(job, verdict, results, ended.seconds, first)


def answered(job: Job, limits: Limits, ended: Ended, raw: bytes) -> int:
    """Number of cases that a process had answered, all correctly, when its time was over; 0 if no other process should
    continue at the next case (see `Limits.each_case`)."""
    count = raw.count(b"\n")
    if not limits.each_case or not ended.out_of_time or not 0 < count < job.total:
        return 0
    whole = raw[: raw.rindex(b"\n") + 1]
    so_far = judge_function(replace(job, cases=job.cases[:count]), limits, ended, whole)
    return count if so_far.verdict == "pass" else 0


def _case_note(expected: Any, record: bytes, job: Job) -> str | None:
    """None for a correct answer, otherwise what is wrong. Raises BadJob if the expected value is not plain data."""
    try:
        expected_text = ENCODE(expected)
    except Unsupported as error:
        raise BadJob(f"the expected value is not plain data: {error}") from error
    if record == b'["v",' + expected_text.encode("ascii") + b"]":
        return None
    if len(record) > 32 * len(expected_text) + MAX_ERROR_RECORD:  # too long to be correct, so it is not parsed
        return f"wrong answer of {len(record)} characters"
    try:
        tag, payload = parse(record.decode("ascii"))
        if tag in ("e", "load") and isinstance(payload, str):
            return (LOAD if tag == "load" else "") + payload
        if tag != "v":
            return "unreadable result"
        value = decode(payload)
        if job.as_json:
            value, expected = as_json(value), as_json(expected)
        if job.unordered and same_items(value, expected, job.tol):
            return None
        return None if same(value, expected, job.tol) else f"expected {shown(expected)}, got {shown(value)}"
    except (ValueError, TypeError, RecursionError, ArithmeticError):
        return "unreadable result"


def judge_stdio(job: Job, limits: Limits, runs: Sequence[Run]) -> Outcome:
    """Compare the standard output of each case. `runs` may be shorter than the cases; the others count as failed."""
    verdict: Verdict = "pass"
    first = ""
    results = []
    for number, (case, run) in enumerate(zip(job.cases, runs, strict=False), 1):
        assert isinstance(case, StdioCase)  # check_stdio has checked it
        case_verdict, reason = judge_run(job, case, limits, run)
        results.append(case_verdict == "pass")
        first = first or (f"case {number}: {reason}" if reason else "")
        verdict = case_verdict if verdict in ("pass", "fail") and case_verdict != "pass" else verdict
    results += [False] * (job.total - len(results))
    seconds = sum(ended.seconds for ended, _, _ in runs)
    return outcome(job, verdict, results, seconds, first)


def judge_run(job: Job, case: StdioCase, limits: Limits, run: Run) -> tuple[Verdict, str]:
    """The verdict of one case of a `stdio` job, and the reason if it is not `pass`."""
    ended, output, note = run
    if len(output) > limits.output_kib << 10:
        return "killed", "output limit"
    if ended.stopped_by:
        return ended.stopped_by
    if ended.code:
        return "fail", _exception_note(note) or f"exit status {ended.code}"
    texts = output.decode("utf-8", "replace"), case.stdout
    printed, expected = map(str.lower, texts) if job.any_case else texts
    return ("pass", "") if same_output(printed, expected, job.tol) else ("fail", "wrong answer")


def is_last(job: Job, limits: Limits, case: StdioCase, run: Run) -> bool:
    """Whether a `stdio` job ends after this case: a program that hangs once would hang on every input, and a job of all
    or nothing is lost with one wrong answer."""
    return bool(run[0].stopped_by) or (job.all_or_nothing and judge_run(job, case, limits, run)[0] != "pass")


def judge_program(job: Job, limits: Limits, ended: Ended, note: bytes, stdout: bytes, stderr: bytes) -> Outcome:
    """Exit status 0 passes; the outcome has the program's output."""
    reason = (_exception_note(note) or f"exit status {ended.code}") if ended.code else ""
    return _with_output(job, limits, ended, ended.code, reason, stdout, stderr)


def judge_command(
    job: Job, limits: Limits, ended: Ended, read: Callable[[int, int], bytes], stdout: bytes, stderr: bytes
) -> Outcome:
    """Passes if all commands ended with status 0.

    `read(size, start)` reads the record of the process that ran them: one line of JSON with the exit statuses, a
    reason, and names and sizes of files, then the content of the files. A hostile build may have written it, so each
    part is checked before it is read.
    """
    files: dict[str, bytes] = {}
    try:
        line, end, _ = read(MAX_BUILD_RECORD, 0).partition(b"\n")
        statuses, reason, named = parse(line.decode("ascii")) if line else ([], "not all commands were run", [])
        if not _is_build_record(job, limits, statuses, reason, named):
            raise TypeError("not a record of a build's process")
        start = len(line + end)
        for name, size in named:
            files[name] = read(size, start)
            start += size
            if len(files[name]) != size:
                raise ValueError("a file is cut")
        status = next(filter(None, statuses), int(len(statuses) != len(job.commands)))
    except (ValueError, TypeError):
        statuses, status, reason, files = [], 1, "unreadable result", {}
    if status in (-signal.SIGXCPU, 128 + signal.SIGXCPU):  # of the command, or of a shell whose last command it was
        ended = replace(ended, other_signal="SIGXCPU")
    if status and not reason:
        reason = f"command {len(statuses)} ended with status {status}"
    return replace(_with_output(job, limits, ended, status, reason, stdout, stderr), files=files)


def _is_build_record(job: Job, limits: Limits, statuses: Any, reason: Any, named: Any) -> bool:
    return (
        type(statuses) is list
        and len(statuses) <= len(job.commands)
        and all(type(status) is int and abs(status) < 1 << 16 for status in statuses)
        and type(reason) is str
        and type(named) is list
        and all(type(pair) is list and list(map(type, pair)) == [str, int] and pair[1] >= 0 for pair in named)
        and sum(size for _, size in named) <= limits.file_mib << 20
    )


def _with_output(
    job: Job, limits: Limits, ended: Ended, status: int, reason: str, stdout: bytes, stderr: bytes
) -> Outcome:
    max_bytes = limits.output_kib << 10
    verdict: Verdict = "fail" if status else "pass"
    if max(len(stdout), len(stderr)) > max_bytes:
        verdict, reason = "killed", "output limit"
    elif ended.stopped_by:
        verdict, reason = ended.stopped_by
    texts = [data[:max_bytes].decode("utf-8", "replace") for data in (stdout, stderr)]
    without_output = outcome(job, verdict, [verdict == "pass"], ended.seconds, reason)
    return replace(without_output, stdout=texts[0], stderr=texts[1], exit_status=None if ended.stopped_by else status)


def _exception_note(raw: bytes) -> str:
    record = raw.split(b"\n")[0][: 8 * MAX_NOTE]
    try:
        tag, text = parse(record.decode("ascii"))
        return text if tag == "e" and isinstance(text, str) else ""
    except (ValueError, TypeError):
        return ""


def judge_check(job: Job, ended: Ended, raw: bytes, nonce: str) -> Outcome:
    """The verdict of the check process, if it has written one over its input. `raw` comes from that trusted process,
    but through a server that a program may share."""
    try:
        written = json.loads(raw) if not ended.signal else None
        written_nonce, verdict, note = map(str, written if isinstance(written, list) else ("", "", ""))
    except (ValueError, RecursionError):
        written_nonce, verdict, note = "", "", ""
    if written_nonce == nonce and verdict == "error":
        return outcome(job, "error", [False], ended.seconds, note)
    if written_nonce == nonce and verdict == "pass":
        return outcome(job, "pass", [True], ended.seconds, "")
    if ended.stopped_by:
        return outcome(job, ended.stopped_by[0], [False], ended.seconds, ended.stopped_by[1])
    return outcome(job, "fail", [False], ended.seconds, note or "the test did not finish")


def outcome(job: Job, verdict: Verdict, results: Sequence[bool], seconds: float, note: str) -> Outcome:
    """An Outcome whose note is one short printable line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in note[: 4 * MAX_NOTE]).split())
    line = line if len(line) <= MAX_NOTE else line[: MAX_NOTE - 3] + "..."
    return Outcome(job.id, verdict, sum(results), job.total, seconds, line, tuple(results))


def not_graded(job: Job, note: str) -> Outcome:
    """The outcome if the sandbox failed or the job is invalid."""
    return outcome(job, "error", [False] * job.total, 0.0, note)


def check_stdio(job: Job) -> None:
    """Raise BadJob unless there are cases, all of them StdioCases."""
    if not job.cases or not all(isinstance(case, StdioCase) for case in job.cases):
        raise BadJob("a stdio job needs StdioCase cases")
