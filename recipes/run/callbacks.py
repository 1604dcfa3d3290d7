"""What a run does between the steps of its trainer: return freed memory, warn of answers that game the tests."""

from __future__ import annotations

from pathlib import Path

from transformers import TrainerCallback

from recipes.cli.console import log, started_as
from recipes.cli.memory_use import trim
from recipes.records.jsonl import by_step, read_config, read_jsonl
from recipes.records.log import run_metrics
from recipes.tools.diagnosis.hacking import HeldOutAlarm, alarm_of
from recipes.tools.diagnosis.history import history


class TrimBetweenPasses(TrainerCallback):
    """Returns freed memory after each pass: the next takes blocks of other sizes, so that free ones would add up."""

    def on_substep_end(self, args, state, control, **kwargs):
        trim()


class WarnOfGamedTests(TrainerCallback):
    """Warns once, while a run trains, when its answers game the tests. `folder`: the run directory."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._alarm: HeldOutAlarm | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero and (self.folder / "config.yaml").exists():
            config, rows = read_config(self.folder / "config.yaml")[0], read_jsonl(self.folder / "metrics.jsonl")
            self._alarm = alarm_of(history(config, by_step(rows), (), []))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self._alarm and logs and self._alarm.add({"step": state.global_step, **run_metrics(logs)}):
            evidence = self._alarm.evidence()
            log.warning("warning: tests gamed: %s See %s run=%s", evidence, started_as("doctor"), self.folder)
