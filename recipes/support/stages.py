"""What surrounds training in every recipe: the prompts, evaluation before and after, the table and the report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets import Dataset
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from transformers import TrainerCallback
from trl.models.utils import unwrap_model_for_generation

from envs.sandbox import Sandbox
from envs.task import Prompted, Task
from recipes.support import peak_memory
from recipes.support.build import other_task
from recipes.support.console import log
from recipes.support.diagnosis import diagnose
from recipes.support.evaluation import evaluate_policy, prompt_ids
from recipes.support.history import load_history
from recipes.support.main import Stopped
from recipes.support.models import sampling_dtype
from recipes.support.records import read_jsonl
from recipes.support.report import write_report
from recipes.support.run_log import RunLog
from recipes.support.sampling import Decoding, SamplingCopy
from recipes.support.stopping import current_phase, phase
from rewards.compose import Reward


def prompt_dataset(task: Task) -> Dataset:
    """The training problems as TRL takes them: `prompt` (messages, or text) and `problem_id`."""
    problems = task.problems("train")
    return Dataset.from_dict({"prompt": [task.messages(p) for p in problems], "problem_id": [p.id for p in problems]})


def as_turns(prompt: Prompted, answer: str) -> tuple[Any, Any]:
    """A prompt and an answer to it as TRL's offline trainers take them: messages and messages, or text and text.

    What the prompt has begun of the assistant's turn becomes the beginning of the answer.
    """
    if isinstance(prompt, str):
        return prompt, answer
    if prompt[-1]["role"] == "assistant":
        prompt, answer = prompt[:-1], prompt[-1]["content"] + answer
    return prompt, [{"role": "assistant", "content": answer}]


def demonstration(prompt: Prompted, reference: str) -> str:
    """The reference as the answer that a prompt asks for: a code block, or what closes the one that it has opened; of
    a text that ends in the reference's first line, the rest."""
    if isinstance(prompt, str):
        return reference.removeprefix(prompt.rpartition("\n")[2])
    begun = prompt[-1]["role"] == "assistant"
    return f"{'' if begun else '```python' + chr(10)}{reference.rstrip()}\n```"


def demonstrations(task: Task) -> Dataset:
    """Training problems with their references as answers, as TRL's SFTTrainer takes them: `prompt`, `completion`."""
    problems = [p for p in task.problems("train") if p.reference]
    asked = [(prompt, demonstration(prompt, p.reference)) for p in problems for prompt in (task.messages(p),)]
    turns = [as_turns(prompt, answer) for prompt, answer in asked]
    return Dataset.from_dict({"prompt": [a for a, _ in turns], "completion": [b for _, b in turns]})


def tokenized_prompts(task: Task, tokenizer: Any) -> Dataset:
    """The training problems as DensePPOTrainer takes them: `input_ids` of the prompt and `problem_id`."""
    problems = task.problems("train")
    prompts = [prompt_ids(task, p, tokenizer) for p in problems]
    return Dataset.from_dict({"input_ids": prompts, "problem_id": [p.id for p in problems]})


def decodings(cfg: DictConfig) -> list[tuple[Decoding, int]]:
    """(how to decode, samples a problem) for each evaluation the configuration asks for."""
    e = cfg.evaluation
    chosen = []
    if e.samples:
        chosen.append((Decoding(e.max_new_tokens, e.temperature, e.top_p), e.samples))
    if e.greedy:
        chosen.append((Decoding(e.max_new_tokens, 0.0), 1))
    return chosen


def policy_to_sample(cfg: DictConfig, policy: Any) -> Any:
    """The policy itself or its sampling copy, as the hardware profile says, in evaluation mode."""
    dtype = sampling_dtype(cfg)
    return policy.eval() if dtype is None else SamplingCopy(policy, dtype).sync(policy)


@contextmanager
def whole_weights(trainer: Any) -> Iterator[Any]:
    """The policy with all of its weights on every process: under ZeRO-3 each holds a part, and all must come here."""
    deepspeed = trainer.accelerator.state.deepspeed_plugin
    if deepspeed is None or deepspeed.zero_stage < 3 or trainer.model_wrapped is trainer.model:  # not yet divided
        yield trainer.policy
        return
    with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as policy:
        yield policy


class EvaluateEvery(TrainerCallback):
    """Evaluates each `every` steps of training. A request to stop at once gives the evaluation up; a run that goes on
    from a checkpoint makes up for one that is missing there."""

    def __init__(self, stages: Stages, every: int):
        self.stages, self.every = stages, every

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step:
            self._evaluate(state, control)

    def on_step_end(self, args, state, control, **kwargs):
        self._evaluate(state, control)

    def _evaluate(self, state: Any, control: Any) -> None:
        step = state.global_step
        if step % self.every or step >= state.max_steps or control.should_training_stop:
            return
        try:
            with phase("evaluation", interruptible=True):
                self.stages.evaluate(f"step {step}", own=True)
        except Stopped:
            control.should_save = control.should_training_stop = True


class Stages:
    """Evaluations and the report of one run; what a resumed run has done already is not done again."""

    def __init__(
        self,
        cfg: DictConfig,
        folder: Path,
        trainer: Any,
        task: Task,
        reward: Reward,
        sandbox: Sandbox,
        runner: asyncio.Runner,
        log: RunLog,
    ):
        self.cfg, self.folder, self.trainer = cfg, folder, trainer
        self.runner, self.log = runner, log
        self.plan = [(task, reward, decoding, samples) for decoding, samples in decodings(cfg)]
        self._own = len(self.plan)
        for name in cfg.task.also_evaluate:
            other, other_reward, other_cfg = other_task(name, sandbox)
            self.plan.append((other, other_reward, *decodings(other_cfg)[-1]))  # greedily, where the task is

    def evaluate(self, when: str, own: bool = False) -> None:
        """Evaluate the policy on every task's held-out problems, or on its `own` task's; adds lines to evals.jsonl."""
        step = self.trainer.state.global_step
        key = ("when", "step", "task", "samples", "temperature")
        done = {tuple(row[k] for k in key) for row in read_jsonl(self.folder / "evals.jsonl")}
        with whole_weights(self.trainer) as weights:
            if self.trainer.accelerator.is_main_process:
                training = weights.training
                self._evaluate(when, step, done, weights, self.plan[: self._own] if own else self.plan)
                weights.train(training)
            self.trainer.accelerator.wait_for_everyone()

    def _evaluate(self, when: str, step: int, done: set[tuple], weights: Any, plan: list[tuple]) -> None:
        policy = None
        peak_memory.settle(current_phase())
        for task, reward, decoding, samples in plan:
            if (when, step, task.name, samples, decoding.temperature) in done:
                continue
            policy = policy or policy_to_sample(self.cfg, weights)
            result = evaluate_policy(
                policy,
                self.trainer.processing_class,
                task,
                reward,
                self.runner,
                decoding,
                samples,
                k=list(self.cfg.evaluation.k),
                split=self.cfg.evaluation.split,
                rows_at_once=self.cfg.hardware.eval_rows,
                seed=self.cfg.seed,
            )
            said = {"when": when, "step": step, "task": task.name, "temperature": decoding.temperature}
            self.log.samples({**said, **row} for row in result.rows)
            peak_memory.settle("evaluation")
            peak = peak_memory.take("evaluation")
            self.log.evaluation({"when": when, "step": step, **result.summary, **peak})
            log.info("%s training: %s", when, describe(result.summary))

    def report(self) -> None:
        """Print the table of pass@1 and what is wrong with the run; draw report.html."""
        if not self.trainer.accelerator.is_main_process:
            return
        Console().print(comparison(read_jsonl(self.folder / "evals.jsonl")))
        for line in diagnose(load_history(self.folder)).lines:
            log.info(line)
        log.info("report: %s", write_report(self.folder))


def describe(summary: dict[str, Any]) -> str:
    """One line: pass@k with intervals, share of answers with code, length, time."""
    how = "greedy" if summary["temperature"] == 0 else f"{summary['samples']} samples at {summary['temperature']:g}"
    passes = "  ".join(
        f"pass@{k} {v['value']:.1%} [{v['low']:.1%}, {v['high']:.1%}]" for k, v in summary["pass@k"].items()
    )
    best = f", best {summary['best']:.3f}" if summary["samples"] > 1 and "best" in summary else ""
    return (
        f"{summary['task']} {summary['split']} ({summary['problems']} problems, {how})  {passes}  "
        f"reward {summary['reward']:.3f}{best}  "
        f"code {summary['code']:.0%}  {summary['mean_tokens']:.0f} tokens  {summary['seconds']:.0f} s"
    )


def comparison(evals: list[dict[str, Any]]) -> Table:
    """pass@1 before and after training, with 95 % intervals over problems."""
    table = Table(title="pass@1 on held-out problems")
    for column in ("task", "problems", "decoding", "before", "after", "gain"):
        table.add_column(column, justify="left" if column == "task" else "right")
    found: dict[tuple, dict[str, Any]] = {}
    for row in evals:
        if "1" in row["pass@k"]:
            found.setdefault((row["task"], row["problems"], row["samples"], row["temperature"]), {})[row["when"]] = row
    for (task, problems, samples, temperature), pair in found.items():
        how = "greedy" if temperature == 0 else f"{samples} at temperature {temperature:g}"
        cells = [_cell(pair.get(when)) for when in ("before", "after")]
        gain = ""
        if {"before", "after"} <= pair.keys():
            points = 100 * (pair["after"]["pass@k"]["1"]["value"] - pair["before"]["pass@k"]["1"]["value"])
            gain = f"{points:+.1f} points"
        table.add_row(task, str(problems), how, *cells, gain)
    return table


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    p = row["pass@k"]["1"]
    return f"{p['value']:.1%} \\[{p['low']:.1%}, {p['high']:.1%}]"
