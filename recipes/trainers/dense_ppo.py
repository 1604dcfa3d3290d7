"""PPO with rewards on tokens: the `train` of TRL's PPOTrainer, split into steps that a subclass can override.

    rollout           sample completions
    score             all reward channels at once, from text; `None` takes a completion out
    logps_and_values  log-probabilities of policy and reference, the critic's values
    token_rewards     channel rewards on their tokens (dense) or the score at the end (sparse), minus the KL penalty
    advantages        generalised advantage estimation
    update            epochs over mini-batches: optimizer steps, each of the clipped losses
    log_step, adapt   metrics of the step; KL coefficient and learning rate of the next

With sparse placement and TRL's settings its updates match TRL's numerically. Nothing of shape (B, T, V) is ever made
(log_probs.py). A run resumes exactly: policy, critic, optimizer, data position, random states; what begins, saves and
undoes a step is in resumable_ppo.py; passes through the models are in ppo_passes.py, metrics in ppo_log.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel

from envs.episode import Episode
from envs.task import Problem, Task
from recipes.cli.stopping import phase
from recipes.data.completions import AnswerComplete, completion_of
from recipes.data.episodes import written_tokens
from recipes.data.prompt_order import PromptStream
from recipes.models.critic import NoValue, ValueFunction
from recipes.records.log import RunLog
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import Episodes
from recipes.sampling.generate import Decoding, end_ids
from recipes.sampling.group_batch import sums
from recipes.sampling.prefix import ReferencePrefixes, prefixes_of
from recipes.sampling.sampler import sampler_of
from recipes.trainers.advantages import KLCoefficient, kl_per_token, whiten
from recipes.trainers.experience import Experience, draw_again
from recipes.trainers.log_probs import require_plain_head
from recipes.trainers.optimizer_steps import Training, steps_of
from recipes.trainers.own_ppo import PPOConfig
from recipes.trainers.packing import attend_by_segment, causal_lm, full_attention
from recipes.trainers.ppo_log import StepLog
from recipes.trainers.ppo_passes import ForwardPasses
from recipes.trainers.resumable_ppo import ResumablePPOTrainer
from recipes.trainers.turns import discount_columns, earlier_pays, gae_over_turns, turn_columns, written_columns
from rewards.attribution import TokenBytes
from rewards.channel import Completion
from rewards.compose import Grade, Reward

Statistics = dict[str, torch.Tensor]


class DensePPOTrainer(StepLog, ForwardPasses, ResumablePPOTrainer):
    """
    Args:
        model: the policy.
        args: `per_device_train_batch_size` is the number of prompts of one process in one update.
        task: the source of problems; the dataset's column `problem_id` names them, `input_ids` holds their prompts.
        reward: the channels, their weights and their placement.
        value: the critic.
        run_log: takes sampled completions (and, as a callback, metrics).
        samples_per_prompt: completions of each prompt in one rollout.
        rows_per_pass: completions in one forward and backward pass: memory, never the result.
        packing_max_tokens: a prompt and its completions share a row up to this length, in tokens; 0: rows of their own.
        top_p: of the nucleus that is sampled from; 1 keeps the whole distribution.
        sampler: "fast", or "generate" for transformers' own.
        sampling_dtype: sample from a copy of the policy in this dtype; None samples from the policy itself.
        server: address of a vLLM server to sample from instead.
        reference: makes a context in which `model` is the reference policy. None: adapters off where the policy has
            adapters, a frozen copy where it has none.
        kl_target, kl_horizon: KL to steer `kl_coef` towards, in nats a completion, None keeps it; how fast.
        value_learning_rate: of the critic; None: the policy's.
        value_warmup_updates: first updates that train the critic alone.
        prefix: prompts of which no completion passes are drawn again behind the beginning of the reference: the fields
            of recipes/sampling/prefix.py's PrefixSettings. None: never.
        zero_stage: DeepSpeed's, over several processes: 1 spreads optimizer states, 2 gradients too.
        episode: the environment of episodes of several turns (envs/episode.py), of which `grading_chunk` turns are
            graded together while others are sampled; None: answers of one turn.
    """

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        """Train, then stop what grades in the background."""
        try:
            self._train(resume_from_checkpoint)
        finally:
            self.close()

    def _train(self, resume_from_checkpoint: str | None) -> None:
        self.begin(resume_from_checkpoint)
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            with self.undone_if_stopped():
                with phase("rollout", interruptible=True):
                    experience = self.rollout(next(self.prompts))
                with phase("grading", interruptible=True):
                    self.score(experience)
                if self.prefixes:
                    with phase("rollout behind references", interruptible=True):
                        self.draw_again(experience)
                with phase("log-probabilities", interruptible=True):
                    self.logps_and_values(experience)
            experience.rewards = self.token_rewards(experience)
            experience.advantages, experience.returns = self.advantages(experience)
            statistics = self.update(experience)
            self.state.global_step += 1
            self.log_step(experience, statistics)
            self.adapt(experience)
            self.save_if_due()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def close(self) -> None:
        """Stop grading in the background; a later training starts it again."""
        self._grader.close()

    # rollout and score ------------------------------------------------------------------------------------------

    def rollout(self, batch: dict[str, list]) -> Experience:
        """`samples_per_prompt` completions of each prompt."""
        started, n = time.perf_counter(), self.samples_per_prompt
        problems = [self.problems[i] for i in batch["problem_id"] for _ in range(n)]
        prompts = [p for p in batch["input_ids"] for _ in range(n)]
        if self._episodes is None:
            e = Experience(problems, prompts, self.sampler(self.policy, batch["input_ids"], n), n)
            own = sum(map(len, e.completions))
        else:
            episodes = self._episodes.batch()
            with self.sampler.conversation(self.policy) as conversation:
                episodes.play(conversation, problems, batch["input_ids"], n)
            answers, grades = episodes.collect()
            e = Experience(problems, prompts, [list(a.token_ids) for a in answers], n, answers, grades)
            own = sum(map(written_tokens, answers))
        seconds = time.perf_counter() - started
        written = self.total(torch.tensor(own, device=self.accelerator.device)).item()
        self._clock: dict[str, float] = {"seconds/rollout": seconds, "tokens_per_second": written / seconds}
        return e

    def score(self, e: Experience) -> None:
        """Grades, scores and masks; a completion that could not be graded is masked out whole."""
        started = time.perf_counter()
        if not e.answers:  # episodes have been graded turn by turn
            e.answers = [completion_of(ids, self._token_bytes, self.task, self._end_ids) for ids in e.completions]
            e.grades = self._grade(e.problems, e.answers)
        self.set_masks(e)
        self._clock["seconds/grade"] = time.perf_counter() - started

    def draw_again(self, e: Experience) -> None:
        """New completions of prompts of which none passed, behind the beginning of the reference (prefix.py)."""
        assert self.prefixes is not None
        started, self._from_prompt = time.perf_counter(), sums(e.scores, e.grades)
        finish = partial(completion_of, token_bytes=self._token_bytes, task=self.task, end_ids=self._end_ids)
        self._drawn_again = draw_again(e, self.prefixes, partial(self.sampler, self.policy), finish, self._grade)
        self.set_masks(e)
        self._clock["seconds/rollout_again"] = time.perf_counter() - started

    def set_masks(self, e: Experience) -> None:
        """Scores of what was sampled and graded; masks, and what they leave out: the environment's replies."""
        device = self.accelerator.device
        e.scores = self.scores_of(e.grades, e.answers)
        lengths = torch.tensor([len(c) for c in e.completions], device=device)
        column = torch.arange(e.width, device=device)
        e.reply = (column < lengths[:, None]) & ~written_columns(e.answers, e.width).to(device)
        e.turn = turn_columns(e.answers, e.width).to(device)
        e.discounts = discount_columns(e.answers, e.width, self.args.gamma, self._between_turns).to(device)
        steps = ~e.reply & ~e.scores.isnan()[:, None]
        e.mask = (column < lengths[:, None]) & steps
        e.states = (column < lengths[:, None] + int(self.reward.placement == "sparse")) & steps

    def _grade(self, problems: Sequence[Problem], answers: Sequence[Completion]) -> list[Grade | None]:
        return self._loop.run(self.reward.grade(problems, answers))

    def scores_of(self, grades: Sequence[Grade | None], answers: Sequence[Completion]) -> torch.Tensor:
        """(B,): total rewards, less a penalty where an answer was cut; NaN where it could not be graded."""
        scores = torch.tensor([torch.nan if g is None else g.total for g in grades], device=self.accelerator.device)
        if self.args.missing_eos_penalty is None:
            return scores
        unfinished = torch.tensor([not a.finished for a in answers], device=scores.device)
        return scores - self.args.missing_eos_penalty * unfinished

    @torch.no_grad()
    def logps_and_values(self, e: Experience) -> None:
        """Before any update: log-probabilities of policy and reference at each token, the critic's values."""
        e.logps, e.ref_logps, e.values = (torch.zeros(e.mask.shape, device=e.mask.device) for _ in range(3))
        for rows in e.passes(range(len(e.completions)), self.rows_per_pass):
            part = e.take(rows)
            e.logps[rows], _, values = self.forward(part, with_policy=True, with_critic=True)
            e.ref_logps[rows] = e.logps[rows]
            if self.needs_reference:
                with self._reference_policy() as policy:
                    e.ref_logps[rows] = self._logps(policy, part)
            if values is not None:
                e.values[rows] = values * part.states
        e.kl = kl_per_token(e.logps, e.ref_logps, self.args.kl_estimator) * e.mask

    # rewards and advantages -------------------------------------------------------------------------------------

    def token_rewards(self, e: Experience) -> torch.Tensor:
        """(B, T): what each token earned, minus the KL penalty.

        Dense: each channel's rewards on its tokens; rewards of prefix tokens, which were not sampled, on the first
        sampled token; a missing-EOS penalty on the last. Sparse (TRL's placement): the score in the column after the
        last token, or on the last token of a completion that fills all T columns.
        """
        rewards = -self.kl_coefficient.value * e.kl
        lengths_B = torch.tensor([len(c) for c in e.completions], device=rewards.device)
        rows = (~e.scores.isnan()).nonzero().squeeze(1)
        if self.reward.placement == "sparse":
            earlier = earlier_pays(e.answers, e.grades, e.width).to(rewards.device)
            rewards, last_B = rewards + earlier, e.scores - earlier.sum(1)
            rewards[rows, lengths_B[rows].clamp(max=e.width - 1)] += last_B[rows]
        else:
            for row in rows.tolist():
                grade = e.grades[row]
                assert grade is not None  # its score is a number
                given = e.answers[row].given
                own = torch.tensor(grade.token_rewards[given:], device=rewards.device)
                own[0] += sum(grade.token_rewards[:given])
                rewards[row, : len(own)] += own
                rewards[row, len(own) - 1] += e.scores[row] - grade.total  # minus the missing-EOS penalty, if any
        if self.args.whiten_rewards:
            rewards = whiten(rewards, e.states, shift_mean=False, total=self.total) * e.states
        return rewards

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages, whitened over all tokens of the step, and returns."""
        advantages, returns = gae_over_turns(e.rewards, e.values, e.reply, e.discounts, self.args.lam)
        return whiten(advantages, e.mask, total=self.total) * e.mask, returns

    # update -----------------------------------------------------------------------------------------------------

    def update(self, e: Experience) -> dict[str, float]:
        """`num_ppo_epochs` over the experience, `num_mini_batches` optimizer steps each; means of their statistics.

        A critic that is a second model has optimizer steps of its own, before the policy's. They share no weights, so
        two steps give the update of one joint step, except that each gradient norm is clipped by itself. Only one
        model's gradients are in memory at a time.
        """
        with_policy = self.state.global_step >= self.value_warmup_updates
        if self.value.shared:
            trainings = [Training(self.steps[0], with_policy, critic=not isinstance(self.value, NoValue))]
        else:
            trainings = [Training(self.steps[-1], policy=False, critic=True)]
            trainings += [Training(self.steps[0], policy=True, critic=False)] if with_policy else []
        statistics: list[Statistics] = []
        for _ in range(self.args.num_ppo_epochs):
            prompts = np.random.permutation(len(e.completions) // e.samples_per_prompt)
            for chosen in np.array_split(prompts, self.args.num_mini_batches):
                rows = e.rows_of(chosen.tolist())
                if self.total(e.mask[rows].sum()):  # else nothing was graded, and a step would be momentum alone
                    statistics += [self.optimizer_step(e, rows, training) for training in trainings]
        names = dict.fromkeys(name for row in statistics for name in row)
        means = {n: torch.stack([row[n] for row in statistics if n in row]).mean() for n in names}
        return {name: self.total(value).item() for name, value in means.items()}  # each a share of the whole mean

    def optimizer_step(self, e: Experience, rows: list[int], training: Training) -> Statistics:
        """Gradients of the losses over `rows`, then a step; statistics that add up over passes and processes."""
        units, tokens = self.total(self.units(e.take(rows))), self.total(e.mask[rows].sum())
        states = self.total(e.states[rows].sum())
        sums: Statistics = {}
        step, what = training.step, (training.policy, training.critic)
        for index in (passes := e.passes(rows, self.rows_per_pass)):
            loss, statistics = step.compute(self.losses, e.take(index), *what, units, tokens, states)
            step.backward(loss, last=index is passes[-1])
            self.control = self.callback_handler.on_substep_end(self.args, self.state, self.control)
            for name, value in statistics.items():
                sums[name] = sums.get(name, 0) + value
        norm = step.step()
        if norm is not None:  # all processes have the same, and statistics are summed over them
            sums["grad_norm" if training.policy else "value/grad_norm"] = norm / self.accelerator.num_processes
        return sums

    def losses(
        self,
        part: Experience,
        with_policy: bool,
        with_critic: bool,
        units: torch.Tensor,
        tokens: torch.Tensor,
        states: torch.Tensor,
    ) -> tuple[torch.Tensor, Statistics]:
        """The loss of one pass and statistics, all scalar tensors: sums over this pass divided by numbers of the whole
        mini-batch, so that they add up to its means over passes and processes.

        units: number of units of the policy loss (see `units`). tokens: number of tokens. states: number of states of
        the critic.
        """
        logps, entropy, values = self.forward(part, with_policy, with_critic, with_entropy=True)
        loss = torch.zeros((), device=part.mask.device)
        statistics: Statistics = {}
        if with_policy:
            surrogate, statistics = self.policy_loss(logps, part)
            loss = surrogate / units
            statistics = {name: s.detach() / units for name, s in {**statistics, "loss/policy_avg": surrogate}.items()}
            statistics["policy/entropy_avg"] = (entropy * part.mask).sum().detach() / tokens
        if values is not None:
            error, clipped = self.value_loss(values * part.states, part)
            loss = loss + self.args.vf_coef * error / states
            statistics |= {"loss/value_avg": error.detach() / states, "val/clipfrac_avg": clipped / states}
        return loss, statistics

    def units(self, e: Experience) -> torch.Tensor:
        """Number of tokens, a scalar tensor: the policy loss is a mean over them."""
        return e.mask.sum()

    def policy_loss(self, logps: torch.Tensor, e: Experience) -> tuple[torch.Tensor, Statistics]:
        """Clipped surrogate (Schulman et al. 2017, arXiv 1707.06347, equation 7) and statistics, scalar tensors: sums
        over `units`. logps: (B, T)."""
        difference = (logps - e.logps) * e.mask
        ratio = difference.exp()
        clip = self.args.cliprange
        plain, clipped = -e.advantages * ratio, -e.advantages * ratio.clamp(1 - clip, 1 + clip)
        return (torch.max(plain, clipped) * e.mask).sum(), {
            "policy/clipfrac_avg": ((clipped > plain) & e.mask).sum(),
            "policy/approxkl_avg": 0.5 * difference.square().sum(),
            "val/ratio": (ratio * e.mask).sum(),
        }

    def value_loss(self, values: torch.Tensor, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Half the squared error, clipped around the old values as in TRL, and how often it was; summed over states."""
        near = e.values + (values - e.values).clamp(-self.args.cliprange_value, self.args.cliprange_value)
        plain, clipped = (values - e.returns).square(), (near - e.returns).square()
        return 0.5 * (torch.max(plain, clipped) * e.states).sum(), ((clipped > plain) & e.states).sum()

    # construction -----------------------------------------------------------------------------------------------

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        args: PPOConfig,
        processing_class: Any,
        train_dataset: Dataset,
        task: Task,
        reward: Reward,
        value: ValueFunction | NoValue,
        run_log: RunLog,
        samples_per_prompt: int = 1,
        rows_per_pass: int = 8,
        packing_max_tokens: int = 4096,
        top_p: float = 1.0,
        sampler: str = "fast",
        sampling_dtype: torch.dtype | None = None,
        server: str | None = None,
        reference: Callable | None = None,
        kl_target: float | None = None,
        kl_horizon: float = 10_000.0,
        value_learning_rate: float | None = None,
        value_warmup_updates: int = 0,
        prefix: Mapping[str, Any] | None = None,
        zero_stage: int = 0,
        grading_chunk: int = 8,
        episode: Episode | None = None,
    ):
        self.samples_per_prompt, self.rows_per_pass = samples_per_prompt, rows_per_pass
        self.value_learning_rate, self.value_warmup_updates = value_learning_rate, value_warmup_updates
        self.kl_coefficient = KLCoefficient(args.kl_coef, kl_target, kl_horizon)
        self.task, self.reward, self.run_log, self._reference = task, reward, run_log, reference
        self.problems: dict[str, Problem] = {p.id: p for p in task.problems("train")}
        self._end_ids = end_ids(processing_class, causal_lm(model))
        self.needs_reference = args.kl_coef != 0 or kl_target is not None
        copies = self.needs_reference and reference is None
        super().__init__(args, processing_class, model, value, copies, train_dataset, callbacks=[run_log])
        require_plain_head(self.policy)
        self.packing_max_tokens = packing_max_tokens if full_attention(causal_lm(self.policy).config) else 0
        if self.packing_max_tokens:
            attend_by_segment(self.accelerator.device, self.policy, self.ref_model, self.value.backbone)
        self.prompts = PromptStream(self.dataloader)
        self._token_bytes = TokenBytes(processing_class)
        self.sampler = sampler_of(
            self,
            processing_class,
            Decoding(args.response_length, args.temperature, top_p),
            self._end_ids,
            AnswerComplete(task, self._token_bytes),
            server,
            copy_dtype=sampling_dtype,
            stock=sampler == "generate",
            autocast=self.accelerator.autocast,
        )
        steps, longest = args.num_total_batches, args.response_length
        self.prefixes: ReferencePrefixes | None = prefixes_of(prefix, task, processing_class, steps, longest)
        self._drawn_again, self._from_prompt = 0, None
        self._loop = asyncio.Runner()
        self._grader = Grader(reward, grading_chunk)
        self._take_episode(episode)
        self.steps = steps_of(self, zero_stage)

    def _take_episode(self, episode: Episode | None) -> None:
        """What plays episodes of several turns; without one an answer has one turn."""
        self._episodes: Episodes | None = None
        self.turns, self._between_turns = 1, 1.0
        if episode is not None and episode.turns > 1:
            self.turns, self._between_turns = episode.turns, episode.gamma
            self._episodes = Episodes(episode, self.task, self.processing_class, {}, self._end_ids, self._grader)
