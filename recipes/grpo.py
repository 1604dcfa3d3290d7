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
    import asyncio

    from accelerate import PartialState
    from transformers import set_seed

    from recipes.support.build import build_reward, build_sandbox, build_task
    from recipes.support.checkpoints import latest_checkpoint, step_of
    from recipes.support.console import log_to
    from recipes.support.models import check_model, load_policy, lora, sampling_dtype
    from recipes.support.run_dir import open_run_dir
    from recipes.support.run_log import RunLog
    from recipes.support.stages import Stages, prompt_dataset
    from recipes.trainers.dense_grpo import DenseGRPOTrainer

    # Everything that can be wrong is found before the model loads.
    if cfg.recipe.prompts_per_step * cfg.recipe.num_generations % (cfg.hardware.rows_per_device * processes(cfg)):
        raise UserError(
            f"{cfg.recipe.prompts_per_step} prompts x {cfg.recipe.num_generations} completions a step do not divide "
            f"into hardware.rows_per_device={cfg.hardware.rows_per_device} x {processes(cfg)} processes"
        )
    task = build_task(cfg)
    check_model(cfg)
    state = PartialState(cpu=cfg.hardware.device == "cpu")
    folder = open_run_dir(cfg, state.is_main_process)
    state.wait_for_everyone()
    log_to(folder)

    sandbox = build_sandbox(cfg)
    reward = build_reward(cfg, sandbox)
    set_seed(cfg.seed)  # a new adapter's first matrix is random
    policy, tokenizer = load_policy(cfg)
    log = RunLog(folder, cfg.run.completions_per_step)
    trainer = DenseGRPOTrainer(
        model=policy,
        args=grpo_config(cfg, folder),
        task=task,
        reward=reward,
        run_log=log,
        shaping=cfg.recipe.shaping,
        packing_max_tokens=cfg.recipe.packing_max_tokens,
        sampling_dtype=sampling_dtype(cfg),
        train_dataset=prompt_dataset(task),
        processing_class=tokenizer,
        peft_config=lora(cfg),
    )
    stages = Stages(cfg, folder, trainer, task, sandbox, asyncio.Runner(), log)
    stages.evaluate("before")
    latest = latest_checkpoint(folder)
    log.rewind(step_of(latest))
    if latest and step_of(latest) >= cfg.recipe.max_steps:  # finished before: nothing to train
        trainer.restore(latest)
    else:
        trainer.train(resume_from_checkpoint=str(latest) if latest else None)
    trainer.save_final(folder / "final")
    stages.evaluate("after")
    stages.report()


def processes(cfg) -> int:
    import os

    return int(os.environ.get("WORLD_SIZE", "1"))


def grpo_config(cfg, folder: Path):
    """cfg.recipe and cfg.hardware as trl.GRPOConfig."""
    from trl import GRPOConfig

    from recipes.support.build import as_dict

    recipe, hardware = cfg.recipe, cfg.hardware
    rows = recipe.prompts_per_step * recipe.num_generations
    return GRPOConfig(
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
        gradient_accumulation_steps=rows // (hardware.rows_per_device * processes(cfg)),
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
        **as_dict(recipe.trl),
    )


if __name__ == "__main__":
    main()
