"""Training that cannot fit into memory is refused before the model loads."""

from __future__ import annotations

from omegaconf import DictConfig

from envs.task import Task
from recipes.support.main import UserError


def refuse_impossible(cfg: DictConfig, task: Task) -> None:
    """Raise UserError where the plan says that the run does not fit; `force` overrides it.

    Says nothing where how the model is built is not known on this machine.
    """
    if cfg.force:
        return
    from recipes.support.advice import sentence
    from recipes.support.lengths import lengths_of
    from recipes.support.planning import UnknownModel, plan_of

    try:
        lengths = lengths_of(cfg, task)
        plan = plan_of(cfg, lengths)
    except UnknownModel:
        return
    if plan.over:
        raise UserError(f"{sentence(cfg, plan, lengths)}; force=true trains all the same")
