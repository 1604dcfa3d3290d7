"""Prepares an application once: it is built and run in the sandbox, and stored under a hash of all its inputs."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from envs import bleu
from envs.etk import languages
from envs.etk.build.application import GENERATE, Application, words
from envs.etk.build.compare import ApplicationError, Reference
from envs.etk.build.formats import FORMATS
from envs.etk.build.outputs import Folder
from envs.etk.build.own_comparison import ComparedByCommand
from envs.sandbox import Job, Outcome, Sandbox

TREE = "tree"
"""The folder of the private copy in a job."""
MAX_MIB = 256
"""Size of a copy, which is sent with every job."""
MAX_FILES = 4000
"""Files and folders of a copy: what the sandbox's own file system holds, less what the build adds."""
MAX_FILES_WITHOUT_NAMESPACES = 1000
"""The same for a sandbox without namespaces, which has no file system of its own."""
SMALLER = "make source_dir a copy of the tree with only what build.command and run.inputs need"
VERSION_CONTROL = (".git", ".hg", ".svn")
COMPILERS = ("cc", "c++", "gcc", "g++", "clang++", "gfortran", "nvcc", "hipcc")
OBJECTS = (".o", ".obj", ".d", ".gch", ".pch")
SCORING_SOURCES = (*sorted(Path(__file__).parent.glob("*.py")), Path(bleu.__file__), Path(languages.__file__))
"""The code that determines a score. Stored results are invalid after any change of it."""
IN_FOLDER = ("/bin/sh", "-c", 'cd "$0" && exec "$@"')


class Prepared:
    """A built tree and its reference run.

    digest: of everything that the evaluation of a text depends on, apart from the text.
    """

    def __init__(
        self, application: Application, archive: bytes, reference: Reference | ComparedByCommand, digest: str
    ) -> None:
        self.application, self.archive, self.reference, self.digest = application, archive, reference, digest
        self._trees: dict[str, bytes] = {}

    def build_job(self, job_id: str, file: str, text: bytes) -> Job:
        """The job that builds a private copy in which `file` has the bytes `text`."""
        if file not in self._trees:
            self._trees[file] = self._without(file)
        return _build_job(self.application, job_id, self._trees[file], {f"{TREE}/{file}": text})

    def _without(self, file: str) -> bytes:
        """The built tree without the file, its objects, the program and what the application discards.

        The objects are not only stale: they would give away the original text of the file. Time stamps are rounded down
        to whole seconds, which keeps their order; files that the job writes are newer than all of them.
        """
        build, path = self.application.build, PurePosixPath(file)
        target = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as source, tarfile.open(fileobj=target, mode="w") as copy:
            for member in source:
                name = PurePosixPath(member.name)
                is_object = name.suffix in OBJECTS and name.name.startswith(f"{path.stem}.")
                is_program = build.artifact is not None and name == PurePosixPath(build.artifact)
                if is_object or is_program or name == path or _matches(name, *build.discard):
                    continue
                member.mtime = int(member.mtime)
                copy.addfile(member, source.extractfile(member) if member.isfile() else None)
        return target.getvalue()


def _matches(path: PurePosixPath, *patterns: str) -> bool:
    return any(fnmatch(str(path), pattern) or fnmatch(path.name, pattern) for pattern in patterns)


def in_folder(folder: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command that runs `command` in a folder."""
    return (*IN_FOLDER, folder, *command)


def _build_job(application: Application, job_id: str, tree: bytes, files: dict[str, bytes], *keep: str) -> Job:
    build = application.build
    results = [*application.run.inputs, *filter(None, [build.artifact, build.log])]
    return Job(
        job_id,
        "command",
        files={"tree.tar": tree, **files},
        commands=(
            ("mkdir", "-p", TREE),
            ("tar", "-xf", "tree.tar", "-C", TREE),
            in_folder(f"{TREE}/{build.cwd}", words(build.command)),
            *([("tar", "-cf", "built.tar", "-C", TREE, ".")] if keep else []),
        ),
        keep=(*(f"{TREE}/{name}" for name in results), *keep),
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
            in_folder("run", ("/bin/chmod", "700", *sorted(files))),
            in_folder("run", ("/usr/bin/env", *environment, *words(run.command))),
        ),
        keep=tuple(f"run/{name}{file}" for name in expected for file in FORMATS[application.metric.format].files),
        limits=run.limits,
    )


def program_of(application: Application, built: Outcome) -> dict[str, bytes]:
    """The artifact and the inputs of the run from a build's outcome, by base name."""
    log = application.build.log
    files = {name.removeprefix(f"{TREE}/"): data for name, data in built.files.items()}
    return {PurePosixPath(name).name: data for name, data in files.items() if name != log and name != "built.tar"}


def run_failure(application: Application, outcome: Outcome) -> str | None:
    """Why a run failed, None if it ended well."""
    if outcome.verdict != "pass":
        return f"run: {outcome.verdict}, {outcome.note}"
    if not application.run.reached_its_end(outcome.stdout):
        return f"run: it ended before its last line, {application.run.success_regex}"
    return None


def build_failure(application: Application, outcome: Outcome) -> str | None:
    """Why a build failed, None if it succeeded (specification, section 4.4)."""
    build = application.build
    if outcome.verdict != "pass":
        return f"build: {outcome.verdict}, {outcome.note}"
    if not build.succeeded(build_log(application, outcome)):
        return f"build: the log does not end with {build.success_regex}"
    if build.artifact and f"{TREE}/{build.artifact}" not in outcome.files:
        return f"build: there is no {build.artifact}"
    return None


def build_log(application: Application, outcome: Outcome) -> str:
    """The build's log, or its standard output if it writes none."""
    log = application.build.log
    return outcome.files.get(f"{TREE}/{log}", b"").decode("utf-8", "replace") if log else outcome.stdout


async def prepare(application: Application, sandbox: Sandbox, cache: Path) -> Prepared:
    """Build and run the unchanged source, unless `cache` has the result.

    Raises:
        ApplicationError: the source cannot be built or run, does not write what is expected, or a program is missing.
        RuntimeError: the sandbox failed.
    """
    application.require_toolchain()
    archive = _archive(application.source_dir)
    digest = _digest(application, archive)
    folder = cache / f"{application.name}-{digest}"
    if not (folder / "reference").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".preparing-") as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            await _build_and_run(application, sandbox, archive, new)
            try:
                new.rename(folder)
            except OSError:
                if not (folder / "reference").is_dir():  # otherwise another process was faster
                    shutil.rmtree(folder, ignore_errors=True)
                    new.rename(folder)
    reference_dir = folder / "reference" if application.reference == GENERATE else Path(application.reference)
    built = (folder / "built.tar").read_bytes()
    reference: Reference | ComparedByCommand
    if application.comparison is None:
        reference = Reference(Folder(reference_dir), application.metric)
    else:
        reference = ComparedByCommand(application, application.comparison, reference_dir, built)
        await reference.check(sandbox)
    return Prepared(application, built, reference, f"{digest}-{_scoring_digest(application)}")


async def _build_and_run(application: Application, sandbox: Sandbox, archive: bytes, folder: Path) -> None:
    """Write built.tar and the reference run into `folder`."""
    job = _build_job(application, f"{application.name}/build", archive, {}, "built.tar")
    built = _graded(await sandbox.run([job]))
    if (failure := build_failure(application, built)) or "built.tar" not in built.files:
        output = _file_limit(application, archive, built) or _last_output(built.stderr, build_log(application, built))
        raise ApplicationError(f"{application.name}, unchanged: {failure or 'build.disk_mib is too little'}; {output}")
    names = [name.removeprefix(f"{TREE}/") for name in built.files]
    for pattern in application.run.inputs:
        if not any(fnmatch(name, pattern) for name in names):
            raise ApplicationError(f"{application.name}: run.inputs: no file {pattern} in the built source")
    (folder / "built.tar").write_bytes(_normalized(built.files["built.tar"]))
    reference = folder / "reference"
    reference.mkdir()
    if application.reference != GENERATE:
        return
    job = run_job(
        application,
        f"{application.name}/run",
        program_of(application, built),
        application.metric.initial,
    )
    ran = _graded(await sandbox.run([job]))
    if failure := run_failure(application, ran):
        output = _last_output(ran.stderr, ran.stdout)
        raise ApplicationError(f"{application.name}, unchanged: {failure}; {output}")
    for name, data in ran.files.items():
        path = reference / name.removeprefix("run/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if application.comparison is None:
        Reference(Folder(reference), application.metric)


def _last_output(*texts: str) -> str:
    """The end of the first text that is not blank, in one line."""
    return next((f"output: {' '.join(text.split())[-300:]}" for text in texts if text.strip()), "no output")


def _file_limit(application: Application, archive: bytes, built: Outcome) -> str:
    """How to stay within the sandbox's limits on files, if these ended the build; otherwise empty."""
    if built.note != "file limit" and "No space left on device" not in built.stderr:
        return ""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        count = len(tree.getnames())
    return (
        f"its {count} files and folders are too many for a sandbox, which takes {MAX_FILES} and without namespaces "
        f"{MAX_FILES_WITHOUT_NAMESPACES}, or build.disk_mib={application.build.disk_mib} is too little; {SMALLER}"
    )


def _graded(outcomes: list[Outcome]) -> Outcome:
    if not outcomes[0].graded:
        raise RuntimeError(f"the sandbox failed on {outcomes[0].id}: {outcomes[0].note}")
    return outcomes[0]


def _normalized(archive: bytes) -> bytes:
    """The archive with member names without a leading ./."""
    target = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source, tarfile.open(fileobj=target, mode="w") as copy:
        for member in source:
            member.name = str(PurePosixPath(member.name))
            if member.name != ".":
                copy.addfile(member, source.extractfile(member) if member.isfile() else None)
    return target.getvalue()


def _archive(source_dir: Path) -> bytes:
    """The source tree with its time stamps, in a fixed order. Raises ApplicationError if it is too large."""
    paths = list(_files(source_dir))
    size = sum(path.lstat().st_size for path in paths) >> 20
    if len(paths) > MAX_FILES or size > MAX_MIB:
        raise ApplicationError(
            f"source_dir: {len(paths)} files and folders of {size} MiB in {source_dir}, "
            f"a sandbox takes {MAX_FILES} of {MAX_MIB} MiB; {SMALLER}"
        )
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path in paths:
            archive.add(path, str(path.relative_to(source_dir)), recursive=False)
    return target.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            if path.name not in VERSION_CONTROL:
                yield path
                yield from _files(path)
        elif path.is_file() or path.is_symlink():
            yield path


def _digest(application: Application, archive: bytes) -> str:
    """Digest of the files, how they are built and run, the expected outputs and the compilers; not of time stamps."""
    hasher = hashlib.sha256()
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            data = content.read() if content else b""
            hasher.update(f"{member.name}\0{member.linkname}\0{member.mode}\0{len(data)}\0".encode() + data)
    tools = [Path(tool).resolve() for name in {*application.toolchain, *COMPILERS} if (tool := shutil.which(name))]
    facts = [
        asdict(application.build), asdict(application.run), [application.metric.format, *application.metric.expect],
        application.reference == GENERATE,
        sorted((str(tool), tool.stat().st_size, tool.stat().st_mtime_ns) for tool in tools),
    ]  # fmt: skip
    hasher.update(json.dumps(facts, default=list).encode())
    return hasher.hexdigest()[:16]


def _scoring_digest(application: Application) -> str:
    """Digest of what determines a score after the preparation: the metric without its weights, a stored reference, and
    the code that evaluates (this folder, BLEU, languages)."""
    facts: list[Any] = [{name: value for name, value in asdict(application.metric).items() if name != "weights"}]
    facts.append(application.comparison and asdict(application.comparison))
    if application.reference != GENERATE:
        stored = (path for path in sorted(Path(application.reference).rglob("*")) if path.is_file())
        facts.append([(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in stored])
    hasher = hashlib.sha256(json.dumps(facts, default=list).encode())
    for source in SCORING_SOURCES:
        hasher.update(source.read_bytes())
    return hasher.hexdigest()[:16]
