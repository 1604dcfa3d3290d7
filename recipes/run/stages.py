"""Evaluations before, during and after training, and the table and report at the end."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from transformers import TrainerCallback
from trl.models.utils import unwrap_model_for_generation

from envs.episode import Episode
from envs.task import Task
from recipes.cli import memory_use
from recipes.cli.console import log, print_table
from recipes.cli.errors import Stopped
from recipes.cli.stopping import current_phase, phase
from recipes.evaluation import kept_answers
from recipes.evaluation.episodes import evaluate_episodes
from recipes.evaluation.held_out import (
    comparison,
    decodings,
    describe,
    evaluate_policy,
    how_decoded,
    policy_to_sample,
)
from recipes.evaluation.pictures import MOST
from recipes.models.load import sampling_dtype
from recipes.records.jsonl import Record, read_config, read_jsonl
from recipes.records.log import RunLog
from recipes.run.build import OtherTask
from recipes.sampling.generate import Decoding
from recipes.sampling.vllm import ServerSampler
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.history import load_history
from recipes.tools.progress import best
from recipes.tools.report.page import write_report
from rewards.compose import Reward


@contextmanager
def whole_weights(trainer: Any) -> Iterator[Any]:
    """The policy with all of its weights on every process; under ZeRO-3 each holds a part, so all processes call it."""
    deepspeed = trainer.accelerator.state.deepspeed_plugin
    if deepspeed is None or deepspeed.zero_stage < 3 or trainer.model_wrapped is trainer.model:  # not yet divided
        yield trainer.policy
        return
    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as policy:
        yield policy


class EvaluateEvery(TrainerCallback):
    """Evaluates each `every` steps of training, with `others_too` on the tasks of `task.also_evaluate` as well.

    A request to stop at once ends the evaluation; a run that resumes from a checkpoint makes up for an evaluation that
    is missing there.
    """

    def __init__(self, stages: Stages, every: int, others_too: bool):
        self.stages, self.every, self.others_too = stages, every, others_too

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step:
            self._evaluate(state, control)

    def on_step_end(self, args, state, control, **kwargs):
        self._evaluate(state, control)

    def _evaluate(self, state: Any, control: Any) -> None:
        step = state.global_step
        if step % self.every or step >= state.max_steps or control.should_training_stop:
            return
        begun = time.perf_counter()
        try:
            with phase("evaluation", interruptible=True):
                self.stages.evaluate(f"step {step}", own=not self.others_too)
        except Stopped:
            control.should_save = control.should_training_stop = True
        else:
            self.stages.log.leave_out(time.perf_counter() - begun)
            if self.stages.cfg.run.keep == "best" and self.stages.is_best(step):
                self.stages.trainer.keep_step, control.should_save = step, True


class Stages:
    """Evaluations and the report of one run. A resumed run does not repeat what it has done before.

    Args:
        task, reward, episode: the run's own.
        others: tasks of `task.also_evaluate` with their rewards, decoded greedily where the task's settings say so.
    """

    def __init__(
        self,
        cfg: DictConfig,
        folder: Path,
        trainer: Any,
        task: Task,
        reward: Reward,
        others: Sequence[tuple[OtherTask, Reward]],
        runner: asyncio.Runner,
        log: RunLog,
        episode: Episode | None = None,
    ):
        self.cfg, self.folder, self.trainer = cfg, folder, trainer
        self.runner, self.log, self.task, self.episode = runner, log, task, episode
        self.evaluations = [(task, reward, decoding, samples) for decoding, samples in decodings(cfg.evaluation)]
        self._own = len(self.evaluations)
        for other, other_reward in others:
            self.evaluations.append((other.task, other_reward, *decodings(other.cfg.evaluation)[-1]))

    def evaluate(self, when: str, own: bool = False) -> None:
        """Evaluate the policy on every task's held-out problems, or on its `own` task's; adds lines to evals.jsonl.

        All processes call it together and share the problems.
        """
        step = self.trainer.state.global_step
        done = read_jsonl(self.folder / "evals.jsonl")
        with whole_weights(self.trainer) as weights:
            training = weights.training
            self._evaluate(when, step, done, weights, self.evaluations[: self._own] if own else self.evaluations)
            weights.train(training)
            self.trainer.accelerator.wait_for_everyone()
        if self.trainer.accelerator.is_main_process:
            shutil.rmtree(self.folder / kept_answers.FOLDER, ignore_errors=True)  # all is recorded

    def is_best(self, step: int) -> bool:
        """Whether no other evaluated step of the training is better on the run's own task; all processes read the same
        file."""
        results = best(self.folder, read_config(self.folder / "config.yaml")[0], trained=True)
        return results is None or results.step == step

    def _evaluate(self, when: str, step: int, done: list[Record], weights: Any, evaluations: list[tuple]) -> None:
        policy, sampler = None, getattr(self.trainer, "sampler", None)
        server = sampler if isinstance(sampler, ServerSampler) else None
        memory_use.settle(current_phase())
        for task, reward, decoding, samples in evaluations:
            what = {"when": when, "step": step, "task": task.name, "split": self.cfg.evaluation.split}
            what |= {"samples": samples, "temperature": decoding.temperature}
            if earlier := next((row for row in done if what.items() <= row.items()), None):
                self._tell_of_other(earlier, decoding)
                continue
            policy = policy or policy_to_sample(weights, None if server else sampling_dtype(self.cfg.hardware))
            episode = self.episode if task is self.task else None  # other tasks are evaluated in one turn
            if episode is None:
                name = f"{when}-{step}-{task.name}-{decoding.temperature:g}"
                evaluates = partial(evaluate_policy, keep=self.folder / kept_answers.FOLDER / name)
            else:
                evaluates = partial(evaluate_episodes, episode=episode)
            result = evaluates(
                policy,
                self.trainer.processing_class,
                task,
                reward,
                self.runner,
                decoding,
                samples,
                k=list(self.cfg.evaluation.k),
                split=self.cfg.evaluation.split,
                rows_at_once=self.cfg.hardware.eval_rows,
                seed=self.cfg.seed,
                drawn=MOST,
                server=server,
            )
            memory_use.settle("evaluation")
            if not self.trainer.accelerator.is_main_process:
                continue
            place = {key: what[key] for key in ("when", "step", "task", "split", "temperature")}
            self.log.record_samples({**place, **row} for row in result.rows)
            peak = memory_use.take("evaluation")
            self.log.record_evaluation({"when": when, "step": step, **result.summary, **peak})
            log.info("%s training: %s", when, describe(result.summary))

    def _tell_of_other(self, earlier: Record, decoding: Decoding) -> None:
        """Log that an evaluation is not repeated, where it was made with another length or top_p."""
        for key, value in how_decoded(decoding).items():
            if earlier.get(key, value) != value and self.trainer.accelerator.is_main_process:
                log.warning(
                    "evaluation.%s=%s: %s (%s) was evaluated with %s, which stays; recipes/eval.py adapter=%s "
                    "evaluates with other settings",
                    *(key, value, earlier["when"], earlier["task"], earlier[key], self.folder),
                )

    def report(self) -> None:
        """Print the table of pass@1 and what is wrong with the run; draw report.html."""
        if not self.trainer.accelerator.is_main_process:
            return
        if (table := comparison(read_jsonl(self.folder / "evals.jsonl"))).row_count:
            print_table(table)
        if (source := self.cfg.evaluation.before_from) and self.cfg.adapter:
            log.info("before: %s; the gain is of this run and of adapter=%s together", source, self.cfg.adapter)
        for line in diagnose(load_history(self.folder)).lines:
            log.info(line)
        log.info("report: %s", write_report(self.folder))
