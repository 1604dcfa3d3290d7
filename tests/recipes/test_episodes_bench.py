"""tests/bench/episodes.py: which commands it runs, what it stores of a run, what its summary says."""

from __future__ import annotations

import json

import pytest

from tests.bench import episodes


def row(problem: str, *passed: bool | None) -> dict:
    """Each turn has 10 tokens."""
    return {"task_id": problem, "tokens": 10 * len(passed), "turns": [{"passed": p, "tokens": 10} for p in passed]}


ROWS = [
    *(row("basics/a", False, True), row("basics/a", True), row("basics/a", True)),
    *(row("basics/b", False, False), row("basics/b", None, True), row("basics/b", False, False)),
]
RIVAL = {"samples": 1.5, "pass@1": {"value": 0.25, "low": 0.0, "high": 0.5}}


def run_folder(folder, rows, when):
    folder.mkdir(parents=True)
    evaluation = {"turns": [{"share": 1.0}, {"share": 0.5}], "mean_tokens": 60.0, "reply_tokens": 20.0}
    name = "eval_samples.jsonl" if when == "after" else "samples.jsonl"
    before = [{"when": "before"} | row("basics/a", True, True)] if when == "after" else []
    written = [*before, *({"when": when} | r for r in rows)] if when == "after" else rows
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in written))
    (folder / "evals.jsonl").write_text(json.dumps({"when": when, "equal_tokens": RIVAL} | evaluation) + "\n")
    (folder / "config.yaml").write_text("hardware:\n  precision: fp32\n")
    if when == "after":
        (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "seconds/total": 120.0}) + "\n")


def test_what_a_run_measured_is_stored_and_summed_up(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(episodes, "STORED", tmp_path / "stored")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="has no run"):
        episodes.main(["--summary"])
    run_folder(episodes.folder("base", 0), ROWS, "eval")
    run_folder(episodes.folder("repair", 0), [row("basics/a", True), row("basics/b", False, True)], "after")
    episodes.store("base", 0, [])
    episodes.store("repair", 0, [])
    kept = json.loads((tmp_path / "stored" / "repair-fp32-seed0.json").read_text())
    assert kept["minutes"] == 2.0 and kept["turn_1"] == {"basics/a": 1.0, "basics/b": 0.0}
    assert episodes.main(["--summary", "--precision", "fp32"]) == 0
    shown = capsys.readouterr()
    line = json.loads(shown.out.splitlines()[-1])
    # of a: 2 of 3, then 3 of 3; of b: 0 of 2, then 1 of 3
    wanted = (100 / 3, 200 / 3, 100 / 3)
    assert (line["base_turn_1"], line["base_turn_2"], line["base_gain_mean"]) == pytest.approx(wanted)
    assert (line["repair_turn_1"], line["repair_turn_2"], line["repair_rival"]) == (50.0, 100.0, 25.0)
    gains = (line["repair_training_turn_1"], line["repair_training_turn_2"])
    assert gains == pytest.approx((50 - 100 / 3, 100 - 200 / 3))
    # of a: the failed episode buys both others, which pass; theirs buy one of two; b was not graded once
    assert line["base_over_rival_mean"] == pytest.approx(100 - 200 / 3)
    assert line["one_turn_seeds"] == 0 and line["one_turn_gain_mean"] is None
    assert "repair" in shown.err and "one_turn" not in shown.err


def test_its_commands_train_and_evaluate_in_episodes(capsys):
    arms = ["base", "repair", "one_turn"]
    assert episodes.main([*arms, "recipe.trl.max_steps=2", "model.path=x", "--dry-run", "--seeds", "0", "1"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 + 2 + 4
    assert all("model.path=x" in line for line in printed)
    assert all(("recipe.trl.max_steps=2" in line) == ("recipes/grpo.py" in line) for line in printed)
    assert [("episode=repair" in line) for line in printed] == [True] * 4 + [False, True] * 2
    assert episodes.main(["sft_repair", "recipe.trl.max_steps=2", "--dry-run", "--seeds", "0"]) == 0
    draw, sft, grpo = capsys.readouterr().out.splitlines()
    assert "evaluation.split=train" in draw and all("episode=repair" in line for line in (draw, sft, grpo))
    assert "recipe.answers=runs/episodes/drawn" in sft and "recipe.trl.max_steps=60" in sft
    assert "adapter=runs/episodes/sft-training-seed0" in grpo and "recipe.trl.max_steps=2" in grpo
    with pytest.raises(SystemExit):
        episodes.main(["best"])
    assert "'best' is no arm" in capsys.readouterr().err
