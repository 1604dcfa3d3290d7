"""Train on a task with a trainer of TRL as it is: the rivals `ssd` and `sdpo` of tests/bench/learning.py.

    python tests/bench/trl_peers.py sdpo task=basics run.dir=runs/sdpo recipe.trl.max_steps=20

ssd    simple self-distillation (Zhang et al. 2026, arXiv 2604.01193): cross-entropy on the policy's own answers, one to
       a prompt, right or wrong, drawn at temperature 1.6 from the 20 likeliest tokens with top_p=0.8, as its authors do
sdpo   self-distillation policy optimization (Hubotter et al. 2026, arXiv 2601.20802): a moving average of the policy
       that sees a right answer of the group is the teacher of the others

Prompts, model, LoRA, learning rate and the size of a step are those of recipes/grpo.py with the same settings. An
answer's reward is 1 if it passes the task's tests, else 0. Answers end at the end mark or the length limit, since TRL
does not stop them behind a code block. The folder gets config.yaml, metrics.jsonl and final/, which
recipes/eval.py adapter=FOLDER takes. A run that was stopped begins again: these trainers are not resumed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose

SHARED = (
    "output_dir", "seed", "max_steps", "learning_rate", "lr_scheduler_type", "warmup_steps", "max_grad_norm", "optim",
    "per_device_train_batch_size", "gradient_accumulation_steps", "max_completion_length", "bf16", "use_cpu",
    "disable_tqdm", "logging_steps", "remove_unused_columns", "dataloader_pin_memory", "gradient_checkpointing",
)  # fmt: skip
"""Fields that a peer takes as recipes/grpo.py has them."""
OWN: dict[str, dict[str, Any]] = {"ssd": {"temperature": 1.6, "top_k": 20, "top_p": 0.8}, "sdpo": {}}
"""Fields that a peer sets besides; all others have TRL's values."""


def verdicts(run: Any) -> tuple[Callable[..., list[float]], list[int]]:
    """A reward function as TRL takes it, and the list to which it appends how many answers it graded at each call."""
    from rewards.channel import as_completion

    problems, counts = {problem.id: problem for problem in run.task.problems("train")}, list[int]()
    loop = asyncio.new_event_loop()

    def passes(completions: Sequence[Any], problem_id: Sequence[str], **_: Any) -> list[float]:
        texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
        asked = [problems[name] for name in problem_id]
        grades = loop.run_until_complete(run.reward.grade(asked, [as_completion(run.task, text) for text in texts]))
        counts.append(len(grades))
        return [float(grade is not None and bool(grade.passed)) for grade in grades]

    return passes, counts


def trainer_of(peer: str, run: Any, reward: Callable[..., list[float]]) -> Any:
    """TRL's trainer of that name with this run's policy, prompts and settings."""
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer
    from trl.experimental.ssd import SSDConfig, SSDTrainer

    from recipes.data.training_data import prompt_dataset
    from recipes.models.load import lora

    fields = {name: getattr(run.args, name) for name in SHARED} | OWN[peer]
    fields |= {"save_strategy": "no", "report_to": "none"}
    given = {
        "model": run.policy,
        "train_dataset": prompt_dataset(run.task),
        "processing_class": run.tokenizer,
        "peft_config": lora(run.cfg.model, run.cfg.adapter),
    }
    if peer == "ssd":
        return SSDTrainer(args=SSDConfig(**fields), **given)
    fields["num_generations"] = run.args.num_generations
    fields["temperature"] = run.args.temperature
    return SDPOTrainer(args=SDPOConfig(**fields), reward_funcs=[reward], **given)


def train(peer: str, overrides: Sequence[str]) -> Path:
    """Train and return the run's folder. Raises UserError where a setting, the data or this machine is at fault."""
    from transformers import TrainerCallback
    from trl import GRPOConfig

    from recipes.run.checks import check_grpo
    from recipes.run.lifecycle import prepare

    cfg = compose(["recipe=grpo", *overrides])
    if (Path(cfg.run.dir) / "final").exists():
        raise UserError(f"run.dir={cfg.run.dir} has been trained to its end; give another folder")
    check_grpo(cfg)
    run = prepare(cfg, GRPOConfig)
    passes, counts = verdicts(run)
    metrics = run.folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)

    class Rows(TrainerCallback):
        """A row of metrics.jsonl for each step."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()
            counts.clear()

        def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
            row = {"step": state.global_step, "seconds/total": time.perf_counter() - self.began}
            row["graded_samples"] = sum(counts)
            with metrics.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{peer} step {state.global_step}/{args.max_steps} {row['seconds/total']:.1f} s", flush=True)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
            shown = ("loss", "self_distillation/reward_mean", "self_distillation/reprompt_sample_fraction")
            shown += ("completions/mean_length", "ssd/cross_entropy_loss", "grad_norm")
            print({name: round(float(logs[name]), 4) for name in shown if logs.get(name) is not None}, flush=True)

    trainer = trainer_of(peer, run, passes)
    trainer.add_callback(Rows())
    trainer.train()
    weights = run.folder / "final.tmp"
    trainer.save_model(str(weights))
    run.tokenizer.save_pretrained(weights)
    weights.rename(run.folder / "final")
    return run.folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(OWN))
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of recipes/grpo.py")
    args = parser.parse_args()
    schema.register()
    try:
        print(train(args.peer, args.overrides))
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command begins again")


if __name__ == "__main__":
    main()
