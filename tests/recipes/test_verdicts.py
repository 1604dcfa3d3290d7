"""How answers ended: counts, changes, and the drawing of a robot's run."""

from __future__ import annotations

import json

import pytest

from recipes.tools.report.page import write_report
from recipes.tools.report.verdicts import latest_answers, robot_drawing, robot_runs, verdict_tables

DETAIL = {
    "rooms": ["hall", "lab <1>"],
    "start": "hall",
    "trace": [["GoTo", "the lab <1>"], ["CheckEntity", "mug"], ["Say", "<script>"]],
    "error": "Exception: RobotSayError",
}


def row(when, task_id, verdict, sample=0, temperature=0.0, **more):
    return {"when": when, "task": "t", "task_id": task_id, "sample": sample, "temperature": temperature} | {
        "verdict": verdict,
        **more,
    }


ROWS = [
    *(row("before", f"p{n}", "fail") for n in range(4)),
    *(row("after", f"p{n}", "pass" if n else "timeout") for n in range(4)),
    row("before", "p0", "fail", sample=1, temperature=1.0),
]


def test_counts_and_changes():
    greedy, sampled = verdict_tables(ROWS)
    assert greedy["rows"] == [("fail", 4, 0, [0, 3, 1]), ("pass", 0, 3, [0, 0, 0]), ("timeout", 0, 1, [0, 0, 0])]
    assert greedy["names"] == ["fail", "pass", "timeout"] and greedy["answers"] == (4, 4)
    assert greedy["stages"] == ("before", "after")
    assert sampled["rows"] == [("fail", 0, 1, [])] and sampled["names"] == []
    assert sampled["stages"] == ("", "before") and sampled["answers"] == (0, 1)
    assert verdict_tables([]) == []


def test_a_run_that_begins_from_another_is_compared_with_its_own_first_evaluation():
    rows = [*(row(w, "p", v) for w, v in (("step 2", "fail"), ("step 4", "timeout"), ("after", "pass")))]
    (table,) = verdict_tables(rows)
    assert table["stages"] == ("step 2", "after")
    assert table["rows"] == [("fail", 1, 0, [0, 1]), ("pass", 0, 1, [0, 0])]


def test_a_run_that_was_prolonged_is_compared_at_its_last_end():
    rows = [
        row("before", "p", "fail", step=0),
        row("after", "p", "timeout", step=20),
        row("step 30", "p", "fail", step=30),
    ]
    (table,) = verdict_tables([*rows, row("after", "p", "pass", step=40)])
    assert table["stages"] == ("before", "after") and table["rows"][0] == ("fail", 1, 0, [0, 1])


def test_a_run_is_drawn_with_the_failing_call_in_red():
    svg = robot_drawing(DETAIL)
    assert svg.count('class="action') == 4 and svg.count("failed") == 1 and "<script>" not in svg
    assert svg.index("GoTo") < svg.index("CheckEntity") < svg.index("failed")
    assert "RobotSayError" in svg and "lab &lt;1&gt;" in svg
    without = robot_drawing(DETAIL | {"error": ""})
    assert without.count('class="action') == 3 and "failed" not in without and "G GoTo, C CheckEntity" in without


def test_a_place_that_the_world_refuses_is_drawn_once():
    trace = [["GoTo", "hall"], ["GoTo", "moon"]]
    svg = robot_drawing(DETAIL | {"trace": trace, "error": "Exception: RobotGoToError: no such place"})
    assert svg.count('class="action') == 2 and svg.index("moon") > svg.index("failed")
    nothing = robot_drawing(DETAIL | {"trace": [], "error": "NameError: name 'x' is not defined"})
    assert nothing.count('class="action') == 1 and 'viewBox="0 0 660' in nothing


def test_of_a_long_run_the_end_is_drawn():
    trace = [["GoTo", "lab <1>"], *[["Say", "on"]] * 39]
    svg = robot_drawing(DETAIL | {"trace": trace, "error": ""})
    assert svg.count('class="action') == 16 and "24 earlier actions" in svg and 'viewBox="0 0 660' in svg
    assert 'class="start" cx="165" cy="37"' in svg  # where those before it ended: the second room


def test_the_longest_run_of_each_verdict_of_the_last_evaluation_is_drawn():
    long, short = DETAIL, DETAIL | {"trace": DETAIL["trace"][:1]}
    made = [("before", "b", "RobotExecutionError", long), ("after", "c", "RobotExecutionError", short)]
    made += [("after", "d", "RobotExecutionError", long), ("after", "e", "success", short)]
    rows = [row(when, task, verdict, details={"simulator": detail}) for when, task, verdict, detail in made]
    assert [run["task_id"] for run in robot_runs(rows)] == ["d", "e"]


def test_the_report_shows_both(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: {name: ppo}\ntask: {name: t}\nmodel: {name: m}\nseed: 0\n")
    rows = [*ROWS, row("after", "p9", "RobotExecutionError", details={"simulator": DETAIL})]
    (tmp_path / "eval_samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    page = write_report(tmp_path).read_text()
    assert "Verdicts of answers to held-out problems" in page and "→ pass" in page and page.count('class="robot"') == 1
    (tmp_path / "evals.jsonl").write_text('{"when": "after", "task": "t", "split": "train"}\n')
    page = write_report(tmp_path).read_text()
    assert "Verdicts of answers to training problems" in page and "held-out" not in page.lower()


@pytest.mark.parametrize("recorded", [True, False])  # older runs name the split in evals.jsonl alone
def test_the_report_says_what_each_evaluation_was_of_where_the_split_changed(tmp_path, recorded):
    (tmp_path / "config.yaml").write_text("recipe: {name: ppo}\ntask: {name: t}\nmodel: {name: m}\nseed: 0\n")
    splits = {"before": ("validation", 0), "after": ("train", 20)}
    evals = [
        {"when": when, "step": step, "task": "t", "split": split, "temperature": 0.0, "reward": 0.5}
        for when, (split, step) in splits.items()
    ]
    shared = [("before", "shared", 0.0), ("after", "shared", 1.0), ("before", "p", 0.5), ("after", "q", 0.5)]
    answers = []
    for when, name, reward in shared:
        split, step = splits[when]
        more = {"split": split} if recorded else {}
        answers.append(row(when, name, "pass" if reward else "fail", step=step, reward=reward, **more))
    for name, rows in (("evals", evals), ("eval_samples", answers)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    page = write_report(tmp_path).read_text()
    assert "<h2>Verdicts of answers</h2>" in page and "since evaluation.split has changed" in page
    assert "<th>Before, validation problems (2)</th><th>After, training problems (2)</th>" in page
    assert "held-out" not in page.lower() and "and training" not in page
    assert "Problems of both evaluations (validation problems before training, training problems after" in page
    notes = [f"Means over answers to {name} problems" for name in ("validation", "training")]
    assert [page.count(note) for note in notes] == [1, 1]


def test_answers_of_another_split_take_the_place_of_earlier_ones():
    """A run that is prolonged with another evaluation.split is evaluated again before training."""
    earlier = [row("before", "a", "fail", step=0, split="test")]
    again = [row("before", "b", "pass", step=0, split="train")]
    assert latest_answers([*earlier, *again]) == again
