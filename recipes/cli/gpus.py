"""The GPUs of this machine against a hardware profile, and the profile that fits them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipes.cli.errors import UserError
from recipes.cli.memory_use import GIB
from recipes.cli.overrides import key_of
from recipes.cli.schema import CONF

log = logging.getLogger("codegrain")
AMPERE = (8, 0)
"""The compute capability from which on CUDA computes in bf16 at full speed; a T4 has 7.5."""
WORTH_BF16 = 20
"""GiB of a GPU that computes in bf16 from which on a profile in bf16 is named beside the one that fits."""
ROUNDED = 0.3
"""GiB by which cards of the same name differ."""


def check_gpus(hardware: DictConfig) -> None:
    """Raise UserError where this machine's GPUs are too few, have less memory than the profile says, or no bf16."""
    import torch

    there = torch.cuda.device_count()
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) or max(1, hardware.num_processes // hardware.num_machines)
    if there == 0:
        other = "hardware=cpu" if hardware.num_processes == 1 else "hardware=cpu, or hardware=cpux2 for two processes"
        needs = f"hardware={hardware.name}" + (" hardware.device=cuda" if hardware.name.startswith("cpu") else "")
        raise UserError(f"{needs} needs a GPU and none is visible; use {other}")
    if there < here:
        raise UserError(
            f"hardware={hardware.name} needs {here} GPUs on this machine and {there} are visible; "
            f"set hardware.num_processes={there}"
        )
    name, memory = torch.cuda.get_device_name(0), _least_memory(here)
    if hardware.memory_gib is not None and hardware.memory_gib > memory + ROUNDED:
        raise UserError(
            f"hardware.memory_gib={hardware.memory_gib:g} and {name} has {memory:.1f} GiB: set "
            f"hardware.memory_gib={int(memory * 10) / 10:g}, and recipes/plan.py says what fits"
        )
    if hardware.precision == "bf16" and not _computes_in_bf16():
        raise UserError(f"hardware.precision=bf16 and {name} has no bf16: set hardware.precision=fp16")


def name_idle_gpu(hardware: DictConfig, overrides: Sequence[str]) -> None:
    """Say which profile fits where a GPU is visible, the profile is one of a CPU, and nobody has asked for it.

    The profile named is the largest of this machine's size, by GPUs and then by their memory; beside it, for a card
    that computes in bf16, one that does, with the memory that there is.
    """
    if hardware.device != "cpu" or any(key_of(override) == "hardware" for override in overrides):
        return
    import torch

    visible = torch.cuda.device_count()
    if not visible:
        return
    log.info(
        "%s is visible and idle: this run uses the CPU (hardware=%s). %s; add hardware=%s to hide this line",
        torch.cuda.get_device_name(0) if visible == 1 else f"{visible} GPUs, {torch.cuda.get_device_name(0)},",
        hardware.name,
        _advice(visible, _least_memory(visible)),
        hardware.name,
    )


def _advice(visible: int, memory: float) -> str:
    """memory: GiB of the smallest GPU."""
    bf16, profiles = _computes_in_bf16(), []
    for file in sorted((Path(CONF) / "hardware").glob("*.yaml")):
        profile: Any = OmegaConf.load(file)
        size = profile.get("memory_gib")
        usable = profile.device == "cuda" and profile.num_machines == 1 and profile.num_processes <= visible
        if usable and size and profile.zero_stage < 3 and (bf16 or profile.precision != "bf16"):
            profiles.append((profile.num_processes, size, file.stem, profile.precision))
    fitting = [profile for profile in profiles if profile[1] <= memory + ROUNDED]
    named = f"hardware={max(fitting)[2]} trains on it" if fitting else "choose a profile of conf/hardware"
    wide = [(-count, size, stem) for count, size, stem, precision in profiles if precision == "bf16"]
    if wide and memory >= WORTH_BF16 and (not fitting or max(fitting)[3] != "bf16"):
        smaller = f"hardware={min(wide)[2]} hardware.memory_gib={int(memory * 10) / 10:g}"
        named += f", and {smaller} does in bf16 where recipes/plan.py says that it fits"
    return named


def _least_memory(count: int) -> float:
    """GiB of the smallest of the first `count` GPUs."""
    import torch

    return min(torch.cuda.get_device_properties(i).total_memory for i in range(count)) / GIB


def _computes_in_bf16() -> bool:
    import torch

    return torch.cuda.get_device_capability(0) >= AMPERE
