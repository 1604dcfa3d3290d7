"""The decorator of every recipe: compose the configuration, say in one line what is wrong, start and run the recipe."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.support import config
from recipes.support.console import UserError, keep_freed_memory, quiet_libraries
from recipes.support.launch import (
    Interrupted,
    check_hardware,
    die_with_parent,
    processes,
    settle,
    start_processes,
    under_launcher,
)

IN_BASE_NAME = ("recipe", "task", "model", "reward", "seed", "experiment")
"""What conf/config.yaml or an experiment's file puts into a run's name or path itself."""
MORE_OF_THE_SAME = ("recipe.max_steps", "recipe.save_steps", "recipe.report_to", "evaluation")
"""Overrides with which a training run goes on in its directory."""
CONF = str(Path(__file__).parents[2] / "conf")
MULTIRUN = {"-m", "--multirun"}
FIRST_TO_SPEAK_S = 10.0
"""How long a process other than the first waits with its error: most often the first has the same and ends them all."""


def recipe(name: str, together: bool = True) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Turn `train(cfg)` into a command. `name` chooses conf/recipe/<name>.yaml.

    `together`: it runs in as many processes as the hardware profile has, which it starts unless a launcher has
    (recipes/support/launch.py). With -m each job is a command of its own (recipes/support/sweep.py).
    """

    def decorate(run: Callable[[DictConfig], None]) -> Callable[[], None]:
        @functools.wraps(run)
        def command() -> None:
            if under_launcher():
                die_with_parent()
            config.register()
            quiet_libraries()
            keep_freed_memory()
            given = sys.argv[1:]
            # argparse wants overrides side by side, so ours goes before the user's first
            first = next((i for i, a in enumerate(sys.argv) if i and _is_override(a)), len(sys.argv))
            sys.argv.insert(first, f"recipe={name}")
            if not MULTIRUN.isdisjoint(given):
                sys.exit(_sweep(run, [a for a in given if a not in MULTIRUN], f"recipe={name}"))
            if not any(a.startswith("-") for a in given):
                _refuse_bad_overrides(sys.argv[1:])
            _hydra(_guard(run, given, together))

        return command

    return decorate


def _is_override(argument: str) -> bool:
    return "=" in argument and not argument.startswith("-")


def _hydra(task: Callable[[DictConfig], None]) -> None:
    hydra.main(version_base="1.3", config_path=CONF, config_name="config")(task)()


def _refuse_bad_overrides(overrides: list[str]) -> None:
    """Compose once ahead of Hydra, whose own report of a misspelt key takes several lines."""
    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            cfg = hydra.compose("config", overrides)
            OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        _stop(_one_line(error), 2)


def _one_line(error: Exception) -> str:
    """Hydra's message: the first cause that names the key, on one line."""
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(" ".join(str(cause).split()))
        cause = cause.__cause__
    return " / ".join(dict.fromkeys(messages)) + " (see --help for the choices, --cfg job for the keys)"


def _sweep(run: Callable[[DictConfig], None], given: list[str], choice: str) -> int:
    """Start each job, write what compares them; 0 where every job ended well."""
    from recipes.support import sweep

    if under_launcher():
        _stop("start a sweep (-m) with python, not under a launcher: each job starts its own processes", 2)
    overrides = [choice, *filter(_is_override, given)]
    swept = _checked(overrides)
    where = [o.split("=", 1)[1].strip("'\"") for o in overrides if _key(o) == "hydra.sweep.dir"]
    folder = Path(*where or ["runs", choice.removeprefix("recipe="), "sweeps", _job_name(overrides)])
    flags = [a for a in given if not _is_override(a)]
    sys.argv[1:] = ["-m", *flags, *overrides, f"hydra.sweep.dir='{folder}'", f"run.swept=[{','.join(swept)}]"]
    # what a launcher of Hydra's starts on another machine finds this repository by
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(CONF).parent), os.environ.get("PYTHONPATH")]))
    sweep.begin(folder)
    status = 0
    try:
        _hydra(_job(_script(run), flags))
    except (Interrupted, KeyboardInterrupt) as error:
        status = error.status if isinstance(error, Interrupted) else 130
        print("stopped; the same command goes on with what is left", file=sys.stderr)
    return sweep.finish(folder, swept) or status


def _checked(overrides: list[str]) -> list[str]:
    """The keys that a sweep varies. Ends with one line where a job does not compose or two share a directory."""
    from recipes.support import sweep

    try:
        with hydra.initialize_config_dir(CONF, version_base="1.3"):
            jobs, swept = sweep.jobs_of(overrides)
            folders: dict[str, str] = {}
            for job in jobs:
                cfg = hydra.compose("config", [*job, f"run.swept=[{','.join(swept)}]"])
                _name_run(cfg, job)
                OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
                said = " ".join(o for o in job if _key(o) in swept)
                if (other := folders.setdefault(cfg.run.dir, said)) != said:
                    _stop(f"two jobs share {cfg.run.dir}: {other}, and {said}; leave run.name and run.dir to them", 2)
    except (HydraException, OmegaConfBaseException) as error:
        _stop(_one_line(error), 2)
    return swept


def _job(script: str, flags: list[str]) -> Callable[[DictConfig], None]:
    """What Hydra's launcher calls for each job, here or on another machine: the job as a command of its own."""
    from recipes.support import sweep

    def job(cfg: DictConfig) -> None:
        # Hydra has written true as True, which would make another name than that of the command by itself
        overrides = [re.sub("=(True|False)$", lambda m: m[0].lower(), o) for o in HydraConfig.get().overrides.task]
        _name_run(cfg, overrides)
        arguments = [o for o in overrides if not o.startswith("recipe=")]
        sweep.run_job(cfg, [sys.executable, script, *flags, *arguments], HydraConfig.get())

    return job


def _script(run: Callable[[DictConfig], None]) -> str:
    """The recipe's file, as short as it can be said here. (Under a launcher of Hydra's, argv names that launcher.)"""
    path = Path(run.__code__.co_filename).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _guard(run: Callable[[DictConfig], None], given: list[str], together: bool) -> Callable[[DictConfig], None]:
    @functools.wraps(run)
    def guarded(cfg: DictConfig) -> None:
        _name_run(cfg, list(HydraConfig.get().overrides.task))
        try:
            OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
            if not together:
                cfg.hardware.num_processes = cfg.hardware.num_machines = 1
                if processes() > 1:
                    raise UserError(f"{_script(run)} runs in one process: start it with python")
            elif cfg.hardware.num_processes > 1 and not under_launcher():
                check_hardware(cfg)
                sys.exit(start_processes(cfg, _script(run), given))
            settle(cfg)
            check_hardware(cfg)
            run(cfg)
        except KeyboardInterrupt:
            _stop(f"stopped; the same command goes on from the last checkpoint in {cfg.run.dir}", 130)
        except (UserError, OmegaConfBaseException) as error:
            _stop(" ".join(str(error).split()), 2)
        except Exception:
            if not _disk_is_full(Path(cfg.run.dir)):
                raise
            _stop(f"no space left on the disk of {cfg.run.dir}; free some and run the same command to go on", 1)

    return guarded


def _key(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def _name_run(cfg: DictConfig, overrides: list[str]) -> None:
    if not any(_key(o) == "run.name" for o in overrides):
        cfg.run.name = _run_name(cfg.run.name, overrides, cfg.run.swept)


def _run_name(base: str, overrides: list[str], swept: Sequence[str] = ()) -> str:
    """`base` and the overrides that make it another run, so that no two settings share a directory."""
    same_run = ("run.", "sandbox", *(() if "recipe=eval" in overrides else MORE_OF_THE_SAME))
    keys = set(map(_key, overrides))
    in_base = {*IN_BASE_NAME} - ({*swept} & {"model", "reward"} if "experiment" in keys else set())
    rest = [o for o in overrides if _key(o) not in in_base and (_key(o) in swept or not _key(o).startswith(same_run))]
    return f"{base}-{_job_name(rest)}" if rest else base


def _job_name(overrides: list[str]) -> str:
    """A folder name from overrides."""
    said = "_".join(sorted(o for o in overrides if not o.startswith(("recipe=", "run.", "hydra"))))
    name = re.sub(r"[^\w.]+", "-", said)  # no "=": the path must do as a value on a command line
    return name if len(name) <= 100 else f"{name[:90]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _disk_is_full(folder: Path) -> bool:
    """Writers report a full disk in many ways (OSError, safetensors' own error, torch's RuntimeError): look at it."""
    return folder.exists() and shutil.disk_usage(folder).free < 1 << 20


def _stop(message: str, status: int) -> NoReturn:
    if os.environ.get("RANK", "0") != "0" and status != 130:
        time.sleep(FIRST_TO_SPEAK_S)
    if os.environ.get("RANK", "0") == "0" or status != 130:
        print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(status)
