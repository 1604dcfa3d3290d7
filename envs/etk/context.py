"""The files of a thorn as one text: a row's `context` (R12), its files again, and the part that fits into a prompt."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from envs.etk.languages import HEADERS, language_of

Files = Sequence[tuple[str, str]]
"""Names and texts."""
Count = Callable[[str], int]
"""The length of a text, in characters or tokens."""
HEADER = re.compile(r"^(\S[^\n]*):\n```[^\n`]*\n", re.MULTILINE)
FOOTER = re.compile(r"\n```[ \t]*\n\s*(?=\S[^\n]*:\n```|(?:\S[^\n]*(?::\n`{0,2})?)?\Z)")
"""The end of a block: before the next header, complete or cut, or the end of the text."""
CUT_FOOTER = re.compile(r"\n`{0,3}\Z")
FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)
SHARE = 0.25
"""Share of the limit that one file may always use."""
MIN_SHARE = 0.02
"""A part of a file below this share of the limit is not shown."""
MAX_CHARS_PER_TOKEN = 8
"""Upper bound for code, so that texts can be cut to this many characters before tokens are counted."""


def joined(files: Files) -> str:
    """R12: for each file its name, a colon, a line end, its text in a fenced block, and a blank line."""
    return "".join(f"{name}:\n```\n{text}\n```\n\n" for name, text in files)


def parted(context: str) -> list[tuple[str, str]]:
    """The files of a context in the form of `joined`, whose last file may be cut. A text of another form is one file
    without a name."""
    files = []
    position = 0
    while header := HEADER.match(context, position):
        end = FOOTER.search(context, header.end() - 1)
        if end is None:  # cut within this file, or within its closing fence
            files.append((header[1], CUT_FOOTER.sub("", context[header.end() :])))
            return files
        files.append((header[1], context[header.end() : end.start()]))
        position = end.end()
    rest = context[position:]
    if rest.strip() and not files:
        files.append(("", rest))
    return files


def fenced(text: str, tag: str = "") -> str:
    """A fenced block whose fence is longer than any fence in the text."""
    fence = "`" * max([3, *(len(match[1]) + 1 for match in FENCE.finditer(text))])
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{tag}\n{text}{end}{fence}"


def block(name: str, text: str) -> str:
    """A file of the context as a fenced block after its name."""
    language = language_of(name)
    return f"{name or 'Further code'}:\n{fenced(text, language.tag if language else '')}\n\n"


def cut(text: str, limit: int, count: Count = len) -> str:
    """The longest beginning within `limit`; if `count` does not count characters, it may be up to 2 % shorter."""
    if count is len or limit <= 0:
        return text[: max(limit, 0)]
    fits, exceeds, tried = 0, len(text) + 1, min(len(text), 3 * limit)  # code has about 3 characters in a token
    while True:
        if count(text[:tried]) <= limit:
            fits = tried
        else:
            exceeds = tried
        if exceeds - fits <= 1 + fits // 50:
            return text[:fits]
        tried = (fits + exceeds) // 2 if exceeds <= len(text) else min(len(text), 2 * fits)


def useful_first(files: Files) -> list[tuple[str, str]]:
    """Headers and make.code.defn first, then files by length, so that a cut removes the least useful ones."""

    def rank(file: tuple[str, str]) -> tuple[bool, int, str]:
        path = PurePosixPath(file[0])
        return path.suffix not in HEADERS and path.name != "make.code.defn", len(file[1]), file[0]

    return sorted(files, key=rank)


@dataclass(frozen=True)
class Piece:
    """A file as a block of a context. size: length of the block. frame: length of its name and fences."""

    name: str
    text: str
    block: str
    size: int
    frame: int


class Room:
    """Selects and cuts the files of a context to a limit.

    Args:
        limit: of all shown blocks together, including names and fences.
        count: the length of a text in the limit's unit.
    """

    def __init__(self, limit: int, count: Count = len):
        self.limit, self.count = limit, count
        # a thorn's files occur in each of its rows
        self._piece = functools.lru_cache(1024)(self._measured)
        self._beginning = functools.lru_cache(1024)(self._cut)

    def fitted(self, files: Files) -> str:
        """The chosen files as blocks, every fence closed."""
        return "".join(piece.block for piece in self.chosen(files))

    def chosen(self, files: Files) -> list[Piece]:
        """The shown parts, in the order of the files.

        A file longer than its share is cut at the end of a line; it is left out if too little of it fits. The share is
        SHARE of the limit, or more if the other files leave more.
        """
        pieces = [self._piece(name, text) for name, text in files]
        share = self._share([piece.size for piece in pieces])
        shown = []
        room = self.limit
        for piece in pieces:
            space = min(share, room)
            if piece.size > space:
                if space - piece.frame < self.limit * MIN_SHARE:
                    continue
                piece = self._beginning(piece, space)
            if piece.text and piece.size <= room:  # token counts of parts do not add up exactly
                shown.append(piece)
                room -= piece.size
        return shown

    def _measured(self, name: str, text: str) -> Piece:
        most = self.limit * (1 if self.count is len else MAX_CHARS_PER_TOKEN)
        whole = block(name, text[:most])
        size = self.count(whole)
        frame = self.count(block(name, ""))
        return Piece(name, text[:most], whole, max(size, self.limit + 1) if len(text) > most else size, frame)

    def _cut(self, piece: Piece, space: int) -> Piece:
        """The beginning of a file in whole lines; it may be empty."""
        beginning = cut(piece.text, space - piece.frame, self.count)
        beginning = beginning[: beginning.rfind("\n") + 1]
        cut_block = block(piece.name, beginning)
        return Piece(piece.name, beginning, cut_block, self.count(cut_block), piece.frame)

    def _share(self, sizes: Sequence[int]) -> int:
        """The length to which each block is cut so that all together fill the limit; at least SHARE of the limit."""
        room = self.limit
        for place, size in enumerate(sorted(sizes)):
            level = room // (len(sizes) - place)
            if size > level:
                return max(level, int(SHARE * self.limit))
            room -= size
        return self.limit
