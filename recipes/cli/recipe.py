"""The decorator of every recipe: compose the configuration, say in one line what is wrong, start and run the recipe."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from envs.task import TaskError
from recipes.cli import schema
from recipes.cli.console import quiet_libraries, tell
from recipes.cli.errors import Stopped, UserError
from recipes.cli.gpus import name_idle_gpu
from recipes.cli.help import asks_for_config, config_text, help_text
from recipes.cli.memory_use import keep_freed_memory
from recipes.cli.overrides import check_added, compose, is_override, name_run, without_group
from recipes.cli.processes import (
    check_hardware,
    check_one_machine,
    die_with_parent,
    processes,
    resume_command,
    same_command,
    settle,
    share_cores,
    start_processes,
    under_launcher,
    use_all_cores,
)
from recipes.cli.ranges import check_ranges
from recipes.cli.schema import CONF
from recipes.cli.versions import check_trl

MULTIRUN = {"-m", "--multirun"}
FIRST_TO_SPEAK_S = 10.0
"""How long a process other than the first waits with its error: most often the first has the same and ends them all."""


Run = Callable[[DictConfig], None]
"""What a recipe does with its configuration."""


def recipe(name: str, together: bool = True, trains: bool = True) -> Callable[[Run], Callable[[], None]]:
    """Turn `train(cfg)` into a command. `name` chooses conf/recipe/<name>.yaml.

    together: it runs in as many processes as the hardware profile has, which it starts unless a launcher has
        (recipes/cli/processes.py).
    trains: if not, DeepSpeed has nothing to divide and is left out.

    With -m each job is a command of its own (recipes/cli/sweep.py).
    """

    def decorate(run: Run) -> Callable[[], None]:
        @functools.wraps(run)
        def command() -> None:
            if under_launcher():  # the launcher of one process does not wait until it has saved
                die_with_parent(signal.SIGTERM if processes() == 1 else signal.SIGKILL)
            use_all_cores()
            schema.register()
            quiet_libraries()
            share_cores()
            keep_freed_memory()
            sys.argv[1:] = map(without_group, sys.argv[1:])
            given, choice = sys.argv[1:], f"recipe={name}"
            # argparse wants overrides side by side, so ours goes before the user's first
            first = next((i for i, a in enumerate(sys.argv) if i and is_override(a)), len(sys.argv))
            if "--hydra-help" not in given:  # which knows no group
                sys.argv.insert(first, choice)
            if {"-h", "--help"} & {*given}:
                print(help_text(run.__globals__["__doc__"]))
                return
            guarded = _guard(run, given, together, trains)
            try:
                if other := next((a for a in given if a.lstrip("+").startswith("recipe=")), None):
                    raise UserError(f"{other}: this command is recipe={name}; each recipe has a command of its own")
                known = get_args_parser()._option_string_actions
                if unknown := next((a for a in given if a.startswith("-") and a.split("=")[0] not in known), None):
                    raise UserError(f"there is no {unknown}; --help lists what there is, --hydra-help Hydra's flags")
                if not MULTIRUN.isdisjoint(given):
                    if {"--cfg", "-c"} & {*given}:
                        raise UserError(
                            "--cfg shows one run's configuration and -m starts many: leave out -m, with one value each"
                        )
                    sys.exit(_sweep(run, choice, [a for a in given if a not in MULTIRUN]))
                if asks_for_config(given):
                    print(config_text([a for a in sys.argv[1:] if is_override(a)], given), end="")
                    return
                cfg = None if any(a.startswith("-") for a in given) else compose(sys.argv[1:])
            except UserError as error:
                _stop(str(error), 2)
            if cfg is None or any(a.lstrip("+~").startswith("hydra") for a in given):
                _hydra(_named(guarded))
            else:
                guarded(cfg)

        return command

    return decorate


def _hydra(task: Callable[[DictConfig], None]) -> None:
    hydra.main(version_base="1.3", config_path=CONF, config_name="config")(task)()


def _sweep(run: Callable[[DictConfig], None], choice: str, given: list[str]) -> int:
    """A sweep's exit status."""
    from recipes.cli.sweep import sweep

    if under_launcher():
        raise UserError("start a sweep (-m) with python, not under a launcher: each job starts its own processes")
    return sweep(_script(run), choice, given, _hydra)


def _script(run: Callable[[DictConfig], None]) -> str:
    """The recipe's file, as short as it can be named here. (Under a launcher of Hydra's, argv names that launcher.)"""
    path = Path(run.__code__.co_filename).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _named(guarded: Run) -> Run:
    """For a command with flags or settings of Hydra's own, which composes the configuration itself."""

    @functools.wraps(guarded)
    def named(cfg: DictConfig) -> None:
        settings = HydraConfig.get()
        try:
            check_added(cfg, list(settings.overrides.task), settings.runtime.choices)
        except UserError as error:
            _stop(str(error), 2)
        name_run(cfg, list(settings.overrides.task))
        guarded(cfg)

    return named


def _guard(run: Run, given: list[str], together: bool, trains: bool) -> Run:
    @functools.wraps(run)
    def guarded(cfg: DictConfig) -> None:
        try:
            OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
            check_ranges(cfg)
            if not trains:
                cfg.hardware.zero_stage = 0
            if not together:
                cfg.hardware.num_processes = cfg.hardware.num_machines = 1
                if processes() > 1:
                    raise UserError(f"{_script(run)} runs in one process: start it with python")
            elif cfg.hardware.num_processes > 1 and not under_launcher():
                check_one_machine(cfg.hardware, _script(run), given)
                check_hardware(cfg)
                sys.exit(start_processes(cfg, _script(run), given))
            check_trl()
            settle(cfg)
            check_hardware(cfg)
            name_idle_gpu(cfg.hardware, given)
            run(cfg)
        except Stopped:
            _say_goodbye(cfg)
        except KeyboardInterrupt:
            saved = [*Path(cfg.run.dir, "checkpoints").glob("checkpoint-*"), *Path(cfg.run.dir, ".answers").glob("*")]
            saved += [*Path(cfg.run.dir).glob("samples.jsonl")] if cfg.recipe.name == "pairs" else []
            goes_on = f"{same_command(cfg)} resumes from {cfg.run.dir}"
            _stop(f"stopped; {goes_on if saved else 'the same command starts again'}", 130)
        except (UserError, TaskError, OmegaConfBaseException) as error:
            _stop(" ".join(str(error).split()), 2)
        except Exception as error:
            if _disk_is_full(Path(cfg.run.dir)):
                _stop(f"no space left on the disk of {cfg.run.dir}; free some, then {same_command(cfg)} goes on", 1)
            if _is_out_of_memory(error):
                _stop(_out_of_memory(cfg), 1)
            if processes() == 1 or not _lost_another(error):
                raise
            _stop(f"another of {processes()} processes has ended", 1)

    return guarded


def _disk_is_full(folder: Path) -> bool:
    """Writers report a full disk in many ways (OSError, safetensors' own error, torch's RuntimeError): look at it."""
    return folder.exists() and shutil.disk_usage(folder).free < 1 << 20


def _is_out_of_memory(error: Exception) -> bool:
    """The device's or the machine's allocator gave up (its classes are torch's, which may not have loaded)."""
    message = str(error)
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or "out of memory" in message.lower() or "can't allocate memory" in message


def _lost_another(error: Exception) -> bool:
    """Another process has ended, and has printed why or could not."""
    return type(error).__name__ in ("DistBackendError", "DistNetworkError") or "by peer" in str(error)


def _out_of_memory(cfg: DictConfig) -> str:
    from recipes.cli.stopping import current_phase

    phase = current_phase()
    remedy = {
        "rollout": "fewer at once: hardware.rollout_rows (GRPO), recipe.prompts_per_step, task.max_new_tokens",
        "grading": "a smaller judge, or a shorter task.max_new_tokens",
        "evaluation": "fewer at once: hardware.eval_rows, evaluation.max_new_tokens",
        "log-probabilities": "fewer at once: hardware.rows_per_device",
        "update": "fewer at once: hardware.rows_per_device; or hardware.gradient_checkpointing=true",
    }.get(phase, "a smaller model, or hardware.load_in_4bit=true")
    return f"out of memory during {phase}: {remedy}; what was saved in {cfg.run.dir} is whole"


def _say_goodbye(cfg: DictConfig) -> None:
    """Where a stopped run stands and how it goes on; exit status 0, since nothing went wrong."""
    if os.environ.get("RANK", "0") == "0":
        tell(f"stopped, all is saved in {cfg.run.dir}; to resume: {resume_command(cfg)}")
    sys.exit(0)


def _stop(message: str, status: int) -> NoReturn:
    if os.environ.get("RANK", "0") != "0" and status != 130:
        time.sleep(FIRST_TO_SPEAK_S)
    if os.environ.get("RANK", "0") == "0" or status != 130:
        tell(f"error: {message}")
    sys.exit(status)
