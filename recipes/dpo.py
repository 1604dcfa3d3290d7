"""DPO on code: prefer the better graded of two answers, learnt from pairs that are there before training.

    python recipes/pairs.py task=humaneval recipe.samples_per_prompt=8
    python recipes/dpo.py task=humaneval recipe.pairs=runs/pairs/humaneval/smollm2_135m-dense-seed0

The offline counterpart of PPO: the same graded samples, no sampling while it trains. The reference is the policy that
training starts from. The loss is TRL's; every number is in conf/recipe/dpo.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import recipe


@recipe("dpo")
def main(cfg) -> None:
    from recipes.support.build import batch_settings
    from recipes.support.models import lora
    from recipes.support.preferences import read_pairs
    from recipes.support.run import fit, prepare
    from recipes.trainers.offline import DpoTrainer

    batch_settings(cfg, cfg.recipe.batch_size)  # what does not divide is said before anything loads
    pairs = read_pairs(cfg.recipe.pairs)
    run = prepare(cfg)
    trainer = DpoTrainer(
        model=run.policy,
        args=dpo_config(cfg, run.folder),
        train_dataset=pairs,
        processing_class=run.tokenizer,
        peft_config=lora(cfg),
        run_log=run.log,
    )
    fit(run, trainer)


def dpo_config(cfg, folder: Path):
    """cfg.recipe and cfg.hardware as trl.DPOConfig."""
    from trl import DPOConfig

    from recipes.support.build import batch_settings, trainer_config, trainer_settings

    ours = trainer_settings(cfg, folder) | batch_settings(cfg, cfg.recipe.batch_size)
    ours |= {name: cfg.recipe[name] for name in ("max_steps", "max_length", "beta")}
    return trainer_config(DPOConfig, ours | {"loss_type": [cfg.recipe.loss_type]}, cfg.recipe.trl)


if __name__ == "__main__":
    main()
