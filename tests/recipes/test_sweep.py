"""How a sweep's jobs end, and what its output says."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import hydra
import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from recipes.cli import schema, sweep
from recipes.cli.errors import UserError
from recipes.cli.lock import LOCK
from recipes.cli.overrides import is_override
from recipes.cli.processes import Interrupted
from recipes.cli.schema import CONF
from recipes.records.jsonl import write_jsonl
from recipes.tools import sweep_jobs
from recipes.tools.sweep_jobs import write_sweep

SAVES_AND_ENDS = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: (Path("saved").write_text(""), sys.exit(0)))
Path("ready").write_text("")
signal.pause()
"""

HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""


def job(folder: Path, number: int, command: list[str]) -> None:
    (folder / "jobs").mkdir(exist_ok=True)
    settings = {"job": {"num": number}, "overrides": {"task": [f"seed={number}"]}, "sweep": {"dir": str(folder)}}
    run = OmegaConf.create({"run": {"dir": str(folder / f"run{number}")}})
    sweep.run_job(run, [sys.executable, "-c", *command], OmegaConf.create(settings))


def test_a_job_that_saves_what_it_has_at_a_signal_is_stopped_not_done(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    def stop_when_ready() -> None:
        # run_job passes signals on from a moment after the job's start
        while not Path("ready").exists() or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    job(tmp_path, 0, ["pass"])
    threading.Thread(target=stop_when_ready, daemon=True).start()
    with pytest.raises(Interrupted):
        job(tmp_path, 1, [SAVES_AND_ENDS])
    assert Path("saved").exists()
    assert write_sweep(tmp_path, ["seed"]) == 0
    out, err = capfd.readouterr()
    assert "done" in out and "stopped" in out and "error" not in err
    assert "<td>stopped</td>" in (tmp_path / "sweep.html").read_text()


def test_a_number_is_spelled_as_it_was_written():
    """The directory of a job is that of the same command without -m."""
    schema.register()
    asked = ["recipe=grpo", "recipe.trl.learning_rate=1e-4,3e-4", "task.env.functions=1,2", "seed=range(2)"]
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        jobs, swept, written = sweep.jobs_of(asked)
    assert written == {f"recipe.trl.learning_rate=0.000{n}": f"recipe.trl.learning_rate={n}e-4" for n in (1, 3)}
    assert swept == ["recipe.trl.learning_rate", "task.env.functions", "seed"] and len(jobs) == 8
    assert jobs[-1] == ["recipe=grpo", "recipe.trl.learning_rate=3e-4", "task.env.functions=2", "seed=1"]


@pytest.mark.parametrize(
    "override",
    [
        "recipe.trl.learning_rate=1e-4",
        "+recipe.trl.lr_scheduler_kwargs={num_cycles:2,last:true}",
        "recipe.refill=true",
        "adapter=null",
        "~episode",
        "evaluation.k=[1,2]",
        "run.name='two words'",
    ],
)
def test_what_is_not_swept_is_spelled_as_it_was_written_too(override, monkeypatch):
    """As Hydra's own sweeper hands it to a job."""
    schema.register()
    asked, seen = ["recipe=grpo", override, "seed=0,1"], []
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        written = sweep.jobs_of(asked)[2]
        parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(asked)
    [[first, _]] = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    settings = SimpleNamespace(overrides=SimpleNamespace(task=first))
    monkeypatch.setattr(sweep.HydraConfig, "get", lambda: settings)
    monkeypatch.setattr(sweep, "name_run", lambda *_: None)
    monkeypatch.setattr(sweep, "run_job", lambda _, command, __: seen.extend(command))
    sweep.job_of("grpo.py", [], written)(OmegaConf.create())
    assert seen[2:] == [override, "seed=0"]


def test_a_job_that_fails_is_named(tmp_path, capfd):
    job(tmp_path, 0, ["raise SystemExit(3)"])
    assert write_sweep(tmp_path, ["seed"]) == 1
    out, err = capfd.readouterr()
    assert "failed (3)" in out and "job 0 (seed=0) ended with status 3" in err


def test_a_sweep_over_rewards_shows_both_the_choice_and_what_was_earned(tmp_path, capfd):
    """`reward=dense,sparse` has the name of a measure."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "reward": 0.25}\n')
    record = {"job": 0, "overrides": ["reward=uniform"], "run": str(tmp_path / "run"), "status": 0, "stopped": False}
    (tmp_path / "jobs" / "0.json").write_text(json.dumps({**record, "seconds": 60.0}))
    assert write_sweep(tmp_path, ["reward"]) == 0
    out, _ = capfd.readouterr()
    assert "uniform" in out and "0.25" in out
    with (tmp_path / "sweep.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["reward"], row["mean reward"]) == ("uniform", "0.25")
    page = (tmp_path / "sweep.html").read_text()
    assert "<td>uniform</td>" in page and "<td>0.25</td>" in page


def test_the_loss_of_jobs_that_learn_from_examples_is_called_a_loss(tmp_path, capfd):
    """Also where a job that failed has no step."""
    (tmp_path / "jobs").mkdir()
    for number, steps in ((0, ""), (1, '{"step": 1, "loss": 8.5}\n{"step": 2, "loss": 8.25}\n')):
        run = tmp_path / f"run{number}"
        run.mkdir()
        (run / "metrics.jsonl").write_text(steps)
        record = {"job": number, "overrides": [f"seed={number}"], "run": str(run), "status": 0, "stopped": False}
        (tmp_path / "jobs" / f"{number}.json").write_text(json.dumps({**record, "seconds": 60.0}))
    assert write_sweep(tmp_path, ["seed"]) == 0
    out, page = capfd.readouterr().out, (tmp_path / "sweep.html").read_text()
    with (tmp_path / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["mean loss"] for row in rows] == ["", "8.375"]
    assert "loss," in out and "<th>loss, last 10</th>" in page and "loss, smoothed over" in page
    assert "reward" not in out + page + str(rows)


def test_a_run_that_was_prolonged_stands_with_its_last_score(tmp_path):
    run = tmp_path / "run0"
    run.mkdir()
    scores = {("before", 0): 0.1, ("after", 20): 0.3, ("after", 40): 0.7}
    rows = [{"when": w, "step": s, "pass@k": {"1": {"value": v, "low": v, "high": v}}} for (w, s), v in scores.items()]
    (run / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "metrics.jsonl").touch()
    job = {"job": 0, "run": str(run), "overrides": ["seed=0"], "status": 0, "stopped": False, "seconds": 60.0}
    line = sweep_jobs._job(job, ["seed"], ("reward", []), ["reward"])
    assert (line["pass@1 before"], line["pass@1"], line["split"]) == (0.1, 0.7, "test")


@pytest.mark.parametrize(("split", "kinds"), [("validation", "held-out"), ("train", "training")])
def test_a_page_says_which_problems_the_jobs_were_evaluated_on(split, kinds, tmp_path):
    (tmp_path / "jobs").mkdir()
    row = {"when": "eval", "step": 0, "split": split, "pass@k": {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}}
    (tmp_path / "evals.jsonl").write_text(json.dumps(row) + "\n")
    record = {"job": 0, "run": str(tmp_path), "overrides": ["seed=0"], "status": 0, "stopped": False, "seconds": 60.0}
    (tmp_path / "jobs" / "0.json").write_text(json.dumps(record))
    assert write_sweep(tmp_path, ["seed"]) == 0
    assert f"pass@1 is that of {kinds} problems" in (tmp_path / "sweep.html").read_text()


def test_a_job_has_all_its_steps_and_the_score_before_of_the_same_problems(tmp_path):
    """With num_iterations=2 every second step has no rollout; evaluation.split may change where a run goes on."""
    steps = [{"step": 1, "reward": 1.0}, {"step": 2}, {"step": 3, "reward": 1.0}, {"step": 4}]
    write_jsonl(tmp_path / "metrics.jsonl", steps)
    scores = [("before", 0, "test", 0.1), ("step 2", 2, "test", 0.2)]
    scores += [("before", 0, "train", 0.5), ("after", 4, "train", 0.6)]
    rows = [
        {"when": when, "step": step, "task": "basics", "split": split, "samples": 4, "temperature": 1.0}
        | {"pass@k": {"1": {"value": value, "low": 0.0, "high": 1.0}}}
        for when, step, split, value in scores
    ]
    write_jsonl(tmp_path / "evals.jsonl", rows)
    job = {"job": 0, "run": str(tmp_path), "overrides": ["seed=0"], "status": 0, "stopped": False, "seconds": 60.0}
    line = sweep_jobs._job(job, ["seed"], sweep_jobs._curve(tmp_path), ["reward"])
    assert (line["steps"], line["pass@1 before"], line["pass@1"], line["split"]) == (4, 0.5, 0.6, "train")


def test_a_second_sweep_in_the_same_folder_is_refused_and_leaves_its_records(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["grpo.py"])
    monkeypatch.setenv("PYTHONPATH", "")  # which a sweep sets
    schema.register()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "0.json").write_text("{}")
    first = [sys.executable, "-c", HOLDS, str(tmp_path / LOCK)]
    with subprocess.Popen(first, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        command = ["seed=0,1", f"hydra.sweep.dir={tmp_path}"]
        with pytest.raises(UserError, match=r"is in use by .*: wait until .*, or set another hydra\.sweep\.dir"):
            sweep.sweep("recipes/grpo.py", "recipe=grpo", command, lambda task: None)
        other.communicate(b"\n")
    assert (tmp_path / "jobs" / "0.json").exists() and not (tmp_path / "sweep.csv").exists()


def test_a_deleted_key_is_an_override():
    assert is_override("~task.reward.form") and is_override("seed=1") and not is_override("--cfg")


@pytest.mark.parametrize(
    ("launcher", "remedy"), [("submitit_slurm", 'pip install -e ".[submitit]"'), ("foo", "there are basic")]
)
def test_a_launcher_that_is_not_installed_is_named_before_anything_is_there(launcher, remedy, tmp_path):
    if launcher == "submitit_slurm" and importlib.util.find_spec("submitit"):
        pytest.skip("submitit is installed here")
    folder = tmp_path / "sweep"
    command = [f"hydra/launcher={launcher}", f"hydra.sweep.dir={folder}", "seed=0,1"]
    with pytest.raises(UserError, match=re.escape(remedy)):
        sweep.sweep("recipes/grpo.py", "recipe=grpo", command, lambda task: None)
    assert not folder.exists()
