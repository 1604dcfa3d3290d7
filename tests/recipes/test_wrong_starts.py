"""Starts that cannot work are one line: from a checkpoint that was cut, of a model that cannot read the task."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from recipes.cli.errors import UserError
from recipes.models.adapter_base import check_adapter_base
from recipes.records.checkpoint_folders import latest_checkpoint
from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]
SHORT = ("recipe.trl.max_steps=2", "recipe.trl.save_steps=2", "evaluation.samples=0", "evaluation.greedy=false")


def run(name: str, folder: Path, *overrides: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "recipes" / f"{name}.py", f"run.dir={folder}", *SHORT, *overrides]
    return warm.run(command, cwd=folder.parent)


def refusal(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 2, done.stderr[-2000:]
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A finished run of two steps on pacman, whose model knows six tokens."""
    folder = tmp_path_factory.mktemp("finished") / "moves"
    done = run("reinforce", folder, "task=pacman")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pass@1 on held-out problems" not in done.stdout  # nothing was evaluated, so there is no table
    return folder


@pytest.fixture
def moves(finished, tmp_path) -> Path:
    """A copy of it, to spoil."""
    return shutil.copytree(finished, tmp_path / "moves")


def test_what_is_not_measured_is_not_reported(moves):
    """Without a reference policy there is no KL."""
    rows = read_jsonl(moves / "metrics.jsonl")
    assert len(rows) == 2 and not any("objective/kl" in row for row in rows)


def test_a_checkpoint_that_was_cut_is_named(moves):
    newest = latest_checkpoint(moves)
    assert newest is not None
    file = newest / "optimizer.pt"
    file.write_bytes(file.read_bytes()[:100])
    told = refusal(run("reinforce", moves, "task=pacman", "recipe.trl.max_steps=3"))
    assert f"{file} is not whole: remove {newest} to go on from the checkpoint before it" in told


def test_weights_that_were_cut_are_named_before_they_load(moves, tmp_path):
    file = moves / "final" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    told = refusal(run("grpo", tmp_path / "next", "task=pacman", f"adapter={moves}"))
    assert "model.safetensors is not whole" in told and not (tmp_path / "next").exists()


def test_a_model_that_cannot_read_the_task_is_named(moves, tmp_path):
    whole = f"model.path={moves / 'final'}"
    for recipe, asked in (("grpo", f"adapter={moves}"), ("eval", whole), ("pairs", "model=moves"), ("check", whole)):
        how = {"eval": ["evaluation.greedy=true"], "check": ["pass_rate=2"]}.get(recipe, [])
        command = [sys.executable, ROOT / "recipes" / f"{recipe}.py", "task=basics", "task.also_evaluate=[]", asked]
        done = warm.run([*command, *how, f"run.dir={tmp_path / 'next'}"], cwd=tmp_path)
        assert "its tokenizer cannot read a prompt of task=basics" in refusal(done)
        assert not (tmp_path / "next").exists() and "are sound" not in done.stdout  # no reference was graded
    done = run("grpo", tmp_path / "next", "task=pacman", f"adapter={moves}", "task.also_evaluate=[basics]")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "its tokenizer cannot read a prompt of task=basics" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "next").exists()
    told = refusal(run("sft", tmp_path / "next", "task=pacman"))
    assert "cannot read an answer to imitate of task=pacman" in told and not (tmp_path / "next").exists()


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory, tiny_tokenizer) -> Path:
    """A tiny GPT-2 that sees 64 tokens at once, with a tokenizer."""
    folder = tmp_path_factory.mktemp("gpt2") / "model"
    size = {"vocab_size": len(tiny_tokenizer), "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64}
    GPT2LMHeadModel(GPT2Config(**size)).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


def test_a_context_that_is_too_short_is_named(gpt2, tmp_path):
    asked = [sys.executable, ROOT / "recipes" / "eval.py", "task=basics", "task.also_evaluate=[]", f"model.path={gpt2}"]
    done = warm.run([*asked, "evaluation.max_new_tokens=8", f"run.dir={tmp_path / 'run'}"], cwd=tmp_path)
    assert "sees 64 tokens at once, and a prompt of task=basics with its answer may have" in refusal(done)
    assert not (tmp_path / "run").exists()


def test_adapters_of_a_gpt2_fit_it(gpt2, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(gpt2)
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    adapted.save_pretrained(tmp_path / "adapter")
    check_adapter_base(str(gpt2), tmp_path / "adapter")
    adapted.save_pretrained(tmp_path / "old", safe_serialization=False)
    (tmp_path / "old" / "adapter_model.safetensors").unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"old has no adapter_model\.safetensors"):
        check_adapter_base(str(gpt2), tmp_path / "old")


def test_a_tokenizer_without_an_end_is_named(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    settings = folder / "tokenizer_config.json"
    kept = {
        key: value for key, value in json.loads(settings.read_text()).items() if key not in ("eos_token", "pad_token")
    }
    settings.write_text(json.dumps(kept))
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    told = refusal(run("grpo", tmp_path / "run", "task=basics", "task.also_evaluate=[]", f"model.path={folder}"))
    assert "its tokenizer has no end of sequence; name one as eos_token" in told and not (tmp_path / "run").exists()


def test_modules_that_the_model_does_not_have_are_named(tiny_model, tmp_path):
    how = ("task=basics", "task.also_evaluate=[]", f"model.path={tiny_model}", "model.lora_targets=foo")
    told = refusal(run("grpo", tmp_path / "run", *how))
    assert "model.lora_targets=foo: " in told and not (tmp_path / "run").exists()


def test_an_adapter_on_random_weights_is_named(tmp_path):
    done = run("reinforce", tmp_path / "moves", "task=pacman", "model.lora_rank=4")
    assert done.returncode == 0, done.stderr[-2000:]
    told = refusal(run("reinforce", tmp_path / "next", "task=pacman", f"adapter={tmp_path / 'moves'}"))
    assert "lies on random weights (model.path=scratch), which were not kept" in told


def test_a_profile_of_several_machines_names_the_whole_command_for_slurm(tmp_path):
    """Also where no GPU is visible, as on the node that users log in to."""
    line = refusal(run("grpo", tmp_path / "run", "hardware=slurm_nodes", "seed=7"))
    sbatch = "sbatch --nodes=2 --gres=gpu:4 launch/slurm_nodes.sh"
    assert f"{sbatch} recipes/grpo.py run.dir={tmp_path / 'run'}" in line.replace(f"{ROOT}/", "")
    assert "hardware=slurm_nodes seed=7, or set hardware.num_machines=1" in line and not (tmp_path / "run").exists()
