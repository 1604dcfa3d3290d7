"""Run a recipe and send SIGTERM to it in the middle of something: python stop_at.py PLACE CALL recipe.py key=value...

PLACE is one of PLACES; CALL is which call of it, from 1. The signal is a real one; only its moment is arranged.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

PLACES = {
    "rollout": ("recipes.sampling.generate", "draw"),
    "grading": ("tests.recipes.channels", "TokenParity.score"),
    "grpo update": ("recipes.trainers.dense_grpo", "DenseGRPOTrainer.compute_loss"),
    "ppo update": ("recipes.trainers.dense_ppo", "DensePPOTrainer.optimizer_step"),
    "save": ("recipes.records.checkpoints", "AtomicCheckpoints._publish"),
}


def main() -> None:
    place, call, recipe = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    module, path = PLACES[place]
    holder = importlib.import_module(module)
    *outer, name = path.split(".")
    for step in outer:
        holder = getattr(holder, step)
    plain, calls = getattr(holder, name), []

    def then_stop(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*args, **kwargs)

    setattr(holder, name, then_stop)
    sys.argv = sys.argv[3:]
    runpy.run_path(recipe, run_name="__main__")


if __name__ == "__main__":
    main()
