"""The same episodes as tools of TRL's own GRPOTrainer: its `environment_factory`, and a reward function for it.

    from trl import GRPOTrainer

    environments = TrlEnvironments(task, reward, Repair(feedback, turns=2), tokenizer)
    GRPOTrainer(model, environments.reward, args, train_dataset=prompt_dataset(task), processing_class=tokenizer,
                environment_factory=environments)

The policy hands in its code by calling the tool `submit`, reads what failed as the tool's answer and calls it again, or
gives the corrected code in a code block of its last message. TRL writes the calls, masks the tool's answers and needs a
chat template with tools (SmolLM2's own has none); trl_rollout.py has episodes without tool calls. TRL has no rewards on
tokens or by turn: an episode is paid as a whole, by its last answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.episode import Episode
from envs.task import Problem, Task, TaskError
from recipes.sampling.background_grading import Grader
from recipes.sampling.replies import Replies
from rewards.audit.answers import as_answer
from rewards.channel import Completion, as_completion
from rewards.compose import Reward
from rewards.played_episode import PlayedEpisode

HOW = "\n\nCall the tool `submit` with the whole code. It says what failed; then submit the corrected code."
"""Ends each prompt, since a policy does not expect to be told what failed."""
TAKEN = "The answer is taken."
"""The tool's answer where nothing is left to repair, or no turn to repair it in."""


class TrlEnvironments:
    """TRL's `environment_factory`: called, it makes an environment, which TRL uses again for further rollouts.

    Args:
        task: rows of the dataset name its training problems (`problem_id`, as prompt_dataset writes them).
        reward: grades the last answers.
        episode: the environment.
        tokenizer: the policy's, which counts an answer's tokens.

    Raises:
        TaskError: the task's prompts begin the answer, or are texts that are continued: they cannot end in a tool call.
    """

    def __init__(self, task: Task, reward: Reward, episode: Episode, tokenizer: Any):
        self.task, self.episode, self.tokenizer = task, episode, tokenizer
        self.replies = Replies(tokenizer, {})
        self.problems = {problem.id: problem for problem in task.problems("train")}
        prompt = task.messages(next(iter(self.problems.values())))
        if isinstance(prompt, str) or prompt[-1]["role"] != "user":
            raise TaskError(
                f"prompts of {task.name} begin the answer themselves, so that it cannot be a tool call: use "
                "EpisodeRollout (recipes/trainers/trl_rollout.py), which continues them"
            )
        self.grader = Grader(reward, 8)

    def __call__(self) -> TrlEnvironment:
        return TrlEnvironment(self)

    def reward(
        self, completions: Sequence[Any], environments: Sequence[TrlEnvironment], **kwargs: Any
    ) -> list[float | None]:
        """TRL's reward function: what the last answers earn; None where one could not be graded, which TRL leaves
        out."""
        answers = [each._last_answer(messages) for each, messages in zip(environments, completions, strict=True)]
        problems = [each._played.problem for each in environments]
        grades = self.grader.start(self.grader.reward.grade(problems, answers)).result()
        return [None if grade is None else grade.total for grade in grades]

    def length(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def close(self) -> None:
        """Stop grading."""
        self.grader.close()


class TrlEnvironment:
    """One rollout at a time. TRL takes each public method but `reset` for a tool and shows its docstring to the
    policy."""

    def __init__(self, owner: TrlEnvironments):
        self._owner = owner

    def reset(self, problem_id: str, **row: Any) -> str:
        """Begin an episode; returns what is added to the prompt. Raises KeyError for no problem of the task's."""
        problem: Problem = self._owner.problems[problem_id]
        self._played = PlayedEpisode(self._owner.task, problem, self._owner.episode)
        return HOW

    def submit(self, code: str) -> str:
        """Runs the code on the examples of the question and says what failed.

        Args:
            code: The whole code.

        Returns:
            What failed, or that the answer is taken.
        """
        owner, played = self._owner, self._played
        answer = as_answer(owner.task, played.problem, str(code), owner.length)

        async def step() -> list[Any]:
            return [await played.reply(answer)]

        [result] = owner.grader.start(step()).result()
        return TAKEN if result.done else owner.replies.broken(result.reply)

    def _last_answer(self, messages: Sequence[Mapping[str, Any]]) -> Completion:
        """The answer that counts: what was submitted last, or the code of a last message, if a turn was left for it."""
        played, last = self._played, messages[-1]
        spoken = as_completion(self._owner.task, str(last.get("content") or ""), self._owner.length)
        speaks = last["role"] == "assistant" and not last.get("tool_calls")
        if not played.answers or (speaks and spoken.code and not played.over):
            played.take(spoken)
        return played.answers[-1]
