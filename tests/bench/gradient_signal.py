"""How much of a GRPO update is signal: ways to credit tokens, compared by their gradients on the same sampled answers.

    python tests/bench/gradient_signal.py runs/grpo/basics/RUN --batches 100

RUN is a run directory of recipes/grpo.py: its settings say what is sampled, and the policy is the one that it began
with. Batches as in that training are sampled, graded and turned into gradients in three ways: `answer` (the whole
answer's advantage on every token), `dense` (that, and what tokens and parts earned) and `lines` (recipe.credit=lines).
The mean gradient of `answer`, G, is up to a factor that of the expected reward. Of each way with gradients g:

    signal      <E g, G>^2 / (E|g|^2 |G|^2), from pairs of different batches: how far one batch's step goes along G,
                beside its length. Batches that are needed for the same progress go with 1 / signal.
    cosine      of E g and G; if it is below 1 by more than noise, the way is biased

Standard errors leave out one tenth of the batches at a time (jackknife). The last line is one JSON object. 100 batches
of 64 answers of a policy with 0.6M weights take a quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch
from omegaconf import OmegaConf

from envs.task import Problem
from recipes.data.chat_tokens import prompt_ids
from recipes.data.completions import AnswerComplete, completion_of
from recipes.evaluation.task_soundness import training_problems
from recipes.models.load import load_policy
from recipes.run.build import build_reward, build_sandbox, build_task
from recipes.sampling.background_grading import Grader
from recipes.sampling.generate import Decoding, end_ids, sample
from recipes.sampling.group_batch import GroupRollout, rewards_of
from recipes.trainers.group_advantages import GroupAdvantages
from recipes.trainers.line_credit import LineCredit
from rewards.attribution import TokenBytes

WAYS = ("answer", "dense", "lines")
TENTHS = 10


class Batches:
    """Sampled and graded batches of a training, and their gradients in each way."""

    def __init__(self, run: Path, seed: int):
        self.cfg = cfg = OmegaConf.load(run / "config.yaml")
        cfg.reward.placement = "dense"
        self.reward = build_reward(cfg, build_sandbox(cfg))
        self.task = training_problems(cfg, build_task(cfg, "train"), self.reward, run)
        self.policy, self.tokenizer = load_policy(cfg.model, cfg.hardware, cfg.adapter)
        self.policy.eval()
        self.weights = [weights for weights in self.policy.parameters() if weights.requires_grad]
        self.ends, self.bytes = end_ids(self.tokenizer, self.policy), TokenBytes(self.tokenizer)
        self.group, self.temperature = cfg.recipe.trl.num_generations, cfg.recipe.trl.temperature
        self.grader = Grader(self.reward, cfg.recipe.grading_chunk)
        self.order, self.left = random.Random(seed), list[Problem]()
        self.generator = torch.Generator().manual_seed(seed)

    def drawn(self) -> GroupRollout:
        """The next batch."""
        problems = self.task.problems("train")
        while len(self.left) < self.cfg.recipe.prompts_per_step:
            self.left += self.order.sample(problems, len(problems))
        chosen = [self.left.pop() for _ in range(self.cfg.recipe.prompts_per_step)]
        prompts = [prompt_ids(self.task, problem, self.tokenizer) for problem in chosen]
        decoding = Decoding(self.cfg.task.max_new_tokens, self.temperature)
        complete = AnswerComplete(self.task, self.bytes)
        pad = self.tokenizer.pad_token_id
        answers = sample(self.policy, prompts, self.group, decoding, self.ends, pad, complete, self.generator)
        rollout = GroupRollout(
            [problem for problem in chosen for _ in range(self.group)],
            [completion_of(ids, self.bytes, self.task, self.ends) for ids in answers],
            [],
            prompt_ids=[prompt for prompt in prompts for _ in range(self.group)],
        )
        batch = self.grader.batch()
        for place, (problem, completion) in enumerate(zip(rollout.problems, rollout.completions, strict=True)):
            batch.add(place, problem, completion)
        rollout.grades = batch.collect()
        return rollout

    def advantages(self, rollout: GroupRollout) -> dict[str, torch.Tensor]:
        """(B, T) of each way."""
        longest = max(len(completion.token_ids) for completion in rollout.completions)
        rewards = rewards_of(rollout.grades).view(-1, self.group)
        credit = LineCredit(self.task, self.grader, self.group, lambda text: len(self.tokenizer(text)["input_ids"]))
        results = {}
        for way, shaping, lines in (("answer", 0.0, None), ("dense", 1.0, None), ("lines", 0.0, credit)):
            of_tokens = GroupAdvantages(self.group, longest, "none", shaping, 1, 1.0, lines)
            result = of_tokens(rollout, [rewards])
            results[way] = result if result.dim() > 1 else result[:, None].expand(-1, longest)
        return results

    def gradients(self, rollout: GroupRollout) -> dict[str, torch.Tensor]:
        """Of the mean over tokens of advantage times log-probability, all weights in one vector."""
        advantages, at_once = self.advantages(rollout), self.cfg.hardware.rows_per_device
        tokens = sum(len(completion.token_ids) for completion in rollout.completions)
        results = {way: torch.zeros(sum(map(torch.numel, self.weights))) for way in WAYS}
        for first in range(0, len(rollout.completions), at_once):
            rows = range(first, min(first + at_once, len(rollout.completions)))
            logps = self._logps(rollout, rows)
            for way in WAYS:
                weighted = [advantages[way][row, : len(logp)] @ logp for row, logp in zip(rows, logps, strict=True)]
                found = torch.autograd.grad(
                    torch.stack(weighted).sum() / tokens, self.weights, retain_graph=True, allow_unused=True
                )
                flat = [
                    torch.zeros_like(w) if each is None else each for w, each in zip(self.weights, found, strict=True)
                ]
                results[way] += torch.cat([each.flatten() for each in flat])
        return results

    def _logps(self, rollout: GroupRollout, rows: Sequence[int]) -> list[torch.Tensor]:
        whole = [[*rollout.prompt_ids[row], *rollout.completions[row].token_ids] for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(each) for each in whole], batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(each)) for each in whole], batch_first=True)
        logits = self.policy(input_ids=ids, attention_mask=mask).logits[:, :-1].float() / self.temperature
        logps = torch.log_softmax(logits, -1).gather(2, ids[:, 1:, None]).squeeze(2)
        return [
            logp[len(rollout.prompt_ids[row]) - 1 : len(each) - 1]
            for logp, row, each in zip(logps, rows, whole, strict=True)
        ]


class Sums:
    """Sums over batches, by tenths: of gradients, of their squares, and of their products with those of `answer`."""

    def __init__(self) -> None:
        self.batches = 0
        self.gradients: dict[tuple[str, int], torch.Tensor] = {}
        self.squares: dict[tuple[str, int], float] = {}
        self.products: dict[tuple[str, int], float] = {}

    def add(self, gradients: dict[str, torch.Tensor]) -> None:
        tenth = self.batches % TENTHS
        self.batches += 1
        for way, gradient in gradients.items():
            key = way, tenth
            self.gradients[key] = self.gradients.get(key, 0) + gradient
            self.squares[key] = self.squares.get(key, 0.0) + float(gradient @ gradient)
            self.products[key] = self.products.get(key, 0.0) + float(gradient @ gradients["answer"])

    def result(self) -> dict[str, Any]:
        """Signal and cosine of each way, with standard errors; of signals, times that of `answer`."""
        whole, without = self._figures(None), [self._figures(tenth) for tenth in range(TENTHS)]
        rows = {}
        for way in WAYS:
            times = [each[way][0] / each["answer"][0] for each in without]
            cosines = [each[way][1] for each in without]
            rows[way] = {
                "signal": whole[way][0],
                "times": whole[way][0] / whole["answer"][0],
                "times_error": _jackknife(times),
                "cosine": whole[way][1],
                "cosine_error": _jackknife(cosines),
            }
        return {"batches": self.batches, "ways": rows}

    def _figures(self, left_out: int | None) -> dict[str, tuple[float, float]]:
        tenths = [tenth for tenth in range(TENTHS) if tenth != left_out]
        count = sum(len(range(tenth, self.batches, TENTHS)) for tenth in tenths)
        pairs = count * (count - 1)
        total = {way: sum(self.gradients[way, tenth] for tenth in tenths) for way in WAYS}
        squares = {way: sum(self.squares[way, tenth] for tenth in tenths) for way in WAYS}
        products = {way: sum(self.products[way, tenth] for tenth in tenths) for way in WAYS}
        true = (float(total["answer"] @ total["answer"]) - squares["answer"]) / pairs  # |G|^2
        results = {}
        for way in WAYS:
            along = (float(total[way] @ total["answer"]) - products[way]) / pairs
            own = (float(total[way] @ total[way]) - squares[way]) / pairs
            positive = true > 0 and own > 0
            cosine = along / math.sqrt(own * true) if positive else math.nan
            results[way] = (along**2 / (squares[way] / count) / true if positive else math.nan), cosine
        return results


def _jackknife(values: Sequence[float]) -> float:
    return math.sqrt((len(values) - 1) * statistics.pvariance(values))


def measured(run: Path, batches: int, seed: int) -> Iterator[dict[str, Any]]:
    """The result after each ten batches."""
    source, sums, passed, mixed = Batches(run, seed), Sums(), 0.0, 0
    try:
        while sums.batches < batches:
            rollout = source.drawn()
            if None in rollout.grades:
                continue
            sums.add(source.gradients(rollout))
            passed += statistics.mean(bool(grade and grade.passed) for grade in rollout.grades)
            mixed += rollout.mixed_answers
            if sums.batches % TENTHS == 0 and sums.batches > TENTHS:
                answers = sums.batches * len(rollout.grades)
                yield {
                    **sums.result(),
                    "answers": answers,
                    "pass_rate": passed / sums.batches,
                    "mixed_answers": mixed / answers,
                }
    finally:
        source.grader.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run directory of recipes/grpo.py")
    parser.add_argument("--batches", type=int, default=100, help="a multiple of ten, at least 20")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.batches < 2 * TENTHS or args.batches % TENTHS:
        parser.error(f"--batches {args.batches}: must be a multiple of {TENTHS}, at least {2 * TENTHS}")
    result: dict[str, Any] = {}
    for result in measured(args.run, args.batches, args.seed):
        lines = (
            f"  {way:7} {row['times']:.2f} ± {row['times_error']:.2f} of answer's signal, cosine {row['cosine']:.2f} "
            f"± {row['cosine_error']:.2f}"
            for way, row in result["ways"].items()
        )
        print(f"{result['batches']} batches", *lines, sep="\n", file=sys.stderr, flush=True)
    print(json.dumps({"run": str(args.run), "seed": args.seed, **result}))


if __name__ == "__main__":
    main()
