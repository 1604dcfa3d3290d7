"""PPO on code: sample, grade, place each channel's reward on its tokens, estimate advantages, clip.

    python recipes/ppo.py task=pacman                                  a minute on one core: is the algorithm right?
    python recipes/ppo.py task=humaneval hardware=a100x2               two GPUs; starts accelerate itself
    python recipes/ppo.py task=basics value=separate reward=sparse
    python recipes/ppo.py task=humaneval recipe.ratio=sequence recipe.trl.kl_coef=0

The algorithm is recipes/trainers/dense_ppo.py: its `train` calls the steps in their order. recipe.ratio=sequence
overrides three of them (recipes/trainers/sequence_ppo.py), value=montecarlo two (recipes/trainers/monte_carlo_ppo.py).
Numbers: conf/recipe/ppo.yaml for the algorithm (recipe.trl are fields of trl's PPOConfig), conf/value/ for the critic,
conf/task/ for the rewards' weights; a fitting file of conf/tuned/ overrides them. The run
directory holds config.yaml, metrics.jsonl, completions.jsonl, evals.jsonl, checkpoints/, final/ and report.html. Run
the same command again to resume.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("ppo")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from recipes.models.critic import NoValue
    from recipes.models.load import load_value
    from recipes.run.checks import check_ppo
    from recipes.run.lifecycle import fit, prepare
    from recipes.run.trl_config import ppo_arguments
    from recipes.trainers.dense_ppo import DensePPOTrainer
    from recipes.trainers.monte_carlo_ppo import MonteCarloPPOTrainer
    from recipes.trainers.own_ppo import PPOConfig
    from recipes.trainers.sequence_ppo import SequencePPOTrainer

    check_ppo(cfg)
    run = prepare(cfg, PPOConfig, by_accelerate=False)  # the trainer makes DeepSpeed's engine itself
    if cfg.recipe.ratio == "sequence":
        trainer = SequencePPOTrainer(value=NoValue(), **ppo_arguments(run))
    elif cfg.value.name == "montecarlo":
        sizes = {"continuations": cfg.value.continuations, "cuts": cfg.value.cuts}
        trainer = MonteCarloPPOTrainer(value=NoValue(), **sizes, **ppo_arguments(run))
    else:
        trainer = DensePPOTrainer(
            value=load_value(cfg.value.name, cfg.model, cfg.hardware, run.policy),
            value_learning_rate=cfg.value.learning_rate,
            value_warmup_updates=cfg.value.warmup_updates,
            **ppo_arguments(run),
        )
    fit(run, trainer)


if __name__ == "__main__":
    main()
