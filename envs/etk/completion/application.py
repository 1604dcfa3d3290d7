"""What a simulation is to the evaluation: where its source lies, how it is built and run, what is compared."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from envs.etk.completion.compare import CompletionError, Metric
from envs.sandbox import Limits

GENERATE = "generate"
Command = str | Sequence[str]
"""Words, or a line for the shell."""
T = TypeVar("T")


def _command(name: str, command: object) -> None:
    listed = isinstance(command, Sequence) and all(isinstance(word, str) for word in command)
    if not command or not listed:
        raise CompletionError(f"{name}.command: a line for the shell or a list of words, not {command!r}")


def words(command: Command) -> tuple[str, ...]:
    """A command as a sandbox takes it."""
    return ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)


@dataclass(frozen=True)
class Build:
    """How a private copy of the source becomes a program.

    command: run in `cwd`, a folder of the source. timeout: seconds. log: a file that the command writes its output to;
    None: its standard output. success_regex: must match as a whole word in the last `success_lines` lines of the log
    that are not blank; None: the exit status alone decides. artifact: the program; None where none is to be looked
    for. discard: patterns of files that are not in the private copy, beside the artifact and the objects of the file
    with the masked lines: archives that hold such an object, other copies of the source. memory_mib: of one process.
    disk_mib: of the whole copy.
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

    def __post_init__(self) -> None:
        _command("build", self.command)
        _inside("build", self.cwd, *filter(None, [self.log, self.artifact]))
        _positive("build", self.timeout, self.memory_mib, self.disk_mib, self.success_lines)
        try:
            re.compile(self.success_regex or "")
        except re.error as error:
            raise CompletionError(f"build.success_regex: {error}") from None

    @property
    def limits(self) -> Limits:
        """For the sandbox."""
        return _limits(self.timeout, self.memory_mib, self.disk_mib)

    def succeeded(self, log: str) -> bool:
        """Whether the log ends as that of a good build does."""
        if self.success_regex is None:
            return True
        lines = [line for line in log.splitlines() if line.strip()][-self.success_lines :]
        pattern = re.compile(rf"(?<!\w)(?:{self.success_regex})(?!\w)")
        return any(pattern.search(line) for line in lines)


@dataclass(frozen=True)
class Run:
    """How the program is run: in a new folder that holds it and the `inputs`, by their base names.

    inputs: patterns of files of the built copy. timeout: seconds. env: variables added to a bare environment.
    """

    command: Command
    inputs: Sequence[str] = ()
    timeout: float = 60.0
    env: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = 2048
    disk_mib: int = 256

    def __post_init__(self) -> None:
        _command("run", self.command)
        _inside("run", *self.inputs)
        _positive("run", self.timeout, self.memory_mib, self.disk_mib)

    @property
    def limits(self) -> Limits:
        """For the sandbox."""
        return _limits(self.timeout, self.memory_mib, self.disk_mib)


@dataclass(frozen=True)
class Application:
    """A simulation whose lines are masked.

    source_dir: the tree, prebuilt or not; it is copied, never changed. It must hold all that its build reads outside
    the system's folders. metric: what is expected and compared. reference: GENERATE (build and run the source as it
    is, once), or the folder of a run. toolchain: programs that the build needs.

    Raises:
        CompletionError: a path that is not there.
    """

    name: str
    source_dir: Path
    build: Build
    run: Run
    metric: Metric = field(default_factory=Metric)
    reference: str = GENERATE
    toolchain: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", self.name):
            raise CompletionError(f"name: {self.name!r} names a folder of the cache: letters, digits, . _ + -")
        if not self.source_dir.is_dir():
            raise CompletionError(f"source_dir: no folder {self.source_dir}")
        if self.reference != GENERATE and not Path(self.reference).is_dir():
            raise CompletionError(f"reference: {GENERATE}, or the folder of a run; there is no {self.reference}")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Application:
        """From plain data with the keys of the specification (4.2): build and run are mappings, `run.expect`, field,
        compare, norm, weights and strict_finite make the metric. Raises CompletionError."""
        top = dict(config)
        run = dict(_mapping(top, "run"))
        wanted = {item.name for item in dataclasses.fields(Metric)} - {"expect"}
        metric = {name: top.pop(name) for name in list(top) if name in wanted}
        if "expect" in run:
            metric["expect"] = run.pop("expect")
        if not isinstance(top.get("source_dir"), str | Path):
            raise CompletionError("source_dir: the folder of the simulation's source")
        top["source_dir"] = Path(top["source_dir"]).expanduser()
        top.setdefault("name", top["source_dir"].name)
        top["build"] = _made(Build, _mapping(top, "build"), "build")
        top["run"] = _made(Run, run, "run")
        top["metric"] = _made(Metric, metric, "metric")
        return _made(cls, top, "application")

    def require_toolchain(self) -> None:
        """Raise CompletionError with what to install where a program is missing that the build needs."""
        missing = [name for name in self.toolchain if shutil.which(name) is None]
        if missing:
            raise CompletionError(
                f"building {self.name} needs {' and '.join(missing)}: apt install {' '.join(missing)} (Debian, Ubuntu)"
            )


def _mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(config.get(name), Mapping):
        raise CompletionError(f"{name}: expected a mapping with at least `command`")
    return config[name]


def _made(kind: type[T], values: Mapping[str, Any], name: str) -> T:
    known = {item.name for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := set(values) - known:
        raise CompletionError(f"{name}: no key {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise CompletionError(f"{name}: {str(error).partition('() ')[2] or error}") from None


def _inside(name: str, *paths: str) -> None:
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise CompletionError(f"{name}: {path!r} leads out of source_dir")


def _positive(name: str, *numbers: float) -> None:
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise CompletionError(f"{name}: limits must be positive")


def _limits(seconds: float, memory_mib: int, disk_mib: int) -> Limits:
    return Limits(
        wall_s=seconds,
        cpu_s=seconds,
        most_wall_s=max(120.0, 4 * seconds),
        memory_mib=memory_mib,
        file_mib=disk_mib,
        output_kib=8192,
        processes=256,
        open_files=1024,
    )
