"""A prepared Cactus tree: does a file of a thorn compile in it? The specification's section 3.4.

The tree is the user's: configured and built once, read and never changed. Each check is a job of the sandbox with a
private copy of what the compiler may want: the files that the source includes, directly or through others, found by
their names anywhere in the tree, and those that `files` names. What could give the masked file away stays out: the file
itself, copies of it, objects made of it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from envs.etk.completion.application import Build, words
from envs.etk.completion.cases import Case, Gap
from envs.etk.completion.messages import CompilerMessage, compiler_messages
from envs.etk.completion.prepared import IN_FOLDER, MOST_MIB, OBJECTS, TREE, VERSION_CONTROL
from envs.sandbox import Job, Outcome, Sandbox
from envs.task import TaskError

INCLUDE = re.compile(r"^[ \t]*#?[ \t]*include[ \t]*[<\"']([^>\"'\n]+)[>\"']", re.MULTILINE | re.IGNORECASE)
PLACEHOLDER = re.compile(r"\{(target|thorn|arrangement|name|file|folder)\}")
MOST_FILES = 900
"""A sandbox's folder holds about 1,000."""
REMEMBERED = 20_000
"""Checks kept in memory; the oldest go first."""


@dataclass(frozen=True)
class Source:
    """A file below a thorn's src, and its text."""

    thorn: str  # "arrangement/name"
    file: str
    language: str
    text: str

    @property
    def outside(self) -> bool:
        """Whether its names lead out of the tree."""
        parts = PurePosixPath(self.thorn, self.file).parts
        return ".." in parts or "/" in parts or len(PurePosixPath(self.thorn).parts) != 2


@dataclass(frozen=True)
class Setup:
    """How a file is checked.

    workdir: the tree. target: where a file lies in it. command: a line for the shell, run at the tree's root, or one
    for each language. Both may hold {thorn}, {arrangement}, {name} (without the arrangement), {file} and, in the
    command, {target} and its {folder}; names are quoted. files: patterns of what travels beside what is included; *
    stands for slashes too. expect: files that must be there afterwards, made by the command. success_regex: see Build.
    timeout: seconds. memory_mib: of one process. disk_mib: of the copy.

    Raises:
        TaskError: no such tree, or a program of the command that is not installed.
    """

    workdir: str
    command: str | Mapping[str, str]
    target: str = "arrangements/{thorn}/src/{file}"
    files: Sequence[str] = ()
    expect: Sequence[str] = ()
    success_regex: str | None = None
    timeout: float = 20.0
    memory_mib: int = 2048
    disk_mib: int = 512
    build: Build = field(init=False)

    def __post_init__(self) -> None:
        where = "task.reward.compile"
        if not self.workdir or not self.root.is_dir():
            raise TaskError(f"{where}.workdir={self.workdir}: no such folder; give a configured and built Cactus tree")
        lines = [self.command] if isinstance(self.command, str) else list(self.command.values())
        for line in lines:
            program = shlex.split(line)[0] if line.strip() else ""
            if "/" not in program and "=" not in program and shutil.which(program) is None:
                raise TaskError(f"{where}: the command needs {program or 'a program'}, which is not installed")
        try:
            limits = {"timeout": self.timeout, "memory_mib": self.memory_mib, "disk_mib": self.disk_mib}
            build = Build(command=":", success_regex=self.success_regex, **limits)  # type: ignore[arg-type]
        except ValueError as error:
            raise TaskError(f"{where}: {str(error).removeprefix('build')}") from None
        object.__setattr__(self, "build", build)

    @property
    def root(self) -> Path:
        return Path(self.workdir).expanduser()

    def command_for(self, source: Source) -> str | None:
        """The command, its names filled in; None for a language that has none."""
        line = self.command if isinstance(self.command, str) else self.command.get(source.language)
        target = self.target_of(source)
        return line and filled(
            line, source, {"target": target, "folder": str(PurePosixPath(target).parent)}, shlex.quote
        )

    def target_of(self, source: Source) -> str:
        """Where the file lies in the tree."""
        return filled(self.target, source, {}, str)


def filled(text: str, source: Source, more: Mapping[str, str], quote: Any) -> str:
    """A template with a source's names."""
    arrangement, _, name = source.thorn.partition("/")
    names = {"thorn": source.thorn, "arrangement": arrangement, "name": name, "file": source.file, **more}
    return PLACEHOLDER.sub(lambda found: quote(names[found[1]]) if found[1] in names else found[0], text)


@dataclass(frozen=True)
class Compiled:
    """ok: whether the file compiles. messages: the compiler's, at their places in the file. reason: why not."""

    ok: bool
    messages: tuple[CompilerMessage, ...] = ()
    reason: str = ""


class CactusTree:
    """Checks files in a tree. The same file is checked once, and what became of a reference is kept in `cache`.

    Raises TaskError where more travels each time than a sandbox takes.
    """

    def __init__(self, setup: Setup, sandbox: Sandbox, cache: Path):
        self.setup, self.sandbox, self.cache = setup, sandbox, cache
        self._paths = _files(setup.root)
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(PurePosixPath(path).name, []).append(path)
        self._always = [path for path in self._paths if any(fnmatch(path, pattern) for pattern in setup.files)]
        count, size = self._load(self._always)
        if count > MOST_FILES or size > MOST_MIB:
            raise TaskError(
                f"task.reward.compile: {count} files and folders of {size} MiB would travel with each check, a sandbox "
                f"takes {MOST_FILES} of {MOST_MIB} MiB; name in `files` what the command reads"
            )
        self._included = functools.lru_cache(100_000)(self._read_included)
        self._archive = functools.lru_cache(64)(self._made_archive)
        self._known: dict[Source, Compiled] = {}
        self._references: dict[Source, bool] = {}

    def has(self, source: Source) -> bool:
        """Whether the tree has a file in its place."""
        return not source.outside and self.setup.target_of(source) in self._paths

    async def usable(self, references: Sequence[Source]) -> list[bool | None]:
        """Whether each reference compiles in this set-up; None where the sandbox failed."""
        unknown = {r: self._kept(r) for r in references if r not in self._references}
        asked = [r for r, file in unknown.items() if not file.exists()]
        for reference, found in zip(asked, await self.check(asked, asked), strict=True):
            if found is not None:
                self._keep(unknown[reference], found.ok)
        self._references |= {r: file.read_text() == "compiles" for r, file in unknown.items() if file.exists()}
        return [self._references.get(reference) for reference in references]

    async def check(self, sources: Sequence[Source], references: Sequence[Source]) -> list[Compiled | None]:
        """What becomes of each source in place of its reference; None where the sandbox failed."""
        new = {s: r for s, r in zip(sources, references, strict=True) if s not in self._known}
        jobs = {source: self._job(source, reference) for source, reference in new.items()}
        ran = {source: job for source, job in jobs.items() if job is not None}
        for source in new.keys() - ran.keys():
            self._known[source] = Compiled(False, reason="not in this tree, or it includes too much of it")
        for (source, job), outcome in zip(ran.items(), await self.sandbox.run(list(ran.values())), strict=True):
            if outcome.graded:
                self._known[source] = self._compiled(source, job, outcome)
        answers = [self._known.get(source) for source in sources]
        for source in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[source]
        return answers

    def _job(self, source: Source, reference: Source) -> Job | None:
        command = self.setup.command_for(source)
        target = self.setup.target_of(source)
        if command is None or source.outside or target not in self._paths:
            return None
        wanted = self._wanted([source.text, reference.text], target)
        if not self._fits(wanted):  # who includes everything gets what the reference includes
            wanted = self._wanted([reference.text], target)
        if not self._fits(wanted):
            return None
        place = f"{TREE}/{target}"
        return Job(
            f"compile/{source.thorn}/{source.file}",
            "command",
            files={"tree.tar": self._archive(target, reference.text, wanted), place: source.text.encode()},
            commands=(
                ("mkdir", "-p", TREE),
                ("tar", "-xf", "tree.tar", "-C", TREE),
                (*IN_FOLDER, TREE, *words(command)),
            ),
            keep=tuple(f"{TREE}/{name}" for name in self.setup.expect),
            limits=self.setup.build.limits,
        )

    def _compiled(self, source: Source, job: Job, outcome: Outcome) -> Compiled:
        lines = tuple(source.text.split("\n"))
        gap = Gap(Case(job.id, source.file, 0, len(lines)), (), lines, ())
        messages = compiler_messages(f"{outcome.stderr}\n{outcome.stdout}", gap, source.text)
        missing = [name for name in job.keep if name not in outcome.files]
        if outcome.verdict != "pass":
            reason = f"{outcome.verdict}, {outcome.note}"
        elif not self.setup.build.succeeded(f"{outcome.stderr}\n{outcome.stdout}"):
            reason = f"the output does not end with {self.setup.success_regex}"
        elif missing:
            reason = f"there is no {missing[0].removeprefix(f'{TREE}/')}"
        else:
            return Compiled(True, messages)
        return Compiled(False, messages, reason)

    # what travels --------------------------------------------------------------------------------------------------

    def _wanted(self, texts: Sequence[str], target: str) -> tuple[str, ...]:
        """Files of the tree that the texts include, with what those include, and those that always travel."""
        found = set(self._always)
        waiting = [name for text in texts for name in INCLUDE.findall(text)]
        seen = set(waiting)
        while waiting:
            for path in self._named(waiting.pop()):
                found.add(path)
                more = [name for name in self._included(path) if name not in seen]
                seen.update(more)
                waiting += more
        return tuple(sorted(found - {target}))

    def _fits(self, paths: Sequence[str]) -> bool:
        count, size = self._load(paths)
        return count <= MOST_FILES and size <= MOST_MIB

    def _load(self, paths: Sequence[str]) -> tuple[int, int]:
        """Files and folders, and MiB."""
        folders = {folder for path in paths for folder in PurePosixPath(path).parents}
        return len(paths) + len(folders), sum(self._paths[path].stat().st_size for path in paths) >> 20

    def _named(self, name: str) -> list[str]:
        """Files that `#include "name"` may mean, wherever the compiler looks for it."""
        plain = PurePosixPath(name.rsplit("../", 1)[-1])
        ending = "/" + str(plain)
        return [path for path in self._by_name.get(plain.name, ()) if f"/{path}".endswith(ending)]

    def _read_included(self, path: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(INCLUDE.findall(self._paths[path].read_text(encoding="latin-1"))))

    def _made_archive(self, target: str, reference: str, paths: tuple[str, ...]) -> bytes:
        """Those files with their time stamps, in whole seconds rounded down, so that a file written now is newer."""
        buffer, masked = io.BytesIO(), PurePosixPath(target)
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for folder in sorted({str(folder) for name in paths for folder in PurePosixPath(name).parents} - {"."}):
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            for name in paths:
                path, file = PurePosixPath(name), self._paths[name]
                made = path.suffix in OBJECTS and path.name.startswith(f"{masked.stem}.")
                if made or name in self.setup.expect:
                    continue
                data = file.read_bytes()
                if path.name == masked.name and data == reference.encode():
                    continue
                member = tarfile.TarInfo(name)
                status = file.stat()
                member.size, member.mtime, member.mode = len(data), int(status.st_mtime), status.st_mode & 0o777
                archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()

    # references ----------------------------------------------------------------------------------------------------

    def _kept(self, reference: Source) -> Path:
        """Where it is kept what became of a reference: a file named after all that it depends on."""
        hasher = hashlib.sha256(json.dumps({**asdict(self.setup), "build": None}, sort_keys=True, default=str).encode())
        target = self.setup.target_of(reference)
        if not reference.outside and target in self._paths:
            hasher.update(self._archive(target, reference.text, self._wanted([reference.text], target)))
        hasher.update(json.dumps(asdict(reference)).encode())
        return self.cache / hasher.hexdigest()[:24]

    @staticmethod
    def _keep(file: Path, ok: bool) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{file.name}.{os.getpid()}")
        staging.write_text("compiles" if ok else "fails")
        os.replace(staging, file)


def _files(root: Path) -> dict[str, Path]:
    """Plain files by their path in the tree, links followed (arrangements are folders of links), none in a circle."""
    found = {}
    for where, folders, files in os.walk(root, followlinks=True):
        here = os.path.realpath(where)
        folders[:] = [
            name
            for name in sorted(folders)
            if name not in VERSION_CONTROL
            and not f"{here}/".startswith(os.path.realpath(os.path.join(where, name)).rstrip("/") + "/")
        ]
        for name in files:
            path = Path(where, name)
            if path.is_file():
                found[path.relative_to(root).as_posix()] = path
    return found
