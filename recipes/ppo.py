"""PPO on code: sample, grade, place each channel's reward on its tokens, estimate advantages, clip.

    python recipes/ppo.py task=pacman                                  a minute on one core: is the algorithm right?
    python recipes/ppo.py task=humaneval hardware=a100x2               two GPUs; starts accelerate itself
    python recipes/ppo.py task=basics value=separate reward=sparse
    python recipes/ppo.py task=humaneval recipe.ratio=sequence recipe.kl.coef=0

The update's steps are methods of DensePPOTrainer (recipes/trainers/dense_ppo.py), in the order its `train` calls them;
recipe.ratio=sequence overrides advantages, units and policy_loss (recipes/trainers/sequence_ppo.py). Numbers:
conf/recipe/ppo.yaml for the algorithm, conf/value/ for the critic, conf/task/ for the rewards' weights; conf/tuned/ and
conf/tuned_model/ go over them where a file there fits. recipes/support/ppo.py passes on those that REINFORCE shares.
The run directory holds config.yaml, metrics.jsonl, completions.jsonl, evals.jsonl, checkpoints/, final/ and
report.html; the same command goes on where it stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("ppo")
def main(cfg) -> None:
    if cfg.recipe.ratio not in ("token", "sequence"):
        raise UserError(f"recipe.ratio={cfg.recipe.ratio}: choose token or sequence")
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from recipes.support.models import load_value
    from recipes.support.ppo import check, ppo_config, run_arguments
    from recipes.support.run import fit, prepare
    from recipes.support.stages import tokenized_prompts
    from recipes.trainers.dense_ppo import DensePPOTrainer
    from recipes.trainers.sequence_ppo import SequencePPOTrainer
    from recipes.trainers.value import NoValue

    check(cfg)
    by_token = cfg.recipe.ratio == "token"
    run = prepare(cfg, by_accelerate=False)  # the trainer makes DeepSpeed's engine itself
    kind = DensePPOTrainer if by_token else SequencePPOTrainer
    trainer = kind(
        value=load_value(cfg, run.policy) if by_token else NoValue(),
        args=ppo_config(
            cfg,
            run.folder,
            num_ppo_epochs=cfg.recipe.epochs,
            num_mini_batches=cfg.recipe.mini_batches,
            cliprange=cfg.recipe.clip,
            lam=cfg.recipe.lam,
            whiten_rewards=cfg.recipe.whiten_rewards,
            vf_coef=cfg.value.coef,
            cliprange_value=cfg.value.clip,
            value_learning_rate=cfg.value.learning_rate,
            value_warmup_updates=cfg.value.warmup_updates if by_token else 0,
        ),
        train_dataset=tokenized_prompts(run.task, run.tokenizer),
        **run_arguments(run),
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
