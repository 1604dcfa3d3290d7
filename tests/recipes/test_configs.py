"""Every file of conf/ composes, and the CPU profile becomes what the trainers take."""

from __future__ import annotations

import re
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from recipes.support import config
from recipes.support.build import build_reward, build_task
from recipes.support.main import CONF

GROUPS = ("model", "hardware", "task", "reward", "sandbox")


def compose(*overrides: str, recipe: str = "grpo"):
    config.register()
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        return hydra.compose("config", [f"recipe={recipe}", *overrides])


def choices(group: str) -> list[str]:
    return sorted(f"{group}={file.stem}" for file in (Path(CONF) / group).glob("*.yaml"))


@pytest.mark.parametrize("override", [c for group in GROUPS for c in choices(group)])
def test_every_choice_composes_and_says_what_it_is(override):
    cfg = compose(override)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    group, name = override.split("=")
    if group != "sandbox":
        assert cfg[group].name == name
    assert (Path(CONF) / group / f"{name}.yaml").read_text().startswith("# ")


@pytest.mark.parametrize("task", choices("task"))
@pytest.mark.parametrize("recipe", ["grpo", "ppo", "reinforce", "sft", "dpo", "pairs", "check", "eval"])
def test_every_recipe_takes_every_task(recipe, task):
    needed = ["recipe.pairs=somewhere"] if recipe == "dpo" else []
    OmegaConf.to_container(compose(task, *needed, recipe=recipe), resolve=True, throw_on_missing=True)


@pytest.mark.parametrize("override", choices("value"))
def test_every_critic_composes(override):
    assert f"value={compose(override, recipe='ppo').value.name}" == override


def test_a_task_brings_its_numbers_and_the_command_line_has_the_last_word():
    cfg = compose("task=pacman", "recipe.learning_rate=0.5", recipe="ppo")
    assert cfg.model.name == "moves" and cfg.recipe.samples_per_prompt == 32 and cfg.recipe.learning_rate == 0.5
    assert compose("task=pacman", "model=smollm2_135m", recipe="ppo").model.name == "smollm2_135m"
    names = {f.stem for f in (Path(CONF) / "tuned").glob("*.yaml")}
    known = {f"{r}_{t.removeprefix('task=')}" for r in ("grpo", "ppo", "reinforce") for t in choices("task")}
    assert names <= known


@pytest.mark.parametrize("override", choices("experiment") + choices("debug"))
def test_every_experiment_composes_with_the_recipe_in_its_command(override):
    group, name = override.split("=")
    text = (Path(CONF) / group / f"{name}.yaml").read_text()
    recipe = re.search(r"recipes/(\w+)\.py \+", text).group(1)
    cfg = compose(f"+{override}", recipe=recipe)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert cfg.recipe.name == recipe
    if group == "experiment":
        assert cfg.run.name.startswith(name)


@pytest.mark.parametrize("task", ["basics", "humaneval"])
@pytest.mark.parametrize("placement", ["dense", "sparse"])
def test_every_task_has_problems_and_a_reward(task, placement, sandbox):
    cfg = compose(f"task={task}", f"reward={placement}")
    assert build_task(cfg).problems("train")
    reward = build_reward(cfg, sandbox)
    assert set(reward.channels) == {"unit_tests", "form"} and reward.placement == placement


def test_the_cpu_profile_becomes_a_grpo_config(tmp_path):
    from recipes.grpo import grpo_config

    args = grpo_config(compose("+recipe.trl.epsilon_high=0.3"), tmp_path)
    assert args.gradient_accumulation_steps == args.steps_per_generation == 8
    assert args.epsilon_high == 0.3 and args.bf16 and args.report_to == []


def test_the_cpu_profile_becomes_a_ppo_config(tmp_path):
    from recipes.support.ppo import ppo_config

    args = ppo_config(compose("+recipe.trl.vf_coef=0.3", recipe="ppo"), tmp_path)
    assert args.vf_coef == 0.3 and args.bf16 and args.rows_per_pass == 8 and args.gradient_accumulation_steps == 1
    assert args.total_episodes == 60 * args.per_device_train_batch_size
