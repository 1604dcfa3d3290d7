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

from recipes.support.main import UserError, recipe


@recipe("sft")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from recipes.support.build import batch_settings
    from recipes.support.models import lora
    from recipes.support.run import fit, prepare
    from recipes.support.stages import demonstrations
    from recipes.trainers.offline import SftTrainer

    batch_settings(cfg, cfg.recipe.batch_size)  # what does not divide is said before anything loads
    run = prepare(cfg)
    examples = demonstrations(run.task)
    if not len(examples):
        raise UserError(f"task={cfg.task.name} has no reference solutions to learn from")
    trainer = SftTrainer(
        model=run.policy,
        args=sft_config(cfg, run.folder),
        train_dataset=examples,
        processing_class=run.tokenizer,
        peft_config=lora(cfg),
        run_log=run.log,
    )
    fit(run, trainer)


def sft_config(cfg, folder: Path):
    """cfg.recipe and cfg.hardware as trl.SFTConfig."""
    from trl import SFTConfig

    from recipes.support.build import batch_settings, trainer_config, trainer_settings

    ours = trainer_settings(cfg, folder) | batch_settings(cfg, cfg.recipe.batch_size)
    ours |= {"max_steps": cfg.recipe.max_steps, "max_length": cfg.recipe.max_length}
    return trainer_config(SFTConfig, ours, cfg.recipe.trl)


if __name__ == "__main__":
    main()
