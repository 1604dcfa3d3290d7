"""How a run goes on: what a message says to type, what is finished, what is kept, what a stop leaves."""

from __future__ import annotations

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from recipes.cli import schema
from recipes.cli.arguments import keys_of
from recipes.cli.errors import UserError
from recipes.cli.lock import release
from recipes.cli.overrides import compose
from recipes.cli.processes import resume_command, same_command, settle
from recipes.records.directory import REPLACED, open_run_dir, remove_if_setup_fails
from recipes.records.jsonl import read_config, read_jsonl
from recipes.records.log import RunLog
from recipes.table import TableConfig
from recipes.tools.progress import best, finished_step, standing
from tests import warm
from tests.recipes.test_eval import sft_of_rows


@pytest.fixture(autouse=True)
def _schemas():
    schema.register()


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (["task=basics"], "grpo.py task=basics"),
        (["task=basics", "run.if_exists=replace"], "grpo.py task=basics run.if_exists=resume"),
        (["run.if_exists=refuse", "seed=1"], "grpo.py seed=1 run.if_exists=resume"),
        (["+debug=fast"], "grpo.py +debug=fast run.if_exists=resume"),
        (["+debug=fast", "run.if_exists=resume"], "grpo.py +debug=fast run.if_exists=resume"),
    ],
)
def test_the_command_that_goes_on_removes_nothing(given, printed, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["grpo.py", *given])
    cfg = compose(["recipe=grpo", *given])
    assert resume_command(cfg) == f"python {printed}"
    if "run.if_exists=resume" not in given:
        assert same_command(cfg).endswith("run.if_exists=resume") == printed.endswith("resume")


@pytest.mark.parametrize(
    ("environment", "flags"),
    [
        ({}, "--nodes=2 --gres=gpu:4"),
        ({"WORLD_SIZE": "32", "LOCAL_WORLD_SIZE": "8", "RANK": "0", "LOCAL_RANK": "0"}, "--nodes=4 --gres=gpu:8"),
    ],
)
def test_a_run_of_several_machines_goes_on_with_as_many_processes(environment, flags, monkeypatch, tmp_path):
    """Also by `table.py resume` and the messages that repeat the command of config.yaml."""
    given = ["task=basics", "hardware=slurm_nodes", f"run.dir={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["recipes/grpo.py", "recipe=grpo", *given])
    monkeypatch.setattr("recipes.cli.processes._decided", [])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cfg = compose(["recipe=grpo", *given])
    if environment:
        settle(cfg)
        given += ["hardware.num_processes=32", f"run.name={cfg.run.name}"]
    command = f"sbatch {flags} launch/slurm_nodes.sh recipes/grpo.py {' '.join(given)}"
    open_run_dir(cfg)
    release(tmp_path)
    assert read_config(tmp_path / "config.yaml")[0]["command"] == command == resume_command(cfg)
    assert standing(tmp_path, read_config(tmp_path / "config.yaml")[0]).command == command


def test_a_run_that_was_moved_goes_on_where_it_is(monkeypatch, tmp_path):
    given = ["task=basics", f"run.dir={tmp_path / 'first'}"]
    monkeypatch.setattr(sys, "argv", ["recipes/grpo.py", "recipe=grpo", *given])
    monkeypatch.setattr("recipes.cli.processes._decided", [])
    open_run_dir(compose(["recipe=grpo", *given]))
    release(tmp_path / "first")
    config = read_config(tmp_path / "first" / "config.yaml")[0]
    assert standing(tmp_path / "first", config).command.endswith(given[1])
    moved = (tmp_path / "first").rename(tmp_path / "an other")
    assert standing(moved, config).command.endswith(f"'run.dir={moved}'")


def test_another_number_of_processes_is_refused_with_the_number_that_is_needed(monkeypatch, tmp_path):
    def start(processes: int, *more: str) -> None:
        monkeypatch.setenv("WORLD_SIZE", str(processes))
        given = ["hardware=a100x2", f"hardware.num_processes={processes}", f"run.dir={tmp_path}", *more]
        open_run_dir(compose(["recipe=grpo", *given]))
        release(tmp_path)

    start(32)
    with pytest.raises(UserError, match=r"was made by 32 processes, and 8 were started: start 32 \(hardware\.num_proc"):
        start(8)
    with pytest.raises(UserError, match=r"other settings \(.*num_processes was 32, is 8, processes was .*, seed was 0"):
        start(8, "seed=1")
    start(32)


def test_a_finished_run_without_checkpoints_is_not_trained_again(tiny_model, tmp_path):
    command = sft_of_rows(tiny_model, tmp_path, "recipe.trl.max_steps=2")
    warm.run(command, cwd=tmp_path, check=True)
    run = tmp_path / "run"
    shutil.rmtree(run / "checkpoints")
    written = (run / "metrics.jsonl").read_text(), (run / "final" / "adapter_model.safetensors").read_bytes()
    assert len(written[0].splitlines()) == 2
    again = warm.run(command, cwd=tmp_path, check=True)
    assert "is finished and its checkpoints are removed" in again.stdout
    longer = warm.run([*command, "recipe.trl.max_steps=3"], cwd=tmp_path)
    assert longer.returncode == 2 and "ends at step 2 and has no checkpoint to go on from" in longer.stderr
    assert written == ((run / "metrics.jsonl").read_text(), (run / "final" / "adapter_model.safetensors").read_bytes())


def test_a_finished_run_keeps_the_command_and_commit_that_made_its_weights(tiny_model, tmp_path):
    """Its card names them, whatever command asks for the run again."""
    command = sft_of_rows(tiny_model, tmp_path, "recipe.trl.max_steps=2")
    warm.run(command, cwd=tmp_path, check=True)
    config, final = tmp_path / "run" / "config.yaml", tmp_path / "run" / "final"
    first = read_config(config)[0] | {"commit": "of the training"}
    config.write_text(json.dumps(first))
    saved = (final / "adapter_model.safetensors").stat().st_ino
    again = warm.run([*command, "recipe.trl.max_steps=1", "run.completions_per_step=3"], cwd=tmp_path, check=True)
    assert "nothing to train" in again.stdout
    kept = read_config(config)[0]
    assert kept["run"].pop("completions_per_step") == 3 and first["run"].pop("completions_per_step") == 8
    assert kept == first
    card = (final / "README.md").read_text()
    assert "of the training" in card and "max_steps=1" not in card
    assert (final / "adapter_model.safetensors").stat().st_ino == saved


STOPPED_IN_TRAINING = """
import os, runpy, sys
from recipes.trainers.sft_dpo import SftTrainer
SftTrainer.train = lambda *_, **__: os._exit(3)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("newest", [2, 1])
def test_a_run_that_goes_on_behind_its_end_has_no_final_weights_until_the_new_one(tiny_model, tmp_path, newest):
    """What reads it then takes the newest checkpoint. Where no checkpoint has the weights of that end, they stay."""
    command = sft_of_rows(tiny_model, tmp_path, "recipe.trl.max_steps=2")
    warm.run(command, cwd=tmp_path, check=True)
    run, longer = tmp_path / "run", [*command[1:], "recipe.trl.max_steps=3"]
    if newest == 1:
        shutil.rmtree(run / "checkpoints" / "checkpoint-2")
    (script := tmp_path / "stopped.py").write_text(STOPPED_IN_TRAINING)
    assert warm.run([sys.executable, script, *longer], cwd=tmp_path).returncode == 3
    assert (run / "final").is_dir() == (newest == 1)
    warm.run([sys.executable, *longer], cwd=tmp_path, check=True)
    assert json.loads((run / "final" / "trainer_state.json").read_text())["global_step"] == 3


def test_a_quick_trial_is_the_run_debug():
    for more in ([], ["recipe.trl.learning_rate=1e-5"], ["reward=sparse", "seed=3"]):
        assert compose(["recipe=grpo", "+debug=fast", *more]).run.dir == "runs/grpo/basics/debug"
    jobs = {compose(["recipe=grpo", "+debug=fast", f"seed={n}", "run.swept=[seed]"]).run.dir for n in (0, 1)}
    assert len(jobs) == 2


@pytest.mark.parametrize("place", ["run.name=mine", "run.dir=runs/mine", "run={dir:runs/mine}"])
def test_a_quick_trial_replaces_no_run_of_another_name(place):
    for quick in ("fast", "fast_eval"):
        cfg = compose(["recipe=grpo", f"+debug={quick}", place])
        assert (cfg.run.if_exists, cfg.run.dir.endswith("mine")) == ("resume", True)
        assert compose(["recipe=grpo", f"+debug={quick}"]).run.if_exists == "replace"
        assert compose(["recipe=grpo", f"+debug={quick}", place, "run.if_exists=replace"]).run.if_exists == "replace"


def test_texts_of_a_command_stand_letter_by_letter():
    read = keys_of(TableConfig)
    for text in ("1e-4", "007", "yes", "a: b", "[x]", "${x}"):
        assert OmegaConf.to_container(read([f"match={text}"]), resolve=False)["match"] == text
    assert read(["task=null"]).task is None and read(["task=basics"]).task == "basics"
    with pytest.raises(UserError, match="there is no mach; did you mean match"):
        read(["mach=x"])


def a_run(folder, final: int | None, after: list[int], keep: str = "last", planned: int = 40):
    (folder / "checkpoints" / "checkpoint-40").mkdir(parents=True)
    recipe = {"name": "grpo", "trl": {"max_steps": planned}}
    (folder / "config.yaml").write_text(
        json.dumps({"recipe": recipe, "task": {"name": "basics"}, "run": {"keep": keep}})
    )
    (folder / "report.html").touch()
    if final is not None:
        (folder / "final").mkdir()
        (folder / "final" / "trainer_state.json").write_text(json.dumps({"global_step": final}))
    rows = [{"when": "after", "step": step, "task": "basics", "pass@k": {"1": {"value": 0.5}}} for step in after]
    (folder / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("final", "after", "keep", "finished"),
    [
        (40, [20, 40], "last", True),
        (40, [], "last", True),  # evaluated never
        (20, [20], "last", False),  # prolonged, and stopped after its last step
        (40, [20], "last", False),  # or in the evaluation at its end
        (20, [40], "best", True),
        (20, [20], "best", False),
        (None, [], "last", False),
    ],
)
def test_a_prolonged_run_is_finished_when_its_new_end_is_evaluated(final, after, keep, finished, tmp_path):
    folder = a_run(tmp_path / "run", final, after, keep)
    config = read_config(folder / "config.yaml")[0]
    assert standing(folder, config).finished is finished
    assert (finished_step(folder, config) == 40) is finished


def test_the_best_step_to_keep_is_one_of_the_training(tmp_path):
    folder = a_run(tmp_path / "run", 40, [])
    rows = [
        {"when": when, "step": step, "task": "basics", "pass@k": {"1": {"value": value}}}
        for when, step, value in (("before", 0, 0.5), ("step 20", 20, 0.4), ("after", 40, 0.3))
    ]
    (folder / "evals.jsonl").write_text("".join(json.dumps(row | {"temperature": 0.0}) + "\n" for row in rows))
    config = read_config(folder / "config.yaml")[0]
    assert (best(folder, config).step, best(folder, config, trained=True).step) == (0, 20)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"split": "test"}, {"split": "validation"}),
        ({"samples": 8, "temperature": 1.0}, {"samples": 4, "temperature": 1.0}),
    ],
)
def test_the_best_step_is_one_that_was_evaluated_like_the_latest(earlier, later, tmp_path):
    """Where a run goes on with other settings of `evaluation`, run.keep=best chooses among its later steps too."""
    folder = a_run(tmp_path / "run", 40, [])
    evaluated = ((0, 0.1, earlier), (10, 0.9, earlier), (0, 0.2, later), (20, 0.3, later), (30, 0.4, later))
    rows = [
        {"when": f"step {step}", "step": step, "task": "basics", "pass@k": {"1": {"value": value}}} | how
        for step, value, how in (*evaluated, (40, 0.35, later))
    ]
    (folder / "evals.jsonl").write_text("".join(json.dumps({"temperature": 0.0} | row) + "\n" for row in rows))
    for trained in (False, True):
        found = best(folder, read_config(folder / "config.yaml")[0], trained)
        assert (found.step, found.share["value"], found.last) == (30, 0.4, 0.35)


def test_the_only_evaluated_step_is_the_best_so_far(tmp_path):
    """With evaluation.before=false a run that is resumed keeps its checkpoint until another is better."""
    folder = a_run(tmp_path / "run", None, [])
    config = read_config(folder / "config.yaml")[0]

    def best_of(when, step):
        row = {"when": when, "step": step, "task": "basics", "pass@k": {"1": {"value": 0.5}}, "temperature": 0.0}
        (folder / "evals.jsonl").write_text(json.dumps(row) + "\n")
        return best(folder, config), best(folder, config, trained=True)

    alone, trained = best_of("step 20", 20)
    assert alone is None and trained is not None and trained.step == 20
    assert best_of("before", 0) == (None, None)


def test_the_seconds_of_a_step_are_its_own(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("recipes.records.log.time.perf_counter", lambda: clock[0])
    log, state = RunLog(tmp_path, 0), SimpleNamespace(global_step=1, max_steps=2, is_world_process_zero=True)
    log.on_train_begin(None, SimpleNamespace(global_step=0), None)
    clock[0] = 10.0
    spent = {"seconds/rollout": 3.0, "seconds/rollout_again": 1.0, "seconds/continuations": 2.0, "seconds/grade": 0.5}
    spent["seconds/mixed"] = 0.25
    log.on_log(None, state, None, {"reward": 1.0, **spent})
    clock[0] = 110.0  # of these an evaluation takes 95
    log.leave_out(95.0)
    state.global_step = 2
    log.on_log(None, state, None, {"reward": 1.0})
    first, second = read_jsonl(tmp_path / "metrics.jsonl")
    assert (first["seconds/total"], first["seconds/update"]) == (10.0, 3.25)
    assert (second["seconds/total"], second["seconds/update"]) == (5.0, 5.0)


def test_ctrl_c_during_set_up_puts_back_the_run_that_was_to_be_replaced(tmp_path):
    folder = tmp_path / "run"
    open_run_dir(compose(["recipe=grpo", f"run.dir={folder}", "seed=1"]))
    (folder / "final").mkdir()
    with (
        pytest.raises(KeyboardInterrupt),
        remove_if_setup_fails(
            open_run_dir(compose(["recipe=grpo", f"run.dir={folder}", "seed=2", "run.if_exists=replace"]))
        ),
    ):
        raise KeyboardInterrupt
    assert (folder / "final").is_dir() and "seed: 1\n" in (folder / "config.yaml").read_text()
    assert not (folder / REPLACED).exists()
    release(folder)


@pytest.mark.parametrize("name", ["metrics.jsonl", "evals.jsonl", "checkpoints"])
def test_a_folder_with_somebody_elses_records_is_no_run(name, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / name).mkdir() if name == "checkpoints" else (tmp_path / name).write_text('{"loss": 1}\n')
    with pytest.raises(UserError, match=f"holds {name} without a config.yaml, so it is not a run's: set run.dir"):
        open_run_dir(compose(["recipe=grpo", f"run.dir={tmp_path}"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["notes.txt", name])
