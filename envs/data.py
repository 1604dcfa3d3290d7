"""Rows of a dataset, from the hub or from a copy of it in files."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.hub import offline_where_unknown
from envs.task import TaskError

log = logging.getLogger("codegrain")
KINDS = (".jsonl", ".jsonl.gz", ".parquet")
Row = dict[str, Any]


def hub_rows(name: str, part: str | None, split: str, columns: Sequence[str], seed: int | None = None) -> Iterator[Row]:
    """Rows of one split of a hub dataset, in `columns`; with `seed` streamed in a random order, so that the first few
    thousand of millions of rows do without the rest.

    Raises TaskError where the hub cannot be had.
    """
    offline_where_unknown()
    from datasets import load_dataset  # seconds to import

    try:
        if seed is None:
            loaded = load_dataset(name, part, split=split)
        else:
            loaded = load_dataset(name, part, split=split, streaming=True).shuffle(seed=seed, buffer_size=20_000)
        loaded = loaded.select_columns([c for c in columns if loaded.column_names is None or c in loaded.column_names])
        yield from loaded
    except Exception as error:  # offline, no such part, a broken download: dozens of types from four libraries
        reason = str(error).split("\n")[0][:200]
        raise TaskError(
            f"cannot load {name} ({part or 'default'}, {split}) from the hub: give a copy of it as a path in task.env, "
            f"a .jsonl, .jsonl.gz or .parquet file or a folder of them ({type(error).__name__}: {reason})"
        ) from error


def data_files(path: Path) -> list[Path]:
    """The files of a folder at any depth, or the one file. Raises TaskError where there are none."""
    if not path.exists():
        raise TaskError(f"no such file or folder: {path} (task.env)")
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    found = [file for file in files if file.name.endswith(KINDS)]
    if not found:
        raise TaskError(f"{path} holds no {', '.join(KINDS)} (task.env)")
    return found


def file_rows(files: Sequence[Path], columns: Sequence[str], dropped: Counter[str] | None = None) -> Iterator[Row]:
    """The rows of each file, in `columns`; a line that is no JSON object is counted in `dropped`.

    A row without an `id` gets one of file and line. Raises TaskError for a file that cannot be read.
    """
    dropped = Counter() if dropped is None else dropped
    for file in files:
        stem = file.name.removesuffix(".gz").rsplit(".", 1)[0]
        try:
            rows = _parquet(file, columns) if file.suffix == ".parquet" else _lines(file, dropped)
            before = dropped["not a JSON object"]
            for number, row in enumerate(rows):
                name = row.get("id")
                yield row | {"id": name if isinstance(name, str) and name else f"{stem}-{number}"}
            if bad := dropped["not a JSON object"] - before:
                log.warning("%s: %d lines are no JSON objects and are left out", file, bad)
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


def _parquet(file: Path, columns: Sequence[str]) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    try:
        opened = parquet.ParquetFile(file)
        kept = [name for name in opened.schema_arrow.names if name in columns]
        for batch in opened.iter_batches(batch_size=64, columns=kept):
            yield from batch.to_pylist()
    except ArrowException as error:
        raise OSError(str(error).split("\n")[0]) from error
