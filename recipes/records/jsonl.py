"""Read and write JSON lines, and read the config.yaml of a run directory."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from recipes.cli.errors import UserError
from recipes.records.directory import write_text

Record = dict[str, Any]
"""One decoded JSON object."""


def stream_jsonl(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield (byte offset of the line, its object) for each line of a JSON-lines file, `.gz` included.

    A missing file has no lines. Blank lines are skipped, and so is a last line that is not JSON: a kill cut it off.

    Raises:
        ValueError: any other line is not a JSON object; the message names the file and the line.
    """
    if not path.exists():
        return
    offset, broken = 0, ""
    # Bytes, because a last line may also be cut inside a character.
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                if broken:
                    raise ValueError(broken)
                try:
                    record = json.loads(line.decode("utf-8-sig"))  # some editors begin a file with a mark
                except ValueError as error:
                    broken = f"{path}, line {number}: not JSON ({error})"
                else:
                    if not isinstance(record, dict):
                        raise ValueError(f"{path}, line {number}: not a JSON object")
                    yield offset, record
            offset += len(line)


def read_jsonl(path: Path) -> list[Record]:
    """The objects of a JSON-lines file, in order; see `stream_jsonl`."""
    return [record for _, record in stream_jsonl(path)]


def named_rows(setting: str, path: str, name: str, needs: Sequence[str], writer: str) -> tuple[Path, list[Record]]:
    """The file that a setting names and its rows.

    Args:
        path: the setting's value: that file, or a run directory with a file `name`.
        needs: keys of every row. writer: the command that writes such a file.

    Raises UserError where it cannot be read, or a row lacks a key. A missing file has no rows.
    """
    file = Path(path) / name if Path(path).is_dir() else Path(path)
    try:
        rows = read_jsonl(file)
    except (OSError, ValueError) as error:
        raise UserError(f"{setting}={path}: {error}; {writer} writes {name}") from None
    for number, row in enumerate(rows, 1):
        if missing := [key for key in needs if key not in row]:
            raise UserError(f"{setting}={path}: row {number} of {file} has no {missing[0]!r}; {writer} writes {name}")
    return file, rows


def write_jsonl(path: Path, rows: Iterable[Record]) -> None:
    """Write the objects to a JSON-lines file, completely or not at all."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


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


def model_name(config: Record) -> str | None:
    """The model's name; where the command names a model by its path alone, the last part of that."""
    command = config.get("command") or []
    words = list(map(str, command)) if isinstance(command, list) else str(command).split()
    named = {word.split("=", 1)[0].lstrip("+") for word in words if "=" in word}
    path = setting(config, "model.path")
    if path and "model.path" in named and not named & {"model", "model.name"}:
        return Path(str(path)).name
    return setting(config, "model.name")


def judged_problems(evaluation: Record) -> int | None:
    """How many problems pass@k of an evaluation is of: those with an answer that was not graded are left out."""
    judged = evaluation.get("judged")
    some = evaluation.get("ungraded") and evaluation.get("pass@k") and judged is not None
    return judged if some else evaluation.get("problems")


def problem_count(evaluation: Record) -> str:
    """`judged_problems` for a reader: `8 of 10` where two have an answer that was not graded."""
    judged, problems = judged_problems(evaluation), evaluation.get("problems")
    return str(problems) if judged == problems else f"{judged} of {problems}"


def problem_kinds(evaluations: Iterable[Record]) -> str:
    """What the problems of these evaluations are called, by their splits: `held-out`, `training`, `held-out and
    training`, or `all`. Records of older versions without a split are of held-out problems."""
    kinds = {"train": "training", "all": "all"}
    return (
        " and ".join(dict.fromkeys(kinds.get(str(row.get("split")), "held-out") for row in evaluations)) or "held-out"
    )


def split_name(evaluation: Record) -> str:
    """What the problems of one evaluation are called beside those of another split: `test`, `validation`, `training` or
    `all`; `held-out` where it does not say."""
    split = evaluation.get("split")
    return "training" if split == "train" else str(split or "held-out")


def by_step(rows: Iterable[Record]) -> dict[int, Record]:
    """Rows in the order of their steps. A resumed run logs some steps twice: the later row holds."""
    kept: dict[int, Record] = {}
    for position, row in enumerate(rows, 1):
        step = row.get("step")
        kept[int(step) if step is not None and finite(step) else position] = row
    return dict(sorted(kept.items()))


def finite(value: Any) -> bool:
    """Whether a decoded JSON value is a number that can be added up and drawn."""
    return numeric(value) and math.isfinite(value)


def numeric(value: Any) -> bool:
    """Whether a decoded JSON value is a number (NaN and infinities included, true and false not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
