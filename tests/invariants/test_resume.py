"""A run that was killed and started again leaves the same metrics as one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.support.run_log import CLOCK, read_jsonl

ROOT = Path(__file__).parents[2]


def command(tiny_model: Path, folder: Path, *extra: str) -> list[str]:
    return [
        sys.executable,
        str(ROOT / "recipes" / "grpo.py"),
        f"model.path={tiny_model}",
        "model.lora_rank=4",
        "hardware.precision=fp32",
        "recipe.max_steps=6",
        "recipe.save_steps=2",
        "recipe.prompts_per_step=2",
        "recipe.num_generations=4",
        "recipe.max_new_tokens=8",
        "recipe.learning_rate=0.01",
        "+task.reward.parity._target_=tests.recipes.channels.TokenParity",
        "+task.reward.parity.weight=1.0",
        "evaluation.samples=0",
        "evaluation.greedy=false",
        f"run.dir={folder}",
        *extra,
    ]


def metrics(folder: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.startswith(CLOCK)} for row in read_jsonl(folder / "metrics.jsonl")]


@pytest.mark.parametrize("extra", [(), ("recipe.num_iterations=2",)], ids=["on-policy", "two updates a rollout"])
def test_killed_and_resumed_equals_uninterrupted(tiny_model, tmp_path, extra):
    subprocess.run(command(tiny_model, tmp_path / "whole", *extra), check=True, capture_output=True)
    whole = metrics(tmp_path / "whole")
    assert [row["step"] for row in whole] == [1, 2, 3, 4, 5, 6]
    assert any(row["grad_norm"] > 0 for row in whole)

    cut = tmp_path / "cut"
    process = subprocess.Popen(
        command(tiny_model, cut, *extra),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(read_jsonl(cut / "metrics.jsonl")) < 3:
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (cut / "metrics.jsonl").open("a").write('{"step": 4, "rew')  # a line cut off by the kill
    assert not (cut / "final").exists()

    subprocess.run(command(tiny_model, cut, *extra), check=True, capture_output=True)
    assert metrics(cut) == whole
    assert (cut / "final" / "adapter_model.safetensors").read_bytes() == (
        tmp_path / "whole" / "final" / "adapter_model.safetensors"
    ).read_bytes()
