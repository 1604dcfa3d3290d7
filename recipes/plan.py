"""How much memory will a run take, phase by phase, and what would make it fit? Answered before any weights load.

    python recipes/plan.py recipe=grpo hardware=t4
    python recipes/plan.py recipe=ppo +experiment=etk_t4_better task.prompt_tokens=4096
    python recipes/plan.py recipe=sft model=qwen25_coder_7b hardware=a100x2 json=true        one line of JSON

Takes any recipe's overrides. Weights are counted, passes are traced on tensors without numbers
(recipes/support/planning.py); completions are taken to have their greatest length. The budget is hardware.memory_gib,
of a CPU what is available now. The exit status is 0 where the run fits, 1 where it does not, 2 where the command cannot
be followed. Recipes that train ask the same before they load; force=true trains all the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from recipes.support import config
from recipes.support.memory import GIB, PARTS, Plan
from recipes.support.overrides import compose
from recipes.support.small_command import small_command

WIDTH = 120
"""Of the table, where the output is no terminal."""


def read(given: Sequence[str]) -> tuple[Any, bool]:
    """The run's configuration, and whether JSON is asked for. Raises UserError."""
    config.register()
    said = [a for a in given if a.startswith("json=")]
    as_json = bool(OmegaConf.from_dotlist(said).get("json", False)) if said else False
    return compose([a for a in given if a not in said]), as_json


def show(asked: tuple[Any, bool]) -> int:
    """Print the plan; 1 where the run does not fit. Raises UserError where nothing says how large something is."""
    from recipes.support.advice import sentence
    from recipes.support.lengths import lengths_of
    from recipes.support.planning import plan_of

    cfg, as_json = asked
    lengths = lengths_of(cfg)
    plan = plan_of(cfg, lengths)
    advice = sentence(cfg, plan, lengths) if plan.over else ""
    if as_json:
        print(json.dumps({**plan.as_dict(), "advice": advice}))
        return int(bool(plan.over))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(cfg, plan))
    for note in plan.notes:
        print(note)
    if advice:
        print(f"does not fit: {advice}")
    elif plan.budget is None:
        print(f"{plan.fullest} takes {plan.peak / GIB:.2f} GiB; hardware.memory_gib does not say what there is")
    else:
        print(f"fits: {plan.fullest} takes {plan.peak / GIB:.2f} of {plan.budget / GIB:.2f} GiB")
    return int(bool(plan.over))


def table(cfg: Any, plan: Plan) -> Table:
    """Parts by phases, in GiB."""
    budget = "unknown" if plan.budget is None else f"{plan.budget / GIB:.2f} GiB"
    run = f"{cfg.recipe.name}, {cfg.task.name}, {cfg.model.name} on {cfg.hardware.name}"
    found = Table(title=f"{run}: GiB of memory, budget {budget}")
    found.add_column("")
    for phase in plan.phases:
        found.add_column(phase, justify="right")
    for part in PARTS:
        sizes = [parts.get(part, 0.0) for parts in plan.phases.values()]
        if max(sizes) >= 0.005 * GIB:
            found.add_row(part, *(f"{size / GIB:.2f}" if size else "" for size in sizes))
    found.add_section()
    found.add_row("together", *(f"{sum(parts.values()) / GIB:.2f}" for parts in plan.phases.values()))
    return found


main = small_command(read, __doc__, show)

if __name__ == "__main__":
    sys.exit(main())
