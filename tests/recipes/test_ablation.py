"""tests/bench/ablation.py: the level that sparse reaches, and how many of its graded samples dense takes to it."""

from __future__ import annotations

import json
import random
import shutil
import sys

import pytest
import yaml

from tests.bench import ablation, learning, over_seeds


def write(folder, placement, seed, values):
    run = folder / f"{placement}-seed{seed}"
    run.mkdir(parents=True)
    config = {
        "recipe": {"name": "grpo", "prompts_per_step": 2, "trl": {"num_generations": 8}},
        "task": {"name": "basics"},
        "reward": {"placement": placement},
        "seed": seed,
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    (run / "metrics.jsonl").write_text("".join(json.dumps({"share": value}) + "\n" for value in values))


@pytest.fixture
def runs(tmp_path):
    for seed in (0, 1):
        write(tmp_path, "sparse", seed, [0.0] * 10 + [0.5] * 10)
        write(tmp_path, "dense", seed, [0.0] * 5 * seed + [0.5] * 25)  # longer
    return tmp_path


def test_dense_is_compared_at_the_level_that_sparse_reaches_at_its_end(runs):
    [matches] = ablation.read([runs], "share").values()
    assert {len(curve.values) for seeds in matches.values() for curve in seeds.values()} == {20}  # as the shortest
    level = ablation.level_of(matches)
    assert level == 0.5
    result = ablation.compared(("grpo", "basics"), matches, level)
    assert result["placements"]["sparse"]["samples"]["value"] == 15 * 16  # five updates at the level
    assert result["placements"]["dense"]["samples"]["value"] == (5 + 10) / 2 * 16
    times = result["dense_minus"]["sparse"]["times"]
    assert times["value"] == 0.5 and times["low"] < 0 < 1 < times["high"]  # two seeds say little


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--level", "nan"], "invalid level value: 'nan'"),
        (["--level", "sparse", "--window", "0"], "--window 0: must be at least 1"),
        (["--level", "sparse", "--window", "21"], "must be at most 20, the updates of the shortest run"),
        (["--level", "sparse", "--html", "nowhere/x.html"], "there is no folder"),
        (["--level", "0.5", "--metric", "shares"], "has none; it has share"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_a_line(runs, words, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ablation.py", str(runs), "--metric", "share", *words])
    with pytest.raises(SystemExit) as stopped:
        ablation.main()
    assert said in f"{capsys.readouterr().err}{stopped.value}"


def test_a_wider_window_takes_longer_to_reach_a_level(runs):
    [matches] = ablation.read([runs], "share", 8).values()
    assert {curve.samples_to(0.5) for curve in matches["sparse"].values()} == {18 * 16}
    assert ablation.level_of(matches) == 0.5


def test_the_first_updates_alone_can_be_compared(runs, monkeypatch, capsys):
    [matches] = ablation.read([runs], "share", updates=12).values()
    assert {len(curve.values) for seeds in matches.values() for curve in seeds.values()} == {12}
    assert ablation.level_of(matches) == pytest.approx(0.2)  # two of the last five
    command = ["ablation.py", str(runs), "--metric", "share", "--level", "sparse", "--updates"]
    monkeypatch.setattr(sys, "argv", [*command, "12"])
    ablation.main()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["results"][0]["level"] == pytest.approx(0.2)
    monkeypatch.setattr(sys, "argv", [*command, "4"])
    with pytest.raises(SystemExit):
        ablation.main()
    assert "--updates 4: must be at least --window, 5" in capsys.readouterr().err


def test_the_table_names_the_level_and_the_ratio(runs, monkeypatch, capsys):
    page = runs / "page.html"
    command = ["ablation.py", str(runs), "--metric", "share", "--level", "sparse", "--html", str(page)]
    monkeypatch.setattr(sys, "argv", command)
    ablation.main()
    table, _, line = capsys.readouterr().out.strip().rpartition("\n")
    assert "to 0.5" in table and "dense / sparse" in table and "0.50 [-1.62, 2.62]" in table
    assert json.loads(line)["results"][0]["dense_minus"]["sparse"]["times"]["value"] == 0.5
    assert "dense / sparse" in page.read_text()


def test_without_sparse_runs_there_is_no_level_of_theirs(tmp_path, monkeypatch):
    write(tmp_path, "dense", 0, [0.5] * 10)
    monkeypatch.setattr(sys, "argv", ["ablation.py", str(tmp_path), "--metric", "share", "--level", "sparse"])
    with pytest.raises(SystemExit, match="there are no sparse runs"):
        ablation.main()


def test_learnings_summary_reads_the_stored_runs(runs, tmp_path, monkeypatch):
    for file in runs.glob("*/metrics.jsonl"):
        file.write_text(file.read_text().replace("share", "scores/unit_tests"))
    assert learning.samples_ratio(runs) == (8 + 13) / (18 + 18)  # eight updates at the level
    assert learning.samples_ratio(tmp_path / "nowhere") is None


def test_a_second_run_of_one_placement_and_seed_is_refused_in_one_folder(runs):
    shutil.copytree(runs / "dense-seed0", runs / "again")
    with pytest.raises(SystemExit, match="a second run of dense with seed 0 in its folder"):
        ablation.read([runs], "share")


def test_a_run_of_a_later_folder_goes_first(runs, capsys):
    """As run_ablation.py unlocated compares: the sparse runs of one folder, the dense ones of the other."""
    write(runs / "other", "dense", 0, [0.5] * 20)
    [both] = ablation.read([runs, runs / "other"], "share").values()
    assert both["dense"][0].values[:3] == [0.5] * 3 and both["sparse"][0].run.parent == runs
    assert f"in place of {runs}" in capsys.readouterr().err


def test_intervals_over_seeds_cover_the_truth_as_often_as_they_say():
    """Normal values of five seeds: 95 of 100 intervals hold the mean, or the ratio of two means that vary together."""
    chance, means, ratios = random.Random(0), 0, 0
    for _ in range(2000):
        first = [chance.gauss(3.0, 1.0) for _ in range(5)]
        second = [2 * value + chance.gauss(0.0, 0.5) for value in first]
        means += in_interval(3.0, over_seeds.interval(first))
        ratios += in_interval(0.5, over_seeds.ratio(list(zip(first, second, strict=True))))
    assert 0.93 < means / 2000 < 0.97 and 0.93 < ratios / 2000 < 0.97


def in_interval(truth, row) -> bool:
    return row["low"] is None or row["low"] <= truth <= row["high"]


def test_one_seed_has_no_interval():
    assert over_seeds.with_interval(over_seeds.interval([0.5]), 2) == "0.50"
    assert over_seeds.ratio([(1.0, 2.0)]) == {"value": 0.5, "low": None, "high": None}
