"""Values that no setting may have are refused in one line, whatever the recipe."""

from __future__ import annotations

import dataclasses
import re

import pytest
from omegaconf import OmegaConf
from trl import GRPOConfig

from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.cli.ranges import RANGES


@pytest.fixture(autouse=True)
def _schemas():
    schema.register()


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        ("grpo", "seed=-1", "seed=-1: it must be a number from 0 to 4294967295"),
        ("grpo", "recipe.trl.num_generations=0", "recipe.trl.num_generations=0: it must be a number of at least 2"),
        ("grpo", "hardware.memory_gib=0", "hardware.memory_gib=0.0: it must be a number above 0"),
        ("grpo", "recipe.prompts_per_step=0", "recipe.prompts_per_step=0: it must be a number of at least 1"),
        ("grpo", "recipe.trl.learning_rate=-1", "recipe.trl.learning_rate=-1: it must be a number of at least 0"),
        ("grpo", "recipe.trl.temperature=0", "recipe.trl.temperature=0: it must be a number above 0"),
        ("grpo", "hardware.precision=fp8", "hardware.precision=fp8: it must be fp32 or bf16 or fp16"),
        ("grpo", "hardware.device=gpu", "hardware.device=gpu: it must be cpu or cuda"),
        ("sft", "recipe.trl.max_steps=0", "recipe.trl.max_steps=0: it must be a number of at least 1"),
        ("sft", "recipe.trl.max_steps=-3", "recipe.trl.max_steps=-3: it must be"),
        ("ppo", "task.max_new_tokens=0", "task.max_new_tokens=0: it must be a number of at least 1"),
        ("ppo", "recipe.top_p=1.5", "recipe.top_p=1.5: it must be a number above 0, at most 1"),
        ("eval", "evaluation.samples=-1", "evaluation.samples=-1: it must be a number of at least 0"),
        ("eval", "evaluation.every=-1", "evaluation.every=-1: it must be"),
        ("eval", "evaluation.temperature=0", "set evaluation.samples=0 evaluation.greedy=true to decode greedily"),
        ("eval", "evaluation.split=tset", "evaluation.split=tset: it must be train or validation or test"),
        ("eval", "evaluation.split=all", "evaluation.split=all: it must be train or validation or test"),
        ("eval", "evaluation.k=[1,10]", "evaluation.k=[1, 10]: pass@10 needs that many samples"),
        ("grpo", "recipe.trl.num_generations=null", "recipe.trl.num_generations=None: it must be a number"),
        ("ppo", "recipe.trl.num_mini_batches=abc", "recipe.trl.num_mini_batches=abc: it must be a number"),
        ("ppo", "recipe.trl.max_steps=null", "recipe.trl.max_steps=None: it must be a number"),
        ("grpo", "recipe.trl.max_completion_length=2e2", "max_completion_length=200.0: it must be a whole number"),
        ("ppo", "recipe.trl.num_mini_batches=1.0", "recipe.trl.num_mini_batches=1.0: it must be a whole number"),
        ("grpo", "recipe.curriculum=null", "recipe.curriculum=null: set recipe.curriculum.enabled=false"),
        ("grpo", "recipe.prefix=null", "recipe.prefix=null: set recipe.prefix.enabled=false"),
        ("grpo", "recipe.curriculum.memory=high", "recipe.curriculum.memory=high: it must be a number"),
        ("grpo", "task.pass_rate_range=[0.05]", "task.pass_rate_range=[0.05]: it must be two numbers"),
        ("ppo", "recipe.kl_horizon=0", "recipe.kl_horizon=0.0: it must be a number above 0"),
        ("ppo", "recipe.kl_target=0", "recipe.kl_target=0: it must be a number above 0"),
        ("ppo", "recipe.kl_target=abc", "recipe.kl_target=abc: it must be a number above 0"),
        ("reinforce", "recipe.kl_target=-1", "recipe.kl_target=-1: it must be a number above 0"),
        ("ppo", "recipe.trl.cliprange=-1", "recipe.trl.cliprange=-1: it must be a number above 0"),
        ("check", "pass_rate=-1", "pass_rate=-1: it must be a number of at least 1"),
        ("ppo", "pass_rate=8", "pass_rate=8: recipes/check.py alone measures it, not ppo; leave it out"),
        ("check", "recipe.audit=-3", "recipe.audit=-3: it must be a number of at least 0"),
        ("pairs", "recipe.problems=abc", "recipe.problems=abc: it must be a number of at least 1"),
        ("grpo", "run.name=", "run.name=: it must be a name; leave it out"),
        ("grpo", "task.prompt_tokens=-5", "task.prompt_tokens=-5: it must be a number of at least 1"),
        ("grpo", "+recipe.trl.epsilon=-1", "recipe.trl.epsilon=-1"),
        ("grpo", "+recipe.trl.adam_beta1=2", "recipe.trl.adam_beta1=2: it must be a number of at least 0, below 1"),
        ("sft", "+recipe.trl.weight_decay=-1", "recipe.trl.weight_decay=-1: it must be a number of at least 0"),
        ("ppo", "value.learning_rate=-1", "value.learning_rate=-1"),
        ("ppo", "value.vf_coef=-1", "value.vf_coef=-1"),
        ("ppo", "value.name=foo", "value.name=foo: it must be shared or mlp or separate or montecarlo"),
        ("ppo", "recipe.ratio=word", "recipe.ratio=word: it must be token or sequence"),
        ("ppo", "recipe.sampler=slow", "recipe.sampler=slow: it must be fast or generate"),
        ("ppo", "recipe.trl.kl_estimator=k2", "recipe.trl.kl_estimator=k2: it must be k1 or k3"),
        ("ppo", "recipe.trl.kl_estimator=null", "recipe.trl.kl_estimator=None: it must be k1 or k3"),
        ("reinforce", "recipe.baseline=best", "recipe.baseline=best: it must be none or batch or group"),
        ("grpo", "recipe.credit=words", "recipe.credit=words: it must be answer or lines"),
        ("grpo", "recipe.trl.scale_rewards=foo", "recipe.trl.scale_rewards=foo: it must be none or group or batch"),
        ("grpo", "recipe.trl.scale_rewards=null", "recipe.trl.scale_rewards=None: it must be none or group or batch"),
        ("grpo", "run.keep=worst", "run.keep=worst: it must be last or best"),
        ("ppo", "recipe.prefix.share=2", "recipe.prefix.share=2.0: it must be a number above 0, at most 1"),
        ("grpo", "recipe.prefix.step=0", "recipe.prefix.step=0.0: it must be a number above 0, at most 1"),
        ("grpo", "recipe.prefix.until=1.5", "recipe.prefix.until=1.5: it must be a number above 0, at most 1"),
        ("grpo", "recipe.curriculum.memory=1.0", "recipe.curriculum.memory=1.0: it must be a number of at least 0"),
        ("grpo", "recipe.curriculum.least=1.5", "recipe.curriculum.least=1.5: it must be a number above 0, at most 1"),
        ("grpo", "recipe.curriculum.enabled=maybe", "recipe.curriculum.enabled=maybe: it must be true or false"),
        ("ppo", "recipe.prefix.enabled=perhaps", "recipe.prefix.enabled=perhaps: it must be true or false"),
        ("grpo", "recipe.curriculum.memory=null", "recipe.curriculum.memory=null: it must be a number"),
        ("pairs", "recipe.problems=2.5", "recipe.problems=2.5: it must be a whole number"),
        ("pairs", "recipe.problems=true", "recipe.problems=True: it must be a number of at least 1"),
        ("grpo", "recipe.trl.learning_rate=true", "recipe.trl.learning_rate=True: it must be a number"),
        ("eval", "evaluation.temperature=nan", "evaluation.temperature=nan: samples need a number above 0"),
        ("grpo", "run.keep_every=4", "checkpoints are made every 10 steps, so not at all of its multiples"),
        ("sft", "run.keep_every=10", "run.keep_every=10: checkpoints are made every 25 steps"),
        ("eval", "evaluation.k=[0]", "evaluation.k=[0]: it must be a list of numbers of at least 1"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(recipe, override, message):
    with pytest.raises(UserError, match=re.escape(message)):
        compose([f"recipe={recipe}", override])


@pytest.mark.parametrize("group", ["prefix", "curriculum"])
def test_a_group_is_switched_off_by_no_as_other_settings_are(group):
    """YAML 1.2 has a text there, which is true in Python."""
    assert compose(["recipe=grpo", f"recipe.{group}.enabled=no"]).recipe[group].enabled is False
    assert compose(["recipe=grpo", "recipe.refill=no"]).recipe.refill is False


def test_checkpoints_stay_of_steps_that_have_one():
    assert compose(["recipe=grpo", "run.keep_every=50"]).run.keep_every == 50
    assert compose(["recipe=sft", "run.keep_every=4", "recipe.trl.save_steps=2"]).run.keep_every == 4
    assert compose(["recipe=eval", "run.keep_every=4"]).run.keep_every == 4  # which saves nothing


def test_a_check_takes_all_splits():
    assert compose(["recipe=check", "evaluation.split=all"]).evaluation.split == "all"


def test_turns_of_an_episode_are_at_least_one():
    with pytest.raises(UserError, match=re.escape("episode.turns=0: it must be a number of at least 1")):
        compose(["recipe=grpo", "episode=repair", "episode.turns=0"])


def test_every_range_is_of_a_setting_that_exists():
    compose(["recipe=eval", "evaluation.temperature=0", "evaluation.samples=0"])  # greedy answers have none
    known = {f"recipe.trl.{field.name}" for field in dataclasses.fields(GRPOConfig)} & set(RANGES)
    for recipe in ("grpo", "ppo", "reinforce", "sft", "eval", "pairs", "check"):
        cfg = compose([f"recipe={recipe}", "episode=repair"])
        known |= {key for key in RANGES if OmegaConf.select(cfg, key, default=KeyError) is not KeyError}
    assert known == set(RANGES)
