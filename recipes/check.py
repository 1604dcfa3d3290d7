"""Are a task's tests sound? Each reference solution must pass the task's own rewards, and a nonsense answer must fail.

First it says what useless answers to some of the problems earn (rewards/audit; `recipe.audit=0` leaves this out).

    python recipes/check.py task=humaneval
    python recipes/check.py task=mbpp task.env.path=mbpp.jsonl evaluation.split=test
    python recipes/check.py task=basics pass_rate=8            also: how often does the model solve each problem?

Checks the problems of `evaluation.split`: test, train, validation or all. Lists the failures and writes them to
invalid.jsonl in the run directory; `task.drop_invalid=true` leaves such problems out of a training.

With `pass_rate` it samples that many completions of each training problem and writes pass_rates.jsonl, which
`task.pass_rates=FILE` reads: problems that are never or always solved teach nothing. With an episode the last turn
counts.

The exit status is 2 where a problem fails or could not be graded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

sys.path.insert(0, str(Path(__file__).parents[1]))

from envs.task import Split
from recipes.cli.errors import UserError
from recipes.cli.recipe import recipe


@recipe("check", together=False)
def main(cfg) -> None:
    import asyncio

    from recipes.cli.console import log_to
    from recipes.models.load import check_model
    from recipes.records.directory import open_run_dir, remove_if_setup_fails
    from recipes.records.jsonl import write_jsonl
    from recipes.run.build import build_episode, build_reward, build_sandbox, build_task, ready

    splits: Sequence[Split] = get_args(Split) if cfg.evaluation.split == "all" else (cfg.evaluation.split,)
    read = dict.fromkeys((*splits, "train")) if cfg.pass_rate else splits
    task = build_task(cfg, *read)
    if not any(task.problems(split) for split in splits):
        raise UserError(
            f"evaluation.split={cfg.evaluation.split}: task={cfg.task.name} has no such problems; set "
            "evaluation.split=all"
        )
    if cfg.pass_rate:
        if not task.problems("train"):
            raise UserError(f"pass_rate={cfg.pass_rate}: task={cfg.task.name} has no training problems to sample")
        check_model(cfg.model, cfg.hardware, cfg.adapter, trains=False)
    folder = open_run_dir(cfg)
    log_to(folder)
    invalid, ungraded = [], []
    with asyncio.Runner() as runner:
        with remove_if_setup_fails(folder):
            sandbox = build_sandbox(cfg)
            reward = build_reward(cfg, sandbox)
            ready(reward, task, *read)
            if cfg.pass_rate:  # before references are graded, which takes minutes
                episode = build_episode(cfg, sandbox)
                if episode is not None:
                    ready(episode, task, "train")
                require_verdicts(cfg, task, reward, runner)
                policy, tokenizer = loaded(cfg, task)
        if cfg.recipe.audit:
            audit_split(cfg, task, reward, runner, splits)
        for split in splits:
            failures, not_graded = check_split(task, reward, runner, split)
            invalid += [{"split": split, **failure} for failure in failures]
            ungraded += not_graded
        file = folder / "invalid.jsonl"
        write_jsonl(file, invalid)
        if cfg.pass_rate:
            measure_pass_rates(cfg, folder, policy, tokenizer, task, reward, episode, runner)
    if invalid:
        count = f"{len(invalid)} failure{'s' if len(invalid) > 1 else ''}"
        raise UserError(f"{count}, listed in {file}; task.drop_invalid=true leaves these problems out")
    if ungraded:
        raise UserError(f"{len(ungraded)} problems could not be graded, so they are not checked; run the command again")


def audit_split(cfg, task, reward, runner, splits) -> None:
    """Log what useless answers earn on `recipe.audit` problems of the first split that has any."""
    from recipes.cli.console import log
    from rewards.audit.measure import audit, sampled

    _, problems = sampled(task, splits, cfg.recipe.audit, cfg.seed)
    results = runner.run(audit(reward, task, problems, cfg.seed))
    for line in results.table().splitlines():
        log.info(line)
    for complaint in results.complaints:
        log.warning("%s: %s", results.task, complaint)


def check_split(task, reward, runner, split) -> tuple[list[dict], list[str]]:
    """Check the problems of a split and log what was found; returns the failures and the ids that were not graded."""
    from recipes.cli.console import log
    from recipes.evaluation.task_soundness import examine

    problems = [problem for problem in task.problems(split) if problem.reference]
    if not task.problems(split):
        return [], []
    if not problems:
        log.info("%s %s: no problem has a reference", task.name, split)
        return [], []
    failures, ungraded, references = runner.run(examine(reward, task, problems))
    if others := len(task.problems(split)) - len(problems):
        log.info("%s %s: %d problems have no reference and are not checked", task.name, split, others)
    if any(grade and grade.passed is not None for grade in references):
        sound = len(problems) - len({failure["id"] for failure in failures}) - len(ungraded)
        log.info("%s %s: %d of %d problems are sound", task.name, split, sound, len(problems))
    else:
        log.info(
            "%s %s: %d problems are not checked, since no channel judges correctness", task.name, split, len(problems)
        )
    for failure in failures:
        log.info("  %s: %s (%s)", failure["id"], failure["what"], failure["note"])
    for problem_id in ungraded:
        log.info("  %s: not graded", problem_id)
    for name in reward.channels:
        scores = [grade.scores[name] for grade in references if grade and name in grade.scores]
        best = getattr(reward.channels[name], "best", 1.0)
        mean = f"{sum(scores) / len(scores):.3f} (best {best:g})" if scores else "silent on all"
        log.info("  mean score of the references, %s: %s", name, mean)
    return failures, ungraded


def require_verdicts(cfg, task, reward, runner) -> None:
    """Raises UserError where no channel says whether an answer is right, before a model is loaded."""
    from recipes.evaluation.task_soundness import judges

    if runner.run(judges(reward, task)) is False:
        name = cfg.task.name
        raise UserError(f"pass_rate={cfg.pass_rate}: no channel of task={name} judges whether an answer is right")


def loaded(cfg, task):
    """The policy and its tokenizer. Raises UserError where they cannot be loaded, or cannot read the task."""
    from transformers import set_seed

    from recipes.data.chat_tokens import check_readable
    from recipes.models.load import load_policy

    set_seed(cfg.seed)  # the weights of model.path=scratch are random
    policy, tokenizer = load_policy(cfg.model, cfg.hardware, cfg.adapter)
    check_readable(task, "train", tokenizer, cfg.model.name)
    return policy, tokenizer


def measure_pass_rates(cfg, folder, policy, tokenizer, task, reward, episode, runner) -> None:
    """Sample `pass_rate` completions of each training problem and write pass_rates.jsonl."""
    from collections import Counter
    from functools import partial

    from recipes.cli.console import log
    from recipes.evaluation.episodes import evaluate_episodes
    from recipes.evaluation.held_out import describe, evaluate_policy, policy_to_sample
    from recipes.models.load import sampling_dtype
    from recipes.records.jsonl import write_jsonl
    from recipes.sampling.generate import Decoding

    evaluate = evaluate_policy if episode is None else partial(evaluate_episodes, episode=episode)
    result = evaluate(
        policy_to_sample(policy.to(cfg.hardware.device), sampling_dtype(cfg.hardware)),
        tokenizer,
        task,
        reward,
        runner,
        Decoding(cfg.task.max_new_tokens, cfg.recipe.temperature),  # as trainings sample, not as evaluations do
        cfg.pass_rate,
        split="train",
        rows_at_once=cfg.hardware.eval_rows,
        seed=cfg.seed,
    )
    log.info(describe(result.summary))
    graded = [row for row in result.rows if row["reward"] is not None]
    samples = Counter(row["task_id"] for row in graded)
    passed = Counter(row["task_id"] for row in graded if row["passed"])
    file = folder / "pass_rates.jsonl"
    write_jsonl(file, [{"id": name, "passed": passed[name], "samples": samples[name]} for name in samples])
    sometimes = sum(0 < passed[name] < samples[name] for name in samples)
    log.info("%d of %d problems are sometimes solved: task.pass_rates=%s", sometimes, len(samples), file)


if __name__ == "__main__":
    main()
