"""What recipes/ppo.py and recipes/reinforce.py build alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from recipes.support.build import trainer_config, trainer_settings
from recipes.support.launch import processes
from recipes.support.main import UserError
from recipes.support.models import add_lora, reference_adapter, sampling_dtype
from recipes.support.run import Run
from recipes.trainers.ppo_config import DensePPOConfig


def check(cfg: DictConfig) -> None:
    """Raise UserError for what can be seen to be wrong before anything is built."""
    r = cfg.recipe
    zero, precision = cfg.hardware.zero_stage, cfg.hardware.precision
    if zero > 2:
        raise UserError("PPO and REINFORCE keep weights whole: set hardware.zero_stage=2 or less (hardware=a100x2)")
    if zero and precision == "fp16":
        raise UserError(
            "PPO and REINFORCE take no ZeRO with fp16: set hardware.precision=bf16 or hardware.zero_stage=0"
        )
    if r.prompts_per_step % processes():
        raise UserError(f"recipe.prompts_per_step={r.prompts_per_step} do not divide into {processes()} processes")
    prompts = r.prompts_per_step // processes()
    if prompts % r.get("mini_batches", 1):
        raise UserError(f"{prompts} prompts a process do not divide into recipe.mini_batches={r.mini_batches}")
    if r.kl.estimator not in ("k1", "k3"):
        raise UserError(f"recipe.kl.estimator={r.kl.estimator}: choose k1 or k3")
    if r.kl.target is not None and not r.kl.coef:
        raise UserError("recipe.kl.target steers recipe.kl.coef, which must not be 0 then; start with 0.02")
    if r.sampler not in ("fast", "generate"):
        raise UserError(f"recipe.sampler={r.sampler}: choose fast or generate")


def run_arguments(run: Run) -> dict[str, Any]:
    """The trainer's arguments that follow from the run: policy with its adapter, reference, task, reward, log."""
    asked, there = run.cfg.recipe.prompts_per_step, len(run.task.problems("train"))
    if asked > there:
        raise UserError(f"recipe.prompts_per_step={asked}, but the task has {there} problems to train on")
    policy = add_lora(run.cfg, run.policy)
    return {
        "model": policy,
        "reference": reference_adapter(run.cfg, policy),
        "processing_class": run.tokenizer,
        "task": run.task,
        "reward": run.reward,
        "run_log": run.log,
        "sampling_dtype": sampling_dtype(run.cfg),
        "server": run.cfg.hardware.vllm_url if run.cfg.hardware.vllm else None,
    }


def ppo_config(cfg: DictConfig, folder: Path, **algorithm: Any) -> DensePPOConfig:
    """cfg.recipe and cfg.hardware as the trainer's configuration; `algorithm` is what the two recipes differ in."""
    r = cfg.recipe
    ours = trainer_settings(cfg, folder) | {
        "temperature": r.temperature,
        "total_episodes": r.max_steps * r.prompts_per_step,
        "per_device_train_batch_size": r.prompts_per_step // processes(),
        "samples_per_prompt": r.samples_per_prompt,
        "rows_per_pass": cfg.hardware.rows_per_device,
        "response_length": r.max_new_tokens,
        "top_p": r.top_p,
        "packing_max_tokens": r.packing_max_tokens,
        "stock_sampling": r.sampler == "generate",
        "gamma": r.gamma,
        "kl_coef": r.kl.coef,
        "kl_estimator": r.kl.estimator,
        "kl_target": r.kl.target,
        "kl_horizon": r.kl.horizon,
        "missing_eos_penalty": r.missing_eos_penalty,
        "zero_stage": cfg.hardware.zero_stage,
        "use_cpu": cfg.hardware.device == "cpu",  # the trainer hands its optimizer to DeepSpeed itself
        **algorithm,
    }
    return trainer_config(DensePPOConfig, ours, r.trl)
