"""GRPO on code: sample a group of answers for each prompt, grade them, push the policy towards those above its mean.

    python recipes/grpo.py task=basics
    python recipes/grpo.py task=humaneval reward=sparse recipe.trl.learning_rate=1e-4
    python recipes/grpo.py task=humaneval episode=repair
    python recipes/grpo.py -m seed=0,1 recipe.trl.max_steps=2

A token's advantage is (reward of its completion - mean of its group) + recipe.shaping * (the token's own part of that
reward, without what a complete block earns, - its mean over the group's tokens). With reward=sparse only the first
bracket is left; recipe.trl.scale_rewards may divide it. Where an answer has parts that are graded each by itself
(task.env.functions=3), a part's tokens keep what that part earned and not what the others did (recipes/data/parts.py).
With recipe.credit=lines answers of a group exchange the lines in which they differ, and what that changes is these
lines' advantage (recipes/trainers/line_credit.py).
The algorithm is recipes/trainers/dense_grpo.py; the loss is TRL's. Answers are graded while others are sampled;
recipe.lookahead=1 samples the next batch while this one trains; recipe.refill=true draws prompts until each group has
answers of different reward; recipe.curriculum.enabled=true draws those problems most often whose answers
differ most in reward. With episode=repair the policy is told what failed and answers again.

Numbers: conf/recipe/grpo.yaml for the algorithm (recipe.trl are fields of trl.GRPOConfig), conf/task/ for the rewards'
weights, conf/hardware/ for rows and precision. The run directory holds config.yaml, metrics.jsonl, completions.jsonl,
evals.jsonl, checkpoints/, final/ and report.html. Run the same command again to resume.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.recipe import recipe


@recipe("grpo")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from trl import GRPOConfig

    from recipes.data.training_data import prompt_dataset
    from recipes.models.load import lora, sampling_dtype
    from recipes.run.checks import check_grpo
    from recipes.run.lifecycle import fit, prepare
    from recipes.run.trl_config import trainer_knobs
    from recipes.trainers.dense_grpo import DenseGRPOTrainer

    check_grpo(cfg)
    run = prepare(cfg, GRPOConfig)
    trainer = DenseGRPOTrainer(
        model=run.policy,
        args=run.args,
        processing_class=run.tokenizer,
        train_dataset=prompt_dataset(run.task),
        peft_config=lora(cfg.model, cfg.adapter),
        task=run.task,
        reward=run.reward,
        run_log=run.log,
        sampling_dtype=sampling_dtype(cfg.hardware),
        rollout_rows=cfg.hardware.rollout_rows,
        logits_at_once=cfg.hardware.logits_at_once,
        episode=run.episode,
        server=cfg.hardware.vllm_url if cfg.hardware.vllm == "server" else None,
        **trainer_knobs(cfg),
    )
    fit(run, trainer)


if __name__ == "__main__":
    main()
