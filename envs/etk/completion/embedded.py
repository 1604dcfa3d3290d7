"""The simulation that is part of this package: a gas in two dimensions (folder flow2d), and its cases.

It needs g++ 7 or later and make. A completion is built, run and compared in half a second of processor time.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from envs.etk.build.application import Application, Build, Run
from envs.etk.completion.cases import Case, read_cases

FLOW2D = Path(__file__).with_name("flow2d")
CASES = FLOW2D / "cases.jsonl"
CHECKS = {11: "-fdiagnostics-column-unit=byte", 12: "-ftrivial-auto-var-init=zero"}
"""Compiler options by the version of GCC that introduced them: columns as compiler_messages.py reads them, and a value
for every variable, so that a forgotten initialisation gives the same score everywhere."""

INITIAL_STATE = """static const int written = [] {
    const flow::Options options;
    flow::Grid state(options.cells);
    flow::initialize(state, options);
    const char* names[] = {"plt00000", "plt00001", "plt00002", "plt00003", "plt00004", "plt00005"};
    for (int k = 0; k < 6; ++k) flow::write_plotfile(names[k], state, k * options.interval, k, options.boxes);
    std::_Exit(0);
    return 0;
}();
"""
"""A completion that computes nothing: it writes the initial state in place of every output and ends the program."""


def flow2d() -> Application:
    """The application, scored by default as published: five plotfiles, density, l1, last."""
    checks = " ".join(option for version, option in CHECKS.items() if version <= _gcc())
    return Application(
        name="flow2d",
        source_dir=FLOW2D,
        build=Build(
            command=f"make CHECKS='{checks}'",
            timeout=30.0,
            success_regex="SUCCESS",
            artifact="flow",
            discard=("*.jsonl",),
            memory_mib=2048,
            disk_mib=64,
        ),
        run=Run(
            command=("./flow", "inputs"),
            inputs=("inputs",),
            success_regex="finished",
            timeout=4.0,
            memory_mib=512,
            disk_mib=16,
        ),
        toolchain=("g++", "make"),
    )


def flow2d_cases() -> list[Case]:
    """The cases, from easy to hard."""
    return read_cases(CASES)


def _gcc() -> int:
    """The main version of g++; 0 if it is not installed."""
    if shutil.which("g++") is None:
        return 0
    version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return int(version.split(".")[0])
