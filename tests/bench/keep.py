"""Keep what a table was made of: of each run the metrics that tables read, and the settings that name it.

    python tests/bench/keep.py runs/ablation/corridor/ppo runs/ablation/corridor/grpo -o tests/bench/results/corridor

Writes <output>/<recipe>/<run>/ with metrics.jsonl, evals.jsonl and config.yaml, which tests/bench/ablation.py and
curves.py read as they read the runs. With --answers also the verdict and the reward of each answer to an evaluation's
problems, without its text, which gain.py reads. What another run has left there is not overwritten.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl

METRICS = ("step", "reward", "pass_rate", "groups_skipped", "objective/kl", "value/explained_variance")
METRICS += ("loss", "loss/policy_avg", "loss/value_avg", "completion_tokens", "seconds/total")
METRICS += ("graded_samples", "mixed_answers", "seconds/mixed", "entropy")
SETTINGS = ("recipe.name", "recipe.trl.max_steps", "recipe.prompts_per_step", "recipe.samples_per_prompt")
SETTINGS += ("recipe.trl.num_generations", "recipe.trl.learning_rate", "task.name", "task.env.functions", "model.name")
SETTINGS += ("recipe.trl.temperature", "recipe.trl.beta", "recipe.trl.loss_type", "recipe.trl.num_iterations")
SETTINGS += ("recipe.shaping", "recipe.credit", "recipe.prefix", "recipe.curriculum", "recipe.refill")
SETTINGS += ("recipe.lookahead", "task.pass_rate_range", "task.max_new_tokens")
SETTINGS += ("task.reward", "task.env.train_size", "task.env.generated", "task.env.practice", "task.env.validation")
SETTINGS += ("model.path", "model.lora_rank", "hardware.precision", "adapter", "value", "reward", "seed", "evaluation")
EVALUATED = ("when", "step", "task", "split", "problems", "samples", "temperature", "pass@k", "reward", "verdicts")
EVALUATED += ("measures", "mean_tokens")
ANSWERED = ("when", "step", "task", "temperature", "task_id", "sample", "verdict", "passed", "reward")
FILES = {"metrics.jsonl": METRICS, "evals.jsonl": EVALUATED}
ANSWERS = dict.fromkeys(("eval_samples.jsonl", "samples.jsonl"), ANSWERED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="directories of run directories, or run directories")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--answers", action="store_true", help="also what each answer to an evaluation earned")
    args = parser.parse_args()
    for config in sorted(c for f in args.folders for c in (*f.glob("*/config.yaml"), *f.glob("config.yaml"))):
        keep(config.parent, args.output, args.answers)


def keep(run: Path, output: Path, answers: bool = False) -> None:
    """Raises SystemExit where another run's figures lie there."""
    cfg = OmegaConf.load(run / "config.yaml")
    kept = OmegaConf.create()
    for key in SETTINGS:
        if (value := OmegaConf.select(cfg, key)) is not None:
            OmegaConf.update(kept, key, value)
    folder = output / cfg.recipe.name / run.name
    files = FILES | ({name: columns for name, columns in ANSWERS.items() if (run / name).exists()} if answers else {})
    texts = {name: shortened(run / name, columns) for name, columns in files.items()}
    if any((folder / name).exists() and (folder / name).read_text() != text for name, text in texts.items()):
        sys.exit(f"{folder} holds another run: give another --output, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.yaml", OmegaConf.to_yaml(kept))
    for name, text in texts.items():
        if text:
            write_text(folder / name, text)


def shortened(file: Path, columns: Sequence[str]) -> str:
    """The file's rows with these columns and the scores, numbers of five digits."""
    rows = [
        {k: short(v) for k, v in row.items() if k in columns or k.startswith("scores/")} for row in read_jsonl(file)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def short(value):
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
