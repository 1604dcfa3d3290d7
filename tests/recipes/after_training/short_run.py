"""A run of two steps of the tiny model: its problems and settings, and how the scripts are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import warm

ROOT = Path(__file__).parents[3]
ROWS = [
    {
        "name": name,
        "topic": "mine",
        "level": 1,
        "family": name,
        "signature": f"def {name}(n: int) -> int:",
        "description": f"Return n times {factor}.",
        "solution": f"def {name}(n: int) -> int:\n    return {factor} * n\n",
        "examples": [{"args": [2], "expected": 2 * factor}],
        "hidden": [{"args": [n], "expected": factor * n} for n in (0, -3, 9)],
    }
    for name, factor in (("double", 2), ("triple", 3), ("fourfold", 4), ("fivefold", 5))
]
SMALL = (
    "hardware.precision=fp32",
    "recipe.batch_size=2",
    "recipe.trl.max_steps=2",
    "recipe.trl.save_steps=1",
    "recipe.trl.learning_rate=0.05",
    "task.max_new_tokens=6",
    "task.also_evaluate=[]",
    "evaluation.samples=1",
    "evaluation.every=1",
)


def python(script: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    return warm.run([sys.executable, ROOT / "recipes" / f"{script}.py", *arguments], cwd, check=True)


def refused(main, arguments, capsys) -> str:
    """The one line of an error."""
    capsys.readouterr()
    assert main([str(a) for a in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line
