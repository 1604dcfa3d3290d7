"""An episode whose answers arrive as texts, for programs that draw them elsewhere: TRL's tools, verifiers.

It keeps the conversation and asks the environment (envs/episode.py) for its reply to each answer.
"""

from __future__ import annotations

from envs.episode import Dialogue, Episode, Step, with_reply
from envs.task import Problem, Task
from rewards.channel import Completion


class PlayedEpisode:
    """
    Args:
        task, problem: what is asked.
        episode: the environment.

    `answers` are the policy's turns so far. An episode is worth the grade of the last one, whatever its turns are paid:
    what they are paid sums to it (`episode.pay`).
    """

    def __init__(self, task: Task, problem: Problem, episode: Episode):
        self.problem, self.episode = problem, episode
        self.answers: list[Completion] = []
        self.over = False
        self._asked = self._messages = task.messages(problem)

    async def reply(self, answer: Completion) -> Step:
        """Take the policy's next turn; returns the environment's step. Raises ValueError when the episode is over."""
        self.take(answer)
        step = Step("", done=True)
        if len(self.answers) < self.episode.turns:
            dialogue = Dialogue(self.problem, self._messages, answer, len(self.answers))
            [step] = await self.episode.step([dialogue])
        if not step.done:
            self._messages = with_reply(self._messages, self._asked, answer.text, step.reply)
        self.over = step.done
        return step

    def take(self, answer: Completion) -> None:
        """Take a turn that nothing will be said about. Raises ValueError when the episode is over."""
        if self.over:
            raise ValueError("The episode is over, and no further answer is taken.")
        self.answers.append(answer)
