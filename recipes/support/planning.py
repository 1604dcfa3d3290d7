"""How much memory a run will take, phase by phase, from its configuration: nothing is loaded.

Weights are counted, passes are traced (recipes/support/passes.py), what is alive in which phase follows the trainers:

- PPO and REINFORCE sample all completions of a step at once, grade them, read them again for log-probabilities, update;
  the sampling copy and the optimizer's states stay from the first step on.
- GRPO grades while it samples, and with lookahead samples while it updates.
- Evaluation samples from a copy of its own, beside the trainer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from omegaconf import DictConfig

from recipes.support import passes
from recipes.support.build import as_dict
from recipes.support.lengths import Lengths, lengths_of
from recipes.support.machine import memory_budget
from recipes.support.main import UserError
from recipes.support.memory import GIB, Parts, Plan, Spread, Trained, added, fuller
from recipes.support.models import DTYPES, adapter_folder, carries_adapter
from recipes.support.network import Network, find_facts, local_folder
from recipes.support.passes import Batch
from recipes.support.tracing import Peak, total

ONLINE = ("ppo", "reinforce", "grpo")
OFFLINE = ("sft", "dpo")
BY_TRL = ("grpo", "sft", "dpo")
JUDGE = "rewards.judge.Judge"
PROCESS = {"cpu": 0.60 * GIB, "cuda": 0.55 * GIB}
"""Of a CPU measured, everything imported and a trainer built (tests/bench/README.md); CUDA's context not."""
SLACK = {"cpu": (0.0, 1.0), "cuda": (0.05, 0.05)}
"""Of what passes make and give back, blocks that fit nothing later: a share of all, and one of logits, whose blocks are
the largest. With recipes/support/console.py's settings of the C library they do not come back to where they were, so a
second set of them is held (measured); of CUDA's allocator, not measured."""


VLLM_SHARE = 0.3
"""Of the device, what vLLM reserves where TRL's vllm_gpu_memory_utilization does not say."""


class UnknownModel(UserError):
    """Nothing on this machine says how the model is built."""


def plan_of(cfg: DictConfig, lengths: Lengths | None = None) -> Plan:
    """The plan of the run that `cfg` describes; `lengths` of its prompts where they are known already.

    Raises:
        UnknownModel: the policy's or the judge's architecture is not known here.
        UserError: the length of the task's prompts is not known here.
    """
    planner = Planner(cfg, lengths or lengths_of(cfg))
    return Plan(planner.phases(), planner.budget, planner.notes())


@dataclass(frozen=True)
class Planner:
    """The parts of each phase of one run, in bytes, on one process's device."""

    cfg: Any
    lengths: Lengths

    # what there is ----------------------------------------------------------------------------------------------

    @cached_property
    def name(self) -> str:
        return self.cfg.recipe.name

    @cached_property
    def precision(self) -> torch.dtype:
        return DTYPES[self.cfg.hardware.precision]

    @cached_property
    def autocast(self) -> torch.dtype | None:
        return None if self.precision == torch.float32 else self.precision

    @cached_property
    def budget(self) -> float | None:
        return memory_budget(self.cfg.hardware)

    @cached_property
    def world(self) -> int:
        return self.cfg.hardware.num_processes if self.trains else 1

    @cached_property
    def spread(self) -> Spread:
        stage = as_dict(self.cfg.hardware).get("zero_stage") or 0
        return Spread(stage if self.world > 1 else 0, self.world)

    @cached_property
    def trains(self) -> bool:
        return self.name in ONLINE + OFFLINE

    @cached_property
    def rank(self) -> int:
        """Of the adapter: the one that the run starts from, or a new one."""
        if carries_adapter(self.cfg):
            return json.loads((adapter_folder(self.cfg.adapter) / "adapter_config.json").read_text())["r"]
        return self.cfg.model.lora_rank if self.trains else 0

    @cached_property
    def policy(self) -> Network:
        hardware, model = self.cfg.hardware, self.cfg.model
        facts = find_facts(model.path, model.scratch)
        if facts is None:
            raise UnknownModel(
                f"nothing here says how model.path={model.path} is built: set model.path to a local folder, or write "
                "its architecture into conf/model/"
            )
        full = not self.rank and (self.trains or not model.lora_rank)
        halved = hardware.load_in_4bit and (self.name in BY_TRL or hardware.precision == "bf16")
        return Network(
            facts=facts,
            dtype=torch.float32 if full and not hardware.load_in_4bit else self.precision,
            trained=full and self.trains,
            four_bit=hardware.load_in_4bit,
            lora_rank=self.rank,
            lora_targets=model.lora_targets,
            adapter_dtype=torch.bfloat16 if halved else torch.float32,  # as TRL casts adapters of a 4-bit model
            checkpointing=hardware.gradient_checkpointing and self.trains,
            flash=self.flash,
        )

    @cached_property
    def flash(self) -> bool:
        """Whether the device has flash attention: fp16 is for GPUs that do not know bf16, and those have not."""
        return not (self.cfg.hardware.device == "cuda" and self.cfg.hardware.precision == "fp16")

    @cached_property
    def critic(self) -> Network | None:
        """A critic's own backbone."""
        if self.name != "ppo" or self.cfg.value.name != "separate" or self.cfg.recipe.ratio != "token":
            return None
        return replace(self.policy, head=False)

    @cached_property
    def copies(self) -> bool:
        """Whether sampling takes a merged copy."""
        return self.cfg.hardware.sampling_copy and not self.policy.four_bit and self.spread.stage < 3

    @cached_property
    def copy(self) -> Network:
        return Network(self.policy.facts, self.precision, flash=self.flash)

    @cached_property
    def judge(self) -> tuple[Network, dict[str, Any]] | None:
        """A channel that asks a model on this device."""
        for spec in as_dict(self.cfg.task.reward).values():
            if spec and spec.get("_target_") == JUDGE and spec.get("device", "cpu") == self.cfg.hardware.device:
                facts = find_facts(spec["path"])
                if facts is None:
                    raise UnknownModel(f"nothing here says how the judge {spec['path']} is built: name a local folder")
                dtype = DTYPES[spec.get("precision", "fp32")]
                return Network(facts, dtype, four_bit=spec.get("load_in_4bit", False), flash=self.flash), spec
        return None

    # bytes that stay --------------------------------------------------------------------------------------------

    def weights(self, network: Network) -> float:
        element = network.dtype.itemsize
        return self.spread.weights(network.architecture.weight_bytes(element, network.four_bit), element)

    def adapters(self, network: Network) -> float:
        return network.architecture.adapters(network.lora_rank) * network.adapter_dtype.itemsize

    @cached_property
    def stays(self) -> dict[str, float]:
        """What lies in memory from loading to the end, without what training adds."""
        policy = self.policy
        parts = {"process": PROCESS[self.cfg.hardware.device], "weights": self.weights(policy)}
        if policy.lora_rank:
            parts["adapters"] = self.adapters(policy)
        if self.critic:
            parts["critic"] = self.weights(self.critic) + self.adapters(self.critic)
        if self.refers and policy.trained:
            parts["reference"] = self.weights(policy)
        elif self.refers and carries_adapter(self.cfg):
            parts["reference"] = self.adapters(policy)
        if self.judge:
            parts["judge"] = self.weights(self.judge[0])
        if self.trains and self.cfg.hardware.vllm == "colocate":
            parts["vLLM"] = self.cfg.recipe.trl.get("vllm_gpu_memory_utilization", VLLM_SHARE) * (self.budget or 0.0)
        return parts

    @cached_property
    def refers(self) -> bool:
        """Whether there is a reference policy."""
        r = self.cfg.recipe
        if self.name in ("ppo", "reinforce"):
            return bool(r.kl.coef)
        return self.name == "dpo" or (self.name == "grpo" and bool(r.beta))

    @cached_property
    def trained(self) -> list[Trained]:
        """The policy's and the critic's weights that an optimizer moves."""
        found = []
        for network in (self.policy, self.critic):
            if network is not None:
                a, rank = network.architecture, network.lora_rank
                weights, largest = (a.adapters(rank), rank * a.adapter) if rank else (a.parameters, a.largest)
                element = network.adapter_dtype.itemsize if rank else network.dtype.itemsize
                hardware = self.cfg.hardware
                found.append(Trained(weights, largest, element, hardware.optimizer, hardware.device == "cuda"))
        return found

    @cached_property
    def training(self) -> dict[str, float]:
        """What stays from the first step on."""
        parts = {**self.stays, "optimizer": sum(self.spread.states(t) for t in self.trained)}
        if self.name in ONLINE and (self.copies or self.lookahead) and not self.cfg.hardware.vllm:
            parts["sampling copy"] = self.weights(self.copy)
        return parts

    @cached_property
    def lookahead(self) -> bool:
        return self.name == "grpo" and bool(self.cfg.recipe.lookahead)

    # bytes that come and go -------------------------------------------------------------------------------------

    def passing(self, peak: Peak, network: Network | None = None, cache: float = 0.0) -> dict[str, float]:
        """A traced peak as parts: the cache apart, one unpacked matrix of a 4-bit model, the allocator's slack."""
        parts = {part: size for part, size in peak.items() if size > 0}
        if network is not None and network.four_bit:
            parts["casts"] = parts.get("casts", 0.0) + network.architecture.matrix * network.dtype.itemsize
        if cache:
            parts["KV cache"] = cache
            parts["activations"] = max(0.0, parts.get("activations", 0.0) - cache)
        of_all, of_logits = SLACK[self.cfg.hardware.device]
        parts["slack"] = of_all * total(parts) + of_logits * parts.get("logits", 0.0)
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
