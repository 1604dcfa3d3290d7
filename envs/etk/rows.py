"""Rows of the Einstein Toolkit dataset as source files: from the hub, from files, or from thorns that nrpy writes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envs.data import data_files, file_rows, hub_rows
from envs.etk.checkout import Checkouts
from envs.etk.context import parted
from envs.etk.languages import OTHER, Language, language_of
from envs.json_lines import Row
from envs.local_models import cache_dir, cache_folder
from envs.task import TaskError

HUB = "xinshuo/ET_code_with_context"
NEEDED = ("thorn_name", "src_filename", "src_code", "context", "interface", "schedule", "param", "configuration")
COLUMNS = (*NEEDED, "context_filenames", "url", "language")
SOURCES = ("nrpy", "hub", "path")
EXAMPLES = ("carpet_wavetoy_thorns", "carpetx_wavetoy_thorns")
"""Examples of nrpy: a wave equation's three thorns in C, and in C++."""
NRPY_SECONDS = 300.0
NRPY_URL = "https://github.com/nrpy/nrpy"


@dataclass(frozen=True)
class SourceFile:
    """One row. files: names and texts of its thorn's other files. context: the beginning of the row's `context`."""

    thorn: str
    name: str
    text: str
    interface: str
    schedule: str
    param: str
    configuration: str
    files: tuple[tuple[str, str], ...]
    context: str

    @property
    def language(self) -> Language:
        return language_of(self.name) or OTHER

    @property
    def arrangement(self) -> str:
        return self.thorn.split("/", 1)[0]


def dataset(source: str, path: str | None) -> Iterator[Row]:
    """The rows of one of SOURCES; `path` belongs to "path" alone. Raises TaskError."""
    if source not in SOURCES:
        raise TaskError(f"task.env.source={source}: one of {', '.join(SOURCES)}")
    if (path is not None) != (source == "path"):
        raise TaskError("task.env.path belongs to task.env.source=path alone: set both or neither")
    if path is not None:
        return file_rows(data_files(Path(path), "task.env.path"), COLUMNS)
    if source == "hub":
        return hub_rows(HUB, None, "train", COLUMNS)
    checkouts = Checkouts([nrpy_thorns()], url=NRPY_URL)
    return (row for thorn in checkouts.thorns for row in checkouts.rows(thorn))


def source_files(rows: Iterable[Row], context_chars: int, dropped: Counter[str]) -> Iterator[SourceFile]:
    """Rows as source files; rows without code or name are counted in `dropped`.

    Args:
        context_chars: number of characters of `context` to keep; its files are kept whole, each text once for all rows.

    Raises:
        TaskError: a row lacks a column.
    """
    texts: dict[str, str] = {}
    for row in rows:
        if missing := [name for name in NEEDED if name not in row]:
            raise TaskError(f"rows of task=etk need the column {missing[0]}: make them with python -m envs.etk build")
        values = {name: row[name] if isinstance(row[name], str) else "" for name in NEEDED}
        if not values["src_code"].strip():
            dropped["no code"] += 1
        elif not values["thorn_name"] or not values["src_filename"]:
            dropped["no name"] += 1
        else:
            files = ((name, texts.setdefault(text, text)) for name, text in parted(values["context"]))
            declared = {name: texts.setdefault(values[name], values[name]) for name in NEEDED[4:]}
            yield SourceFile(
                thorn=values["thorn_name"],
                name=values["src_filename"],
                text=texts.setdefault(values["src_code"], values["src_code"]),
                files=tuple(files),
                context=values["context"][:context_chars],
                **declared,
            )


def nrpy_thorns() -> Path:
    """A folder with the thorns that nrpy's examples write, created once (3 s) and stored in the cache.

    Raises TaskError if the package is missing or fails.
    """
    try:
        version = importlib.metadata.version("nrpy")
    except importlib.metadata.PackageNotFoundError:
        raise TaskError(
            "task=etk writes its thorns with the package nrpy, and it is missing: pip install 'codegrain[etk]', or "
            "set task.env.source=hub or path"
        ) from None
    folder = cache_dir() / f"nrpy-{version}" / "NRPy"  # its name becomes that of the arrangement (R1)
    if folder.is_dir():
        return folder
    staging = Path(tempfile.mkdtemp(prefix=".thorns-", dir=cache_folder(folder.parent.name)))
    try:
        for example in EXAMPLES:
            _run_example(example, staging)
        try:
            os.replace(staging / "project" / "et_wavetoy", folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    except OSError as error:
        raise TaskError(f"nrpy {version} wrote no thorns: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _run_example(example: str, folder: Path) -> None:
    """Run an example in a process of its own, because nrpy keeps its state in its modules.

    It needs clang-format, which pip installs next to the interpreter, and gets a cache of its own, because two
    processes would write to the user's cache at the same time.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"nrpy.examples.{example}"],
            cwd=folder,
            env={**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache")},
            capture_output=True,
            text=True,
            timeout=NRPY_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise TaskError(f"nrpy.examples.{example} took more than {NRPY_SECONDS:g} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).split("\n")[-1][:200]
        raise TaskError(f"nrpy.examples.{example} failed: {last} (it needs clang-format: pip install clang-format)")
