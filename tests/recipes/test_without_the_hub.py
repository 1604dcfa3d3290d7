"""Each recipe with each task, with the hub switched off: one line says what is missing, and nothing is left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).parents[2]
TASKS = sorted(f.stem for f in (ROOT / "conf" / "task").glob("*.yaml") if f.stem != "schema")
FROM_THE_HUB = ("mbpp", "mbpp_sanitized", "mbppplus", "deepcoder", "puzzles")
"""Tasks whose rows, or some of them, come from the hub or from a file that the user names."""


RUNS = dict.fromkeys(("grpo", "sft"), TASKS)
RUNS |= {recipe: ["basics", *FROM_THE_HUB] for recipe in ("ppo", "reinforce", "dpo", "pairs", "eval", "check")}


@pytest.mark.parametrize("recipe", RUNS)
def test_one_line_and_nothing_left_behind(recipe, tmp_path, monkeypatch):
    """The model is missing too, so that no task whose data is here goes on to train."""
    for name in ("MBPP_OVERRIDE_PATH", "HUMANEVAL_OVERRIDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    for task in RUNS[recipe]:
        more = ["recipe.pairs=./no/such/pairs.jsonl"] if recipe == "dpo" else []
        model = ["pass_rate=2"] if recipe == "check" else []
        command = [sys.executable, ROOT / "recipes" / f"{recipe}.py", f"task={task}", "model.path=./no/such/model"]
        done = warm.run([*command, *more, *model], cwd=tmp_path)
        told = f"{recipe} {task}: {done.stdout[-500:]}{done.stderr[-2000:]}"
        assert done.returncode == 2, told
        assert [line[:7] for line in done.stderr.splitlines()] == ["error: "], told
        assert not any(tmp_path.iterdir()), told
        if task in FROM_THE_HUB and recipe != "dpo":  # which says first that there are no pairs
            assert "task.env" in done.stderr, told  # the setting that replaces the data


@pytest.mark.parametrize("recipe", ["eval", "pairs", "check"])
def test_a_model_of_the_hub_is_missed_before_anything_is_kept(recipe, tmp_path):
    more = ["pass_rate=2"] if recipe == "check" else []
    command = [sys.executable, ROOT / "recipes" / f"{recipe}.py", "task=basics", "model=qwen25_coder_0_5b", *more]
    done = warm.run([*command, "run.dir=run"], cwd=tmp_path)
    assert done.returncode == 2, done.stderr[-2000:]
    assert [line[:7] for line in done.stderr.splitlines()] == ["error: "]
    assert not any(tmp_path.iterdir()) and "are sound" not in done.stdout  # no reference was graded
