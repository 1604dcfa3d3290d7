"""What useless answers earn: `python -m rewards.audit task=NAME [overrides]`.

    python -m rewards.audit task=humaneval
    python -m rewards.audit task=mbpp task.env.path=mbpp.jsonl audit.problems=200

Grades, by the task's own reward, answers that take no work (nothing, comments, copies, constants, the examples shown
hard-coded, early exits), references with one operator or constant changed, and the references. Prints a table of shares
of the maximum reward, and one JSON object in the last line. A task is named whose best useless answer earns more than a
fifth of the maximum reward, or more than an honest wrong answer. The settings are in conf/audit.yaml.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import hydra
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from envs.task import Split, Task, TaskError
from rewards.audit.measure import Audit, audit, sampled
from rewards.build import made, task_reward
from rewards.compose import Reward

CONF = str(Path(__file__).parents[2] / "conf")
SPLITS: tuple[Split, ...] = ("train", "test")
"""Where problems come from if audit.split is null: training's, or held-out ones where the data has no others."""


def configuration(overrides: Sequence[str]) -> Any:
    """conf/audit.yaml with `overrides`. Raises TaskError with one line."""
    store = ConfigStore.instance()
    for group in ("model", "hardware", "task", "reward"):  # types are the recipes' matter: here any key is taken
        store.store(group=group, name="schema", node={})
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            return hydra.compose("audit", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ or error
        raise TaskError(" ".join(str(cause).split())) from error


def run(overrides: Sequence[str]) -> Audit:
    """The audit of a configuration. Raises TaskError for settings or data that cannot be used."""
    cfg = configuration(overrides)
    if type(cfg.audit.problems) is not int or cfg.audit.problems < 1:
        raise TaskError(f"audit.problems={cfg.audit.problems}: it must be a whole number, 1 or more")
    if cfg.audit.split not in (None, *get_args(Split)):
        raise TaskError(f"audit.split={cfg.audit.split}: choose {', '.join(get_args(Split))}, or null")
    task: Task = made(cfg.task.env, "task.env")
    sandbox = made(cfg.sandbox, "sandbox")
    reward = task_reward(cfg.task.reward, bool(cfg.task.get("mean_reward")), "sparse", sandbox)
    splits = (cfg.audit.split,) if cfg.audit.split else SPLITS
    split, problems = sampled(task, splits, cfg.audit.problems, cfg.seed)
    print(f"{task.name}: {len(problems)} problems of {split}, seed {cfg.seed}", file=sys.stderr)
    return asyncio.run(_audit(reward, task, problems, cfg.seed, sandbox))


async def _audit(reward: Reward, task: Task, problems: Any, seed: int, sandbox: Any) -> Audit:
    try:
        await reward.ready(problems)
        return await audit(reward, task, problems, seed)
    finally:
        await sandbox.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table and the summary; status 2 for settings or data that cannot be used."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"-h", "--help"} & set(given):
        print(__doc__)
        return 0
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # data on this machine; the hub's would be streamed for each audit
    try:
        result = run(given)
    except (TaskError, ValueError, RuntimeError, OSError) as error:
        print(f"rewards.audit: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(result.table())
    for complaint in result.complaints:
        print(f"{result.task}: {complaint}")
    print(json.dumps(result.row()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
