"""How the rows of a step are divided into processes and passes."""

from __future__ import annotations

from omegaconf import DictConfig

from recipes.cli.errors import UserError


def micro_batches(cfg: DictConfig, processes: int) -> tuple[int, int]:
    """Rows of one pass in each process, and passes of an update.

    PPO and REINFORCE have a step's prompts in one pass here. Their trainers divide them themselves: a gradient is the
    exact mean over a mini-batch's tokens however many passes it takes.

    Raises UserError where the recipe's numbers do not divide, with one that does.
    """
    recipe = cfg.recipe
    if recipe.name in ("ppo", "reinforce"):
        return _prompts(recipe.prompts_per_step, recipe.trl.num_mini_batches, processes), 1
    if recipe.name == "grpo":
        rows = recipe.prompts_per_step * recipe.trl.num_generations
        what, key = (
            "completions a step (recipe.prompts_per_step x recipe.trl.num_generations)",
            "recipe.prompts_per_step",
        )
    else:
        rows, what, key = recipe.batch_size, "examples an update (recipe.batch_size)", "recipe.batch_size"
    most = cfg.hardware.rows_per_device
    each = min(most, max(1, rows // processes))
    if rows % (each * processes):
        raise UserError(
            f"{rows} {what} do not divide into hardware.rows_per_device={most} x {processes} processes: "
            f"{_fitting(rows, most, processes, key)}"
        )
    return each, rows // (each * processes)


def _prompts(prompts: int, mini_batches: int, processes: int) -> int:
    if prompts % processes:
        raise UserError(
            f"recipe.prompts_per_step={prompts} does not divide into {processes} processes: set a multiple of it"
        )
    if prompts // processes % mini_batches:
        unit = processes * mini_batches
        raise UserError(
            f"{prompts // processes} prompts a process (recipe.prompts_per_step) do not divide into "
            f"recipe.trl.num_mini_batches={mini_batches}: set recipe.trl.num_mini_batches=1 or "
            f"recipe.prompts_per_step={-(-prompts // unit) * unit}"
        )
    return prompts // processes


def _fitting(rows: int, most: int, processes: int, key: str) -> str:
    """What to set so that rows divide into passes of at most `most` rows in each process."""
    if rows % processes:
        return f"set {key} to a multiple of {processes}"
    own = rows // processes
    return f"set hardware.rows_per_device={max(n for n in range(1, most + 1) if own % n == 0)}"
