"""How much memory will a run take, phase by phase, and what would make it fit? Answered before any weights load.

    python recipes/plan.py recipe=grpo hardware=t4
    python recipes/plan.py recipe=ppo +experiment=etk_t4_better task.prompt_tokens=4096
    python recipes/plan.py recipe=sft model=qwen25_coder_7b hardware=a100x2 json=true        one line of JSON

Takes any recipe's overrides; `python recipes/grpo.py --help` lists the groups with their choices. Weights are counted,
activations are traced on tensors without numbers (recipes/tools/memory/planner.py); completions are assumed to have
their greatest length. The budget is hardware.memory_gib; for a CPU, what is available now. The exit status is 0 where
the run fits, 1 where it does not, 2 where the command cannot be followed. Recipes that train ask the same before they
load; force=true trains anyway.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from recipes.cli import schema
from recipes.cli.arguments import small_command, values_of
from recipes.cli.batches import micro_batches
from recipes.cli.errors import UserError
from recipes.cli.memory_use import GIB
from recipes.cli.overrides import compose
from recipes.tools.memory.quantities import PARTS, Plan

WIDTH = 120
"""Columns of the table, where the output is no terminal."""


def read(arguments: Sequence[str]) -> tuple[Any, bool]:
    """The run's configuration, and whether JSON is wanted. Raises UserError."""
    schema.register()
    own = [argument for argument in arguments if argument.startswith("json=")]
    as_json = values_of(own).get("json", False)
    if not isinstance(as_json, bool):
        raise UserError(f"{own[-1]}: it must be true or false")
    return compose([argument for argument in arguments if argument not in own]), as_json


def show(request: tuple[Any, bool]) -> int:
    """Print the plan; 1 where the run does not fit. Raises UserError where nothing tells how large a part is."""
    from recipes.run.checks import CHECKS, check_words
    from recipes.tools.memory.advice import advice_for
    from recipes.tools.memory.contents import OFFLINE, ONLINE
    from recipes.tools.memory.planner import lengths_of, plan_of

    cfg, as_json = request
    if cfg.recipe.name in ONLINE + OFFLINE:  # what its recipe refuses does not fit, however little it takes
        CHECKS[cfg.recipe.name](cfg)
        check_words(cfg)
        micro_batches(cfg, cfg.hardware.num_processes)
    lengths = lengths_of(cfg, task_to_count(cfg), others_to_count(cfg))
    plan = plan_of(cfg, lengths)
    advice = advice_for(cfg, plan, lengths) if plan.over else ""
    if as_json:
        print(json.dumps({**plan.as_dict(), "advice": advice}))
        return int(bool(plan.over))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(cfg, plan))
    for note in plan.notes:
        print(note)
    if advice:
        print(f"does not fit: {advice}")
    elif plan.budget is None:
        print(f"{plan.fullest} takes {plan.peak / GIB:.2f} GiB; set hardware.memory_gib to compare it with a budget")
    else:
        print(f"fits: {plan.fullest} takes {plan.peak / GIB:.2f} of {plan.budget / GIB:.2f} GiB")
    return int(bool(plan.over))


def task_to_count(cfg: Any) -> Any:
    """The task whose prompts are counted, None where `task.prompt_tokens` says how long they are. Raises UserError."""
    from recipes.run.build import build_task

    try:
        return None if cfg.task.prompt_tokens else build_task(cfg, "train")
    except UserError as error:
        raise UserError(f"{error}; or say how long the prompts are: task.prompt_tokens=1024") from None


def others_to_count(cfg: Any) -> list[Any]:
    """The tasks of task.also_evaluate that have problems, where a training evaluates. Raises UserError."""
    from recipes.run.build import other_task
    from recipes.tools.memory.contents import OFFLINE, ONLINE

    if cfg.task.prompt_tokens or cfg.recipe.name not in ONLINE + OFFLINE:
        return []
    others = [other_task(name, cfg.evaluation.split) for name in cfg.task.also_evaluate]
    return [other for other in others if other.task.problems(cfg.evaluation.split)]


def table(cfg: Any, plan: Plan) -> Table:
    """Parts by phases, in GiB."""
    budget = "unknown" if plan.budget is None else f"{plan.budget / GIB:.2f} GiB"
    run = f"{cfg.recipe.name}, {cfg.task.name}, {cfg.model.name} on {cfg.hardware.name}"
    parts = Table(title=f"{run}: GiB of memory, budget {budget}")
    parts.add_column("")
    for phase in plan.phases:
        parts.add_column(phase, justify="right")
    for part in PARTS:
        sizes = [sizes.get(part, 0.0) for sizes in plan.phases.values()]
        if max(sizes) >= 0.005 * GIB:
            parts.add_row(part, *(f"{size / GIB:.2f}" if size else "" for size in sizes))
    parts.add_section()
    parts.add_row("together", *(f"{sum(sizes.values()) / GIB:.2f}" for sizes in plan.phases.values()))
    return parts


main = small_command(read, __doc__, show)

if __name__ == "__main__":
    sys.exit(main())
