"""What a recipe answers to --help and to --cfg job: its groups with their choices, and every key as composed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

from recipes.cli.overrides import compose, is_override
from recipes.cli.schema import CONF

WIDTH, INDENT = 120, 16
GROUPS = {
    "task": "problems, prompts, reward channels and their weights",
    "reward": "on which tokens rewards lie, never their sum",
    "episode": "answers of several turns",
    "value": "PPO's estimate of values",
    "model": "the policy and its LoRA",
    "hardware": "processes, precision, rows in one pass",
    "sandbox": "where programs run, and their limits",
    "etk_prompt": "the prompt of task=etk",
    "+experiment": "a whole set-up",
    "+debug": "a quick trial",
}
"""Groups to choose from, as they are written on a command line, and what each sets. The script chooses `recipe`; its
name and the task's choose `tuned`."""
PRINTS = {"--cfg", "-c", "--resolve"}
WORDS = """\
KEY=VALUE changes one number; +recipe.trl.FIELD=VALUE passes on any other field of TRL's.
--cfg job prints every key with its value, after the other arguments; --cfg job --resolve with ${...} filled in.
-m runs a sweep: -m seed=0,1,2 reward=dense,sparse. --hydra-help lists Hydra's own flags."""


def help_text(about: str) -> str:
    """What --help prints. about: the recipe's docstring."""
    lines = [about.strip(), "", "GROUP=CHOICE, one for each group:", ""]
    for group, meaning in GROUPS.items():
        choices = textwrap.wrap(", ".join(choices_of(group.lstrip("+"))), WIDTH - INDENT)
        lines += [f"  {group + '=':<{INDENT - 2}}{meaning}", *(" " * INDENT + line for line in choices)]
    return "\n".join([*lines, "", WORDS])


def choices_of(group: str) -> list[str]:
    """The names of a group's files."""
    return sorted(file.stem for file in (Path(CONF) / group).glob("*.yaml"))


def asks_for_config(given: Sequence[str]) -> bool:
    """Whether the arguments ask for the run's configuration and for nothing that is Hydra's own."""
    flags = [argument for argument in given if not is_override(argument) and argument != "job"]
    return bool({"--cfg", "-c"} & {*flags}) and "job" in given and {*flags} <= PRINTS


def config_text(overrides: Sequence[str], given: Sequence[str]) -> str:
    """The run's configuration as YAML, with run.name as the run has it. Raises UserError."""
    return OmegaConf.to_yaml(compose(overrides), resolve="--resolve" in given)
