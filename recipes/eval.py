"""pass@k of a model on held-out problems: the base model, a full checkpoint or a LoRA adapter alike.

    python recipes/eval.py task=humaneval model=smollm2_135m
    python recipes/eval.py task=basics adapter=runs/grpo/basics/smollm2_135m-dense-seed0 evaluation.samples=16
    python recipes/eval.py task=mbpp episode=repair evaluation.samples=8 evaluation.temperature=1
    python recipes/eval.py task=humaneval evaluation.samples=20 evaluation.k=[1,5,10] evaluation.temperature=0.8

Answers are sampled and decoded greedily, as `evaluation` in conf/config.yaml or the task's file says. All processes of
the hardware profile share the problems; with hardware.vllm=server they sample from its server. With episode=repair
answers have several turns: pass@1 is reported after each, beside what independent samples of as many tokens reach with
the shown tests as a filter.

The run directory holds evals.jsonl (an evaluation a line) and samples.jsonl (a completion a line, with its verdict).
HumanEval and MBPP+ also have evalplus-greedy.jsonl and evalplus-sampled.jsonl, which EvalPlus's own command reads
where all problems were evaluated (HumanEval: task.env.train_size=0); masked lines of a simulation have
fields.svg, a few computed fields beside their reference. Each evaluation adds a line to results.csv beside the run
directory.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.errors import UserError
from recipes.cli.recipe import recipe


@recipe("eval", trains=False)
def main(cfg) -> None:
    from transformers import set_seed

    from recipes.data.chat_tokens import check_readable
    from recipes.models.load import check_model, load_policy
    from recipes.records.directory import open_together, remove_if_setup_fails
    from recipes.run.build import build_episode, build_reward, build_sandbox, build_task, check_split, ready
    from recipes.tools.memory.prompt_lengths import check_context

    split = cfg.evaluation.split
    if not cfg.evaluation.samples and not cfg.evaluation.greedy:
        raise UserError("evaluation.samples=0 evaluation.greedy=false evaluate nothing: set one of them")
    task = build_task(cfg, split)
    check_split(cfg, task)
    check_model(cfg.model, cfg.hardware, cfg.adapter, trains=False)
    folder, is_main = open_together(cfg)
    with remove_if_setup_fails(folder, is_main):
        sandbox = build_sandbox(cfg)
        reward = build_reward(cfg, sandbox)  # before the model loads, so that an error comes at once
        ready(reward, task, split)
        episode = build_episode(cfg, sandbox)
        if episode is not None:
            ready(episode, task, split)
        task = without_unsound(cfg, task, reward, folder)
        set_seed(cfg.seed)  # the weights of model.path=scratch are random
        policy, tokenizer = load_policy(cfg.model, cfg.hardware, cfg.adapter)
        check_readable(task, split, tokenizer, cfg.model.name)
        check_context(cfg, task, tokenizer, policy.config, samples=False)
    summaries, rows = evaluations(cfg, folder, policy.to(cfg.hardware.device), tokenizer, task, reward, episode)
    if is_main:
        write(cfg, folder, task, summaries, rows)


def without_unsound(cfg, task, reward, folder):
    """The task, without the problems that task.drop_invalid leaves out."""
    from envs.task import Filtered
    from recipes.evaluation.task_soundness import invalid

    if not cfg.task.drop_invalid:
        return task
    split = cfg.evaluation.split
    dropped = invalid(task, reward, split, folder)
    if len(dropped) == len(task.problems(split)):
        raise UserError("task.drop_invalid=true: no problem remains to evaluate; set it to false")
    return Filtered(task, lambda problem: problem.id not in dropped, (split,))


def evaluations(cfg, folder, policy, tokenizer, task, reward, episode):
    """(lines of evals.jsonl, rows of samples.jsonl), sampled and then greedy; all processes have all of them."""
    import asyncio
    from functools import partial

    from recipes.cli.console import log
    from recipes.evaluation import kept_answers
    from recipes.evaluation.episodes import evaluate_episodes
    from recipes.evaluation.held_out import decodings, describe, evaluate_policy, policy_to_sample
    from recipes.evaluation.pictures import MOST
    from recipes.models.load import sampling_dtype
    from recipes.sampling.vllm import server_of_a_model

    server = server_of_a_model(policy, tokenizer, cfg.hardware)
    policy = policy_to_sample(policy, None if server else sampling_dtype(cfg.hardware))
    summaries, rows = [], []
    with asyncio.Runner() as runner:
        for decoding, samples in decodings(cfg.evaluation):
            if episode is None:
                evaluate = partial(evaluate_policy, keep=folder / kept_answers.FOLDER / f"{decoding.temperature:g}")
            else:
                evaluate = partial(evaluate_episodes, episode=episode)
            result = evaluate(
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
                drawn=MOST,
                server=server,
            )
            log.info(describe(result.summary))
            summaries.append({"when": "eval", "step": 0, **result.summary})
            rows += [{"temperature": decoding.temperature, **row} for row in result.rows]
    return summaries, rows


def write(cfg, folder, task, summaries, rows) -> None:
    """Write what was measured to the run directory, and a line to results.csv beside it."""
    import shutil

    from recipes.cli.console import log
    from recipes.evaluation import kept_answers
    from recipes.evaluation.exports import append_results, evalplus_samples
    from recipes.evaluation.task_soundness import DROPPED
    from recipes.records.directory import write_text
    from recipes.records.jsonl import write_jsonl
    from recipes.tools.report.fields import field_drawings, standalone

    write_jsonl(folder / "evals.jsonl", summaries)
    write_jsonl(folder / "samples.jsonl", rows)
    if cfg.task.name in ("humaneval", "mbppplus"):
        problems = task.problems(cfg.evaluation.split)
        for how, greedy in (("greedy", True), ("sampled", False)):
            if chosen := [row for row in rows if (row["temperature"] == 0) == greedy]:
                write_jsonl(folder / f"evalplus-{how}.jsonl", evalplus_samples(task, problems, chosen))
        if cfg.task.name == "humaneval" and task.problems("train"):
            log.info("EvalPlus's command wants all of HumanEval's problems: task.env.train_size=0 evaluates them")
    append_results(folder.parent / "results.csv", cfg, summaries)
    shutil.rmtree(folder / kept_answers.FOLDER, ignore_errors=True)
    (folder / DROPPED).unlink(missing_ok=True)  # another evaluation looks again
    log.info("samples: %s", folder / "samples.jsonl")
    if drawings := field_drawings(rows):
        write_text(folder / "fields.svg", standalone(drawings))
        log.info("fields: %s", folder / "fields.svg")


if __name__ == "__main__":
    main()
