"""`python -m envs.sandbox run FILE` grades a JSON-lines file; `doctor` reports which layers of confinement this machine
supports."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from tqdm import tqdm

from envs.json_lines import json_lines
from envs.sandbox.local import TIERS, LocalSandbox
from envs.sandbox.protocol import FunctionCase, Job, Outcome, StdioCase

PACKAGES = ("numpy", "tree_sitter", "tree_sitter_python")
"""Those of conf/sandbox/local.yaml; the ones that are not installed are left out."""
OUTPUT = ("id", "verdict", "passed", "total", "seconds", "note")


def job_of(row: dict[str, Any]) -> Job:
    """The job that a row describes. Raises KeyError, TypeError or ValueError for an invalid row."""
    kind = row["kind"]
    if kind not in ("function", "stdio", "check"):
        raise ValueError(f"unknown kind {kind!r}")
    if kind == "function" and row.get("check_src"):
        kind = "check"
    cases: list[FunctionCase | StdioCase] = []
    if kind == "function":
        cases = [
            FunctionCase(tuple(case["args"]), case["expected"], dict(case.get("kwargs") or {})) for case in row["cases"]
        ]
    elif kind == "stdio":
        cases = [StdioCase(_text(case["stdin"]), _text(case["stdout"])) for case in row["cases"]]
    return Job(
        id=str(row["id"]),
        kind=kind,
        code=_text(row["code"]),
        entry_point=_text_or_none(row.get("entry_point")),
        cases=tuple(cases),
        tol=float(row.get("tol") or 0.0),
        unordered=row.get("unordered") is True,
        any_case=row.get("any_case") is True,
        check_src=_text_or_none(row.get("check_src")),
        setup=_text_or_none(row.get("setup")),
        as_json=True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def read_jobs(path: str) -> list[tuple[object, Job | str]]:
    """For each row its id, and its job or the reason why it is invalid. Raises OSError."""
    jobs: list[tuple[object, Job | str]] = []
    for _, row in json_lines(path):
        identity: object = None
        try:
            if isinstance(row, Exception):
                raise row
            identity = row.get("id")
            jobs.append((identity, job_of(row)))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            jobs.append((identity, f"{type(error).__name__}: {error}"))
    return jobs


def installed_packages() -> list[str]:
    return [name for name in PACKAGES if find_spec(name)]


async def _run(path: str, workers: int, require: str) -> None:
    rows = read_jobs(path)
    jobs = [job for _, job in rows if isinstance(job, Job)]
    sandbox = LocalSandbox(workers, require=require, packages=installed_packages())
    try:
        print(await sandbox.describe(), file=sys.stderr)
        with tqdm(total=len(jobs), unit="job", disable=not sys.stderr.isatty()) as bar:
            outcomes = iter(await sandbox.run(jobs, lambda done: bar.update(done - bar.n)))
    finally:
        await sandbox.close()
    for identity, job in rows:
        if isinstance(job, str):
            print(json.dumps({"id": identity, "error": job}))
        else:
            print(json.dumps({**_public(next(outcomes)), "id": identity}))


def _public(outcome: Outcome) -> dict[str, Any]:
    fields = asdict(outcome)
    return {name: fields[name] for name in OUTPUT}


async def _doctor() -> None:
    """Print one JSON object: the tier that `run` uses with its layers, and why other tiers are not available."""
    tiers: dict[str, str] = {}
    layers: dict[str, Any] = {"tier": None}
    for tier in TIERS[:2]:
        sandbox = LocalSandbox(1, tier=tier, packages=installed_packages())
        try:
            results = await sandbox.layers()
            layers = layers if layers["tier"] else results
            tiers[tier] = "available"
        except RuntimeError as error:
            tiers[tier] = str(error)
        finally:
            await sandbox.close()
    print(json.dumps({"confined": bool(layers["tier"]), **layers, "packages": installed_packages(), "tiers": tiers}))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit status is 0 unless the file cannot be read or no tier of confinement is available."""
    parser = argparse.ArgumentParser(prog="python -m envs.sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="grade a JSON-lines file")
    run.add_argument("file")
    run.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    run.add_argument("--require", choices=TIERS, default="landlock", help="the weakest tier that is accepted")
    commands.add_parser("doctor", help="report which layers of confinement this machine supports")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_doctor() if options.command == "doctor" else _run(options.file, options.workers, options.require))
    except (OSError, ValueError, RuntimeError) as error:
        print(f"envs.sandbox: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
