"""The description of a user's own application, as far as its folder tells: a TOML file to complete by hand."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from envs.etk.build.compare import ApplicationError
from envs.etk.build.formats import FORMATS
from envs.etk.build.outputs import Folder
from envs.etk.build.plotfile import PlotfileError

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
INPUTS = ("inputs", "inputs*", "*.par", "*.nml", "*.in", "*.inp")
KINDS = {**dict.fromkeys((".txt", ".csv", ".dat", ".asc", ".xl"), "text"), ".npy": "numpy", ".npz": "numpy"}
"""Formats of results by the ending of a file's name."""
INITIAL = re.compile(r"\D0+(?:\.\w+)?$")
"""Names of the result of an initial state."""
COMPILERS = {".cpp": "g++ -O2", ".cc": "g++ -O2", ".cxx": "g++ -O2", ".c": "gcc -O2"} | dict.fromkeys(
    (".f90", ".F90", ".f95", ".F95", ".f03", ".F03", ".f08", ".F08", ".f", ".F", ".for", ".FOR"), "gfortran -O2"
)

TEXT = """\
# How {name} is built, run and compared. Check every line; envs/etk/README.md explains them.
name = {name}
source_dir = {source_dir}
cases = {cases}            # python -m envs.etk.completion propose --application THIS_FILE -o {cases}
format = {format}                # of the results: amrex, text or numpy
field = {field}                  # {fields}

[build]
command = {build}
artifact = {artifact}            # the program that this makes
timeout = 120

[run]
command = [{run}]                # in an empty folder that holds the program and its inputs
inputs = {inputs}                # files of the source that the program reads
expect = {expect}                # results that it writes, in their order
timeout = 60                     # some ten times what a run takes: a program without end costs this much each time
# success_regex = "finished"     # the last line that the program prints; without it an early exit counts as a run
"""


def skeleton(folder: Path, target: Path) -> str:
    """The text of a TOML file that stands at `target`. Raises ApplicationError for a folder without sources."""
    if not folder.is_dir():
        raise ApplicationError(f"{folder}: no such folder")
    names = sorted(path.name for path in folder.iterdir())
    program = _program(folder) or "app.ex"
    kind, field, fields, expect = _results(folder)
    values = {
        "name": re.sub(r"[^\w.+-]", "_", folder.resolve().name),
        "source_dir": os.path.relpath(folder, target.parent),
        "cases": f"{target.stem}_cases.jsonl",
        "format": kind,
        "field": field,
        "build": _build(names, program),
        "artifact": program,
        "run": f"./{program}",
        "inputs": sorted({path.name for pattern in INPUTS for path in folder.glob(pattern) if path.is_file()}),
        "expect": expect,
    }
    text = TEXT.format_map({name: json.dumps(value) for name, value in values.items()} | {"fields": fields})
    return text.replace(f'-o "{values["cases"]}"', f"-o {values['cases']}")


def guessed(folder: Path) -> str:
    """What the description names without having found it in the folder; empty if all is there."""
    _, _, _, expect = _results(folder)
    missing = [] if _program(folder) else ["no program (artifact = app.ex)"]
    if not any((folder / name).exists() for name in expect):
        missing.append(f"no result of a run (expect = {expect[0]})")
    elif all(INITIAL.search(name) for name in expect):
        missing.append(f"no result but the initial state, {expect[0]}")
    where = f"directly in {folder}: build and run it there first, or correct these lines"
    return f"{' and '.join(missing)} {where}" if missing else ""


def _program(folder: Path) -> str | None:
    """The newest executable of the folder."""
    programs = [path for path in folder.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    binary = [path for path in programs if path.read_bytes()[:4] == b"\x7fELF"]
    return max(binary, key=lambda path: path.stat().st_mtime).name if binary else None


def _build(names: list[str], program: str) -> str:
    if any(name in MAKEFILES for name in names):
        return "make"
    if "CMakeLists.txt" in names:
        return "cmake -S . -B build && cmake --build build"
    for suffix, compiler in COMPILERS.items():
        if sources := [name for name in names if name.endswith(suffix)]:
            return f"{compiler} -o {program} {' '.join(sources)}"
    raise ApplicationError("no Makefile, CMakeLists.txt or source in C, C++ or Fortran in the folder")


def _results(folder: Path) -> tuple[str, str, str, list[str]]:
    """(format, field, remark, names of the results) of what an earlier run has left in the folder."""
    outputs = Folder(folder)
    found: dict[str, list[str]] = {"amrex": [], "numpy": [], "text": []}
    fields: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        kind = "amrex" if path.is_dir() else KINDS.get(path.suffix)
        if kind is None:
            continue
        try:
            fields[kind] = list(FORMATS[kind].read(outputs, path.name).names)
            found[kind].append(path.name)
        except (FileNotFoundError, PlotfileError):
            continue
    for kind, names in found.items():
        if names:
            later = [name for name in names if not INITIAL.search(name)] or names
            known = fields[kind]
            named = [name for name in known if not name.isdigit()] or known
            return kind, named[-1], f"one of {', '.join(known)}"[:200], later
    return "text", "1", "a column by name or number; after a run of the program it is found here", ["out.txt"]
