"""PPO with rewards on tokens: TRL's PPOTrainer, its long `train` split into steps that a subclass can override.

    rollout       sample completions
    score         all reward channels at once, from text; `None` takes a completion out
    reference     log-probabilities of policy and reference, values
    token_rewards channel rewards on their tokens (dense) or the score at the end (sparse), minus the KL penalty
    advantages    generalised advantage estimation
    update        epochs over mini-batches, the clipped losses
    log_update, save

In sparse placement it makes TRL's own update, number for number. Nothing of shape (B, T, V) is ever made: see
recipes/trainers/forward.py. A run resumes exactly: policy, critic, optimizer, data position, random states.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
from recipes.support.sampler import Sampler
from recipes.support.sampling import Decoding, end_ids
from recipes.trainers import gae as math
from recipes.trainers.experience import Experience, PromptStream
from recipes.trainers.forward import (
    Rows,
    backbone_of,
    causal_lm,
    completion_logps,
    hidden_states,
    require_plain_head,
)
from recipes.trainers.ppo_config import DensePPOConfig
from recipes.trainers.ppo_state import PPOState
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
    """

    model: Any

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
        **kwargs: Any,
    ):
        Accelerator(mixed_precision=args.mixed_precision, cpu=args.use_cpu)  # TRL's own takes up its state
        super().__init__(
            args=args,
            processing_class=processing_class,
            model=model,
            ref_model=None if args.needs_reference and reference is None else nn.Module(),
            reward_model=nn.Module(),  # rewards come from text
            train_dataset=train_dataset,
            value_model=value,
            data_collator=_unpadded,
            callbacks=[run_log],
            **kwargs,
        )
        self.remove_callback(PrinterCallback)  # run_log prints a line a step
        self.is_fsdp_xla_v1_enabled = False  # PPOTrainer leaves it out, loading an optimizer asks for it
        if not self.is_deepspeed_enabled:  # gradients are summed by hand, so no wrapper holds a second set of them
            self.model = self.accelerator.unwrap_model(self.model)
        self.policy, self.value = self._wrapped.policy, self._wrapped.value_model
        require_plain_head(self.policy)
        self.task, self.reward, self.run_log, self._reference = task, reward, run_log, reference
        self.problems: dict[str, Problem] = {p.id: p for p in task.problems("train")}
        self.prompts = PromptStream(self.dataloader)
        self.kl = math.KLCoefficient(args.kl_coef, args.kl_target, args.kl_horizon)
        self._token_bytes = TokenBytes(processing_class)
        self._end_ids = end_ids(processing_class, causal_lm(self.policy))
        self._sampler = Sampler(
            Decoding(args.response_length, args.temperature, args.top_p),
            self._end_ids,
            processing_class.pad_token_id,
            AnswerComplete(task, self._token_bytes),
            sampling_dtype,
            stock=args.stock_sampling,
            autocast=self.accelerator.autocast,
        )
        self._loop = asyncio.Runner()
        self._clock: dict[str, float] = {}

    @property
    def _wrapped(self) -> Any:
        return self.accelerator.unwrap_model(self.model)

    def create_optimizer(self, model=None):
        """One optimizer, with a learning rate of its own for the critic where one is set."""
        kind, settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        critic = [p for p in self.value_model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in self.policy_model.parameters() if p.requires_grad]}]
        if critic:
            groups.append({"params": critic, "lr": self.args.value_learning_rate or self.args.learning_rate})
        self.optimizer = kind(groups, **{"weight_decay": self.args.weight_decay, **settings})
        return self.optimizer

    def train(self, resume_from_checkpoint: str | None = None) -> None:
        self.begin(resume_from_checkpoint)
        while self.state.global_step < self.state.max_steps:
            experience = self.rollout(next(self.prompts))
            self.score(experience)
            self.reference(experience)
            experience.rewards = self.token_rewards(experience)
            experience.advantages, experience.returns = self.advantages(experience)
            statistics = self.update(experience)
            self.log_update(experience, statistics)
            self.save()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def begin(self, checkpoint: str | None) -> None:
        args = self.args
        if len(self.train_dataset) < args.batch_size:
            raise ValueError(f"a step takes {args.batch_size} prompts, the task has {len(self.train_dataset)}")
        if args.gradient_checkpointing:
            self.policy.gradient_checkpointing_enable({"use_reentrant": False})
        self.model.train()
        self.deepspeed = self.model_wrapped = self.model
        if checkpoint:
            self.restore(Path(checkpoint))
            self._load_optimizer_and_scheduler(checkpoint)  # and extra_state
            self._load_scaler(checkpoint)
            self._load_rng_state(checkpoint)
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
    def reference(self, e: Experience) -> None:
        """Log-probabilities of the policy and the reference at each token, and the critic's values."""
        e.logps, e.ref_logps, e.values = (torch.zeros(e.mask.shape, device=e.mask.device) for _ in range(3))
        for rows in self._passes(e, range(len(e.completions))):
            part = e.take(rows)
            e.logps[rows], _, values = self._forward(part, policy=True, value=True)
            e.ref_logps[rows] = e.logps[rows]
            if self.args.needs_reference:
                with self._reference_policy() as policy:
                    e.ref_logps[rows] = self._logps(policy, part)
            if values is not None:
                e.values[rows] = values * part.states
        e.kl = math.kl_per_token(e.logps, e.ref_logps, self.args.kl_estimator) * e.mask

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
        rewards = -self.kl.value * e.kl
        ends = torch.tensor([len(c) for c in e.completions], device=rewards.device)
        rows = (~e.scores.isnan()).nonzero().squeeze(1)
        if self.reward.placement == "sparse":
            rewards[rows, ends[rows].clamp(max=e.width - 1)] += e.scores[rows]
        else:
            for row in rows.tolist():
                grade = e.grades[row]
                assert grade is not None  # its score is a number
                own = torch.tensor(grade.token_rewards, device=rewards.device)
                rewards[row, : len(own)] += own
                rewards[row, len(own) - 1] += e.scores[row] - grade.total
        if self.args.whiten_rewards:
            rewards = math.whiten(rewards, e.states, shift_mean=False, total=self._total) * e.states
        return rewards

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages, whitened over all tokens of the step, and returns."""
        advantages, returns = math.gae(e.rewards, e.values, self.args.gamma, self.args.lam)
        return math.whiten(advantages, e.mask, total=self._total) * e.mask, returns

    # update -------------------------------------------------------------------------------------------------

    def update(self, e: Experience) -> dict[str, float]:
        """`num_ppo_epochs` over the experience, `num_mini_batches` optimizer steps each; means of their statistics."""
        if not self._total(e.mask.sum()):
            return {}  # nothing was graded
        found = []
        for _ in range(self.args.num_ppo_epochs):
            for rows in np.array_split(np.random.permutation(len(e.completions)), self.args.num_mini_batches):
                found.append(self.minibatch(e, rows.tolist()))
        names = list(dict.fromkeys(name for row in found for name in row))
        means = {n: torch.stack([r[n] for r in found if n in r]).mean() for n in names}
        return {name: self._total(value).item() for name, value in means.items()}

    def minibatch(self, e: Experience, rows: list[int]) -> dict[str, torch.Tensor]:
        """One optimizer step; with a critic of its own, one for the critic and then one for the policy.

        Two steps make the numbers of one, since they share no weight, and hold one model's gradients at a time.
        """
        policy = self.state.global_step >= self.args.value_warmup_updates
        critic = not isinstance(self.value, NoValue)
        if self.value.shared:
            return self._step(e, rows, policy, critic)
        if self.is_deepspeed_enabled:  # its engine steps all weights at once
            found = self._accumulate(e, rows, False, True, last=not policy)
            return found | self._accumulate(e, rows, True, False, last=True) if policy else found
        found = self._step(e, rows, False, True)
        return found | self._step(e, rows, True, False) if policy else found

    def _step(self, e: Experience, rows: list[int], policy: bool, value: bool) -> dict[str, torch.Tensor]:
        found = self._accumulate(e, rows, policy, value, last=True)
        if not self.is_deepspeed_enabled:
            moved = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
            if self.accelerator.num_processes > 1:
                for parameter in moved:
                    torch.distributed.all_reduce(parameter.grad)
            if self.args.max_grad_norm:
                norm = self.accelerator.clip_grad_norm_(moved, self.args.max_grad_norm)
                found["grad_norm" if policy else "value/grad_norm"] = norm / self.accelerator.num_processes
        self.optimizer.step()
        self.optimizer.zero_grad()
        return found

    def _accumulate(self, e, rows, policy: bool, value: bool, last: bool) -> dict[str, torch.Tensor]:
        """Gradients of the losses over `rows`, summed over passes; statistics that add up over passes and processes."""
        units, states = self._total(self.units(e.take(rows))), self._total(e.states[rows].sum())
        found: dict[str, torch.Tensor] = {}
        passes = self._passes(e, rows)
        for place, index in enumerate(passes):
            part = e.take(index)
            logps, entropy, values = self._forward(part, policy, value, with_entropy=True)
            loss = torch.zeros((), device=part.mask.device)
            statistics: dict[str, torch.Tensor] = {}
            if policy:
                surrogate, statistics = self.policy_loss(logps, part)
                loss = surrogate / units
                statistics |= {"loss/policy_avg": surrogate, "policy/entropy_avg": (entropy * part.mask).sum()}
                statistics = {name: s.detach() / units for name, s in statistics.items()}
            if values is not None:
                error, clipped = self.value_loss(values * part.states, part)
                loss = loss + self.args.vf_coef * error / states
                statistics |= {"loss/value_avg": error.detach() / states, "val/clipfrac_avg": clipped / states}
            # DeepSpeed averages over processes, the sum above does not
            scale = self.accelerator.num_processes if self.is_deepspeed_enabled else 1
            self.accelerator.gradient_state._set_sync_gradients(last and place + 1 == len(passes))
            self.accelerator.backward(loss * scale)
            for name, s in statistics.items():
                found[name] = found.get(name, 0) + s
        return found

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

    def _forward(self, e: Experience, policy: bool, value: bool, with_entropy: bool = False):
        """Log-probabilities, entropies and values, (B, T) or None where not asked for."""
        rows = Rows(e.prompts, e.completions, e.mask.shape[1], self.accelerator.device)
        logps = entropy = values = None
        critic = value and not isinstance(self.value, NoValue)
        with self.accelerator.autocast():
            if policy or (critic and self.value.shared):
                hidden = hidden_states(backbone_of(self.policy), rows)
            if policy:
                head = causal_lm(self.policy).get_output_embeddings()
                logps, entropy = completion_logps(head, hidden, rows, self.args.temperature + 1e-7, with_entropy)
            if critic:
                if not self.value.shared:
                    hidden = hidden_states(self.value.backbone, rows)
                elif not policy:
                    hidden = hidden.detach()  # the critic's warm-up leaves the policy alone
                values = self.value(hidden)
        return logps, entropy, values

    def _logps(self, policy: nn.Module, e: Experience) -> torch.Tensor:
        rows = Rows(e.prompts, e.completions, e.mask.shape[1], self.accelerator.device)
        with self.accelerator.autocast():
            hidden = hidden_states(backbone_of(policy), rows)
            head = causal_lm(policy).get_output_embeddings()
            return completion_logps(head, hidden, rows, self.args.temperature + 1e-7)[0]

    def _total(self, x: torch.Tensor) -> torch.Tensor:
        return self.accelerator.reduce(x, "sum") if self.accelerator.num_processes > 1 else x


def _unpadded(rows: list[dict[str, Any]]) -> dict[str, list]:
    """A batch as lists: prompts are laid out where they are used, so a tokenizer's padding side means nothing here."""
    return {"input_ids": [row["input_ids"] for row in rows], "problem_id": [row["problem_id"] for row in rows]}
