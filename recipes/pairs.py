"""Preference pairs: sample several answers to each training problem, grade them, keep pairs that differ in reward.

    python recipes/pairs.py task=humaneval recipe.samples_per_prompt=8
    python recipes/pairs.py task=humaneval adapter=runs/sft/humaneval/smollm2_135m-dense-seed0

recipe.problems=33 takes only the first 33 problems. All processes of the hardware profile share the problems; with
hardware.vllm=server they sample from its server. The run directory holds samples.jsonl (a graded answer a line, written
as they come: run the same command again to resume), pairs.jsonl (prompt, chosen, rejected, their rewards and lengths)
for recipes/dpo.py, and summary.json with the number of graded samples and the seconds they took.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.errors import UserError
from recipes.cli.recipe import recipe


@recipe("pairs", trains=False)
def main(cfg) -> None:
    import asyncio
    import json
    from contextlib import nullcontext

    from accelerate import PartialState
    from transformers import set_seed

    from recipes.data.chat_tokens import check_readable
    from recipes.evaluation.task_soundness import training_problems
    from recipes.models.load import check_model, load_policy
    from recipes.records.directory import open_together, remove_if_setup_fails
    from recipes.records.jsonl import write_jsonl
    from recipes.run.build import build_reward, build_sandbox, build_task, ready
    from recipes.run.checks import check_one_turn

    check_one_turn(cfg)
    count = cfg.recipe.samples_per_prompt
    if count < 2:
        raise UserError(f"recipe.samples_per_prompt={count}: a pair takes two answers; set it to 2 or more")
    task = build_task(cfg, "train")
    check_model(cfg.model, cfg.hardware, cfg.adapter, trains=False)
    folder, is_main = open_together(cfg)
    file = folder / "samples.jsonl"
    with remove_if_setup_fails(folder, is_main):
        reward = build_reward(cfg, build_sandbox(cfg))
        ready(reward, task, "train")
        task = training_problems(cfg, task, reward, folder)
        problems = task.problems("train")[: cfg.recipe.problems]
        rows, remaining = left_to_sample(file, problems, count, cfg.recipe.prompts_at_once)
        if remaining:
            set_seed(cfg.seed)  # the weights of model.path=scratch are random
            policy, tokenizer = load_policy(cfg.model, cfg.hardware, cfg.adapter)
            check_readable(task, "train", tokenizer, cfg.model.name)
    PartialState().wait_for_everyone()  # all have read it
    if is_main:
        write_jsonl(file, rows)  # without the answers of a batch that a kill interrupted: its seed is the whole batch's
    if remaining:
        with asyncio.Runner() as runner, file.open("a", encoding="utf-8") if is_main else nullcontext() as samples:
            for row in graded_answers(cfg, policy, tokenizer, task, reward, runner, remaining):
                rows.append(row)
                if samples:
                    samples.write(json.dumps(row) + "\n")
                    samples.flush()
    if is_main:
        write_pairs(cfg, folder, task, problems, rows)


def left_to_sample(file, problems, count, size):
    """What samples.jsonl holds of whole batches of `size` problems with `count` answers each, and the other batches by
    the place of their first problem."""
    from collections import Counter

    from recipes.records.jsonl import read_jsonl

    answers = Counter(row["task_id"] for row in read_jsonl(file))
    batches = {first: problems[first : first + size] for first in range(0, len(problems), size)}
    remaining = {
        first: batch for first, batch in batches.items() if any(answers[problem.id] != count for problem in batch)
    }
    open_ids = {problem.id for batch in remaining.values() for problem in batch}
    rows = [row for row in read_jsonl(file) if answers[row["task_id"]] == count and row["task_id"] not in open_ids]
    return rows, remaining


def graded_answers(cfg, policy, tokenizer, task, reward, runner, batches):
    """Yield graded answers to batches of problems, by the place of their first in all problems; each answer with its
    share of the seconds that its batch took."""
    from envs.task import Filtered
    from recipes.evaluation.held_out import evaluate_policy, policy_to_sample
    from recipes.models.load import sampling_dtype
    from recipes.sampling.generate import Decoding
    from recipes.sampling.vllm import server_of_a_model

    r = cfg.recipe
    policy = policy.to(cfg.hardware.device)
    server = server_of_a_model(policy, tokenizer, cfg.hardware)
    policy = policy_to_sample(policy, None if server else sampling_dtype(cfg.hardware))
    decoding = Decoding(cfg.task.max_new_tokens, r.temperature, r.top_p)
    for first, batch in batches.items():
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
            server=server,
        )
        seconds = result.summary["seconds"] / len(result.rows)
        yield from (row | {"seconds": seconds} for row in result.rows)


def write_pairs(cfg, folder, task, problems, rows) -> None:
    """Write pairs.jsonl and summary.json from the graded answers to `problems`."""
    import json

    from recipes.cli.console import log
    from recipes.data.training_data import as_turns, imitated
    from recipes.evaluation.preference_pairs import PAIRS, preference_pairs
    from recipes.records.directory import write_text
    from recipes.records.jsonl import write_jsonl

    def as_example(problem, answer):
        prompt = task.messages(problem)
        return as_turns(prompt, imitated(task, prompt, answer))[1]

    by_problem: dict[str, list] = {problem.id: [] for problem in problems}
    for row in rows:
        by_problem[row["task_id"]].append(row)
    pairs = [
        {
            "problem_id": problem.id,
            "prompt": as_turns(task.messages(problem), "")[0],
            "chosen": as_example(problem, chosen["completion"]),
            "rejected": as_example(problem, rejected["completion"]),
            "rewards": [chosen["reward"], rejected["reward"]],
            "tokens": [chosen["tokens"], rejected["tokens"]],
        }
        for problem in problems
        for chosen, rejected in preference_pairs(by_problem[problem.id], cfg.recipe.margin, cfg.recipe.pairs_per_prompt)
    ]
    write_jsonl(folder / PAIRS, pairs)
    mean_tokens = [sum(pair["tokens"][side] for pair in pairs) / max(len(pairs), 1) for side in (0, 1)]
    graded = sum(row["reward"] is not None for row in rows)
    summary = {"graded_samples": graded, "problems": len(problems), "pairs": len(pairs), "mean_tokens": mean_tokens}
    summary["seconds"] = sum(row.get("seconds", 0.0) for row in rows)  # older files have none
    write_text(folder / "summary.json", json.dumps(summary))
    log.info(
        "%d pairs from %d graded samples of %d problems; chosen %.0f tokens, rejected %.0f: %s",
        *(len(pairs), graded, len(problems), *mean_tokens, folder / PAIRS),
    )


if __name__ == "__main__":
    main()
