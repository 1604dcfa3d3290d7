"""What compares evaluations compares the same problems, at the latest step, and says nothing where nothing is there."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from recipes.records.jsonl import write_jsonl
from recipes.tools.card import model_card
from recipes.tools.diagnosis import held_out
from recipes.tools.diagnosis.hacking import HeldOutAlarm
from recipes.tools.diagnosis.history import load_history
from recipes.tools.report.figures import of_last_evaluation
from recipes.tools.report.page import gains as gains_on_the_page
from tests.bench import gain


def evaluation(when, step, value, task="basics", **more):
    share = {"value": value, "low": value - 0.1, "high": value + 0.1}
    row = {"when": when, "step": step, "task": task, "split": "test", "samples": 1, "temperature": 0, "problems": 66}
    return row | {"pass@k": {"1": share}} | more


def test_the_doctor_compares_problems_that_both_evaluations_graded():
    """One solved problem without a grade is no fall."""
    before = {f"p{n}": float(n < 30) for n in range(66)}
    later = {name: passed for name, passed in before.items() if name != "p0"}
    rows = [evaluation("before", 0, 30 / 66), evaluation("after", 9, 29 / 65)]
    known = dict(zip(map(held_out.evaluated, rows), (before, later), strict=True))
    run = SimpleNamespace(evals=rows, held_out=known, setting=lambda key: "basics")
    [found] = held_out.gains(run)
    assert found.points == 0 and found.before == 29 / 65 and found.changed == (0, 0)


@pytest.mark.parametrize("changed", [{"samples": 8}, {"split": "validation"}])
def test_the_doctor_keeps_apart_what_was_evaluated_again_with_other_settings(changed, tmp_path):
    """A finished run is asked for again with another evaluation.samples or evaluation.split."""
    sampled = {"samples": 4, "temperature": 1.0}
    shares = (("before", 0, 20, sampled), ("after", 9, 40, sampled))
    shares += (("before", 0, 30, sampled | changed), ("after", 9, 24, sampled | changed))
    evals = [evaluation(when, step, right / 66, **how) for when, step, right, how in shares]
    keys = ("when", "step", "task", "split", "temperature")
    answers = [
        {key: row[key] for key in keys} | {"task_id": f"{row['split']}{n}", "sample": sample, "passed": n < right}
        for row, (_, _, right, _) in zip(evals, shares, strict=True)
        for n in range(66)
        for sample in range(row["samples"])
    ]
    (tmp_path / "config.yaml").write_text("task: {name: basics}")
    write_jsonl(tmp_path / "evals.jsonl", evals)
    write_jsonl(tmp_path / "eval_samples.jsonl", answers)
    first, second = held_out.gains(load_history(tmp_path))
    assert (first.before, first.after) == (20 / 66, 40 / 66) and (second.before, second.after) == (30 / 66, 24 / 66)
    assert second.changed == (0, 6)


def test_a_fall_of_the_runs_own_task_stays_serious_beside_a_larger_one(monkeypatch):
    own = held_out.Gain("basics", True, "greedy", False, 0.6, 0.45, 0.03, 9, None)
    other = held_out.Gain("humaneval", False, "greedy", False, 0.6, 0.3, 0.03, 9, None)
    monkeypatch.setattr(held_out, "gains", lambda run: [own, other])
    monkeypatch.setattr(held_out, "smaller_updates", lambda run: "a smaller learning rate")
    finding = held_out.held_out_fell(SimpleNamespace(setting=lambda key: None))
    assert (
        finding.severity == "serious" and "on basics (greedy)" in finding.evidence and "humaneval" in finding.evidence
    )


def test_an_alarm_has_not_passed_because_nothing_was_paid_since():
    alarm = HeldOutAlarm("unit_tests", 8, 4)
    alarm.raised_at = 3
    alarm.rows = [{"step": n, "paid": 8 * (n < 5), "failing": 6 * (n < 5)} for n in range(1, 12)]
    assert alarm.recent_share() == 0.75
    alarm.rows = [row for row in alarm.rows if row["step"] >= 6]
    assert alarm.recent_share() == 1.0


def test_the_report_draws_the_latest_evaluation_whatever_was_added_last():
    after, before = {"when": "after", "step": 30, "id": 1}, {"when": "before", "step": 0, "id": 2}
    assert of_last_evaluation([after, before]) == [after] and of_last_evaluation([]) == []
    rows = [evaluation("before", 0, 0.4), evaluation("after", 20, 0.6), evaluation("step 40", 40, 0.3)]
    [shown] = gains_on_the_page(rows)
    assert shown["at"] == "step 40" and shown["gain"] == pytest.approx(-10)
    [shown] = gains_on_the_page(rows[:2])
    assert shown["at"] == "" and shown["gain"] == pytest.approx(20)


def test_a_card_gives_no_figure_of_the_model_before_training():
    def published(*rows):
        weights = model_card.Weights(None, False, ())
        source = model_card.Source("a model", None, None)
        data = model_card._header("run", {"model": {}, "task": {}}, source, weights, rows)
        return [result.metric_value for result in data.eval_results or ()]

    before, after = evaluation("before", 0, 0.47), evaluation("after", 30, 0.6)
    assert published(before) == []
    assert published(after, before) == published(before, after) == [0.6]
    assert model_card._before_and_later([before, evaluation("after", 30, 0.6, samples=4, temperature=1)]) == []
    assert len(model_card._before_and_later([after, before])) == 1


def test_gains_of_several_runs_are_over_the_same_problems(tmp_path, monkeypatch, capsys):
    passed = {"base": [0] * 10, "a": [1] * 5 + [0] * 5, "b": [None] * 5 + [0] * 5}
    for name, verdicts in passed.items():
        rows = [
            {
                "task_id": f"p{n}",
                "family": f"p{n}",
                "passed": None if v is None else bool(v),
                "verdict": "",
                "reward": None if v is None else v,
                "temperature": 0,
            }
            for n, v in enumerate(verdicts)
        ]
        (tmp_path / name).mkdir()
        write_jsonl(tmp_path / name / "samples.jsonl", rows)
    monkeypatch.setattr(sys, "argv", ["gain.py", *(str(tmp_path / name) for name in passed)])
    gain.main()
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == 5 and told["gains"] == [0.0, 0.0] and told["mean_gain"] == 0.0
