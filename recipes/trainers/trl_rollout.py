"""The same episodes under TRL's own GRPOTrainer: its `rollout_func`, and a reward function that reads what it graded.

    from trl import GRPOTrainer

    rollout = EpisodeRollout(task, reward, Repair(feedback, turns=2), tokenizer, Decoding(192))
    GRPOTrainer(model, rollout.reward, args, train_dataset=prompt_dataset(task), processing_class=tokenizer,
                rollout_func=rollout)

TRL masks the environment's replies (`env_mask`). It has no rewards on tokens or by turn: an episode is paid as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from envs.episode import Episode
from envs.task import Prompted, Task
from recipes.data.chat_tokens import encoded
from recipes.data.episodes import places_of, row_logps
from recipes.sampling.background_grading import Grader
from recipes.sampling.episodes import Episodes
from recipes.sampling.generate import Decoding, end_ids
from recipes.sampling.sampler import Sampler
from rewards.compose import Reward


class EpisodeRollout:
    """
    Args:
        task: its training problems are told apart by their prompts.
        reward: grades the turns.
        episode: the environment.
        tokenizer: the policy's.
        decoding: how tokens are drawn; `max_new_tokens` is of each turn.
    """

    def __init__(self, task: Task, reward: Reward, episode: Episode, tokenizer: Any, decoding: Decoding):
        self.task, self.tokenizer, self.decoding, self.episode = task, tokenizer, decoding, episode
        self._grader = Grader(reward, 8)
        self._problems = {_key(task.messages(problem)): problem for problem in task.problems("train")}

    def __call__(self, prompts: Sequence[Prompted], trainer: Any) -> dict[str, list[Any]]:
        """Play an episode for each prompt. Raises KeyError for a prompt that is none of the task's."""
        policy = trainer.accelerator.unwrap_model(trainer.model)
        ends = end_ids(self.tokenizer, policy)
        episodes = Episodes(self.episode, self.task, self.tokenizer, {}, ends, self._grader)
        sampler = Sampler(self.decoding, ends, self.tokenizer.pad_token_id, episodes.complete)
        problems = [self._problems[_key(prompt)] for prompt in prompts]
        prompt_ids = [encoded(prompt, self.tokenizer) for prompt in prompts]
        batch = episodes.batch()
        with sampler.conversation(policy) as conversation:
            batch.play(conversation, problems, prompt_ids, 1)
        rows, grades = batch.collect()
        masks = []
        for row in rows:
            mask = [0] * len(row.token_ids)
            for start, end in places_of(row):
                mask[start:end] = [1] * (end - start)
            masks.append(mask)
        return {
            "prompt_ids": prompt_ids,
            "completion_ids": [list(row.token_ids) for row in rows],
            "logprobs": [row_logps(row, turns[0].logps) for row, turns in zip(rows, batch.turns, strict=True)],
            "env_mask": masks,
            "episode_reward": [None if grade is None else grade.total for grade in grades],
        }

    def reward(self, prompts: Any, completions: Any, episode_reward: list[float | None], **kwargs: Any) -> list[Any]:
        """TRL's reward function: what the episodes earned; None where one could not be graded, which TRL leaves out."""
        return episode_reward

    def close(self) -> None:
        """Stop grading."""
        self._grader.close()


def _key(prompt: Prompted) -> str:
    return json.dumps(prompt, sort_keys=True)
