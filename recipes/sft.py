"""SFT on code: raise the probability of each training problem's reference solution, as the task wants it answered.

    python recipes/sft.py task=humaneval
    python recipes/sft.py task=humaneval hardware.load_in_4bit=true          QLoRA
    python recipes/ppo.py task=humaneval adapter=runs/sft/humaneval/smollm2_135m-dense-seed0

The answer is the reference in a fenced block; the prompt's tokens do not count. The loss is TRL's; every number is in
conf/recipe/sft.yaml. Evaluated before and after by the task's own rewards, resumed and reported like online recipes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("sft")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from trl import SFTConfig

    from recipes.data.training_data import demonstrations
    from recipes.models.load import lora
    from recipes.run.checks import check_one_turn
    from recipes.run.lifecycle import fit, prepare
    from recipes.trainers.sft_dpo import SftTrainer

    check_one_turn(cfg)
    run = prepare(cfg, SFTConfig)
    trainer = SftTrainer(
        model=run.policy,
        args=run.args,
        train_dataset=demonstrations(run.task),
        processing_class=run.tokenizer,
        peft_config=lora(cfg.model, cfg.adapter),
        run_log=run.log,
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
