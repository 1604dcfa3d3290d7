"""Preference pairs: sample k answers to each training problem, grade them, keep pairs that differ in reward.

    python recipes/pairs.py task=humaneval recipe.samples_per_prompt=8
    python recipes/pairs.py task=humaneval adapter=runs/sft/humaneval/smollm2_135m-dense-seed0

With `recipe.problems=33` only the first so many of them. Writes samples.jsonl (a line each graded answer, as they come:
the same command goes on where it stopped), pairs.jsonl (prompt, chosen, rejected, their rewards and lengths) for
recipes/dpo.py, and summary.json with the number of graded samples and the seconds that sampling and grading them took.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.support.main import UserError, recipe


@recipe("pairs", together=False)
def main(cfg) -> None:
    import asyncio
    import itertools
    import json

    from recipes.support.build import build_reward, build_sandbox, build_task, ready
    from recipes.support.console import log_to
    from recipes.support.models import check_model, load_policy
    from recipes.support.records import read_jsonl
    from recipes.support.run_dir import gone_if_refused, open_run_dir, write_text
    from recipes.support.soundness import training_problems

    r = cfg.recipe
    if r.samples_per_prompt < 2:
        raise UserError("recipe.samples_per_prompt must be 2 or more: a pair takes two answers")
    task = build_task(cfg)
    check_model(cfg)
    folder = open_run_dir(cfg)
    log_to(folder)
    with gone_if_refused(folder):
        reward = build_reward(cfg, build_sandbox(cfg))
        ready(reward, task, "train")
        task = training_problems(cfg, task, reward)
    file = folder / "samples.jsonl"
    rows = read_jsonl(file)
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))  # without a line that a kill cut off
    done = {
        name
        for name, found in itertools.groupby(rows, lambda r: r["task_id"])
        if len(list(found)) == r.samples_per_prompt
    }
    rows = [row for row in rows if row["task_id"] in done]
    problems = task.problems("train")[: r.problems]
    left = [p for p in problems if p.id not in done]
    if left:
        policy, tokenizer = load_policy(cfg)
        with asyncio.Runner() as runner, file.open("a") as kept:
            for row in sample(cfg, policy, tokenizer, task, reward, runner, left):
                kept.write(json.dumps(row) + "\n")
                kept.flush()
                rows.append(row)
    write_pairs(cfg, folder, task, problems, rows)


def write_pairs(cfg, folder, task, problems, rows) -> None:
    """pairs.jsonl and summary.json from the graded answers to `problems`."""
    import json

    from recipes.support.console import log
    from recipes.support.preferences import PAIRS, preference_pairs
    from recipes.support.run_dir import write_text
    from recipes.support.stages import as_turns

    r = cfg.recipe
    by_problem: dict[str, list] = {p.id: [] for p in problems}
    for row in rows:
        by_problem[row["task_id"]].append(row)
    pairs = [
        {
            "problem_id": problem.id,
            "prompt": as_turns(task.messages(problem), "")[0],
            "chosen": as_turns(task.messages(problem), chosen["completion"])[1],
            "rejected": as_turns(task.messages(problem), rejected["completion"])[1],
            "rewards": [chosen["reward"], rejected["reward"]],
            "tokens": [chosen["tokens"], rejected["tokens"]],
        }
        for problem in problems
        for chosen, rejected in preference_pairs(by_problem[problem.id], r.margin, r.pairs_per_prompt)
    ]
    write_text(folder / PAIRS, "".join(json.dumps(pair) + "\n" for pair in pairs))
    mean = [sum(pair["tokens"][side] for pair in pairs) / max(len(pairs), 1) for side in (0, 1)]
    summary = {"graded_samples": len(rows), "problems": len(problems), "pairs": len(pairs), "mean_tokens": mean}
    summary["seconds"] = sum(row.get("seconds", 0.0) for row in rows)  # from before they were written: 0
    write_text(folder / "summary.json", json.dumps(summary))
    log.info(
        "%d pairs from %d graded samples of %d problems; chosen %.0f tokens, rejected %.0f: %s",
        *(len(pairs), len(rows), len(problems), *mean, folder / PAIRS),
    )


def sample(cfg, policy, tokenizer, task, reward, runner, problems):
    """Graded answers to `problems`, a few problems at a time, each with its share of the seconds that they took.

    A problem's own draws do not depend on the others.
    """
    from envs.task import Filtered
    from recipes.support.evaluation import evaluate_policy
    from recipes.support.sampling import Decoding
    from recipes.support.stages import policy_to_sample

    r = cfg.recipe
    policy = policy_to_sample(cfg, policy.to(cfg.hardware.device))
    decoding = Decoding(cfg.task.max_new_tokens, r.temperature, r.top_p)
    for first in range(0, len(problems), r.prompts_at_once):
        batch = problems[first : first + r.prompts_at_once]
        result = evaluate_policy(
            policy,
            tokenizer,
            Filtered(task, batch.__contains__),
            reward,
            runner,
            decoding,
            r.samples_per_prompt,
            split="train",
            rows_at_once=cfg.hardware.eval_rows,
            seed=cfg.seed + first,
        )
        seconds = result.summary["seconds"] / len(result.rows)
        yield from (row | {"seconds": seconds} for row in result.rows)


if __name__ == "__main__":
    main()
