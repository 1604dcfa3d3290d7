"""The command `codegrain RECIPE KEY=VALUE...` of an installed wheel."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

RECIPES = Path(__file__).parents[1]


def main() -> None:
    """Run the recipe named by the first argument, as `python recipes/<name>.py` does in the repository."""
    names = sorted(file.stem for file in RECIPES.glob("*.py") if not file.stem.startswith("_"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        print(f"codegrain RECIPE KEY=VALUE...   recipes: {', '.join(names)}; codegrain RECIPE --help")
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    sys.argv = [str(RECIPES / f"{sys.argv[1]}.py"), *sys.argv[2:]]
    runpy.run_path(sys.argv[0], run_name="__main__")
