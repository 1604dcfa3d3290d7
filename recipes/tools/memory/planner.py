"""How much memory a run will take, phase by phase, from its configuration: nothing is loaded.

Weights are counted, activations are traced (trace.py), what is alive in which phase follows the trainers:

- PPO and REINFORCE sample all completions of a step at once, grade them, read them again for log-probabilities, update;
  the sampling copy and the optimizer's states stay from the first step on. A critic of its own has steps of its own, so
  one model's gradients are there at a time.
- GRPO grades while it samples, and with lookahead samples while it updates.
- Evaluation samples from a copy of its own, beside the trainer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from omegaconf import DictConfig

from envs.task import Task
from recipes.cli.errors import UserError
from recipes.cli.memory_use import GIB
from recipes.cli.schema import as_dict
from recipes.models.load import DTYPES, sampling_dtype
from recipes.tools.memory import quantities
from recipes.tools.memory.contents import BY_TRL, OFFLINE, ONLINE, has_critic, has_frozen_copy, judge_of, policy_of
from recipes.tools.memory.network import Network, local_folder
from recipes.tools.memory.prompt_lengths import (
    Count,
    Evaluated,
    Lengths,
    counter,
    longest_demonstration,
    longest_prompt,
    row_tokens,
)
from recipes.tools.memory.quantities import FLOAT32, Parts, Plan, Zero, added, fuller
from recipes.tools.memory.trace import Batch, traced
from recipes.trainers.log_probs import CHUNK
from recipes.trainers.packing import ALIGNED

PROCESS = {"cpu": 0.60 * GIB, "cuda": 0.55 * GIB}
"""Bytes of a process without models. On a CPU it was measured with all modules imported and a trainer built
(tests/bench/README.md). For CUDA it is an estimate of the context; on an H100 loading took up to 0.4 GiB more than
planned (tests/bench/results/gpu.md)."""
SLACK = {"cpu": 0.0, "cuda": 0.05}
"""Share of the memory that passes allocate and free which the allocator cannot use again. On a CPU it was measured
where freed memory is given back (recipes/cli/memory_use.py). For CUDA's allocator it is an estimate: on an H100 the
fullest phase took 0.75 to 1.06 of the plan."""
PASSING = ("casts", "activations", "KV cache", "logits")
VLLM_SHARE = 0.3
"""Of the device, what vLLM reserves where TRL's vllm_gpu_memory_utilization does not say."""
JUDGE_TOKENS = 128
"""Tokens that a judge reads beside the code: the question, fences, the chat form."""
LOGIT_LEARNT, LOGIT_KEPT, LOGIT_BY_TRL = 20, 4, 13
"""Bytes for each logit of a pass with gradients, whatever the dtype of the products: at its peak (LEARNT), kept
between forward and backward pass (KEPT), and in TRL's own pass (BY_TRL: SFT, DPO, GRPO in padded rows; 12 to 16)."""
LOGIT_OF_ENTROPY = 4
"""Further bytes where the loss has an entropy bonus: for each logit kept, and where the pass is TRL's own."""
LOGIT_READ, LOGIT_DRAWN = 10, 16
"""Bytes for each logit of a pass without gradients, and of a token that is drawn."""


def plan_of(cfg: DictConfig, lengths: Lengths) -> Plan:
    """The plan of the run that `cfg` describes, with prompts of those `lengths`.

    Raises:
        UnknownModel: the policy's or the judge's architecture is not known here.
        UserError: the recipe loads no model.
    """
    planner, share = Planner(cfg, lengths), SLACK[cfg.hardware.device]
    phases = planner.phases()
    for phase, parts in phases.items():
        phases[phase] = added(parts, {"slack": share * sum(parts.get(part, 0.0) for part in PASSING)})
    return Plan(phases, planner.budget, lengths.notes)


def lengths_of(cfg: DictConfig, task: Task | None, others: Sequence[Any] = ()) -> Lengths:
    """Lengths by `task.prompt_tokens`, else counted in the problems of `task`, which may be None where that is set.

    others: tasks of task.also_evaluate (recipes/run/build.py's OtherTask), which are sampled by their own settings.
    """
    answer, recipe = cfg.task.max_new_tokens, cfg.recipe.name
    if tokens := cfg.task.prompt_tokens:
        return Lengths(tokens, tokens, answer, None, (f"prompts of {tokens} tokens (task.prompt_tokens)",))
    assert task is not None
    count, how = counter(cfg.model.path)
    trains_on = task.problems("train")
    train = longest_prompt(task, trains_on, count)
    if recipe == "sft":
        train, answer = longest_demonstration(task, trains_on, count)
    tested = trains_on if recipe in ("pairs", "check") else task.problems(cfg.evaluation.split)
    test = longest_prompt(task, tested, count)
    note = f"prompts of up to {max(train, test)} tokens, {how}"
    also = tuple(_evaluated(cfg, other.task, other.cfg.evaluation, count) for other in others)
    return Lengths(train or test, test or train, answer, len(tested), (note,), also)


def _evaluated(cfg: DictConfig, task: Task, settings: DictConfig, count: Count) -> Evaluated:
    problems = task.problems(cfg.evaluation.split)
    samples = 1 if settings.greedy else settings.samples  # stages.py decodes it greedily where its settings say so
    return Evaluated(longest_prompt(task, problems, count), settings.max_new_tokens, samples, len(problems))


class Planner:
    """The parts of each phase of one run, in bytes, on one process's device."""

    def __init__(self, cfg: DictConfig, lengths: Lengths):
        hardware, precision = cfg.hardware, DTYPES[cfg.hardware.precision]
        self.cfg, self.lengths, self.name, self.device = cfg, lengths, cfg.recipe.name, hardware.device
        self.budget = quantities.memory_budget(hardware.memory_gib, self.device, hardware.num_processes)
        self.policy, self.judge = policy_of(cfg), judge_of(as_dict(cfg.task.reward), self.device)
        self.autocast = None if precision == torch.float32 else precision
        self.merged = Network(self.policy.config, precision)
        self.copies = sampling_dtype(hardware) is not None
        self.lookahead = self.name == "grpo" and bool(cfg.recipe.lookahead)
        self.trains = self.name in ONLINE + OFFLINE
        self.processes = hardware.num_processes if self.trains else 1
        self.zero = Zero(hardware.zero_stage if self.processes > 1 else 0, self.processes)

    def phases(self) -> dict[str, Parts]:
        """The phases of the recipe in their order."""
        if self.name == "check" and not self.cfg.pass_rate:
            raise UserError("recipes/check.py loads no model without pass_rate: nothing to plan")
        phases: dict[str, Parts] = {"load": {**self.loaded, **self.reading_files()}}
        if not self.trains:
            return phases | {"evaluation" if self.name == "eval" else "rollout": self.evaluation()}
        beside: Parts = {}
        if self.name in ONLINE:
            beside = self.rollout()
            if self.judge and self.name == "grpo":  # answers are graded while others are sampled
                beside = added(beside, self.grading())
            phases["rollout"] = added(self.training, beside)
            if self.judge and self.name != "grpo":
                phases["grading"] = added(self.training, self.grading())
        before, update = self.learning()
        if before:
            phases["log-probabilities"] = added(self.training, before)
        phases["update"] = added(self.training, update, beside if self.lookahead else {})
        settings = self.cfg.evaluation
        own = (settings.samples or settings.greedy) and self.lengths.test_problems != 0
        if own or self.lengths.others:
            phases["evaluation"] = self.evaluation()
        return phases

    # what stays -------------------------------------------------------------------------------------------------

    @cached_property
    def loaded(self) -> Parts:
        """What lies in memory from loading to the end, without what training adds."""
        policy = self.weights(self.policy)
        parts = {"process": PROCESS[self.device], "weights": policy, "adapters": float(FLOAT32 * self.policy.adapters)}
        if has_critic(self.cfg):
            parts["critic"] = policy + parts["adapters"]
        if has_frozen_copy(self.cfg.recipe, self.policy):
            parts["reference"] = policy
        if self.judge:
            parts["judge"] = self.weights(self.judge[0])
        if self.trains and self.cfg.hardware.vllm == "colocate":
            share = self.cfg.recipe.trl.get("vllm_gpu_memory_utilization", VLLM_SHARE)
            parts["vLLM"] = share * (self.budget or 0.0)
        return parts

    @cached_property
    def training(self) -> Parts:
        """What stays from the first step on."""
        optimizer = self.cfg.hardware.optimizer
        states = self.zero.states(quantities.optimizer_states(self.trained, optimizer), self.trained)
        parts = {**self.loaded, "optimizer": states * self.optimizers}
        if self.name in ONLINE and (self.copies or self.lookahead) and not self.cfg.hardware.vllm:
            parts["sampling copy"] = self.weights(self.merged)
        return parts

    @cached_property
    def trained(self) -> int:
        """Weights of the policy that an optimizer moves; a critic of its own has as many."""
        return self.policy.adapters or self.policy.parameters

    @property
    def optimizers(self) -> int:
        """Models that are trained."""
        return 2 if has_critic(self.cfg) else 1

    def weights(self, network: Network) -> float:
        """Bytes of a network's weights on this device, without adapters."""
        return self.zero.weights(network.weight_bytes, network.dtype.itemsize)

    def reading_files(self) -> Parts:
        """Pages of the weights' files, which count as the process's own on a CPU while they are read; files in the
        weights' own dtype are the weights' memory themselves."""
        folder = local_folder(self.cfg.model.path)
        if folder is None or self.device != "cpu":
            return {}
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        same_dtype = abs(size / self.policy.parameters - self.policy.dtype.itemsize) < 0.1
        return {} if same_dtype else {"files": float(size)}

    # what comes and goes ----------------------------------------------------------------------------------------

    @cached_property
    def group(self) -> int:
        """Completions of a prompt."""
        recipe = self.cfg.recipe
        return recipe.trl.num_generations if self.name == "grpo" else recipe.samples_per_prompt

    @cached_property
    def rows(self) -> int:
        """Completions of a step in one process."""
        return max(1, self.cfg.recipe.prompts_per_step * self.group // self.processes)

    @cached_property
    def completion(self) -> int:
        """Tokens of the longest completion that is trained on; of an episode, all turns and replies."""
        trl = self.cfg.recipe.trl
        return row_tokens(self.cfg, trl.max_completion_length if self.name == "grpo" else trl.response_length)

    def rollout(self) -> Parts:
        """Sampling of a step's completions, or of as many as are sampled together."""
        if self.cfg.hardware.vllm:
            return {}
        rows, group = self.rows, self.group
        if self.name == "grpo" and self.cfg.hardware.rollout_rows:
            rows = min(rows, self.cfg.hardware.rollout_rows)
        prompts = rows // group if rows % group == 0 else rows
        lengths = (self.lengths.train, self.completion)
        if self.copies or self.lookahead:
            return self.sampling(self.merged, prompts, rows, lengths, None)
        return added(self.gathered(), self.sampling(self.policy, prompts, rows, lengths, self.autocast))

    @cached_property
    def before_last(self) -> int:
        """Tokens of an episode before its last turn: while it plays, its cache is kept as rows end their turns; 0
        without episodes."""
        episode = self.cfg.episode
        return 0 if episode is None else row_tokens(self.cfg, self.cfg.task.max_new_tokens, episode.turns - 1)

    def gathered(self) -> Parts:
        """All weights beside this process's part, which ZeRO-3 brings together to sample (TRL's
        unwrap_model_for_generation)."""
        return {"gathered weights": float(self.policy.weight_bytes)} if self.zero.stage == 3 else {}

    def sampling(
        self, network: Network, prompts: int, rows: int, lengths: tuple[int, int], autocast: torch.dtype | None
    ) -> Parts:
        """`rows` completions of some prompts: while these are read, or while the last token is drawn, when the cache of
        keys and values is longest. lengths: tokens of a prompt, and of a completion."""
        prompt, completion = lengths
        reading = traced(network, padded(prompts, prompt), autocast, cached=True)
        # keys have the dtype of the weights, values that of the products
        token = network.cache / 2 * (network.dtype.itemsize + (autocast or network.dtype).itemsize)
        read = prompts * prompt * token
        drawing = {
            "casts": reading.kept["casts"],
            "KV cache": rows
            * max(prompt + completion - 1, 2 * (prompt + self.before_last) if self.before_last else 0)
            * token,
            "logits": float(rows * network.shape.vocab_size * LOGIT_DRAWN),
        }
        activations = reading.fullest["activations"] - read
        return fuller({**reading.fullest, "activations": activations, "KV cache": read}, drawing)

    def grading(self) -> Parts:
        """What the judge's passes take."""
        assert self.judge is not None
        network, channel = self.judge
        rows, code, mode = channel.get("rows", 8), channel.get("code_tokens", 400), channel.get("mode", "likelihood")
        reading = traced(network, padded(rows, 2 * code + JUDGE_TOKENS), cached=mode == "number")
        logits = (code + 1 if mode == "likelihood" else 1) * network.shape.vocab_size
        # those of all rows in the judge's dtype, those of one row in float32
        judging = {**reading.kept, "logits": float(logits * (rows * network.dtype.itemsize + FLOAT32))}
        return fuller(judging, reading.fullest)

    def learning(self) -> tuple[Parts, Parts]:
        """The fullest pass before the update, empty where there is none, and the update."""
        if self.name in OFFLINE:
            return {}, self.learning_offline()
        trl, by_grpo = self.cfg.recipe.trl, self.name == "grpo"
        each = self.rows if by_grpo else self.rows // trl.num_mini_batches
        rows = min(each, self.cfg.hardware.rows_per_device)
        batch, learnt, read = self.grpo_batch(rows) if by_grpo else self.ppo_batch(rows)
        update = self.update(batch, learnt, each > rows)
        if by_grpo and not trl.beta and trl.num_iterations == 1:
            return {}, update
        reading = traced(self.policy, batch, self.autocast)
        return fuller({**reading.kept, "logits": read * self.policy.shape.vocab_size}, reading.fullest), update

    def learning_offline(self) -> Parts:
        """An update of SFT, with logits of a chunk of the answer, or of DPO, with all of both answers."""
        recipe = self.cfg.recipe
        each = max(1, recipe.batch_size // self.processes)
        rows = min(each, self.cfg.hardware.rows_per_device)
        answer = self.lengths.answer
        if self.name == "sft" and recipe.answers:  # the policy's own, and an episode's conversations
            answer = max(answer, row_tokens(self.cfg, self.cfg.task.max_new_tokens))
        tokens = self.lengths.train + answer
        tokens = tokens if recipe.trl.max_length is None else min(recipe.trl.max_length, tokens)
        if self.name == "dpo":
            return self.update(padded(2 * rows, tokens), LOGIT_BY_TRL * 2 * rows * tokens, each > rows)
        chunk = min(CHUNK, rows * min(tokens, answer))
        batches = [padded(rows, tokens)]
        as_trl = self.zero.stage == 3 or recipe.trl.get("neftune_noise_alpha") or recipe.trl.get("loss_type") == "dft"
        if self.device != "cpu" and rows > 1 and not as_trl:
            batches.append(one_row(rows * tokens))  # examples that begin alike (recipes/trainers/sft_dpo.py)
        return fuller(*(self.update(batch, LOGIT_BY_TRL * chunk, each > rows) for batch in batches))

    def grpo_batch(self, rows: int) -> tuple[Batch, int, int]:
        """A pass of so many completions, and bytes of logits for each entry of the vocabulary: learnt from, read."""
        prompt, tokens, trl = self.lengths.train, rows * self.completion, self.cfg.recipe.trl
        bonus = LOGIT_OF_ENTROPY * bool(trl.get("entropy_coef") or trl.get("use_adaptive_entropy"))
        longest = prompt + min(rows, self.group) * self.completion
        if longest > self.cfg.recipe.packing_max_tokens or self.cfg.hardware.zero_stage == 3:
            return padded(rows, prompt + self.completion), (LOGIT_BY_TRL + bonus) * tokens, LOGIT_READ * tokens
        batch = self.packed(rows)
        at_once = tokens if batch.forwards == 1 else min(rows, self.group) * self.completion
        if chunk := min(self.cfg.hardware.logits_at_once, at_once):
            return batch, LOGIT_LEARNT * chunk, LOGIT_READ * chunk
        earlier = (LOGIT_KEPT + bonus) * (tokens - at_once)
        return batch, LOGIT_LEARNT * at_once + earlier, LOGIT_READ * at_once

    def ppo_batch(self, rows: int) -> tuple[Batch, int, int]:
        """As `grpo_batch`, with logits of a chunk at a time."""
        batch, chunk = self.packed(rows), min(CHUNK, rows * self.completion)
        if batch.tokens > self.cfg.recipe.packing_max_tokens:
            batch = Batch(rows, self.lengths.train + self.completion)
        return batch, LOGIT_LEARNT * chunk, LOGIT_READ * chunk

    def packed(self, rows: int) -> Batch:
        """Completions of a prompt behind it in one row: on a CPU one prompt after the other, else a batch of them."""
        group = min(rows, self.group)
        prompts, tokens = -(-rows // group), self.lengths.train + group * self.completion
        if self.device == "cpu":
            return Batch(1, tokens, prompts, (1, 1, tokens, tokens) if group > 1 else None)
        tokens += -tokens % ALIGNED if group > 1 else 0
        return Batch(prompts, tokens, mask=(prompts, 1, tokens, tokens) if group > 1 else None)

    def update(self, batch: Batch, logits: int, several: bool) -> Parts:
        """The fullest moment of an update in passes of `batch`: with its logits, in the backward pass, or in the step
        of the optimizer.

        logits: bytes for each entry of the vocabulary. several: gradients of earlier passes are there.
        """
        gradients = {"gradients": float(FLOAT32 * self.trained)}
        step = quantities.optimizer_step(self.trained, self.cfg.hardware.optimizer, self.device)
        sums = self.zero.gradient_sums(self.trained, self.device) * self.optimizers
        learning, size = traced(self.policy, batch, self.autocast, learns=True), logits * self.policy.shape.vocab_size
        fullest = fuller(
            {**learning.kept, "logits": float(size), **(gradients if several else {})},
            {**learning.fullest, **gradients},
            {**gradients, "optimizer": step / (self.processes if self.zero.stage else 1)},
        )
        return added(fullest, {"gradients": sums})

    def evaluation(self) -> Parts:
        """The evaluation at the end, or the sampling of a recipe that does not train."""
        settings, base = self.cfg.evaluation, self.training if self.trains else self.loaded
        if self.cfg.hardware.vllm == "server":
            return added(base, self.grading() if self.judge else {})
        network, autocast = self.policy, None
        if self.copies:
            network, base = self.merged, added(base, {"sampling copy": self.weights(self.merged)})
        elif self.name in BY_TRL:
            autocast = self.autocast  # accelerate's wrapping stays on the model
        samples = [settings.samples] * bool(settings.samples) + [1] * bool(settings.greedy)
        if self.name in ("pairs", "check"):
            samples = [self.cfg.recipe.samples_per_prompt if self.name == "pairs" else self.cfg.pass_rate]
        own = self.lengths.test, row_tokens(self.cfg, settings.max_new_tokens), self.lengths.test_problems
        evaluations = [Evaluated(own[0], own[1], each, own[2]) for each in samples]
        moments: list[Parts] = [self.grading()] if self.judge else [{}]
        for each in (*evaluations, *(self.lengths.others if self.trains else ())):
            together = min(each.samples, self.cfg.hardware.eval_rows)  # no more answers of a problem are drawn at once
            problems = max(1, self.cfg.hardware.eval_rows // together)
            problems = min(problems, each.problems or problems)
            lengths, rows = (each.prompt, each.answer), problems * together
            moments.append(added(self.gathered(), self.sampling(network, problems, rows, lengths, autocast)))
        return added(base, fuller(*moments))


def padded(rows: int, tokens: int) -> Batch:
    """Rows under a mask of their padding."""
    return Batch(rows, tokens, mask=(rows, tokens))


def one_row(tokens: int) -> Batch:
    """Several examples in one row, under a mask of what each of its tokens sees."""
    tokens += -tokens % ALIGNED
    return Batch(1, tokens, mask=(1, 1, tokens, tokens))
