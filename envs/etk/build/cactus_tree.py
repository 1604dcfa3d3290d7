"""A prepared Cactus tree: does a file of a thorn compile in it (specification, section 3.4)?

The tree is the user's: configured and built once, read and never changed. Compilers, flags and folders of headers are
those of its configuration (cactus_config.py). In the mode `syntax` one file is compiled in a private copy of what it
includes, a header through a source that includes it. In the mode `build` Cactus builds the configuration again, in a
sandbox that has the whole tree with a private writable layer.

A file that compiles must also define what the rest of its thorn needs of it: the names that the reference's object
defines and that the thorn's declarations (schedule.ccl) or its other sources use. A lone semicolon compiles, too.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from envs.etk.build.application import Build
from envs.etk.build.cactus_build import BuildJobs
from envs.etk.build.cactus_config import CHECKED, MAKEFILE, Configuration, Place, place_of, searched
from envs.etk.build.cactus_files import FORTRAN, Files
from envs.etk.build.compiler_messages import CompilerMessage, compiler_messages
from envs.etk.build.jobs import TREE, in_folder
from envs.etk.build.prepared_tree import MAX_MIB, OBJECTS, compilers
from envs.sandbox import Job, Outcome, Sandbox
from envs.task import Problem, TaskError

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAMES = "defined_names.txt"
"""The file of a job that lists what the object defines."""
LIST_NAMES = ("/bin/sh", "-c", 'nm --defined-only --extern-only --demangle "$0" > "$1" 2>/dev/null || :')
MODES = ("syntax", "build")
HEADERS = (
    "/usr/include", "/usr/include/*-linux-gnu", "/usr/local/include", "/usr/lib", "/usr/lib/*-linux-gnu", "/usr/lib64",
    "/opt",
)  # fmt: skip
MAX_FILES = 900
"""Files and folders of a job; a sandbox without namespaces holds about 1,000."""
MAX_IN_MEMORY = 20_000
"""Number of checks in memory; the oldest are removed first."""


@dataclass(frozen=True)
class Source:
    """A file below a thorn's `src`, with its text."""

    thorn: str  # "arrangement/name"
    file: str
    language: str
    text: str

    @classmethod
    def of(cls, problem: Problem, text: str) -> Source:
        """The file that a problem of task=etk asks for, with this text."""
        return cls(problem.data.get("thorn", ""), problem.data.get("file", ""), problem.language, text)

    @property
    def outside(self) -> bool:
        """Whether its path leads out of the tree."""
        parts = PurePosixPath(self.thorn, self.file).parts
        return ".." in parts or "/" in parts or len(PurePosixPath(self.thorn).parts) != 2

    @property
    def target(self) -> str:
        """The path of the file in the tree."""
        return f"arrangements/{self.thorn}/src/{self.file}"


@dataclass(frozen=True)
class Setup:
    """How files are checked.

    workdir: folder of the tree. configuration: name of a folder of configs/; None: the only one. mode: one of MODES.
    timeout: seconds of one check. memory_mib: limit of all its processes together. disk_mib: limit of what it writes.

    Raises:
        TaskError: the tree or the configuration does not exist, `make` or `perl` is not installed, or a value is
            invalid.
    """

    workdir: str
    configuration: str | None = None
    mode: str = "syntax"
    timeout: float | None = None
    memory_mib: int = 2048
    disk_mib: int = 1024
    build: Build = field(init=False)

    def __post_init__(self) -> None:
        setting = "task.reward.compile"
        if self.mode not in MODES:
            raise TaskError(f"{setting}.mode={self.mode}: unknown mode; use {' or '.join(MODES)}")
        if not self.workdir or not self.root.is_dir():
            raise TaskError(
                f"{setting}.workdir={self.workdir}: no such folder; give a configured and built Cactus tree"
            )
        for program in ("make", "perl", "nm"):
            if shutil.which(program) is None:
                raise TaskError(f"{setting}: Cactus's rules need {program}, which is not installed")
        timeout = self.timeout if self.timeout is not None else (20.0 if self.mode == "syntax" else 600.0)
        try:
            build = Build(command=":", timeout=timeout, memory_mib=self.memory_mib, disk_mib=self.disk_mib)
        except ValueError as error:
            raise TaskError(f"{setting}.{str(error).removeprefix('build.')}") from None
        object.__setattr__(self, "build", build)

    @property
    def root(self) -> Path:
        return Path(self.workdir).expanduser().absolute()


@dataclass(frozen=True)
class Compiled:
    """ok: whether the file compiles and defines what its thorn needs. messages: the compiler's, located in the file.
    reason: why it is not ok. defined: names that its object defines. limited: whether a limit ended the check."""

    ok: bool
    messages: tuple[CompilerMessage, ...] = ()
    reason: str = ""
    defined: frozenset[str] = frozenset()
    limited: bool = False


class CactusTree:
    """Checks files in a tree. Each text is checked once; the results of references are stored in the folder `cache`.

    Raises TaskError for a configuration that does not exist.
    """

    def __init__(self, setup: Setup, sandbox: Sandbox, cache: Path):
        self.setup, self.sandbox, self.cache = setup, sandbox, cache
        self.configuration = Configuration.of(setup.root, setup.configuration)
        self.files = Files(self.configuration)
        self._builds = BuildJobs(self.files) if setup.mode == "build" else None
        self._folders: dict[Place, tuple[str, ...]] = {}
        self._archive = functools.lru_cache(64)(self._make_archive)
        self._checked: dict[Source, Compiled] = {}
        self._references: dict[Source, bool] = {}
        self._defined: dict[Source, frozenset[str]] = {}
        self._used = functools.lru_cache(256)(self._read_used)

    async def ready(self) -> None:
        """Raise TaskError if the sandbox cannot give builds the tree."""
        if self._builds is not None:
            [outcome] = await self.sandbox.run([self._builds.trial()])
            if outcome.verdict != "pass":
                raise TaskError(f"task.reward.compile.mode=build: {outcome.note or outcome.stderr.strip()[-200:]}")

    def has(self, source: Source) -> bool:
        """Whether the tree has a file at the source's path."""
        return not source.outside and self.files.path(source.target).is_file()

    def checks(self, source: Source) -> bool:
        """Whether files like this one are compiled: sources and headers."""
        return self.has(source) and self._unit(source) is not None

    async def usable(self, references: Sequence[Source]) -> list[bool | None]:
        """Whether each reference compiles in this set-up; None if the sandbox failed."""
        new = [reference for reference in references if reference not in self._references]
        await self._find_folders(new)
        files = {reference: self._result_file(reference) for reference in new}
        unchecked = [r for r, file in files.items() if not file.exists() or _outdated(json.loads(file.read_bytes()))]
        for reference, result in zip(unchecked, await self.check(unchecked, unchecked), strict=True):
            if result is not None and result.limited:  # on a machine with less to do it may compile
                self._references[reference] = False
            elif result is not None:
                self._store(files[reference], result)
        for reference, file in files.items():
            if file.exists():
                stored = json.loads(file.read_bytes())
                self._references[reference] = stored["ok"]
                self._defined[reference] = frozenset(stored["defined"])
        return [self._references.get(reference) for reference in references]

    async def check(self, sources: Sequence[Source], references: Sequence[Source]) -> list[Compiled | None]:
        """The result of compiling each source in place of its reference; None if the sandbox failed."""
        new = {s: r for s, r in zip(sources, references, strict=True) if s not in self._checked}
        compared = [reference for source, reference in new.items() if source != reference]
        if compared:
            await self.usable(compared)
        await self._find_folders(list(new))
        jobs = {source: self._job(source, reference) for source, reference in new.items()}
        possible = {source: job for source, job in jobs.items() if job is not None}
        made = {
            source: Compiled(False, reason="not in this tree, or it includes too much of it")
            for source in new.keys() - possible.keys()
        }
        for source, outcome in zip(possible, await self.sandbox.run(list(possible.values())), strict=True):
            if outcome.graded:
                made[source] = self._compiled(source, outcome, self._needed_names(source, new[source]))
        # on a machine with less to do, a limit may not be reached the next time
        self._checked |= {source: compiled for source, compiled in made.items() if not compiled.limited}
        results = [made.get(source) or self._checked.get(source) for source in sources]
        for source in list(self._checked)[: max(0, len(self._checked) - MAX_IN_MEMORY)]:
            del self._checked[source]
        return results

    def _unit(self, source: Source) -> str | None:
        return self.files.unit(source.target, f"arrangements/{source.thorn}/src")

    def _job(self, source: Source, reference: Source) -> Job | None:
        unit = self._unit(source) if self.has(source) else None
        if unit is None:
            return None
        if self._builds is not None:
            job = self._builds.job(source.target, source.text, reference.text, self.setup.build.limits)
            made = self.files.object_of(unit, f"arrangements/{source.thorn}/src")
        else:
            place = _place(source, unit)
            if place not in self._folders:  # the sandbox failed
                return Job(f"compile/{source.target}", "command")
            found = self._syntax_job(source, reference, unit, place)
            if found is None:
                return None
            job, made = found, f"{CHECKED}/{PurePosixPath(unit).name}.o"
        listing = (*LIST_NAMES, f"{TREE}/{made}", NAMES)
        return replace(job, id=f"compile/{source.target}", commands=(*job.commands, listing), keep=(NAMES,))

    def _syntax_job(self, source: Source, reference: Source, unit: str, place: Place) -> Job | None:
        """The job that compiles one object in a copy of what it includes."""
        needed = self._needed([source.text, reference.text], source.target, unit, place)
        if not self._fits(needed):  # a source that includes too much gets only the files that the reference includes
            needed = self._needed([reference.text], source.target, unit, place)
        if not self._fits(needed):
            return None
        tree = self._archive(source.target, unit, place, reference.text, needed)
        target = shlex.quote(f"{PurePosixPath(unit).name}.o")
        # not optimised: the same errors in a third of the time
        options = "CCTK_OPTIMISE_MODE=no F_LINE_DIRECTIVES=yes"
        return Job(
            "",
            "command",
            files={"tree.tar": tree, f"{TREE}/{source.target}": source.text.encode()},
            commands=(
                ("mkdir", "-p", f"{TREE}/{CHECKED}", f"{TREE}/{self.configuration.folder}/scratch"),
                ("tar", "--no-same-owner", "-xf", "tree.tar", "-C", TREE),
                in_folder(f"{TREE}/{CHECKED}", ("/bin/sh", "-c", f"make -s -f ../{MAKEFILE} {target} {options}")),
            ),
            limits=self.setup.build.limits,
        )

    def _needed(self, texts: Sequence[str], target: str, unit: str, place: Place) -> tuple[str, ...]:
        pairs = [(target, text) for text in texts]
        if unit != target:
            pairs.append((unit, self.files.unit_text(unit)))
        modules = self.files.modules(texts[-1]) if PurePosixPath(unit).suffix in FORTRAN else ()
        return tuple(sorted({*self.files.needed(pairs, self._folders[place], target), *modules}))

    def _fits(self, paths: Sequence[str]) -> bool:
        count, size = self.files.load(paths)
        return count <= MAX_FILES and size <= MAX_MIB

    def _make_archive(self, target: str, unit: str, place: Place, reference: str, paths: tuple[str, ...]) -> bytes:
        makefile = self.configuration.makefile(place, self._folders[place])
        texts = {**self.configuration.fragments(place), MAKEFILE: makefile.encode()}
        if unit != target:
            texts[unit] = self.files.unit_text(unit).encode("latin-1")
        return self.files.archive(paths, texts, reference)

    async def _find_folders(self, sources: Sequence[Source]) -> None:
        """Ask make which folders it searches for the headers of each source."""
        if self._builds is not None:
            return
        units = {source: self._unit(source) for source in sources if self.has(source)}
        places = {_place(source, unit) for source, unit in units.items() if unit} - self._folders.keys()
        new = sorted(places, key=lambda place: place.folder)
        outcomes = await self.sandbox.run([self._folders_job(place) for place in new])
        for place, outcome in zip(new, outcomes, strict=True):
            if outcome.verdict == "fail":
                message = " ".join(outcome.stderr.split())[-300:]
                raise TaskError(f"task.reward.compile: make cannot read {self.configuration.folder}: {message}")
            if outcome.verdict == "pass":
                self._folders[place] = searched(outcome.stdout)

    def _folders_job(self, place: Place) -> Job:
        makefile = self.configuration.makefile(place, None).encode()
        files = self.configuration.fragments(place) | {MAKEFILE: makefile, f"{CHECKED}/.here": b""}
        command = in_folder(CHECKED, ("make", "-s", "-f", f"../{MAKEFILE}", "print-folders"))
        return Job(f"folders/{place.folder}", "command", files=files, commands=(command,))

    def _compiled(self, source: Source, outcome: Outcome, needed_names: frozenset[str]) -> Compiled:
        output = f"{outcome.stderr}\n{outcome.stdout}"
        # a line end at the end of the text belongs to the last line
        messages = compiler_messages(output, source.file, source.text.removesuffix("\n").split("\n"))
        defined = defined_names(outcome.files.get(NAMES, b"").decode("utf-8", "replace"))
        if outcome.verdict != "pass":
            reason = f"{outcome.verdict}, {outcome.note}"
        elif undefined := sorted(needed_names - defined):
            reason = f"the thorn needs {', '.join(undefined[:5])}, which it does not define"
        else:
            return Compiled(True, messages, defined=defined)
        return Compiled(False, messages, reason, limited=outcome.verdict in ("timeout", "killed"))

    def _needed_names(self, source: Source, reference: Source) -> frozenset[str]:
        """Names that the reference defines and the rest of its thorn uses; of the reference itself nothing is asked."""
        if source == reference:
            return frozenset()
        return self._defined.get(reference, frozenset()) & self._used(reference.thorn, reference.target)

    def _read_used(self, thorn: str, target: str) -> frozenset[str]:
        """Names in the declarations and the sources of a thorn, without those of the file `target`."""
        names: set[str] = set()
        folder = self.setup.root / "arrangements" / thorn
        for path in (*folder.glob("*.ccl"), *(folder / "src").rglob("*")):
            if path == self.files.path(target) or path.suffix in OBJECTS or not path.is_file():
                continue
            text = path.read_text(encoding="latin-1")
            if path.suffix == ".ccl":
                text = re.sub(r"#[^\n]*", "", text)
            names |= {_plain(name) for name in IDENTIFIER.findall(C_COMMENT.sub(" ", text))}
        return frozenset(names)

    # references ----------------------------------------------------------------------------------------------------

    def _result_file(self, reference: Source) -> Path:
        """The file that stores the result of a reference, named after a hash of everything that it depends on."""
        facts = {**asdict(self.setup), "build": None, "configuration": self.configuration.name, "tools": compilers()}
        hasher = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
        unit = self._unit(reference) if self.has(reference) else None
        if unit and self._builds is not None:
            hasher.update(self._builds.state())
        elif unit and (place := _place(reference, unit)) in self._folders:
            needed = self._needed([reference.text], reference.target, unit, place)
            hasher.update(self._archive(reference.target, unit, place, reference.text, needed))
        hasher.update(json.dumps(asdict(reference)).encode())
        return self.cache / hasher.hexdigest()[:24]

    @staticmethod
    def _store(file: Path, result: Compiled) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{file.name}.{os.getpid()}")
        staging.write_text(json.dumps({"ok": result.ok, "defined": sorted(result.defined), "headers": _headers()}))
        os.replace(staging, file)


def _outdated(stored: dict[str, Any]) -> bool:
    """Whether a reference that did not compile may do so now, because something was installed."""
    return not stored["ok"] and stored.get("headers") != _headers()


def _headers() -> list[list[str | int]]:
    """The system's folders of headers and libraries, and when something was last added to each or removed."""
    folders = [Path(folder) for each in HEADERS for folder in sorted(glob.glob(each))]
    return [[str(folder), folder.stat().st_mtime_ns] for folder in folders if folder.is_dir()]


def _place(source: Source, unit: str) -> Place:
    return place_of(source.thorn, unit.removeprefix(f"arrangements/{source.thorn}/src/"))


def defined_names(listing: str) -> frozenset[str]:
    """The names in the output of `nm --demangle`, without namespaces, arguments and what Fortran's compilers add."""
    names = (line.split(" ", 2)[2] for line in listing.splitlines() if line.count(" ") >= 2)
    return frozenset(_plain(name.partition("(")[0].rpartition("::")[2]) for name in names)


def _plain(name: str) -> str:
    """A name as it is compared: Fortran knows no capitals, and its compilers add a module and an underscore."""
    return name.rpartition("_MOD_")[2].rstrip("_").lower()
