"""Settings that do not go together, or that would do nothing, are refused in one line."""

from __future__ import annotations

import inspect
import re

import pytest
from trl.trainer import dpo_trainer, sft_trainer

from recipes.cli.batches import micro_batches
from recipes.cli.errors import UserError
from recipes.cli.processes import check_hardware
from recipes.run.checks import WORDS, check_grpo, check_ppo, check_reference, check_reinforce, check_words
from tests.recipes.test_configs import compose, trl_config


def test_a_ratio_of_whole_completions_that_would_drop_the_credit_of_tokens_is_refused():
    sequence = "+recipe.trl.importance_sampling_level=sequence"
    with pytest.raises(UserError, match=re.escape("recipe.trl.importance_sampling_level=sequence has one ratio")):
        check_grpo(compose(sequence))
    for fits in ("reward=sparse", "recipe.shaping=0"):
        check_grpo(compose(sequence, fits))
    # turns of an answer have advantages of their own
    with pytest.raises(UserError, match=r"its tokens \(episode=repair"):
        check_grpo(compose(sequence, "reward=sparse", "episode=repair"))
    check_grpo(compose(sequence, "reward=sparse", "episode=repair", "episode.turns=1"))


@pytest.mark.parametrize(
    ("override", "name"),
    [
        ("recipe.refill=true", "recipe.refill=true"),
        ("recipe.prefix.enabled=true", "recipe.prefix.enabled=true"),
        ("recipe.curriculum.enabled=true", "recipe.curriculum.enabled=true"),
        ("episode=repair", "episode=repair"),
    ],
)
def test_processes_need_whole_groups(override, name, monkeypatch):
    monkeypatch.setattr("recipes.run.checks.processes", lambda: 2)
    check_grpo(compose("recipe.prompts_per_step=3"))
    check_grpo(compose("recipe.prompts_per_step=4", override))
    with pytest.raises(
        UserError, match=re.escape(f"{name}: recipe.prompts_per_step=3 does not divide into 2 processes")
    ):
        check_grpo(compose("recipe.prompts_per_step=3", override))


def test_prompts_that_make_no_mini_batches_are_refused_with_a_number_that_does():
    cfg = compose("hardware=slurm_nodes", recipe="ppo")
    with pytest.raises(UserError, match=r"^1 prompts a process .*: set .*=1 or recipe\.prompts_per_step=16$"):
        micro_batches(cfg, 8)
    cfg.recipe.prompts_per_step = 16
    assert micro_batches(cfg, 8) == (2, 1)


@pytest.mark.parametrize("name", ["recipe.refill", "recipe.prefix.enabled"])
def test_what_each_process_draws_again_is_refused_under_zero3(name):
    with pytest.raises(UserError, match=re.escape(f"{name}=true: under ZeRO-3")):
        check_grpo(compose("hardware.zero_stage=3", f"{name}=true"))


def test_a_nucleus_is_refused_where_vllm_tells_the_log_probabilities():
    check_grpo(compose("recipe.trl.top_p=0.9"))
    with pytest.raises(UserError, match=r"recipe\.trl\.top_p=0\.9: hardware\.vllm=server"):
        check_grpo(compose("recipe.trl.top_p=0.9", "hardware.vllm=server"))
    for field in ("top_k=20", "min_p=0.1", "repetition_penalty=1.1"):
        with pytest.raises(UserError, match=re.escape(f"recipe.trl.{field}: hardware.vllm=colocate reports")):
            check_grpo(compose(f"+recipe.trl.{field}", "hardware.vllm=colocate"))
    with pytest.raises(UserError, match=r"recipe\.trl\.top_k=20: hardware\.vllm=colocate"):
        check_grpo(compose("+recipe.trl.generation_kwargs={top_k:20}", "hardware.vllm=colocate"))
    check_grpo(compose("+recipe.trl.generation_kwargs={bad_words:[x]}", "+recipe.trl.top_k=0", "hardware.vllm=server"))


def test_what_asks_whether_an_answer_was_cut_goes_with_answers_of_one_turn():
    cut = "+recipe.trl.mask_truncated_completions=true"
    check_grpo(compose(cut))
    with pytest.raises(UserError, match=r"mask_truncated_completions=True asks whether an answer was cut"):
        check_grpo(compose(cut, "episode=repair"))
    penalty = "recipe.trl.missing_eos_penalty=1"
    check_ppo(compose(penalty, recipe="ppo"))
    with pytest.raises(UserError, match=r"missing_eos_penalty=1.* and episode=repair has several answers"):
        check_ppo(compose(penalty, "episode=repair", recipe="ppo"))


@pytest.mark.parametrize("recipe", ["sft", "dpo", "check"])
def test_a_recipe_that_does_not_sample_with_vllm_asks_no_server(recipe):
    with pytest.raises(UserError, match=rf"hardware\.vllm=server: recipe={recipe} samples in this process alone"):
        check_hardware(compose("hardware.vllm=server", recipe=recipe))


def test_settings_of_ppo_that_would_be_ignored_are_refused():
    with pytest.raises(UserError, match=r"recipe\.trl\.gamma=0\.9: recipe\.ratio=sequence sums"):
        check_ppo(compose("recipe.ratio=sequence", "recipe.trl.gamma=0.9", recipe="ppo"))
    with pytest.raises(UserError, match=r"recipe\.trl\.whiten_rewards=true adds to each token's reward"):
        check_ppo(compose("recipe.ratio=sequence", "recipe.trl.whiten_rewards=true", recipe="ppo"))
    with pytest.raises(UserError, match=r"value=separate: recipe\.ratio=sequence .* has no critic"):
        check_ppo(compose("recipe.ratio=sequence", "value=separate", recipe="ppo"))
    with pytest.raises(UserError, match=r"recipe\.trl\.num_ppo_epochs=4: REINFORCE makes one update of each rollout"):
        check_reinforce(compose("recipe.trl.num_ppo_epochs=4", recipe="reinforce"))
    with pytest.raises(UserError, match=r"hardware\.rollout_rows=4 has no effect: GRPO alone samples"):
        check_ppo(compose("hardware.rollout_rows=4", recipe="ppo"))
    with pytest.raises(UserError, match=r"recipe\.kl_horizon=20 is below the 32 completions of a step"):
        size = ["recipe.prompts_per_step=8", "recipe.samples_per_prompt=4"]
        check_ppo(compose("recipe.kl_target=1", "recipe.kl_horizon=20", *size, recipe="ppo"))
    with pytest.raises(UserError, match=r"recipe\.sampler=generate samples in this process"):
        check_ppo(compose("recipe.sampler=generate", "hardware.vllm=server", recipe="ppo"))


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        ("grpo", "top_k=50", "recipe.trl.top_k=50 is not supported here: answers are sampled with"),
        ("grpo", "repetition_penalty=1.1", "recipe.trl.repetition_penalty=1.1 is not supported here"),
        ("grpo", "reward_weights=[1.0]", "is not supported here: a channel's weight is task.reward.<channel>.weight"),
        ("grpo", "use_liger_kernel=true", "recipe.trl.use_liger_kernel=True is not supported here"),
        ("grpo", "steps_per_generation=4", "recipe.trl.steps_per_generation=4 is not supported here: a rollout is"),
        ("grpo", "pad_to_multiple_of=64", "recipe.trl.pad_to_multiple_of=64 is not supported here"),
        ("grpo", "data_seed=7", "recipe.trl.data_seed=7 is not supported here: prompts are drawn by the seed"),
        ("ppo", "dataloader_num_workers=2", "recipe.trl.dataloader_num_workers=2 is not supported here"),
        ("reinforce", "train_sampling_strategy=group_by_length", "is not supported here: prompts are drawn by the"),
        (
            "grpo",
            "vllm_importance_sampling_mode=token_mask",
            "is not supported here: the ratio is to the log-probabilities",
        ),
        ("ppo", "logging_steps=5", "recipe.trl.logging_steps=5: the recipe decides it; leave it out"),
        ("sft", "logging_steps=5", "recipe.trl.logging_steps=5: the recipe decides it; leave it out"),
        ("reinforce", "lam=0.5", "recipe.trl.lam=0.5 is not supported here: REINFORCE has no critic"),
        ("grpo", "chat_template_kwargs={enable_thinking:false}", "is not supported here: evaluation, chat and export"),
        (
            "sft",
            "completion_only_loss=false",
            "recipe.trl.completion_only_loss=False is not supported here: examples are",
        ),
        ("sft", "eos_token=x", "recipe.trl.eos_token=x is not supported here: evaluation, chat and export"),
        ("grpo", "num_train_epochs=3", "recipe.trl.num_train_epochs=3 is not supported here: trainings count steps"),
        ("ppo", "eval_strategy=steps", "recipe.trl.eval_strategy=steps is not supported here: evaluation.every"),
        (
            "sft",
            "resume_from_checkpoint=x",
            "recipe.trl.resume_from_checkpoint=x is not supported here: the same command",
        ),
        ("sft", "save_strategy=no", "recipe.trl.save_strategy=no is not supported here: a run is resumed"),
        ("grpo", "save_only_model=true", "recipe.trl.save_only_model=True is not supported here"),
        ("dpo", "logging_strategy=epoch", "recipe.trl.logging_strategy=epoch is not supported here"),
        ("ppo", "eval_on_start=true", "recipe.trl.eval_on_start=True is not supported here"),
        ("ppo", "neftune_noise_alpha=5", "recipe.trl.neftune_noise_alpha=5 is not supported here"),
        ("ppo", "label_smoothing_factor=0.1", "recipe.trl.label_smoothing_factor=0.1 is not supported here"),
        ("grpo", "num_completions_to_print=5", "recipe.trl.num_completions_to_print=5 is not supported here"),
        ("ppo", "stop_token=eos", "recipe.trl.stop_token=eos: PPOConfig has no such field"),
        ("reinforce", "sft_model_path=x", "recipe.trl.sft_model_path=x: PPOConfig has no such field"),
    ],
)
def test_a_field_of_trl_that_would_be_ignored_is_refused(recipe, override, message, tmp_path):
    with pytest.raises(UserError, match=re.escape(message)):
        trl_config(compose(f"+recipe.trl.{override}", recipe=recipe), tmp_path)


def test_fields_of_sampling_count_where_trl_samples(tmp_path):
    shared = compose("+recipe.trl.top_k=50", "hardware.zero_stage=3", "hardware.precision=fp32")
    assert trl_config(shared, tmp_path).top_k == 50
    assert trl_config(compose("+recipe.trl.top_k=0"), tmp_path).top_k == 0  # TRL's own value


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["value=montecarlo", "value.warmup_updates=5"], "value.warmup_updates=5 has no effect: there is no critic"),
        (["value=montecarlo", "value.learning_rate=1e-4"], "value.learning_rate=0.0001 has no effect"),
        (["recipe.ratio=sequence", "value.vf_coef=3"], "value.vf_coef=3.0 has no effect: recipe.ratio=sequence"),
        (["recipe.ratio=sequence", "value.lam=0.5"], "value.lam=0.5 has no effect"),
        (["value=shared", "value.cuts=5"], "value.cuts=5 has no effect: value=montecarlo alone"),
    ],
)
def test_settings_of_a_value_that_nothing_reads_are_refused(overrides, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_ppo(compose(*overrides, recipe="ppo"))
    for fits in (["value=montecarlo", "value.lam=0.5"], ["recipe.ratio=sequence"], ["value.lam=0.5"]):
        check_ppo(compose(*fits, recipe="ppo"))


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        ("dpo", "recipe.trl.loss_type=[sigmoid,foo]", "recipe.trl.loss_type=foo: choose sigmoid, hinge"),
        ("dpo", "+recipe.trl.f_divergence_type=foo", "recipe.trl.f_divergence_type=foo: choose reverse_kl"),
        ("sft", "+recipe.trl.loss_type=foo", "recipe.trl.loss_type=foo: choose nll, dft"),
        ("grpo", "+recipe.trl.importance_sampling_level=foo", "choose token, sequence"),
        ("grpo", "recipe.trl.loss_type=foo", "recipe.trl.loss_type=foo: choose dapo, grpo, bnpo"),
    ],
)
def test_words_that_trl_looks_at_in_the_first_loss_are_refused(recipe, override, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_words(compose(override, recipe=recipe))
    check_words(compose(recipe=recipe))


def test_the_words_are_those_of_trl():
    sources = {"dpo": dpo_trainer, "sft": sft_trainer}
    for recipe, module in sources.items():
        known = re.findall(r"loss_type == \"(\w+)\"", inspect.getsource(module))
        assert known and set(known) <= set(WORDS[recipe]["loss_type"])


def test_a_fixed_order_and_a_curriculum_do_not_go_together():
    fixed = "+recipe.trl.shuffle_dataset=false"
    check_grpo(compose(fixed))
    with pytest.raises(UserError, match=r"recipe\.trl\.shuffle_dataset=false: .* leave one of the two out"):
        check_grpo(compose(fixed, "recipe.curriculum.enabled=true"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("value.cuts=0", "value.cuts=0: value=montecarlo needs at least 1"),
        ("recipe.trl.gamma=0.9", "recipe.trl.gamma=0.9: value=montecarlo estimates rewards without a discount"),
        ("recipe.ratio=sequence", "recipe.ratio=sequence takes a whole completion as one action"),
    ],
)
def test_what_monte_carlo_values_cannot_follow_is_one_line(override, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_ppo(compose("value=montecarlo", override, recipe="ppo"))


def test_ddp_waits_for_no_buffer_and_looks_for_no_unused_matrix(tmp_path):
    """Processes may make different numbers of forward passes; logits in parts use the output matrix outside of them."""
    assert trl_config(compose(), tmp_path).ddp_broadcast_buffers is False
    assert trl_config(compose("hardware.logits_at_once=4"), tmp_path).ddp_find_unused_parameters is False


@pytest.mark.parametrize("recipe", ["grpo", "dpo"])
@pytest.mark.parametrize(
    ("extra", "why"),
    [("model.lora_rank=8", "with LoRA"), ("hardware.zero_stage=3", "ZeRO-3"), ("recipe.trl.beta=0", "no reference")],
)
def test_a_reference_that_follows_is_a_whole_model(recipe, extra, why):
    pairs = ["recipe.pairs=pairs"] if recipe == "dpo" else []
    follows = ["model.lora_rank=0", "recipe.trl.beta=0.1", "+recipe.trl.sync_ref_model=true", *pairs]
    check_reference(compose(*follows, recipe=recipe))
    with pytest.raises(UserError, match=f"recipe.trl.sync_ref_model=true: .*{why}"):
        check_reference(compose(*follows, extra, recipe=recipe))


def test_cispo_needs_the_largest_ratio():
    with pytest.raises(UserError, match=r"set \+recipe\.trl\.epsilon_high=5\.0"):
        check_grpo(compose("recipe.trl.loss_type=cispo"))
    check_grpo(compose("recipe.trl.loss_type=cispo", "+recipe.trl.epsilon_high=5.0"))


def test_noise_that_depends_on_the_length_of_a_row_needs_padded_rows():
    with pytest.raises(UserError, match=r"neftune_noise_alpha=5: .*set recipe\.packing_max_tokens=0"):
        check_grpo(compose("+recipe.trl.neftune_noise_alpha=5"))
    check_grpo(compose("+recipe.trl.neftune_noise_alpha=5", "recipe.packing_max_tokens=0"))
