"""How much memory a run will take, phase by phase, before anything loads; and what to change where it does not fit.

    python recipes/plan.py recipe=grpo hardware=t4
    python recipes/plan.py recipe=ppo +experiment=etk_t4_better task.prompt_tokens=4096
    python recipes/plan.py recipe=sft model=qwen25_coder_7b hardware=a100x2 json=true

Takes any recipe's overrides. Weights are counted, passes traced on tensors without numbers (recipes/support/planning.py);
completions are taken to have their greatest length. The budget is hardware.memory_gib. The exit status is 1 where the
run does not fit. Recipes that train ask the same before they load; force=true trains all the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import recipe


@recipe(None)
def main(cfg) -> None:
    import json

    from rich.console import Console

    from recipes.support.advice import sentence
    from recipes.support.lengths import lengths_of
    from recipes.support.memory import GIB
    from recipes.support.planning import plan_of

    lengths = lengths_of(cfg)
    plan = plan_of(cfg, lengths)
    said = sentence(cfg, plan, lengths) if plan.over else ""
    if cfg.json:
        print(json.dumps({**plan.as_dict(), "advice": said}))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table(cfg, plan))
        for note in plan.notes:
            print(note)
        if said:
            print(f"does not fit: {said}")
        elif plan.budget is None:
            print(f"{plan.fullest} takes {plan.peak / GIB:.2f} GiB; hardware.memory_gib says nothing of what there is")
        else:
            print(f"fits: {plan.fullest} takes {plan.peak / GIB:.2f} of {plan.budget / GIB:.2f} GiB")
    if plan.over:
        sys.exit(1)


def table(cfg, plan):
    """Parts by phases, in GiB."""
    from rich.table import Table

    from recipes.support.memory import GIB, PARTS

    budget = "unknown" if plan.budget is None else f"{plan.budget / GIB:.2f} GiB"
    title = f"{cfg.recipe.name}, {cfg.task.name}, {cfg.model.name} on {cfg.hardware.name}: memory in GiB, budget {budget}"
    found = Table(title=title)
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


if __name__ == "__main__":
    main()
