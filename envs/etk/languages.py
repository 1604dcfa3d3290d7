"""Files below a thorn's `src`: their language by name (R10), and names that are not sources (R9)."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envs.task import TaskError


@dataclass(frozen=True)
class Language:
    """
    name: "c", "c++", "fortran", "make", "ccl" or "par": the language of the file's comments and tokens.
    spoken: the name of the language in prompts.
    tag: the text after the three backquotes of a fenced block.
    """

    name: str
    spoken: str
    tag: str


C = Language("c", "C", "c")
CXX = Language("c++", "C++", "cpp")
CUDA = Language("c++", "CUDA C++", "cuda")
C_HEADER = Language("c", "C header", "c")
CXX_HEADER = Language("c++", "C++ header", "cpp")
FIXED_CPP = Language("fortran", "fixed-form Fortran with preprocessor directives", "fortran")
FREE_CPP = Language("fortran", "free-form Fortran with preprocessor directives", "fortran")
FIXED = Language("fortran", "fixed-form Fortran", "fortran")
FREE = Language("fortran", "free-form Fortran", "fortran")
INCLUDE = Language("fortran", "Fortran include file", "fortran")
MAKE = Language("make", "make fragment", "make")
CCL = Language("ccl", "Cactus declaration (CCL)", "")
PAR = Language("par", "Cactus parameter", "")
FIXED_FORM = (FIXED, FIXED_CPP)
OTHER = Language("c++", "source", "")
"""For rows of a dataset that selected its files by other rules."""
NAMES = ("c", "c++", "fortran", "make", "ccl", "par")

SOURCES: Mapping[str, Language] = {
    ".c": C,
    ".cc": CXX,
    ".cpp": CXX,
    ".cxx": CXX,
    ".C": CXX,
    ".cu": CUDA,
    ".h": C_HEADER,
    ".hh": CXX_HEADER,
    ".hpp": CXX_HEADER,
    ".hxx": CXX_HEADER,
    ".H": CXX_HEADER,
    ".F": FIXED_CPP,
    ".F77": FIXED_CPP,
    ".F90": FREE_CPP,
    ".f": FIXED,
    ".f77": FIXED,
    ".f90": FREE,
    ".inc": INCLUDE,
    "make.code.defn": MAKE,
    "make.code.deps": MAKE,
    "make.configuration.defn": MAKE,
    "make.configuration.deps": MAKE,
}
"""R10: extensions and whole names of sources, case-sensitive."""
BESIDE_SOURCES: Mapping[str, Language] = {
    ".ccl": CCL,
    ".par": PAR,
    **dict.fromkeys((".f95", ".f03", ".f08"), FREE),
    **dict.fromkeys((".F95", ".F03", ".F08"), FREE_CPP),
    ".for": FIXED,
    ".FOR": FIXED_CPP,
}
"""Files that are no sources of a thorn (R10): declarations and parameter files beside its `src`, and the endings of
Fortran that other codes use."""
HEADERS = frozenset({".h", ".hh", ".hpp", ".hxx", ".H"})
LEFTOVERS = (
    "*~", "*#", "*.swp", "*.swo", "*.swn", "*.bak", "*.BAK", "*.back", "*.backup", "*.old", "*.orig", "*.rej", "*.save",
    "*.sav", "*.tmp", "*.temp", "*.copy", "*.mine", "*_old", "*_OLD", "*_orig", "*_bak", "*_backup", "*_save",
)  # fmt: skip
"""R9: files of editors and version control, and manual backups."""
VERSION_CONTROL = frozenset({"CVS", "RCS", "SCCS", "_darcs", "{arch}"})
"""R9: names of version control that do not begin with a dot."""


def language_of(filename: str, sources: Mapping[str, Language] | None = None) -> Language | None:
    """The language of a file by its name, None if it has none of `sources` (R10), or of all known names."""
    path = PurePosixPath(filename)
    known = {**BESIDE_SOURCES, **SOURCES} if sources is None else sources
    return known.get(path.name) or known.get(path.suffix)


def changed_sources(changes: Sequence[str]) -> dict[str, Language]:
    """SOURCES with changes: ".cl=.c" treats .cl files like .c files, ".inc=" excludes .inc files.

    Raises TaskError for a change of another form.
    """
    sources = dict(SOURCES)
    for change in changes:
        name, equals, model = change.partition("=")
        if not equals or model not in ("", *SOURCES):
            raise TaskError(f"unknown source {change}: use NAME=LIKE, LIKE empty or one of {', '.join(SOURCES)}")
        sources.pop(name, None)
        if model:
            sources[name] = SOURCES[model]
    return sources


def hidden(name: str) -> bool:
    """Whether a file or folder is hidden or belongs to version control (R9)."""
    return name.startswith(".") or name in VERSION_CONTROL


def leftover(name: str) -> bool:
    """Whether a file is a backup or an editor's own file (R9)."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFTOVERS)
