"""The decorator of every recipe: compose the configuration, say in one line what is wrong, run the recipe."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.support import config
from recipes.support.console import keep_freed_memory, quiet_libraries

IN_BASE_NAME = ("recipe", "task", "model", "reward", "seed", "experiment")
"""What conf/config.yaml or an experiment's file puts into a run's name or path itself."""
MORE_OF_THE_SAME = ("recipe.max_steps", "recipe.save_steps", "recipe.report_to", "evaluation")
"""Overrides with which a training run goes on in its directory."""
CONF = str(Path(__file__).parents[2] / "conf")


class UserError(Exception):
    """Something the user can mend; the message says what and how, in one line."""


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and has left what it takes to go on."""


def recipe(name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Turn `train(cfg)` into a command. `name` chooses conf/recipe/<name>.yaml."""

    def decorate(run: Callable[[DictConfig], None]) -> Callable[[], None]:
        @functools.wraps(run)
        def command() -> None:
            config.register()
            quiet_libraries()
            keep_freed_memory()
            # argparse wants overrides side by side, so ours goes before the user's first
            first = next((i for i, a in enumerate(sys.argv) if i and "=" in a and a[0] != "-"), len(sys.argv))
            sys.argv.insert(first, f"recipe={name}")
            if not any(a.startswith("-") for a in sys.argv[1:]):
                _refuse_bad_overrides(sys.argv[1:])
            hydra.main(version_base="1.3", config_path=CONF, config_name="config")(_guard(run))()

        return command

    return decorate


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


def _guard(run: Callable[[DictConfig], None]) -> Callable[[DictConfig], None]:
    @functools.wraps(run)
    def guarded(cfg: DictConfig) -> None:
        overrides = list(HydraConfig.get().overrides.task)
        if HydraConfig.get().mode == RunMode.MULTIRUN and "experiment" not in map(_key, overrides):
            cfg.run.name = _job_name(overrides)
        elif not any(_key(o) == "run.name" for o in overrides):
            cfg.run.name = _run_name(cfg.run.name, overrides)
        try:
            OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
            run(cfg)
        except Stopped:
            _say_goodbye(cfg)
        except KeyboardInterrupt:
            _stop(f"stopped; the same command goes on from the last checkpoint in {cfg.run.dir}", 130)
        except (UserError, OmegaConfBaseException) as error:
            _stop(" ".join(str(error).split()), 2)
        except Exception as error:
            if _disk_is_full(Path(cfg.run.dir)):
                _stop(f"no space left on the disk of {cfg.run.dir}; free some and run the same command to go on", 1)
            if not _is_out_of_memory(error):
                raise
            _stop(_out_of_memory(cfg), 1)

    return guarded


def _key(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def _run_name(base: str, overrides: list[str]) -> str:
    """`base` and the overrides that make it another run, so that no two settings share a directory."""
    same_run = ("run.", "sandbox", *(() if "recipe=eval" in overrides else MORE_OF_THE_SAME))
    rest = [o for o in overrides if _key(o) not in IN_BASE_NAME and not _key(o).startswith(same_run)]
    return f"{base}-{_job_name(rest)}" if rest else base


def _job_name(overrides: list[str]) -> str:
    """A folder name for one job of a sweep, from its overrides."""
    said = "_".join(sorted(o for o in overrides if not o.startswith(("recipe=", "run."))))
    name = re.sub(r"[^\w.]+", "-", said)  # no "=": the path must do as a value on a command line
    return name if len(name) <= 100 else f"{name[:90]}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _disk_is_full(folder: Path) -> bool:
    """Writers report a full disk in many ways (OSError, safetensors' own error, torch's RuntimeError): look at it."""
    return folder.exists() and shutil.disk_usage(folder).free < 1 << 20


def _is_out_of_memory(error: Exception) -> bool:
    """The device's or the machine's allocator gave up (its classes are torch's, which may not have loaded)."""
    said = str(error)
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "out of memory" in said.lower() or "can't allocate memory" in said


def _out_of_memory(cfg: DictConfig) -> str:
    from recipes.support.stopping import current_phase

    phase = current_phase()
    remedy = {
        "rollout": "fewer at once: hardware.rollout_rows (GRPO), recipe.prompts_per_step, recipe.max_new_tokens",
        "grading": "a smaller judge, or a shorter task.max_new_tokens",
        "evaluation": "fewer at once: hardware.eval_rows, evaluation.max_new_tokens",
        "log-probabilities": "fewer at once: hardware.rows_per_device",
        "update": "fewer at once: hardware.rows_per_device; or hardware.gradient_checkpointing=true",
    }.get(phase, "a smaller model, or hardware.load_in_4bit=true")
    return f"out of memory during {phase}: {remedy}; what was saved in {cfg.run.dir} is whole"


def _say_goodbye(cfg: DictConfig) -> None:
    """Where a stopped run stands and how it goes on; exit status 0, since nothing went wrong."""
    if os.environ.get("RANK", "0") == "0":
        arguments = " ".join(shlex.quote(a) for a in sys.argv if a != f"recipe={cfg.recipe.name}")
        print(f"stopped, all is saved in {cfg.run.dir}; to go on: python {arguments}", file=sys.stderr, flush=True)
    sys.exit(0)


def _stop(message: str, status: int) -> None:
    if os.environ.get("RANK", "0") == "0":
        print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(status)
