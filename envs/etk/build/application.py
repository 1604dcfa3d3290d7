"""A simulation that is built and run: where its source lies, its commands, and what is compared."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from envs.etk.build.compare import ApplicationError, Metric
from envs.sandbox import Limits

GENERATE = "generate"
Command = str | Sequence[str]
"""A list of words, or a line for the shell."""
T = TypeVar("T")
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
MPI_VARIABLES = {"HOME": ".", "HWLOC_SYNTHETIC": "pu:2", "UCX_LOG_LEVEL": "fatal"}
"""What MPI otherwise looks for in files that a sandbox has not: its user's folder and the list of processors."""


def _check_command(name: str, command: object) -> None:
    is_text = isinstance(command, Sequence) and all(isinstance(word, str) for word in command)
    if not command or not is_text:
        raise ApplicationError(f"{name}.command={command!r}: must be a line for the shell or a list of words")


def _check_lists(table: str, **lists: object) -> None:
    """Raise ApplicationError for a text where a list of texts is meant; its letters would be taken one by one."""
    for name, value in lists.items():
        if (
            isinstance(value, str)
            or not isinstance(value, Sequence)
            or not all(isinstance(each, str) for each in value)
        ):
            raise ApplicationError(f"{table}.{name}={value!r}: must be a list of texts, such as [{str(value)!r}]")


def words(command: Command) -> tuple[str, ...]:
    """A command as a list of words for the sandbox."""
    return ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)


@dataclass(frozen=True)
class Build:
    """How a private copy of the source is built.

    command: run in `cwd`, a folder of the source. timeout: seconds. log: a file to which the command writes its output;
    None: its standard output. success_regex: must match as a whole word in the last `success_lines` non-blank lines of
    the log; None: only the exit status counts. artifact: path of the program; None: no program is expected. discard:
    patterns of files to leave out of the private copy, besides the artifact and the objects of the replaced file:
    archives that hold such an object, other copies of the source. memory_mib: limit of all its processes together.
    disk_mib: limit of the whole copy. writable: folders of a tree that is too large to be copied in which the build
    changes files, besides that of the replaced file; fewer files are prepared faster.
    """

    command: Command
    cwd: str = "."
    timeout: float = 120.0
    log: str | None = None
    success_regex: str | None = None
    success_lines: int = 1
    artifact: str | None = None
    discard: Sequence[str] = ()
    memory_mib: int = 4096
    disk_mib: int = 512
    writable: Sequence[str] = (".",)

    def __post_init__(self) -> None:
        _check_command("build", self.command)
        _check_lists("build", discard=self.discard, writable=self.writable)
        _check_inside("build", self.cwd, *self.writable, *filter(None, [self.log, self.artifact]))
        _check_positive("build", self, "timeout", "memory_mib", "disk_mib", "success_lines")
        _check_regex("build", self.success_regex)

    @property
    def limits(self) -> Limits:
        """Limits of the sandbox job."""
        return _limits(self.timeout, self.memory_mib, self.disk_mib)

    def succeeded(self, log: str) -> bool:
        """Whether the end of the log matches success_regex."""
        return _ends_with(log, self.success_regex, self.success_lines)


@dataclass(frozen=True)
class Run:
    """How the program is run: in a new folder that holds the program and the `inputs` under their base names.

    inputs: patterns of files of the built copy. success_regex: must match as a whole word in the last non-blank line of
    the standard output, which the application prints from files that no case masks, because exit status 0 also comes
    from a completion that ends the program early; None: the exit status alone counts. timeout: seconds. env: variables
    added to an almost empty environment. memory_mib: limit of all its processes together. disk_mib: limit of the
    folder. mpi: whether its processes talk to each other as MPI's do; the sandbox needs namespaces for it (tier full).
    """

    command: Command
    inputs: Sequence[str] = ()
    success_regex: str | None = None
    timeout: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = 2048
    disk_mib: int = 256
    mpi: bool = False

    def __post_init__(self) -> None:
        _check_command("run", self.command)
        _check_lists("run", inputs=self.inputs)
        _check_inside("run", *self.inputs)
        _check_regex("run", self.success_regex)
        _check_positive("run", self, "timeout", "memory_mib", "disk_mib")

    @property
    def limits(self) -> Limits:
        """Limits of the sandbox job."""
        return _limits(self.timeout, self.memory_mib, self.disk_mib, self.mpi)

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the program's environment."""
        return {**(MPI_VARIABLES if self.mpi else {}), **self.env}

    def names_input(self, path: PurePosixPath) -> bool:
        """Whether a file of the source is named as an input: by its name, or by a pattern of its folder."""
        folder = [pattern for pattern in self.inputs if "/" in pattern]
        return path.name in self.inputs or any(fnmatch(str(path), pattern) for pattern in folder)

    def printed_by(self, lines: str) -> bool:
        """Whether a text in quotes in these lines of source matches success_regex; False without one."""
        texts = [re.sub(r"\\[nrt]", "\n", text[1:-1]) for text in QUOTED.findall(lines)]
        return self.success_regex is not None and any(re.search(self.success_regex, text) for text in texts)

    def reached_its_end(self, output: str) -> bool:
        """Whether the last line of the program's standard output matches success_regex."""
        return _ends_with(output, self.success_regex, 1)


@dataclass(frozen=True)
class Comparison:
    """How a program of the user's compares the results of a run with those of the reference run.

    command: run in a new folder that holds the run's results below `result/`, the reference run's below `reference/`,
    and the `files`, patterns of files of the built copy, under their base names. The last number that it prints, from 0
    to 1, is the score; with another exit status than 0 the score is 0. timeout: seconds. memory_mib, disk_mib: limits
    of all its processes together, and of the folder.
    """

    command: Command
    files: Sequence[str] = ()
    timeout: float = 60.0
    memory_mib: int = 2048
    disk_mib: int = 512

    def __post_init__(self) -> None:
        _check_command("comparison", self.command)
        _check_lists("comparison", files=self.files)
        _check_inside("comparison", *self.files)
        _check_positive("comparison", self, "timeout", "memory_mib", "disk_mib")

    @property
    def limits(self) -> Limits:
        """Limits of the sandbox job."""
        return _limits(self.timeout, self.memory_mib, self.disk_mib)


@dataclass(frozen=True)
class Application:
    """A simulation, of which a source file can be replaced.

    source_dir: the source tree, prebuilt or not; it is copied and never changed. It must hold every file that the build
    reads outside the system's folders. metric: what is expected and compared. reference: GENERATE (build and run the
    unchanged source, once), or the folder of a run. toolchain: programs that the build needs. comparison: what compares
    results instead of the metric's field and norm; `expect` then names files of any kind.

    Raises:
        ApplicationError: an invalid name, or a path that does not exist.
    """

    name: str
    source_dir: Path
    build: Build
    run: Run
    metric: Metric = field(default_factory=Metric)
    reference: str = GENERATE
    toolchain: Sequence[str] = ()
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", self.name):
            raise ApplicationError(f"name={self.name!r}: a folder of the cache; use letters, digits, . _ + -")
        _check_lists("application", toolchain=self.toolchain)
        if not self.source_dir.is_dir():
            raise ApplicationError(f"source_dir={self.source_dir}: no such folder")
        if self.reference != GENERATE and not Path(self.reference).is_dir():
            raise ApplicationError(f"reference={self.reference}: no such folder; use {GENERATE} or a run's folder")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Application:
        """From plain data with an application's keys: `build` and `run` are mappings; `run.expect`,
        field, compare, norm, weights and strict_finite define the metric. Raises ApplicationError."""
        top = dict(config)
        run = dict(_mapping(top, "run"))
        metric_fields = {item.name for item in dataclasses.fields(Metric)} - {"expect"}
        metric = {name: top.pop(name) for name in list(top) if name in metric_fields}
        if "expect" in run:
            metric["expect"] = run.pop("expect")
        if not isinstance(top.get("source_dir"), str | Path):
            raise ApplicationError("source_dir: missing; set it to the folder of the simulation's source")
        top["source_dir"] = Path(top["source_dir"]).expanduser()
        top.setdefault("name", re.sub(r"[^\w.+-]", "_", top["source_dir"].resolve().name))
        top["build"] = _construct(Build, _mapping(top, "build"), "build")
        top["run"] = _construct(Run, run, "run", "expect")
        if top.get("comparison") is not None:
            top["comparison"] = _construct(Comparison, _mapping(top, "comparison"), "comparison")
            metric["format"] = "files"
        top["metric"] = _construct(Metric, metric, "metric")
        return _construct(cls, top, "application", "cases", *metric_fields)

    def require_toolchain(self) -> None:
        """Raise ApplicationError, naming the package to install, if a program that the build needs is missing."""
        missing = [name for name in self.toolchain if shutil.which(name) is None]
        if missing:
            raise ApplicationError(
                f"building {self.name} needs {' and '.join(missing)} (toolchain), not found on PATH: install it "
                f"(Debian, Ubuntu: apt install {' '.join(missing)}, if the package has this name)"
            )


def _mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(config.get(name), Mapping):
        raise ApplicationError(f"{name}: must be a mapping with at least `command`")
    return config[name]


def _construct(kind: type[T], values: Mapping[str, Any], name: str, *also: str) -> T:
    """`also` are keys of the same table that have been taken out of `values`, for the message."""
    known = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := set(values) - known:
        valid = ", ".join(sorted(known.union(also) - {"metric"}))
        raise ApplicationError(f"{name}: unknown key {', '.join(sorted(unknown))}; use {valid}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ApplicationError(f"{name}: {str(error).partition('() ')[2] or error}") from None


def _check_inside(name: str, *paths: str) -> None:
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ApplicationError(f"{name}: {path!r} leads out of source_dir; use a relative path without ..")


def _check_regex(name: str, regex: str | None) -> None:
    try:
        re.compile(regex or "")
    except re.error as error:
        raise ApplicationError(f"{name}.success_regex: {error}") from None


def _ends_with(output: str, regex: str | None, count: int) -> bool:
    """Whether one of the last `count` non-blank lines has `regex` as a whole word; True without one."""
    if regex is None:
        return True
    lines = [line for line in output.splitlines() if line.strip()][-count:]
    pattern = re.compile(rf"(?<!\w)(?:{regex})(?!\w)")
    return any(pattern.search(line) for line in lines)


def _check_positive(name: str, table: object, *keys: str) -> None:
    for key in keys:
        value = getattr(table, key)
        whole = key != "timeout"
        if not isinstance(value, int if whole else int | float) or not (math.isfinite(value) and value > 0):
            raise ApplicationError(f"{name}.{key}={value!r}: must be a positive {'whole ' if whole else ''}number")


def _limits(seconds: float, memory_mib: int, disk_mib: int, sockets: bool = False) -> Limits:
    return Limits(
        sockets=sockets,
        wall_s=seconds,
        cpu_s=seconds + 1.0,  # so that a program without end always ends by the same limit
        most_wall_s=max(120.0, 4 * seconds),
        memory_mib=memory_mib,
        file_mib=disk_mib,
        output_kib=8192,
        processes=256,
        open_files=1024,
    )
