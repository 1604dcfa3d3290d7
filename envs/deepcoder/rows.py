"""Rows of DeepCoder's dataset, from the hub or from files."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.task import TaskError

HUB = "agentica-org/DeepCoder-Preview-Dataset"
KINDS = (".jsonl", ".jsonl.gz", ".parquet")
COLUMNS = ("id", "problem", "question", "prompt", "tests", "ground_truth", "starter_code", "metadata", "solutions")
Row = dict[str, Any]


def hub_rows(parts: Sequence[str], split: str) -> Iterator[tuple[str, Row]]:
    """(name, row) of each part's split. Raises TaskError where the hub cannot be had."""
    from datasets import load_dataset  # seconds to import

    for part in parts:
        try:
            loaded = load_dataset(HUB, name=part, split=split)
        except Exception as error:  # offline, no such part, a broken download: dozens of types from four libraries
            reason = str(error).split("\n")[0][:200]
            raise TaskError(
                f"cannot load {HUB} ({part}, {split}) from the hub: set task.env.path to a copy of it, "
                f"a .jsonl, .jsonl.gz or .parquet file or a folder of them ({type(error).__name__}: {reason})"
            ) from error
        for number, row in enumerate(loaded.select_columns([c for c in COLUMNS if c in loaded.column_names])):
            yield f"{part}-{split}-{number}", row


def data_files(path: Path) -> list[Path]:
    """The files of a folder at any depth, or the one file. Raises TaskError where there are none."""
    if not path.exists():
        raise TaskError(f"no such file or folder: {path} (task.env.path)")
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = [file for file in files if file.name.endswith(KINDS)]
    if not found:
        raise TaskError(f"{path} holds no {', '.join(KINDS)} (task.env.path)")
    return found


def file_rows(files: Sequence[Path], dropped: Counter[str]) -> Iterator[tuple[str, Row]]:
    """(name, row) of each file; a line that is no JSON object is counted in `dropped`. Raises TaskError for a file that
    cannot be read."""
    for file in files:
        stem = file.name.removesuffix(".gz").rsplit(".", 1)[0]
        try:
            rows = _parquet(file) if file.suffix == ".parquet" else _lines(file, dropped)
            for number, row in enumerate(rows):
                name = row.get("id")
                yield (name if isinstance(name, str) and name else f"{stem}-{number}"), row
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise TaskError(f"cannot read {file}: {error}") from error


def _lines(file: Path, dropped: Counter[str]) -> Iterator[Row]:
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                yield row
            else:
                dropped["not a JSON object"] += 1


def _parquet(file: Path) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    try:
        opened = parquet.ParquetFile(file)
        columns = [name for name in opened.schema_arrow.names if name in COLUMNS]
        for batch in opened.iter_batches(batch_size=64, columns=columns):
            yield from batch.to_pylist()
    except ArrowException as error:
        raise OSError(str(error).split("\n")[0]) from error
