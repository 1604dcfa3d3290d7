"""GRPO on code: sample a group of answers a prompt, grade them, push the policy towards those above the group's mean.

    python recipes/grpo.py task=basics
    python recipes/grpo.py task=humaneval reward=sparse recipe.learning_rate=1e-4
    python recipes/grpo.py -m seed=0,1 recipe.max_steps=2

The algorithm's five steps are methods of DenseGRPOTrainer (recipes/trainers/dense_grpo.py); its loss is TRL's. Every
number is in conf/recipe/grpo.yaml. The run directory holds config.yaml, metrics.jsonl, completions.jsonl, evals.jsonl,
checkpoints/, final/ and report.html; the same command goes on where it stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("grpo")
def main(cfg) -> None:
    from recipes.support.models import lora, sampling_dtype
    from recipes.support.run import fit, prepare
    from recipes.support.run_dir import processes
    from recipes.support.stages import prompt_dataset
    from recipes.trainers.dense_grpo import DenseGRPOTrainer

    rows, at_once = cfg.recipe.prompts_per_step * cfg.recipe.num_generations, cfg.hardware.rows_per_device * processes()
    if rows % at_once:
        raise UserError(
            f"{rows} completions a step (recipe.prompts_per_step x recipe.num_generations) do not divide into "
            f"hardware.rows_per_device={cfg.hardware.rows_per_device} x {processes()} processes"
        )
    run = prepare(cfg)
    trainer = DenseGRPOTrainer(
        model=run.policy,
        args=grpo_config(cfg, run.folder),
        task=run.task,
        reward=run.reward,
        run_log=run.log,
        shaping=cfg.recipe.shaping,
        packing_max_tokens=cfg.recipe.packing_max_tokens,
        sampling_dtype=sampling_dtype(cfg),
        train_dataset=prompt_dataset(run.task),
        processing_class=run.tokenizer,
        peft_config=lora(cfg),
    )
    fit(run, trainer)


def grpo_config(cfg, folder: Path):
    """cfg.recipe and cfg.hardware as trl.GRPOConfig."""
    from trl import GRPOConfig

    from recipes.support.build import trainer_config
    from recipes.support.run_dir import processes

    recipe, hardware = cfg.recipe, cfg.hardware
    at_once = hardware.rows_per_device * processes()
    ours = dict(  # noqa: C408 (keywords read better here)
        output_dir=str(folder / "checkpoints"),
        seed=cfg.seed,
        max_steps=recipe.max_steps,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.lr_schedule,
        warmup_steps=recipe.warmup_steps,
        max_grad_norm=recipe.max_grad_norm,
        optim=hardware.optimizer,
        num_generations=recipe.num_generations,
        max_completion_length=recipe.max_new_tokens,
        temperature=recipe.temperature,
        top_p=recipe.top_p,
        beta=recipe.beta,
        epsilon=recipe.epsilon,
        num_iterations=recipe.num_iterations,
        loss_type=recipe.loss_type,
        scale_rewards=recipe.scale_rewards,
        per_device_train_batch_size=hardware.rows_per_device,
        gradient_accumulation_steps=recipe.prompts_per_step * recipe.num_generations // at_once,
        gradient_checkpointing=hardware.gradient_checkpointing,
        bf16=hardware.precision == "bf16",
        fp16=hardware.precision == "fp16",
        use_cpu=hardware.device == "cpu",
        save_steps=recipe.save_steps,
        save_total_limit=2,
        logging_steps=1,
        report_to=list(recipe.report_to) or "none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=hardware.device == "cuda",
    )
    return trainer_config(GRPOConfig, ours, recipe.trl)


if __name__ == "__main__":
    main()
