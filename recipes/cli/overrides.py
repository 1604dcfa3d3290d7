"""Overrides of the command line: the configuration they compose, errors in one line, and the name of the run."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.cli.errors import UserError
from recipes.cli.ranges import RANGES, check_ranges
from recipes.cli.schema import CONF, as_dict

OF_ANY_NAME = ("recipe", "task", "experiment", "force")
"""Keys whose values are in a run's path, or in the name that an experiment's file gives it; `force` changes no run."""
IN_NAME = ("model.name", "reward.name", "seed")
"""What conf/config.yaml puts into a run's name."""
LENGTH_AND_LOGGING = tuple(
    f"recipe.trl.{field}" for field in ("max_steps", "save_steps", "save_total_limit", "logging_steps", "report_to")
)
"""Keys that may change when a training run resumes in its directory."""
INTERPOLATION = re.compile(r"\$\{([\w.]+)\}")
NO_CHOICE = re.compile(r"Could not find '([^']+)/([^'/]+)' Available options in '[^']+': (.*?)(?: Config search|$)")
NOT_CHOSEN = re.compile(r"You must specify '([^']+)', e\.g,? .*?Available options: (.*)$")
NO_KEY = re.compile(r"Key '[^']*' (?:is not in struct|not in '[^']*') full_key: (\S+)")
NO_OVERRIDE = re.compile(r"Error parsing override '([^']*)'")
UNREADABLE = re.compile(r"LexerNoViableAltException|mismatched input|extraneous input|no viable alternative")
WRONG_TYPE = re.compile(r"Error merging override \+*([\w.]+)=(.*?) / ")
SHAPES = {"evaluation.k": "a list of numbers, such as [1,8]"}
NO_GROUP = re.compile(r"Could not override '(\w+)'")
WHERE_TO_CHOOSE = {
    "value": "only PPO has a critic (recipes/ppo.py); leave it out",
    "etk_prompt": "only task=etk has a choice of prompts; leave it out",
    "episode": "answers have one turn; set episode=repair too",
}
"""Groups that not every command has, and what to do about it."""
MISSING = re.compile(r"Missing mandatory value: \S+ full_key: (\S+)")
FULL_KEY = re.compile(r" full_key: (\S+)(?: (?:reference|object)_type=\S+)*")


def is_override(argument: str) -> bool:
    """Whether a command-line argument is KEY=VALUE, or ~KEY, and no flag."""
    return ("=" in argument or argument.startswith("~")) and not argument.startswith("-")


def without_group(argument: str) -> str:
    """`episode=null`, which Hydra writes ~episode."""
    return "~episode" if argument in ("episode=null", "episode=None") else argument


def key_of(override: str) -> str:
    """The key that an override sets, without + or ~."""
    return override.lstrip("+~").split("=")[0]


def sets(override: str, key: str) -> bool:
    """Whether an override sets `key` or a key below it."""
    return f"{key_of(override)}.".startswith(f"{key}.")


@contextmanager
def _over_conf() -> Iterator[None]:
    """Hydra initialised with conf/, also inside a job that Hydra runs."""
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = outer


def compose(overrides: Sequence[str]) -> DictConfig:
    """The configuration, with run.name set. Raises UserError with one line, where Hydra's own error takes several."""
    if own := next((o for o in overrides if o.lstrip("+").startswith("tuned=")), None):
        raise UserError(
            f"{own}: the names of recipe and task choose the file of conf/tuned/; set the numbers that it holds instead"
        )
    try:
        with _over_conf():
            cfg = hydra.compose("config", [without_group(override) for override in overrides])
        check_added(cfg, overrides)
        name_run(cfg, [without_group(override) for override in overrides])
        OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
        check_ranges(cfg)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(one_line(error, overrides)) from error
    return cfg


def one_line(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra's error in one line: which choice or key does not exist, and which may have been meant."""
    messages: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(" ".join(str(cause).split()))
        cause = cause.__cause__
    return _where_to_look(_plain_message(" / ".join(dict.fromkeys(messages)), overrides), overrides)


def _where_to_look(message: str, overrides: Sequence[str]) -> str:
    name = next((o.split("=")[1] for o in overrides if o.startswith("recipe=")), "grpo")
    return f"{message} (recipes/{name}.py --help lists the choices, --cfg job the keys)"


def check_added(cfg: DictConfig, overrides: Sequence[str], groups: Container[str] = ()) -> None:
    """Raise UserError for a key that + adds where a schema has no such key: nothing would read it. Hydra looks at keys
    without + alone.

    groups: known beside those of conf/, as from a folder of Hydra's --config-dir.
    """
    for override in (o for o in overrides if o.startswith("+")):
        key = key_of(override)
        if key in WHERE_TO_CHOOSE:
            raise UserError(_where_to_look(f"{override}: write {override.lstrip('+')}", overrides))
        chooses = key in groups or "/" in key or (Path(CONF) / key.partition("@")[0]).is_dir()
        if not chooses and not key.startswith("hydra") and (unknown := _unknown(cfg, key)):
            others = [o for o in overrides if not sets(o, unknown)]
            raise UserError(_where_to_look(f"there is no {unknown}{_instead_of(unknown, others)}", overrides))


def _unknown(cfg: DictConfig, key: str) -> str:
    """As much of a dotted key as no schema has; empty where each part stands in one, or below a mapping that takes any
    key, such as task.env."""
    names, node = key.split("."), cfg
    for end, name in enumerate(names, 1):
        kind: Any = OmegaConf.get_type(node)
        if name not in {known.name for known in fields(kind)}:
            return ".".join(names[:end])
        if not is_dataclass(OmegaConf.get_type(node, name)):
            return key if end == 1 < len(names) and name in WHERE_TO_CHOOSE else ""
        node = node[name]
    return ""


def _plain_message(message: str, overrides: Sequence[str]) -> str:
    if choice := NO_CHOICE.search(message):
        group, name, known = choice.groups()
        return f"there is no {group}={name}{_similar(name, _choices(known))}"
    if group := NOT_CHOSEN.search(message):
        return f"{group[1]}= is missing; there are {', '.join(_choices(group[2]))}"
    if key := NO_KEY.search(message):
        if not any(sets(o, key[1]) for o in overrides) and (brought := _brought(overrides)):
            return f"{brought} sets {key[1]}, which this recipe does not have: it is for another recipe"
        return f"there is no {key[1]}{_instead_of(key[1], [o for o in overrides if not sets(o, key[1])])}"
    if taken := next((o for o in overrides if "=_target_:" in o), None):  # {_target_:A,weight:1} without quotes
        return f"'{key_of(taken)}={{...}}' must stand in single quotes: the shell took the braces apart"
    if wrong_type := WRONG_TYPE.search(message):
        shape = "true or false" if "is not a valid bool" in message else SHAPES.get(wrong_type[1], "")
        expected = RANGES.get(wrong_type[1], (shape, None))[0]
        if expected:
            return f"{wrong_type[1]}={wrong_type[2]}: it must be {expected}"
    if home := next((o for o in overrides if "=~" in o and o.split("=~")[0] in message), None):
        return f"'{home}': no shell writes out a ~ behind =; give the whole path"
    if UNREADABLE.search(message) and (odd := next((o for o in overrides if not _readable(o)), None)):
        name, _, value = odd.partition("=")
        return f"'{odd}' cannot be read: write '{name}=\"{value}\"', with quotes for the shell and for Hydra"
    if (group := NO_GROUP.search(message)) and not (group[1] == "value" and "recipe=ppo" in overrides):
        if not any(key_of(o) == group[1] for o in overrides) and (brought := _brought(overrides)):
            where = "a critic, so it is for recipes/ppo.py" if group[1] == "value" else f"{group[1]}=, of another task"
            return f"{brought} has {where}"
        return f"{group[1]}=: {WHERE_TO_CHOOSE.get(group[1], f'write +{group[1]}=')}"
    if missing := MISSING.search(message):
        return f"{missing[1]} must be given: {missing[1]}=VALUE"
    if unreadable := NO_OVERRIDE.search(message):
        return f"'{unreadable[1]}' is not KEY=VALUE, as task=basics is"
    key = FULL_KEY.search(message)
    message = FULL_KEY.sub("", message)
    return message if key is None or key[1] in message else f"{key[1]}: {message}"


def _readable(override: str) -> bool:
    """Whether Hydra's grammar has a text of the form KEY=VALUE."""
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return False
    return True


def _brought(overrides: Sequence[str]) -> str:
    """What brings settings of its own: experiments and the like."""
    return " ".join(o for o in overrides if o.startswith(("+experiment=", "+debug=")))


def _choices(known: str) -> list[str]:
    """The choices of a group that Hydra lists, without the schemas that stand beside them."""
    return [name for name in known.split() if not name.endswith("schema")]


def _similar(name: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: the known names that are similar, else all of them."""
    close = difflib.get_close_matches(name, known, 3)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(known)}" if known else ""


def _instead_of(key: str, overrides: Sequence[str]) -> str:
    """The end of a message about an unknown key: keys of its group with the same or a similar name, at any depth; for
    one without a group, of all groups."""
    place, _, name = key.rpartition(".")
    try:
        with _over_conf():
            cfg = hydra.compose("config", list(overrides))
    except (HydraException, OmegaConfBaseException, ValueError):
        return ""
    group = key.split(".")[0]
    if group in WHERE_TO_CHOOSE and cfg.get(group) is None:
        return f": {WHERE_TO_CHOOSE[group]}"
    groups = [group] if place else list(map(str, cfg))
    known = [*groups, *(key for g in groups if not OmegaConf.is_missing(cfg, g) for key in _keys_below(cfg.get(g), g))]
    names_of_keys = [other.rpartition(".")[2] for other in known]
    similar = [name] if name in names_of_keys else difflib.get_close_matches(name, names_of_keys, 2)
    meant = [other for last in similar for other in known if other.rpartition(".")[2] == last]
    node = OmegaConf.select(cfg, place) if place else None
    listed = f"; there are {', '.join(map(str, node))}" if isinstance(node, DictConfig) else ""
    add = f"; +{key}=VALUE passes it on to TRL" if place == "recipe.trl" and not meant else ""
    add = f"; +{key}={{...}} adds a channel" if place == "task.reward" and not meant else add
    return (f"; did you mean {' or '.join(meant)}?" if meant else listed) + add


def _keys_below(node: Any, prefix: str) -> Iterator[str]:
    """All keys below a node of the configuration, dotted, at any depth."""
    if isinstance(node, DictConfig):
        for name in map(str, node):
            yield f"{prefix}.{name}"
            if not OmegaConf.is_missing(node, name) and not OmegaConf.is_interpolation(node, name):
                yield from _keys_below(node[name], f"{prefix}.{name}")


def name_run(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Set run.name where no override does. A name that a file of conf/ gives as it is (debug/fast.yaml) stays, but for
    what a sweep varies.

    The file may replace what is in its own directory alone: a directory or name of the user's is resumed.
    """
    if cfg.run.if_exists == "replace" and not _gives(overrides, "if_exists"):
        cfg.run.if_exists = "resume" if _gives(overrides, "dir") or _gives(overrides, "name") else "replace"
    if not _gives(overrides, "name"):
        interpolated = INTERPOLATION.findall(str(as_dict(cfg.run, resolve=False)["name"]))
        naming = overrides if interpolated else [o for o in overrides if key_of(o) in cfg.run.swept]
        cfg.run.name = run_name(cfg.run.name, naming, cfg.run.swept, interpolated)


def _gives(overrides: Sequence[str], name: str) -> bool:
    """Whether an override sets a field of `run`, also as run={...}."""
    return any(key_of(o) == f"run.{name}" or (key_of(o) == "run" and f"{name}:" in o) for o in overrides)


def run_name(base: str, overrides: Sequence[str], swept: Sequence[str] = (), in_name: Sequence[str] = IN_NAME) -> str:
    """`base` and the overrides that make it another run, so that different settings get different directories.

    swept: keys that a sweep varies.
    in_name: keys whose values are in `base` already and are not repeated; model.name stands for the choice model=NAME.
    """
    same_run = (
        ("run.", "sandbox")
        if {"recipe=eval", "recipe=check"} & {*overrides}
        else ("run.", "sandbox", "evaluation", *LENGTH_AND_LOGGING)
    )
    in_base = {*OF_ANY_NAME, *(key.removesuffix(".name") for key in in_name)}
    brought = any(key_of(o) == "experiment" for o in overrides)
    rest = [
        o
        for o in overrides
        if (o != "~episode" or brought)
        and key_of(o) not in in_base
        and (key_of(o) in swept or not key_of(o).startswith(same_run))
    ]
    return f"{base}-{folder_name(rest)}" if rest else base


def folder_name(overrides: Sequence[str]) -> str:
    """A name for a folder made of overrides, at most 100 characters long."""
    text = "_".join(sorted(o for o in overrides if not o.startswith(("recipe=", "run.", "hydra"))))
    text = text.replace("=-", "=minus")
    name = re.sub(r"[^\w.]+", "-", text).strip("-")  # no "=": the path may be a value on a command line
    return name if len(name) <= 100 else f"{name[:90]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
