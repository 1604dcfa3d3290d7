"""The base of DensePPOTrainer: TRL's PPOTrainer where TRL has one (up to 1.12), else ours with the same arguments."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from packaging.version import Version

TRL_HAS_PPO = Version(version("trl")) < Version("1.13")

if TYPE_CHECKING or not TRL_HAS_PPO:
    from recipes.trainers.own_ppo import PPOConfig, PPOTrainer
else:
    from trl.experimental.ppo import PPOConfig, PPOTrainer

__all__ = ["TRL_HAS_PPO", "PPOConfig", "PPOTrainer"]
