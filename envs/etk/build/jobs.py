"""The sandbox's jobs that build and run an application, and what their outcomes say."""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import PurePosixPath

from envs.etk.build.application import Application, words
from envs.etk.build.formats import FORMATS
from envs.etk.build.mounted_tree import MountedTree
from envs.sandbox import Job, Outcome

TREE = "tree"
"""The folder of the private copy in a job."""
MAX_FILES = 4000
"""Files and folders of a copy. A job may hold twice as many."""
USERS = {"build": (1, 3), "run": (2,)}
"""Which command of a job is the user's: a build's in the user's folder the first, in a copy the third."""
IN_FOLDER = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')


def in_folder(folder: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command that runs `command` in a folder."""
    return (*IN_FOLDER, folder, *command)


def copied_job(application: Application, job_id: str, tree: bytes, files: dict[str, bytes], *keep: str) -> Job:
    """The job that builds a private copy, the tar `tree` with other `files`; `keep` names more to bring back."""
    build = application.build
    results = [*application.run.inputs, *filter(None, [build.artifact, build.log])]
    return Job(
        job_id,
        "command",
        files={"tree.tar": tree, **files},
        commands=(
            ("mkdir", "-p", TREE),
            ("tar", "--no-same-owner", "-xf", "tree.tar", "-C", TREE),
            in_folder(f"{TREE}/{build.cwd}", words(build.command)),
            *([("tar", "-cf", "built.tar", "-C", TREE, ".")] if keep else []),
        ),
        keep=(*(f"{TREE}/{name}" for name in results), *keep),
        limits=replace(build.limits, files=2 * MAX_FILES),
    )


def mounted_job(application: Application, job_id: str, source: MountedTree, file: str | None, text: bytes) -> Job:
    """The job that builds in the user's folder, with a layer of its own; `file` None builds what is there."""
    build = application.build
    results = [*application.run.inputs, *filter(None, [build.artifact, build.log])]
    return Job(
        job_id,
        "command",
        tree=source.tree(file),
        files={f"{TREE}/{file}": text} if file else {},
        commands=(in_folder(f"{TREE}/{build.cwd}", words(build.command)),),
        keep=tuple(f"{TREE}/{name}" for name in results),
        limits=build.limits,
    )


def run_job(application: Application, job_id: str, files: dict[str, bytes], *also: str) -> Job:
    """The job that runs a program in an empty folder; `files` are the program and its inputs, by base name."""
    run = application.run
    environment = [f"{name}={value}" for name, value in run.variables.items()]
    expected = [*application.metric.expect, *filter(None, also)]
    return Job(
        job_id,
        "command",
        files={f"run/{name}": data for name, data in files.items()},
        commands=(
            in_folder("run", ("/bin/chmod", "700", ".", *sorted(files))),
            in_folder("run", ("/usr/bin/env", *environment, *words(run.command))),
        ),
        keep=tuple(f"run/{name}{file}" for name in expected for file in FORMATS[application.metric.format].files),
        limits=run.limits,
    )


def program_of(application: Application, built: Outcome) -> dict[str, bytes]:
    """The artifact and the inputs of the run from a build's outcome, by base name."""
    return {path.name: data for path, data in _program_files(application, built)}


def names_twice(application: Application, built: Outcome) -> list[str]:
    """Base names that several files of `program_of` have, of which a run's one folder could hold one alone."""
    counts = Counter(path.name for path, _ in _program_files(application, built))
    return [name for name, count in counts.items() if count > 1]


def _program_files(application: Application, built: Outcome) -> list[tuple[PurePosixPath, bytes]]:
    """A pattern of inputs takes no file with the name of a result, which an earlier run has left."""
    log, results = application.build.log, {PurePosixPath(each).name for each in application.metric.expect}
    files = [(PurePosixPath(name.removeprefix(f"{TREE}/")), data) for name, data in built.files.items()]
    return [
        (path, data)
        for path, data in files
        if str(path) not in (log, "built.tar") and (path.name not in results or application.run.names_input(path))
    ]


def run_failure(application: Application, outcome: Outcome) -> str | None:
    """Why a run failed, None if it ended well."""
    if outcome.verdict != "pass":
        return f"run: {outcome.verdict}, {_reason(outcome, 'run')}"
    if not application.run.reached_its_end(outcome.stdout):
        return f"run: it ended before its last line, {application.run.success_regex}"
    return None


def build_failure(application: Application, outcome: Outcome) -> str | None:
    """Why a build failed, None if it succeeded (specification, section 4.4)."""
    build = application.build
    if outcome.verdict != "pass":
        return f"build: {outcome.verdict}, {_reason(outcome, 'build')}"
    if not build.succeeded(build_log(application, outcome)):
        return f"build: the log does not end with {build.success_regex}"
    if build.artifact and f"{TREE}/{build.artifact}" not in outcome.files:
        return f"build: there is no {build.artifact}"
    return None


def _reason(outcome: Outcome, table: str) -> str:
    """The outcome's note, in which the command that failed has the name of its setting."""
    ended = re.fullmatch(r"command (\d+) ended with status (-?\d+)", outcome.note)
    if ended is None or int(ended[1]) not in USERS[table]:
        return outcome.note
    status = int(ended[2])
    how = f"status {status}" if status >= 0 else f"signal {-status} ({signal.strsignal(-status)})"
    return f"{table}.command ended with {how}"


def build_log(application: Application, outcome: Outcome) -> str:
    """The build's log, or its standard output if it writes none."""
    log = application.build.log
    return outcome.files.get(f"{TREE}/{log}", b"").decode("utf-8", "replace") if log else outcome.stdout


def last_output(*texts: str) -> str:
    """The end of the first text that is not blank, in one line."""
    return next((f"output: {' '.join(text.split())[-300:]}" for text in texts if text.strip()), "no output")
