"""Converts Cactus checkouts to rows, one for each source file of each thorn.

The rules are numbered R1 to R14; a number in brackets stands where a rule is followed.

A row has the columns of the public dataset (thorn_name, src_filename, context, interface, schedule, param,
configuration, src_code, context_filenames, url) and language.
"""

from __future__ import annotations

import functools
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envs.etk.context import joined
from envs.etk.languages import NAMES, SOURCES, Language, hidden, language_of, leftover
from envs.etk.thorns import DECLARATIONS, Thorn, find_thorns
from envs.task import TaskError

Row = dict[str, str]
TOOL = r"(?:kranc|nrpy\+?|maple|mathematica|sympy|python|perl|flex|bison|gnu bison|f2c|autoconf|protoc|swig)"
SCRIPT = r"(?:(?:the |a )?(?:\w+ )?(?:script|generator)\b|\w+\.(?:py|pl|m|sh|nb)\b)"
GENERATED = re.compile(
    r"\b(?:auto(?:matically)?|machine)[- ]?(?:generated|produced|created|written)\b|\bgenerated automatically\b"
    r"|\bis an? (?:\w+[- ])?generated (?:file|header|source)\b"
    r"|\b(?:file|code|thorn|header|source|routine|parser|scanner|program) (?:was |is |has been )?(?:\w+ly )?"
    rf"(?:generated|produced|created) (?:by|with|from|using) (?:the )?(?:{TOOL}|{SCRIPT})"
    rf"|\bgenerated (?:by|with|from|using) (?:{TOOL}|{SCRIPT})|\b{TOOL}-generated\b"
    r"|\bmade by gnu bison\b"
    r"|^#[ \t]*ifndef KRANC_DIFF_FUNCTIONS\s+#[ \t]*define PD"  # Kranc's Differencing.h says no more about itself
    r"|\bdo(?: not|n't) (?:edit|modify)(?: (?:this|the) (?:file|code|header|source)| it\b| by hand| manually| directly"
    r"|[ \t]*(?:[^\w\s]|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""R14: marks that generators write at the head of a file."""
HEAD_CHARS = 3000
"""Number of characters in which GENERATED is searched."""
REMOTE = re.compile(r'^\[remote "origin"\][^\[]*?^\s*url\s*=\s*(\S+)', re.MULTILINE)


class Filters:
    """Optional filters of files (R13, R14), all off by default. One object filters one dataset, since it stores texts.

    Args:
        max_src_chars, min_src_chars: allowed lengths of a file, both included.
        languages: allowed languages, of NAMES.
        drop_generated: True removes files with a generator's mark.
        drop_duplicates: True removes a file whose text an earlier thorn has.

    Raises:
        TaskError: an unknown language, or lengths that no file can have.
    """

    def __init__(
        self,
        max_src_chars: int | None = None,
        min_src_chars: int | None = None,
        languages: Sequence[str] | None = None,
        drop_generated: bool = False,
        drop_duplicates: bool = False,
    ):
        for language in languages or ():
            if language not in NAMES:
                raise TaskError(f"unknown language {language}: one of {', '.join(NAMES)}")
        if not 0 <= (min_src_chars or 0) <= (math.inf if max_src_chars is None else max_src_chars):
            raise TaskError(f"min_src_chars={min_src_chars}, max_src_chars={max_src_chars}: 0 <= min <= max")
        self.max_src_chars, self.min_src_chars, self.languages = max_src_chars, min_src_chars, languages
        self.drop_generated, self.drop_duplicates = drop_generated, drop_duplicates
        self._first: dict[int, str] = {}

    @property
    def on(self) -> dict[str, object]:
        """The active filters by name."""
        return {k: v for k, v in vars(self).items() if not k.startswith("_") and v is not None and v is not False}

    def reason(self, thorn: str, language: str | None, text: str) -> str | None:
        """Why a file is removed, None if it stays. language: None for a file that is wanted whatever its language."""
        if self.max_src_chars is not None and len(text) > self.max_src_chars:
            return "longer than max_src_chars"
        if self.min_src_chars is not None and len(text) < self.min_src_chars:
            return "shorter than min_src_chars"
        if self.languages is not None and language is not None and language not in self.languages:
            return "of another language"
        if self.drop_generated and GENERATED.search(text[:HEAD_CHARS]):
            return "generated"
        if self.drop_duplicates and self._first.setdefault(hash(text), thorn) != thorn:
            return "duplicate of another thorn's"
        return None


class Checkouts:
    """The rows of some checkouts, thorn by thorn.

    Args:
        names, arrangement: see find_thorns.
        filters: remove files; None for no filters. A removed file is in no context either (R12).
        url: url of every row; None for that of the thorn's repository.
        sources: names of sources, see languages.SOURCES.
        beside: "ccl", "par" or both: also rows for declarations, and for parameter files in par/ and test/, whatever
            languages the filters allow. They are no context of other files, and a declaration's own row does not
            show it.

    Attributes:
        thorns: thorns with a `src` folder, in order.
        absent: listed names that no checkout has.
        skipped: number of files and folders without a row, by reason; complete after all rows have been read.

    Raises:
        TaskError: a checkout is not a folder, or no checkout has a thorn.
    """

    def __init__(
        self,
        checkouts: Sequence[Path],
        names: Sequence[str] | None = None,
        arrangement: str | None = None,
        filters: Filters | None = None,
        url: str | None = None,
        sources: Mapping[str, Language] = SOURCES,
        beside: Sequence[str] = (),
    ):
        thorns = find_thorns(checkouts, names, arrangement)
        if not thorns.found:
            folders = ", ".join(map(str, checkouts))
            missing = f", {len(thorns.absent)} of the list are absent" if thorns.absent else ""
            raise TaskError(f"no thorn in {folders}: no folder has interface.ccl, schedule.ccl and param.ccl{missing}")
        self.absent, self.skipped = thorns.absent, thorns.skipped
        self.filters, self.url, self.sources, self.beside = filters or Filters(), url, sources, beside
        self._files = self._claimed({thorn: self._listing(thorn) for thorn in thorns.found})
        self.thorns = list(self._files)

    def rows(self, thorn: Thorn) -> Iterator[Row]:
        """The rows of one thorn, by path (R8). Raises OSError for a declaration file that cannot be read."""
        declared = {name: _declaration(thorn.folder / f"{name}.ccl") for name in (*DECLARATIONS, "configuration")}
        url = repository_url(os.path.realpath(thorn.folder)) if self.url is None else self.url
        files = [(name, text) for name, path in self._files[thorn] if (text := self._text(thorn, name, path))]
        beside = [*self._beside(thorn, declared)]
        for name, text in [*files, *beside]:
            # R12: neither the file itself nor a file with the same text
            others = [(other, other_text) for other, other_text in files if other != name and other_text != text]
            language = language_of(name, self.sources) or language_of(name)
            assert language is not None  # the listing has nothing else
            yield {
                "thorn_name": thorn.name,
                "url": url,
                "src_filename": name,  # R2
                **{each: "" if name == f"{each}.ccl" else text for each, text in declared.items()},
                "src_code": text,
                "context_filenames": "".join(f"{other}\n" for other, _ in others),
                "context": joined(others),
                "language": language.name,
            }

    def _beside(self, thorn: Thorn, declared: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Names and texts of the wanted files beside `src`, by path in the thorn."""
        files = {f"{name}.ccl": text for name, text in declared.items()} if "ccl" in self.beside else {}
        if "par" in self.beside:
            paths = [path for folder in ("par", "test") for path in (thorn.folder / folder).glob("*.par")]
            files |= {f"{path.parent.name}/{path.name}": decoded(path.read_bytes()) for path in paths if path.is_file()}
        for name, text in sorted(files.items()):
            if not text.strip():
                continue
            if reason := self.filters.reason(str(thorn.folder), None, text):
                self.skipped[reason] += 1
            else:
                yield name, text

    def _listing(self, thorn: Thorn) -> list[tuple[str, Path]] | None:
        """Names (relative to `src`, R2) and paths of a thorn's sources, sorted (R8); None without `src` (R5)."""
        src = thorn.folder / "src"
        if not src.is_dir() or src.is_symlink():
            self.skipped["thorn whose src is a link" if src.is_dir() else "thorn without src"] += 1
            return None
        sources = []
        for folder, folders, files in os.walk(src):
            for name in folders:
                if hidden(name):
                    self.skipped["hidden or version control's"] += 1
                elif os.path.islink(os.path.join(folder, name)):
                    self.skipped["link to a folder"] += 1
            folders[:] = [name for name in folders if not hidden(name)]
            for name in files:
                path = Path(folder, name)
                if reason := self._unwanted(path):
                    self.skipped[reason] += 1
                else:
                    # a name that is not UTF-8 is decoded like a text
                    sources.append((decoded(os.fsencode(path.relative_to(src).as_posix())), path))
        return sorted(sources)

    def _unwanted(self, path: Path) -> str | None:
        if hidden(path.name):  # R9
            return "hidden or version control's"
        if leftover(path.name):
            return "editor or backup file"
        if language_of(path.name, self.sources) is None:  # R10
            return "no source by its name"
        if not path.exists():
            return "dangling link"
        return None if stat.S_ISREG(path.stat().st_mode) else "no plain file"

    def _claimed(self, listings: Mapping[Thorn, list[tuple[str, Path]] | None]) -> dict[Thorn, list[tuple[str, Path]]]:
        """Every real file once; of a file and links to it, the file (R6)."""
        paths = [(path.is_symlink(), path) for files in listings.values() for _, path in files or ()]
        owners: dict[str, Path] = {}
        for _, path in sorted(paths, key=lambda entry: entry[0]):
            if owners.setdefault(os.path.realpath(path), path) != path:
                self.skipped["the same file as another row's"] += 1
        kept = set(owners.values())
        return {
            thorn: [(name, path) for name, path in files if path in kept]
            for thorn, files in listings.items()
            if files is not None
        }

    def _text(self, thorn: Thorn, name: str, path: Path) -> str | None:
        try:
            data = path.read_bytes()
        except OSError:
            self.skipped["unreadable"] += 1
            return None
        text = decoded(data)
        if b"\0" in data:  # R9
            reason: str | None = "binary"
        elif not text.strip():
            reason = "blank"
        else:
            language = language_of(name, self.sources)
            reason = self.filters.reason(str(thorn.folder), language.name if language else "", text)
        if reason:
            self.skipped[reason] += 1
        return None if reason else text


def decoded(data: bytes) -> str:
    """R11: UTF-8, otherwise Latin-1; line ends are unchanged."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _declaration(path: Path) -> str:
    """R3: the text of a declaration file, empty if there is none."""
    return decoded(path.read_bytes()) if path.is_file() else ""


@functools.lru_cache(maxsize=4096)
def repository_url(folder: str) -> str:
    """The remote url of the git repository that contains a folder, without user and password; empty if unknown."""
    git = Path(folder, ".git")
    if not git.exists():
        parent = os.path.dirname(folder)
        return "" if parent == folder else repository_url(parent)
    try:
        if git.is_file():  # of a submodule or a work tree: "gitdir: PATH"
            git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        remote = REMOTE.search((git / "config").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""
    return re.sub(r"(?<=://)[^/@]*@", "", remote[1]) if remote else ""
