"""What a PPO step reports and what the next is made with: metrics, stored answers, KL coefficient, learning rate."""

from __future__ import annotations

import math
from typing import Any

import torch

from recipes.data.completions import Rollout
from recipes.data.episodes import rows_of_step, turns_of
from recipes.records.log import RunLog
from recipes.sampling.group_batch import AnswerSums
from recipes.sampling.prefix import ReferencePrefixes
from recipes.trainers.advantages import KLCoefficient, Total
from recipes.trainers.experience import Experience
from recipes.trainers.metrics import (
    completion_metrics,
    mean_of_graded,
    metrics_from_prompt,
    ppo_metrics,
    prefix_metrics,
)
from recipes.trainers.turns import turn_metrics
from rewards.compose import Reward


class StepLog:
    """For a trainer with the attributes below."""

    accelerator: Any
    args: Any
    state: Any
    lr_scheduler: Any
    log: Any
    train_dataset_len: int
    reward: Reward
    run_log: RunLog
    total: Total
    kl_coefficient: KLCoefficient
    prefixes: ReferencePrefixes | None
    turns: int
    needs_reference: bool
    samples_per_prompt: int
    _clock: dict[str, float]
    _drawn_again: int
    _from_prompt: AnswerSums | None

    def log_step(self, e: Experience, statistics: dict[str, float]) -> None:
        """One line of metrics under TRL's names, and this step's sampled completions."""
        rollout, with_critic = Rollout(e.problems, e.answers, e.grades), "loss/value_avg" in statistics
        metrics = {
            **ppo_metrics(e, self.kl_coefficient.value, with_critic, self.total, self.needs_reference),
            **completion_metrics(rollout, list(self.reward.channels), self.accelerator.device),
            "graded_samples": self.total(torch.tensor(self.graded_samples(e), device=e.scores.device)).item(),
            **(prefix_metrics(self.prefixes.shown, self.accelerator.device) if self.prefixes else {}),
            **(metrics_from_prompt(self._from_prompt, self.accelerator.device) if self._from_prompt else {}),
            **statistics,
            **self._clock,
            "lr": self.lr_scheduler.get_last_lr()[0],
        }
        self.state.epoch = self.state.global_step * self.args.batch_size / self.train_dataset_len
        if self.turns > 1:
            metrics |= turn_metrics(rollout, self.turns, self.accelerator.device)
        rows = rows_of_step(rollout, e.advantages, self.state.global_step, self.run_log.per_step, self.turns)
        if self.accelerator.is_main_process:
            self.run_log.record_completions(rows)
        self.log({**metrics, "episode": self.state.global_step * self.args.batch_size * self.samples_per_prompt})

    def graded_samples(self, e: Experience) -> int:
        """How many answers of this process were sent to the channels in this step."""
        return sum(len(turns_of(answer)) for answer in e.answers) + self._drawn_again

    def adapt(self, e: Experience) -> None:
        """KL coefficient and learning rate of the next update."""
        kl = mean_of_graded(e, e.kl.sum(1), self.total)
        if not math.isnan(kl):
            self.kl_coefficient.update(kl, self.args.batch_size * self.samples_per_prompt)
        self.lr_scheduler.step()
