"""Two steps of every recipe that trains, whole, with the TRL that is installed."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from recipes.cli.lock import LOCK
from recipes.records.directory import WRITTEN
from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]
ONLINE = ["recipe.prompts_per_step=2", "task.max_new_tokens=6"]
RECIPES = {
    "grpo": [*ONLINE, "recipe.trl.num_generations=4", "hardware.precision=bf16"],
    "grpo beta": [*ONLINE, "recipe.trl.num_generations=4", "recipe.trl.beta=0.1", "recipe.packing_max_tokens=0"],
    "grpo parts": [*ONLINE, "recipe.trl.num_generations=4", "task.env.functions=3", "recipe.refill=true"],
    "grpo lines": [*ONLINE, "recipe.trl.num_generations=4", "recipe.credit=lines"],
    "ppo": [*ONLINE, "value=separate"],
    "reinforce": [*ONLINE, "recipe.samples_per_prompt=2"],
    "sft": ["recipe.batch_size=4"],
    "dpo": ["recipe.batch_size=4"],
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", RECIPES)
def test_two_steps(recipe, tiny_model, tmp_path):
    settings = list(RECIPES[recipe])
    if recipe == "dpo":
        pair = {
            "prompt": [{"role": "user", "content": "Add one."}],
            "chosen": [{"role": "assistant", "content": "x + 1"}],
            "rejected": [{"role": "assistant", "content": "x - 1"}],
        }
        (tmp_path / "pairs.jsonl").write_text(f"{json.dumps(pair)}\n" * 8)
        settings.append(f"recipe.pairs={tmp_path / 'pairs.jsonl'}")
    done = warm.run(
        [
            sys.executable,
            ROOT / "recipes" / f"{recipe.split()[0]}.py",
            f"model.path={tiny_model}",
            "model.lora_rank=4",
            "task=basics",
            "task.env.train_size=16",
            "task.also_evaluate=[]",
            "evaluation.before=false",
            "evaluation.samples=0",
            "evaluation.greedy=true",
            "evaluation.max_new_tokens=4",
            "recipe.trl.max_steps=2",
            "recipe.trl.save_steps=1",
            f"run.dir={tmp_path / 'run'}",
            *([] if any("precision" in s for s in settings) else ["hardware.precision=fp32"]),
            *settings,
        ],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    losses = [value for row in rows for name, value in row.items() if name.startswith("loss")]
    assert losses and all(math.isfinite(value) for value in losses)
    assert (tmp_path / "run" / "final" / "adapter_model.safetensors").stat().st_size > 0
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").glob("checkpoint-*"))[-1] == "checkpoint-2"
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {*WRITTEN, LOCK}  # what a replaced run leaves
