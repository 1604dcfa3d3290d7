"""However its processes are started, a run is one run: a sweep's jobs, a stopped run, the same under SLURM's script."""

from __future__ import annotations

import csv
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.records.checkpoint_folders import checkpoints
from recipes.records.jsonl import read_jsonl
from recipes.records.log import CLOCK
from tests.recipes.channels import PARITY

ROOT = Path(__file__).parents[2]
GRPO = str(ROOT / "recipes" / "grpo.py")
pytestmark = [pytest.mark.distributed, pytest.mark.timeout(1800)]  # set-up takes minutes


def small(tiny_model: Path) -> list[str]:
    return [
        "hardware=cpux2",
        f"model.path={tiny_model}",
        "hardware.precision=fp32",
        "hardware.rows_per_device=4",
        "recipe.trl.max_steps=6",
        "recipe.trl.save_steps=6",
        "recipe.trl.learning_rate=0.01",
        "recipe.prompts_per_step=2",
        "recipe.trl.num_generations=4",
        "task.max_new_tokens=6",
        "task.also_evaluate=[]",
        "evaluation.samples=0",
        "evaluation.greedy=false",
        *PARITY,
    ]


def start(*arguments: str, cwd: Path, mark: str, path: str = "", **environment: str) -> subprocess.Popen:
    """A command whose processes can be told by `mark`."""
    env = {**os.environ, "STARTED_BY": mark, "PATH": path + os.environ["PATH"], **environment}
    sigint = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 (a background shell ignores it)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(arguments, cwd=cwd, env=env, start_new_session=True, preexec_fn=sigint, **pipes)


def alive(mark: str) -> list[str]:
    """Command lines of the processes that are still there, given a moment to go."""
    for _ in range(50):
        results = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and f"STARTED_BY={mark}".encode() in (folder / "environ").read_bytes():
                    results.append((folder / "cmdline").read_text())
            except OSError:
                continue
        if not any(results):
            return []
        time.sleep(0.1)
    return results


def metrics(folder: Path) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.startswith(CLOCK)} for row in read_jsonl(folder / "metrics.jsonl")]


@pytest.fixture(scope="module")
def swept(tiny_model, tmp_path_factory) -> tuple[Path, str]:
    """Four jobs of two processes; the second process of the second job is killed. The folder, and the output."""
    folder = tmp_path_factory.mktemp("sweep")
    kills = ["+task.reward.kills._target_=tests.recipes.channels.KillsProcess", "+task.reward.kills.weight=1.0"]
    kills += ["+task.reward.kills.job='${task.name}-${seed}'", "+task.reward.kills.victim=basics-2"]
    process = start(
        *(sys.executable, GRPO, "-m", "task=basics,humaneval", "seed=1,2", *small(tiny_model), *kills),
        cwd=folder,
        mark="sweep",
    )
    _, errors = process.communicate()
    assert process.returncode == 1, errors[-4000:]
    return folder, errors


def run_of(folder: Path, task: str, seed: int) -> Path:
    (run,) = (folder / "runs" / "grpo" / task).glob(f"*seed{seed}*")
    return run


@pytest.mark.slow  # tests/recipes/test_runs.py has a sweep of one process a job
def test_a_sweep_of_four_jobs_leaves_four_directories_and_one_failure_stops_no_other(swept):
    folder, errors = swept
    runs = [run_of(folder, task, seed) for task in ("basics", "humaneval") for seed in (1, 2)]
    assert sorted(folder.rglob("config.yaml")) == sorted(run / "config.yaml" for run in runs)
    failed = runs.pop(1)
    for run in runs:
        assert [row["step"] for row in metrics(run)] == [1, 2, 3, 4, 5, 6]
        assert (run / "final" / "adapter_model.safetensors").exists() and (run / "run.log").exists()
    assert not (failed / "final").exists()
    assert "process 1 of 2 was killed by SIGKILL" in errors and "Traceback" not in errors
    assert re.findall("job .* ended with status .*", errors) == [
        f"job 1 (task=basics seed=2) ended with status 1: {failed.relative_to(folder)}"
    ]
    assert alive("sweep") == []


@pytest.mark.slow
def test_a_sweep_is_compared_in_a_table_and_a_page(swept):
    folder, _ = swept
    (table,) = folder.rglob("sweep.csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["task"], row["seed"]) for row in rows] == [
        (task, seed) for task in ("basics", "humaneval") for seed in "12"
    ]
    assert [row["status"] for row in rows] == ["0", "1", "0", "0"]
    assert all(float(row["mean reward"]) > 0 for row in rows if row["status"] == "0")
    page = table.with_name("sweep.html").read_text()
    assert page.count('class="line ') == 3 and "failed (1)" in page  # the killed job has no step to draw
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")
    links = re.findall('href="([^"]+)"', page)
    assert len(links) == 3 and all((table.parent / link).exists() for link in links)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


STAND_INS = {
    "srun": """
        while [ "${1#--}" != "$1" ]; do case "$1" in --nodes=*) nodes="${1#*=}";; esac; shift; done
        for node in $(seq 0 $((nodes - 1))); do SLURM_NODEID=$node "$@" & pids="$pids $!"; done
        for pid in $pids; do wait "$pid" || exit 1; done""",
    "scontrol": "echo 127.0.0.1; echo 127.0.0.1",
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"PER_NODE": "abc"}, "PER_NODE=abc: it must be a number of at least 1"),
        ({"PER_NODE": "0"}, "PER_NODE=0: it must be a number of at least 1"),
        ({"PORT": "abc"}, "PORT=abc: it must be a number from 1 to 65535"),
        ({"PORT": "70000"}, "PORT=70000: it must be a number from 1 to 65535"),
        ({"scontrol": "exit 1"}, "scontrol cannot name the nodes of both"),
        ({"scontrol": "exit 0"}, "scontrol names no node of both"),
        ({}, None),
    ],
)
def test_slurms_script_says_what_is_wrong_before_it_starts_anything(given, message, tmp_path):
    scripts = {**STAND_INS, "srun": f'echo "$@" > {tmp_path}/started', **given}
    for name in ("srun", "scontrol"):
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{scripts[name]}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "both"}
    slurm["ACTIVATE"] = str(tmp_path / "activate")
    (tmp_path / "activate").touch()
    slurm |= {name: value for name, value in given.items() if name.isupper()}
    script = ["bash", "launch/slurm_nodes.sh", "recipes/grpo.py", "seed=1"]
    done = start(*script, cwd=ROOT, mark="refused", path=f"{tmp_path}:", **slurm)
    _, errors = done.communicate()
    if message is None:
        assert done.returncode == 0 and errors == ""
        assert (tmp_path / "started").read_text().split()[-5:] == ["8", "127.0.0.1", "20007", *script[2:]]
    else:
        assert done.returncode == 2 and errors == f"slurm_nodes: {message}\n" and not (tmp_path / "started").exists()


@pytest.mark.slow
def test_ctrl_c_in_the_middle_then_slurms_script_makes_the_run_that_the_sweep_made(swept, tiny_model, tmp_path):
    run = run_of(swept[0], "basics", 1)
    kills = "+task.reward.kills={_target_:tests.recipes.channels.KillsProcess,weight:1.0,job:basics-1,victim:basics-2}"
    message = ["task=basics", "seed=1", *small(tiny_model), kills, f"run.dir={tmp_path / 'run'}"]
    process = start(sys.executable, GRPO, *message, cwd=tmp_path, mark="stopped")
    while not metrics(tmp_path / "run"):
        assert process.poll() is None, process.communicate()[1][-4000:]
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 0 and "to resume: python" in errors and "Traceback" not in errors
    assert 0 < len(metrics(tmp_path / "run")) < 6 and len(checkpoints(tmp_path / "run")) == 1
    assert alive("stopped") == []

    for name, script in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "both", "PER_NODE": "1"}
    activate = Path(sys.prefix) / "bin" / "activate"
    process = start(
        *("bash", str(ROOT / "launch" / "slurm_nodes.sh"), "recipes/grpo.py", *message),
        cwd=ROOT,
        mark="slurm",
        path=f"{tmp_path}:",
        ACTIVATE=str(activate),
        PORT=str(free_port()),
        **slurm,
    )
    _, errors = process.communicate()
    assert process.returncode == 0, errors[-4000:]
    assert metrics(tmp_path / "run") == metrics(run)
    weights = Path("final") / "adapter_model.safetensors"
    assert (tmp_path / "run" / weights).read_bytes() == (run / weights).read_bytes()
    assert alive("slurm") == []
