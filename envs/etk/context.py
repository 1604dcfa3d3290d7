"""Files of a thorn as one text: a row's `context` (R12), the files in it again, and the part of them that a prompt has
room for."""

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
"""Before the next header, whole or cut, or the end."""
CUT_FOOTER = re.compile(r"\n`{0,3}\Z")
FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)
SHARE = 0.25
"""Of the room for the context: what one file may always have."""
LEAST = 0.02
"""Of the room: less of a file is not worth its name and fences."""
CHARS_A_TOKEN = 8
"""More than a token of code has: that many characters are enough for a cut to tokens."""


def joined(files: Files) -> str:
    """R12: each file's name, colon, line end, its text in a fenced block, blank line."""
    return "".join(f"{name}:\n```\n{text}\n```\n\n" for name, text in files)


def parted(context: str) -> list[tuple[str, str]]:
    """The files of a context that `joined` or its like made; the last may be cut. A text of another form is one file
    without a name."""
    files = []
    position = 0
    while found := HEADER.match(context, position):
        end = FOOTER.search(context, found.end() - 1)
        if end is None:  # cut within this file, or within its closing fence
            files.append((found[1], CUT_FOOTER.sub("", context[found.end() :])))
            return files
        files.append((found[1], context[found.end() : end.start()]))
        position = end.end()
    rest = context[position:]
    if rest.strip() and not files:
        files.append(("", rest))
    return files


def fenced(text: str, tag: str = "") -> str:
    """A block that closes, whatever fences the text has."""
    fence = "`" * max([3, *(len(found[1]) + 1 for found in FENCE.finditer(text))])
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{tag}\n{text}{end}{fence}"


def block(name: str, text: str) -> str:
    """A file of the context, its name before it."""
    language = language_of(name)
    return f"{name or 'Further code'}:\n{fenced(text, language.tag if language else '')}\n\n"


def cut(text: str, limit: int, count: Count = len) -> str:
    """The longest beginning within `limit`; by another count than of characters it may be shorter by 2 %."""
    if count is len or limit <= 0:
        return text[: max(limit, 0)]
    fits, exceeds, tried = 0, len(text) + 1, min(len(text), 3 * limit)  # code has about 3 characters to the token
    while True:
        if count(text[:tried]) <= limit:
            fits = tried
        else:
            exceeds = tried
        if exceeds - fits <= 1 + fits // 50:
            return text[:fits]
        tried = (fits + exceeds) // 2 if exceeds <= len(text) else min(len(text), 2 * fits)


def useful_first(files: Files) -> list[tuple[str, str]]:
    """Headers and make.code.defn, then the shortest files: what is cut off matters least."""

    def rank(file: tuple[str, str]) -> tuple[bool, int, str]:
        path = PurePosixPath(file[0])
        return path.suffix not in HEADERS and path.name != "make.code.defn", len(file[1]), file[0]

    return sorted(files, key=rank)


@dataclass(frozen=True)
class Piece:
    """A file as a block of a context. `frame`: what its name and fences take of its `size`."""

    name: str
    text: str
    block: str
    size: int
    frame: int


class Room:
    """Room for the files of a context.

    Args:
        limit: of all that is shown, fences and names included.
        count: what the limit counts.
    """

    def __init__(self, limit: int, count: Count = len):
        self.limit, self.count = limit, count
        # a thorn's files come again in each of its rows
        self._piece = functools.lru_cache(1024)(self._measured)
        self._beginning = functools.lru_cache(1024)(self._cut)

    def fitted(self, files: Files) -> str:
        """The chosen files in blocks, every fence closed."""
        return "".join(piece.block for piece in self.chosen(files))

    def chosen(self, files: Files) -> list[Piece]:
        """What is shown, in the files' order.

        A file longer than its share is cut at a line's end; one that a few lines have no room of is left out. The share
        is SHARE of the limit, or more where the other files leave more.
        """
        pieces = [self._piece(name, text) for name, text in files]
        share = self._share([piece.size for piece in pieces])
        shown = []
        room = self.limit
        for piece in pieces:
            space = min(share, room)
            if piece.size > space:
                if space - piece.frame < self.limit * LEAST:
                    continue
                piece = self._beginning(piece, space)
            if piece.text and piece.size <= room:  # counts of tokens do not add up exactly
                shown.append(piece)
                room -= piece.size
        return shown

    def _measured(self, name: str, text: str) -> Piece:
        most = self.limit * (1 if self.count is len else CHARS_A_TOKEN)
        found = block(name, text[:most])
        size = self.count(found)
        frame = self.count(block(name, ""))
        return Piece(name, text[:most], found, max(size, self.limit + 1) if len(text) > most else size, frame)

    def _cut(self, piece: Piece, space: int) -> Piece:
        """Its beginning, of whole lines, perhaps none."""
        beginning = cut(piece.text, space - piece.frame, self.count)
        beginning = beginning[: beginning.rfind("\n") + 1]
        found = block(piece.name, beginning)
        return Piece(piece.name, beginning, found, self.count(found), piece.frame)

    def _share(self, sizes: Sequence[int]) -> int:
        """The level at which blocks, each cut to it, fill the room; SHARE of it at least."""
        room = self.limit
        for place, size in enumerate(sorted(sizes)):
            level = room // (len(sizes) - place)
            if size > level:
                return max(level, int(SHARE * self.limit))
            room -= size
        return self.limit
