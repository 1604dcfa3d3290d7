"""Numbers and words that a setting may have: anything else is refused in one line, before anything is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from omegaconf import DictConfig, ListConfig, OmegaConf

from envs.task import Split
from recipes.cli.errors import UserError

Range = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words and as a test."""


def at_least(least: float) -> Range:
    """Numbers from `least` on."""
    return f"a number of at least {least:g}", lambda value: value >= least


def one_of(*names: Any) -> Range:
    """The names alone."""
    return " or ".join(map(str, names)), lambda value: value in names


ALL_SPLITS = "all"
"""What recipes/check.py takes as a split."""
ABOVE_0 = ("a number above 0", lambda value: value > 0)
BELOW_1 = ("a number of at least 0, below 1", lambda value: 0 <= value < 1)
SHARE = ("a number above 0, at most 1", lambda value: 0 < value <= 1)
SCALES: Range = ("none or group or batch", lambda value: value in ("none", "group", "batch", True, False))
"""TRL takes true for group, and false for none."""

RANGES: dict[str, Range] = {
    "seed": ("a number from 0 to 4294967295", lambda value: 0 <= value < 2**32),  # NumPy takes no other
    "task.max_new_tokens": at_least(1),
    "task.prompt_tokens": at_least(1),
    "episode.turns": at_least(1),
    "hardware.device": one_of("cpu", "cuda"),
    "hardware.num_processes": at_least(1),
    "hardware.num_machines": at_least(1),
    "hardware.zero_stage": one_of(0, 1, 2, 3),
    "hardware.precision": one_of("fp32", "bf16", "fp16"),
    "hardware.vllm": ("server or colocate or null", lambda value: value in ("server", "colocate")),
    "hardware.rows_per_device": at_least(1),
    "hardware.rollout_rows": at_least(1),
    "hardware.eval_rows": at_least(1),
    "hardware.logits_at_once": at_least(0),
    "hardware.memory_gib": ABOVE_0,
    "model.lora_rank": at_least(0),
    "model.lora_alpha": ABOVE_0,
    "model.lora_dropout": BELOW_1,
    "evaluation.every": at_least(0),
    "evaluation.samples": at_least(0),
    "evaluation.top_p": SHARE,
    "evaluation.max_new_tokens": at_least(1),
    "run.name": ("a name; leave it out for one that says what the command changes", bool),
    "run.keep": one_of("last", "best"),
    "run.keep_every": at_least(0),
    "run.completions_per_step": at_least(0),
    "recipe.prompts_per_step": at_least(1),
    "recipe.samples_per_prompt": at_least(1),
    "recipe.batch_size": at_least(1),
    "recipe.top_p": SHARE,
    "recipe.temperature": ABOVE_0,
    "recipe.audit": at_least(0),
    "recipe.problems": at_least(1),
    "recipe.kl_horizon": ABOVE_0,
    "recipe.kl_target": ABOVE_0,
    "recipe.grading_chunk": at_least(0),
    "recipe.refill_rounds": at_least(0),
    "recipe.lookahead": one_of(0, 1),
    "recipe.packing_max_tokens": at_least(0),
    "recipe.pairs_per_prompt": at_least(1),
    "recipe.prompts_at_once": at_least(1),
    "recipe.credit": one_of("answer", "lines"),
    "recipe.ratio": one_of("token", "sequence"),
    "recipe.baseline": one_of("none", "batch", "group"),
    "recipe.sampler": one_of("fast", "generate"),
    "recipe.trl.scale_rewards": SCALES,
    "recipe.trl.kl_estimator": one_of("k1", "k3"),
    "recipe.trl.max_steps": ("a number of at least 1 (trainings count steps, not epochs)", lambda value: value >= 1),
    "recipe.trl.save_steps": ABOVE_0,
    "recipe.trl.save_total_limit": at_least(0),
    "recipe.trl.num_generations": at_least(2),  # a group of one differs from its own mean by nothing
    "recipe.trl.num_iterations": at_least(1),
    "recipe.curriculum.memory": BELOW_1,
    "recipe.curriculum.least": SHARE,
    "recipe.prefix.share": SHARE,
    "recipe.prefix.step": SHARE,
    "recipe.prefix.until": SHARE,
    "recipe.trl.num_ppo_epochs": at_least(1),
    "recipe.trl.num_mini_batches": at_least(1),
    "recipe.trl.temperature": ABOVE_0,
    "recipe.trl.top_p": SHARE,
    "recipe.trl.learning_rate": at_least(0),
    "recipe.trl.weight_decay": at_least(0),
    "recipe.trl.adam_beta1": BELOW_1,
    "recipe.trl.adam_beta2": BELOW_1,
    "recipe.trl.adam_epsilon": ABOVE_0,
    "recipe.trl.epsilon": ABOVE_0,
    "recipe.trl.epsilon_high": ABOVE_0,
    "recipe.trl.warmup_steps": at_least(0),
    "recipe.trl.max_grad_norm": at_least(0),
    "recipe.trl.beta": at_least(0),
    "recipe.trl.max_length": at_least(1),
    "recipe.trl.cliprange": ABOVE_0,
    "recipe.trl.cliprange_value": ABOVE_0,
    "recipe.trl.kl_coef": at_least(0),
    "recipe.trl.max_completion_length": at_least(1),
    "recipe.trl.response_length": at_least(1),
    "recipe.trl.gamma": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
    "recipe.trl.lam": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
    "value.name": one_of("shared", "mlp", "separate", "montecarlo"),
    "value.warmup_updates": at_least(0),
    "value.learning_rate": at_least(0),
    "value.vf_coef": at_least(0),
    "pass_rate": at_least(1),
}
"""By key. Whether null is allowed is decided by the schema, and by NEVER_NULL."""
COUNTED = {
    f"recipe.trl.{name}"
    for name in (
        *("max_steps", "num_generations", "num_mini_batches", "num_ppo_epochs"),
        *("max_completion_length", "response_length"),
    )
}
"""Fields of TRL's that the plan of the memory counts with."""
NEVER_NULL = {*COUNTED, "recipe.trl.scale_rewards", "recipe.trl.kl_estimator"}
WHOLE = {*COUNTED, "recipe.problems", "recipe.trl.num_iterations", "recipe.trl.max_length"}
"""Fields without a type of their own here, of which 2e2 would be a number that counts nothing."""


def check_ranges(cfg: DictConfig) -> None:
    """Raise UserError for the first setting whose value is not allowed, naming the setting and its range."""
    for key, (words, allows) in RANGES.items():
        group, _, name = key.rpartition(".")
        node = OmegaConf.select(cfg, group) if group else cfg
        if not isinstance(node, DictConfig) or name not in node or (node[name] is None and key not in NEVER_NULL):
            continue
        value = node[name]
        counts = isinstance(value, int | float) and not isinstance(value, bool)
        if (words.startswith("a number") and not counts) or not allows(value):
            raise UserError(f"{key}={value}: it must be {words}")
        if key in WHOLE and not isinstance(value, int):
            raise UserError(f"{key}={value}: it must be a whole number, written without point or exponent")
    _check_shapes(cfg)
    _check_kept(cfg.run.keep_every, (cfg.recipe.get("trl") or {}).get("save_steps"))
    if cfg.pass_rate is not None and cfg.recipe.name != "check":
        raise UserError(
            f"pass_rate={cfg.pass_rate}: recipes/check.py alone measures it, not {cfg.recipe.name}; leave it out"
        )
    _check_evaluation(cfg.evaluation, cfg.recipe.name == "check")


def _check_shapes(cfg: DictConfig) -> None:
    """Raise UserError for a setting that must be a group of settings, or two numbers."""
    for name in ("curriculum", "prefix"):
        if name in cfg.recipe and cfg.recipe[name] is None:
            raise UserError(f"recipe.{name}=null: set recipe.{name}.enabled=false")
    between = cfg.task.get("pass_rate_range") if cfg.get("task") else None
    if between is not None and len(between) != 2:
        raise UserError(f"task.pass_rate_range={list(between)}: it must be two numbers, such as [0.05,0.95]")


def _check_kept(every: int, saved: float | None) -> None:
    """Raise UserError where checkpoints are to stay of steps at which none is made."""
    if every and saved and every % saved:
        raise UserError(
            f"run.keep_every={every}: checkpoints are made every {saved} steps, so not at all of its multiples; set "
            f"recipe.trl.save_steps={every}"
        )


def _check_evaluation(evaluation: DictConfig, every_split: bool) -> None:
    """Raise UserError for an unknown split, for several samples that would all be alike, and for a pass@k of more
    samples than are drawn."""
    splits = [*get_args(Split), *([ALL_SPLITS] if every_split else [])]
    if evaluation.split not in splits:
        raise UserError(f"evaluation.split={evaluation.split}: it must be {' or '.join(splits)}")
    if evaluation.samples and not evaluation.temperature > 0:  # NaN is refused too
        raise UserError(
            f"evaluation.temperature={evaluation.temperature}: samples need a number above 0; set evaluation.samples=0 "
            "evaluation.greedy=true to decode greedily"
        )
    k: ListConfig = evaluation.k
    if not k or min(k) < 1:
        raise UserError(f"evaluation.k={list(k)}: it must be a list of numbers of at least 1, such as [1]")
    if evaluation.samples and max(k) > evaluation.samples:
        raise UserError(
            f"evaluation.k={list(k)}: pass@{max(k)} needs that many samples of each problem; set "
            f"evaluation.samples={max(k)}, or leave {max(k)} out"
        )
