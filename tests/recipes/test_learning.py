"""tests/bench/learning.py: which commands it runs, how gains are computed, what its summary says."""

from __future__ import annotations

import json

import pytest

from tests.bench import learning


def run_of(arm: str, seed: int, greedy: dict[str, float], **more) -> dict:
    row = {"arm": arm, "seed": seed, "precision": "fp32", "minutes": 10.0 + seed, "updates": 3, "graded_samples": 5}
    return row | {"greedy": greedy} | {"sampled": dict.fromkeys(greedy, 0.5), "humaneval": {"HumanEval/0": 1.0}} | more


NAMES = [f"basics/p{i}" for i in range(40)] + [f"basics/new/f{i}/0" for i in range(40)]
BASE = run_of("base", 0, dict.fromkeys(NAMES, 0.0))
BETTER = dict.fromkeys(NAMES, 0.0) | {f"basics/p{i}": 1.0 for i in range(20)}


def test_a_gain_is_paired_by_problem_with_an_interval():
    shares = learning.of_set(BASE, "greedy", "written")
    assert len(shares) == 40 and not any(name.startswith("basics/new/") for name in shares)
    gain = learning.gain([(shares, learning.of_set({"greedy": BETTER}, "greedy", "written"))] * 2)
    assert gain["mean"] == 50.0 and 30 < gain["low"] < 50 < gain["high"] < 70
    assert learning.gain([(shares, shares)]) == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert learning.gain([]) is None and learning.gain([(shares, {})]) is None


def test_runs_are_compared_with_the_base_model_in_their_own_precision(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "STORED", tmp_path)
    for number, row in enumerate((BASE, run_of("base", 0, BETTER, precision="bf16"), run_of("own", 0, BETTER))):
        (tmp_path / f"{number}-seed0.json").write_text(json.dumps(row))
    fp32, bf16 = learning.stored("fp32"), learning.stored("bf16")
    assert learning.over_base(fp32, "own", "greedy", "written")["mean"] == 50.0
    assert len(bf16["base"]) == 1 and learning.over_base(bf16, "own", "greedy", "written") is None


def test_the_summary_is_of_stored_runs_and_says_none_where_one_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning, "STORED", tmp_path)
    with pytest.raises(SystemExit, match="has no run of base"):
        learning.main(["--summary"])
    for row in (
        BASE,
        run_of("own", 0, BETTER),
        run_of("own", 1, BETTER),
        run_of("sft", 0, BASE["greedy"]),
    ):
        (tmp_path / f"{row['arm']}-seed{row['seed']}.json").write_text(json.dumps(row))
    assert learning.main(["--summary"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["greedy_gain_mean"], line["new_families_gain_mean"], line["humaneval_change"]) == (50.0, 0.0, 0.0)
    assert (line["seeds"], line["minutes"], line["sampled_after"]) == (2, 11.0, 50.0)
    assert line["sft_greedy_gain_mean"] == 0.0 and line["stock_grpo_greedy_gain_mean"] is None


def test_its_commands_compose_and_an_unknown_arm_is_named(capsys):
    assert learning.main(["--dry-run", "--seeds", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("recipes/grpo.py") == 4 and "share=0.5" in printed and "recipe.references=false" in printed
    with pytest.raises(SystemExit):
        learning.main(["best"])
    assert "'best' is no arm" in capsys.readouterr().err


def test_what_is_finished_is_not_done_again(tmp_path):
    evaluation = ["recipes/eval.py", "task=basics", f"run.dir={tmp_path}"]
    training = ["recipes/sft.py", f"run.dir={tmp_path}"]
    assert not learning.finished(evaluation) and not learning.finished(training)
    (tmp_path / "evals.jsonl").touch()
    assert learning.finished(evaluation) and not learning.finished(training)
    (tmp_path / "report.html").touch()
    assert learning.finished(training)
    assert learning.finished(["recipes/export.py", f"to={tmp_path}"])
    assert not learning.finished(["recipes/export.py", f"to={tmp_path / 'new'}"])
