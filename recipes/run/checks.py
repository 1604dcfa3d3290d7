"""Settings of the online recipes that do not go together, refused before anything is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from transformers.integrations import integration_utils

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.processes import processes
from recipes.cli.schema import CONF

REPORTING_EXTRAS = ("tensorboard", "trackio", "wandb")
"""Values of recipe.trl.report_to that are an extra of this package (pyproject.toml)."""
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "grpo": {
        "loss_type": ("dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"),
        "importance_sampling_level": ("token", "sequence"),
    },
    "sft": {"loss_type": ("nll", "dft", "chunked_nll")},
    "dpo": {
        "loss_type": (
            *("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
            *("aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm"),
        ),
        "f_divergence_type": ("reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"),
    },
}
"""Words of TRL's fields, by recipe, which TRL itself looks at in the first loss."""
FILTERS = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
"""Fields of TRL's that change the distribution to sample from, and the values that do not."""


def check_reporting(cfg: DictConfig) -> None:
    """Raise UserError where `recipe.trl.report_to` names something unknown, or whose package is missing."""
    given = cfg.recipe.trl.get("report_to") or "none"
    names = [given] if isinstance(given, str) else list(given)
    known = integration_utils.INTEGRATION_TO_CALLBACK
    available = integration_utils.get_available_reporting_integrations()
    for name in names:
        if name in ("none", "all") or name in available:
            continue
        if name not in known:
            raise UserError(f"recipe.trl.report_to={name}: choose none, all, {', '.join(sorted(known))}")
        source = f'-e ".[{name}]"' if name in REPORTING_EXTRAS else name
        raise UserError(
            f"recipe.trl.report_to={name}: its package is not installed; pip install {source}, or set "
            "recipe.trl.report_to=none"
        )


def check_words(cfg: DictConfig) -> None:
    """Raise UserError for a word in `recipe.trl` that TRL would refuse once the model has loaded."""
    for name, words in WORDS.get(cfg.recipe.name, {}).items():
        given = cfg.recipe.trl.get(name)
        for word in [] if given is None else [given] if isinstance(given, str) else list(given):
            if word not in words:
                raise UserError(f"recipe.trl.{name}={word}: choose {', '.join(words)}")


def check_keep(cfg: DictConfig) -> None:
    """Raise UserError where `run.keep` asks for a best step and none is evaluated."""
    keep, evaluation = cfg.run.keep, cfg.evaluation
    if keep == "best" and not (evaluation.every and (evaluation.samples or evaluation.greedy)):
        raise UserError("run.keep=best chooses among evaluated steps: set evaluation.every=10, and samples or greedy")
    if keep == "best" and evaluation.split == "test":
        log.warning(
            "run.keep=best chooses by evaluation.split=test, so the best score is too high; validation is better"
        )


def check_reference(cfg: DictConfig) -> None:
    """Raise UserError where the reference policy is to follow the trained one and is no model of its own, or is spread
    over processes, of which none could save it."""
    if not cfg.recipe.trl.get("sync_ref_model"):
        return
    if not cfg.recipe.trl.get("beta"):
        raise UserError("recipe.trl.sync_ref_model=true: beta=0 has no reference: set recipe.trl.beta or leave it out")
    if cfg.model.lora_rank:
        raise UserError(
            "recipe.trl.sync_ref_model=true: with LoRA the reference is the model without the adapter, which cannot "
            "follow: set model.lora_rank=0 or leave it out"
        )
    if cfg.hardware.zero_stage == 3:
        raise UserError(
            "recipe.trl.sync_ref_model=true: under ZeRO-3 no process has the whole reference, which a checkpoint "
            "needs: set hardware.zero_stage=2 or leave it out"
        )


def _parts(cfg: DictConfig) -> str:
    """The setting by which a prompt asks for several parts, with its value; empty if none does."""
    asked = ((name, cfg.task.env.get(name, 1)) for name in ("functions", "places"))
    return next((f"task.env.{name}={count}" for name, count in asked if count > 1), "")


def _check_credit(cfg: DictConfig) -> None:
    """Raise UserError for what credit for lines does not go with."""
    if cfg.recipe.credit != "lines":
        return
    if cfg.episode is not None and cfg.episode.turns > 1:
        raise UserError(f"recipe.credit=lines compares answers of one turn: leave out episode={cfg.episode.name}")
    if cfg.recipe.trl.get("importance_sampling_level") == "sequence":
        raise UserError(
            "recipe.trl.importance_sampling_level=sequence has one ratio a completion, through which the advantages of "
            "its lines only count as their mean: set recipe.credit=answer or recipe.trl.importance_sampling_level=token"
        )


def _check_scale(cfg: DictConfig, on_tokens: bool) -> None:
    """Raise UserError where advantages of lines or tokens would be divided by the deviation of whole answers."""
    recipe, scale = cfg.recipe, cfg.recipe.trl.scale_rewards
    if scale in ("none", False):
        return
    if recipe.credit == "lines":
        parts, remedy = "their lines", "recipe.credit=answer"
    elif on_tokens:
        shaped = f"reward={cfg.reward.name}, recipe.shaping={recipe.shaping:g}"
        parts, remedy = f"the rewards of their tokens ({shaped})", "reward=sparse"
    else:
        return
    raise UserError(
        f"recipe.trl.scale_rewards={scale}: the deviation of whole answers says nothing of {parts}: set it to none, or "
        f"{remedy}"
    )


def check_grpo(cfg: DictConfig) -> None:
    """Raise UserError for settings that GRPO cannot follow."""
    recipe, hardware = cfg.recipe, cfg.hardware
    if recipe.trl.beta and cfg.model.path == "scratch" and not cfg.model.lora_rank:
        raise UserError(
            f"recipe.trl.beta={recipe.trl.beta} needs a reference policy, which TRL loads from a path, and a random "
            "model has none: set recipe.trl.beta=0 or model.lora_rank=8"
        )
    if recipe.trl.loss_type == "cispo" and recipe.trl.get("epsilon_high") is None:
        raise UserError(
            "recipe.trl.loss_type=cispo: epsilon_high is the largest ratio by which a token counts, not a distance "
            "from 1, and at TRL's 0.2 nearly all tokens have that weight: set +recipe.trl.epsilon_high=5.0"
        )
    if recipe.trl.get("neftune_noise_alpha") and recipe.packing_max_tokens:
        raise UserError(
            f"recipe.trl.neftune_noise_alpha={recipe.trl.neftune_noise_alpha:g}: its noise depends on the length of a "
            "row, which a prompt and its completions share: set recipe.packing_max_tokens=0 or leave it out"
        )
    if recipe.curriculum.enabled and recipe.trl.get("shuffle_dataset") is False:
        raise UserError(
            "recipe.trl.shuffle_dataset=false: recipe.curriculum.enabled=true draws problems by their weights, in no "
            "fixed order: leave one of the two out"
        )
    _check_credit(cfg)
    _check_groups(cfg)
    _check_filters(cfg)
    if recipe.lookahead and (hardware.load_in_4bit or hardware.zero_stage == 3 or hardware.vllm):
        raise UserError(
            "recipe.lookahead=1 samples from a copy of the policy, which hardware.load_in_4bit (its weights take no "
            "merged adapter), ZeRO-3 (no process has all weights) and vLLM do not allow: set recipe.lookahead=0"
        )
    if hardware.logits_at_once and hardware.zero_stage == 3:
        raise UserError(
            f"hardware.logits_at_once={hardware.logits_at_once} needs the output matrix whole, which ZeRO-3 spreads: "
            "set hardware.logits_at_once=0"
        )
    _check_episode(cfg)
    on_tokens = recipe.shaping and cfg.reward.placement != "sparse" and recipe.credit != "lines"
    _check_scale(cfg, on_tokens)
    by_turn = cfg.episode is not None and cfg.episode.turns > 1
    if (on_tokens or by_turn) and recipe.trl.get("importance_sampling_level") == "sequence":
        where = f"episode={cfg.episode.name}" if by_turn else f"reward={cfg.reward.name}"
        remedy = "episode=null" if by_turn and not on_tokens else "reward=sparse"
        raise UserError(
            "recipe.trl.importance_sampling_level=sequence has one ratio a completion, through which the advantages of "
            f"its tokens ({where}, recipe.shaping={recipe.shaping:g}) only count as their mean: set {remedy}, or "
            "recipe.trl.importance_sampling_level=token"
        )
    if recipe.trl.get("multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize":
        raise UserError(
            "recipe.trl.multi_objective_aggregation: rewards on tokens are summed over channels first; leave it out"
        )
    if recipe.trl.get("log_completions"):
        raise UserError(
            "recipe.trl.log_completions=true: completions.jsonl has them already, and recipes/look.py shows them"
        )


def _check_filters(cfg: DictConfig) -> None:
    """Raise UserError for fields that change the distribution to sample from where vLLM tells log-probabilities."""
    trl, vllm = cfg.recipe.trl, cfg.hardware.vllm
    filters = {name: trl.get(name, none) for name, none in FILTERS.items()}
    for name, value in (filters | dict(trl.get("generation_kwargs") or {})).items() if vllm else ():
        if name in FILTERS and value not in (FILTERS[name], None):
            neutral = "null" if FILTERS[name] is None else FILTERS[name]
            raise UserError(
                f"recipe.trl.{name}={value}: hardware.vllm={vllm} reports log-probabilities of the distribution that "
                f"{name} changes, to which the policy's ratio is not 1: set recipe.trl.{name}={neutral}"
            )


def _check_groups(cfg: DictConfig) -> None:
    """Raise UserError where a process would have a part of a group, or draw again while others do not."""
    recipe, episode = cfg.recipe, cfg.episode
    again = {"recipe.refill=true": recipe.refill, "recipe.prefix.enabled=true": recipe.prefix.enabled}
    alone = again | {"recipe.curriculum.enabled=true": recipe.curriculum.enabled}
    alone |= {"recipe.credit=lines": recipe.credit == "lines"}
    alone |= {} if episode is None else {f"episode={episode.name}": episode.turns > 1}
    for name in (name for name, asked in alone.items() if asked and recipe.prompts_per_step % processes()):
        raise UserError(
            f"{name}: recipe.prompts_per_step={recipe.prompts_per_step} does not divide into {processes()} processes, "
            "each of which needs whole groups: set it to a multiple"
        )
    for name in (name for name, asked in again.items() if asked and cfg.hardware.zero_stage == 3):
        raise UserError(
            f"{name}: under ZeRO-3 all processes sample together, and each draws other groups again: set "
            f"hardware.zero_stage=2 or {name.removesuffix('true')}false"
        )


def check_one_turn(cfg: DictConfig) -> None:
    """Raise UserError where a recipe that knows answers of one turn alone is asked for episodes."""
    if cfg.episode is not None:
        raise UserError(
            f"episode={cfg.episode.name}: recipe={cfg.recipe.name} takes answers of one turn; leave it out (grpo, ppo, "
            "reinforce, sft and eval take episodes)"
        )


def check_sft(cfg: DictConfig) -> None:
    """Raise UserError for an episode without conversations to imitate."""
    if cfg.episode is not None and not cfg.recipe.answers:
        raise UserError(
            f"episode={cfg.episode.name}: recipe=sft imitates conversations of an evaluation; run recipes/eval.py "
            f"evaluation.split=train episode={cfg.episode.name} and give its folder as recipe.answers, or leave it out"
        )


def check_ppo(cfg: DictConfig) -> None:
    """Raise UserError for settings that PPO cannot follow."""
    _check_own_loop(cfg)
    if cfg.value.name == "montecarlo":
        _check_monte_carlo(cfg)
    _check_value_used(cfg)
    _check_sequence_ratio(cfg)


def check_reinforce(cfg: DictConfig) -> None:
    """Raise UserError for settings that REINFORCE cannot follow."""
    recipe = cfg.recipe
    if recipe.baseline == "group" and recipe.samples_per_prompt < 2:
        raise UserError(
            f"recipe.baseline=group needs recipe.samples_per_prompt of 2 or more, not {recipe.samples_per_prompt}"
        )
    _check_own_loop(cfg)
    for name in ("num_ppo_epochs", "num_mini_batches"):
        if recipe.trl[name] != 1:
            raise UserError(
                f"recipe.trl.{name}={recipe.trl[name]}: REINFORCE makes one update of each rollout, since its gradient "
                "has no ratio for another policy's answers; set it to 1, or use recipes/ppo.py"
            )


def _check_own_loop(cfg: DictConfig) -> None:
    """Raise UserError for settings that the training loop of PPO and REINFORCE cannot follow."""
    recipe, zero = cfg.recipe, cfg.hardware.zero_stage
    if cfg.hardware.rollout_rows is not None:
        raise UserError(
            f"hardware.rollout_rows={cfg.hardware.rollout_rows} has no effect: GRPO alone samples a step in parts; "
            "leave it out, or lower recipe.prompts_per_step"
        )
    _check_episode(cfg)
    if recipe.sampler == "generate" and cfg.hardware.vllm:
        raise UserError(
            f"recipe.sampler=generate samples in this process, hardware.vllm={cfg.hardware.vllm} does not: leave one "
            "of the two out"
        )
    if zero > 2:
        raise UserError(
            f"hardware.zero_stage={zero}: PPO and REINFORCE keep weights whole; set 2 or less (hardware=a100x2)"
        )
    if zero and cfg.hardware.precision == "fp16":
        raise UserError(
            "hardware.precision=fp16: PPO and REINFORCE take no ZeRO with it; set hardware.precision=bf16 or "
            "hardware.zero_stage=0"
        )
    completions = recipe.prompts_per_step * recipe.samples_per_prompt
    if recipe.kl_target is not None and recipe.kl_horizon < completions:
        raise UserError(
            f"recipe.kl_horizon={recipe.kl_horizon:g} is below the {completions} completions of a step, so a single "
            "one could turn the coefficient around: raise it"
        )
    if recipe.kl_target is not None and not recipe.trl.kl_coef:
        raise UserError(
            f"recipe.kl_target={recipe.kl_target} steers recipe.trl.kl_coef, which is 0: start with "
            "recipe.trl.kl_coef=0.02"
        )


def _check_sequence_ratio(cfg: DictConfig) -> None:
    """Raise UserError for settings that a ratio of whole completions does not go with."""
    if cfg.recipe.ratio != "sequence":
        return
    if cfg.value.name not in ("shared", "montecarlo"):
        raise UserError(
            f"value={cfg.value.name}: recipe.ratio=sequence takes a completion's total reward as its advantage and has "
            "no critic; leave value out, or set recipe.ratio=token"
        )
    if cfg.recipe.trl.gamma != 1.0:
        raise UserError(
            f"recipe.trl.gamma={cfg.recipe.trl.gamma}: recipe.ratio=sequence sums a completion's rewards without a "
            "discount; set recipe.trl.gamma=1.0"
        )
    if cfg.recipe.trl.get("whiten_rewards"):
        raise UserError(
            "recipe.trl.whiten_rewards=true adds to each token's reward, which recipe.ratio=sequence sums: longer "
            "completions would earn another total; set it to false"
        )


def _check_value_used(cfg: DictConfig) -> None:
    """Raise UserError for a setting of the value that has no effect, where it differs from its file's."""
    own: Any = OmegaConf.load(Path(CONF) / "value" / f"{cfg.value.name}.yaml")
    unused: tuple[str, ...] = ()
    if cfg.value.name != "montecarlo":
        unused, reason = ("continuations", "cuts"), "value=montecarlo alone draws continuations"
    else:
        unused, reason = (
            ("learning_rate", "warmup_updates", "vf_coef", "cliprange_value"),
            "there is no critic to train",
        )
    if cfg.recipe.ratio == "sequence":
        unused = ("learning_rate", "warmup_updates", "vf_coef", "cliprange_value", "lam", *unused)
        reason = "recipe.ratio=sequence has neither critic nor values"
    for name in unused:
        if cfg.value[name] != own.get(name, 0):
            raise UserError(f"value.{name}={cfg.value[name]} has no effect: {reason}; leave it out")


def _check_monte_carlo(cfg: DictConfig) -> None:
    for name in ("continuations", "cuts"):
        if cfg.value[name] < 1:
            raise UserError(f"value.{name}={cfg.value[name]}: value=montecarlo needs at least 1")
    if cfg.recipe.trl.gamma != 1.0:
        raise UserError(
            f"recipe.trl.gamma={cfg.recipe.trl.gamma}: value=montecarlo estimates rewards without a discount; set "
            "recipe.trl.gamma=1.0"
        )
    if cfg.recipe.trl.get("whiten_rewards"):
        raise UserError("recipe.trl.whiten_rewards=true: value=montecarlo whitens advantages alone; set it to false")
    if cfg.recipe.ratio == "sequence":
        raise UserError(
            "recipe.ratio=sequence takes a whole completion as one action, value=montecarlo its segments: set "
            "recipe.ratio=token"
        )


def _check_episode(cfg: DictConfig) -> None:
    """Raise UserError for settings that answers of several turns do not go with."""
    if cfg.episode is None:
        return
    recipe, hardware, message = cfg.recipe, cfg.hardware, f"episode={cfg.episode.name}"
    if hardware.zero_stage == 3 or hardware.vllm == "colocate":
        raise UserError(
            f"{message}: ZeRO-3 and hardware.vllm=colocate sample all processes' rows together, and episodes of "
            "several turns end at different times: set episode=null, hardware.zero_stage=2 or hardware.vllm=server"
        )
    cut = {"grpo": "mask_truncated_completions"}.get(recipe.name, "missing_eos_penalty")
    if recipe.trl.get(cut):
        raise UserError(
            f"recipe.trl.{cut}={recipe.trl[cut]} asks whether an answer was cut, and {message} has several answers in "
            "a row of which each may be: leave it out, or set episode=null"
        )
    if recipe.prefix.enabled:
        raise UserError(
            f"recipe.prefix.enabled=true gives the beginning of one answer, and {message} has several: set "
            "episode=null or recipe.prefix.enabled=false"
        )
    if recipe.name == "ppo" and cfg.value.name == "montecarlo":
        raise UserError(
            f"value=montecarlo continues one answer from its lines, and {message} has several: set value=shared or "
            "episode=null"
        )
    if recipe.name == "ppo" and recipe.ratio == "sequence":
        raise UserError(
            f"recipe.ratio=sequence takes an answer as one action, and {message} has several turns: set "
            "recipe.ratio=token or episode=null"
        )


CHECKS = {
    "grpo": check_grpo,
    "ppo": check_ppo,
    "reinforce": check_reinforce,
    "sft": check_sft,
    "dpo": check_one_turn,
}
"""By recipe, what it asks before anything else."""
