"""GRPO with rewards on tokens: TRL's GRPOTrainer with its loss untouched.

For each micro-batch TRL's training loop calls 1 and 3. The methods marked * are replaced here.

 1. _prepare_inputs *                    gives the micro-batch; once per rollout it calls 2 and cuts its result
 2. _generate_and_score_completions *    completions are sampled and graded, rewards become advantages (B,) or (B, T)
 3. compute_loss *                       an empty micro-batch costs nothing; else it calls 4
 4. _compute_loss                        TRL's: ratio, clipping, KL, the mean that recipe.trl.loss_type names; calls 5
 5. _get_per_token_logps_and_entropies * each prompt is read once; 2 calls it too, for the reference policy
 6. log                                  TRL's, once a step: means of what was noted in `_metrics`
 7. _save_checkpoint *                   whole or not at all, with what is needed to resume exactly
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from inspect import signature
from typing import Any

import torch
from accelerate.utils import gather
from transformers import PreTrainedModel, PrinterCallback
from trl import GRPOConfig, GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad, use_adapter

from envs.episode import Episode
from envs.task import Problem, Task
from recipes.cli.console import log
from recipes.cli.errors import Stopped
from recipes.data.curriculum import Curriculum, CurriculumSettings
from recipes.data.episodes import rows_of_step
from recipes.data.prompt_order import PromptRows
from recipes.models.load import train_in_float32
from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.log import RunLog
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import episodes_of
from recipes.sampling.generate import Decoding, end_ids
from recipes.sampling.group_batch import GroupRollout, rewards_of
from recipes.sampling.group_rollouts import Rollouts, RolloutSettings
from recipes.sampling.prefix import prefixes_of
from recipes.sampling.sampler import Sampler, sampler_of
from recipes.sampling.vllm import ServerSampler
from recipes.trainers.group_advantages import GroupAdvantages
from recipes.trainers.line_credit import LineCredit
from recipes.trainers.log_probs import Entropy, packed_logps, require_plain_head
from recipes.trainers.metrics import completion_metrics, group_metrics, metrics_from_prompt, prefix_metrics
from recipes.trainers.micro_batches import (
    LARGEST_RATIO,
    MEANS_OVER_ROWS,
    entropy_in_loss,
    every_row_counts,
    loss_of_nothing,
    micro_batches,
    padded_rows,
)
from recipes.trainers.packing import Rows, attend_by_segment, full_attention
from recipes.trainers.turns import turn_metrics
from rewards.compose import Reward


class DenseGRPOTrainer(AtomicCheckpoints, GRPOTrainer):
    """
    Args:
        task: the source of problems; the dataset's column `problem_id` names them.
        reward: the channels, their weights and their placement.
        run_log: takes sampled completions (and, as a callback, metrics).
        shaping: weight of a token's own reward in its advantage; 0 leaves the group-relative advantage alone.
            Sparse placement has none.
        credit: "answer", or "lines" for the effect of exchanged lines in place of shaping (line_credit.py).
        packing_max_tokens: longest row, in tokens, that a prompt and its completions share. If a group of a micro-batch
            is longer, the micro-batch takes TRL's padded rows. 0: always.
        logits_at_once: completion tokens whose logits are in memory together; 0: all of a group. Packed groups only.
        sampling_dtype: sample from a copy of the policy in this dtype; None samples from the policy itself, with
            lookahead from a copy in the policy's own dtype.
        rollout_rows: completions sampled together; None: all of a batch.
        grading_chunk: completions graded together while others are sampled; 0: all, when the last is sampled.
        prefix: groups in which nothing passes are drawn again behind the beginning of the reference: the fields of
            recipes/sampling/prefix.py's PrefixSettings. None: never.
        curriculum: problems are drawn by what they teach: the fields of recipes/data/curriculum.py's
            CurriculumSettings. None: in TRL's order.
        refill, refill_rounds: whether, and how often at most, a batch's degenerate groups are replaced by groups of
            further prompts (DAPO's dynamic sampling; Yu et al. 2025, arXiv 2503.14476, section 3.2).
        lookahead: sample and grade the next batch while this one trains. It is off-policy by one update: the loss's
            ratio is then of the policy to the sampler, token by token, and clipped as ever; where the advantage is
            negative, at recipe.trl.delta (LARGEST_RATIO).
        server: address of a vLLM server to sample from; the ratio is to what it drew with.
        episode: the environment of episodes of several turns (turns.py); None: answers of one turn.
    Other arguments are GRPOTrainer's.
    """

    _buffered_inputs: Any
    _written: torch.Tensor | None = None

    def train(self, *args: Any, **kwargs: Any):
        """Train as transformers' Trainer does, then stop the threads that sample and grade."""
        log.info(self.rollouts.describe())
        try:
            return super().train(*args, **kwargs)
        finally:
            self.rollouts.close()

    # 1. ---------------------------------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch):
        if self._step % self._micro_batches_a_rollout == 0 or self._buffered_inputs is None:
            batch = self._generate_and_score_completions(generation_batch)
            count, size = self.args.steps_per_generation, self.args.per_device_train_batch_size
            window = min(self.args.gradient_accumulation_steps, count)
            # DeepSpeed's engine counts backward passes
            least = (window - 1) * size + 1 if self.is_deepspeed_enabled else 0
            self._buffered_inputs = micro_batches(batch, batch.pop("learns"), size, count, window, least)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    # 2. ---------------------------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs):
        # `inputs`, TRL's next prompts, is not used: rollouts draw prompts themselves, to sample ahead and to refill
        rollout = self._next_rollout()
        pad_id, device = self.processing_class.pad_token_id, self.accelerator.device
        batch = padded_rows(rollout, pad_id, self._turns, self.mask_truncated_completions, device)
        rewards_NG = gather(rewards_of(rollout.grades).to(self.accelerator.device)).view(-1, self.num_generations)

        first = self.accelerator.process_index * len(rollout.rows)
        local = slice(first, first + len(rollout.rows))  # of what all processes have
        returns_by_turn = self._advantages.returns_by_turn(rollout, rewards_NG)
        advantages = self._advantages(rollout, returns_by_turn)[local]
        if advantages.dim() > 1:
            advantages = advantages[:, : batch["completion_ids"].shape[1]]
        learns = ~rewards_NG.flatten()[local].isnan()
        if not every_row_counts(self.args):
            learns = learns & (advantages != 0).view(len(advantages), -1).any(1)
        batch["advantages"], batch["learns"] = advantages, learns
        with torch.no_grad(), disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            self._add_old_logps(batch, rollout)
            self._add_reference_logps(batch)
        metrics = group_metrics(rollout, rewards_NG, returns_by_turn, self._advantages.differ(rollout, device))
        self._log_rollout(rollout, rewards_NG, metrics, advantages)
        return batch

    def _next_rollout(self) -> GroupRollout:
        """Sampled and graded completions. Raises Stopped, with a checkpoint, where the run is asked to stop."""
        last = self.args.max_steps * self.args.gradient_accumulation_steps  # micro-batches of the whole run
        try:
            return self.rollouts.next(self.policy, more=self._step + self._micro_batches_a_rollout < last)
        except Stopped:
            if self.state.global_step:
                self._save_checkpoint(self.model, trial=None)
            raise

    def _add_old_logps(self, batch: dict[str, Any], rollout: GroupRollout) -> None:
        """Add `old_per_token_logps` (B, T), the denominator of the importance ratio, if it is not the current policy's.

        Off-policy these are the sampler's log-probabilities. If one rollout serves several optimizer steps, they are
        the policy's before the first step.
        """
        if self._off_policy:
            logps = [torch.tensor([torch.nan if p is None else p for p in row]) for row in rollout.logps]
            drawn = pad(logps, padding_value=0.0, padding_side="right")
            batch["old_per_token_logps"] = drawn = drawn.to(self.accelerator.device)
            if gather(drawn.isnan().any()[None]).any():  # vLLM could not tell; all processes pass together
                batch["old_per_token_logps"] = torch.where(drawn.isnan(), self._logps(self.model, batch), drawn)
        elif self.args.gradient_accumulation_steps % self._micro_batches_a_rollout:
            batch["old_per_token_logps"] = self._logps(self.model, batch)

    def _add_reference_logps(self, batch: dict[str, Any]) -> None:
        """Log-probabilities (B, T) of the reference policy: a frozen model, or the policy with its first adapter."""
        if self.beta == 0:
            return
        if self.ref_model is not None:
            batch["ref_per_token_logps"] = self._logps(self.ref_model, batch)
            return
        with use_adapter(self.policy, adapter_name="ref" if "ref" in self.policy.peft_config else None):
            batch["ref_per_token_logps"] = self._logps(self.model, batch)

    def _logps(self, model: Any, batch: dict[str, Any]) -> torch.Tensor:
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        width, rows = batch["completion_ids"].shape[1], self.args.per_device_train_batch_size
        written, logps = batch.get("tool_mask", mask[:, -width:]), []
        # as many rows at once as the loss takes, so that both have the same memory and the same arithmetic
        for some_ids, some_mask, some_written in zip(*(t.split(rows) for t in (ids, mask, written)), strict=True):
            self._set_written(some_written)
            logps.append(self._get_per_token_logps_and_entropies(model, some_ids, some_mask, width, rows)[0])
        return torch.cat(logps)

    def _log_rollout(
        self, rollout: GroupRollout, rewards_NG: torch.Tensor, groups: Mapping[str, float], advantages: torch.Tensor
    ) -> None:
        metrics = {"reward": torch.nanmean(rewards_NG).item(), **rollout.clock}
        metrics |= completion_metrics(rollout, list(self.reward.channels), self.accelerator.device)
        metrics |= groups
        if self.rollouts.selects:
            metrics |= metrics_from_prompt(rollout.from_prompt, rewards_NG.device)
        counts = [[rollout.graded_samples, rollout.sampled_tokens, rollout.mixed_answers]]
        totals = gather(torch.tensor(counts, dtype=torch.float64, device=rewards_NG.device)).sum(0)
        metrics |= {"graded_samples": totals[0].item(), **rollout.sampling_metrics}
        if self._advantages.lines:
            metrics["mixed_answers"] = totals[2].item()
        if self.rollouts.prefixes:
            metrics |= prefix_metrics(rollout.prefixed, rewards_NG.device)
        if self._turns > 1:
            metrics |= turn_metrics(rollout, self._turns, self.accelerator.device)
        if seconds := rollout.clock.get("seconds/rollout"):  # a batch sampled before the run was resumed has none
            metrics["tokens_per_second"] = totals[1].item() / seconds
        for name, value in metrics.items():
            self._metrics["train"][name].append(value)
        rows = rows_of_step(rollout, advantages, self.state.global_step + 1, self.run_log.per_step, self._turns)
        if self.accelerator.is_main_process:
            self.run_log.record_completions(rows)

    # 5. ---------------------------------------------------------------------------------------------------------

    def _set_written(self, written: torch.Tensor | None) -> None:
        """Which tokens of the next call of 5 the policy wrote, (B, T); None: all. TRL calls 5 with arguments of its
        own, among which there is no such mask."""
        self._written = written

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, compute_entropy=False, **kwargs
    ):
        rows = Rows.of_padded(input_ids, attention_mask, logits_to_keep, self.packing_max_tokens, self._written)
        if not rows.fit or any(v is not None and v is not False for v in kwargs.values()):
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **kwargs
            )
        entropy: Entropy = ("loss" if entropy_in_loss(self.args) else "metric") if compute_entropy else None
        logps, entropies = packed_logps(model, rows, self.temperature, entropy, self.logits_at_once)
        return logps, entropies, None  # no auxiliary loss of a router of experts

    # 3. ---------------------------------------------------------------------------------------------------------

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if inputs is None:
            return loss_of_nothing(self.model, self.accelerator)
        self._set_written(inputs.get("tool_mask"))
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return loss * inputs["share"] if self.loss_type in MEANS_OVER_ROWS and "share" in inputs else loss

    # 7. ---------------------------------------------------------------------------------------------------------

    def extra_state(self) -> dict[str, Any]:
        """State for an exact resume: the step within a rollout, the rollout if it is partly used, and the state of
        `rollouts`."""
        inputs = self._buffered_inputs if self._step % self._micro_batches_a_rollout else None
        return {"step": self._step, "inputs": inputs, "rollouts": self.rollouts.state()}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self._step, self._buffered_inputs = state["step"], state["inputs"]
        self.rollouts.load_state(state["rollouts"], self.policy)

    # construction -----------------------------------------------------------------------------------------------

    def __init__(
        self,
        model: PreTrainedModel,
        args: GRPOConfig,
        task: Task,
        reward: Reward,
        run_log: RunLog,
        shaping: float = 1.0,
        credit: str = "answer",
        packing_max_tokens: int = 4096,
        logits_at_once: int = 0,
        sampling_dtype: torch.dtype | None = None,
        rollout_rows: int | None = None,
        grading_chunk: int = 8,
        refill: bool = False,
        refill_rounds: int = 4,
        lookahead: bool | int = False,
        prefix: Mapping[str, Any] | None = None,
        curriculum: Mapping[str, Any] | None = None,
        server: str | None = None,
        episode: Episode | None = None,
        **kwargs: Any,
    ):
        super().__init__(model=model, args=args, reward_funcs=_never_called, callbacks=[run_log], **kwargs)
        self.remove_callback(PrinterCallback)  # run_log prints a line a step
        train_in_float32(self.model)
        self.task, self.reward, self.run_log = task, reward, run_log
        self.logits_at_once = logits_at_once
        if logits_at_once:
            require_plain_head(self.policy)
        # under ZeRO-3 each forward pass gathers weights, so all processes must make equally many of them
        self.packing_max_tokens = packing_max_tokens if full_attention(self.policy.config) and not self._zero3 else 0
        if self.packing_max_tokens:
            attend_by_segment(self.accelerator.device, self.policy, self.ref_model)
        self.problems: Mapping[str, Problem] = {p.id: p for p in task.problems("train")}
        self._off_policy = bool(lookahead or server or self.use_vllm)  # by a step, or by the server's arithmetic
        self.vllm_importance_sampling_correction = False  # the ratio is to what vLLM drew with
        args.delta = LARGEST_RATIO if self._off_policy and args.delta is None else args.delta
        elsewhere = self.use_vllm or self._zero3
        self._turns = 1 if episode is None else episode.turns
        shaping = shaping if reward.placement != "sparse" and credit != "lines" else 0.0
        settings = RolloutSettings(
            rows=args.per_device_train_batch_size * args.steps_per_generation,
            group=self.num_generations,
            at_once=None if elsewhere or server else rollout_rows,
            refill_rounds=refill_rounds if refill else 0,
            lookahead_dtype=(sampling_dtype or self.policy.dtype) if lookahead else None,
            parts=bool(shaping) and self._turns == 1,
        )
        grader = Grader(reward, grading_chunk)
        self._curriculum = CurriculumSettings(**curriculum) if curriculum and curriculum["enabled"] else None
        self.rollouts = self._rollouts(settings, grader, sampling_dtype, server, prefix, episode)
        self._advantages = GroupAdvantages(
            group=self.num_generations,
            longest=self.max_completion_length,
            scale=self.scale_rewards,
            shaping=shaping,
            turns=self._turns,
            discount=self.rollouts.turns_and_discount[1],
            lines=LineCredit(task, grader, self.num_generations, self._length) if credit == "lines" else None,
        )

    def _length(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.processing_class(text, add_special_tokens=False)["input_ids"])

    def _rollouts(
        self,
        settings: RolloutSettings,
        grader: Grader,
        sampling_dtype: torch.dtype | None,
        server: str | None,
        prefix: Mapping[str, Any] | None,
        episode: Episode | None,
    ) -> Rollouts:
        """What samples and grades for training."""
        args, tokenizer = self.args, self.processing_class
        ends = end_ids(tokenizer, self.policy)
        template = {"chat_template": self.chat_template, **self.chat_template_kwargs}
        sampler = sampler_of(
            self,
            tokenizer,
            Decoding(self.max_completion_length, self.temperature, self.top_p),
            ends,
            server=server,
            copy_dtype=None if settings.lookahead_dtype else sampling_dtype,
            autocast=nullcontext if settings.lookahead_dtype else self.accelerator.autocast,
        )
        # optimizer steps of the training, over those that one rollout serves
        steps = -(-args.max_steps * args.gradient_accumulation_steps // self._micro_batches_a_rollout)
        return Rollouts(
            settings,
            self.train_dataset,
            self._prompt_order(settings.parts),
            self.task,
            self.problems,
            tokenizer,
            template,
            sampler,
            grader,
            args.seed * self.accelerator.num_processes + self.accelerator.process_index,
            self._sample_by_trl if self.use_vllm or self._zero3 else None,
            prefixes_of(prefix, self.task, tokenizer, steps, self.max_completion_length),
            episodes_of(episode, self.task, tokenizer, template, ends, grader),
        )

    def _prompt_order(self, parts: bool) -> PromptRows | Curriculum:
        """What chooses the prompts: TRL's own order (refilling may use more of it in a step than TRL does), or the
        curriculum."""
        prompts = self.args.generation_batch_size // self.num_generations
        rank, seed = (self.accelerator.process_index, self.accelerator.num_processes), self.args.seed
        if self._curriculum:
            names = self.train_dataset["problem_id"]
            return Curriculum(self._curriculum, names, prompts, self.num_generations, seed, *rank, parts)
        return PromptRows(self.train_dataset, prompts, self.num_generations, seed, self.shuffle_dataset, *rank)

    def _sample_by_trl(self, prompt_ids):
        """Completions of vLLM beside training, or of weights that ZeRO-3 spreads: by TRL's own generation."""
        by_trl = super()._generate_single_turn
        group = [self.num_generations] if "num_generations" in signature(by_trl).parameters else []  # from TRL 1.14
        return by_trl(prompt_ids, None, {}, *group)

    @property
    def policy(self) -> PreTrainedModel:
        """The model that is trained, without what training wraps it in."""
        return self.accelerator.unwrap_model(self.model)

    @property
    def sampler(self) -> Sampler | ServerSampler:
        """What samples for training."""
        return self.rollouts.sampler

    @property
    def _micro_batches_a_rollout(self) -> int:
        return self.args.steps_per_generation * self.num_iterations

    @property
    def _zero3(self) -> bool:
        return self.is_deepspeed_enabled and self.args.deepspeed_plugin.zero_stage == 3


def _never_called(**kwargs):
    """TRL wants a reward function; channels are asked together, while completions are sampled."""
    raise RuntimeError("rewards come with the rollout")
