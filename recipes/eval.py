"""pass@k of a model on held-out problems: the base model, a full checkpoint or a LoRA adapter alike.

    python recipes/eval.py task=humaneval model=smollm2_135m
    python recipes/eval.py task=basics adapter=runs/grpo/basics/smollm2_135m-dense-seed0 evaluation.samples=16
    python recipes/eval.py task=humaneval evaluation.samples=20 evaluation.k=[1,5,10] evaluation.temperature=0.8

Greedy and sampled as conf/config.yaml's `evaluation` says, or the task's file. The run directory holds evals.jsonl (a
line each) and samples.jsonl (a line each completion, with its verdict); of HumanEval and MBPP+ also evalplus.jsonl, for
EvalPlus's own command. Each evaluation adds a line to results.csv beside the run directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("eval", together=False)
def main(cfg) -> None:
    import asyncio
    import json

    from envs.task import Filtered
    from recipes.support.build import build_reward, build_sandbox, build_task, ready
    from recipes.support.console import log, log_to
    from recipes.support.evaluation import evaluate_policy
    from recipes.support.models import check_model, load_policy
    from recipes.support.results import append_results, evalplus_samples
    from recipes.support.run_dir import gone_if_refused, open_run_dir, write_text
    from recipes.support.soundness import invalid
    from recipes.support.stages import decodings, describe, policy_to_sample

    task = build_task(cfg)
    check_model(cfg)
    folder = open_run_dir(cfg)
    log_to(folder)
    with gone_if_refused(folder):
        if not task.problems(cfg.evaluation.split):
            raise UserError(f"task={cfg.task.name} has no {cfg.evaluation.split} problems (evaluation.split)")
        reward = build_reward(cfg, build_sandbox(cfg))  # what can be wrong with it is found before the model loads
        ready(reward, task, cfg.evaluation.split)
        if cfg.task.drop_invalid:
            dropped = invalid(task, reward, cfg.evaluation.split)
            if len(dropped) == len(task.problems(cfg.evaluation.split)):
                raise UserError("no problem is left to evaluate: leave out task.drop_invalid")
            task = Filtered(task, lambda problem: problem.id not in dropped, (cfg.evaluation.split,))
        policy, tokenizer = load_policy(cfg)
    policy = policy_to_sample(cfg, policy.to(cfg.hardware.device))
    summaries, rows = [], []
    with asyncio.Runner() as runner:
        for decoding, samples in decodings(cfg):
            result = evaluate_policy(
                policy,
                tokenizer,
                task,
                reward,
                runner,
                decoding,
                samples,
                k=list(cfg.evaluation.k),
                split=cfg.evaluation.split,
                rows_at_once=cfg.hardware.eval_rows,
                seed=cfg.seed,
            )
            log.info(describe(result.summary))
            summaries.append({"when": "eval", "step": 0, **result.summary})
            rows += [{"temperature": decoding.temperature, **row} for row in result.rows]
    write_text(folder / "evals.jsonl", "".join(json.dumps(s) + "\n" for s in summaries))
    write_text(folder / "samples.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    if cfg.task.name in ("humaneval", "mbppplus"):
        programs = evalplus_samples(task, task.problems(cfg.evaluation.split), rows)
        write_text(folder / "evalplus.jsonl", "".join(json.dumps(r) + "\n" for r in programs))
    append_results(folder.parent / "results.csv", cfg, summaries)
    log.info("samples: %s", folder / "samples.jsonl")


if __name__ == "__main__":
    main()
