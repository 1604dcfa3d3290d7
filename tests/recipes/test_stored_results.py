"""What the scripts of tests/bench keep of runs, and what they refuse to compare."""

import json

import pytest
from omegaconf import OmegaConf

from tests.bench import readme_commands
from tests.bench.gain import rates
from tests.bench.keep import keep
from tests.bench.leave_one_out import ends_of


def a_run(folder, reward, updates=12):
    folder.mkdir(parents=True)
    config = {"recipe": {"name": "grpo", "trl": {"temperature": 0.7}}, "task": {"name": "basics"}, "seed": 3}
    OmegaConf.save(OmegaConf.create(config), folder / "config.yaml")
    rows = [
        {"step": n + 1, "reward": reward, "pass_rate": reward, "scores/lint": 0.123456789, "other": 1}
        for n in range(updates)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_what_is_kept_of_a_run_is_what_tables_read(tmp_path):
    keep(a_run(tmp_path / "a" / "dense-seed3", 0.5), tmp_path / "kept")
    kept = tmp_path / "kept" / "grpo" / "dense-seed3"
    assert OmegaConf.load(kept / "config.yaml").recipe.trl.temperature == 0.7
    first = json.loads((kept / "metrics.jsonl").read_text().splitlines()[0])
    assert first == {"step": 1, "reward": 0.5, "pass_rate": 0.5, "scores/lint": 0.12346}
    assert not (kept / "evals.jsonl").exists()


def test_a_run_is_kept_twice_and_another_one_of_its_name_is_refused(tmp_path):
    run, other = (a_run(tmp_path / name / "dense-seed3", reward) for name, reward in (("a", 0.5), ("b", 0.25)))
    keep(run, tmp_path / "kept")
    keep(run, tmp_path / "kept")
    with pytest.raises(SystemExit, match="dense-seed3 holds another run"):
        keep(other, tmp_path / "kept")
    assert "0.25" not in (tmp_path / "kept/grpo/dense-seed3/metrics.jsonl").read_text()


def test_runs_that_end_after_different_updates_are_not_compared(tmp_path):
    a_run(tmp_path / "dense-seed0", 0.5)
    a_run(tmp_path / "without-lint-seed0", 0.25)
    ends = ends_of([tmp_path])
    assert ends["dense"][0]["pass_rate"] == 0.5 and ends["without-lint"][0]["pass_rate"] == 0.25
    a_run(tmp_path / "without-lint-seed1", 0.25, updates=11)
    with pytest.raises(SystemExit, match="without-lint-seed1 after 11; dense-seed0, without-lint-seed0 after 12"):
        ends_of([tmp_path])


def test_readme_commands_deletes_no_file_that_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr(readme_commands, "ROOT", tmp_path)
    (tmp_path / "mine.jsonl").write_text("my own problems\n")
    with pytest.raises(SystemExit, match=r"mine\.jsonl would be overwritten"):
        readme_commands.write_the_readers_files("```python\nx = 1\n```")
    assert (tmp_path / "mine.jsonl").read_text() == "my own problems\n"


def test_an_evaluation_is_not_overwritten_either(tmp_path):
    """A run of recipes/eval.py has no metrics.jsonl."""
    for name, reward in (("a", 0.5), ("b", 0.25)):
        run = a_run(tmp_path / name / "base", reward)
        (run / "metrics.jsonl").rename(run / "evals.jsonl")
    keep(tmp_path / "a" / "base", tmp_path / "kept")
    with pytest.raises(SystemExit, match="base holds another run"):
        keep(tmp_path / "b" / "base", tmp_path / "kept")


def test_answers_are_kept_without_their_text_and_give_the_same_gain(tmp_path):
    run = a_run(tmp_path / "a" / "sft", 0.5)
    kind = {"when": "before", "step": 0, "task": "basics", "temperature": 0.0, "sample": 0, "completion": "x = 1"}
    rows = [kind | {"task_id": f"basics/{n}", "reward": n / 7, "verdict": "fail", "passed": False} for n in range(3)]
    (run / "eval_samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    keep(run, tmp_path / "kept", answers=True)
    text = (tmp_path / "kept" / "grpo" / "sft" / "eval_samples.jsonl").read_text()
    assert "x = 1" not in text
    [kept, whole] = (rates(f"{folder}@before", "reward")[0.0] for folder in (tmp_path / "kept" / "grpo" / "sft", run))
    assert kept == pytest.approx(whole, abs=1e-4)
