"""A prepared Cactus tree: does a file of a thorn compile in it (specification, section 3.4)?

The tree is the user's: configured and built once, read and never changed. Each check is a sandbox job with a private
copy of the files that the compiler may need: those that the source includes, directly or indirectly, located by name
anywhere in the tree, and those that `files` names. Files that could give away the reference are left out: the file
itself, copies of it, and its objects.

A file that compiles must also define what the rest of its thorn needs of it: the names that the reference's object
defines and that the thorn's declarations (schedule.ccl) or its other sources use. A lone semicolon compiles, too.
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

from envs.etk.build.application import Build, words
from envs.etk.build.compiler_messages import CompilerMessage, compiler_messages
from envs.etk.build.prepared_tree import MAX_MIB, OBJECTS, TREE, VERSION_CONTROL, in_folder
from envs.sandbox import Job, Outcome, Sandbox
from envs.task import TaskError

INCLUDE = re.compile(r"^[ \t]*#?[ \t]*include[ \t]*[<\"']([^>\"'\n]+)[>\"']", re.MULTILINE | re.IGNORECASE)
PLACEHOLDER = re.compile(r"\{(target|thorn|arrangement|name|file|folder|object)\}")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAMES = "defined_names.txt"
"""The file of a job that lists what the object defines."""
LIST_NAMES = ("/bin/sh", "-c", 'nm --defined-only --extern-only --demangle "$0" > "$1" 2>/dev/null || :')
MAX_FILES = 900
"""Files and folders of a job; the sandbox's folder holds about 1,000."""
MAX_IN_MEMORY = 20_000
"""Number of checks in memory; the oldest are removed first."""


@dataclass(frozen=True)
class Source:
    """A file below a thorn's `src`, with its text."""

    thorn: str  # "arrangement/name"
    file: str
    language: str
    text: str

    @property
    def outside(self) -> bool:
        """Whether its path leads out of the tree."""
        parts = PurePosixPath(self.thorn, self.file).parts
        return ".." in parts or "/" in parts or len(PurePosixPath(self.thorn).parts) != 2


@dataclass(frozen=True)
class Setup:
    """How a file is checked.

    workdir: folder of the tree. target: path of a file in the tree. command: a line for the shell, run at the tree's
    root, or one line for each language. All paths and commands may contain {thorn}, {arrangement}, {name} (without the
    arrangement), {file} and, in the command, {target}, its {folder} and {object}; names are quoted. object: path of the
    object that the command writes, whose names are compared with those that the thorn needs; None: they are not. files:
    patterns of files that the job gets in addition to included ones; * also matches slashes. expect: files that the
    command must write. success_regex: see Build. timeout: seconds. memory_mib: limit of all its processes
    together. disk_mib: limit of the copy.

    Raises:
        TaskError: the tree does not exist, or a program of the command is not installed.
    """

    workdir: str
    command: str | Mapping[str, str]
    target: str = "arrangements/{thorn}/src/{file}"
    object: str | None = None
    files: Sequence[str] = ()
    expect: Sequence[str] = ()
    success_regex: str | None = None
    timeout: float = 20.0
    memory_mib: int = 2048
    disk_mib: int = 512
    build: Build = field(init=False)

    def __post_init__(self) -> None:
        setting = "task.reward.compile"
        if not self.workdir or not self.root.is_dir():
            raise TaskError(
                f"{setting}.workdir={self.workdir}: no such folder; give a configured and built Cactus tree"
            )
        lines = [self.command] if isinstance(self.command, str) else list(self.command.values())
        for line in lines:
            program = shlex.split(line)[0] if line.strip() else ""
            if "/" not in program and "=" not in program and shutil.which(program) is None:
                raise TaskError(f"{setting}: the command needs {program or 'a program'}, which is not installed")
        try:
            limits = {"timeout": self.timeout, "memory_mib": self.memory_mib, "disk_mib": self.disk_mib}
            build = Build(command=":", success_regex=self.success_regex, **limits)  # type: ignore[arg-type]
        except ValueError as error:
            raise TaskError(f"{setting}: {str(error).removeprefix('build')}") from None
        object.__setattr__(self, "build", build)

    @property
    def root(self) -> Path:
        return Path(self.workdir).expanduser()

    def command_for(self, source: Source) -> str | None:
        """The command with its placeholders filled in; None for a language without a command."""
        line = self.command if isinstance(self.command, str) else self.command.get(source.language)
        target = self.target_of(source)
        paths = {
            "target": target, "folder": str(PurePosixPath(target).parent),
            "object": self.object_of(source) or os.devnull,
        }  # fmt: skip
        return line and fill_placeholders(line, source, paths, shlex.quote)

    def object_of(self, source: Source) -> str | None:
        """The path of the object in the tree."""
        return self.object and fill_placeholders(self.object, source, {}, str)

    def target_of(self, source: Source) -> str:
        """The path of the file in the tree."""
        return fill_placeholders(self.target, source, {}, str)


def fill_placeholders(text: str, source: Source, more: Mapping[str, str], quote: Any) -> str:
    """A template with the names of a source filled in, each passed through `quote`."""
    arrangement, _, name = source.thorn.partition("/")
    names = {"thorn": source.thorn, "arrangement": arrangement, "name": name, "file": source.file, **more}
    return PLACEHOLDER.sub(lambda match: quote(names[match[1]]) if match[1] in names else match[0], text)


@dataclass(frozen=True)
class Compiled:
    """ok: whether the file compiles and defines what its thorn needs. messages: the compiler's, located in the file.
    reason: why it is not ok. defined: names that its object defines."""

    ok: bool
    messages: tuple[CompilerMessage, ...] = ()
    reason: str = ""
    defined: frozenset[str] = frozenset()


class CactusTree:
    """Checks files in a tree. Each text is checked once; the results of references are stored in the folder `cache`.

    Raises TaskError if the files of each job exceed the limits of the sandbox.
    """

    def __init__(self, setup: Setup, sandbox: Sandbox, cache: Path):
        self.setup, self.sandbox, self.cache = setup, sandbox, cache
        self._paths = _files(setup.root)
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(PurePosixPath(path).name, []).append(path)
        self._always = [path for path in self._paths if any(fnmatch(path, pattern) for pattern in setup.files)]
        count, size = self._load(self._always)
        if count > MAX_FILES or size > MAX_MIB:
            raise TaskError(
                f"task.reward.compile: {count} files and folders of {size} MiB would travel with each check, a sandbox "
                f"takes {MAX_FILES} of {MAX_MIB} MiB; name in `files` only what the command reads"
            )
        self._included = functools.lru_cache(100_000)(self._read_included)
        self._archive = functools.lru_cache(64)(self._make_archive)
        self._checked: dict[Source, Compiled] = {}
        self._references: dict[Source, bool] = {}
        self._defined: dict[Source, frozenset[str]] = {}
        self._used = functools.lru_cache(256)(self._read_used)

    def has(self, source: Source) -> bool:
        """Whether the tree has a file at the source's path."""
        return not source.outside and self.setup.target_of(source) in self._paths

    async def usable(self, references: Sequence[Source]) -> list[bool | None]:
        """Whether each reference compiles in this set-up; None if the sandbox failed."""
        files = {r: self._result_file(r) for r in references if r not in self._references}
        unchecked = [r for r, file in files.items() if not file.exists()]
        for reference, result in zip(unchecked, await self.check(unchecked, unchecked), strict=True):
            if result is not None:
                self._store(files[reference], result)
        for reference, file in files.items():
            if file.exists():
                stored = json.loads(file.read_text())
                self._references[reference] = stored["ok"]
                self._defined[reference] = frozenset(stored["defined"])
        return [self._references.get(reference) for reference in references]

    async def check(self, sources: Sequence[Source], references: Sequence[Source]) -> list[Compiled | None]:
        """The result of compiling each source in place of its reference; None if the sandbox failed."""
        new = {s: r for s, r in zip(sources, references, strict=True) if s not in self._checked}
        compared = [reference for source, reference in new.items() if source != reference]
        if self.setup.object is not None and compared:
            await self.usable(compared)
        jobs = {source: self._job(source, reference) for source, reference in new.items()}
        possible = {source: job for source, job in jobs.items() if job is not None}
        for source in new.keys() - possible.keys():
            self._checked[source] = Compiled(False, reason="not in this tree, or it includes too much of it")
        for source, outcome in zip(possible, await self.sandbox.run(list(possible.values())), strict=True):
            if outcome.graded:
                self._checked[source] = self._compiled(source, outcome, self._needed_names(source, new[source]))
        results = [self._checked.get(source) for source in sources]
        for source in list(self._checked)[: max(0, len(self._checked) - MAX_IN_MEMORY)]:
            del self._checked[source]
        return results

    def _job(self, source: Source, reference: Source) -> Job | None:
        command = self.setup.command_for(source)
        target = self.setup.target_of(source)
        if command is None or source.outside or target not in self._paths:
            return None
        needed = self._needed([source.text, reference.text], target)
        if not self._fits(needed):  # a source that includes too much gets only the files that the reference includes
            needed = self._needed([reference.text], target)
        if not self._fits(needed):
            return None
        place, made = f"{TREE}/{target}", self.setup.object_of(source)
        list_names = [in_folder(TREE, (*LIST_NAMES, made, NAMES))] if made else []
        return Job(
            f"compile/{source.thorn}/{source.file}",
            "command",
            files={"tree.tar": self._archive(target, reference.text, needed), place: source.text.encode()},
            commands=(
                ("mkdir", "-p", TREE),
                ("tar", "-xf", "tree.tar", "-C", TREE),
                in_folder(TREE, words(command)),
                *list_names,
            ),
            keep=tuple(f"{TREE}/{name}" for name in (*self.setup.expect, *([NAMES] if made else []))),
            limits=self.setup.build.limits,
        )

    def _compiled(self, source: Source, outcome: Outcome, needed_names: frozenset[str]) -> Compiled:
        output = f"{outcome.stderr}\n{outcome.stdout}"
        # a line end at the end of the text belongs to the last line
        messages = compiler_messages(output, source.file, source.text.removesuffix("\n").split("\n"))
        missing = [name for name in self.setup.expect if f"{TREE}/{name}" not in outcome.files]
        defined = defined_names(outcome.files.get(f"{TREE}/{NAMES}", b"").decode("utf-8", "replace"))
        if outcome.verdict != "pass":
            reason = f"{outcome.verdict}, {outcome.note}"
        elif not self.setup.build.succeeded(output):
            reason = f"the output does not end with {self.setup.success_regex}"
        elif missing:
            reason = f"there is no {missing[0]}"
        elif undefined := sorted(needed_names - defined):
            reason = f"the thorn needs {', '.join(undefined[:5])}, which it does not define"
        else:
            return Compiled(True, messages, defined=defined)
        return Compiled(False, messages, reason)

    def _needed_names(self, source: Source, reference: Source) -> frozenset[str]:
        """Names that the reference defines and the rest of its thorn uses; of the reference itself nothing is asked."""
        if source == reference:
            return frozenset()
        return self._defined.get(reference, frozenset()) & self._used(self.setup.target_of(reference), reference.file)

    def _read_used(self, target: str, file: str) -> frozenset[str]:
        """Names in the declarations and the other sources of the thorn that has `file` at `target`."""
        folder = target.removesuffix(file).removesuffix("/").removesuffix("/src")
        names: set[str] = set()
        for path in self._paths:
            if path.startswith(f"{folder}/") and path != target and PurePosixPath(path).suffix not in OBJECTS:
                text = self._paths[path].read_text(encoding="latin-1")
                if path.endswith(".ccl"):
                    text = re.sub(r"#[^\n]*", "", text)
                names |= {_plain(name) for name in IDENTIFIER.findall(C_COMMENT.sub(" ", text))}
        return frozenset(names)

    # the files of a job ---------------------------------------------------------------------------------------------

    def _needed(self, texts: Sequence[str], target: str) -> tuple[str, ...]:
        """Files of the tree that the texts include, directly or indirectly, and those that every job gets."""
        needed = set(self._always)
        waiting = [name for text in texts for name in INCLUDE.findall(text)]
        seen = set(waiting)
        while waiting:
            for path in self._named(waiting.pop()):
                needed.add(path)
                more = [name for name in self._included(path) if name not in seen]
                seen.update(more)
                waiting += more
        return tuple(sorted(needed - {target}))

    def _fits(self, paths: Sequence[str]) -> bool:
        count, size = self._load(paths)
        return count <= MAX_FILES and size <= MAX_MIB

    def _load(self, paths: Sequence[str]) -> tuple[int, int]:
        """Number of files and folders, and their size in MiB."""
        folders = {folder for path in paths for folder in PurePosixPath(path).parents}
        return len(paths) + len(folders), sum(self._paths[path].stat().st_size for path in paths) >> 20

    def _named(self, name: str) -> list[str]:
        """Files that `#include "name"` may refer to, in any folder that the compiler may search."""
        plain = PurePosixPath(name.rsplit("../", 1)[-1])
        ending = "/" + str(plain)
        return [path for path in self._by_name.get(plain.name, ()) if f"/{path}".endswith(ending)]

    def _read_included(self, path: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(INCLUDE.findall(self._paths[path].read_text(encoding="latin-1"))))

    def _make_archive(self, target: str, reference: str, paths: tuple[str, ...]) -> bytes:
        """The files with time stamps rounded down to whole seconds, so that a file written now is newer."""
        buffer, masked = io.BytesIO(), PurePosixPath(target)
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for folder in sorted({str(folder) for name in paths for folder in PurePosixPath(name).parents} - {"."}):
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            for name in paths:
                path, file = PurePosixPath(name), self._paths[name]
                is_object = path.suffix in OBJECTS and path.name.startswith(f"{masked.stem}.")
                if is_object or name in self.setup.expect:
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

    def _result_file(self, reference: Source) -> Path:
        """The file that stores the result of a reference, named after a hash of everything that it depends on."""
        hasher = hashlib.sha256(json.dumps({**asdict(self.setup), "build": None}, sort_keys=True, default=str).encode())
        target = self.setup.target_of(reference)
        if not reference.outside and target in self._paths:
            hasher.update(self._archive(target, reference.text, self._needed([reference.text], target)))
        hasher.update(json.dumps(asdict(reference)).encode())
        return self.cache / hasher.hexdigest()[:24]

    @staticmethod
    def _store(file: Path, result: Compiled) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{file.name}.{os.getpid()}")
        staging.write_text(json.dumps({"ok": result.ok, "defined": sorted(result.defined)}))
        os.replace(staging, file)


def defined_names(listing: str) -> frozenset[str]:
    """The names in the output of `nm --demangle`, without namespaces, arguments and what Fortran's compilers add."""
    names = (line.split(" ", 2)[2] for line in listing.splitlines() if line.count(" ") >= 2)
    return frozenset(_plain(name.partition("(")[0].rpartition("::")[2]) for name in names)


def _plain(name: str) -> str:
    """A name as it is compared: Fortran knows no capitals, and its compilers add a module and an underscore."""
    return name.rpartition("_MOD_")[2].rstrip("_").lower()


def _files(root: Path) -> dict[str, Path]:
    """Regular files by path in the tree. Links are followed, as arrangements are folders of links, but no cycles."""
    files_by_path = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        folders[:] = [
            name
            for name in sorted(folders)
            if name not in VERSION_CONTROL
            and not f"{real}/".startswith(os.path.realpath(os.path.join(folder, name)).rstrip("/") + "/")
        ]
        for name in files:
            path = Path(folder, name)
            if path.is_file():
                files_by_path[path.relative_to(root).as_posix()] = path
    return files_by_path
