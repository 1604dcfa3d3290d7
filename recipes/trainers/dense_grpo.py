"""GRPO with rewards on tokens: TRL's GRPOTrainer, its loss untouched, five steps of its own.

1. rollout: one prefill a prompt, finished rows leave the batch (`_generate_single_turn`)
2. score: all reward channels at once, `None` takes a sample out (`_calculate_rewards`)
3. advantages: group-relative, plus the token's own shaping, shape (B, T) (`_generate_and_score_completions`)
4. degenerate groups cost no forward or backward pass (`_prepare_inputs`, `compute_loss`)
5. log-probabilities with each prompt read once (`_get_per_token_logps_and_entropies`)

Checkpoints appear whole or not at all and hold what is needed to go on exactly (`_save_checkpoint`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import torch
from accelerate.utils import gather, gather_object
from transformers import PreTrainedModel, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from envs.task import Problem, Task
from recipes.support.checkpoints import AtomicCheckpoints
from recipes.support.evaluation import encoded
from recipes.support.rollout import AnswerComplete, Rollout, completion_of, measured, rollout_rows
from recipes.support.run_log import RunLog
from recipes.support.sampler import Sampler
from recipes.support.sampling import Decoding, end_ids
from recipes.trainers.packing import full_attention, packed_logps
from rewards.attribution import TokenBytes
from rewards.compose import Reward


class DenseGRPOTrainer(AtomicCheckpoints, GRPOTrainer):
    """
    Args:
        task: the source of problems; the dataset's column `problem_id` names them.
        reward: the channels, their weights and their placement.
        run_log: takes sampled completions (and, as a callback, metrics).
        shaping: weight of a token's own reward in its advantage; 0 leaves the group-relative advantage alone.
            Matters in dense placement only.
        packing_max_tokens: longest row to pack a group into; longer groups take TRL's padded rows. 0: never pack.
        sampling_dtype: sample from a copy of the policy in this dtype; None samples from the policy itself.
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
        sampling_dtype: torch.dtype | None = None,
        **kwargs: Any,
    ):
        args.reward_weights = [reward.weights[name] for name in reward.channels]
        # TRL wants a callable a column to name its metrics; the channels are asked together in _calculate_rewards
        columns = [_column(name) for name in reward.channels]
        super().__init__(model=model, args=args, reward_funcs=columns, callbacks=[run_log], **kwargs)
        self.remove_callback(PrinterCallback)  # run_log prints a line a step
        self.task, self.reward, self.run_log = task, reward, run_log
        self.shaping = shaping
        self.packing_max_tokens = packing_max_tokens if full_attention(self.policy.config) else 0
        self.problems: Mapping[str, Problem] = {p.id: p for p in task.problems("train")}
        self._token_bytes = TokenBytes(self._tokenizer)
        self._end_ids = end_ids(self._tokenizer, self.policy)
        self._loop = asyncio.Runner()
        self._sampler = Sampler(
            Decoding(self.max_completion_length, self.temperature, self.top_p),
            self._end_ids,
            self._tokenizer.pad_token_id,
            AnswerComplete(task, self._token_bytes),
            sampling_dtype,
            autocast=self.accelerator.autocast,
        )
        self._rollout: Rollout | None = None

    @property
    def policy(self) -> PreTrainedModel:
        """The model that is trained, out of what training wraps it in."""
        return self.accelerator.unwrap_model(self.model)

    # 1. rollout ---------------------------------------------------------------------------------------------

    def _tokenize_prompts(self, prompts):
        if isinstance(prompts[0], str) or prompts[0][-1]["role"] != "assistant":
            return super()._tokenize_prompts(prompts)
        # TRL would close the answer that the prompt begins and open another
        template = {"chat_template": self.chat_template, **self.chat_template_kwargs}
        return [encoded(prompt, self._tokenizer, **template) for prompt in prompts], None, {}

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, has_tool_images=False):
        if self.use_vllm or self._zero3:
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, has_tool_images)
        started = time.perf_counter()
        prompts = [p for i, p in enumerate(prompt_ids) if i == 0 or p != prompt_ids[i - 1]]
        if len(prompts) * self.num_generations == len(prompt_ids):
            repeats = self.num_generations
        else:  # a group lies across processes
            prompts, repeats = list(prompt_ids), 1
        completions = self._sampler(self.policy, prompts, repeats)
        seconds = time.perf_counter() - started
        self._note("seconds/rollout", seconds)
        self._note("tokens_per_second", sum(map(len, completions)) / seconds)
        return completions, None

    @property
    def _zero3(self) -> bool:
        return self.is_deepspeed_enabled and self.args.deepspeed_plugin.zero_stage == 3

    # 2. score -----------------------------------------------------------------------------------------------

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        started = time.perf_counter()
        problems = [self.problems[row["problem_id"]] for row in inputs]
        answers = [completion_of(ids, self._token_bytes, self.task, self._end_ids) for ids in completion_ids_list]
        grades = self._loop.run(self.reward.grade(problems, answers))
        scores = torch.tensor(
            [[torch.nan if g is None else g.results[name].score for name in self.reward.channels] for g in grades],
            device=self.accelerator.device,
        )
        scores = gather(scores)
        rewards = scores @ self.reward_weights.to(scores.device)  # NaN where any channel did not grade
        self._rollout = Rollout(problems, answers, grades, rewards)
        self._note("seconds/grade", time.perf_counter() - started)
        passed = [float("nan") if g is None or g.passed is None else float(g.passed) for g in grades]
        self._note("pass_rate", torch.nanmean(gather(torch.tensor(passed, device=scores.device))).item())
        for name in measured(grades):
            values = [torch.nan if g is None else g.measures.get(name, torch.nan) for g in grades]
            self._note(name, torch.nanmean(gather(torch.tensor(values, device=scores.device))).item())
        self._note("ungraded", float(rewards.isnan().sum()))
        cut = torch.tensor([float(not c.finished) for c in answers], device=scores.device)
        self._note("truncated", gather(cut).mean().item())
        return scores

    # 3. advantages ------------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        rollout, self._rollout = self._rollout, None
        assert rollout is not None  # _calculate_rewards has just set it
        by_group = rollout.rewards.view(-1, self.num_generations)
        degenerate = degenerate_groups(by_group)
        self._note("groups", float(len(by_group)))
        self._note("degenerate_groups", float(degenerate.sum()))
        local = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        graded = ~rollout.rewards.isnan()
        batch["learns"] = (graded & ~degenerate.repeat_interleave(self.num_generations))[local]
        if self.reward.placement == "dense" and self.shaping:
            batch["advantages"] = batch["advantages"][:, None] + self.shaping * self._shaping(batch, rollout)[local]
        self._log_completions(rollout, batch["advantages"])
        return batch

    def _shaping(self, batch, rollout: Rollout) -> torch.Tensor:
        """Each token's own reward minus its group's mean over tokens, scaled as advantages are: (all B, T)."""
        width = batch["completion_ids"].shape[1]
        own = torch.zeros(len(rollout.grades), self.max_completion_length, device=rollout.rewards.device)
        for row, grade in enumerate(rollout.grades):
            if grade is not None:
                own[row, : len(grade.token_rewards)] = torch.tensor(grade.token_rewards, device=own.device)
        own, lengths = gather(own), gather(batch["completion_mask"].sum(1))
        lengths = lengths * ~rollout.rewards.isnan()  # what was not graded is no part of the mean
        group_tokens = lengths.view(-1, self.num_generations).sum(1).clamp(min=1)
        group_mean = own.sum(1).view(-1, self.num_generations).sum(1) / group_tokens
        own = own - group_mean.repeat_interleave(self.num_generations)[:, None]
        rewards_by_group = rollout.rewards.view(-1, self.num_generations)
        if self.scale_rewards == "group":
            own = own / (nanstd_rows(rewards_by_group).repeat_interleave(self.num_generations)[:, None] + 1e-4)
        elif self.scale_rewards == "batch":
            own = own / (nanstd_rows(rewards_by_group.view(1, -1)) + 1e-4)
        return own[:, :width]

    def _log_completions(self, rollout: Rollout, advantages: torch.Tensor) -> None:
        rows = gather_object(rollout_rows(rollout, advantages, self.state.global_step + 1, self.run_log.per_step))
        if self.accelerator.is_main_process:
            self.run_log.completions(rows)

    # 4. degenerate groups -----------------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch):
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
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
        logps, entropies = packed_logps(
            model, input_ids, attention_mask, logits_to_keep, self.temperature, compute_entropy
        )
        return logps, entropies, None

    # checkpoints --------------------------------------------------------------------------------------------

    def extra_state(self) -> dict[str, Any]:
        """The step within a rollout, and the rollout where it is half used."""
        every = self.args.steps_per_generation * self.num_iterations
        return {"step": self._step, "inputs": self._buffered_inputs if self._step % every else None}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self._step, self._buffered_inputs = state["step"], state["inputs"]

    def _note(self, name: str, value: float) -> None:
        self._metrics["train" if self.model.training else "eval"][name].append(value)


def _column(name: str):
    def column(**kwargs):
        raise RuntimeError("channels are asked together, in _calculate_rewards")

    column.__name__ = name
    return column


def degenerate_groups(rewards: torch.Tensor) -> torch.Tensor:
    """Which groups teach nothing: (N, G) rewards to (N,) booleans; NaN is a sample without a grade.

    True where the graded rewards are all equal or fewer than two samples are graded.
    """
    low = rewards.nan_to_num(nan=torch.inf).min(1).values
    high = rewards.nan_to_num(nan=-torch.inf).max(1).values
    return ~(high - low > 1e-6)


def nanstd_rows(rewards: torch.Tensor) -> torch.Tensor:
    """Sample standard deviation of each row's graded rewards, (N, G) to (N,)."""
    graded = ~rewards.isnan()
    count = graded.sum(1)
    mean = rewards.nansum(1) / count.clamp(min=1)
    square = ((rewards - mean[:, None]).nan_to_num() ** 2 * graded).sum(1)
    return (square / (count - 1).clamp(min=1)).sqrt()
