"""Commands of this repository one after another, each printed before it runs; the first that fails ends them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from recipes.cli.processes import STOPPED, Interrupted, run_group

ROOT = Path(__file__).parents[2]


def run_in_turn(commands: Iterable[Sequence[str]], dry_run: bool = False) -> int:
    """Print and run commands, each a script's path below the repository's root and its arguments.

    dry_run: print them only. Returns the exit status of the first that fails or is stopped by a signal, else 0. They
    run from the current folder.
    """
    for script, *arguments in commands:
        file = ROOT / script
        shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
        print(shlex.join(["python", str(shown), *arguments]), flush=True)
        if dry_run:
            continue
        try:
            status = run_group([sys.executable, str(file), *arguments])
        except Interrupted as error:
            print("stopped; the same command goes on with what is left", file=sys.stderr)
            return error.status or STOPPED
        if status:
            print(f"error: exit status {status} of the command above; those after it are not run", file=sys.stderr)
            return status
    return 0
