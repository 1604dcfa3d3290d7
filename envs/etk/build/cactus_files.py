"""The files of a Cactus tree that one compilation needs: those that a text includes, as the compiler would find them.

Files that could give away the reference stay behind: the file itself, files with its text, and what was made of it.
"""

from __future__ import annotations

import functools
import io
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from envs.etk.build.cactus_config import RULES, SYSTEM, Configuration, carried
from envs.etk.languages import HEADERS

INCLUDE = re.compile(r"^[ \t]*#?[ \t]*include[ \t]*[<\"']([^>\"'\n]+)[>\"']", re.MULTILINE | re.IGNORECASE)
MODULE = re.compile(r"^[ \t]*module[ \t]+(\w+)[ \t]*$", re.MULTILINE | re.IGNORECASE)
MADE = re.compile(r"configs/[^/]+/(?:build|piraha|lib|scratch/(?!external/))")
"""Files that a build made of sources, which they may contain; external libraries are built in scratch/external."""
FORTRAN = (".F77", ".f77", ".F", ".f", ".F90", ".f90")
Text = tuple[str, str]
"""The path of a file in the tree and its text."""


class Files:
    """Reads the tree of a configuration; what it has read stays in memory."""

    def __init__(self, configuration: Configuration):
        self.root, self.configuration = configuration.root, configuration
        self._exists = functools.lru_cache(1_000_000)(self._is_file)
        self._included = functools.lru_cache(100_000)(self._read_included)
        self._sources = functools.lru_cache(1024)(self._read_sources)

    def path(self, name: str) -> Path:
        """Where a file lies; `name` is relative to the tree, or absolute outside of it."""
        return self.root / name

    def text(self, name: str) -> str:
        return self.path(name).read_text(encoding="latin-1")

    def needed(self, texts: Sequence[Text], folders: Sequence[str], target: str) -> tuple[str, ...]:
        """Files that the texts include, directly or indirectly, without `target`. folders: see `searched`."""
        needed: set[str] = set()
        waiting = [(path, name) for path, text in texts for name in INCLUDE.findall(text)]
        seen = set(waiting)
        while waiting:
            path = self._found(*waiting.pop(), folders)
            if path is not None and path not in needed and path != target:
                needed.add(path)
                new = {(path, name) for name in self._included(path)} - seen
                seen |= new
                waiting += new
        return tuple(sorted(needed))

    def _found(self, including: str, name: str, folders: Sequence[str]) -> str | None:
        """The file that `#include "name"` in the file `including` refers to."""
        for folder in (os.path.dirname(including), *folders):
            path = os.path.normpath(os.path.join(folder, name))
            outside = path.startswith("../") or path.startswith(SYSTEM) or MADE.match(path)
            inside = not path.startswith("/") or any(path.startswith(f"{top}/") for top in folders)
            if not outside and inside and self._exists(path):
                return path
        return None

    def _is_file(self, name: str) -> bool:
        return self.path(name).is_file()

    def _read_included(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(INCLUDE.findall(self.text(name))))

    def modules(self, reference: str) -> tuple[str, ...]:
        """The Fortran modules that the build made, except those of the reference."""
        own = {f"{name.lower()}.mod" for name in MODULE.findall(reference)}
        folder = self.path(f"{self.configuration.folder}/scratch")
        return tuple(p.relative_to(self.root).as_posix() for p in sorted(folder.glob("*.mod")) if p.name not in own)

    def unit(self, target: str, top: str) -> str | None:
        """The file that is compiled to check `target`: itself, or for a header a source of its thorn that includes it,
        rather one that the build has made an object of, or a new one (see `unit_text`); None: it is no such file."""
        path = PurePosixPath(target)
        if path.suffix in RULES:
            return target
        if path.suffix not in HEADERS:
            return None
        users = [user for user, names in self._sources(top).items() if path.name in names]
        stub = f"{target}.c" if path.suffix == ".h" else f"{target}.cc"
        return min(users, key=lambda user: (not self._exists(self.object_of(user, top)), user), default=stub)

    def unit_text(self, unit: str) -> str:
        """The text of a file that `unit` names."""
        header = PurePosixPath(unit).stem
        return self.text(unit) if self._exists(unit) else f'#include "cctk.h"\n#include "{header}"\n'

    def object_of(self, source: str, top: str) -> str:
        """The path of the object that Cactus makes of a source of the thorn whose sources are at `top`."""
        thorn = PurePosixPath(top).parent.name
        return f"{self.configuration.folder}/build/{thorn}/{source.removeprefix(f'{top}/')}.o"

    def _read_sources(self, top: str) -> Mapping[str, frozenset[str]]:
        """Base names of the files that each C and C++ source of a thorn includes, directly or through its headers."""
        includes = {path: {PurePosixPath(name).name for name in self._included(path)} for path in self._all(top)}
        by_name = {PurePosixPath(path).name: names for path, names in includes.items()}
        result = {}
        for path, names in includes.items():
            known, waiting = set(names), list(names)
            while waiting:
                more = by_name.get(waiting.pop(), set()) - known
                known |= more
                waiting += more
            if PurePosixPath(path).suffix in RULES:
                result[path] = frozenset(known)
        return result

    def _all(self, top: str) -> Iterator[str]:
        for folder, folders, files in os.walk(self.path(top)):
            folders.sort()
            for name in sorted(files):
                suffix = PurePosixPath(name).suffix
                if suffix in HEADERS or (suffix in RULES and suffix not in FORTRAN):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def load(self, names: Sequence[str]) -> tuple[int, int]:
        """Number of files and folders, and their size in MiB."""
        folders = {folder for name in names for folder in PurePosixPath(carried(name)).parents}
        return len(names) + len(folders), sum(self.path(name).stat().st_size for name in names) >> 20

    def archive(self, names: Sequence[str], texts: Mapping[str, bytes], reference: str) -> bytes:
        """A tar of the files and of `texts` by path. A file with the reference's text is left out."""
        contents = {carried(name): self.path(name).read_bytes() for name in names}
        copies = {reference.encode(), reference.encode("latin-1", "replace")}
        contents = {name: data for name, data in contents.items() if data not in copies}
        contents |= texts
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for folder in sorted({str(folder) for name in contents for folder in PurePosixPath(name).parents} - {"."}):
                member = tarfile.TarInfo(folder)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            for name, data in sorted(contents.items()):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o644
                archive.addfile(member, io.BytesIO(data))
        return buffer.getvalue()
