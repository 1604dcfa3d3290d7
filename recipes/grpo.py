"""GRPO on code: sample a group of answers a prompt, grade them, push the policy towards those above the group's mean.

    python recipes/grpo.py task=basics
    python recipes/grpo.py task=humaneval reward=sparse recipe.learning_rate=1e-4
    python recipes/grpo.py -m seed=0,1 recipe.max_steps=2

A token's advantage = (reward of its completion - mean of its group) + shaping * (the token's own part of that reward -
its mean over the group's tokens); with reward=sparse only the first bracket is left (recipe.scale_rewards may divide
it). The steps are listed at the top of recipes/trainers/dense_grpo.py; the loss is TRL's. Answers are graded while
others are sampled; recipe.lookahead=1 samples the next batch while this one trains; recipe.refill=true draws prompts
until each group has answers of different reward.
Numbers: conf/recipe/grpo.yaml for the algorithm, conf/task/ for the rewards' weights, conf/hardware/ for rows and
precision. The run directory holds config.yaml, metrics.jsonl, completions.jsonl, evals.jsonl, checkpoints/, final/ and
report.html; the same command goes on where it stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("grpo")
def main(cfg) -> None:
    # imported here, so that --help and a misspelt key answer before torch has loaded
    from recipes.support.launch import processes
    from recipes.support.models import lora, sampling_dtype
    from recipes.support.run import fit, prepare
    from recipes.support.stages import prompt_dataset
    from recipes.trainers.dense_grpo import DenseGRPOTrainer

    rows, at_once = cfg.recipe.prompts_per_step * cfg.recipe.num_generations, cfg.hardware.rows_per_device * processes()
    if rows % at_once:
        raise UserError(
            f"{rows} completions a step (recipe.prompts_per_step x recipe.num_generations) do not divide into "
            f"hardware.rows_per_device={cfg.hardware.rows_per_device} x {processes()} processes"
        )
    if cfg.recipe.beta and cfg.model.path == "scratch" and not cfg.model.lora_rank:
        raise UserError(
            "recipe.beta needs a reference policy, and TRL loads it from a path, which a random model has not: set "
            "recipe.beta=0 or model.lora_rank=8"
        )
    if cfg.recipe.refill and cfg.recipe.prompts_per_step % processes():
        raise UserError(
            f"recipe.refill: recipe.prompts_per_step={cfg.recipe.prompts_per_step} does not divide into "
            f"{processes()} processes, which refill groups each for itself"
        )
    hardware = cfg.hardware
    if cfg.recipe.lookahead and (hardware.load_in_4bit or hardware.zero_stage == 3 or hardware.vllm):
        raise UserError(
            "set recipe.lookahead=0: it samples from a copy of the policy, which hardware.load_in_4bit (whose weights "
            "take no merged adapter), ZeRO-3 (under which no process has them) and vLLM do not allow"
        )
    if hardware.logits_at_once and hardware.zero_stage == 3:
        raise UserError("hardware.logits_at_once takes the output matrix whole: set it to 0 under ZeRO-3")
    run = prepare(cfg)
    trainer = DenseGRPOTrainer(
        model=run.policy,
        args=grpo_config(cfg, run.folder),
        task=run.task,
        reward=run.reward,
        run_log=run.log,
        shaping=cfg.recipe.shaping,
        packing_max_tokens=cfg.recipe.packing_max_tokens,
        logits_at_once=cfg.hardware.logits_at_once,
        sampling_dtype=sampling_dtype(cfg),
        rollout_rows=cfg.hardware.rollout_rows,
        grading_chunk=cfg.recipe.grading_chunk,
        refill_rounds=cfg.recipe.refill_rounds if cfg.recipe.refill else 0,
        lookahead=bool(cfg.recipe.lookahead),
        server=hardware.vllm_url if hardware.vllm == "server" else None,
        train_dataset=prompt_dataset(run.task),
        processing_class=run.tokenizer,
        peft_config=lora(cfg),
    )
    fit(run, trainer)


def grpo_config(cfg, folder: Path):
    """cfg.recipe and cfg.hardware as trl.GRPOConfig."""
    from trl import GRPOConfig

    from recipes.support.build import trainer_config, trainer_settings
    from recipes.support.launch import processes

    r, hardware = cfg.recipe, cfg.hardware
    at_once = hardware.rows_per_device * processes()
    ours = trainer_settings(cfg, folder) | {
        "temperature": r.temperature,
        "max_steps": r.max_steps,
        "num_generations": r.num_generations,
        "max_completion_length": r.max_new_tokens,
        "top_p": r.top_p,
        "beta": r.beta,
        "epsilon": r.epsilon,
        "num_iterations": r.num_iterations,
        "loss_type": r.loss_type,
        "scale_rewards": r.scale_rewards,
        "use_vllm": hardware.vllm == "colocate",
        "per_device_train_batch_size": hardware.rows_per_device,
        "gradient_accumulation_steps": r.prompts_per_step * r.num_generations // at_once,
        "remove_unused_columns": False,
        "dataloader_pin_memory": hardware.device == "cuda",
    }
    return trainer_config(GRPOConfig, ours, r.trl)


if __name__ == "__main__":
    main()
