"""Memory as planned and as measured, phase by phase: recipes/plan.py against real updates of SmolLM2-135M.

    python tests/bench/bench_plan.py [--only grpo]

Each case is a run of its own, two steps from a fresh directory, sampled at a temperature at which no answer ends before
its limit, since that is what a plan is for. The plan is the run's own plan.json, the peaks are those of its
metrics.jsonl and evals.jsonl. The last line is one JSON object: measured over planned of the fullest phase by case, and
both of all phases.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.records.jsonl import read_jsonl
from recipes.tools.report.memory_chart import by_phase
from tests.recipes.channels import PARITY

TIGHT = "hardware.memory_gib=1 force=true"
"""With room for twice the plan freed memory would be kept, and more held than is alive."""
SHORT = "evaluation.samples=0 evaluation.greedy=false task.also_evaluate=[] recipe.trl.save_steps=1000"
COMMON = f"{TIGHT} {SHORT} task=basics seed=0"
ONLINE = f"{COMMON} recipe.trl.temperature=3 recipe.trl.max_steps=2 {' '.join(PARITY)}"
"""Noise earns no reward, and GRPO has no pass for groups that all earn the same: parity of the tokens pays some."""
CASES = {
    "grpo, LoRA": ("grpo", f"{ONLINE} recipe.prompts_per_step=4 recipe.trl.num_generations=8 task.max_new_tokens=128"),
    "ppo, LoRA, critic on the policy": (
        "ppo",
        f"{ONLINE} value=shared recipe.prompts_per_step=4 task.max_new_tokens=192",
    ),
    "ppo, all weights, critic of its own": (
        "ppo",
        f"{ONLINE} value=separate model.lora_rank=0 recipe.prompts_per_step=4 task.max_new_tokens=128",
    ),
    "reinforce, LoRA, checkpointed": (
        "reinforce",
        f"{ONLINE} hardware.gradient_checkpointing=true recipe.prompts_per_step=4 task.max_new_tokens=256",
    ),
    "sft, LoRA": ("sft", f"{COMMON} recipe.trl.max_steps=4"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    args = parser.parse_args()
    result = {}
    for name, case in CASES.items():
        if args.only not in name:
            continue
        phases = measure(*case)
        fullest = max(phases, key=lambda phase: phases[phase][1])
        result[name] = {
            "fullest": fullest,
            "ratio": round(phases[fullest][0] / phases[fullest][1], 3),
            "phases": {phase: [round(held, 2), round(planned, 2)] for phase, (held, planned) in phases.items()},
        }
        print(name, result[name], file=sys.stderr, flush=True)
    print(json.dumps(result))


def measure(recipe: str, overrides: str) -> dict[str, tuple[float, float]]:
    """GiB measured and planned, by phase."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, f"recipes/{recipe}.py", *overrides.split(), f"run.dir={folder}/run"]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        run = Path(folder) / "run"
        rows = [*read_jsonl(run / "metrics.jsonl"), *read_jsonl(run / "evals.jsonl")]
        measured, planned = by_phase(rows, json.loads((run / "plan.json").read_text()))
        return {phase: (measured[phase], planned[phase]) for phase in planned if phase in measured}


if __name__ == "__main__":
    main()
