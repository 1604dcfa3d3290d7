"""The evaluation before training, taken over from a run that started from the same model (evaluation.before_from)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from envs.task import Task
from recipes.cli.errors import UserError
from recipes.evaluation.held_out import decodings, how_decoded
from recipes.models.load import SCRATCH
from recipes.records.jsonl import Record, read_config, read_jsonl, setting
from recipes.records.log import RunLog

CHOOSING = {
    *("path", "train_path", "train", "test", "source", "cases", "benchmark_dir", "train_parts", "test_parts"),
    *("split", "split_seed", "train_size", "validation_size", "test_share", "validation_share", "validation"),
    *("limit", "every_id", "largest_mib", "longest", "min_src_chars", "max_src_chars", "languages"),
    *("drop_generated", "drop_duplicates", "practice", "further", "generated", "generated_level"),
    "held_out_families",
}
"""Keys of task.env that choose problems, which are compared by their ids. All others may shape prompts and verdicts."""
SAME = (
    "task.name",
    "task.reward",
    "episode",
    "model.path",
    "hardware.precision",
    "hardware.load_in_4bit",
    "evaluation.samples",
    "evaluation.temperature",
    "evaluation.top_p",
    "evaluation.greedy",
    "evaluation.max_new_tokens",
    "evaluation.split",
)
"""Settings in which both runs agree, since another value of one of them gives other answers."""
FILES = ("eval_samples.jsonl", "samples.jsonl")
"""Answers of evaluations, of a training run and of recipes/eval.py."""


def before_of(path: str) -> tuple[list[Record], list[Record]]:
    """The evaluation of a run before training, or of a run of recipes/eval.py, as rows of a training run.

    Returns rows of evals.jsonl and of eval_samples.jsonl.
    """
    evals = [row for row in read_jsonl(Path(path, "evals.jsonl")) if row["when"] in ("before", "eval")]
    answers = [row for name in FILES for row in read_jsonl(Path(path, name))]
    of = {key: evals[0].get(key) if evals else None for key in ("task", "split")}
    place = {"when": "before", "step": 0}
    return (
        [row | place for row in evals],
        [{**place, **of, **row} for row in answers if row.get("when", "before") == "before"],
    )


def check_before_from(cfg: DictConfig, task: Task) -> None:
    """Raise UserError where the run that `evaluation.before_from` names cannot stand for this one before training."""
    path = cfg.evaluation.before_from
    if path is None:
        return
    asked = f"evaluation.before_from={path}"
    evals, answers = before_of(path)
    if not evals or not Path(path, "config.yaml").exists():
        raise UserError(
            f"{asked}: no evaluation before training there; name a run directory of recipes/eval.py, or of a training "
            "with evaluation.before=true"
        )
    config = read_config(Path(path, "config.yaml"))[0]
    own: Any = OmegaConf.to_container(cfg, resolve=True)
    shared = own["task"]["env"].keys() & (setting(config, "task.env") or {}).keys()  # older runs lack newer keys
    if (adapter := setting(config, "adapter")) and _place(adapter) not in _starts(cfg.adapter):
        raise UserError(
            f"{asked}: it evaluated adapter={adapter}, from which this run does not start: evaluate the model itself, "
            f"or set adapter={adapter}"
        )
    prompts = [f"task.env.{name}" for name in sorted(shared - CHOOSING)]
    for key in (*SAME, *prompts, *(["seed"] if cfg.model.path == SCRATCH else [])):
        if setting(config, key) != setting(own, key):
            key, there, here = _difference(key, setting(config, key), setting(own, key))
            raise UserError(f"{asked}: {key} is {there} there and {here} here, which cannot be compared: use the same")
    wanted = {decoding.temperature: how_decoded(decoding) for decoding, _ in decodings(cfg.evaluation)}
    done = {row["temperature"] for row in evals if row["task"] == cfg.task.name}
    for row in evals:  # its settings may have changed since it was evaluated
        for key, value in wanted.get(row["temperature"], {}).items():
            if row["task"] == cfg.task.name and row.get(key, value) != value:
                raise UserError(
                    f"{asked}: it was evaluated with {key}={row[key]}, and evaluation.{key} is {value} here"
                )
    if not done.issuperset(wanted):
        raise UserError(f"{asked}: its evaluation before training is not finished; start that command again first")
    known = {row["task_id"] for row in answers if row["task"] == cfg.task.name}
    if known != {problem.id for problem in task.problems(cfg.evaluation.split)}:
        raise UserError(
            f"{asked}: other problems were answered there than the {cfg.evaluation.split} problems here, which cannot "
            "be compared: use the same settings below task.env"
        )


def _starts(adapter: str | None) -> list[Path]:
    """The run that `adapter` names, the one whose adapter that was trained from, and so on."""
    found: list[Path] = []
    while adapter and _place(adapter) not in found:
        found.append(_place(adapter))
        config = found[-1] / "config.yaml"
        adapter = setting(read_config(config)[0], "adapter") if config.exists() else None
    return found


def _place(adapter: str) -> Path:
    """The run directory of an adapter, which may be named by its final/."""
    folder = Path(adapter).resolve()
    return folder.parent if folder.name == "final" else folder


def _difference(key: str, there: Any, here: Any) -> tuple[str, Any, Any]:
    """Two values that differ, with their key: of groups of settings the first setting that does."""
    while isinstance(there, dict) and isinstance(here, dict):
        name = next(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
        key, there, here = f"{key}.{name}", there.get(name), here.get(name)
    return key, there, here


def take_before(path: str, log: RunLog) -> None:
    """Write that evaluation down as this run's own, as far as it is not there already."""
    own = [row for row in read_jsonl(log.folder / "evals.jsonl") if row["when"] == "before"]
    done = {(row["task"], row["temperature"]) for row in own}
    evals, answers = before_of(path)
    log.record_samples(row for row in answers if (row["task"], row["temperature"]) not in done)
    for row in evals:
        if (row["task"], row["temperature"]) not in done:
            log.record_evaluation(row)
