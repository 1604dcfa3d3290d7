"""GRPO with rewards on tokens: TRL's GRPOTrainer, its loss untouched, five steps of its own.

1. rollout: one prefill a prompt, graded while others are sampled, perhaps a batch ahead (recipes/trainers/rollouts.py)
2. score: all reward channels at once, `None` takes a sample out (`_calculate_rewards`)
3. advantages: group-relative, plus the token's own shaping, shape (B, T) (`_generate_and_score_completions`)
4. degenerate groups cost no forward or backward pass (`_prepare_inputs`, `compute_loss`)
5. log-probabilities with each prompt read once (`_get_per_token_logps_and_entropies`)

Checkpoints appear whole or not at all and hold what is needed to go on exactly (`_save_checkpoint`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils import gather, gather_object
from transformers import PreTrainedModel, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from envs.task import Problem, Task
from recipes.support.checkpoints import AtomicCheckpoints
from recipes.support.console import log
from recipes.support.grading import Grader
from recipes.support.main import Stopped
from recipes.support.prompt_rows import PromptRows
from recipes.support.rollout import rollout_rows
from recipes.support.run_log import RunLog
from recipes.support.sampler import sampler_of
from recipes.support.sampling import Decoding, end_ids
from recipes.trainers.forward import require_plain_head
from recipes.trainers.groups import degenerate_groups, nanstd_rows, rollout_metrics, weighted_alike
from recipes.trainers.packing import full_attention, packed_logps
from recipes.trainers.rollouts import GroupRollout, Rollouts, RolloutSettings
from rewards.compose import Reward


class DenseGRPOTrainer(AtomicCheckpoints, GRPOTrainer):
    """
    Args:
        task: the source of problems; the dataset's column `problem_id` names them.
        reward: the channels, their weights and their placement.
        run_log: takes sampled completions (and, as a callback, metrics).
        shaping: weight of a token's own reward in its advantage; 0 leaves the group-relative advantage alone.
            Sparse placement has none.
        packing_max_tokens: longest row to pack a group into; longer groups take TRL's padded rows. 0: never pack.
        logits_at_once: completion tokens whose logits are in memory together; 0: all of a group. Packed groups only.
        sampling_dtype: sample from a copy of the policy in this dtype; None samples from the policy itself.
        rollout_rows: completions sampled together; None: all of a batch.
        grading_chunk: completions graded together while others are sampled; 0: all, when the last is sampled.
        refill_rounds: how often a batch's degenerate groups are replaced by groups of further prompts.
        lookahead: sample and grade the next batch while this one trains. It is off-policy by one update: the loss's
            ratio is then of the policy to the sampler, token by token, and clipped as ever.
        server: address of a vLLM server to sample from; the ratio is to what it drew with.
    Other arguments are GRPOTrainer's.
    """

    _buffered_inputs: Any

    def __init__(
        self,
        model: PreTrainedModel,
        args: GRPOConfig,
        task: Task,
        reward: Reward,
        run_log: RunLog,
        shaping: float = 1.0,
        packing_max_tokens: int = 4096,
        logits_at_once: int = 0,
        sampling_dtype: torch.dtype | None = None,
        rollout_rows: int | None = None,
        grading_chunk: int = 8,
        refill_rounds: int = 0,
        lookahead: bool = False,
        server: str | None = None,
        **kwargs: Any,
    ):
        args.reward_weights = [reward.weights[name] for name in reward.channels]
        # TRL wants a callable a column to name its metrics; the channels are asked together in _calculate_rewards
        columns = [_column(name) for name in reward.channels]
        super().__init__(model=model, args=args, reward_funcs=columns, callbacks=[run_log], **kwargs)
        self.remove_callback(PrinterCallback)  # run_log prints a line a step
        self.task, self.reward, self.run_log = task, reward, run_log
        self.shaping = shaping
        self.logits_at_once = logits_at_once
        if logits_at_once:
            require_plain_head(self.policy)
        self.packing_max_tokens = packing_max_tokens if full_attention(self.policy.config) else 0
        self.problems: Mapping[str, Problem] = {p.id: p for p in task.problems("train")}
        self._end_ids = end_ids(self._tokenizer, self.policy)
        self.lookahead = lookahead
        self._off_policy = lookahead or server is not None  # by a step, or by the server's arithmetic
        grader = Grader(reward, grading_chunk)
        self.rollouts = self._rollouts(grader, sampling_dtype, rollout_rows, refill_rounds, server)
        self._rollout: GroupRollout | None = None
        self._rewards: torch.Tensor | None = None

    def _rollouts(
        self,
        grader: Grader,
        sampling_dtype: torch.dtype | None,
        rollout_rows: int | None,
        refill_rounds: int,
        server: str | None,
    ) -> Rollouts:
        args, rank, world = self.args, self.accelerator.process_index, self.accelerator.num_processes
        external = self._sample_elsewhere if self.use_vllm or self._zero3 else None
        settings = RolloutSettings(
            rows=args.per_device_train_batch_size * args.steps_per_generation,
            group=self.num_generations,
            at_once=None if external or server else rollout_rows,
            refill_rounds=refill_rounds,
            lookahead=(sampling_dtype or self.policy.dtype) if self.lookahead else None,
        )
        prompts = args.generation_batch_size // self.num_generations
        rows = PromptRows(
            self.train_dataset, prompts, self.num_generations, args.seed, self.shuffle_dataset, rank, world
        )
        sampler = sampler_of(
            self,
            self._tokenizer,
            Decoding(self.max_completion_length, self.temperature, self.top_p),
            self._end_ids,
            server=server,
            copy_dtype=None if self.lookahead else sampling_dtype,
            autocast=nullcontext if self.lookahead else self.accelerator.autocast,
        )
        return Rollouts(
            settings,
            self.train_dataset,
            rows,
            self.task,
            self.problems,
            self._tokenizer,
            {"chat_template": self.chat_template, **self.chat_template_kwargs},
            sampler,
            grader,
            args.seed * world + rank,
            external,
        )

    @property
    def policy(self) -> PreTrainedModel:
        """The model that is trained, out of what training wraps it in."""
        return self.accelerator.unwrap_model(self.model)

    def train(self, *args: Any, **kwargs: Any):
        """As transformers' Trainer does; ends what runs beside it."""
        log.info(self.rollouts.describe())
        try:
            return super().train(*args, **kwargs)
        finally:
            self.rollouts.close()

    # 1. rollout ---------------------------------------------------------------------------------------------

    def _tokenize_prompts(self, prompts):
        return self._sampled.prompt_ids, None, {}

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, has_tool_images=False):
        logps = self._sampled.logps if self._off_policy or self.use_vllm else None
        return [list(completion.token_ids) for completion in self._sampled.completions], logps

    def _sample_elsewhere(self, prompt_ids):
        return super()._generate_single_turn(prompt_ids, None, {})

    @property
    def _sampled(self) -> GroupRollout:
        assert self._rollout is not None  # _generate_and_score_completions has just set it
        return self._rollout

    @property
    def _zero3(self) -> bool:
        return self.is_deepspeed_enabled and self.args.deepspeed_plugin.zero_stage == 3

    # 2. score -----------------------------------------------------------------------------------------------

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        grades = self._sampled.grades
        none = [torch.nan] * len(self.reward.channels)
        scores = gather(
            torch.tensor(
                [none if grade is None else weighted_alike(grade, self.reward.weights) for grade in grades],
                device=self.accelerator.device,
            )
        )
        self._rewards = scores @ self.reward_weights.to(scores.device)  # NaN where any channel did not grade
        for name, value in rollout_metrics(self._sampled, self._rewards, self.num_generations).items():
            self._note(name, value)
        return scores

    # 3. advantages ------------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs):
        # `inputs` are TRL's next prompts; the rollouts draw the same ones in the same order, and further where needed
        generations = self.args.max_steps * self.args.gradient_accumulation_steps
        every = self.args.steps_per_generation * self.num_iterations
        try:
            rollout = self._rollout = self.rollouts.next(self.policy, more=self._step + every < generations)
        except Stopped:
            if self.state.global_step:
                self._save_checkpoint(self.model, trial=None)
            raise
        batch = super()._generate_and_score_completions([self.train_dataset[row] for row in rollout.rows])
        rewards, self._rollout, self._rewards = self._rewards, None, None
        assert rewards is not None
        if self._off_policy:
            batch["old_per_token_logps"] = batch.pop("sampling_per_token_logps")
        degenerate = degenerate_groups(rewards.view(-1, self.num_generations))
        first = self.accelerator.process_index * len(rollout.rows)
        local = slice(first, first + len(rollout.rows))
        learns = ~rewards.isnan() & ~degenerate.repeat_interleave(self.num_generations)
        batch["learns"] = learns[local]
        if self.reward.placement != "sparse" and self.shaping:
            own = self._shaping(batch, rollout, rewards)[local]
            batch["advantages"] = batch["advantages"][:, None] + self.shaping * own
        self._log_completions(rollout, batch["advantages"])
        return batch

    def _shaping(self, batch, rollout: GroupRollout, rewards: torch.Tensor) -> torch.Tensor:
        """Each token's own reward minus its group's mean over tokens, scaled as advantages are: (all B, T)."""
        width = batch["completion_ids"].shape[1]
        own = torch.zeros(len(rollout.grades), self.max_completion_length, device=rewards.device)
        for row, grade in enumerate(rollout.grades):
            if grade is not None:
                own[row, : len(grade.token_rewards)] = torch.tensor(grade.token_rewards, device=own.device)
        own, lengths = gather(own), gather(batch["completion_mask"].sum(1))
        lengths = lengths * ~rewards.isnan()  # what was not graded is no part of the mean
        group_tokens = lengths.view(-1, self.num_generations).sum(1).clamp(min=1)
        group_mean = own.sum(1).view(-1, self.num_generations).sum(1) / group_tokens
        own = own - group_mean.repeat_interleave(self.num_generations)[:, None]
        rewards_by_group = rewards.view(-1, self.num_generations)
        if self.scale_rewards == "group":
            own = own / (nanstd_rows(rewards_by_group).repeat_interleave(self.num_generations)[:, None] + 1e-4)
        elif self.scale_rewards == "batch":
            own = own / (nanstd_rows(rewards_by_group.view(1, -1)) + 1e-4)
        return own[:, :width]

    def _log_completions(self, rollout: GroupRollout, advantages: torch.Tensor) -> None:
        rows = gather_object(rollout_rows(rollout, advantages, self.state.global_step + 1, self.run_log.per_step))
        if self.accelerator.is_main_process:
            self.run_log.completions(rows)

    # 4. degenerate groups -----------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch):
        every = self.args.steps_per_generation * self.num_iterations
        if self._step % every == 0 or self._buffered_inputs is None:
            batch = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = self._micro_batches(batch)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _micro_batches(self, batch: dict[str, Any]) -> list[dict[str, Any] | None]:
        """Cut a generation batch into `steps_per_generation` micro-batches, without the rows that teach nothing.

        Rows stay in the optimizer step that TRL's own cut would give them; None stands for a micro-batch left empty.
        """
        size, total = self.args.per_device_train_batch_size, self.args.steps_per_generation
        window = min(self.args.gradient_accumulation_steps, total)
        learns = batch.pop("learns")
        if self.beta == 0 and not self._entropy_bonus_enabled:  # rows of zero advantage have zero gradient
            advantages = batch["advantages"]
            learns = learns & (advantages != 0).view(len(learns), -1).any(1)
        out: list[dict[str, Any] | None] = []
        for first in range(0, total * size, window * size):
            rows = first + learns[first : first + window * size].nonzero().squeeze(1)
            out.extend(self._window(batch, rows, first, window, size))
        return out

    def _window(self, batch, rows, first, window, size) -> list[dict[str, Any] | None]:
        """Micro-batches of one optimizer step; every process has as many rows, since TRL's loss gathers metrics."""
        wanted = len(rows)
        if self.accelerator.num_processes > 1:
            wanted = int(gather(torch.tensor([len(rows)], device=rows.device)).max())
        if self.is_deepspeed_enabled:  # its engine counts backward passes
            wanted = max(wanted, (window - 1) * size + 1)
        padded = torch.cat([rows, rows.new_full((wanted - len(rows),), first)])
        weightless = torch.arange(wanted, device=rows.device) >= len(rows)
        chunks = [
            self._take(batch, chunk, mute, len(chunk) / size)
            for chunk, mute in zip(padded.split(size), weightless.split(size), strict=True)
            if len(chunk)
        ]
        return [None] * (window - len(chunks)) + chunks

    @staticmethod
    def _take(batch: dict[str, Any], rows: torch.Tensor, mute: torch.Tensor, share: float) -> dict[str, Any]:
        """Rows of a batch, those of `mute` emptied of their completion; columns of padding alone are cut."""
        taken = {k: v[rows] if torch.is_tensor(v) and v.dim() else v for k, v in batch.items()}
        taken["completion_mask"] = taken["completion_mask"] * ~mute[:, None]
        longest = int(taken["completion_mask"].sum(1).max().clamp(min=1))
        width = batch["completion_ids"].shape[1]
        for key, value in taken.items():
            if torch.is_tensor(value) and value.shape[1:] == (width,) and not key.startswith("prompt"):
                taken[key] = value[:, :longest]
        return {**taken, "share": share}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if inputs is None:  # nothing to learn here: no forward, and a backward that touches no parameter
            return torch.zeros((), device=self.accelerator.device, requires_grad=True)
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        # these losses are means over the micro-batch's rows (bnpo: its tokens); dropped rows count as rows of zero loss
        by_rows = self.loss_type in ("grpo", "dr_grpo", "bnpo", "luspo", "sapo")
        return loss * inputs["share"] if by_rows and "share" in inputs else loss

    # 5. log-probabilities -----------------------------------------------------------------------------------

    def _get_per_token_logps_and_entropies(
        self,
        model,
        input_ids,
        attention_mask,
        logits_to_keep,
        batch_size=None,
        compute_entropy=False,
        **kwargs,
    ):
        width = input_ids.shape[1] - logits_to_keep
        longest = int(attention_mask[:, :width].sum(1).max() + attention_mask[:, width:].sum())
        if longest > self.packing_max_tokens or any(v is not None and v is not False for v in kwargs.values()):
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **kwargs
            )
        rows = (input_ids, attention_mask, logits_to_keep)
        logps, entropies = packed_logps(model, *rows, self.temperature, compute_entropy, self.logits_at_once)
        return logps, entropies, None

    # checkpoints --------------------------------------------------------------------------------------------

    def extra_state(self) -> dict[str, Any]:
        """The step within a rollout, the rollout where it is half used, the place in the data, the batch ahead."""
        every = self.args.steps_per_generation * self.num_iterations
        inputs = self._buffered_inputs if self._step % every else None
        return {"step": self._step, "inputs": inputs, "rollouts": self.rollouts.state()}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self._step, self._buffered_inputs = state["step"], state["inputs"]
        self.rollouts.load_state(state["rollouts"], self.policy)

    def _note(self, name: str, value: float) -> None:
        self._metrics["train" if self.model.training else "eval"][name].append(value)


def _column(name: str):
    def column(**kwargs):
        raise RuntimeError("channels are asked together, in _calculate_rewards")

    column.__name__ = name
    return column
