"""A sweep: each job is a command of its own, with its own processes and directory; at the end one table and one page.

The folder of the sweep holds jobs/ (a record each), Hydra's multirun.yaml, and sweep.csv and sweep.html, which
recipes/table.py writes. A job that fails stops no other.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.lock import hold
from recipes.cli.overrides import compose, folder_name, is_override, key_of, name_run, one_line
from recipes.cli.places import require_writable
from recipes.cli.processes import STOPPED, Interrupted, run_group
from recipes.cli.schema import CONF

CAPITAL = re.compile("=(True|False)$")
"""Hydra writes true as True."""


def sweep(script: str, choice: str, given: Sequence[str], hydra_main: Callable[[Callable], None]) -> int:
    """Run each job of `script` and write their comparison; returns 0 where every job succeeded, else 1.

    choice: the override that names the recipe. given: the other arguments. Raises UserError where a job's configuration
    cannot be composed, where two jobs share a directory, or where another sweep runs in the same folder.
    """
    overrides = [choice, *filter(is_override, given)]
    swept, written = swept_keys(overrides)
    chosen = [o.split("=", 1)[1].strip("'\"") for o in overrides if key_of(o) == "hydra.sweep.dir"]
    folder = Path(*chosen or ["runs", choice.removeprefix("recipe="), "sweeps", folder_name(overrides)])
    flags = [a for a in given if not is_override(a)]
    sys.argv[1:] = ["-m", *flags, *overrides, f"hydra.sweep.dir='{folder}'", f"run.swept=[{','.join(swept)}]"]
    # a job that one of Hydra's launchers starts on another machine finds this repository by PYTHONPATH
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(CONF).parent), os.environ.get("PYTHONPATH")]))
    require_writable(f"hydra.sweep.dir={folder}", folder)
    try:
        (folder / "jobs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"hydra.sweep.dir={folder} cannot be written ({error.strerror}); set hydra.sweep.dir"
        ) from error
    hold(folder, "hydra.sweep.dir")  # another sweep's records would be removed, and its table would lack them
    for record in (folder / "jobs").glob("[0-9]*.json"):  # of an earlier start
        record.unlink()
    status = 0
    try:
        hydra_main(job_of(script, flags, written))
    except (Interrupted, KeyboardInterrupt) as error:
        status = (isinstance(error, Interrupted) and error.status) or STOPPED
        print("stopped; run the same command again for the remaining jobs", file=sys.stderr)
    (folder / "swept.json").write_text(json.dumps(swept), encoding="utf-8")
    table = [sys.executable, str(Path(CONF).parent / "recipes" / "table.py"), f"sweep={folder}"]
    return subprocess.run(table).returncode or status


def _check_launcher(overrides: Sequence[str]) -> None:
    """Raise UserError where a launcher of Hydra's is not installed: before there is a folder."""
    named = [o.split("=", 1)[1] for o in overrides if key_of(o) == "hydra/launcher"]
    there = GlobalHydra.instance().config_loader().get_group_options("hydra/launcher")
    for launcher in named:
        if launcher not in there:
            extra = launcher.split("_")[0]
            known = extra in ("submitit", "ray")
            remedy = f'pip install -e ".[{extra}]"' if known else f"there are {', '.join(there)}"
            raise UserError(f"hydra/launcher={launcher} is not installed: {remedy}")


def swept_keys(overrides: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The keys that a sweep varies, and what was written of the overrides that Hydra writes otherwise.

    Raises UserError where a job cannot be composed or two share a directory.
    """
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            _check_launcher(overrides)
            jobs, swept, written = jobs_of(overrides)
    except HydraException as error:
        raise UserError(one_line(error, overrides)) from error
    folders: dict[str, str] = {}
    for job in jobs:
        cfg = compose([*job, f"run.swept=[{','.join(swept)}]"])
        choice = " ".join(o for o in job if key_of(o) in swept)
        if (other := folders.setdefault(cfg.run.dir, choice)) != choice:
            raise UserError(f"two jobs share {cfg.run.dir}: {other}, and {choice}; leave out run.name and run.dir")
    return swept, written


def jobs_of(overrides: Sequence[str]) -> tuple[list[list[str]], list[str], dict[str, str]]:
    """The overrides of each job, the keys that differ between jobs, and what was written of the overrides, swept or
    not, that Hydra writes otherwise: 1e-4 is 0.0001 there, and a run's name has what was written. Hydra must be
    initialised.

    No jobs where another sweeper than Hydra's own chooses them. Raises HydraException for an override it cannot parse.
    """
    loader = GlobalHydra.instance().config_loader()
    parsed = OverridesParser.create(loader).parse_overrides(list(overrides))
    own = [o for o in parsed if not o.get_key_element().startswith("hydra")]
    swept = [o.get_key_element().lstrip("+") for o in own if o.is_sweep_override()]
    if any(o.get_key_element() == "hydra/sweeper" for o in parsed):
        return [], swept, {}
    choices = [_choices(o) if o.is_sweep_override() else {_in_a_job(o): str(o.input_line)} for o in own]
    written = {hydras: own for choice in choices for hydras, own in choice.items() if hydras != own}
    return [list(job) for job in itertools.product(*(choice.values() for choice in choices))], swept, written


def _in_a_job(override: Override) -> str:
    """An override that is not swept, as Hydra's sweeper hands it to each job."""
    text = f"{override.get_key_element()}={override.get_value_element_as_str()}"
    return CAPITAL.sub(lambda match: match[0].lower(), text)


def _choices(override: Override) -> dict[str, str]:
    """The overrides that one of a sweep stands for, as Hydra writes them and as they were written."""
    key, values = override.get_key_element(), list(map(str, override.sweep_string_iterator()))
    texts = str(override.input_line).split("=", 1)[1].split(",")
    if len(texts) != len(values):  # a list of lists, or a range
        texts = values
    return {f"{key}={value}": f"{key}={_number(text, value)}" for text, value in zip(texts, values, strict=True)}


def _number(text: str, value: str) -> str:
    """`text` where it is the number `value`, else `value`."""
    try:
        return text.strip() if float(text) == float(value) else value
    except ValueError:
        return value


def job_of(script: str, flags: Sequence[str], written: dict[str, str]) -> Callable[[DictConfig], None]:
    """The function that Hydra's launcher calls for each job, here or on another machine; it runs the job's command.

    written: as jobs_of returns it.
    """

    def job(cfg: DictConfig) -> None:
        # Hydra writes true as True; the run's name would differ from that of the same command outside a sweep
        overrides = [CAPITAL.sub(lambda match: match[0].lower(), o) for o in HydraConfig.get().overrides.task]
        overrides = [written.get(o, o) for o in overrides]
        overrides = [o.removesuffix("=null") if o.startswith("~") else o for o in overrides]  # ~KEY, as Hydra lists it
        name_run(cfg, overrides)
        arguments = [o for o in overrides if not o.startswith("recipe=")]
        run_job(cfg, [sys.executable, script, *flags, *arguments], HydraConfig.get())

    return job


def run_job(cfg: DictConfig, command: Sequence[str], settings: DictConfig) -> None:
    """Run one job and record its exit status. Raises Interrupted where a signal ended it."""
    overrides = [o for o in settings.overrides.task if not o.startswith(("recipe=", "run.swept="))]
    number, started = int(settings.job.num), time.monotonic()
    log.info("\njob %d: %s", number, " ".join(overrides))
    record: dict[str, object] = {
        "job": number,
        "overrides": overrides,
        "run": str(cfg.run.dir),
        "status": None,
        "stopped": False,
    }
    try:
        record["status"] = run_group(command)
    except Interrupted as error:
        record |= {"status": error.status, "stopped": True}
        raise
    finally:
        record["seconds"] = time.monotonic() - started
        (Path(settings.sweep.dir) / "jobs" / f"{number}.json").write_text(json.dumps(record), encoding="utf-8")
