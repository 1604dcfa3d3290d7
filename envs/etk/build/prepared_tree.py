"""Prepares an application once: it is built and run in the sandbox, and stored under a hash of all its inputs."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from envs import bleu
from envs.etk import languages
from envs.etk.build.application import GENERATE, Application
from envs.etk.build.cactus_tests import TestSuite
from envs.etk.build.compare import ApplicationError, Reference
from envs.etk.build.jobs import (
    MAX_FILES,
    TREE,
    build_failure,
    build_log,
    copied_job,
    last_output,
    mounted_job,
    names_twice,
    program_of,
    run_failure,
    run_job,
)
from envs.etk.build.mounted_tree import VERSION_CONTROL, MountedTree
from envs.etk.build.outputs import Folder
from envs.etk.build.own_comparison import ComparedByCommand
from envs.sandbox import Job, Outcome, Sandbox

MAX_MIB = 256
"""Size of a copy, which is sent with every job; a larger tree stays where it is (mounted_tree.py)."""
MOST_KEPT = 1 << 29
"""Bytes of trees, each without one masked file, that stay in memory for the next job."""
SMALLER = (
    "remove its debugging symbols (strip -g), or make source_dir a copy of the tree with only what build.command and "
    "run.inputs need"
)
COMPILERS = (
    "cc", "c++", "gcc", "g++", "clang", "clang++", "gfortran", "flang", "ifort", "ifx", "icx", "icpx", "nvcc", "nvc++",
    "nvfortran", "hipcc", "mpicc", "mpicxx", "mpif90", "mpifort", "cmake", "make", "ld",
)  # fmt: skip
OF_A_FOLDER = ("CMakeCache.txt",)
"""Files that hold for the folder in which they were made; CMake refuses those of another one."""
OBJECTS = (".o", ".obj", ".d", ".gch", ".pch")
SCORING_SOURCES = (*sorted(Path(__file__).parent.glob("*.py")), Path(bleu.__file__), Path(languages.__file__))
"""The code that determines a score. Stored results are invalid after any change of it."""


AnyReference = Reference | ComparedByCommand | TestSuite


class Prepared:
    """A built tree and its reference run.

    built: the tree: a tar that travels with every job, or the user's folder. digest: of everything that the evaluation
    of a text depends on, apart from the text.
    """

    def __init__(
        self,
        application: Application,
        built: bytes | MountedTree,
        reference: AnyReference,
        digest: str,
    ) -> None:
        self.application, self.built, self.reference, self.digest = application, built, reference, digest
        self._trees: dict[str, bytes] = {}

    def build_job(self, job_id: str, file: str, text: bytes) -> Job:
        """The job that builds a private copy in which `file` has the bytes `text`; where it is a link, the file that it
        leads to."""
        if isinstance(self.built, MountedTree):
            return mounted_job(self.application, job_id, self.built, file, text)
        folder = self.application.source_dir.resolve()
        real = str((folder / file).resolve().relative_to(folder))
        tree = self._trees.pop(file, None) or self._without(file, real, self.built)
        self._trees[file] = tree  # the last used stands last
        while len(self._trees) > 1 and sum(map(len, self._trees.values())) > MOST_KEPT:
            del self._trees[next(iter(self._trees))]
        return copied_job(self.application, job_id, tree, {f"{TREE}/{real}": text})

    def _without(self, file: str, real: str, built: bytes) -> bytes:
        """The built tree without the file, its objects, the program, results and what the application discards.

        The objects are not only stale: they would give away the original text of the file, and a result that lies
        beside the source could be compiled in and written out again. Time stamps are rounded down
        to whole seconds, which keeps their order; files that the job writes are newer than all of them.
        """
        target = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(built)) as source, tarfile.open(fileobj=target, mode="w") as copy:
            for member in source:
                name = PurePosixPath(member.name)
                if _left_out(self.application, real, name):
                    continue
                if file != real and not member.issym() and _left_out(self.application, file, name):
                    continue
                member.mtime = int(member.mtime)
                copy.addfile(member, source.extractfile(member) if member.isfile() else None)
        return target.getvalue()


def _left_out(application: Application, file: str | None, name: PurePosixPath) -> bool:
    """Whether a job that replaces `file` (None: no file) does not have the file `name` of the built tree."""
    build, path = application.build, PurePosixPath(file) if file else None
    if _is_result(application, file, name):
        return True
    is_object = path is not None and name.suffix in OBJECTS and name.name.startswith(f"{path.stem}.")
    is_program = build.artifact is not None and name == PurePosixPath(build.artifact)
    return is_object or is_program or name == path or (path is not None and _matches(name, *build.discard))


def _is_result(application: Application, file: str | None, name: PurePosixPath) -> bool:
    """Whether a path is a compared result that the user's own run has left, or lies in one; not an input of the run
    that is named as such, or by its folder.

    Results of AMReX are folders, which it renames to NAME.old.* before it writes them anew; those of a Cactus test are
    stored beside the test's parameter file. No folder that holds the replaced file counts.
    """
    if file is None or application.run.names_input(name):
        return False
    metric = application.metric
    if metric.format == "cactus" and name.parts[0] == "TEST":  # where Cactus puts the output of its test suites
        return True
    results, parts = {PurePosixPath(each).name for each in metric.expect}, name.parts
    places = list(range(len(parts)))
    if metric.format == "cactus":
        places = [at for at in places if not at or parts[at - 1] == "test"]
    elif metric.format != "amrex":
        places = places[-1:]
    around = {*PurePosixPath(file).parents}
    return any(
        parts[at].partition(".old.")[0] in results and PurePosixPath(*parts[: at + 1]) not in around for at in places
    )


def _matches(path: PurePosixPath, *patterns: str) -> bool:
    return any(fnmatch(str(path), pattern) or fnmatch(path.name, pattern) for pattern in patterns)


async def prepare(application: Application, sandbox: Sandbox, cache: Path) -> Prepared:
    """Build and run the unchanged source, unless `cache` has the result.

    Raises:
        ApplicationError: the source cannot be built or run, does not write what is expected, or a program is missing.
        RuntimeError: the sandbox failed.
    """
    application.require_toolchain()
    source = _source(application)
    where = (await sandbox.describe()).partition(" (")[0]
    digest = _digest(application, source, where)
    folder = cache / f"{application.name}-{digest}"
    if not (folder / "reference").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".preparing-") as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            await _build_and_run(application, sandbox, source, new)
            try:
                new.rename(folder)
            except OSError:
                if not (folder / "reference").is_dir():  # otherwise another process was faster
                    shutil.rmtree(folder, ignore_errors=True)
                    new.rename(folder)
    reference_dir = folder / "reference" if application.reference == GENERATE else Path(application.reference)
    built = source if isinstance(source, MountedTree) else (folder / "built.tar").read_bytes()
    reference = _reference(application, reference_dir, built)
    if isinstance(reference, ComparedByCommand):
        await reference.check(sandbox)
    return Prepared(application, built, reference, f"{digest}-{_scoring_digest(application)}")


def _reference(application: Application, folder: Path, built: bytes | MountedTree) -> AnyReference:
    """What results are compared with. Raises ApplicationError if the folder lacks a part of it."""
    if application.comparison is not None:
        files = files_of(built, application.comparison.files)
        return ComparedByCommand(application, application.comparison, folder, files)
    if application.metric.format == "cactus":
        return TestSuite(Folder(folder), application.metric)
    return Reference(Folder(folder), application.metric)


async def _build_and_run(application: Application, sandbox: Sandbox, source: bytes | MountedTree, folder: Path) -> None:
    """Write built.tar, unless the tree stays where it is, and the reference run into `folder`."""
    name, travels = f"{application.name}/build", isinstance(source, bytes)
    if isinstance(source, MountedTree):
        [built] = await sandbox.run([mounted_job(application, name, source, None, b"")])
        if not built.graded:
            raise ApplicationError(
                f"source_dir={application.source_dir} is too large to be copied: {built.note}; {SMALLER}"
            )
    else:
        built = _graded(await sandbox.run([copied_job(application, name, source, {}, "built.tar")]))
    if (failure := build_failure(application, built)) or (travels and "built.tar" not in built.files):
        output = _file_limit(application, source, built) or last_output(built.stderr, build_log(application, built))
        raise ApplicationError(f"{application.name}, unchanged: {failure or 'build.disk_mib is too little'}; {output}")
    names = [name.removeprefix(f"{TREE}/") for name in built.files]
    for pattern in application.run.inputs:
        if not any(fnmatch(name, pattern) for name in names):
            raise ApplicationError(f"{application.name}: run.inputs: no file {pattern} in the built source")
    if twice := names_twice(application, built):
        raise ApplicationError(
            f"{application.name}: run.inputs: several files are called {twice[0]}, and a run has one folder for all"
        )
    if travels:
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
        output = last_output(ran.stderr, ran.stdout)
        place = (
            f"a new folder that holds only the program and run.inputs ({', '.join(application.run.inputs) or 'none'})"
        )
        raise ApplicationError(f"{application.name}, unchanged: {failure}; {output}; it runs in {place}")
    for name, data in ran.files.items():
        path = reference / name.removeprefix("run/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if application.comparison is None:
        _reference(application, reference, source)


def _file_limit(application: Application, source: bytes | MountedTree, built: Outcome) -> str:
    """How to stay within the sandbox's limits on files, if these ended the build; otherwise empty."""
    if built.note != "file limit" and "No space left on device" not in built.stderr:
        return ""
    little = f"build.disk_mib={application.build.disk_mib} is too little"
    if isinstance(source, MountedTree):
        return f"{little} for what it writes"
    with tarfile.open(fileobj=io.BytesIO(source)) as tree:
        count = len(tree.getnames())
    return (
        f"its {count} files and folders and those that it builds are too many for a sandbox, which takes "
        f"{2 * MAX_FILES}, or {little}; {SMALLER}"
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


def _source(application: Application) -> bytes | MountedTree:
    """The source tree with its time stamps, in a fixed order, or where it lies if it is too large to travel."""
    source_dir, build = application.source_dir, application.build
    paths = list(_files(source_dir))
    size = sum(path.lstat().st_size for path in paths) >> 20
    if len(paths) > MAX_FILES or size > MAX_MIB:
        return MountedTree(
            source_dir,
            build.writable,
            lambda file, path: _left_out(application, file, path),
            lambda file, path: _is_result(application, file, path),
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
        elif (path.is_file() or path.is_symlink()) and path.name not in OF_A_FOLDER:
            yield path


def files_of(built: bytes | MountedTree, patterns: Sequence[str]) -> dict[str, bytes]:
    """The files of a built tree that match, by path."""
    if isinstance(built, MountedTree):
        return {
            name: path.read_bytes()
            for name, path in built.files().items()
            if any(fnmatch(name, each) for each in patterns)
        }
    files = {}
    with tarfile.open(fileobj=io.BytesIO(built)) as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            if content and any(fnmatch(member.name, pattern) for pattern in patterns):
                files[member.name] = content.read()
    return files


def _digest(application: Application, source: bytes | MountedTree, where: str) -> str:
    """Digest of the files, how they are built and run, the expected outputs, the compilers, and the kind of sandbox,
    which decides on the folder that builds see; not of time stamps, but of a tree that does not travel, whose contents
    are not read."""
    hasher = hashlib.sha256(where.encode())
    if isinstance(source, MountedTree):
        for name, path in source.files().items():
            status = path.stat()
            hasher.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    else:
        _add_archive(hasher, source)
    facts = [
        asdict(application.build), asdict(application.run), [application.metric.format, *application.metric.expect],
        application.reference == GENERATE,
        compilers(*application.toolchain),
    ]  # fmt: skip
    hasher.update(json.dumps(facts, default=list).encode())
    return hasher.hexdigest()[:16]


def compilers(*also: str) -> list[tuple[str, int, int]]:
    """Path, size and time of COMPILERS, and of the programs `also`, as far as they are installed."""
    tools = {Path(tool).resolve() for name in {*also, *COMPILERS} if (tool := shutil.which(name))}
    return sorted((str(tool), tool.stat().st_size, tool.stat().st_mtime_ns) for tool in tools)


def _add_archive(hasher: Any, archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            data = content.read() if content else b""
            facts = f"{member.name}\0{member.linkname}\0{member.mode}\0{len(data)}\0"
            hasher.update(facts.encode("utf-8", "surrogateescape") + data)


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
