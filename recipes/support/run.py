"""What every training recipe does around its trainer: check and build before, evaluate, train, evaluate, report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from transformers import set_seed

from envs.sandbox import Sandbox
from envs.task import Task
from recipes.support.build import build_reward, build_sandbox, build_task, ready
from recipes.support.checkpoints import latest_checkpoint, step_of
from recipes.support.console import log, log_to
from recipes.support.fitting import plan_or_refuse
from recipes.support.heap import give_back_freed_memory
from recipes.support.launch import join_processes
from recipes.support.models import check_model, load_policy
from recipes.support.peak_memory import TrimBetweenPasses
from recipes.support.run_dir import gone_if_refused, open_run_dir, write_text
from recipes.support.run_log import RunLog
from recipes.support.soundness import training_problems
from recipes.support.stages import EvaluateEvery, Stages
from recipes.support.stopping import StopAtStepEnd, listening, phase, stop_if_asked
from rewards.compose import Reward


@dataclass
class Run:
    """The parts of one run, built from its configuration."""

    cfg: DictConfig
    folder: Path
    task: Task
    sandbox: Sandbox
    reward: Reward
    policy: Any
    tokenizer: Any
    log: RunLog


def prepare(cfg: DictConfig, by_accelerate: bool = True) -> Run:
    """Build the parts. Everything that can be wrong is found before the model loads.

    `by_accelerate`: where the profile has a ZeRO stage, Accelerate makes DeepSpeed's engine; else the trainer itself.
    """
    task = build_task(cfg)
    check_model(cfg)
    plan = plan_or_refuse(cfg, task)
    if plan and plan["keeps_freed"] is False:
        give_back_freed_memory()
    state = join_processes(cfg.hardware, by_accelerate)
    folder = open_run_dir(cfg, state.is_main_process)
    if plan and state.is_main_process:
        write_text(folder / "plan.json", json.dumps(plan) + "\n")
    state.wait_for_everyone()
    log_to(folder)
    with gone_if_refused(folder, state.is_main_process):
        sandbox = build_sandbox(cfg)
        reward = build_reward(cfg, sandbox)
        ready(reward, task, "train", cfg.evaluation.split)
        task = training_problems(cfg, task, reward)
        set_seed(cfg.seed)  # a new adapter's first matrix is random
        policy, tokenizer = load_policy(cfg)
    log = RunLog(folder, cfg.run.completions_per_step)
    return Run(cfg, folder, task, sandbox, reward, policy, tokenizer, log)


def fit(run: Run, trainer: Any) -> None:
    """Evaluate, train from where an earlier start left off, keep the weights, evaluate again, report.

    Raises Stopped where the run was asked to stop, when all that is needed to go on is saved.
    """
    trainer.add_callback(StopAtStepEnd())
    trainer.add_callback(TrimBetweenPasses())
    with listening(), asyncio.Runner() as runner:
        stages = Stages(run.cfg, run.folder, trainer, run.task, run.reward, run.sandbox, runner, run.log)
        if every := run.cfg.evaluation.every:
            trainer.add_callback(EvaluateEvery(stages, every))
        if run.cfg.evaluation.before:
            with phase("evaluation", interruptible=True):
                stages.evaluate("before")
        stop_if_asked()
        latest = latest_checkpoint(run.folder)
        run.log.rewind(step_of(latest))
        if latest and step_of(latest) >= run.cfg.recipe.max_steps:
            log.info(
                "%s is finished, its %d steps are done: nothing to train; a larger recipe.max_steps goes on, "
                "run.if_exists=replace starts again",
                run.folder,
                step_of(latest),
            )
            trainer.restore(latest)
        else:
            with phase("update"):
                trainer.train(resume_from_checkpoint=str(latest) if latest else None)
            stop_if_asked()
        trainer.save_final(run.folder / "final")
        with phase("evaluation", interruptible=True):
            stages.evaluate("after")
        stages.report()
