"""From configuration to the arguments of TRL's trainers: `recipe.trl` as it stands, and what the hardware decides."""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import Any, get_type_hints

import torch
from omegaconf import DictConfig
from transformers import Trainer, get_scheduler

from recipes.cli.batches import micro_batches
from recipes.cli.errors import UserError
from recipes.cli.processes import processes
from recipes.cli.schema import as_dict
from recipes.data.training_data import tokenized_prompts
from recipes.models.load import add_lora, reference_adapter, sampling_dtype
from rewards.build import expected_of

NOT_THE_TRAINERS = ("name", "prompts_per_step", "ratio", "trl")
"""Keys of `recipe` that are no argument of a trainer."""


def trainer_knobs(cfg: DictConfig) -> dict[str, Any]:
    """The keys of `recipe` that this project's online trainers take under the same name, beside TRL's arguments."""
    return {key: value for key, value in as_dict(cfg.recipe).items() if key not in NOT_THE_TRAINERS}


def ppo_arguments(run: Any) -> dict[str, Any]:
    """The arguments that DensePPOTrainer and its subclasses share, of a `Run`: the policy with its adapter, the
    reference, data, reward, and how to sample."""
    cfg, policy = run.cfg, add_lora(run.policy, run.cfg.model, run.cfg.adapter)
    return {
        "model": policy,
        "args": run.args,
        "processing_class": run.tokenizer,
        "train_dataset": tokenized_prompts(run.task, run.tokenizer),
        "task": run.task,
        "reward": run.reward,
        "run_log": run.log,
        "reference": reference_adapter(policy, cfg.adapter),
        "sampling_dtype": sampling_dtype(cfg.hardware),
        "rows_per_pass": cfg.hardware.rows_per_device,
        "zero_stage": cfg.hardware.zero_stage,
        "server": cfg.hardware.vllm_url if cfg.hardware.vllm else None,
        "episode": run.episode,
        **trainer_knobs(cfg),
    }


def trl_arguments(cfg: DictConfig, kind: type) -> Any:
    """An instance of `kind` (trl.GRPOConfig, SFTConfig, DPOConfig, PPOConfig): the fields of `recipe.trl`, passed on
    whole, and those that the hardware profile, the run directory and the seed decide.

    Raises:
        UserError: a field of `recipe.trl` that another setting decides, that does not exist, or whose value is refused;
            a step that does not divide into passes and processes.
    """
    batches = {"grpo": _grpo_batches, "ppo": _ppo_batches, "reinforce": _ppo_batches}
    decided = _decided_by_profile(cfg) | batches.get(cfg.recipe.name, _offline_batches)(cfg)
    given = as_dict(cfg.recipe.trl)
    for name, value in given.items():
        if name in decided:
            decides = (
                f"{DECIDED_BY[name]} decides it; set that"
                if name in DECIDED_BY
                else "the recipe decides it; leave it out"
            )
            raise UserError(f"recipe.trl.{name}={value}: {decides}")
        _check_field(kind, name, value)
        _check_used(cfg, name, value, getattr(kind, name, None))
    try:
        args = kind(**given, **decided)
    except (TypeError, ValueError) as error:
        raise UserError(f"recipe.trl or hardware: {kind.__name__} refuses a value: {error}") from error
    _check_schedule(cfg, args)
    return args


DECIDED_BY = {
    "bf16": "hardware.precision",
    "ddp_backend": "hardware.device",
    "dataloader_pin_memory": "hardware.device",
    "fp16": "hardware.precision",
    "gradient_accumulation_steps": "hardware.rows_per_device with recipe.prompts_per_step or recipe.batch_size",
    "gradient_checkpointing": "hardware.gradient_checkpointing",
    "optim": "hardware.optimizer",
    "output_dir": "run.dir",
    "per_device_train_batch_size": "hardware.rows_per_device or recipe.prompts_per_step",
    "seed": "seed",
    "total_episodes": "recipe.trl.max_steps with recipe.prompts_per_step",
    "use_cpu": "hardware.device",
    "use_vllm": "hardware.vllm",
}
"""The setting of this project that decides a field of TRL's."""


SAMPLING = "answers are sampled with recipe.trl.temperature and top_p alone; leave it out"
LIGER = "its loss cannot use token rewards; hardware.logits_at_once=256 saves the memory of the logits"
ONE_ROLLOUT = "a rollout is the completions of one step; recipe.prompts_per_step decides how many"
NO_CRITIC = "REINFORCE has no critic; leave it out"
IMPORTANCE = "the ratio is to the log-probabilities that vLLM drew with; leave it out"
OWN_LOSS = "the recipe's loss does not know it; leave it out"
OWN_LOOP = "the recipe's own training loop does not know it; leave it out"
CHAT = "evaluation, chat and export would not have it; change the model's own chat template"
EXAMPLES = "examples are tokenized as the policy is asked, before TRL sees them; leave it out"
STEPS = "trainings count steps; set recipe.trl.max_steps"
ORDER = "prompts are drawn by the seed, or by the curriculum; set seed or recipe.curriculum"
LOADING = ("num_workers", "drop_last", "persistent_workers", "prefetch_factor", "multiprocessing_context", "in_order")
OWN_PROMPTS = {
    **dict.fromkeys(("data_seed", "train_sampling_strategy", "length_column_name"), ORDER),
    **{f"dataloader_{name}": "prompts are in memory; leave it out" for name in LOADING},
}
"""Fields of the loader of TRL's, which trainings that sample do not have."""
EVERYWHERE = {
    "num_train_epochs": STEPS,
    "eval_strategy": "evaluation.every evaluates during the training; set that",
    "eval_steps": "evaluation.every evaluates during the training; set that",
    "resume_from_checkpoint": "the same command again resumes a run; leave it out",
    "eval_on_start": "evaluation.before evaluates before the training; set that",
    "save_strategy": "a run is resumed from its checkpoints; recipe.trl.save_steps says how often they are saved",
    "save_only_model": "a checkpoint holds what it takes to resume exactly; leave it out",
    "logging_strategy": "metrics.jsonl has a row a step; leave it out",
}
"""Fields of TRL's that no recipe uses, and what to do instead."""
UNUSED: dict[str, dict[str, str]] = {
    "sft": {
        "chat_template_path": CHAT,
        "eos_token": CHAT,
        "completion_only_loss": EXAMPLES,
        "assistant_only_loss": EXAMPLES,
        "dataset_text_field": EXAMPLES,
    },
    "grpo": {
        **OWN_PROMPTS,
        "chat_template_kwargs": CHAT,
        "top_k": SAMPLING,
        "min_p": SAMPLING,
        "repetition_penalty": SAMPLING,
        "generation_kwargs": SAMPLING,
        "cache_implementation": SAMPLING,
        "use_transformers_continuous_batching": SAMPLING,
        "vllm_structured_outputs_regex": SAMPLING,
        "max_tool_calling_iterations": "answers call no tools; episode=repair asks for further turns",
        "use_liger_kernel": LIGER,
        "reward_weights": "a channel's weight is task.reward.<channel>.weight; set that",
        "steps_per_generation": ONE_ROLLOUT,
        "generation_batch_size": ONE_ROLLOUT,
        "pad_to_multiple_of": "micro-batches are cut to their longest completion; leave it out",
        "vllm_importance_sampling_correction": IMPORTANCE,
        "vllm_importance_sampling_mode": IMPORTANCE,
        "vllm_importance_sampling_cap": IMPORTANCE,
        "vllm_importance_sampling_clip_max": IMPORTANCE,
        "vllm_importance_sampling_clip_min": IMPORTANCE,
        "num_completions_to_print": "recipes/look.py shows completions; leave it out",
        "label_smoothing_factor": OWN_LOSS,
    },
    "ppo": {
        **OWN_PROMPTS,
        "neftune_noise_alpha": OWN_LOSS,
        "label_smoothing_factor": OWN_LOSS,
        "torch_empty_cache_steps": OWN_LOOP,
        "gradient_checkpointing_kwargs": "hardware.gradient_checkpointing decides it; leave it out",
        "use_liger_kernel": LIGER,
    },
}
"""Fields of TRL's that would do nothing here, or the wrong thing, by recipe, and what to do instead."""
UNUSED["reinforce"] = UNUSED["ppo"] | {
    "lam": NO_CRITIC,
    "vf_coef": NO_CRITIC,
    "cliprange_value": NO_CRITIC,
    "cliprange": "REINFORCE's loss has no ratio to clip; leave it out",
}


def _check_used(cfg: DictConfig, name: str, value: Any, default: Any) -> None:
    """Raises UserError where a field would be ignored and has another value than TRL's own."""
    reason = UNUSED.get(cfg.recipe.name, {}).get(name)
    if name in EVERYWHERE:
        reason, default = EVERYWHERE[name], default if EVERYWHERE[name] is not STEPS else None
    by_trl = cfg.hardware.vllm == "colocate" or cfg.hardware.zero_stage == 3  # TRL samples itself there
    if reason is None or value == default or (reason is SAMPLING and by_trl):
        return
    raise UserError(f"recipe.trl.{name}={value} is not supported here: {reason}")


def _decided_by_profile(cfg: DictConfig) -> dict[str, Any]:
    hardware, on_cpu = cfg.hardware, cfg.hardware.device == "cpu"
    return {
        "output_dir": str(Path(cfg.run.dir) / "checkpoints"),
        "seed": cfg.seed,
        "optim": hardware.optimizer,
        "gradient_checkpointing": hardware.gradient_checkpointing,
        "bf16": hardware.precision == "bf16",
        "fp16": hardware.precision == "fp16",
        "use_cpu": on_cpu and not hardware.zero_stage,  # told of a CPU, Accelerate leaves DeepSpeed out
        "ddp_backend": "gloo" if on_cpu and processes() > 1 else None,
        "disable_tqdm": True,  # the run log prints a line a step
        "logging_steps": 1,  # and records count on one for each
        "logging_nan_inf_filter": False,  # it would show the mean of earlier losses in place of a NaN
    }


def _grpo_batches(cfg: DictConfig) -> dict[str, Any]:
    """A step's completions as micro-batches of at most `hardware.rows_per_device`."""
    each, passes = micro_batches(cfg, processes())
    return {
        "per_device_train_batch_size": each,
        "gradient_accumulation_steps": passes,
        "use_vllm": cfg.hardware.vllm == "colocate",
        "remove_unused_columns": False,
        "dataloader_pin_memory": cfg.hardware.device == "cuda",
        # a forward pass for each prompt, and processes may have different numbers of them: none may wait for another
        "ddp_broadcast_buffers": False,
        # the output matrix is used outside of the forward pass, where DDP does not see it
        "ddp_find_unused_parameters": False if cfg.hardware.logits_at_once else None,
    }


def _ppo_batches(cfg: DictConfig) -> dict[str, Any]:
    """A step's prompts by process."""
    return {
        "per_device_train_batch_size": micro_batches(cfg, processes())[0],
        "gradient_accumulation_steps": 1,
        "total_episodes": cfg.recipe.trl.max_steps * cfg.recipe.prompts_per_step,
        "remove_unused_columns": False,
        "use_cpu": cfg.hardware.device == "cpu",  # the trainer hands its optimizer to DeepSpeed itself
    }


def _offline_batches(cfg: DictConfig) -> dict[str, Any]:
    """An update's examples as micro-batches of at most `hardware.rows_per_device`."""
    each, passes = micro_batches(cfg, processes())
    return {
        "per_device_train_batch_size": each,
        "gradient_accumulation_steps": passes,
        # SFT uses the output matrix outside of the forward pass, where DDP does not see it
        "ddp_find_unused_parameters": False if cfg.recipe.name == "sft" else None,
    }


def _check_schedule(cfg: DictConfig, args: Any) -> None:
    """Raise UserError where the optimizer or the learning rate's schedule cannot be made of these settings, while there
    is no run directory and no model."""
    weight = torch.nn.Parameter(torch.zeros(1))
    try:
        kind, settings = Trainer.get_optimizer_cls_and_kwargs(args)
        optimizer = kind([weight], **settings)
    except (TypeError, ValueError, ImportError, RuntimeError, AttributeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"hardware.optimizer={cfg.hardware.optimizer}: {reason}; hardware.optimizer=adamw_torch needs no further "
            "package"
        ) from None
    name = getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)
    try:
        more = dict(args.lr_scheduler_kwargs or {})
        get_scheduler(args.lr_scheduler_type, optimizer, args.get_warmup_steps(args.max_steps), args.max_steps, more)
    except (TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"recipe.trl.lr_scheduler_type={name}: {error}; its settings go into "
            "+recipe.trl.lr_scheduler_kwargs={KEY: VALUE}, or set recipe.trl.lr_scheduler_type=linear"
        ) from None


def _check_field(kind: type, name: str, value: Any) -> None:
    """Raises UserError where `kind` has no field `name`, or one of numbers that takes no such value."""
    names = [field.name for field in dataclasses.fields(kind)]
    if name not in names:
        close = difflib.get_close_matches(name, names, 3, cutoff=0.7)
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f"recipe.trl.{name}={value}: {kind.__name__} has no such field{meant}")
    if expected := expected_of(get_type_hints(kind)[name], value):
        raise UserError(f"recipe.trl.{name}={value}: {expected} expected")
