"""DeepSpeed's ZeRO on two CPU processes: the numbers of plain data-parallel training, checkpoints that go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recipes.models.load import load_policy
from recipes.records.jsonl import read_jsonl
from recipes.records.log import CLOCK
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.distributed, pytest.mark.timeout(1800)]  # set-up takes minutes
RECIPES = pytest.mark.parametrize("runs", ["grpo", pytest.param("ppo", marks=pytest.mark.slow)], indirect=True)
ADAPTER = Path("final") / "adapter_model.safetensors"


@pytest.fixture(scope="module")
def runs(request, tiny_model, tmp_path_factory) -> Path:
    """What zero_runs.py makes with one recipe."""
    pytest.importorskip("deepspeed")
    folder = tmp_path_factory.mktemp("zero")
    launcher = (sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", "0")
    files = ("--config_file", str(ROOT / "launch" / "cpux2.yaml"), str(ROOT / "tests" / "distributed" / "zero_runs.py"))
    done = subprocess.run(
        [*launcher, *files, str(tiny_model), str(folder), request.param],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-8000:]
    return folder


@RECIPES
def test_zero_2_stopped_and_resumed_equals_plain_data_parallel(runs):
    plain, sharded = (read_jsonl(runs / kind / "metrics.jsonl") for kind in ("plain", "zero2"))
    assert [row["step"] for row in plain] == [row["step"] for row in sharded] == [1, 2, 3]
    for a, b in zip(plain, sharded, strict=True):
        for key in a:
            if not key.startswith(CLOCK):
                assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-3), key
    one, two = (load_file(runs / kind / ADAPTER) for kind in ("plain", "zero2"))
    assert any(tensor.abs().max() > 0.01 for name, tensor in one.items() if "lora_B" in name)  # they start at zero
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-3), name
    config = (runs / "zero2" / "config.yaml").read_text()
    assert "zero_stage: 2" in config and "processes: 2" in config


@RECIPES
def test_an_adapter_of_two_processes_loads_on_one(runs, tiny_model):
    cfg = compose(f"model.path={tiny_model}", f"adapter={runs / 'zero2'}")
    policy, _ = load_policy(cfg.model, cfg.hardware, cfg.adapter)
    kept = load_file(runs / "zero2" / ADAPTER)
    own = {name.replace(".default.", "."): p for name, p in policy.named_parameters() if "lora_" in name}
    assert own.keys() == kept.keys()
    assert all(torch.equal(own[name].float(), kept[name].float()) for name in kept)


@pytest.mark.parametrize("runs", ["grpo"], indirect=True)
def test_zero_3_trains_evaluates_and_keeps_its_weights(runs):
    folder = runs / "zero3"
    assert [row["step"] for row in read_jsonl(folder / "metrics.jsonl")] == [1, 2]
    assert {row["when"] for row in read_jsonl(folder / "evals.jsonl")} == {"before", "step 1", "after"}
    weights = load_file(folder / ADAPTER)
    assert all(tensor.numel() for tensor in weights.values())
    assert any(tensor.abs().max() > 0 for name, tensor in weights.items() if "lora_B" in name)
    # run.keep=best, where the first step is named as the best (zero_runs.py)
    first, last = (load_file(folder / "checkpoints" / f"checkpoint-{n}" / ADAPTER.name) for n in (1, 2))
    assert all(torch.equal(weights[name], first[name]) for name in weights)
    assert any(not torch.equal(first[name], last[name]) for name in weights)
