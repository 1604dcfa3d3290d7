"""Results of builds and runs on disk, shared by all processes: no text is built twice and no program is run twice.

The cache lies outside the sandbox. A cache that the compiler itself fills, such as ccache, would have to be open inside
it: a generated program could read the objects of other programs there, or plant one for them.
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
MAX_ENTRIES = 200_000
"""The oldest entries are removed first."""
LOCK_TIMEOUT_S = 30.0
"""How long to wait for another process that writes."""
KEYS_PER_QUERY = 500
"""SQLite accepts at least 999."""
PIECE = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/"  # comments
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|'\w|[\w.])*",  # other tokens
    re.DOTALL,
)
UNCERTAIN = re.compile(
    r"(?:[*/]\\|\\[ \t]+)$|R\"|\?\?/|^[ \t]*#[ \t]*include[ \t]*<[^>\n]*/[/*]|COLUMN|source_location|(?i:fall.*thr)",
    re.MULTILINE,
)
"""Comment marks that a line continuation splits, raw strings, file names like comments, code that depends on columns or
on comments."""


class ResultCache:
    """Plain data by key, in one file that processes share.

    If the file cannot be used, there is a warning and nothing is cached.

    Args:
        folder: an existing folder for the file.
    """

    def __init__(self, folder: Path) -> None:
        self.path: Path | None = folder / FILE

    def get(self, keys: Collection[str]) -> dict[str, Any]:
        """The stored values of those `keys` that have one."""
        requested = list(keys)
        values: dict[str, Any] = {}

        def read(database: sqlite3.Connection) -> None:
            for start in range(0, len(requested), KEYS_PER_QUERY):
                batch = requested[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(batch))
                rows = database.execute(f"SELECT key, value FROM kept WHERE key IN ({marks})", batch)
                values.update((key, json.loads(value)) for key, value in rows)

        self._in_transaction(read)
        return values

    def put(self, entries: Mapping[str, Any]) -> None:
        """Store `entries`; a key that already has a value keeps it."""
        rows = [(key, json.dumps(value)) for key, value in entries.items()]

        def write(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR IGNORE INTO kept (key, value) VALUES (?, ?)", rows)
            database.execute("DELETE FROM kept WHERE number <= (SELECT max(number) FROM kept) - ?", (MAX_ENTRIES,))

        if rows:
            self._in_transaction(write)

    def _in_transaction(self, work: Callable[[sqlite3.Connection], None]) -> None:
        if self.path is None:
            return
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=LOCK_TIMEOUT_S)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, key TEXT UNIQUE, value TEXT)"
                )
                work(database)
        except (sqlite3.Error, ValueError) as error:
            log.warning("%s: %s; without it no results are stored for later runs: delete the file", self.path, error)
            self.path = None


def without_comments(text: str) -> str | None:
    """C or C++ code without comments, on the same lines.

    Texts that are equal without comments give equal programs, whatever warnings the compiler is asked for. None if that
    is not certain.
    """
    if UNCERTAIN.search(text):
        return None
    pieces, end = [], 0
    for match in PIECE.finditer(text):
        comment = match[0]
        if comment.startswith(("//", "/*")):
            if not comment.isascii() or "/*" in comment[2:] or "\\\n" in comment or _moves_code(match):
                return None
            pieces += [text[end : match.start()], " ", "\n" * comment.count("\n")]
            end = match.end()
    # other blanks, such as a no-break space, are errors to a compiler
    return "\n".join(line.rstrip(" \t\r\f\v") for line in "".join([*pieces, text[end:]]).split("\n"))


def _moves_code(comment: re.Match[str]) -> bool:
    """Whether code follows a comment that begins a line: a compiler may warn of that code's indentation."""
    text, start, end = comment.string, comment.start(), comment.end()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end : (text.find("\n", end) + 1 or len(text) + 1) - 1]
    return ("\n" in comment[0] or not before.strip()) and bool(after.strip())
