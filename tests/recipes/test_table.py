"""Runs side by side: names that can be told apart, and every run's number beside its point."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from recipes import table


def row(name: str, tokens: float, passed: float) -> dict:
    scores = {
        "pass@1": passed,
        "split": "test",
        "problems": 33,
        "low": passed / 2,
        "high": passed * 2,
        "mean_tokens": tokens,
    }
    return {"run": name, "recipe": "ppo", "decoding": "greedy", "graded_samples": 32, "minutes": 1.0, **scores}


def test_evaluations_of_other_problems_are_told_apart(tmp_path):
    for name, split, problems in (("a", "test", 66), ("b", "train", 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("recipe: {name: eval}\n")
        passed = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}
        record = {"task": "basics", "temperature": 0.0, "samples": 1, "split": split, "problems": problems}
        line = json.dumps(record | {"mean_tokens": 40, "pass@k": passed}) + "\n"
        (tmp_path / name / "evals.jsonl").write_text(line + line.replace("0.5", "0.45"))
    rows = table.collect(tmp_path, "basics")
    drawn = table.table(rows, "basics")
    assert drawn.title == "pass@1 on basics, problems as the column says, 95 % intervals"
    assert [list(map(str, column.cells)) for column in drawn.columns][1] == ["66 test", "200 train"]
    assert [row["pass@1"] for row in rows] == [0.45, 0.45]  # of the last
    assert "problems" not in [column.header for column in table.table(rows[:1], "basics").columns]
    assert "Held-out and training problems, 95 %" in table.page(rows, "basics")
    assert "Held-out problems, 95 %" in table.page(rows[:1], "basics")
    assert "Training problems, 95 %" in table.page(rows[1:], "basics")


def test_problems_that_were_not_graded_are_counted_apart(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("recipe: {name: eval}\n")
    passed = {"pass@k": {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}, "judged": 60, "ungraded": 7}
    record = {"task": "basics", "temperature": 0.0, "samples": 1, "split": "test", "problems": 66, "mean_tokens": 40}
    (tmp_path / "a" / "evals.jsonl").write_text(json.dumps(record | passed) + "\n")
    drawn = table.table(table.collect(tmp_path, "basics"), "basics")
    assert [list(map(str, column.cells)) for column in drawn.columns][1] == ["60 of 66 test"]


def test_what_was_before_training_is_no_result_and_runs_of_one_name_are_told_apart(tmp_path):
    """A run that is not finished has the base model's evaluation alone; steps after an evaluation do not count."""
    for recipe, stages in (
        ("grpo", (("before", 0),)),
        ("ppo", (("before", 0), ("step 2", 2))),
        ("sft", (("after", 3),)),
    ):
        folder = tmp_path / recipe / "basics" / "model-seed0"
        folder.mkdir(parents=True)
        sizes = "prompts_per_step: 2, samples_per_prompt: 3"
        (folder / "config.yaml").write_text(f"recipe: {{name: {recipe}, {sizes}}}\n")
        passed = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}
        kept = {"task": "basics", "temperature": 0.0, "samples": 1, "problems": 66, "mean_tokens": 40, "pass@k": passed}
        lines = [json.dumps(kept | {"when": when, "step": step}) for when, step in stages]
        (folder / "evals.jsonl").write_text("\n".join(lines) + "\n")
        steps = [json.dumps({"step": step, "seconds/total": 60.0}) for step in range(1, 8)]
        (folder / "metrics.jsonl").write_text("\n".join(steps) + "\n")
    ppo, sft = sorted(table.collect(tmp_path, "basics"), key=lambda row: row["run"])
    assert (ppo["run"], sft["run"]) == ("ppo/basics/model-seed0", "sft/basics/model-seed0")
    assert (ppo["graded_samples"], ppo["minutes"], sft["minutes"]) == (12, 2.0, 3.0)


def test_answers_of_a_rollout_count_once_however_many_updates_are_made_of_it():
    recipe = {"name": "grpo", "prompts_per_step": 2, "trl": {"num_generations": 4, "num_iterations": 2}}
    assert table.sampled({"recipe": recipe}, [{"step": step} for step in range(1, 8)]) == 4 * 2 * 4


def test_all_answers_that_were_graded_count_where_the_rows_say_how_many():
    """Second turns and replaced groups too; of two updates on one rollout the first has the count."""
    recipe = {"name": "grpo", "prompts_per_step": 2, "trl": {"num_generations": 4, "num_iterations": 2}}
    rows = [{"step": 1, "graded_samples": 16.0}, {"step": 2}, {"step": 3, "graded_samples": 9.0}, {"step": 4}]
    assert table.sampled({"recipe": recipe}, rows) == 25


def test_in_a_file_a_table_has_room_for_its_names(tmp_path, capsys):
    """Of 80 columns the figures leave none for the names of runs, by which they are told apart."""
    for name in ("a-long-name-of-a-run-with-many-settings-1", "a-long-name-of-a-run-with-many-settings-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("recipe: {name: eval}\n")
        passed = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}
        kept = {"task": "basics", "temperature": 0.0, "samples": 1, "mean_tokens": 40, "pass@k": passed}
        lines = [json.dumps(kept | {"split": split, "problems": n}) for split, n in (("test", 66), ("validation", 106))]
        (tmp_path / name / "evals.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "another_run_of_which_nothing_is_common").mkdir()
    for file in ("config.yaml", "evals.jsonl"):
        shutil.copy(tmp_path / name / file, tmp_path / "another_run_of_which_nothing_is_common")
    assert table.show(table.TableConfig(task="basics", runs=str(tmp_path))) == 0
    out = capsys.readouterr().out
    assert "another_run_of_which_nothing_is_common" in out and "a-long-name-of-a-run-with-many-settings-2" in out
    assert "minutes" in out and "106 validation" in out


@pytest.mark.parametrize("word", ["best", "resume"])
@pytest.mark.parametrize("key", ["task", "sweep", "csv", "html"])
def test_a_key_that_a_first_word_would_ignore_is_refused(word, key, capsys):
    assert table.main([word, f"{key}=x"]) == 2
    assert f"{key}=x: `{word}` prints all trainings below runs= alone; leave it out" in capsys.readouterr().err


def test_an_unknown_first_word_is_refused(capsys):
    assert table.main(["what=foo", "task=basics"]) == 2
    assert "what=foo: it must be compare, best or resume" in capsys.readouterr().err


def test_names_keep_what_tells_runs_apart():
    assert table.without_common_parts(["a_1-model-seed0", "a_2-model-seed0-lr-3"]) == ["a_1", "a_2-lr-3"]
    assert table.without_common_parts(["only-model"]) == ["only-model"]


def test_every_row_has_a_point_and_points_that_coincide_share_a_label():
    rows = [row(f"run{i}", tokens, 0.125) for i, tokens in enumerate((100, 140, 141, 140.5))]
    page = table.page(rows, "humaneval")
    (dots,) = re.findall(r'<g class="dots">\s*<path d="([^"]*)"', page)
    assert dots.count("M") == 4
    assert re.findall("<text[^>]*fill: var.--ink.[^>]*>([^<]*)</text>", page) == ["1", "2, 3, 4"]
    assert all(f"<td>{each['run']}</td>" in page for each in rows) and page.count("0.125 [0.062, 0.250]") == 4


@pytest.mark.parametrize(
    ("pairs", "graded", "minutes"), [("pairs", 24, 3.0), ("pairs/pairs.jsonl", 24, 3.0), ("elsewhere", 0, 1.0)]
)
def test_a_dpo_run_stands_with_what_its_pairs_took(pairs, graded, minutes, tmp_path):
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "pairs.jsonl").write_text("{}\n")
    (tmp_path / "pairs" / "summary.json").write_text(json.dumps({"graded_samples": 24, "seconds": 120.0}))
    run = tmp_path / "runs" / "dpo"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(f"recipe: {{name: dpo, pairs: {tmp_path / pairs}}}\n")
    (run / "metrics.jsonl").write_text('{"seconds/total": 20.0}\n' * 3)
    passed = {"value": 0.5, "low": 0.3, "high": 0.7}
    evaluated = {
        "task": "humaneval",
        "temperature": 0,
        "samples": 1,
        "problems": 33,
        "pass@k": {"1": passed},
        "mean_tokens": 9,
    }
    (run / "evals.jsonl").write_text(json.dumps(evaluated) + "\n")
    [results] = table.collect(tmp_path / "runs", "humaneval")
    assert (results["graded_samples"], results["minutes"]) == (graded, pytest.approx(minutes))


@pytest.mark.parametrize("name", ["config.yaml", "evals.jsonl"])
def test_a_run_whose_records_are_broken_is_left_out_and_the_others_are_shown(name, tmp_path, caplog):
    evaluated_robots(tmp_path, "whole", {"Success": 1})
    evaluated_robots(tmp_path, "broken", {"Success": 1})
    (tmp_path / "broken" / name).write_text('{"a": [1\n{"b": 2}\n')
    with caplog.at_level("WARNING"):
        rows = table.collect(tmp_path, "roboeval")
    assert [row["run"] for row in rows] == ["whole"]
    assert f"left out: {tmp_path / 'broken' / name}" in caplog.text


def evaluated_robots(folder, name: str, verdicts: dict[str, int]) -> None:
    """A run directory of recipes/eval.py with one greedy evaluation on robot programs."""
    run = folder / name
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("recipe: {name: eval}\n")
    record = {"task": "roboeval", "temperature": 0, "samples": 1, "problems": 80, "mean_tokens": 90}
    record |= {"pass@k": {"1": {"value": 0.25, "low": 0.15, "high": 0.35}}, "verdicts": verdicts}
    (run / "evals.jsonl").write_text(json.dumps(record) + "\n")


def test_robot_programs_outcomes_stand_in_a_table_of_their_own(tmp_path, capsys):
    verdicts = {"no program": 40, "PythonError": 10, "RobotExecutionError": 6, "CompletionError": 4, "Success": 20}
    evaluated_robots(tmp_path, "base-model", verdicts)
    evaluated_robots(tmp_path, "trained-model", {"Success": 80})
    html, file = tmp_path / "robots.html", tmp_path / "robots.csv"
    assert table.main([f"runs={tmp_path}", "task=roboeval", f"html={html}", f"csv={file}"]) == 0
    assert "outcomes of the answers" in capsys.readouterr().out
    rows = table.collect(tmp_path, "roboeval")
    counts = {"Python err.": 50, "no program": 40, "Simulation err.": 6, "Completion err.": 4, "Success": 20}
    assert {name: rows[0][name] for name in table.OUTCOMES} == counts
    cells = table._outcome_rows(rows)
    assert cells[0][:4] == ["base", "greedy", "80", "50 (62.5%)"] and cells[0][-1] == "20 (25.0%)"
    assert cells[1][-1] == "80 (100.0%)"
    page, (header, first, *_) = html.read_text(), file.read_text().splitlines()
    assert all(f"<th>{name}</th>" in page for name in table.OUTCOME_COLUMNS) and "<td>50 (62.5%)</td>" in page
    assert header.endswith("Python err.,no program,Simulation err.,Completion err.,Success")
    assert first.endswith("50,40,6,4,20")


def test_verdicts_of_other_tasks_are_no_outcomes():
    assert table.outcomes({"pass": 3, "fail": 1}) == table.outcomes({}) == {}
    assert not table.has_outcomes([row("a", 1.0, 0.5)])
