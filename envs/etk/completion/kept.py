"""What came of builds and runs, kept on disk: what was built and run once is neither built nor run again, by whatever
process. That is what a compiler's cache is for, and the program's run besides.

It lies outside the sandbox. A cache that the compiler fills itself, such as ccache's, would have to be open to what it
compiles for: a generated program could read the others' objects there, or leave one for them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

log = logging.getLogger("codegrain")
FILE = "built.sqlite"
MOST = 200_000
"""Entries; the oldest go first."""
PATIENCE = 30.0
"""Seconds to wait for another process that writes."""
AT_ONCE = 500
"""Keys of one question: SQLite takes 999 at least."""
PIECE = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/"  # comments
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|'\w|[\w.])*",  # and what is none
    re.DOTALL,
)
UNSURE = re.compile(
    r"(?:[*/]\\|\\[ \t]+)$|R\"|\?\?/|^[ \t]*#[ \t]*include[ \t]*<[^>\n]*/[/*]|COLUMN|source_location|(?i:fall.*thr)",
    re.MULTILINE,
)
"""Marks of comments in two halves, raw strings, file names like comments; what asks for columns or heeds comments."""


class Kept:
    """Plain data by key, in one file that processes share.

    A file that cannot be used costs a warning and what it would have saved, nothing else.

    Args:
        folder: where the file lies, which must be there.
    """

    def __init__(self, folder: Path) -> None:
        self.path: Path | None = folder / FILE

    def get(self, keys: Collection[str]) -> dict[str, Any]:
        """What is known of `keys`."""
        wanted = list(keys)
        found: dict[str, Any] = {}

        def look(database: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = database.execute(f"SELECT key, value FROM kept WHERE key IN ({marks})", some)
                found.update((key, json.loads(value)) for key, value in rows)

        self._in_transaction(look)
        return found

    def put(self, entries: Mapping[str, Any]) -> None:
        """Keep all of `entries`; what is there already stays as it is."""
        rows = [(key, json.dumps(value)) for key, value in entries.items()]

        def keep(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR IGNORE INTO kept (key, value) VALUES (?, ?)", rows)
            database.execute("DELETE FROM kept WHERE number <= (SELECT max(number) FROM kept) - ?", (MOST,))

        if rows:
            self._in_transaction(keep)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], None]) -> None:
        if self.path is None:
            return
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=PATIENCE)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, key TEXT UNIQUE, value TEXT)"
                )
                work(database)
        except (sqlite3.Error, ValueError) as error:
            log.warning("%s: %s; delete it, or builds are not kept from one run to the next", self.path, error)
            self.path = None


def without_comments(text: str) -> str | None:
    """C or C++ without comments, on the same lines: files that are equal so give equal programs, whatever the compiler
    is told to warn of. None where that is not sure."""
    if UNSURE.search(text):
        return None
    pieces, end = [], 0
    for found in PIECE.finditer(text):
        comment = found[0]
        if comment.startswith(("//", "/*")):
            if not comment.isascii() or "/*" in comment[2:] or "\\\n" in comment or _moves_code(found):
                return None
            pieces += [text[end : found.start()], " ", "\n" * comment.count("\n")]
            end = found.end()
    return "\n".join(line.rstrip() for line in "".join([*pieces, text[end:]]).split("\n"))


def _moves_code(comment: re.Match[str]) -> bool:
    """Whether code follows on the line that begins with it: how far that is indented can be warned of."""
    text, start, end = comment.string, comment.start(), comment.end()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end : (text.find("\n", end) + 1 or len(text) + 1) - 1]
    return ("\n" in comment[0] or not before.strip()) and bool(after.strip())
