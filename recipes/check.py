"""Are a task's tests sound? Every reference solution must get full marks by the task's own rewards, nonsense must not.

    python recipes/check.py task=humaneval
    python recipes/check.py task=mbpp task.env.path=mbpp.jsonl evaluation.split=test
    python recipes/check.py task=basics pass_rate=8            also: how often does the model solve each problem?

Looks at `evaluation.split`: test, or train, validation, all. Names the rows that fail and
writes them to invalid.jsonl in the run directory; `task.drop_invalid=true` keeps such rows out of training. With
`pass_rate` it samples that many completions of each training problem and writes pass_rates.jsonl, which
`task.pass_rates=FILE` reads: problems that are never or always solved teach nothing. The exit status is 2 where a row
fails or could not be graded.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("check", together=False)
def main(cfg) -> None:
    import asyncio
    import json

    from recipes.support.build import build_reward, build_sandbox, build_task, ready
    from recipes.support.console import log, log_to
    from recipes.support.run_dir import gone_if_refused, open_run_dir, write_text
    from recipes.support.soundness import examine

    task = build_task(cfg)
    splits = ("train", "validation", "test") if cfg.evaluation.split == "all" else (cfg.evaluation.split,)
    folder = open_run_dir(cfg)
    log_to(folder)
    with gone_if_refused(folder):
        reward = build_reward(cfg, build_sandbox(cfg))
        ready(reward, task, *splits)
    invalid, ungraded = [], 0
    with asyncio.Runner() as runner:
        for split in splits:
            problems = [p for p in task.problems(split) if p.reference]  # type: ignore[arg-type]
            if not problems:
                log.info("%s %s: no problem with a reference", task.name, split)
                continue
            failing, unjudged, right = runner.run(examine(reward, task, problems))
            if any(grade and grade.passed is not None for grade in right):
                sound = len(problems) - len({row["id"] for row in failing}) - len(unjudged)
                log.info("%s %s: %d of %d problems are sound", task.name, split, sound, len(problems))
            else:
                log.info("%s %s: no channel says of %d problems what is right", task.name, split, len(problems))
            for row in failing:
                log.info("  %s: %s (%s)", row["id"], row["what"], row["note"])
            for name in unjudged:
                log.info("  %s: not graded", name)
            for name in reward.channels:
                scores = [grade.results[name].score for grade in right if grade]
                log.info("  %s of the references: %.3f", name, sum(scores) / max(len(scores), 1))
            invalid += [{"split": split, **row} for row in failing]
            ungraded += len(unjudged)
        if cfg.pass_rate:
            measure(cfg, folder, task, reward, runner)
    write_text(folder / "invalid.jsonl", "".join(json.dumps(row) + "\n" for row in invalid))
    if invalid:
        raise UserError(f"{len(invalid)} rows fail: {folder / 'invalid.jsonl'}; task.drop_invalid=true leaves them out")
    if ungraded:
        raise UserError(f"{ungraded} rows could not be graded, so nothing is known of them: run it again")


def measure(cfg, folder, task, reward, runner) -> None:
    """Sample `pass_rate` completions of each training problem and write pass_rates.jsonl."""
    import json
    from collections import Counter

    from recipes.support.console import log
    from recipes.support.evaluation import evaluate_policy
    from recipes.support.models import check_model, load_policy
    from recipes.support.run_dir import write_text
    from recipes.support.sampling import Decoding
    from recipes.support.stages import describe, policy_to_sample

    check_model(cfg)
    policy, tokenizer = load_policy(cfg)
    result = evaluate_policy(
        policy_to_sample(cfg, policy.to(cfg.hardware.device)),
        tokenizer,
        task,
        reward,
        runner,
        Decoding(cfg.evaluation.max_new_tokens, cfg.evaluation.temperature or 1.0, cfg.evaluation.top_p),
        cfg.pass_rate,
        split="train",
        rows_at_once=cfg.hardware.eval_rows,
        seed=cfg.seed,
    )
    log.info(describe(result.summary))
    graded = [row for row in result.rows if row["reward"] is not None]
    passed, samples = Counter(r["task_id"] for r in graded if r["passed"]), Counter(r["task_id"] for r in graded)
    rows = [{"id": name, "passed": passed[name], "samples": samples[name]} for name in samples]
    write_text(folder / "pass_rates.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    between = sum(0 < passed[name] < samples[name] for name in samples)
    log.info(
        "%d of %d problems are solved at times: task.pass_rates=%s", between, len(rows), folder / "pass_rates.jsonl"
    )


if __name__ == "__main__":
    main()
