"""How much memory a run will take, phase by phase, from its configuration: nothing is loaded.

Weights are counted, passes are traced (recipes/support/passes.py), what is alive in which phase follows the trainers:

- PPO and REINFORCE sample all completions of a step at once, grade them, read them again for log-probabilities, update;
  the sampling copy and the optimizer's states stay from the first step on.
- GRPO grades while it samples, and with lookahead samples while it updates.
- Evaluation samples from a copy of its own, beside the trainer's.
"""

from __future__ import annotations

from functools import cached_property

import torch
from omegaconf import DictConfig

from recipes.support import passes
from recipes.support.holdings import BY_TRL, OFFLINE, ONLINE, Holdings
from recipes.support.lengths import Lengths, lengths_of
from recipes.support.main import UserError
from recipes.support.memory import Parts, Plan, added, fuller
from recipes.support.network import Network, local_folder
from recipes.support.passes import Batch
from recipes.support.tracing import Peak, total

SLACK = {"cpu": 0.0, "cuda": 0.05}
"""Of what passes make and give back, the share of blocks that fit nothing later. Measured on a CPU whose freed memory
goes back (heap.py); of CUDA's allocator not measured."""


def plan_of(cfg: DictConfig, lengths: Lengths | None = None) -> Plan:
    """The plan of the run that `cfg` describes; `lengths` of its prompts where they are known already.

    Raises:
        UnknownModel: the policy's or the judge's architecture is not known here.
        UserError: the length of the task's prompts is not known here.
    """
    planner = Planner(cfg, lengths or lengths_of(cfg))
    return Plan(planner.phases(), planner.budget, planner.notes())


class Planner(Holdings):
    """The parts of each phase of one run, in bytes, on one process's device."""

    # bytes that come and go -------------------------------------------------------------------------------------

    def passing(self, peak: Peak, network: Network | None = None, cache: float = 0.0) -> dict[str, float]:
        """A traced peak as parts: the cache apart, one unpacked matrix of a 4-bit model, the allocator's slack."""
        parts = {part: size for part, size in peak.items() if size > 0}
        if network is not None and network.four_bit:
            parts["casts"] = parts.get("casts", 0.0) + network.architecture.matrix * network.dtype.itemsize
        if cache:
            parts["KV cache"] = cache
            parts["activations"] = max(0.0, parts.get("activations", 0.0) - cache)
        parts["slack"] = SLACK[self.cfg.hardware.device] * total(parts)
        return parts

    def sampling(
        self, network: Network, batch: Batch, autocast: torch.dtype | None, top_p: float, grouped: bool
    ) -> Parts:
        peak = passes.sampled(network, batch, autocast, top_p, grouped)
        # under autocast or in a model that is not float32, keys and values have the products' dtype
        element = (autocast or network.dtype).itemsize
        tokens = batch.prompts * batch.group * (batch.prompt + batch.completion - 1)
        return self.passing(peak, network, network.architecture.cache_bytes(tokens, element))

    def rollout(self) -> Parts:
        """Sampling of a step's completions, or of as many as are sampled together."""
        if self.cfg.hardware.vllm:
            return {}
        r, rows, group = self.cfg.recipe, self.rows, self.group
        at_once = rows
        if self.name == "grpo" and self.cfg.hardware.rollout_rows:
            at_once = min(rows, self.cfg.hardware.rollout_rows)
            group = group if at_once % group == 0 else 1
        batch = Batch(at_once, group, self.lengths.train, r.max_new_tokens)
        if self.copies or self.lookahead:
            return self.sampling(self.copy, batch, None, r.top_p, True)
        return self.sampling(self.policy, batch, self.autocast, r.top_p, True)

    @cached_property
    def group(self) -> int:
        r = self.cfg.recipe
        return r.num_generations if self.name == "grpo" else r.samples_per_prompt

    @cached_property
    def rows(self) -> int:
        """Completions of a step in one process."""
        return max(1, self.cfg.recipe.prompts_per_step * self.group // self.world)

    def grading(self) -> Parts:
        """What the judge's passes take."""
        assert self.judge is not None
        network, spec = self.judge
        code = spec.get("code_tokens", 400)
        said = 2 * code + passes.JUDGE_WORDS
        mode = spec.get("mode", "likelihood")
        read = code + 1 if mode == "likelihood" else 1
        peak = passes.judged(network, spec.get("rows", 8), said, read, replies=mode == "number")
        return self.passing(peak, network)

    def update_passes(self) -> tuple[Parts, Parts]:
        """The fullest pass before the update and that of the update."""
        if self.name == "grpo":
            return self._grpo()
        if self.name in OFFLINE:
            return {}, self._offline()
        return self._ppo()

    def _ppo(self) -> tuple[Parts, Parts]:
        r, per_pass = self.cfg.recipe, self.cfg.hardware.rows_per_device
        policy, critic = self.policy, self.critic

        def batch(rows: int) -> Batch:
            return Batch(min(rows, per_pass), self.group, self.lengths.train, r.max_new_tokens, r.packing_max_tokens)

        at_once = self.rows // r.get("mini_batches", 1)
        held, on_policy = at_once > per_pass, self.name == "ppo" and r.ratio == "token" and critic is None
        update: Parts = self.passing(passes.ppo_update(policy, batch(at_once), self.autocast, on_policy, held), policy)
        before = self.passing(passes.ppo_logps(policy, batch(self.rows), self.autocast), policy)
        if critic:
            own = passes.ppo_update(critic, batch(at_once), self.autocast, True, held)
            update = fuller(update, self.passing(own, critic))
        return before, update

    def _grpo(self) -> tuple[Parts, Parts]:
        r, hardware = self.cfg.recipe, self.cfg.hardware
        rows, sizes = hardware.rows_per_device, (self.group, self.lengths.train, r.max_new_tokens)
        batch = Batch(rows, *sizes, r.packing_max_tokens, hardware.logits_at_once)
        update = passes.grpo_pass(self.policy, batch, self.autocast, True, self.rows > rows)
        again = self.refers or r.num_iterations > 1
        before = self.passing(passes.grpo_pass(self.policy, batch, self.autocast, False), self.policy) if again else {}
        return before, self.passing(update, self.policy)

    def _offline(self) -> Parts:
        r = self.cfg.recipe
        each = max(1, r.batch_size // self.world)
        rows, policy = min(self.cfg.hardware.rows_per_device, each), self.policy
        tokens = min(r.max_length, self.lengths.train + self.lengths.answer)
        if self.name == "dpo":
            peak = passes.dpo_update(policy, rows, tokens, self.autocast, each > rows)
        else:
            answer = min(tokens, self.lengths.answer)
            peak = passes.sft_update(policy, rows, tokens, answer, self.autocast, each > rows)
        return self.passing(peak, policy)

    def evaluation(self) -> Parts:
        """The evaluation at the end: of a copy made beside the trainer's, problems and samples together."""
        e, base = self.cfg.evaluation, self.training if self.trains else self.stays
        if self.copies:
            policy = self.policy.architecture.weight_bytes(self.policy.dtype.itemsize) + self.adapters(self.policy)
            making = added(base, {"sampling copy": policy})
            base = added(base, {"sampling copy": self.weights(self.copy)})
        else:
            making = base
        moments = [making]
        kinds = [(e.samples, e.top_p)] * bool(e.samples) + [(1, 1.0)] * bool(e.greedy)
        if self.name in ("pairs", "check"):
            kinds = [(self.cfg.recipe.samples_per_prompt if self.name == "pairs" else self.cfg.pass_rate, 1.0)]
        for samples, top_p in kinds:
            problems = max(1, self.cfg.hardware.eval_rows // samples)
            if self.lengths.test_problems is not None:
                problems = min(problems, self.lengths.test_problems)
            batch = Batch(problems * samples, samples, self.lengths.test, e.max_new_tokens)
            if self.copies:
                moments.append(added(base, self.sampling(self.copy, batch, None, top_p, True)))
            else:
                wrapped = self.autocast if self.name in BY_TRL else None  # accelerate's wrapping stays on the model
                moments.append(added(base, self.sampling(self.policy, batch, wrapped, top_p, False)))
        if self.judge:
            moments.append(added(base, self.grading()))
        return fuller(*moments)

    def reading(self) -> Parts:
        """Pages of the weights' files, which count as the process's own on a CPU; files in the weights' own dtype are
        the weights' memory themselves."""
        folder = local_folder(self.cfg.model.path)
        if folder is None or self.cfg.hardware.device != "cpu":
            return {}
        files = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        mapped = abs(files / self.policy.architecture.parameters - self.policy.dtype.itemsize) < 0.1
        return {} if mapped else {"files": float(files)}

    # phases -----------------------------------------------------------------------------------------------------

    def phases(self) -> dict[str, Parts]:
        """Of the recipe, in their order."""
        found: dict[str, Parts] = {"load": {**self.stays, **self.reading()}}
        if self.trains:
            found |= self._training_phases()
        if self.name == "check" and not self.cfg.pass_rate:
            raise UserError("recipes/check.py loads no model without pass_rate: nothing to plan")
        e = self.cfg.evaluation
        if not self.trains or ((e.samples or e.greedy) and self.lengths.test_problems != 0):
            found["evaluation" if self.trains or self.name == "eval" else "rollout"] = self.evaluation()
        return found

    def _training_phases(self) -> dict[str, Parts]:
        found: dict[str, Parts] = {}
        base = self.training
        before, update = self.update_passes()
        beside: Parts = {}
        if self.name in ONLINE:
            beside = self.rollout()
            if self.name == "grpo" and self.judge:  # answers are graded while others are sampled
                beside = added(beside, self.grading())
            found["rollout"] = added(base, beside)
            if self.name != "grpo" and self.judge:
                found["grading"] = added(base, self.grading())
        if before:
            found["log-probabilities"] = added(base, before)
        held = {"gradients": sum(self.spread.gradients(t, self.cfg.hardware.device == "cuda") for t in self.trained)}
        step = {
            "gradients": float(max(t.gradients for t in self.trained)),
            "optimizer": max(t.passing for t in self.trained) / (self.world if self.spread.stage else 1),
        }
        moments = [added(base, held, update), added(base, held, step)]
        found["update"] = fuller(*(added(m, beside) if self.lookahead else m for m in moments))
        return found

    def notes(self) -> tuple[str, ...]:
        """What the plan takes for granted."""
        return self.lengths.notes
