"""`table.py best` and `table.py resume`: which step is best, and which runs have not ended."""

from __future__ import annotations

import shutil

from omegaconf import OmegaConf

from recipes import table
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.tools.progress import best
from tests.recipes.after_training.short_run import refused


def test_the_best_evaluated_step_is_named_with_its_weights(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "runs" / "one")
    rows = read_jsonl(run / "evals.jsonl")
    for row in rows:
        value = {0: 0.25, 1: 0.75, 2: 0.5}[row["step"]]
        row["pass@k"] = {"1": {"value": value, "low": value - 0.1, "high": value + 0.1}}
    write_jsonl(tmp_path / "runs" / "one" / "evals.jsonl", rows)
    assert table.main(["best", f"runs={tmp_path / 'runs'}"]) == 0
    message = capsys.readouterr().out
    assert "step=1 to=FOLDER" in message and "0.750" in message and "Chosen by the test split" in message
    shutil.rmtree(tmp_path / "runs" / "one" / "checkpoints" / "checkpoint-1")
    assert table.main(["best", f"runs={tmp_path / 'runs'}"]) == 0 and "not kept" in capsys.readouterr().out
    assert "no training below" in refused(table.main, ["best", f"runs={tmp_path / 'nothing'}"], capsys)
    for row in rows:
        row["pass@k"]["1"]["value"] = 1.0 - row["step"] / 10
    write_jsonl(tmp_path / "runs" / "one" / "evals.jsonl", rows)
    for adapter, place in ((None, "the base model"), ("earlier", "adapter=earlier")):
        cfg = OmegaConf.load(run / "config.yaml")
        cfg.adapter = adapter
        OmegaConf.save(cfg, tmp_path / "runs" / "one" / "config.yaml")
        found = best(tmp_path / "runs" / "one", OmegaConf.to_container(cfg))
        assert found is not None and (found.step, found.weights) == (0, place)


def test_unfinished_runs_are_listed_with_what_resumes_them(run, unfinished, place, capsys):
    assert table.main(["resume", f"runs={run.parent}"]) == 0
    assert "1 of 1 trainings" in capsys.readouterr().out
    assert table.main(["resume", f"runs={unfinished}"]) == 0
    message = capsys.readouterr().out
    assert "0 of 1 trainings" in message and "at step 2 of 2" in message and "sft.py task=basics" in message
    assert "cannot be resumed" not in message
    config = OmegaConf.load(unfinished / "config.yaml")
    config.recipe.batch_size = 7
    OmegaConf.save(config, unfinished / "config.yaml")
    assert table.main(["resume", f"runs={unfinished}"]) == 0
    assert "cannot be resumed: conf/ has changed since: recipe.batch_size was 7, is 2" in capsys.readouterr().out
