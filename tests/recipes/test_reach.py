"""tests/bench/reach.py: which problems it keeps, which commands it runs, what its summary counts."""

from __future__ import annotations

import json
import shutil

import pytest

from envs.basics import Basics, families
from recipes.records.jsonl import read_jsonl
from tests.bench import reach


def sample(name: str, passed: bool | None, temperature: float = 1.0) -> dict:
    return {"task_id": f"basics/{name}", "passed": passed, "temperature": temperature}


def finish(folder, samples: list[dict]) -> None:
    folder.mkdir(parents=True)
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    (folder / "evals.jsonl").write_text("{}\n")


def test_problems_are_kept_that_no_sampled_answer_solves(monkeypatch):
    monkeypatch.setattr(reach, "ANSWERS", 2)
    rows = [{"id": f"basics/{name}"} for name in ("never", "once", "greedily", "unknown", "half known", "missing")]
    samples = [
        *(sample("never", False) for _ in range(2)),
        *(sample("once", passed) for passed in (False, True)),
        *(sample("greedily", passed, temperature) for passed, temperature in ((False, 1.0), (False, 1.0), (True, 0.0))),
        *(sample("unknown", None) for _ in range(2)),
        *(sample("half known", passed) for passed in (False, None)),
    ]
    assert [row["id"] for row in reach.unsolved(rows, samples)] == ["basics/never", "basics/greedily"]


def test_candidates_have_the_ids_that_their_answers_are_stored_under(tmp_path):
    rows = [families.row(family, 0) for family in families.split(200, 0)[0][:3]]
    reach.write_rows(tmp_path / "candidates.jsonl", rows)
    task = Basics(path=str(tmp_path / "candidates.jsonl"), train_size=0)
    answers = [{"task_id": p.id, "passed": False, "temperature": 1.0} for p in task.problems("test")] * reach.ANSWERS
    assert reach.unsolved(rows, answers) == rows


def test_solved_problems_are_counted_by_side_and_writer():
    none, some = (
        {"sampled": {"a": 0.0, "b": 0.0}, "greedy": {"a": 0.0}},
        {
            "sampled": {"a": 0.25, "b": 0.0},
            "greedy": {"a": 1.0},
        },
    )
    found = {(writer, side): none for writer in reach.WRITERS for side in reach.SIDES}
    found["after", "train"] = some
    found["again", "train"] = {"sampled": {"a": 0.0, "b": 0.0, "not after": 1.0}, "greedy": {"a": 0.0}}
    line = reach.summary(found, [{"seconds/total": 90.0, "graded_samples": 64}] * 2)
    assert (line["updates"], line["minutes"], line["graded_samples"]) == (2, 3.0, 128)
    assert (line["train_after_solved"], line["train_after_greedy"], line["train_problems"]) == (1, 1, 2)
    assert line["train_after_sampled_percent"] == 12.5 and line["train_again_solved"] == line["test_after_solved"] == 0


def test_its_commands_are_printed_and_nothing_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reach.main(["--dry-run", "--steps", "7", "recipe.trl.learning_rate=1e-4"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("recipes/eval.py") == 5 and printed.count("adapter=") == 2
    assert "run.dir=runs/reach/train48-steps7-recipe.trl.learning_rate_1e-4-seed0/training" in printed
    assert "recipe.prefix.enabled=true" in printed and "max_steps=7" in printed and not list(tmp_path.iterdir())


def test_imitation_trains_on_the_same_references_and_asks_the_model_before_no_second_time(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert reach.main(["--dry-run", "--imitate", "--steps", "7"]) == 0
    printed = capsys.readouterr().out
    assert "recipes/sft.py" in printed and "prefix" not in printed and "grpo" not in printed
    assert printed.count("recipes/eval.py") == 3 and printed.count("adapter=") == 2
    assert "run.dir=runs/reach/train48-steps7-imitate-seed0/training" in printed


def test_a_set_that_is_solved_leaves_nothing_to_train_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reach.RUNS.mkdir(parents=True)
    reach.write_rows(reach.CANDIDATES, [{"id": "basics/once"}, {"id": "basics/never"}])
    finish(reach.RUNS / "drawn", [sample("once", True), *(sample("never", False) for _ in range(16))])
    with pytest.raises(SystemExit, match="1 problems are without a right answer, and --train 48 leaves none"):
        reach.main([])
    assert not reach.CHOSEN.exists()


def test_finished_runs_are_read_and_not_made_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = ["a", "b", "c"]
    rows = [{"id": f"basics/{name}"} for name in names]
    reach.write_rows(reach.CANDIDATES, rows)
    finish(reach.RUNS / "drawn", [sample(name, False) for name in names for _ in range(reach.ANSWERS)])
    made = reach.RUNS / "train2-steps100-seed0"
    run = made / "training"
    run.mkdir(parents=True)
    (run / "report.html").touch()
    (run / "metrics.jsonl").write_text(json.dumps({"seconds/total": 60.0}) + "\n")
    shutil.copytree(made, reach.RUNS / "train2-steps100-imitate-seed0")
    for writer in reach.WRITERS:
        for place in (made, reach.RUNS / "train2-steps100-imitate-seed0")[: 1 + (writer == "after")]:
            finish(place / f"{writer}-train", [sample("a", writer == "after"), sample("b", False)])
            finish(place / f"{writer}-test", [sample("c", False)])
    assert reach.main(["--train", "2", "--imitate"]) == 0
    imitated = json.loads(capsys.readouterr().out)
    assert imitated["train_after_solved"] == 1 and not any("again" in name for name in imitated)
    assert reach.main(["--train", "2"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["train_after_solved"] == 1 and line["train_again_solved"] == line["test_after_solved"] == 0
    assert read_jsonl(reach.CHOSEN) == rows
