"""What a run holds in memory from its configuration: its models, their weights and optimizer states, in bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from recipes.support.build import as_dict
from recipes.support.lengths import Lengths
from recipes.support.machine import memory_budget
from recipes.support.main import UserError
from recipes.support.memory import GIB, Spread, Trained
from recipes.support.models import DTYPES, adapter_folder, carries_adapter
from recipes.support.network import Network, find_facts

ONLINE = ("ppo", "reinforce", "grpo")
OFFLINE = ("sft", "dpo")
BY_TRL = ("grpo", "sft", "dpo")
JUDGE = "rewards.judge.Judge"
PROCESS = {"cpu": 0.60 * GIB, "cuda": 0.55 * GIB}
"""Of a CPU measured, everything imported and a trainer built (tests/bench/README.md); CUDA's context not."""
VLLM_SHARE = 0.3
"""Of the device, what vLLM reserves where TRL's vllm_gpu_memory_utilization does not say."""


class UnknownModel(UserError):
    """Nothing on this machine says how the model is built."""


@dataclass(frozen=True)
class Holdings:
    """What one process's device holds of a run, beside what passes make and give back."""

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
