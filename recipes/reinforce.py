"""REINFORCE on code: sample, grade, raise the log-probability of each token by its return minus a baseline.

    python recipes/reinforce.py task=basics
    python recipes/reinforce.py task=humaneval recipe.baseline=none task.reward.form.length_alpha=0.02

One update of each rollout, no critic, no clipping: the baseline of the HumanEval work. The steps are those of
recipes/ppo.py, two of them replaced in recipes/trainers/reinforce.py; every number is in conf/recipe/reinforce.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("reinforce")
def main(cfg) -> None:
    from recipes.support.ppo import check, ppo_config, run_arguments
    from recipes.support.run import fit, prepare
    from recipes.support.stages import tokenized_prompts
    from recipes.trainers.reinforce import BASELINES, ReinforceTrainer
    from recipes.trainers.value import NoValue

    check(cfg)
    if cfg.recipe.baseline not in BASELINES:
        raise UserError(f"recipe.baseline={cfg.recipe.baseline}: choose {', '.join(BASELINES)}")
    if cfg.recipe.baseline == "group" and cfg.recipe.samples_per_prompt < 2:
        raise UserError("recipe.baseline=group needs recipe.samples_per_prompt of 2 or more")
    run = prepare(cfg, by_accelerate=False)
    trainer = ReinforceTrainer(
        baseline=cfg.recipe.baseline,
        value=NoValue(),
        args=ppo_config(cfg, run.folder, num_ppo_epochs=1, num_mini_batches=1),
        train_dataset=tokenized_prompts(run.task, run.tokenizer),
        **run_arguments(run),
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
