"""A run whose training began with another run's weights, which were removed since."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from recipes import chat, export
from recipes.run.trained import trained
from tests.recipes.after_training.short_run import refused


@pytest.fixture
def orphan(run, tmp_path) -> Path:
    """A copy of the run that says that it began with the weights of a folder that is not there."""
    folder = tmp_path / "orphan"
    shutil.copytree(run, folder)
    config = OmegaConf.load(folder / "config.yaml")
    config.adapter = "runs/removed"
    OmegaConf.save(config, folder / "config.yaml")
    return folder


def test_an_adapter_on_the_model_needs_nothing_of_the_adapter_that_it_grew_from(orphan, exported, tmp_path):
    assert chat.main([f"run={orphan}", "ask=Hello", "max_new_tokens=4"]) == 0
    assert export.main([f"run={orphan}", f"to={tmp_path / 'out'}"]) == 0
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / "out", exported)]
    assert weights[0] == weights[1]


def test_an_adapter_on_weights_that_are_gone_is_refused(orphan, tmp_path, capsys):
    file = orphan / "final" / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "runs/removed/final"}))
    line = refused(export.main, [f"run={orphan}", f"to={tmp_path / 'out'}"], capsys)
    assert "runs/removed" in line and "not there any more" in line and not (tmp_path / "out").exists()


def test_whole_weights_stand_by_themselves_but_have_no_average(orphan, exported, tmp_path, capsys):
    shutil.rmtree(orphan / "final")
    shutil.copytree(exported, orphan / "final")
    assert chat.main([f"run={orphan}", "ask=Hello", "max_new_tokens=4"]) == 0
    assert export.main([f"run={orphan}", f"to={tmp_path / 'out'}"]) == 0
    line = refused(export.main, [f"run={orphan}", f"to={tmp_path / 'half'}", "share=0.5"], capsys)
    assert "set share=1" in line and not (tmp_path / "half").exists()


def test_a_chain_of_adapters_on_whole_weights_is_asked_and_exported(run, exported, tmp_path):
    """Whole weights, LoRA on them, and the same LoRA trained further: the weights below are the first run's."""
    whole, first, second = (tmp_path / name for name in ("whole", "first", "second"))
    (whole / "final").parent.mkdir()
    shutil.copytree(exported, whole / "final")
    for folder, start in ((first, whole), (second, first)):
        shutil.copytree(run, folder)
        config = OmegaConf.load(folder / "config.yaml")
        config.adapter = str(start)
        OmegaConf.save(config, folder / "config.yaml")
        file = folder / "final" / "adapter_config.json"
        named = {"base_model_name_or_path": str(whole / "final")}
        file.write_text(json.dumps(json.loads(file.read_text()) | named))
    outs = [tmp_path / "out1", tmp_path / "out2"]
    for folder, out in zip((first, second), outs, strict=True):
        assert export.main([f"run={folder}", f"to={out}"]) == 0
    written = [(out / "model.safetensors").read_bytes() for out in outs]
    assert written[0] == written[1] != (exported / "model.safetensors").read_bytes()


def test_the_average_is_refused_where_a_training_went_on_with_an_adapter(run, orphan, tmp_path, capsys):
    config = OmegaConf.load(orphan / "config.yaml")
    config.adapter = str(run)
    OmegaConf.save(config, orphan / "config.yaml")
    line = refused(export.main, [f"run={orphan}", f"to={tmp_path / 'half'}", "share=0.5"], capsys)
    assert "went on with another run's adapter" in line
    config.adapter = str(tmp_path / "deleted")
    OmegaConf.save(config, orphan / "config.yaml")
    line = refused(export.main, [f"run={orphan}", f"to={tmp_path / 'half'}", "share=0.5"], capsys)
    assert "began with weights that are not there any more" in line


def test_the_card_of_the_best_step_names_that_step(run, tmp_path):
    assert json.loads((run / "final" / "trainer_state.json").read_text())["global_step"] == 2
    assert trained(str(run), None).step is None
    shutil.copytree(run, tmp_path / "best")
    (tmp_path / "best" / "final" / "trainer_state.json").write_text('{"global_step": 1}')
    assert trained(str(tmp_path / "best"), None).step == 1
    assert export.main([f"run={tmp_path / 'best'}", f"to={tmp_path / 'out'}"]) == 0
    assert "after step 1 of 2" in (tmp_path / "out" / "README.md").read_text()
