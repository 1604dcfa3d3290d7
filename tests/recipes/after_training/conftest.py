"""The run that these tests look at, what it exports to, and the same run before it has ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from recipes import export
from recipes.records.jsonl import write_jsonl
from tests.recipes.after_training.short_run import ROWS, SMALL, python


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("after")
    write_jsonl(folder / "mine.jsonl", ROWS)
    return folder


@pytest.fixture(scope="session")
def run(tiny_model, place) -> Path:
    """Two steps of SFT with LoRA on the tiny model, with their checkpoints. (Of GRPO it would learn nothing.)"""
    own = (f"task.env.path={place / 'mine.jsonl'}", "task.env.train_size=2", f"model.path={tiny_model}")
    python("sft", "task=basics", *own, *SMALL, "run.name=tiny", cwd=place)
    return place / "runs" / "sft" / "basics" / "tiny"


@pytest.fixture(scope="session")
def exported(run, place) -> Path:
    assert export.main([f"run={run}", f"to={place / 'exported'}"]) == 0
    return place / "exported"


@pytest.fixture
def unfinished(run, tmp_path) -> Path:
    folder = tmp_path / "unfinished"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "final")
    return folder
