"""How answers ended: counts, changes, and the drawing of a robot's run."""

from __future__ import annotations

import json

from recipes.support.report import write_report
from recipes.support.verdicts import robot_drawing, verdict_tables

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
    assert greedy["rows"] == [("fail", 4, 0), ("pass", 0, 3), ("timeout", 0, 1)]
    assert greedy["changes"] == [("fail", "pass", 3), ("fail", "timeout", 1)] and greedy["answers"] == (4, 4)
    assert sampled["rows"] == [("fail", 1, 0)] and sampled["changes"] == []
    assert verdict_tables([]) == []


def test_a_run_is_drawn_with_the_failing_call_in_red():
    svg = robot_drawing(DETAIL)
    assert svg.count("<circle") == 3 and svg.count("failed") == 1 and "<script>" not in svg
    assert svg.index("GoTo") < svg.index("CheckEntity") < svg.index("failed")
    assert "RobotSayError" in svg and "lab &lt;1&gt;" in svg
    assert "failed" not in robot_drawing(DETAIL | {"error": ""})


def test_the_report_shows_both(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: {name: ppo}\ntask: {name: t}\nmodel: {name: m}\nseed: 0\n")
    rows = [*ROWS, row("after", "p9", "RobotExecutionError", details={"simulator": DETAIL})]
    (tmp_path / "eval_samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    page = write_report(tmp_path).read_text()
    assert "How answers ended" in page and "fail → pass 3" in page and page.count('class="robot"') == 1
