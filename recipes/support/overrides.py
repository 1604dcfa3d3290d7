"""What a command line says: its overrides composed or refused in one line, and the name of the run they make."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.support.console import UserError

CONF = str(Path(__file__).parents[2] / "conf")
IN_BASE_NAME = ("recipe", "task", "model", "reward", "seed", "experiment", "force")
"""What conf/config.yaml or an experiment's file puts into a run's name or path itself; `force` makes no other run."""
MORE_OF_THE_SAME = ("recipe.max_steps", "recipe.save_steps", "recipe.report_to", "evaluation")
"""Overrides with which a training run goes on in its directory."""
NO_CHOICE = re.compile(r"Could not find '([^']+)/([^'/]+)' Available options in '[^']+': (.*?)(?: Config search|$)")
NO_KEY = re.compile(r"Key '[^']*' (?:is not in struct|not in '[^']*') full_key: (\S+)")
NO_OVERRIDE = re.compile(r"Error parsing override '([^']*)'")
WHERE = re.compile(r" full_key: (\S+)(?: (?:reference|object)_type=\S+)*")


def is_override(argument: str) -> bool:
    return "=" in argument and not argument.startswith("-")


def key_of(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def names(override: str, key: str) -> bool:
    """Whether it sets `key` or something in it."""
    return f"{key_of(override)}.".startswith(f"{key}.")


@contextmanager
def _over_conf() -> Iterator[None]:
    """Hydra over conf/, also within a job that Hydra runs."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def compose(overrides: Sequence[str]) -> DictConfig:
    """The configuration, its run named. Raises UserError: Hydra's own report of a misspelt key takes several lines."""
    try:
        with _over_conf():
            cfg = hydra.compose("config", list(overrides))
        name_run(cfg, overrides)
        OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(one_line(error, overrides)) from error
    return cfg


def one_line(error: Exception, overrides: Sequence[str]) -> str:
    """What Hydra says in several: which choice or key there is not, and what it may have been meant to be."""
    messages: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(" ".join(str(cause).split()))
        cause = cause.__cause__
    said = _meaning(" / ".join(dict.fromkeys(messages)), overrides)
    return f"{said} (--help lists the choices, --cfg job the keys)"


def _meaning(said: str, overrides: Sequence[str]) -> str:
    if choice := NO_CHOICE.search(said):
        group, name, given = choice.groups()
        return f"there is no {group}={name}{_meant(name, [c for c in given.split() if not c.endswith('schema')])}"
    if key := NO_KEY.search(said):
        place, _, name = key[1].rpartition(".")
        return f"there is no {key[1]}{_meant(name, _keys_of(place, [o for o in overrides if not names(o, key[1])]))}"
    if unreadable := NO_OVERRIDE.search(said):
        return f"'{unreadable[1]}' is not KEY=VALUE, as task=basics is"
    where = WHERE.search(said)
    said = WHERE.sub("", said)
    return said if where is None or where[1] in said else f"{where[1]}: {said}"


def _meant(given: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, known, 3)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(known)}" if known else ""


def _keys_of(place: str, overrides: Sequence[str]) -> list[str]:
    """The keys of a node of the configuration, "" for its root; none where the rest cannot be composed either."""
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            cfg = hydra.compose("config", list(overrides))
    except (HydraException, OmegaConfBaseException, ValueError):
        return []
    return list(map(str, OmegaConf.select(cfg, place) if place else cfg))


def name_run(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Set run.name where the overrides do not."""
    if not any(key_of(o) == "run.name" for o in overrides):
        cfg.run.name = run_name(cfg.run.name, overrides, cfg.run.swept)


def run_name(base: str, overrides: Sequence[str], swept: Sequence[str] = ()) -> str:
    """`base` and the overrides that make it another run, so that no two settings share a directory.

    `swept`: keys that a sweep varies. An experiment's name need not have the model or the reward in it.
    """
    same_run = ("run.", "sandbox", *(() if "recipe=eval" in overrides else MORE_OF_THE_SAME))
    keys = set(map(key_of, overrides))
    in_base = {*IN_BASE_NAME} - ({*swept} & {"model", "reward"} if "experiment" in keys else set())
    rest = [
        o for o in overrides if key_of(o) not in in_base and (key_of(o) in swept or not key_of(o).startswith(same_run))
    ]
    return f"{base}-{folder_name(rest)}" if rest else base


def folder_name(overrides: Sequence[str]) -> str:
    """A name for a folder from overrides."""
    said = "_".join(sorted(o for o in overrides if not o.startswith(("recipe=", "run.", "hydra"))))
    name = re.sub(r"[^\w.]+", "-", said).strip("-")  # no "=": the path must do as a value on a command line
    return name if len(name) <= 100 else f"{name[:90]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
