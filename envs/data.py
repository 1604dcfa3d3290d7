"""Rows of a dataset, from the hub or from a copy of it in files.

Files are not read with `datasets`: there one invalid line ends the whole file, and large integers (those of MBPP+)
cannot be read at all.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import sys
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.json_lines import Row, json_lines
from envs.task import TaskError

log = logging.getLogger("codegrain")
ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")
INVALID = "not a JSON object"
"""The reason under which invalid lines are counted."""
KINDS: Mapping[str, Callable[[Any], bool]] = {
    "a text, not empty": lambda value: isinstance(value, str) and bool(value.strip()),
    "a text": lambda value: isinstance(value, str),
    "a name": lambda value: isinstance(value, str) and value.isidentifier(),
    "an integer": lambda value: type(value) is int,
    "a number, 0 or more": lambda value: type(value) in (int, float) and value >= 0,
    "a list of texts": lambda value: _is_list_of(str, value),
    "a list of texts, not empty": lambda value: bool(value) and _is_list_of(str, value),
    "a list of lists": lambda value: _is_list_of(list, value),
    "a list of lists, not empty": lambda value: bool(value) and _is_list_of(list, value),
}
"""What a field of a row may have to be."""


def hub_rows(name: str, part: str | None, split: str, columns: Sequence[str], seed: int | None = None) -> Iterator[Row]:
    """Rows of one split of a hub dataset with those of `columns` that it has.

    With `seed` rows are streamed in a random order, so that the first few thousand of millions of rows can be used
    without a download of the rest. Raises TaskError if the dataset cannot be loaded.
    """
    offline_where_unknown()
    from datasets import load_dataset  # its import takes seconds

    try:
        if seed is None:
            loaded = load_dataset(name, part, split=split)
        else:
            loaded = load_dataset(name, part, split=split, streaming=True).shuffle(seed=seed, buffer_size=20_000)
        loaded = loaded.select_columns([c for c in columns if loaded.column_names is None or c in loaded.column_names])
        yield from loaded
    except Exception as error:  # dozens of types from four libraries: offline, an unknown part, a broken download
        reason = str(error).split("\n")[0][:200]
        raise TaskError(
            f"cannot load {name} ({part or 'default'}, {split}) from the hub: give a copy of it as a path in task.env, "
            f"a .jsonl, .jsonl.gz or .parquet file or a folder of them ({type(error).__name__}: {reason})"
        ) from error


def data_files(path: Path, setting: str = "task.env") -> list[Path]:
    """The data files of a folder at any depth, or the one file. Raises TaskError, with the setting that names the path,
    if there are none."""
    if not path.exists():
        raise TaskError(f"no such file or folder: {path} ({setting})")
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    readable = [file for file in files if file.name.endswith(ENDINGS)]
    if not readable:
        raise TaskError(f"{path} {'holds' if path.is_dir() else 'is'} no {', '.join(ENDINGS)} ({setting})")
    return readable


def file_rows(
    files: Sequence[Path],
    columns: Sequence[str],
    dropped: Counter[str] | None = None,
    root: Path | None = None,
    strict: bool = False,
    warn: bool = True,
) -> Iterator[Row]:
    """The rows of each file; of parquet files only `columns` are read.

    A row without an `id` gets one from the file's name below `root`, or below the folder that the files have in common,
    and the row's number. A line that is not a JSON object is skipped, counted in `dropped` and, with `warn`, told in a
    warning; with `strict` it raises TaskError. Raises TaskError for a file that cannot be read.
    """
    dropped = Counter() if dropped is None else dropped
    shared = root if root and root.is_dir() else os.path.commonpath([file.parent for file in files] or [Path()])
    for file in files:
        stem = os.path.relpath(file, shared).removesuffix(".gz").rsplit(".", 1)[0]
        number, before = 0, dropped[INVALID]
        try:
            for place, row in numbered_rows(file, columns):
                if not isinstance(row, Exception):
                    name = row.get("id")
                    yield row | {"id": name if isinstance(name, str) and name else f"{stem}-{number}"}
                    number += 1
                elif strict:
                    raise TaskError(f"{file}:{place}: not JSON: {row}")
                else:
                    dropped[INVALID] += 1
        except OSError as error:
            raise TaskError(f"cannot read {file}: {error}") from error
        if warn and (invalid := dropped[INVALID] - before):
            log.warning("%s: %d lines are not JSON objects and are left out", file, invalid)


def reasons_of(dropped: Counter[str]) -> str:
    """Why rows are left out, with how many for each reason, the most frequent first; empty where none is."""
    return ", ".join(f"{count} {why}" for why, count in dropped.most_common() if count)


def check_fields(row: Row, kinds: Mapping[str, str], optional: Sequence[str] = ()) -> None:
    """Raise TaskError for a field that is not of its kind, one of KINDS; those in `optional` may be missing or null."""
    for field, kind in kinds.items():
        value = row.get(field)
        if not KINDS[kind](value) and not (value is None and field in optional):
            given = "missing" if value is None else f"{value!r:.60}"
            raise TaskError(f"`{field}` is {given}: it must be {kind}")


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def numbered_rows(file: Path, columns: Sequence[str]) -> Iterator[tuple[int, Row | Exception]]:
    """The rows of one file with their numbers, from 1, as json_lines gives them; of a parquet file only `columns`.
    Raises OSError."""
    return enumerate(_parquet(file, columns), 1) if file.suffix == ".parquet" else json_lines(file)


def _parquet(file: Path, columns: Sequence[str]) -> Iterator[Row]:
    from pyarrow import ArrowException, parquet

    try:
        opened = parquet.ParquetFile(file)
        kept = [name for name in opened.schema_arrow.names if name in columns]
        for batch in opened.iter_batches(batch_size=64, columns=kept):
            yield from batch.to_pylist()
    except ArrowException as error:
        raise OSError(str(error).split("\n")[0]) from error


@functools.cache
def offline_where_unknown() -> None:
    """Switch the hub's libraries to offline mode if the hub's host name cannot be resolved and no proxy is set.

    Files in their caches can still be loaded; other files then fail at once instead of after many retries.
    """
    import huggingface_hub.constants as hub

    host = urllib.parse.urlsplit(hub.ENDPOINT).hostname
    if hub.HF_HUB_OFFLINE or {"https", "http", "all"} & urllib.request.getproxies().keys():
        return
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        log.warning("%s cannot be reached: only files that were downloaded before are available", host)
        hub.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:
            sys.modules["datasets"].config.HF_HUB_OFFLINE = True
