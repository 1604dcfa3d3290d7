"""GRPO's rollouts: prompts drawn, answers sampled and graded at once, groups refilled, the next batch ahead of time.

What runs beside what: answers are graded while others are sampled (always, by chunks); with `lookahead`, the next batch
is sampled and graded while the trainer updates on this one, from a copy of the policy as it stood before that update.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from datasets import Dataset

from envs.task import Problem, Task
from recipes.cli.errors import Stopped
from recipes.cli.stopping import phase
from recipes.data.chat_tokens import encoded
from recipes.data.completions import AnswerComplete, completion_of
from recipes.data.curriculum import Curriculum
from recipes.data.episodes import written_tokens
from recipes.data.parts import earned, groups_that_differ
from recipes.data.prompt_order import PromptRows
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import Episodes, stored
from recipes.sampling.generate import cut
from recipes.sampling.group_batch import (
    AnswerSums,
    GroupCounts,
    GroupRollout,
    count_groups,
    degenerate_groups,
    rewards_of,
    sum_counts,
    sums,
)
from recipes.sampling.policy_copy import SamplingCopy
from recipes.sampling.prefix import ReferencePrefixes, Shown
from recipes.sampling.sampler import Sampler
from recipes.sampling.vllm import ServerSampler
from rewards.attribution import TokenBytes

External = Callable[[list[list[int]]], tuple[list[list[int]], list[list[float]] | None]]


class GivenUp(RuntimeError):
    """Sampling was given up because training has ended."""


@dataclass(frozen=True)
class RolloutSettings:
    """
    rows: completions a batch in this process. group: completions a problem.
    at_once: completions sampled together; None: all.
    refill_rounds: how often groups without a signal are replaced by new ones (Yu et al. 2025, DAPO, section 3.2).
    lookahead_dtype: dtype of the copy of the policy that samples the next batch while this one trains; None: none.
    parts: True: a group whose total rewards are equal still teaches something if the rewards of one part differ.
    """

    rows: int
    group: int
    at_once: int | None = None
    refill_rounds: int = 0
    lookahead_dtype: torch.dtype | None = None
    parts: bool = False


class Rollouts:
    """
    Args:
        dataset, stream: the training problems (`prompt`, `problem_id`) and what chooses the next ones.
        task, problems: what is asked, by `problem_id`.
        tokenizer, template: of the prompts; further arguments of apply_chat_template.
        sampler, grader: how answers are drawn and graded.
        episodes: rows are episodes of several turns; None: answers of one turn.
        external: samples in place of the sampler (vLLM, a policy in shards): prompts' ids to completions' ids and,
            where known, log-probabilities.
        prefixes: which groups are drawn again behind the beginning of the reference, and behind how much; None: none.
    """

    def __init__(
        self,
        settings: RolloutSettings,
        dataset: Dataset,
        stream: PromptRows | Curriculum,
        task: Task,
        problems: Mapping[str, Problem],
        tokenizer: Any,
        template: Mapping[str, Any],
        sampler: Sampler | ServerSampler,
        grader: Grader,
        seed: int,
        external: External | None = None,
        prefixes: ReferencePrefixes | None = None,
        episodes: Episodes | None = None,
    ):
        self.prefixes = prefixes
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

    @property
    def selects(self) -> bool:
        """Whether groups of a batch can be left out or replaced (by refilling or by reference prefixes)."""
        return bool(self.settings.refill_rounds) or self.prefixes is not None

    def next(self, policy: Any, more: bool = True) -> GroupRollout:
        """The next batch. With lookahead, begins the one after it, unless this is the last (`more` is False).

        Raises Stopped if the run is asked to stop. The state is then unchanged: the next call gives the same batch.
        """
        started = time.perf_counter()
        if self.settings.lookahead_dtype is None:
            rollout = self._undone_if_stopped(policy)
        else:
            self._ahead = self._ahead or self._begin(policy)
            rollout = self._ahead.result()
            with phase("rollout", interruptible=True):  # a request to stop has waited for the batch
                pass
            with phase("rollout"):  # a stop within would lose the batch: it is the next one's turn in a checkpoint
                self._ahead = self._begin(policy) if more else None
        rollout.clock["seconds/wait"] = time.perf_counter() - started
        return rollout

    def describe(self) -> str:
        """One line for the user: what runs beside what, and what waits."""
        s, chunk = self.settings, self.grader.chunk
        if self.external or not chunk:
            grading = "when all answers of the step are sampled"
        elif isinstance(self.sampler, ServerSampler):
            grading = "as answers come from the vLLM server"
        else:
            grading = f"{chunk} answers at a time, while others are sampled"
        if s.lookahead_dtype is None:
            return f"grading: {grading}; then the update (recipe.lookahead=1 samples the next batch during it)"
        return (
            f"grading: {grading}; the next batch is sampled and graded during the update, from a copy of the policy on "
            "the same device, so that grading takes no time of its own"
        )

    def close(self) -> None:
        """Stop sampling and grading; what was begun is lost."""
        self._stopped = True
        if self._pool is not None:
            self._pool.shutdown()
        self.grader.close()

    def state(self) -> dict[str, Any]:
        """State for an exact resume: the position in the data, the random state, and the batch that is sampled ahead,
        for whose end it waits."""
        sampled = None
        if self._ahead is not None:
            ahead = self._ahead.result()
            ids = [list(completion.token_ids) for completion in ahead.completions]
            sampled = {
                "rows": ahead.rows,
                "ids": ids,
                "given": [completion.given for completion in ahead.completions],
                "logps": ahead.logps,
                "left_out": list(ahead.left_out),
                "from_prompt": list(ahead.from_prompt),
                "sampling_metrics": ahead.sampling_metrics,
                "prefixed": list(ahead.prefixed),
                "graded_samples": ahead.graded_samples,
            }
            if self.episodes is not None:
                sampled["episodes"] = [
                    stored(completion, logps) for completion, logps in zip(ahead.completions, ahead.logps, strict=True)
                ]
        draws = self._draws.get_state() if self._draws is not None else None
        prefixes = self.prefixes.state() if self.prefixes else None
        return {"position": self.stream.state(), "draws": draws, "ahead": sampled, "prefixes": prefixes}

    def load_state(self, state: Mapping[str, Any], policy: Any) -> None:
        """Take up what `state` gave; answers sampled ahead are graded again."""
        self.stream.load_state(state["position"])
        if state["draws"] is not None:
            self._generator(policy).set_state(state["draws"].cpu())
        if self.prefixes and state["prefixes"]:
            self.prefixes.load_state(state["prefixes"])
        if state["ahead"] is None:
            return
        sampled = state["ahead"]
        begun = [ids[:given] for ids, given in zip(sampled["ids"], sampled["given"], strict=True)]
        rollout = self._empty(sampled["rows"], begun)
        if self.episodes is not None:
            played = self.episodes.batch()
            played.restore(rollout.problems, sampled["episodes"])
            rollout.take_episodes(played)
        else:
            batch = self.grader.batch()
            for place, ids in enumerate(sampled["ids"]):
                self._add(rollout, batch, place, ids, sampled["logps"][place], sampled["given"][place])
            rollout.grades = batch.collect()
        rollout.left_out, rollout.from_prompt = GroupCounts(*sampled["left_out"]), AnswerSums(*sampled["from_prompt"])
        rollout.sampling_metrics, rollout.prefixed = sampled["sampling_metrics"], Shown(*sampled["prefixed"])
        rollout.graded_samples = sampled["graded_samples"]
        self._ahead = Future()
        self._ahead.set_result(rollout)

    def _undone_if_stopped(self, policy: Any) -> GroupRollout:
        generator, position = self._generator(policy), self.stream.state()
        draws, shown = generator.get_state(), self.prefixes.state() if self.prefixes else None
        try:
            with phase("rollout", interruptible=True):
                return self._roll(policy, generator)
        except Stopped:
            self.stream.load_state(position)
            generator.set_state(draws)
            if self.prefixes and shown:
                self.prefixes.load_state(shown)
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
        """One batch: sampled, graded, groups without a pass drawn again behind the beginning of their reference, and
        degenerate groups replaced by groups of further prompts."""
        wanted, group = self.settings.rows, self.settings.group
        drawn = self._new_round(policy, wanted, generator)
        if self.prefixes:
            drawn = self._again_from_prefixes(policy, drawn, generator)
        if not self.settings.refill_rounds:
            return drawn
        for _ in range(self.settings.refill_rounds):
            degenerate = self._degenerate(drawn)
            missing = wanted - group * degenerate.count(False)
            if missing <= 0:
                break
            drawn = drawn + self._new_round(policy, missing, generator)
        degenerate = self._degenerate(drawn)
        best_first = sorted(range(len(degenerate)), key=degenerate.__getitem__)  # those that teach, in their order
        kept, left = sorted(best_first[: wanted // group]), sorted(best_first[wanted // group :])
        rollout = drawn.take([row for n in kept for row in range(n * group, (n + 1) * group)])
        further = count_groups([drawn.grades[n * group : (n + 1) * group] for n in left])
        rollout.left_out = sum_counts(drawn.left_out, further)
        return rollout

    def _new_round(self, policy: Any, rows: int, generator: torch.Generator) -> GroupRollout:
        """Answers to the next problems, from the prompt alone."""
        drawn = self._round(policy, self.stream.draw(rows), generator)
        self.stream.observe(drawn.rows, drawn.grades)
        all_drawn = sums(rewards_of(drawn.grades), drawn.grades)
        return replace(drawn, from_prompt=all_drawn, sampling_metrics=self.stream.metrics())

    def _again_from_prefixes(self, policy: Any, drawn: GroupRollout, generator: torch.Generator) -> GroupRollout:
        """The batch with new groups in place of those in which nothing passed, which are counted as left out."""
        assert self.prefixes is not None
        group = self.settings.group
        chosen = self.prefixes.groups_to_draw_again(drawn.problems, drawn.grades, group)
        if not chosen:
            return drawn
        places = [place for p in chosen for place in range(p.group * group, (p.group + 1) * group)]
        begun = [p.begun for p in chosen for _ in range(group)]
        again = self._round(policy, [drawn.rows[place] for place in places], generator, begun)
        for number, p in enumerate(chosen):
            own = slice(number * group, (number + 1) * group)
            self.prefixes.observe(again.problems[own.start], p.share, again.grades[own])
        both = drawn + again
        order = list(range(len(drawn.rows)))
        for new, place in enumerate(places, len(drawn.rows)):
            order[place] = new
        left = count_groups([drawn.grades[p.group * group : (p.group + 1) * group] for p in chosen])
        return replace(both.take(order), left_out=left, prefixed=self.prefixes.shown)

    def _degenerate(self, rollout: GroupRollout) -> list[bool]:
        """For each group whether it teaches nothing."""
        returns_by_turn = rollout.returns_by_turn(self.settings.group, *self.turns_and_discount)
        alike = torch.stack([degenerate_groups(returns_NG) for returns_NG in returns_by_turn]).all(0)
        if self.settings.parts:
            alike &= ~groups_that_differ(earned(rollout.grades), self.settings.group)
        return alike.tolist()

    def _round(
        self, policy: Any, rows: list[int], generator: torch.Generator, begun: list[list[int]] | None = None
    ) -> GroupRollout:
        """Sample one completion a row and grade it. begun: ids that each row's answer begins with."""
        if self.episodes is not None:
            return self._played(policy, rows, generator, self.episodes)
        started = time.perf_counter()
        rollout, batch = self._empty(rows, begun), self.grader.batch()
        size = max(1, self.settings.at_once or len(rows))
        for first in range(0, len(rows), size):
            part = rollout.prompt_ids[first : first + size]

            def ended(place: int, ids: list[int], logps: list[float], first=first) -> None:
                given = begun[first + place] if begun else []
                self._add(rollout, batch, first + place, given + ids, logps, len(given))

            if self.external:
                completions, logps = self.external(part)
                for place, ids in enumerate(completions):
                    given = begun[first + place] if begun else []
                    room = self.sampler.decoding.max_new_tokens - len(given)
                    drawn = list(ids)[:room], logps[place][:room] if logps else []
                    ended(place, *cut(*drawn, self.sampler.eos_ids, self.sampler.complete, given))
            else:
                repeats = self._repeats(rows[first : first + size])
                answers = begun[first : first + size : repeats] if begun else None
                self.sampler(policy, part[::repeats], repeats, generator, ended, answers)
        sampled = time.perf_counter()
        rollout.grades = batch.collect()
        rollout.graded_samples, rollout.sampled_tokens = len(rows), sum(map(written_tokens, rollout.completions))
        rollout.clock = _clock(started, sampled, batch.seconds)
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
        rollout.graded_samples, rollout.sampled_tokens = batch.graded, sum(map(written_tokens, rollout.completions))
        rollout.clock = _clock(started, sampled, batch.seconds)
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

    def _empty(self, rows: list[int], begun: list[list[int]] | None = None) -> GroupRollout:
        """A batch to be filled. begun: ids that each row's answer begins with; they end its prompt."""
        examples = self.dataset[rows]
        problems = [self.problems[name] for name in examples["problem_id"]]
        by_row = dict(zip(rows, examples["prompt"], strict=True))
        prompt_ids = {row: encoded(prompt, self._tokenizer, **self._template) for row, prompt in by_row.items()}
        none: list[Any] = [None] * len(rows)
        prompts = [prompt_ids[row] + (begun[place] if begun else []) for place, row in enumerate(rows)]
        return GroupRollout(problems, list(none), [], rows, prompts, list(none))

    def _add(
        self, rollout: GroupRollout, batch: Any, place: int, ids: list[int], logps: list[float], given: int
    ) -> None:
        completion = completion_of(ids, self._token_bytes, self.task, self._end_ids, given)
        rollout.completions[place], rollout.logps[place] = completion, logps
        batch.add(place, rollout.problems[place], completion)


def _clock(started: float, sampled: float, grading: float) -> dict[str, float]:
    """Seconds of a rollout: sampling, then waiting for grades, and of all grading, most of it beside sampling."""
    return {
        "seconds/rollout": sampled - started,
        "seconds/grade": time.perf_counter() - sampled,
        "seconds/grading": grading,
    }
