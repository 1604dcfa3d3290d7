"""tests/bench/learning.py: which commands it runs, how gains are computed, what its summary says."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from envs.basics import Basics
from recipes.cli.schema import native_precision
from tests.bench import learning
from tests.bench.paired import families, gain


def run_of(arm: str, seed: int, greedy: dict[str, float], **more) -> dict:
    row = {"arm": arm, "seed": seed, "machine": "m", "precision": "fp32", "minutes": 10.0 + seed, "updates": 3}
    row |= {"graded_samples": 5}
    return row | {"greedy": greedy} | {"sampled": dict.fromkeys(greedy, 0.5), "humaneval": {"HumanEval/0": 1.0}} | more


NAMES = [f"basics/p{i}" for i in range(40)] + [f"basics/new/f{i}/0" for i in range(40)]
BASE = run_of("base", 0, dict.fromkeys(NAMES, 0.0))
BETTER = dict.fromkeys(NAMES, 0.0) | {f"basics/p{i}": 1.0 for i in range(20)}


def stored_runs(folder, *rows) -> None:
    """Written as the benchmark stores them."""
    for row in rows:
        file = folder / row["machine"] / f"{row['arm']}-{row['precision']}-seed{row['seed']}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(row))


def test_a_gain_is_paired_by_problem_with_an_interval():
    shares = learning.of_set(BASE, "greedy", "written")
    assert len(shares) == 40 and not any(name.startswith("basics/new/") for name in shares)
    result = gain([(shares, learning.of_set({"greedy": BETTER}, "greedy", "written"))] * 2)
    assert result["mean"] == 50.0 and 30 < result["low"] < 50 < result["high"] < 70
    assert (result["runs"], result["problems"]) == (2, 40)
    result = gain([(shares, shares)])
    assert (result["mean"], result["low"], result["high"]) == (0.0, 0.0, 0.0)
    assert gain([]) is None and gain([(shares, {})]) is None


def test_problems_of_one_family_are_drawn_together():
    """Ten families of four near-duplicates say less than 40 problems that have nothing in common."""
    held_out = [problem.id for problem in Basics().problems("test")]
    assert len(held_out) == 66 and len({families()[name] for name in held_out}) == 49
    members = defaultdict(list)
    for name, family in families().items():
        members[family].append(name)
    largest = sorted(members.values(), key=len)[-10:]
    before = {name: 0.0 for family in largest for name in family}
    after = {name: float(number % 2) for number, family in enumerate(largest) for name in family}
    together = gain([(before, after)])
    apart = gain([({f"{name}/x": 0.0 for name in before}, {f"{name}/x": value for name, value in after.items()})])
    assert together["mean"] == apart["mean"]
    assert together["high"] - together["low"] > 1.3 * (apart["high"] - apart["low"])


def test_runs_are_compared_with_the_base_model_on_their_own_machine_in_their_own_precision(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "STORED", tmp_path)
    rows = (BASE, run_of("base", 0, BETTER, precision="bf16"), run_of("own", 0, BETTER))
    stored_runs(tmp_path, *rows, run_of("base", 0, BETTER, machine="other"), run_of("own", 0, BETTER, machine="other"))
    fp32, bf16, other = (learning.stored(*asked) for asked in (("m", "fp32"), ("m", "bf16"), ("other", "fp32")))
    assert learning.over_base(fp32, "own", "greedy", "written")["mean"] == 50.0
    assert len(bf16["base"]) == 1 and learning.over_base(bf16, "own", "greedy", "written") is None
    assert learning.over_base(other, "own", "greedy", "written")["mean"] == 0.0
    assert learning.machine().endswith(f"_{native_precision()}")


def test_the_summary_is_of_stored_runs_and_says_none_where_one_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning, "STORED", tmp_path)
    asked = ["--summary", "--ours", "own", "--machine", "m", "--precision", "fp32"]
    with pytest.raises(SystemExit, match="has no run of base"):
        learning.main(asked)
    stored_runs(tmp_path, BASE)
    with pytest.raises(SystemExit, match="has no run of own in fp32; it has base"):
        learning.main(asked)
    elsewhere = [run_of("base", 0, BASE["greedy"], machine="n"), run_of("sft", 0, BETTER, machine="n")]
    stored_runs(tmp_path, run_of("own", 0, BETTER), run_of("own", 1, BETTER, humaneval={}), *elsewhere)
    assert learning.main(asked) == 0
    shown = capsys.readouterr()
    line = json.loads(shown.out.splitlines()[-1])
    assert (line["greedy_gain_mean"], line["new_families_gain_mean"], line["humaneval_change"]) == (50.0, 0.0, 0.0)
    assert (line["seeds"], line["minutes"], line["sampled_after"], line["updates"]) == (2, 11.0, 50.0, [3, 3])
    assert line["sft_greedy_gain_mean"] == 50.0 and line["stock_grpo_greedy_gain_mean"] is None
    assert "(1 of 2)" in shown.err  # of HumanEval one seed was evaluated


def test_what_ran_is_what_is_summed_up_and_other_settings_are_another_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning, "STORED", tmp_path / "stored")
    monkeypatch.setattr(learning, "run_in_turn", lambda commands, dry_run: 0)  # as if all trainings had ended well
    monkeypatch.chdir(tmp_path)
    kind = learning.machine()
    learning.STORED.mkdir()
    stored_runs(learning.STORED, run_of("base", 0, BASE["greedy"], machine=kind, precision="fp32"))
    with pytest.raises(SystemExit, match="has no greedy answers: nothing is stored"):
        learning.main(["sft", "recipe.trl.max_steps=240", "--seeds", "0"])
    run = learning.folder("sft", 0, ["recipe.trl.max_steps=240"])
    assert run != learning.folder("sft", 0)
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("hardware:\n  device: cpu\n  precision: fp32\n")
    answers = [{"when": "after", "task_id": name, "temperature": 0.0, "passed": bool(v)} for name, v in BETTER.items()]
    (run / "eval_samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    assert learning.main(["sft", "recipe.trl.max_steps=240", "--seeds", "0"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["arm"], line["machine"], line["precision"]) == ("sft recipe.trl.max_steps=240", kind, "fp32")
    assert line["greedy_gain_mean"] == 50.0 and line["sft_greedy_gain_mean"] is None


def test_its_commands_compose_and_an_unknown_arm_is_named(capsys):
    assert learning.main(["--dry-run", "--seeds", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("recipes/grpo.py") == 5 and "share=0.5" in printed and "recipe.references=false" in printed
    with pytest.raises(SystemExit):
        learning.main(["best"])
    assert "'best' is no arm" in capsys.readouterr().err


def test_what_is_finished_is_not_done_again(tmp_path):
    evaluation = ["recipes/eval.py", "task=basics", f"run.dir={tmp_path}"]
    training = ["recipes/sft.py", f"run.dir={tmp_path}"]
    assert not learning.finished(evaluation) and not learning.finished(training)
    (tmp_path / "evals.jsonl").touch()
    assert not learning.finished(evaluation)  # the answers are written last
    (tmp_path / "samples.jsonl").touch()
    assert learning.finished(evaluation) and not learning.finished(training)
    (tmp_path / "report.html").touch()
    assert learning.finished(training)
    assert learning.finished(["recipes/export.py", f"to={tmp_path}"])
    assert not learning.finished(["recipes/export.py", f"to={tmp_path / 'new'}"])
