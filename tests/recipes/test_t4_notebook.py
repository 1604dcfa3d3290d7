"""launch/t4.ipynb: every cell runs, on the CPU with a tiny model in place of the one for a T4."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest

from recipes.cli.overrides import compose
from recipes.cli.schema import register
from recipes.records.jsonl import write_jsonl
from tests.recipes.after_training.short_run import ROWS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def notebook():
    return nbformat.read(ROOT / "launch" / "t4.ipynb", as_version=4)


def parameters(notebook):
    """The cell whose values a reader changes."""
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    return cell


def test_the_first_cell_says_that_it_has_not_run_on_a_t4(notebook):
    nbformat.validate(notebook)
    assert "Not yet run on a T4" in notebook.cells[0].source
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_its_settings_are_those_of_30_steps_in_4_bits(notebook):
    values: dict = {}
    exec(parameters(notebook).source, values)  # this repository's own text
    register()
    cfg = compose(["recipe=grpo", *values["SETTINGS"]])
    assert (cfg.model.path, cfg.hardware.load_in_4bit) == ("Qwen/Qwen2.5-Coder-0.5B-Instruct", True)
    assert (cfg.recipe.trl.max_steps, cfg.hardware.name) == (30, "t4")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cell_runs_on_a_cpu(notebook, tiny_model, tmp_path):
    write_jsonl(tmp_path / "mine.jsonl", ROWS)
    settings = [
        "task=basics",
        f"task.env.path={tmp_path / 'mine.jsonl'}",
        "task.env.train_size=2",
        "recipe.prompts_per_step=2",
        f"model.path={tiny_model}",
        "hardware.precision=fp32",
        "+debug=fast",
        "task.also_evaluate=[]",
        "task.max_new_tokens=6",
    ]
    parameters(notebook).source = f"SETTINGS, RUN, INSTALL = {settings!r}, {str(tmp_path / 'run')!r}, False"
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("<iframe" in text for text in shown) and any("fits: " in text for text in shown)
    assert any("too short to tell" in text for text in shown) and (tmp_path / "run" / "final").is_dir()
