"""Makes sure, before any program is graded, that programs can import the standard library and the packages.

A program that cannot import a module is graded `fail`, however correct it is. Therefore one program imports everything
at the start. A module that only programs cannot import, for example because its shared library lies outside of the
folders that they may read, is imported by the server for them; if that does not help, the tier is refused.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envs.sandbox import verdict
from envs.sandbox.fork_server import Memory, Worker, WorkerLost, variables_to_start
from envs.sandbox.libraries import Libraries, folders_of, readable
from envs.sandbox.protocol import Job, Limits

PROGRAM = Path(__file__).with_name("worker") / "imports.py"
NOT_IMPORTED = {"antigravity"}
"""It opens a browser."""
LIMITS = Limits(wall_s=60.0, cpu_s=60.0, memory_mib=8192)
"""Of the probe, which imports everything in one process. They are larger than a program's, because it asks which files
programs can read."""
NAMED = 5
"""Number of modules that a message names."""
FILES = "the files of "
_imported: dict[tuple[object, ...], tuple[str, ...]] = {}
"""The probes that have passed, with the modules that the server imports for them."""


def modules() -> list[str]:
    """Modules of the standard library that programs may import; some do not exist on every system."""
    return sorted(sys.stdlib_module_names - NOT_IMPORTED)


async def start(tier: str, packages: Sequence[str], processor: int | None, trees: Sequence[str] = ()) -> Worker:
    """A worker whose programs can import the standard library and the packages; probed once for each process, tier and
    set of packages. Raises WorkerLost, Unreadable or seccomp.Unavailable."""
    folders = tuple(folder for name in packages for folder in folders_of(name))
    libraries = readable(tier, folders)
    key = (tier, tuple(packages), libraries, os.geteuid())
    known = _imported.get(key, ())
    worker = await _ready(Worker(tier, libraries, known, processor, trees))
    if key in _imported or tier == "none":
        return worker
    try:
        failed = await missing(worker, packages)
        if failed and not any(name.startswith(FILES) for name in failed):
            worker.stop()
            known = tuple(failed)
            worker = await _ready(Worker(tier, libraries, known, processor, trees))
            failed = await missing(worker, packages)
        if failed:
            raise WorkerLost(_told(failed))
    except BaseException:
        worker.stop()
        raise
    _imported[key] = known
    return worker


async def _ready(worker: Worker) -> Worker:
    try:
        await worker.ready()
    except BaseException:
        worker.stop()
        raise
    return worker


async def missing(worker: Worker, packages: Sequence[str]) -> dict[str, str]:
    """What programs of a worker cannot import or read, and why, although the caller's interpreter can. Raises
    WorkerLost."""
    wanted = json.dumps([modules(), list(packages)]).encode()
    job = Job("imports", "program", PROGRAM.read_text(encoding="utf-8"))
    with (
        Memory(verdict.stdio_payload(job)) as payload,
        Memory() as note,
        Memory(wanted) as stdin,
        Memory(appended=True) as out,
        Memory(appended=True) as err,
    ):
        ended = await worker.ask("stdio", LIMITS, [payload.fd, note.fd, stdin.fd, out.fd, err.fd])
        failed = _failures(out.output(LIMITS))
        if failed is None:
            reason = err.output(LIMITS).decode("utf-8", "replace")[-200:] or note.output(LIMITS).decode()[:200]
            return {f"{FILES}any library": f"the probe ended early: {(ended.stopped_by or ('', ''))[1] or reason}"}
    there = [name for name in failed if name not in sys.stdlib_module_names or importlib.util.find_spec(name)]
    absent = _absent(there, worker.libraries) if set(there) - set(packages) else {}
    return {name: failed[name] for name in there if name not in absent}


def _failures(output: bytes) -> dict[str, str] | None:
    try:
        failed = json.loads(output.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2])
    except ValueError:
        return None
    return failed if isinstance(failed, dict) else None


def _absent(names: Sequence[str], libraries: Libraries) -> dict[str, str]:
    """Those of the names that cannot be imported or read without a sandbox either; no package is one of them."""
    packages = [
        os.path.basename(folder) for folder in libraries.packages if f"{FILES}{os.path.basename(folder)}" in names
    ]
    done = subprocess.run(
        [sys.executable, "-s", "-S", str(PROGRAM)],
        input=json.dumps([[name for name in names if name in sys.stdlib_module_names], packages]),
        env={**variables_to_start(), "PYTHONPATH": os.pathsep.join(map(os.path.dirname, libraries.originals))},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    failed = _failures(done.stdout.encode()) or {}
    return {name: reason for name, reason in failed.items() if name not in packages}


def _told(failed: dict[str, str]) -> str:
    names = list(failed)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"programs cannot import {', '.join(names[:NAMED])}{more} ({failed[names[0]]})"
