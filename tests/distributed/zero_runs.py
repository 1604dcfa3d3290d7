"""GRPO or PPO, plain and under ZeRO, one after another in the same two processes: their start takes longest.

accelerate launch --config_file launch/cpux2.yaml tests/distributed/zero_runs.py MODEL FOLDER RECIPE
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from recipes.cli import schema
from recipes.cli.console import quiet_libraries
from recipes.cli.overrides import compose
from recipes.cli.processes import settle
from recipes.records.jsonl import read_config
from recipes.run import lifecycle
from recipes.tools import progress
from recipes.tools.progress import Best

SMALL = (
    "hardware=cpux2",
    "hardware.precision=fp32",
    "hardware.rows_per_device=2",
    "model.lora_rank=4",
    "recipe.trl.save_steps=2",
    "recipe.trl.lr_scheduler_type=constant",
    "recipe.trl.learning_rate=0.01",
    "recipe.prompts_per_step=2",
    "task.max_new_tokens=8",
    "task.also_evaluate=[]",
    "+task.reward.turns._target_=tests.recipes.channels.EveryOther",
    "+task.reward.turns.weight=1.0",
    "evaluation.samples=0",
)
GRPO = ("recipe.trl.num_generations=4",)
PPO = ("recipe.samples_per_prompt=4", "recipe.trl.num_mini_batches=1", "value=separate", "recipe.trl.kl_coef=0.1")


def train(recipe: str, model: str, folder: Path, stage: int, steps: int, *more: str) -> None:
    """One run, as the recipe's command makes it."""
    own = {"grpo": GRPO, "ppo": PPO}[recipe]
    message = (
        f"model.path={model}",
        f"hardware.zero_stage={stage}",
        f"recipe.trl.max_steps={steps}",
        f"run.dir={folder}",
    )
    cfg = compose([f"recipe={recipe}", *SMALL, *own, *message, *more])
    settle(cfg)
    importlib.import_module(f"recipes.{recipe}").main.__wrapped__(cfg)


def main() -> None:
    model, folder, recipe = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    schema.register()
    quiet_libraries()
    greedy = "evaluation.greedy=false"
    train(recipe, model, folder / "plain", 0, 3, greedy)
    train(recipe, model, folder / "zero2", 2, 2, greedy)
    train(recipe, model, folder / "zero2", 2, 3, greedy)  # goes on from the checkpoint
    weights = folder / "zero2" / "final" / "adapter_model.safetensors"
    before = weights.read_bytes()
    train(recipe, model, folder / "zero2", 2, 3, greedy)  # it is finished: nothing is trained
    if weights.read_bytes() != before:
        raise SystemExit("a finished run has other weights after the same command")
    if recipe == "grpo":
        best = ("evaluation.greedy=true", "evaluation.every=1", "run.keep=best", "recipe.trl.save_steps=1")
        lifecycle.best_step = partial(step_as_best, step=1)
        train(recipe, model, folder / "zero3", 3, 2, *best)


def step_as_best(run: Any, step: int) -> Best | None:
    """The best step, were this one better than all others."""
    found = progress.best(run.folder, read_config(run.folder / "config.yaml")[0], trained=True)
    return found and replace(found, step=step)


if __name__ == "__main__":
    main()
