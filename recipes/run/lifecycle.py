"""What every training recipe does around its trainer: check and build before, evaluate, train, evaluate, report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from transformers import set_seed
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from envs.episode import Episode
from envs.task import Task
from recipes.cli.console import log, log_to
from recipes.cli.errors import UserError
from recipes.cli.lock import release
from recipes.cli.memory_use import GIB, give_back_freed_memory, keep_at_most
from recipes.cli.places import require_writable
from recipes.cli.processes import join_processes
from recipes.cli.stopping import StopAtStepEnd, listening, phase, stop_if_asked
from recipes.data.chat_tokens import check_readable
from recipes.evaluation.task_soundness import training_problems
from recipes.models.load import check_model, load_policy, tell_adapter_settings
from recipes.records.checkpoint_folders import (
    PREFIX,
    broken_file,
    final_step,
    latest_checkpoint,
    remove_whole,
    step_of,
)
from recipes.records.directory import open_run_dir, remove_if_setup_fails, write_text
from recipes.records.jsonl import read_config
from recipes.records.log import RunLog
from recipes.run.before import check_before_from, take_before
from recipes.run.build import (
    OtherTask,
    build_episode,
    build_reward,
    build_sandbox,
    build_task,
    check_split,
    evaluated_split,
    other_task,
    ready,
)
from recipes.run.callbacks import TrimBetweenPasses, WarnOfGamedTests
from recipes.run.checks import check_keep, check_reference, check_reporting, check_words
from recipes.run.stages import EvaluateEvery, Stages
from recipes.run.trl_config import trl_arguments
from recipes.tools.card.model_card import Weights, model_card
from recipes.tools.memory.advice import plan_or_refuse
from recipes.tools.memory.contents import ONLINE
from recipes.tools.memory.prompt_lengths import check_context
from recipes.tools.progress import Best, best, finished_step, trained_to
from rewards.compose import Reward

KEPT = 1.5
"""Of a run's planned peak: resident memory above which freed memory goes back, where there is room for twice that peak.
What a pass adds to it stays below that room."""


@dataclass
class Run:
    """The parts of one run, built from its configuration."""

    cfg: DictConfig
    folder: Path
    task: Task
    reward: Reward
    others: list[tuple[OtherTask, Reward]]
    """The tasks of task.also_evaluate with their rewards."""
    policy: Any
    tokenizer: Any
    log: RunLog
    episode: Episode | None
    """The environment of answers of several turns."""
    args: Any
    """The trainer's arguments, of TRL's own class."""


def prepare(
    cfg: DictConfig, kind: type, by_accelerate: bool = True, check: Callable[[Task], Any] = lambda _: None
) -> Run:
    """Build the parts of a run. Whatever can be wrong is refused before the model loads.

    Args:
        kind: the class of the trainer's arguments: trl.GRPOConfig, PPOConfig, SFTConfig or DPOConfig.
        by_accelerate: where the profile has a ZeRO stage, Accelerate makes DeepSpeed's engine; else the trainer does.
        check: of the recipe's own; called with the task before the model loads, it may raise UserError.

    Raises:
        UserError: a setting, the data or this machine does not allow the run.
    """
    check_reporting(cfg)
    check_words(cfg)
    check_keep(cfg)
    check_reference(cfg)
    task = build_task(cfg, "train", *evaluated_split(cfg))
    also = _answered(cfg, task, [other_task(name, cfg.evaluation.split) for name in cfg.task.also_evaluate])
    check_before_from(cfg, task)
    check_model(cfg.model, cfg.hardware, cfg.adapter)
    tell_adapter_settings(cfg.model, cfg.adapter)
    if cfg.run.dir:
        require_writable(f"run.dir={cfg.run.dir}", Path(cfg.run.dir))
    plan = plan_or_refuse(cfg, task, also)
    _keep_freed_memory(plan)
    state = join_processes(cfg.hardware, by_accelerate)
    args = trl_arguments(cfg, kind)
    divided = cfg.hardware.zero_stage == 3
    if divided:  # where such arguments exist, transformers loads the policy in parts: they are made again after it
        unset_hf_deepspeed_config()
    folder = open_run_dir(cfg, state.is_main_process, trained_to)
    if plan and state.is_main_process:
        write_text(folder / "plan.json", json.dumps(plan) + "\n")
    state.wait_for_everyone()
    log_to(folder)
    with remove_if_setup_fails(folder, state.is_main_process):
        _require_whole(latest_checkpoint(folder))
        _require_checkpoint(cfg, folder)
        sandbox = build_sandbox(cfg)
        reward = build_reward(cfg, sandbox)
        others = [(other, other.reward(sandbox)) for other in also]
        ready(reward, task, "train", *evaluated_split(cfg))
        episode = build_episode(cfg, sandbox)
        if episode is not None:
            ready(episode, task, "train", *evaluated_split(cfg))
        for other, other_reward in others:
            ready(other_reward, other.task, cfg.evaluation.split)
        task = training_problems(cfg, task, reward, folder)
        _require_a_step(cfg, task)
        check(task)
        set_seed(cfg.seed)  # a new adapter's first matrix is random
        policy, tokenizer = load_policy(cfg.model, cfg.hardware, cfg.adapter)
        check_readable(task, "train", tokenizer, cfg.model.name, answers=cfg.recipe.name == "sft")
        for other, _ in others:
            check_readable(other.task, cfg.evaluation.split, tokenizer, cfg.model.name)
        check_context(cfg, task, tokenizer, policy.config, samples=cfg.recipe.name in ONLINE)
    log = RunLog(folder, cfg.run.completions_per_step)
    args = trl_arguments(cfg, kind) if divided else args
    return Run(cfg, folder, task, reward, others, policy, tokenizer, log, episode, args)


def _keep_freed_memory(plan: dict | None) -> None:
    """Let this process keep as much of the memory that it frees as the plan has room for."""
    if plan and plan["keeps_freed"] is False:
        give_back_freed_memory()
    elif plan and plan["keeps_freed"]:
        keep_at_most(KEPT * plan["peak_gib"] * GIB)


def _answered(cfg: DictConfig, task: Task, also: list[OtherTask]) -> list[OtherTask]:
    """The other tasks that have problems in the split to evaluate. Raises UserError where the run's own has none."""
    split = cfg.evaluation.split
    if evaluated_split(cfg):
        check_split(cfg, task)
    for other in (other for other in also if not other.task.problems(split)):
        log.info("task.also_evaluate: %s has no %s problems and is left out", other.task.name, split)
    return [other for other in also if other.task.problems(split)]


def _require_whole(checkpoint: Path | None) -> None:
    """Raises UserError where a file of the checkpoint that a run would resume from is broken."""
    if checkpoint and (broken := broken_file(checkpoint)):
        raise UserError(
            f"{broken} is not whole: remove {checkpoint} to go on from the checkpoint before it, or set "
            "run.if_exists=replace to start again"
        )


def _require_checkpoint(cfg: DictConfig, folder: Path) -> None:
    """Raises UserError where a run is to go on whose checkpoints have been removed."""
    steps, end = cfg.recipe.trl.max_steps, finished_step(folder, read_config(folder / "config.yaml")[0])
    if end is not None and end < steps and latest_checkpoint(folder) is None:
        raise UserError(
            f"recipe.trl.max_steps={steps}: {folder} ends at step {end} and has no checkpoint to go on from; set "
            f"recipe.trl.max_steps={end}, run.name, or run.if_exists=replace to start again"
        )


def _only_final_is_left(run: Run) -> bool:
    """Whether a run has come to its end, which `_require_checkpoint` has looked at, and has no checkpoint any more."""
    config = read_config(run.folder / "config.yaml")[0]
    return latest_checkpoint(run.folder) is None and finished_step(run.folder, config) is not None


def _require_a_step(cfg: DictConfig, task: Task) -> None:
    """Raises UserError where the task has fewer training problems than a step takes, or nothing to imitate."""
    problems = task.problems("train")
    wanted = cfg.recipe.get("prompts_per_step", 0)
    if wanted > len(problems):
        raise UserError(
            f"recipe.prompts_per_step={wanted}: task={cfg.task.name} has {len(problems)} problems to train on; set "
            f"recipe.prompts_per_step={len(problems)} or less"
        )
    imitates = cfg.recipe.name == "sft" and cfg.recipe.answers is None  # its own answers need no reference
    if imitates and not any(problem.reference for problem in problems):
        raise UserError(f"task={cfg.task.name} has no reference solutions to learn from: choose another task for SFT")


def fit(run: Run, trainer: Any) -> None:
    """Evaluate, train from where an earlier start left off, keep the weights, evaluate again, report.

    Raises Stopped where the run was asked to stop, when all that is needed to go on is saved.
    """
    trainer.keep_every = run.cfg.run.keep_every
    trainer.card = lambda step: model_card(run.folder, Weights(step))
    trainer.add_callback(StopAtStepEnd())
    trainer.add_callback(TrimBetweenPasses())
    trainer.add_callback(WarnOfGamedTests(run.folder))
    with listening(), asyncio.Runner() as runner:
        stages = Stages(run.cfg, run.folder, trainer, run.task, run.reward, run.others, runner, run.log, run.episode)
        if _only_final_is_left(run):
            log.info("%s is finished and its checkpoints are removed: nothing to train", run.folder)
            stages.report()
            release(run.folder)
            return
        if every := run.cfg.evaluation.every:
            trainer.add_callback(EvaluateEvery(stages, every, run.cfg.evaluation.every_task))
        source = run.cfg.evaluation.before_from
        if trainer.accelerator.is_main_process:
            run.log.mend()
            if source:
                take_before(source, run.log)
        if run.cfg.evaluation.before and not source:
            with phase("evaluation", interruptible=True):
                stages.evaluate("before")
        stop_if_asked()
        latest = latest_checkpoint(run.folder)
        if trainer.accelerator.is_main_process:
            run.log.rewind(step_of(latest))
        if run.cfg.run.keep == "best" and (earlier := best_step(run)):
            trainer.keep_step = earlier.step
        if latest and step_of(latest) >= run.cfg.recipe.trl.max_steps:
            log.info(
                "%s is finished, its %d steps are done: nothing to train; a larger recipe.trl.max_steps goes on, "
                "run.if_exists=replace starts again",
                run.folder,
                step_of(latest),
            )
            trainer.restore(latest)
            if final_step(run.folder) is None or broken_file(run.folder / "final"):
                trainer.save_final(run.folder / "final")
        else:
            if trainer.accelerator.is_main_process:
                _remove_former_end(run.folder, latest)
            with phase("update"):
                trainer.train(resume_from_checkpoint=str(latest) if latest else None)
            stop_if_asked()
            trainer.save_final(run.folder / "final")
        with phase("evaluation", interruptible=True):
            stages.evaluate("after")
        if run.cfg.run.keep == "best":
            restore_best(run, trainer)
        keep_weights(run, trainer)
        stages.report()
    release(run.folder)


def _remove_former_end(folder: Path, latest: Path | None) -> None:
    """Remove final/ where a larger max_steps goes on behind its step: until the new end a reader is to have the newest
    checkpoint. A checkpoint has the weights that were in it; without one, as where it was removed, final/ stays."""
    end = final_step(folder)
    if end is not None and end <= step_of(latest):
        remove_whole(folder / "final")


def best_step(run: Run) -> Best | None:
    """The best step of the training that the run has evaluated so far."""
    return best(run.folder, read_config(run.folder / "config.yaml")[0], trained=True)


def restore_best(run: Run, trainer: Any) -> None:
    """Load the weights of the best evaluated step, if they are better than the last ones."""
    results = best_step(run)
    overall = best(run.folder, read_config(run.folder / "config.yaml")[0])
    if results and overall and overall.step == 0:
        log.warning(
            "run.keep=best: no step is better than the model before training, %s %.3f; final/ has the best of the "
            "training's own steps",
            *(overall.measure, overall.share["value"]),
        )
    checkpoint = run.folder / "checkpoints" / f"{PREFIX}{results.step}" if results else None
    if results is None or checkpoint is None or not checkpoint.is_dir() or results.step == trainer.state.global_step:
        log.info("run.keep=best: final/ has the last weights; no earlier step whose weights are kept is better")
        return
    trainer.restore(checkpoint)
    log.info(
        "run.keep=best: final/ has the weights of step %d, %s %.3f; at the end it is %.3f",
        *(results.step, results.measure, results.share["value"], results.last),
    )


def keep_weights(run: Run, trainer: Any) -> None:
    """Put the trainer's weights into final/, unless they are there, with a card that has all evaluations."""
    here = final_step(run.folder) == trainer.state.global_step
    trainer.accelerator.wait_for_everyone()  # all have looked at it
    if here:
        trainer.write_card(run.folder / "final")
    else:
        trainer.save_final(run.folder / "final")
