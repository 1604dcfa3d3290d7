"""What PPO and REINFORCE do differently where an answer has several turns (envs/episode.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from envs.task import Problem
from recipes.data.episodes import turns_of, written_tokens
from recipes.sampling.episodes import Episodes
from recipes.sampling.sampler import Sampler
from recipes.sampling.vllm import ServerSampler
from recipes.trainers.experience import Experience
from recipes.trainers.turns import (
    discount_columns,
    earlier_pays,
    gae_over_turns,
    returns_over_turns,
    turn_columns,
    written_columns,
)


class PpoTurns:
    """
    Args:
        episodes: how they are played and graded.
        sampler: of the policy.
        gamma, lam: PPO's own, for the steps within a turn.
    """

    def __init__(self, episodes: Episodes, sampler: Sampler | ServerSampler, gamma: float, lam: float):
        self.episodes, self._sampler, self._gamma, self._lam = episodes, sampler, gamma, lam

    @property
    def most(self) -> int:
        """Turns of an episode at most."""
        return self.episodes.episode.turns

    def play(self, policy: Any, problems: Sequence[Problem], prompts: Sequence[Sequence[int]], n: int) -> Experience:
        """`n` graded episodes of each prompt; problems: one for each episode."""
        batch = self.episodes.batch()
        with self._sampler.conversation(policy) as conversation:
            batch.play(conversation, problems, prompts, n)
        answers, grades = batch.collect()
        return Experience(
            problems=list(problems),
            prompts=[list(p) for p in prompts for _ in range(n)],
            completions=[list(answer.token_ids) for answer in answers],
            samples_per_prompt=n,
            answers=answers,
            grades=grades,
        )

    def mark(self, e: Experience) -> None:
        """Enter the environment's reply, which is no step: out of `mask` and `states`."""
        device = e.mask.device
        lengths = torch.tensor([len(c) for c in e.completions], device=device)
        within = torch.arange(e.width, device=device) < lengths[:, None]
        e.reply = within & ~written_columns(e.answers, e.width).to(device)
        e.turn = turn_columns(e.answers, e.width).to(device)
        e.discounts = discount_columns(e.answers, e.width, self._gamma, self.episodes.episode.gamma).to(device)
        e.mask, e.states = e.mask & ~e.reply, e.states & ~e.reply

    def earlier(self, e: Experience) -> torch.Tensor:
        """(B, T): what sparse placement pays turns before the last."""
        return earlier_pays(e.answers, e.grades, e.width).to(e.mask.device)

    def gae(self, e: Experience) -> tuple[torch.Tensor, torch.Tensor]:
        """Advantages and returns of the steps."""
        return gae_over_turns(e.rewards, e.values, e.reply, e.discounts, self._lam)

    def returns(self, e: Experience) -> torch.Tensor:
        """Rewards-to-go of the steps."""
        return returns_over_turns(e.rewards, e.reply, e.discounts)

    def graded(self, e: Experience) -> int:
        """Answers that were graded: one a turn."""
        return sum(len(turns_of(answer)) for answer in e.answers)

    def written(self, e: Experience) -> int:
        """Tokens that the policy wrote."""
        return sum(map(written_tokens, e.answers))
