"""A run whose training began with another run's weights, which were removed since."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from recipes import chat, export
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
