"""PPO without a critic: a value is the mean reward of continuations drawn from where a line of code begins.

Kazemnejad et al. 2024, "VinePPO", arXiv 2410.01679, section 4; segments as in Guo et al. 2025, "Segment Policy
Optimization", arXiv 2505.23564. A completion is cut where lines of its code begin. The value at a cut is the mean total
reward of `continuations` answers that go on from there, the value at the prompt the mean of the prompt's other
completions. All tokens of a segment share the difference between the values at its two ends; the last segment ends
with the completion's own reward. What a channel pays on single tokens therefore plays no part: it is in both values.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from recipes.data.completions import completion_of
from recipes.trainers.advantages import gae, masked_mean
from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.experience import Experience
from rewards.channel import Completion


class MonteCarloPPOTrainer(DensePPOTrainer):
    """
    Args:
        continuations: answers drawn at each cut.
        cuts: a completion is cut at most so often, evenly over the lines of its code after the first.

    Completions of a prompt that all earned the same are cut too. GRPO loses nothing where it leaves them out, since
    their advantage is 0 there; here a segment's is not, and without them the better of two beginnings can be pushed
    down (`test_the_first_segment_moves_towards_the_better_beginning`). The KL penalty of a segment's tokens counts as
    reward of that segment.
    """

    def __init__(self, continuations: int, cuts: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.continuations, self.cuts = continuations, cuts

    def logps_and_values(self, e: Experience) -> None:
        """Log-probabilities as ever, then `cuts` (B lists of tokens where segments begin) and the values there."""
        super().logps_and_values(e)
        started = time.perf_counter()
        graded = ~e.scores.isnan()
        e.cuts = [
            [0, *line_cuts(answer, self.cuts)] if cut else [0]
            for answer, cut in zip(e.answers, graded.tolist(), strict=True)
        ]
        means = mean_of_others(e.scores.view(-1, e.samples_per_prompt)).flatten()
        e.values[:, 0] = means.nan_to_num()
        alone = means.isnan().tolist()
        asked = [(row, cut) for row in graded.nonzero().flatten().tolist() for cut in e.cuts[row] if cut or alone[row]]
        for (row, cut), value in zip(asked, self._continued(e, asked), strict=True):
            e.values[row, cut] = value
        self._drawn_for_values = len(asked) * self.continuations
        self._clock["seconds/continuations"] = time.perf_counter() - started

    def _continued(self, e: Experience, asked: list[tuple[int, int]]) -> list[float]:
        """Mean reward of continuations from each (row, cut); the row's own reward where none could be graded."""
        k = self.continuations
        totals: dict[int, float] = {}
        order = sorted(range(len(asked)), key=lambda i: len(e.prompts[asked[i][0]]) + asked[i][1])
        at_once = max(1, len(e.completions) // k)
        for first in range(0, len(order), at_once):
            part = order[first : first + at_once]
            begun = [
                list(e.answers[row].token_ids[: e.answers[row].given + cut]) for row, cut in (asked[i] for i in part)
            ]
            prompts = [e.prompts[row] + e.completions[row][:cut] for row, cut in (asked[i] for i in part)]
            ids = self.sampler(self.policy, prompts, k, begun=begun)
            whole = [begun[place // k] + row for place, row in enumerate(ids)]
            answers = [completion_of(row, self._token_bytes, self.task, self._end_ids) for row in whole]
            problems = [e.problems[asked[part[place // k]][0]] for place in range(len(ids))]
            grades = self._grade(problems, answers)
            scores = self.scores_of(grades, answers).view(-1, k).nanmean(1)
            totals.update(zip(part, scores.tolist(), strict=True))
        own = e.scores.tolist()
        return [own[row] if totals[i] != totals[i] else totals[i] for i, (row, _) in enumerate(asked)]

    def advantages(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Generalised advantage estimation over segments, the same for all tokens of one, divided by its root mean
        square over the tokens of the step that learn, (B, T); and on every token its row's reward minus KL penalty."""
        penalty, graded = -self.kl_coefficient.value * e.kl, ~e.scores.isnan()
        advantages = torch.zeros_like(e.rewards)
        for row in graded.nonzero().flatten().tolist():
            length, cuts = len(e.completions[row]), e.cuts[row]
            ends = torch.tensor([*cuts[1:], length])
            values = e.values[row, torch.tensor(cuts)]
            rewards = torch.stack([penalty[row, a:b].sum() for a, b in zip(cuts, ends.tolist(), strict=True)])
            rewards[-1] += e.scores[row]
            own = gae(rewards[None], values[None], 1.0, self.args.lam)[0][0]
            advantages[row, :length] = own.repeat_interleave((ends - torch.tensor(cuts)).to(own.device))
        learns = e.mask & graded[:, None]
        size = masked_mean(advantages.square(), learns, self.total).sqrt()
        advantages = advantages * learns / (size + 1e-8)
        totals = e.scores.nan_to_num() + penalty.sum(1)
        return advantages, totals[:, None] * e.mask

    def graded_samples(self, e: Experience) -> int:
        """Completions and continuations."""
        return super().graded_samples(e) + self._drawn_for_values


def mean_of_others(scores: torch.Tensor) -> torch.Tensor:
    """(G, n) scores of groups, NaN where an answer has none: the mean of each answer's group without its own, (G, n);
    NaN where no other has a score. With its own in it the mean would take away 1/n of the first segment's advantage."""
    own, graded = scores.nan_to_num(), ~scores.isnan()
    others = graded.sum(1, keepdim=True) - graded.int()
    return (own.sum(1, keepdim=True) - own) / others.where(others > 0, torch.nan)


def line_cuts(answer: Completion, most: int) -> list[int]:
    """Tokens where a completion is cut: the first of each line of its code after the first line, or `most` of them,
    evenly chosen; counted from the first that was sampled. A token that ends one line and begins the next belongs to
    the next."""
    if answer.code_span is None or answer.code is None:
        return []
    at, starts = answer.code_span[0], []
    for number, line in enumerate(answer.code.splitlines(keepends=True)):
        if number and line.strip():
            starts.append(at)
        at += len(line)
    ends = [end for _, end in answer.offsets]
    tokens = {next(t for t, end in enumerate(ends) if end > start) - answer.given for start in starts}
    cuts = sorted(token for token in tokens if token > 0)
    if len(cuts) <= most:
        return cuts
    return [cuts[i * len(cuts) // most] for i in range(most)]
