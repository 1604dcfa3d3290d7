"""Training that cannot fit into memory is refused before the model loads."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

from envs.task import Task
from recipes.support.main import UserError


def plan_or_refuse(cfg: DictConfig, task: Task) -> dict[str, Any] | None:
    """The plan of the run's memory; None where how the model is built is not known on this machine.

    Plan.as_dict, and `keeps_freed`: whether there is room to keep what passes free (heap.py); None but on a CPU.

    Raises UserError where it says that the run does not fit, unless `force` is set.
    """
    from recipes.support.advice import sentence
    from recipes.support.holdings import UnknownModel
    from recipes.support.lengths import lengths_of
    from recipes.support.planning import plan_of

    try:
        lengths = lengths_of(cfg, task)
        plan = plan_of(cfg, lengths)
    except UnknownModel:
        return None
    if plan.over and not cfg.force:
        raise UserError(f"{sentence(cfg, plan, lengths)}; force=true trains all the same")
    return plan.as_dict() | {"keeps_freed": plan.roomy if cfg.hardware.device == "cpu" else None}
