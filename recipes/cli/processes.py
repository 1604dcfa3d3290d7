"""The processes of a run: accelerate's launcher where a profile has several, a process group for each job of a sweep.

Nothing is started where a launcher has started this process already, so that these are one run:

    python recipes/grpo.py hardware=cpux2
    accelerate launch --config_file launch/cpux2.yaml recipes/grpo.py hardware=cpux2
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from omegaconf import DictConfig, OmegaConf

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.gpus import check_gpus
from recipes.cli.overrides import key_of

_decided: list[str] = []
"""What a launcher has decided otherwise than the profile, as overrides."""
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
STOPPED = 130
"""Exit status of several commands where a signal ended one of them, as a shell has it for Ctrl-C; that one itself ends
with 0 where it has saved all."""
WITHOUT_SERVER = ("sft", "dpo", "check")
"""Recipes that do not sample with vLLM."""
PATIENCE = timedelta(hours=24)
"""How long a process waits for the others, which may be at their part of an evaluation. (A launcher ends the others
where one fails; torch's own limit for GPUs is 10 minutes.)"""


def under_launcher() -> bool:
    """Whether accelerate or torchrun has started this process."""
    return not {"LOCAL_RANK", "ACCELERATE_MIXED_PRECISION"}.isdisjoint(os.environ)


def processes() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def share_cores() -> None:
    """Have OpenMP's threads sleep while they wait for each other. Call it before torch is loaded.

    They spin by default, which takes a core from other programs, and from each other where there are more threads
    than free cores: sampling beside one busy process was many times slower (tests/bench/bench_threads.py). What the
    user has set stays.
    """
    if not any(name.startswith(("OMP_WAIT", "GOMP_SPIN", "KMP_BLOCKTIME")) for name in os.environ):
        os.environ["OMP_WAIT_POLICY"] = "passive"


def use_all_cores() -> None:
    """Leave the number of OpenMP's threads open where `accelerate launch` alone has set it to 1.

    It does so for one process on a CPU unless the user has set OMP_NUM_THREADS or --num_cpu_threads_per_process, and
    torch would use one core. Call it before torch is loaded.
    """
    if not under_launcher() or processes() > 1 or os.environ.get("OMP_NUM_THREADS") != "1":
        return
    with contextlib.suppress(OSError):
        launcher = Path(f"/proc/{os.getppid()}")
        asked = b"\0OMP_NUM_THREADS=" in b"\0" + (launcher / "environ").read_bytes()
        if not asked and b"num_cpu_threads" not in (launcher / "cmdline").read_bytes():
            del os.environ["OMP_NUM_THREADS"]


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have Linux send this process the signal when its parent ends, however it ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, int(number))


def accelerate_config(hardware: DictConfig) -> dict[str, Any]:
    """A profile as a configuration file of accelerate: how many processes and where. launch/ has the shipped ones.

    Precision and DeepSpeed stay out of it: the recipe takes them from the profile, however it was started.
    """
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",  # for CPUs too: of MULTI_CPU accelerate makes one process, or asks for mpirun
        "use_cpu": hardware.device == "cpu",
        "num_machines": hardware.num_machines,
        "num_processes": hardware.num_processes,
        "machine_rank": 0,
        "gpu_ids": "all",
        "mixed_precision": "no",
        "rdzv_backend": "static",
        "same_network": True,
        "main_training_function": "main",
    }


def check_hardware(cfg: DictConfig) -> None:
    """Raise UserError where this machine or its packages cannot do what the profile says. Loads torch for GPUs only."""
    hardware = cfg.hardware
    _check_vllm(cfg)
    for wanted, package, other in (
        (hardware.zero_stage > 0 and hardware.num_processes > 1, "deepspeed", "hardware.zero_stage=0"),
        (hardware.load_in_4bit, "bitsandbytes", "hardware.load_in_4bit=false"),
        ("8bit" in hardware.optimizer, "bitsandbytes", "hardware.optimizer=adamw_torch"),
        (hardware.vllm and hardware.device != "cpu", "vllm", "hardware.vllm=null"),
    ):
        if wanted and importlib.util.find_spec(package) is None:
            extra = "vllm" if package == "vllm" else "gpu"
            raise UserError(f'hardware={hardware.name} needs {package}: pip install -e ".[{extra}]", or {other}')
    if hardware.device == "cpu":
        return
    check_gpus(hardware)


def _check_vllm(cfg: DictConfig) -> None:
    hardware = cfg.hardware
    if hardware.vllm is None:
        return
    if hardware.device == "cpu" and hardware.vllm == "colocate":
        raise UserError("hardware.vllm=colocate shares the trainer's GPU: on a CPU choose hardware.vllm=server or null")
    if cfg.recipe.name in WITHOUT_SERVER:
        raise UserError(
            f"hardware.vllm={hardware.vllm}: recipe={cfg.recipe.name} samples in this process alone; set "
            "hardware.vllm=null"
        )
    if hardware.vllm == "colocate" and cfg.recipe.name != "grpo":
        raise UserError(
            f"hardware.vllm=colocate is GRPO's; recipe={cfg.recipe.name} samples from a server (hardware.vllm=server), "
            "or in its own process (hardware.vllm=null)"
        )
    if hardware.load_in_4bit:
        raise UserError("hardware.vllm samples from whole weights: set hardware.load_in_4bit=false")
    if hardware.vllm == "server" and (hardware.device == "cpu" or importlib.util.find_spec("vllm")):
        check_server(hardware.vllm_url)


def check_server(url: str) -> None:
    """Raise UserError where no server answers."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=10).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"no vLLM server answers at hardware.vllm_url={url} ({error}): start one with launch/vllm_server.sh MODEL, "
            "or set hardware.vllm=null"
        ) from None


def settle(cfg: DictConfig) -> None:
    """In a process that trains: the launcher's decisions override the profile's. Logs where the two differ."""
    hardware, started = cfg.hardware, processes()
    if hardware.device == "cpu":
        os.environ["ACCELERATE_USE_CPU"] = "true"
        os.environ["DS_ACCELERATOR"] = "cpu"
    if started != hardware.num_processes:
        log.info("%d processes were started; hardware=%s has %d", started, hardware.name, hardware.num_processes)
        hardware.num_processes = started
        _decided.append(f"hardware.num_processes={started}")
    launched = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE")
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and launched and int(launched) != hardware.zero_stage:
        log.info("the launcher set ZeRO stage %s; hardware=%s has %d", launched, hardware.name, hardware.zero_stage)
        hardware.zero_stage = int(launched)
        _decided.append(f"hardware.zero_stage={launched}")
    if started == 1:
        hardware.zero_stage = 0  # nothing to spread over


def join_processes(hardware: DictConfig, by_accelerate: bool) -> Any:
    """This process's place among those that train, as accelerate.PartialState.

    `by_accelerate`: Accelerate makes DeepSpeed's engine where the profile has a ZeRO stage. Raises UserError for a
    precision that it does not have.
    """
    from accelerate import PartialState

    on_cpu = hardware.device == "cpu"
    if hardware.zero_stage and on_cpu and by_accelerate and hardware.precision != "fp32":
        raise UserError("ZeRO on a CPU: set hardware.precision=fp32 (transformers takes 16 bit there without it alone)")
    os.environ.pop("ACCELERATE_USE_DEEPSPEED", None)
    if hardware.zero_stage and on_cpu:
        import deepspeed

        # an all-reduce for inference, which DeepSpeed would compile for minutes
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if not hardware.zero_stage or not by_accelerate:
        return PartialState(cpu=on_cpu, timeout=PATIENCE)
    os.environ |= {
        "ACCELERATE_USE_DEEPSPEED": "true",
        "ACCELERATE_DEEPSPEED_ZERO_STAGE": str(hardware.zero_stage),
        "ACCELERATE_DEEPSPEED_ZERO3_INIT": "false",  # the model is there before DeepSpeed is
        "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true",
    }
    if not on_cpu:
        return PartialState(timeout=PATIENCE)
    os.environ.pop("ACCELERATE_USE_CPU", None)  # told of a CPU, Accelerate leaves DeepSpeed out
    return PartialState(backend="gloo", timeout=PATIENCE)


def command_line(cfg: DictConfig) -> str:
    """The command that starts in this run's directory, with as many processes, whoever started them this time."""
    return _command(cfg, sys.argv)


def _command(cfg: DictConfig, words: Sequence[str]) -> str:
    arguments = [a for a in words if a != f"recipe={cfg.recipe.name}"]
    more = [*_decided, f"run.name={cfg.run.name}"] if _decided else []
    return f"{_starter(cfg.hardware)} {shlex.join([*arguments, *more])}"


def _starter(hardware: DictConfig) -> str:
    """What stands before a recipe's name: python, or sbatch with the nodes and processes that there are."""
    if hardware.num_machines == 1:
        return "python"
    each = int(os.environ.get("LOCAL_WORLD_SIZE") or max(1, hardware.num_processes // hardware.num_machines))
    nodes = max(1, hardware.num_processes // each)
    return f"sbatch --nodes={nodes} --gres=gpu:{each} launch/slurm_nodes.sh"


def same_command(cfg: DictConfig) -> str:
    """How a message names what goes on from what a run has saved, which run.if_exists=replace would remove."""
    return "the same command" if cfg.run.if_exists == "resume" else "the same command with run.if_exists=resume"


def resume_command(cfg: DictConfig) -> str:
    """What a user types to resume this run; run.if_exists may stand in a file of conf/ too, as in debug/fast.yaml."""
    words = sys.argv
    if cfg.run.if_exists != "resume":
        words = [*(word for word in words if key_of(word) != "run.if_exists"), "run.if_exists=resume"]
    return _command(cfg, words)


def check_one_machine(hardware: DictConfig, script: str, arguments: Sequence[str]) -> None:
    """Raise UserError where the profile spans several machines, whose processes SLURM starts."""
    if hardware.num_machines > 1:
        raise UserError(
            f"hardware={hardware.name} spans {hardware.num_machines} machines: start it with "
            f"{_starter(hardware)} {shlex.join([script, *arguments])}, or set hardware.num_machines=1 for this one"
        )


def start_processes(cfg: DictConfig, script: str, arguments: Sequence[str]) -> int:
    """Run `script` in as many processes as the profile has, under accelerate's launcher; the exit status."""
    hardware = cfg.hardware
    if hardware.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"  # else DeepSpeed, where installed, warns of it in each process
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # the failing process has printed what is wrong
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with tempfile.TemporaryDirectory() as folder, _forwarded(_signal_children) as received:
        file = Path(folder) / "accelerate.yaml"
        OmegaConf.save(OmegaConf.create(accelerate_config(hardware)), file)
        flags = ["--config_file", str(file), "--main_process_port", "0", "--log_dir", folder]
        args = launch_command_parser().parse_args([*flags, script, *arguments])
        args.signals_to_handle = "SIGQUIT"  # others are forwarded: torch would kill what takes 30 s to stop
        try:
            launch_command(args)
        except ChildFailedError as error:
            # those that lost a killed process failed too; SIGTERM is what the launcher ends the others with
            killed = {rank: f for rank, f in error.failures.items() if f.exitcode < 0 and f.exitcode != -signal.SIGTERM}
            if not killed or received:
                _, first = error.get_first_failure()
                return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
            for rank, failure in killed.items():
                by = signal.Signals(-failure.exitcode).name
                print(
                    f"error: process {rank} of {hardware.num_processes} was killed by {by} (out of memory?); "
                    f"{same_command(cfg)} resumes from the last checkpoint in {cfg.run.dir}",
                    file=sys.stderr,
                )
            return 1
    return 0


class Interrupted(BaseException):  # nothing between the command and the end of the sweep may catch it
    """A signal came while a command ran; `status` is how the command ended."""

    def __init__(self, status: int):
        super().__init__(status)
        self.status = status


def run_group(command: Sequence[str]) -> int:
    """Run a command as a process group of its own, which ends when we do; its exit status.

    Raises:
        Interrupted: a signal came. The group had it too, and has ended.
    """
    sys.stdout.flush()
    dies = functools.partial(die_with_parent, signal.SIGTERM)
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=dies)
    with _forwarded(functools.partial(os.killpg, process.pid)) as received:
        status = process.wait()
    status = status if status >= 0 else 128 - status
    if received:
        raise Interrupted(status)
    return status


@contextlib.contextmanager
def _forwarded(send: Callable[[int], Any]) -> Iterator[list[int]]:
    """Signals to us are sent on; yields a list of those that came. Signals ignored before stay so.

    Where `send` finds nobody (ProcessLookupError) they are a KeyboardInterrupt.
    """
    received: list[int] = []

    def forward(number: int, frame: Any) -> None:
        received.append(number)
        try:
            send(number)
        except ProcessLookupError:
            raise KeyboardInterrupt from None

    before = {s: signal.signal(s, forward) for s in FORWARDED if signal.getsignal(s) != signal.SIG_IGN}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_children(number: int) -> None:
    """Send a signal to the processes that train. Raises ProcessLookupError where there are none."""
    sent = False
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # ended meanwhile, or another user's
            if "LOCAL_RANK" in child.environ():
                child.send_signal(number)
                sent = True
    if not sent:
        raise ProcessLookupError
