"""Averages of weights, and parts of a training's change, that recipes/export.py writes; with the tiny models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from recipes import export
from recipes.tools.export.weights import Kept, full_weights, largest_directions
from tests.recipes.after_training.short_run import SMALL, python, refused
from tests.recipes.test_configs import compose


@pytest.fixture(scope="module")
def second_run(tiny_model, place) -> Path:
    """As `run`, with all weights and another seed."""
    own = (f"task.env.path={place / 'mine.jsonl'}", "task.env.train_size=2", f"model.path={tiny_model}")
    python("sft", "task=basics", *own, *SMALL, "model.lora_rank=0", "seed=1", "run.dir=second", cwd=place)
    return place / "second"


def test_an_averaged_export_lies_between_the_start_and_the_end(run, exported, tmp_path):
    assert export.main([f"run={run}", f"to={tmp_path / 'out'}", "share=0.25"]) == 0
    folders = (OmegaConf.load(run / "config.yaml").model.path, exported, tmp_path / "out")
    start, end, between = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    assert any(not torch.equal(start[name], end[name]) for name in start)
    for name in start:
        torch.testing.assert_close(between[name], torch.lerp(start[name], end[name], 0.25))
    assert "0.25 of the trained ones and 0.75 of the others" in (tmp_path / "out" / "README.md").read_text()


def test_two_runs_are_averaged_whatever_they_trained(run, exported, second_run, tmp_path):
    """Of the first all weights were trained, of the second an adapter."""
    assert export.main([f"run={second_run}", f"to={tmp_path / 'second'}"]) == 0
    assert export.main([f"run={second_run}", f"other={run}", f"to={tmp_path / 'half'}"]) == 0
    assert export.main([f"run={second_run}", f"other={run}", f"to={tmp_path / 'most'}", "share=0.75"]) == 0
    folders = (exported, tmp_path / "second", tmp_path / "half", tmp_path / "most")
    first, second, half, most = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    assert sum(not torch.equal(first[name], second[name]) for name in first) > len(first) / 2
    for name in first:
        torch.testing.assert_close(half[name], (first[name] + second[name]) / 2)
        torch.testing.assert_close(most[name], torch.lerp(first[name], second[name], 0.75))
    card = (tmp_path / "most" / "README.md").read_text()
    assert "averaged with those of another run, tiny: 0.75 of the trained ones and 0.25 of the others" in card


def test_three_runs_are_averaged_in_equal_parts_or_with_a_share_of_the_first(run, exported, second_run, tmp_path):
    third = tmp_path / "third"
    shutil.copytree(second_run, third)
    weights = load_file(third / "final" / "model.safetensors")
    save_file({name: 3 * w for name, w in weights.items()}, third / "final" / "model.safetensors", {"format": "pt"})
    assert export.main([f"run={second_run}", f"to={tmp_path / 'second'}"]) == 0
    for name, share in {"equal": [], "most": ["share=0.8"]}.items():
        assert export.main([f"run={run}", f"other={second_run},{third}", f"to={tmp_path / name}", *share]) == 0
    folders = (exported, tmp_path / "second", tmp_path / "equal", tmp_path / "most")
    first, second, equal, most = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    for name in first:
        torch.testing.assert_close(equal[name], (first[name] + 4 * second[name]) / 3)
        torch.testing.assert_close(most[name], 0.8 * first[name] + 0.4 * second[name])
    card = (tmp_path / "equal" / "README.md").read_text()
    assert f"those of 2 other runs, {second_run.name}, third: 0.333 of the trained ones and 0.667 of the others" in card


def test_the_main_directions_of_a_change_are_kept_and_the_embeddings_are_as_before(run, exported, second_run, tmp_path):
    """Of `second_run` all weights were trained, of `run` an adapter, which has its own rank."""
    for name, given in {
        "whole": [f"run={second_run}"],
        "one": [f"run={second_run}", "rank=1"],
        "half": [f"run={second_run}", "rank=1", "share=0.5"],
        "both": [f"run={run}", f"other={second_run}", "rank=1"],
    }.items():
        assert export.main([*given, f"to={tmp_path / name}"]) == 0
    folders = (
        OmegaConf.load(run / "config.yaml").model.path,
        *(tmp_path / n for n in ("whole", "one", "half", "both")),
    )
    start, whole, one, half, both = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    adapted = AutoModelForCausalLM.from_pretrained(exported).state_dict()
    assert any(not torch.equal(start[name], whole[name]) for name in start if "embed" in name)
    for name, before in start.items():
        change = whole[name] - before
        if "embed" in name or "lm_head" in name:
            change = torch.zeros_like(change)
        elif change.ndim == 2:
            left, sizes, right = torch.linalg.svd(change)
            change = sizes[0] * torch.outer(left[:, 0], right[0])
        close = {"rtol": 1e-4, "atol": 1e-6}
        torch.testing.assert_close(one[name], before + change, **close)
        torch.testing.assert_close(half[name], before + change / 2, **close)
        torch.testing.assert_close(both[name], (adapted[name] + one[name]) / 2, **close)
    assert "the change of each matrix is reduced to rank 1" in (tmp_path / "one" / "README.md").read_text()


def test_directions_are_kept_of_each_matrix_of_a_stack():
    stack = torch.randn(3, 5, 4)
    assert torch.allclose(largest_directions(stack, 4), stack, atol=1e-5)
    kept = largest_directions(stack, 2)
    assert torch.linalg.matrix_rank(kept).tolist() == [2, 2, 2]
    assert torch.allclose(kept[1], largest_directions(stack[1], 2), atol=1e-5)


def test_runs_of_different_models_have_no_average(run, tmp_path, capsys):
    python("ppo", "task=pacman", "recipe.trl.max_steps=1", "run.dir=run", "evaluation.samples=0", cwd=tmp_path)
    refusal = refused(export.main, [f"run={run}", f"other={tmp_path / 'run'}", f"to={tmp_path / 'out'}"], capsys)
    assert "its model has other weights than run=" in refusal and not (tmp_path / "out").exists()


def test_all_weights_are_averaged_too(tiny_model, tiny_tokenizer, tmp_path):
    start = AutoModelForCausalLM.from_pretrained(tiny_model)
    end = AutoModelForCausalLM.from_pretrained(tiny_model)
    for parameter in end.parameters():
        parameter.data += torch.randn_like(parameter)
    end.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    cfg = compose(f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32", recipe="sft")
    between = full_weights(cfg.model, cfg.hardware, str(tmp_path), torch.float32, Kept(0.5)).state_dict()
    for name, value in start.state_dict().items():
        torch.testing.assert_close(between[name], (value + end.state_dict()[name]) / 2)


def test_a_folder_whose_name_has_commas_is_one_run(tmp_path):
    folder = tmp_path / "seed=0,reward=dense"
    folder.mkdir()
    assert export.others_of(export.ExportConfig(other=str(folder))) == [str(folder)]
    assert export.others_of(export.ExportConfig(other=f"{folder.parent}/a,{folder.parent}/b")) == [
        f"{folder.parent}/a",
        f"{folder.parent}/b",
    ]
    assert export.others_of(export.ExportConfig()) == []
