"""A build waits for a processor where one of its compilers does: all of its processes are looked at."""

from __future__ import annotations

import importlib
import os
import subprocess
from pathlib import Path

import envs.sandbox


def test_the_waiting_of_all_processes_of_a_build_is_read(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(envs.sandbox.__file__).with_name("worker")))
    clock = importlib.import_module("clock").Clock()
    script = "sh -c 'sleep 60 & echo $!; wait' & wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True) as build:
        sleeping = int(build.stdout.readline())
        descriptor = os.pidfd_open(build.pid)
        try:
            tree, alone = clock.tree(descriptor), clock.threads(descriptor)
        finally:
            os.kill(sleeping, 9)
            os.close(descriptor)
    assert set(alone) == {str(build.pid)}
    assert {f"{build.pid}/{build.pid}", f"{sleeping}/{sleeping}"} < set(tree) and len(tree) == 3
    assert all(type(waited) is int and waited >= 0 for waited in tree.values())
