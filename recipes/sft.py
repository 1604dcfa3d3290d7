"""SFT on code: raise the probability of each training problem's reference solution, as the task wants it answered.

    python recipes/sft.py task=humaneval
    python recipes/sft.py task=humaneval hardware.load_in_4bit=true          QLoRA
    python recipes/eval.py task=basics evaluation.split=train                run.dir=runs/own
    python recipes/sft.py task=basics recipe.answers=runs/own                its right answers in place of references
    python recipes/eval.py task=basics evaluation.split=train episode=repair run.dir=runs/told
    python recipes/sft.py task=basics recipe.answers=runs/told episode=repair    also behind answers that failed
    python recipes/ppo.py task=humaneval adapter=runs/sft/humaneval/smollm2_135m-dense-seed0

The answer is the reference in a fenced block; the prompt's tokens do not count. With recipe.answers=RUN, an evaluation
of the training problems, the policy's own answer takes its place where it is right (rejection sampling; RAFT, arXiv
2304.06767), so that training changes less of what the policy does already. With episode=repair as well, the right
answer is also imitated behind each answer that failed there and what the environment said of it, so that the policy
learns to repair. The loss is TRL's; every number is in conf/recipe/sft.yaml. Evaluated before and after by the task's
own rewards, resumed and reported like online recipes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("sft")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from functools import partial

    from trl import SFTConfig

    from recipes.data.repairs import failed_turns
    from recipes.data.training_data import demonstrations, right_answers, tokenized_demonstrations, warn_of_cut
    from recipes.models.load import lora
    from recipes.run.checks import check_sft
    from recipes.run.lifecycle import fit, prepare
    from recipes.sampling.replies import Replies
    from recipes.trainers.sft_dpo import SftTrainer

    check_sft(cfg)
    failed = failed_turns(cfg.recipe.answers) if cfg.episode else {}
    needed = not (failed and cfg.recipe.references)
    own = right_answers(cfg.recipe.answers, needed) if cfg.recipe.answers else {}
    imitated = partial(demonstrations, own=own, references=cfg.recipe.references, failed=failed)
    run = prepare(cfg, SFTConfig, check=imitated)
    turns = imitated(run.task, broken=Replies(run.tokenizer, {}).broken)
    examples = tokenized_demonstrations(turns, run.tokenizer)
    warn_of_cut(examples, run.args.max_length)
    trainer = SftTrainer(
        model=run.policy,
        args=run.args,
        train_dataset=examples,
        processing_class=run.tokenizer,
        peft_config=lora(cfg.model, cfg.adapter),
        run_log=run.log,
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
