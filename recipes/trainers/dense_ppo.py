"""PPO with rewards on tokens: TRL's PPOTrainer, its long `train` split into steps that a subclass can override.

    rollout           sample completions
    score             all reward channels at once, from text; `None` takes a completion out
    logps_and_values  log-probabilities of policy and reference, the critic's values
    token_rewards     channel rewards on their tokens (dense) or the score at the end (sparse), minus the KL penalty
    advantages        generalised advantage estimation
    update            epochs over mini-batches, the clipped losses
    log_update, adapt (KL coefficient, learning rate), save

In sparse placement, set up alike, it makes TRL's own update number for number. Nothing of shape (B, T, V) is ever made:
see recipes/trainers/forward.py. A run resumes exactly: policy, critic, optimizer, data position, random states.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from datasets import Dataset
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel, PrinterCallback
from trl.experimental.ppo import PPOTrainer

from envs.task import Problem, Task
from recipes.support.rollout import AnswerComplete, completion_of
from recipes.support.run_log import RunLog
from recipes.support.sampler import sampler_of
from recipes.support.sampling import Decoding, end_ids
from recipes.support.stopping import phase
from recipes.trainers.experience import Experience, PromptStream
from recipes.trainers.forward import (
    Rows,
    backbone_of,
    causal_lm,
    completion_logps,
    hidden_states,
    require_plain_head,
)
from recipes.trainers.gae import KLCoefficient, gae, kl_per_token, whiten
from recipes.trainers.packing import full_attention
from recipes.trainers.ppo_config import DensePPOConfig
from recipes.trainers.ppo_state import PPOState
from recipes.trainers.steps import steps_of
from recipes.trainers.value import NoValue, ValueFunction
from rewards.attribution import TokenBytes
from rewards.compose import Reward


class DensePPOTrainer(PPOState, PPOTrainer):
    """
    Args:
        model: the policy.
        args: see DensePPOConfig.
        task: the source of problems; the dataset's column `problem_id` names them, `input_ids` holds their prompts.
        reward: the channels, their weights and their placement.
        value: the critic.
        run_log: takes sampled completions (and, as a callback, metrics).
        reference: a callable that returns a context in which `model` is the reference policy. None: adapters off
            where the policy has adapters, a frozen copy where it has none.
        sampling_dtype: sample from a copy of the policy in this dtype; None samples from the policy itself.
        server: address of a vLLM server to sample from instead.
    """

    model: Any
    optimizer: Any

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        args: DensePPOConfig,
        processing_class: Any,
        train_dataset: Dataset,
        task: Task,
        reward: Reward,
        value: ValueFunction | NoValue,
        run_log: RunLog,
        reference: Callable | None = None,
        sampling_dtype: torch.dtype | None = None,
        server: str | None = None,
        **kwargs: Any,
    ):
        Accelerator(mixed_precision=args.mixed_precision, cpu=args.use_cpu)  # its state, precision too, TRL's takes up
        generation = causal_lm(model).generation_config
        self._end_ids, model_eos = end_ids(processing_class, causal_lm(model)), generation.eos_token_id
        mini_batches, whiten_rewards = args.num_mini_batches, args.whiten_rewards
        args.num_mini_batches, args.whiten_rewards = 1, False  # TRL holds both against the number of prompts
        super().__init__(
            args=args,
            processing_class=processing_class,
            model=model,
            # None: adapters off, or a copy where there are none; an empty module where no such reference is wanted
            ref_model=None if args.needs_reference and reference is None else nn.Module(),
            reward_model=nn.Module(),  # rewards come from text
            train_dataset=train_dataset,
            value_model=value,
            data_collator=_unpadded,
            callbacks=[run_log],
            **kwargs,
        )
        args.num_mini_batches, args.whiten_rewards = mini_batches, whiten_rewards
        generation.eos_token_id = model_eos  # TRL puts its stop token there
        self.remove_callback(PrinterCallback)  # run_log prints a line a step
        # PPOTrainer leaves these two out; loading an optimizer and saving from several processes ask for them
        self.is_fsdp_xla_v1_enabled = self.is_distributed_loading_by_transformers = False
        self.model = self.accelerator.unwrap_model(self.model)  # gradients are summed by hand: no second set of them
        self.policy, self.value = self.model.policy, self.model.value_model
        require_plain_head(self.policy)
        if not full_attention(causal_lm(self.policy).config):
            args.packing_max_tokens = 0
        self.task, self.reward, self.run_log, self._reference = task, reward, run_log, reference
        self.problems: dict[str, Problem] = {p.id: p for p in task.problems("train")}
        self.prompts = PromptStream(self.dataloader)
        self.kl_coefficient = KLCoefficient(args.kl_coef, args.kl_target, args.kl_horizon)
        self._token_bytes = TokenBytes(processing_class)
        decoding = Decoding(args.response_length, args.temperature, args.top_p)
        parts = (self, processing_class, decoding, self._end_ids, AnswerComplete(task, self._token_bytes), server)
        options = {"copy_dtype": sampling_dtype, "stock": args.stock_sampling, "autocast": self.accelerator.autocast}
        self._sampler = sampler_of(*parts, **options)
        self._loop = asyncio.Runner()
        self._clock: dict[str, float] = {}
        self.steps = steps_of(self)

    def create_optimizer(self, model=None):
        """One optimizer, with a learning rate of its own for the critic where one is set."""
        critic = [p for p in self.value_model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in self.policy_model.parameters() if p.requires_grad]}]
        if critic:
            rate = self.args.value_learning_rate
            rate = self.args.learning_rate if rate is None else rate
            groups.append({"params": critic, "lr": rate})
        self.optimizer = self.optimizer_of(groups)
        return self.optimizer

    def optimizer_of(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """A new optimizer of the kind that is configured."""
        kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        return kind(groups, **{"weight_decay": self.args.weight_decay, **settings})

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        self.begin(resume_from_checkpoint)
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            with self.undone_if_stopped():
                with phase("rollout", interruptible=True):
                    experience = self.rollout(next(self.prompts))
                with phase("grading", interruptible=True):
                    self.score(experience)
                with phase("log-probabilities", interruptible=True):
                    self.logps_and_values(experience)
            experience.rewards = self.token_rewards(experience)
            experience.advantages, experience.returns = self.advantages(experience)
            statistics = self.update(experience)
            self.state.global_step += 1
            self.log_update(experience, statistics)
            self.adapt(experience)
            self.save()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def begin(self, checkpoint: str | None) -> None:
        args = self.args
        if len(self.train_dataset) < args.batch_size:
            raise ValueError(f"a step takes {args.batch_size} prompts, the task has {len(self.train_dataset)}")
        if args.gradient_checkpointing:
            for model in (self.policy, *([] if self.value.shared else [self.value.backbone])):
                model.gradient_checkpointing_enable({"use_reentrant": False})
        self.model.train()
        if checkpoint:
            self.resume(checkpoint)
        self.state.max_steps = args.num_total_batches
        self.state.save_steps, self.state.logging_steps = args.save_steps, args.logging_steps
        self.control = self.callback_handler.on_train_begin(args, self.state, self.control)

    # rollout and score --------------------------------------------------------------------------------------

    def rollout(self, batch: dict[str, list]) -> Experience:
        """`samples_per_prompt` completions of each prompt."""
        started, n = time.perf_counter(), self.args.samples_per_prompt
        completions = self._sampler(self.policy, batch["input_ids"], n)
        seconds = time.perf_counter() - started
        self._clock = {"seconds/rollout": seconds, "tokens_per_second": sum(map(len, completions)) / seconds}
        return Experience(
            problems=[self.problems[i] for i in batch["problem_id"] for _ in range(n)],
            prompts=[p for p in batch["input_ids"] for _ in range(n)],
            completions=completions,
        )

    def score(self, e: Experience) -> None:
        """Grades, scores and masks; a completion that could not be graded is masked out whole."""
        started = time.perf_counter()
        e.answers = [completion_of(ids, self._token_bytes, self.task, self._end_ids) for ids in e.completions]
        e.grades = self._loop.run(self.reward.grade(e.problems, e.answers))
        device = self.accelerator.device
        e.scores = torch.tensor([torch.nan if g is None else g.total for g in e.grades], device=device)
        if self.args.missing_eos_penalty is not None:
            unfinished = torch.tensor([not a.finished for a in e.answers], device=device)
            e.scores = e.scores - self.args.missing_eos_penalty * unfinished
        lengths = torch.tensor([len(c) for c in e.completions], device=device)
        column = torch.arange(e.width, device=device)
        graded = ~e.scores.isnan()[:, None]
        e.mask = (column < lengths[:, None]) & graded
        e.states = (column < lengths[:, None] + int(self.reward.placement == "sparse")) & graded
        self._clock["seconds/grade"] = time.perf_counter() - started

    @torch.no_grad()
    def logps_and_values(self, e: Experience) -> None:
        """Before any update: log-probabilities of policy and reference at each token, the critic's values."""
        e.logps, e.ref_logps, e.values = (torch.zeros(e.mask.shape, device=e.mask.device) for _ in range(3))
        for rows in self._passes(e, range(len(e.completions))):
            part = e.take(rows)
            e.logps[rows], _, values = self._forward(part, with_policy=True, with_critic=True)
            e.ref_logps[rows] = e.logps[rows]
            if self.args.needs_reference:
                with self._reference_policy() as policy:
                    e.ref_logps[rows] = self._logps(policy, part)
            if values is not None:
                e.values[rows] = values * part.states
        e.kl = kl_per_token(e.logps, e.ref_logps, self.args.kl_estimator) * e.mask

    @contextmanager
    def _reference_policy(self) -> Iterator[nn.Module]:
        if self._reference is not None:
            with self._reference(self.policy):
                yield self.policy
        elif self.ref_model is None:
            with self.policy.disable_adapter():
                yield self.policy
        else:
            yield self.ref_model

    # rewards and advantages ---------------------------------------------------------------------------------

    def token_rewards(self, e: Experience) -> torch.Tensor:
        """(B, T): what each token earned, minus the KL penalty.

        Dense: each channel's rewards on its tokens; a missing-EOS penalty on the last. Sparse: the score on the state
        after the last token where T has room for it, else on the last token (TRL's placement).
        """
        rewards = -self.kl_coefficient.value * e.kl
        lengths_B = torch.tensor([len(c) for c in e.completions], device=rewards.device)
        rows = (~e.scores.isnan()).nonzero().squeeze(1)
        if self.reward.placement == "sparse":
            rewards[rows, lengths_B[rows].clamp(max=e.width - 1)] += e.scores[rows]
        else:
            for row in rows.tolist():
                grade = e.grades[row]
                assert grade is not None  # its score is a number
                own = torch.tensor(grade.token_rewards, device=rewards.device)
                rewards[row, : len(own)] += own
                rewards[row, len(own) - 1] += e.scores[row] - grade.total  # minus the missing-EOS penalty, if any
        if self.args.whiten_rewards:
            rewards = whiten(rewards, e.states, shift_mean=False, total=self._total) * e.states
        return rewards

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages, whitened over all tokens of the step, and returns."""
        advantages, returns = gae(e.rewards, e.values, self.args.gamma, self.args.lam)
        return whiten(advantages, e.mask, total=self._total) * e.mask, returns

    # update -------------------------------------------------------------------------------------------------

    def update(self, e: Experience) -> dict[str, float]:
        """`num_ppo_epochs` over the experience, `num_mini_batches` optimizer steps each; means of their statistics."""
        found = []
        for _ in range(self.args.num_ppo_epochs):
            prompts = np.random.permutation(len(e.completions) // self.args.samples_per_prompt)
            for chosen in np.array_split(prompts, self.args.num_mini_batches):
                rows = self._rows_of(chosen.tolist())
                if self._total(e.mask[rows].sum()):  # else nothing was graded, and a step would be momentum alone
                    found.append(self.minibatch(e, rows))
        names = list(dict.fromkeys(name for row in found for name in row))
        means = {n: torch.stack([r[n] for r in found if n in r]).mean() for n in names}
        return {name: self._total(value).item() for name, value in means.items()}

    def _rows_of(self, prompts: list[int]) -> list[int]:
        """All completions of some prompts: together, each prompt is read once."""
        n = self.args.samples_per_prompt
        return [prompt * n + i for prompt in prompts for i in range(n)]

    def minibatch(self, e: Experience, rows: list[int]) -> dict[str, torch.Tensor]:
        """One optimizer step; with a critic of its own, one for the critic and then one for the policy.

        They share no weight, so two steps make the numbers of one (but each model is clipped by a norm of its own) and
        hold one model's gradients at a time.
        """
        with_policy = self.state.global_step >= self.args.value_warmup_updates
        if self.value.shared:
            return self._step(e, rows, with_policy, with_critic=not isinstance(self.value, NoValue))
        found = self._step(e, rows, with_policy=False, with_critic=True)
        return found | self._step(e, rows, with_policy=True, with_critic=False) if with_policy else found

    def _step(self, e: Experience, rows: list[int], with_policy: bool, with_critic: bool) -> dict[str, torch.Tensor]:
        """Gradients of the losses over `rows`, a step; statistics that add up over passes and processes."""
        step = self.steps[0 if with_policy or self.value.shared else -1]
        units, states = self._total(self.units(e.take(rows))), self._total(e.states[rows].sum())
        found: dict[str, torch.Tensor] = {}
        for index in (passes := self._passes(e, rows)):
            loss, statistics = step.compute(self._loss, e.take(index), with_policy, with_critic, units, states)
            step.backward(loss, last=index is passes[-1])
            self.control = self.callback_handler.on_substep_end(self.args, self.state, self.control)
            for name, s in statistics.items():
                found[name] = found.get(name, 0) + s
        norm = step.step()
        if norm is not None:  # all processes have the same, and statistics are summed over them
            found["grad_norm" if with_policy else "value/grad_norm"] = norm / self.accelerator.num_processes
        return found

    def _loss(self, part: Experience, with_policy: bool, with_critic: bool, units: torch.Tensor, states: torch.Tensor):
        """The losses of one pass, as its share of means over `units` and `states`, and statistics likewise."""
        logps, entropy, values = self._forward(part, with_policy, with_critic, with_entropy=True)
        loss = torch.zeros((), device=part.mask.device)
        statistics: dict[str, torch.Tensor] = {}
        if with_policy:
            surrogate, statistics = self.policy_loss(logps, part)
            loss = surrogate / units
            statistics |= {"loss/policy_avg": surrogate, "policy/entropy_avg": (entropy * part.mask).sum()}
            statistics = {name: s.detach() / units for name, s in statistics.items()}
        if values is not None:
            error, clipped = self.value_loss(values * part.states, part)
            loss = loss + self.args.vf_coef * error / states
            statistics |= {"loss/value_avg": error.detach() / states, "val/clipfrac_avg": clipped / states}
        return loss, statistics

    def units(self, e: Experience) -> torch.Tensor:
        """What the policy loss is a mean over: tokens."""
        return e.mask.sum()

    def policy_loss(self, logps: torch.Tensor, e: Experience) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Clipped surrogate (Schulman et al. 2017, arXiv 1707.06347, equation 7) and statistics, sums over `units`."""
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

    # forward passes -----------------------------------------------------------------------------------------

    def _passes(self, e: Experience, rows: Sequence[int]) -> list[list[int]]:
        """Rows of one prompt or of like length together, `rows_per_pass` at a time; as many on every process."""
        ordered = sorted(rows, key=lambda i: (len(e.prompts[i]), e.prompts[i], len(e.completions[i])))
        size = self.args.rows_per_pass
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]

    def _forward(self, e: Experience, with_policy: bool, with_critic: bool, with_entropy: bool = False):
        """Log-probabilities, entropies and values, (B, T) or None where not asked for or where there is no critic."""
        rows = self._rows(e)
        logps = entropy = values = None
        with_critic = with_critic and not isinstance(self.value, NoValue)
        with self.accelerator.autocast():
            if with_policy or (with_critic and self.value.shared):
                hidden = hidden_states(backbone_of(self.policy), rows)
            if with_policy:
                head = causal_lm(self.policy).get_output_embeddings()
                logps, entropy = completion_logps(head, hidden, rows, self.args.temperature + 1e-7, with_entropy)
            if with_critic:
                if not self.value.shared:
                    hidden = hidden_states(self.value.backbone, rows)
                elif not with_policy:
                    hidden = hidden.detach()  # the critic's warm-up leaves the policy alone
                values = self.value(hidden)
        return logps, entropy, values

    def _logps(self, policy: nn.Module, e: Experience) -> torch.Tensor:
        rows = self._rows(e)
        with self.accelerator.autocast():
            hidden = hidden_states(backbone_of(policy), rows)
            head = causal_lm(policy).get_output_embeddings()
            return completion_logps(head, hidden, rows, self.args.temperature + 1e-7)[0]

    def _rows(self, e: Experience) -> Rows:
        longest = self.args.packing_max_tokens
        return Rows(e.prompts, e.completions, e.mask.shape[1], self.accelerator.device, longest)

    def _total(self, x: torch.Tensor) -> torch.Tensor:
        return self.accelerator.reduce(x, "sum") if self.accelerator.num_processes > 1 else x


def _unpadded(rows: list[dict[str, Any]]) -> dict[str, list]:
    """A batch as lists: prompts are laid out where they are used, so a tokenizer's padding side means nothing here."""
    return {"input_ids": [row["input_ids"] for row in rows], "problem_id": [row["problem_id"] for row in rows]}
