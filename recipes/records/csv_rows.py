"""Write rows as a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from recipes.records.directory import write_text
from recipes.records.jsonl import Record


def write_csv(path: Path, rows: Sequence[Record]) -> None:
    """Rows, one line each; a row that lacks a column leaves it empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
