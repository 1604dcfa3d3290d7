"""Rollouts of several turns: a turn of all episodes is sampled, graded and replied to while others are still sampled.

The next turn begins when the last reply is there, in the order of the rows, so that the same random state draws the
same episodes however long programs take to run. Episodes that end early leave the batch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from envs.episode import Dialogue, Episode, Step, with_reply
from envs.task import Problem, Prompted, Task
from recipes.data.completions import AnswerComplete, completion_of
from recipes.data.episodes import EpisodeCompletion, Turn, episode_grade, joined
from recipes.sampling.background_grading import Grader
from recipes.sampling.conversation import Conversation
from recipes.sampling.replies import Replies
from rewards.attribution import TokenBytes
from rewards.channel import Completion
from rewards.compose import Grade

Stored = list[dict[str, Any]]
"""An episode's turns as a checkpoint keeps them: ids, log-probabilities, the reply and its ids."""


class Episodes:
    """
    Args:
        episode: the environment.
        task: what is asked.
        tokenizer, template: of prompts and replies.
        end_ids: what ends a turn.
        grader: grades turns, and runs the environment, beside sampling.
    """

    def __init__(
        self,
        episode: Episode,
        task: Task,
        tokenizer: Any,
        template: Mapping[str, Any],
        end_ids: Sequence[int],
        grader: Grader,
    ):
        self.episode, self.task, self.grader = episode, task, grader
        self._bytes, self._end_ids = TokenBytes(tokenizer), end_ids
        self._replies = Replies(tokenizer, template)

        self.complete = AnswerComplete(task, self._bytes)

    def batch(self) -> EpisodeBatch:
        """A new batch of episodes."""
        return EpisodeBatch(self)

    def completion(self, ids: Sequence[int]) -> Completion:
        """A turn's ids as the reward sees them."""
        return completion_of(ids, self._bytes, self.task, self._end_ids)

    def row(self, turns: Sequence[Turn]) -> Completion:
        """The row of an episode's turns."""
        return joined(turns, self._bytes)

    def reply_ids(self, prompt: Prompted, answer: Completion, reply: str) -> list[int]:
        """Ids of the environment's reply to an answer."""
        return self._replies(prompt, answer.token_ids, reply)


def episodes_of(
    episode: Episode | None,
    task: Task,
    tokenizer: Any,
    template: Mapping[str, Any],
    end_ids: Sequence[int],
    grader: Grader,
) -> Episodes | None:
    """Episodes with a tokenizer of their own, since fast tokenizers refuse two threads at once; None without one."""
    if episode is None:
        return None
    return Episodes(episode, task, copy.deepcopy(tokenizer), template, end_ids, grader)


class EpisodeBatch:
    """Episodes of one batch by their place in it; one thread plays and collects."""

    def __init__(self, owner: Episodes):
        self._owner = owner
        self.problems: list[Problem] = []
        self.turns: list[list[Turn]] = []
        self._graded = owner.grader.batch()
        self._order: list[tuple[int, int]] = []  # (episode, turn) of each answer that was given to be graded

    def play(
        self, conversation: Conversation, problems: Sequence[Problem], prompts: Sequence[Sequence[int]], samples: int
    ) -> None:
        """Episodes of each prompt, `samples` side by side; problems: one for each episode."""
        first, count = len(self.turns), len(problems)
        self.problems += problems
        self.turns += [[] for _ in problems]
        asked = [self._owner.task.messages(problem) for problem in problems]
        messages = list(asked)
        rows, number = list(range(count)), 1
        waiting = _Waiting(self._owner, self.problems[first:], messages)

        def ended(row: int, ids: list[int], logps: list[float]) -> None:
            answer = self.add(first + row, ids, logps)
            if number < self._owner.episode.turns:
                waiting.ask(row, answer, number)

        conversation.begin(prompts, samples, ended)
        while number < self._owner.episode.turns:
            steps = waiting.steps()
            rows = [row for row in rows if not steps[row].done]
            if not rows:
                return
            added = []
            for row in rows:
                turn, reply = self.turns[first + row][-1], steps[row].reply
                added.append(self._owner.reply_ids(asked[row], turn.answer, reply))
                self.turns[first + row][-1] = replace(turn, reply=reply, reply_ids=added[-1])
                messages[row] = with_reply(messages[row], asked[row], turn.answer.text, reply)
            number += 1
            conversation.go_on(rows, added, ended, last=number == self._owner.episode.turns)

    def add(self, place: int, ids: Sequence[int], logps: Sequence[float], reply: str = "", message: Sequence[int] = ()):
        """The next turn of an episode, given to be graded; returns its Completion."""
        answer = self._owner.completion(ids)
        self.turns[place].append(Turn(answer, logps, reply, message))
        self._graded.add(len(self._order), self.problems[place], answer)
        self._order.append((place, len(self.turns[place]) - 1))
        return answer

    def collect(self) -> tuple[list[Completion], list[Grade | None]]:
        """The rows and their grades, when the last is there."""
        grades: list[list[Grade | None]] = [[None] * len(turns) for turns in self.turns]
        for (place, turn), grade in zip(self._order, self._graded.collect(), strict=True):
            grades[place][turn] = grade
        completions = [self._owner.row(turns) for turns in self.turns]
        pay, weights = self._owner.episode.pay, self._owner.grader.reward.weights
        return completions, [
            episode_grade(completion, own, pay, weights) for completion, own in zip(completions, grades, strict=True)
        ]

    @property
    def graded(self) -> int:
        """Answers that were given to be graded."""
        return len(self._order)

    @property
    def seconds(self) -> float:
        """Wall time during which anything of this batch was being graded."""
        return self._graded.seconds

    def restore(self, problems: Sequence[Problem], stored: Sequence[Stored]) -> None:
        """Take up episodes as `stored` gave them; their turns are graded again."""
        self.problems, self.turns = list(problems), [[] for _ in problems]
        for place, turns in enumerate(stored):
            for turn in turns:
                self.add(place, turn["ids"], turn["logps"], turn["reply"], turn["reply_ids"])


def stored(completion: Completion, logps: Sequence[float]) -> Stored:
    """An episode's turns for a checkpoint. logps: of the row; a row of one turn has none of its own."""
    turns = completion.turns if isinstance(completion, EpisodeCompletion) else (Turn(completion, logps),)
    return [
        {
            "ids": list(turn.answer.token_ids),
            "logps": list(turn.logps),
            "reply": turn.reply,
            "reply_ids": list(turn.reply_ids),
        }
        for turn in turns
    ]


class _Waiting:
    """Answers that the environment is asked about, by chunks, while others are sampled."""

    def __init__(self, owner: Episodes, problems: Sequence[Problem], messages: Sequence[Prompted]):
        self._owner, self._problems, self._messages = owner, problems, messages
        self._waiting: list[tuple[int, Dialogue]] = []
        self._asked: list[tuple[list[int], Future[list[Step]]]] = []

    def ask(self, row: int, answer: Completion, number: int) -> None:
        self._waiting.append((row, Dialogue(self._problems[row], self._messages[row], answer, number)))
        if self._owner.grader.chunk and len(self._waiting) >= self._owner.grader.chunk:
            self._send()

    def steps(self) -> dict[int, Step]:
        """The environment's steps by row, when the last is there."""
        if self._waiting:
            self._send()
        steps: dict[int, Step] = {}
        for rows, chunk in self._asked:
            steps.update(zip(rows, chunk.result(), strict=True))
        self._asked = []
        return steps

    def _send(self) -> None:
        rows, dialogues = zip(*self._waiting, strict=True)
        self._waiting = []
        self._asked.append((list(rows), self._owner.grader.start(self._owner.episode.step(dialogues))))
