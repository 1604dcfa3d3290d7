"""REINFORCE on code: sample, grade, raise the log-probability of each token by its return minus a baseline.

    python recipes/reinforce.py task=basics
    python recipes/reinforce.py task=humaneval recipe.baseline=none task.reward.form.length_alpha=0.02

One update of each rollout, no critic, no clipping: the baseline of the HumanEval study. The steps are those of
recipes/ppo.py, two of them replaced in recipes/trainers/reinforce.py; every number is in conf/recipe/reinforce.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("reinforce")
def main(cfg) -> None:
    from recipes.models.critic import NoValue
    from recipes.run.checks import check_reinforce
    from recipes.run.lifecycle import fit, prepare
    from recipes.run.trl_config import ppo_arguments
    from recipes.trainers.own_ppo import PPOConfig
    from recipes.trainers.reinforce import ReinforceTrainer

    check_reinforce(cfg)
    run = prepare(cfg, PPOConfig, by_accelerate=False)
    fit(run, ReinforceTrainer(value=NoValue(), **ppo_arguments(run)))


if __name__ == "__main__":
    main()
