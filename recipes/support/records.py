"""Reading a run directory's files back: the configuration, and lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from recipes.support.charts import Record, finite


def records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield (byte offset, object) for each line of a .jsonl file; nothing where the file is missing.

    A last line that does not decode is a write that was cut off, and is skipped. Any other raises ValueError.
    """
    if not path.exists():
        return
    offset, broken = 0, ""
    with path.open("rb") as file:
        # Bytes, because text mode would also have to decode a last line cut inside a character.
        for count, line in enumerate(file, 1):
            if broken and line.strip():
                raise ValueError(broken)
            if line.strip():
                try:
                    record = json.loads(line.decode("utf-8"))
                except ValueError as error:
                    broken = f"{path}, line {count}: not JSON ({error})"
                else:
                    if not isinstance(record, dict):
                        raise ValueError(f"{path}, line {count}: not a JSON object")
                    yield offset, record
            offset += len(line)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; none where it is missing. A last line cut off by a kill is left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = []
    for number, line in enumerate(lines):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            if number + 1 < len(lines):
                raise
    return rows


def read_config(path: Path) -> tuple[Record, str]:
    """The config as a mapping and as its text. FileNotFoundError without it, ValueError if not a mapping."""
    text = path.read_text(encoding="utf-8")
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML ({error})") from error
    if config is not None and not isinstance(config, dict):
        raise ValueError(f"{path}: not a mapping")
    return config or {}, text


def setting(config: Record, dotted: str) -> Any:
    """The config value at a dotted key, None where it is absent."""
    value: Any = config
    for key in dotted.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def by_step(rows: Iterable[Record]) -> dict[int, Record]:
    """Rows in the order of their steps. A resumed run logs some steps twice: the later row holds."""
    kept: dict[int, Record] = {}
    for position, row in enumerate(rows, 1):
        step = row.get("step")
        kept[int(step) if step is not None and finite(step) else position] = row
    return dict(sorted(kept.items()))
