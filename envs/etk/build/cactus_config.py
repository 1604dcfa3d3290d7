"""A configuration of a Cactus tree: how its own make rules compile one file of a thorn, and which folders they search.

Cactus writes the compilers, their flags and the rules to configs/NAME/config-data, and what a thorn needs of others to
configs/NAME/bindings/Configuration. Here a short makefile reads these files as Cactus's own makefiles do, for a single
object, so that nobody has to copy flags.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from envs.task import TaskError

CHECKED = "checked"
"""The folder of a job in which the object is made."""
MAKEFILE = "checked.mk"
RULES = (".c", ".cc", ".C", ".cpp", ".cxx", ".cu", ".F77", ".f77", ".F", ".f", ".F90", ".f90")
"""Suffixes of the files that Cactus's rules compile."""
FOLDERS = "include folders:"
"""What `make` prints before the folders of a thorn's headers."""
PATH = re.compile(r"(/[^\s:;=\"'$()]*)/configs/[^\s/]+/")
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/bin/")
"""Folders that every sandbox has at the same place."""
TEMPLATE = """\
CCTK_HOME := $(patsubst %/,%,$(dir $(CURDIR)))
TOP := $(CCTK_HOME)/configs/{configuration}
CONFIG := $(TOP)/config-data
BINDINGS_DIR := $(TOP)/bindings
MAKE_DIR := $(CCTK_HOME)/lib/make
THORN := {thorn}
export SCRATCH_BUILD := $(TOP)/scratch
SRCDIR := $(CCTK_HOME)/{top}
include $(CONFIG)/make.config.defn
INC_DIRS :=
-include $(BINDINGS_DIR)/Configuration/Thorns/make.$(THORN).defn
INC_DIRS += $(SYS_INC_DIRS) $(SRCDIR) $(wildcard $(SRCDIR)/include) $(CONFIG) $(BINDINGS_DIR)/include \\
  $(CCTK_HOME)/src/include $(CCTK_HOME)/arrangements $(BINDINGS_DIR)/Configuration/Thorns \\
  $(BINDINGS_DIR)/include/$(THORN)
-include $(SRCDIR)/make.code.defn
SRCDIR := $(CCTK_HOME)/{folder}
INC_DIRS += $(SRCDIR) $(wildcard $(SRCDIR)/include)
-include $(SRCDIR)/make.code.defn
-include $(BINDINGS_DIR)/Configuration/$(THORN)/make.configuration.defn
INC_DIRS_F = $(INC_DIRS)
{folders}
include $(CONFIG)/make.config.rules
-include $(SRCDIR)/make.code.deps
.PHONY: print-folders
print-folders:
\t@:$(info {label} $(CCTK_HOME) $(INC_DIRS))
"""


@dataclass(frozen=True)
class Place:
    """Where a file is compiled. thorn: name without the arrangement. top: the thorn's `src`. folder: of the file."""

    thorn: str
    top: str
    folder: str


@dataclass(frozen=True)
class Configuration:
    """A configuration of the tree at `root`. Raises TaskError if there is none, or several and none is named."""

    root: Path
    name: str

    @classmethod
    def of(cls, root: Path, name: str | None) -> Configuration:
        names = sorted(path.parents[1].name for path in root.glob("configs/*/config-data/make.config.defn"))
        setting = f"task.reward.compile.configuration={name}"
        if not names:
            raise TaskError(
                f"task.reward.compile.workdir={root}: it has no configs/*/config-data/make.config.defn; configure the "
                "tree with Cactus's `make NAME-config` and build it with `make NAME`"
            )
        if name is None and len(names) > 1:
            raise TaskError(f"{setting}: the tree has {', '.join(names)}; name one of them")
        if name is not None and name not in names:
            raise TaskError(f"{setting}: the tree has {', '.join(names)}")
        return cls(root, name or names[0])

    @property
    def folder(self) -> str:
        return f"configs/{self.name}"

    def makefile(self, place: Place, folders: tuple[str, ...] | None) -> str:
        """The makefile of one object. folders: see `searched`; None: as the configuration has them."""
        where = " ".join(map(_in_copy, folders or ()))
        lines = "" if folders is None else f"override INC_DIRS := {where}\noverride INC_DIRS_F := {where}"
        return TEMPLATE.format(
            configuration=self.name, thorn=place.thorn, top=place.top, folder=place.folder, folders=lines, label=FOLDERS
        )

    def fragments(self, place: Place) -> dict[str, bytes]:
        """The makefiles and scripts that the makefile reads, by path; paths of the tree in them are made its own."""
        bindings = f"{self.folder}/bindings/Configuration"
        patterns = (
            f"{self.folder}/config-data/*", f"{bindings}/make.link", f"{bindings}/Thorns/make.{place.thorn}.defn",
            f"{bindings}/Capabilities/make.*.defn", f"{bindings}/{place.thorn}/make.configuration.defn",
            "lib/sbin/*.pl",
            *(f"{folder}/make.code.de{end}" for folder in {place.top, place.folder} for end in ("fn", "ps")),
        )  # fmt: skip
        files = {}
        for pattern in patterns:
            for path in sorted(self.root.glob(pattern)):
                if path.is_file():
                    name = path.relative_to(self.root).as_posix()
                    files[name] = self._moved(path.read_bytes()) if path.name.startswith("make.") else path.read_bytes()
        for folder in {place.top, place.folder}:
            if (self.root / folder / "include").is_dir():
                files[f"{folder}/include/.here"] = b""
        return files

    def _moved(self, text: bytes) -> bytes:
        """Paths of the tree, where it was configured and where it is now, become those of a copy."""
        plain = text.decode("utf-8", "surrogateescape")
        roots = {str(self.root), os.path.realpath(self.root), *PATH.findall(plain)} - {""}
        for root in sorted(roots, key=len, reverse=True):
            plain = re.sub(rf"{re.escape(root)}(?=[/\s\"']|$)", "$(CCTK_HOME)", plain, flags=re.MULTILINE)
        return plain.encode("utf-8", "surrogateescape")


def searched(output: str) -> tuple[str, ...]:
    """The folders of a thorn's headers in order, from what `make print-folders` printed: relative to the tree, or
    absolute outside of it."""
    line = next((line for line in output.splitlines() if line.startswith(FOLDERS)), FOLDERS)
    home, *names = line.removeprefix(FOLDERS).split() or [""]
    folders = dict.fromkeys(os.path.normpath(name) for name in names)
    return tuple(os.path.relpath(name, home) if f"{name}/".startswith(f"{home}/") else name for name in folders)


def _in_copy(folder: str) -> str:
    return folder if folder.startswith(SYSTEM) else f"$(CCTK_HOME)/{carried(folder)}"


def carried(path: str) -> str:
    """Where a job has a file or folder: files outside of the tree get a folder of their own."""
    return f"outside{path}" if path.startswith("/") else path


def place_of(thorn: str, file: str) -> Place:
    """The place of a file below `src` of "ARRANGEMENT/NAME"."""
    top = f"arrangements/{thorn}/src"
    return Place(thorn.partition("/")[2], top, str(PurePosixPath(top, file).parent))
