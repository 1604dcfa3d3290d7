"""DPO on code: prefer the better graded of two answers, learnt from pairs that pairs.py has written.

    python recipes/pairs.py task=humaneval
    python recipes/dpo.py task=humaneval recipe.pairs=runs/pairs/humaneval/smollm2_135m-dense-seed0

The offline counterpart of PPO: the same graded samples, no sampling while it trains. The reference policy is where
training starts. The loss is TRL's; every number is in conf/recipe/dpo.yaml.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("dpo")
def main(cfg) -> None:
    from trl import DPOConfig

    from recipes.evaluation.preference_pairs import read_pairs
    from recipes.models.load import lora
    from recipes.run.checks import check_one_turn
    from recipes.run.lifecycle import fit, prepare
    from recipes.trainers.sft_dpo import DpoTrainer

    check_one_turn(cfg)
    pairs = read_pairs(cfg.recipe.pairs)
    run = prepare(cfg, DPOConfig)
    trainer = DpoTrainer(
        model=run.policy,
        args=run.args,
        train_dataset=pairs,
        processing_class=run.tokenizer,
        peft_config=lora(cfg.model, cfg.adapter),
        run_log=run.log,
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
