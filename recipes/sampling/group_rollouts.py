"""GRPO's rollouts: prompts drawn, answers sampled and graded at once, groups refilled, the next batch ahead of time.

What runs beside what: answers are graded while others are sampled (always, by chunks); with `lookahead`, the next batch
is sampled and graded while the trainer updates on this one, from a copy of the policy as it stood before that update.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from datasets import Dataset

from envs.task import Problem, Task
from recipes.cli.errors import Stopped
from recipes.cli.stopping import phase
from recipes.data.completions import AnswerComplete, Rollout, completion_of, encoded
from recipes.data.episodes import returns_of, row_logps, turns_of
from recipes.data.prompt_order import PromptRows
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import EpisodeBatch, Episodes, stored
from recipes.sampling.policy_copy import SamplingCopy
from recipes.sampling.sampler import Sampler
from recipes.sampling.vllm import ServerSampler
from rewards.attribution import TokenBytes
from rewards.compose import Grade

External = Callable[[list[list[int]]], tuple[list[list[int]], list[list[float]] | None]]


PER_ROW = ("problems", "completions", "grades", "rows", "prompt_ids", "logps")


class GivenUp(RuntimeError):
    """Sampling was given up because training has ended."""


@dataclass
class GroupRollout(Rollout):
    """One batch of this process. Rows of a group lie side by side.

    rows: the dataset's row numbers. prompt_ids, logps: of each completion; the log-probabilities it was sampled with.
    clock: seconds. left_out: groups that were drawn and left out: how many, and of them how many all passed or all
    failed.
    """

    rows: list[int] = field(default_factory=list)
    prompt_ids: list[list[int]] = field(default_factory=list)
    logps: list[list[float]] = field(default_factory=list)
    clock: dict[str, float] = field(default_factory=dict)
    left_out: tuple[int, int, int] = (0, 0, 0)

    def take(self, places: Sequence[int]) -> GroupRollout:
        """Some of the rows."""
        some: dict[str, Any] = {name: [getattr(self, name)[i] for i in places] for name in PER_ROW}
        return replace(self, **some)

    def take_episodes(self, batch: EpisodeBatch) -> None:
        """Enter the rows of a batch of episodes that has been played, when the last turn is graded."""
        self.completions, self.grades = batch.collect()
        self.logps = [row_logps(c, turns[0].logps) for c, turns in zip(self.completions, batch.turns, strict=True)]

    def signals(self, group: int, turns: int = 1, gamma: float = 1.0) -> list[torch.Tensor]:
        """For each of `turns` what is paid from there on, (N, group): NaN where there is no such turn or no grade. Of
        one turn these are the rewards."""
        returns = [returns_of(grade, gamma) for grade in self.grades]
        padded = [[*row, *([torch.nan] * (turns - len(row)))] for row in returns]
        return [torch.tensor(column).view(-1, group) for column in zip(*padded, strict=True)]

    def __add__(self, other: GroupRollout) -> GroupRollout:
        both: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in PER_ROW}
        clock = {name: seconds + other.clock.get(name, 0.0) for name, seconds in self.clock.items()}
        return replace(self, **both, clock=clock)


@dataclass(frozen=True)
class RolloutSettings:
    """
    rows: completions a batch in this process. group: completions a problem.
    at_once: completions sampled together; None: all.
    refill_rounds: how often groups without a signal are replaced by new ones (Yu et al. 2025, DAPO, section 3.2).
    lookahead_dtype: dtype of the copy of the policy that samples the next batch while this one trains; None: none.
    """

    rows: int
    group: int
    at_once: int | None = None
    refill_rounds: int = 0
    lookahead_dtype: torch.dtype | None = None


class Rollouts:
    """
    Args:
        dataset, stream: the training problems (`prompt`, `problem_id`) and the order to draw them in.
        task, problems: what is asked, by `problem_id`.
        tokenizer, template: of the prompts; further arguments of apply_chat_template.
        sampler, grader: how answers are drawn and graded.
        episodes: rows are episodes of several turns; None: answers of one turn.
        external: samples in place of the sampler (vLLM, a policy in shards): prompts' ids to completions' ids and,
            where known, log-probabilities.
    """

    def __init__(
        self,
        settings: RolloutSettings,
        dataset: Dataset,
        stream: PromptRows,
        task: Task,
        problems: Mapping[str, Problem],
        tokenizer: Any,
        template: Mapping[str, Any],
        sampler: Sampler | ServerSampler,
        grader: Grader,
        seed: int,
        external: External | None = None,
        episodes: Episodes | None = None,
    ):
        self.settings, self.dataset, self.stream = settings, dataset, stream
        self.task, self.problems = task, problems
        self.sampler, self.grader, self.external = replace(sampler, complete=self._complete), grader, external
        self.episodes = episodes
        # fast tokenizers refuse two threads at once
        self._tokenizer, self._template = copy.deepcopy(tokenizer), dict(template)
        self._token_bytes, self._end_ids = TokenBytes(self._tokenizer), sampler.eos_ids
        self._answered = AnswerComplete(task, self._token_bytes)
        self._copy: SamplingCopy | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: Future[GroupRollout] | None = None
        self._stopped = False
        self._draws: torch.Generator | None = None
        self._seed = seed

    @property
    def turns_and_discount(self) -> tuple[int, float]:
        """How many turns an episode has at most, and the discount between them."""
        return (1, 1.0) if self.episodes is None else (self.episodes.episode.turns, self.episodes.episode.gamma)

    def next(self, policy: Any, more: bool = True) -> GroupRollout:
        """The next batch. With lookahead, begins the one after it, unless this is the last (`more` is False).

        Raises Stopped where the run is asked to stop, standing as before: the same batch comes next.
        """
        started = time.perf_counter()
        if self.settings.lookahead_dtype is None:
            rollout = self._undone_if_stopped(policy)
        else:
            self._ahead = self._ahead or self._begin(policy)
            rollout = self._ahead.result()
            with phase("rollout", interruptible=True):  # a request to stop has waited for the batch
                self._ahead = self._begin(policy) if more else None
        rollout.clock["seconds/wait"] = time.perf_counter() - started
        return rollout

    def describe(self) -> str:
        """One line for the user: what runs beside what, and what waits."""
        s, chunk = self.settings, self.grader.chunk
        if self.external or not chunk:
            grading = "answers are graded when all are sampled"
        elif isinstance(self.sampler, ServerSampler):
            grading = "answers are graded as they come from the vLLM server"
        else:
            grading = f"answers are graded by {chunk} while others are sampled"
        if s.lookahead_dtype is None:
            return f"overlap: {grading}; the update waits for both (recipe.lookahead=1 makes the next batch meanwhile)"
        return (
            f"overlap: {grading}; the next batch is sampled and graded during the update, from a copy of the policy on "
            "the same device: what sampling and updating compute they share, what grading takes is hidden"
        )

    def close(self) -> None:
        """Stop sampling and grading; what was begun is lost."""
        self._stopped = True
        if self._pool is not None:
            self._pool.shutdown()
        self.grader.close()

    def state(self) -> dict[str, Any]:
        """What it takes to go on exactly: the place in the data, the random state, the batch ahead once it is there."""
        sampled = None
        if self._ahead is not None:
            ahead = self._ahead.result()
            ids = [list(completion.token_ids) for completion in ahead.completions]
            sampled = {"rows": ahead.rows, "ids": ids, "logps": ahead.logps, "left_out": list(ahead.left_out)}
            if self.episodes is not None:
                sampled["episodes"] = [stored(turns_of(completion)) for completion in ahead.completions]
        draws = self._draws.get_state() if self._draws is not None else None
        return {"position": self.stream.position, "draws": draws, "ahead": sampled}

    def load_state(self, state: Mapping[str, Any], policy: Any) -> None:
        """Take up what `state` gave; answers sampled ahead are graded again."""
        self.stream.seek(state["position"])
        if state["draws"] is not None:
            self._generator(policy).set_state(state["draws"].cpu())
        if state["ahead"] is None:
            return
        sampled = state["ahead"]
        rollout = self._empty(sampled["rows"])
        if self.episodes is not None:
            played = self.episodes.batch()
            played.restore(rollout.problems, sampled["episodes"])
            rollout.take_episodes(played)
        else:
            batch = self.grader.batch()
            for place, ids in enumerate(sampled["ids"]):
                self._add(rollout, batch, place, ids, sampled["logps"][place])
            rollout.grades = batch.collect()
        rollout.left_out = tuple(sampled["left_out"])
        self._ahead = Future()
        self._ahead.set_result(rollout)

    def _undone_if_stopped(self, policy: Any) -> GroupRollout:
        generator, position = self._generator(policy), self.stream.position
        draws = generator.get_state()
        try:
            with phase("rollout", interruptible=True):
                return self._roll(policy, generator)
        except Stopped:
            self.stream.seek(position)
            generator.set_state(draws)
            raise

    def _begin(self, policy: Any) -> Future[GroupRollout]:
        """Copy the policy as it is and sample from the copy in another thread."""
        assert self.settings.lookahead_dtype is not None
        self._pool = self._pool or ThreadPoolExecutor(1, "rollout")
        self._copy = self._copy or SamplingCopy(policy, self.settings.lookahead_dtype)
        return self._pool.submit(self._roll, self._copy.sync(policy), self._generator(policy))

    def _generator(self, policy: Any) -> torch.Generator:
        """Random numbers of its own: what the update draws at the same time (dropout) is not mixed in."""
        self._draws = self._draws or torch.Generator(policy.device).manual_seed(self._seed)
        return self._draws

    def _roll(self, policy: Any, generator: torch.Generator) -> GroupRollout:
        """One batch: sampled, graded, and its degenerate groups replaced by groups of further prompts."""
        wanted, group = self.settings.rows, self.settings.group
        drawn = self._round(policy, self.stream.draw(wanted), generator)
        if not self.settings.refill_rounds:
            return drawn
        for _ in range(self.settings.refill_rounds):
            degenerate = self._degenerate(drawn)
            missing = wanted - group * degenerate.count(False)
            if missing <= 0:
                break
            drawn = drawn + self._round(policy, self.stream.draw(missing), generator)
        degenerate = self._degenerate(drawn)
        best_first = sorted(range(len(degenerate)), key=degenerate.__getitem__)  # those that teach, in their order
        kept, left = sorted(best_first[: wanted // group]), sorted(best_first[wanted // group :])
        rollout = drawn.take([row for n in kept for row in range(n * group, (n + 1) * group)])
        rollout.left_out = _count([drawn.grades[n * group : (n + 1) * group] for n in left])
        return rollout

    def _degenerate(self, rollout: GroupRollout) -> list[bool]:
        """For each group whether it teaches nothing."""
        signals = rollout.signals(self.settings.group, *self.turns_and_discount)
        by_turn = [degenerate_groups(signal) for signal in signals]
        return torch.stack(by_turn).all(0).tolist()

    def _round(self, policy: Any, rows: list[int], generator: torch.Generator) -> GroupRollout:
        """Sample one completion a row and grade it."""
        if self.episodes is not None:
            return self._played(policy, rows, generator, self.episodes)
        started = time.perf_counter()
        rollout, batch = self._empty(rows), self.grader.batch()
        size = max(1, self.settings.at_once or len(rows))
        for first in range(0, len(rows), size):
            part = rollout.prompt_ids[first : first + size]

            def ended(place: int, ids: list[int], logps: list[float], first=first) -> None:
                self._add(rollout, batch, first + place, ids, logps)

            if self.external:
                completions, logps = self.external(part)
                for place, ids in enumerate(completions):
                    ended(place, list(ids), logps[place] if logps else [])
            else:
                repeats = self._repeats(rows[first : first + size])
                self.sampler(policy, part[::repeats], repeats, generator, ended)
        sampled = time.perf_counter()
        rollout.grades = batch.collect()
        rollout.clock = {
            "seconds/rollout": sampled - started,
            "seconds/grade": time.perf_counter() - sampled,
            "seconds/grading": batch.seconds,
        }
        return rollout

    def _played(self, policy: Any, rows: list[int], generator: torch.Generator, episodes: Episodes) -> GroupRollout:
        """Play one episode a row and grade its turns."""
        started = time.perf_counter()
        rollout, batch = self._empty(rows), episodes.batch()
        size = max(1, self.settings.at_once or len(rows))
        for first in range(0, len(rows), size):
            part, repeats = slice(first, first + size), self._repeats(rows[first : first + size])
            with self.sampler.conversation(policy, generator) as conversation:
                batch.play(conversation, rollout.problems[part], rollout.prompt_ids[part][::repeats], repeats)
        sampled = time.perf_counter()
        rollout.take_episodes(batch)
        rollout.clock = {
            "seconds/rollout": sampled - started,
            "seconds/grade": time.perf_counter() - sampled,
            "seconds/grading": batch.seconds,
        }
        return rollout

    def _repeats(self, rows: Sequence[int]) -> int:
        """How many rows side by side share a prompt, so that it is read once; 1 where a group lies across parts."""
        group = self.settings.group
        blocks = [rows[i : i + group] for i in range(0, len(rows), group)]
        return group if all(len(b) == group and len(set(b)) == 1 for b in blocks) else 1

    def _complete(self, ids: list[int]) -> bool:
        if self._stopped:
            raise GivenUp
        return self._answered(ids)

    def _empty(self, rows: list[int]) -> GroupRollout:
        examples = self.dataset[rows]
        problems = [self.problems[name] for name in examples["problem_id"]]
        prompts = dict(zip(rows, examples["prompt"], strict=True))
        prompt_ids = {row: encoded(prompt, self._tokenizer, **self._template) for row, prompt in prompts.items()}
        none: list[Any] = [None] * len(rows)
        return GroupRollout(problems, list(none), [], rows, [prompt_ids[row] for row in rows], list(none))

    def _add(self, rollout: GroupRollout, batch: Any, place: int, ids: list[int], logps: list[float]) -> None:
        completion = completion_of(ids, self._token_bytes, self.task, self._end_ids)
        rollout.completions[place], rollout.logps[place] = completion, logps
        batch.add(place, rollout.problems[place], completion)


def rewards_of(grades: Sequence[Grade | None]) -> torch.Tensor:
    """Total rewards (B,), NaN where a completion could not be graded."""
    return torch.tensor([torch.nan if grade is None else grade.total for grade in grades])


def degenerate_groups(rewards_NG: torch.Tensor) -> torch.Tensor:
    """Which groups teach nothing, since all graded rewards are equal or fewer than two completions are graded: (N,).

    rewards_NG: NaN where a completion could not be graded.
    """
    low = rewards_NG.nan_to_num(nan=torch.inf).min(1).values
    high = rewards_NG.nan_to_num(nan=-torch.inf).max(1).values
    return ~(high - low > 1e-6)


def _count(groups: Sequence[Sequence[Grade | None]]) -> tuple[int, int, int]:
    """How many groups there are, and of them how many where all that were graded passed, or failed."""
    passed = [[g.passed for g in group if g is not None and g.passed is not None] for group in groups]
    return len(groups), sum(bool(p) and all(p) for p in passed), sum(bool(p) and not any(p) for p in passed)
