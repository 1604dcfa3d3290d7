"""Episodes of several turns: the policy answers, the environment says what went wrong, the policy repairs its answer.

1. An episode is a conversation. A `Dialogue` is the problem, the messages so far and the policy's newest turn; an
   `Episode` answers it with a `Step`: the environment's reply, or the end.
2. `Repair` replies with what a person at a screen would see. What that is depends on the task, so a task names its
   `Feedback` in conf/task/<task>.yaml (envs/feedback/): public tests, a simulator, a compiler.
3. Only tests that the prompt itself shows are run for a reply (feedback/shown_tests.py), so no hidden value can leak.
   The episode ends where they all pass, where feedback fails, or after `turns` turns.
4. Each turn is graded by the task's own reward as an answer of one turn is; `pay` says which grades are paid:
   "last" pays the last turn alone, "improvement" pays each turn what it adds to the turn before. Both sum to the last
   turn's reward. `gamma` discounts what later turns earn, once for each turn between.
5. The reply is hostile text: it is cut, and escaped here (feedback/plain_text.py) and once more for the tokenizer's own
   marks (recipes/sampling/replies.py), so that it opens no turn.
6. The environment's tokens are read and never trained on. Sampling is recipes/sampling/episodes.py, the arithmetic of
   trainers recipes/trainers/turns.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from envs.feedback.observation import Feedback, Observation
from envs.feedback.plain_text import cut, plain
from envs.task import Message, Problem, Prompted, TaskError

Pay = Literal["last", "improvement"]
PAYS: tuple[Pay, ...] = get_args(Pay)


class Answer(Protocol):
    """What the environment sees of a turn: its text, the code that the task extracted (None: there is none), and
    whether it ended by itself."""

    @property
    def text(self) -> str: ...

    @property
    def code(self) -> str | None: ...

    @property
    def finished(self) -> bool: ...


@dataclass(frozen=True)
class Dialogue:
    """A conversation that ends with a turn of the policy's.

    messages: all before that turn, as the task's prompt began them. turn: its number, from 1.
    """

    problem: Problem
    messages: Prompted
    answer: Answer
    turn: int = 1


@dataclass(frozen=True)
class Step:
    """reply: the environment's message, empty where the episode is over."""

    reply: str
    done: bool


class Episode(Protocol):
    """An environment over any code task. `turns` is the most that the policy may take; `pay` and `gamma` say what the
    turns earn."""

    turns: int
    pay: Pay
    gamma: float

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Prepare what replying about those problems takes. Raises ValueError with a message of one line."""
        ...

    async def step(self, dialogues: Sequence[Dialogue]) -> list[Step]:
        """The environment's steps, in order. It is asked for every turn but the last one allowed."""
        ...


TEMPLATE = """{feedback}

Repair it. Answer with {answer} in one code block."""
ANSWER = "the whole corrected code"
"""What a reply asks for, unless the task's feedback says it."""
NO_CODE = "The answer has no complete code block, so nothing was run."


class Repair:
    """Replies with what a person would see of a failing program, until nothing is left to repair.

    Args:
        feedback: how the task looks at programs.
        turns: turns of the policy, at least 1.
        pay: "last" or "improvement".
        gamma: discount between turns, from 0 to 1.
        template: the reply, with the place {feedback}, and {answer} where it says what to answer with.
        max_chars: longest feedback, in characters; its middle is left out.

    Raises:
        TaskError: a value out of its range, or a template without its place.
    """

    def __init__(
        self,
        feedback: Feedback,
        turns: int = 2,
        pay: Pay = "last",
        gamma: float = 1.0,
        template: str = TEMPLATE,
        max_chars: int = 800,
    ):
        if turns < 1:
            raise TaskError(f"episode.turns={turns}: an episode has at least one turn; set episode.turns=2")
        if pay not in PAYS:
            raise TaskError(f"episode.pay={pay}: unknown; choose {' or '.join(PAYS)}")
        if not 0 <= gamma <= 1:
            raise TaskError(f"episode.gamma={gamma}: a discount lies between 0 and 1; set episode.gamma=1")
        if "{feedback}" not in template:
            raise TaskError("episode.template has no {feedback}, so the policy would not see what failed; add it")
        if max_chars < 80:
            raise TaskError(f"episode.max_chars={max_chars}: less than a line of feedback; set episode.max_chars=800")
        self.feedback, self.turns, self.pay, self.gamma = feedback, turns, pay, gamma
        self.template, self.max_chars = template, max_chars

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Prepare the feedback. Raises ValueError with a message of one line."""
        await self.feedback.ready(problems)

    async def step(self, dialogues: Sequence[Dialogue]) -> list[Step]:
        """A reply to each program that has something to repair."""
        answers = [dialogue.answer.code for dialogue in dialogues]
        empty = getattr(self.feedback, "takes_empty", False)  # of masked lines, none is an answer
        with_code = [i for i, code in enumerate(answers) if code is not None and (code.strip() or empty)]
        seen = await self.feedback.observe(
            [dialogues[i].problem for i in with_code], [dialogues[i].answer.code or "" for i in with_code]
        )
        observations = [Observation(False, NO_CODE)] * len(dialogues)
        for i, observation in zip(with_code, seen, strict=True):
            observations[i] = observation
        return [self._step(observation) for observation in observations]

    def _step(self, observation: Observation) -> Step:
        if observation.fine or observation.failed:
            return Step("", done=True)
        asked = self.template.replace("{answer}", getattr(self.feedback, "answer", ANSWER))
        return Step(asked.replace("{feedback}", cut(plain(observation.text), self.max_chars)), done=False)


def with_reply(messages: Prompted, prompt: Prompted, answer: str, reply: str) -> Prompted:
    """The messages before the next turn: those so far, the policy's turn and the environment's reply.

    A conversation goes on with a message of the assistant's and one of the user's, and with what the prompt begins of
    each answer. A text goes on with the reply and the prompt once more.
    """
    if isinstance(messages, str):
        assert isinstance(prompt, str)
        return f"{messages}{answer}{as_text(prompt, reply)}"
    open_for = messages[-1:] if messages[-1]["role"] == "assistant" else []  # what the prompt begins for the assistant
    begun = "".join(message["content"] for message in open_for)
    printed: list[Message] = [{"role": "assistant", "content": begun + answer}, {"role": "user", "content": reply}]
    begins = [{"role": "assistant", "content": begun_by(prompt)}] if begun_by(prompt) else []
    return [*messages[: len(messages) - len(open_for)], *printed, *begins]


def begun_by(prompt: Prompted) -> str:
    """What a prompt begins of the assistant's answer, in each turn; "" where it begins nothing."""
    if isinstance(prompt, str) or prompt[-1]["role"] != "assistant":
        return ""
    return prompt[-1]["content"]


def as_text(prompt: str, reply: str) -> str:
    """What stands between two turns of a policy that continues texts."""
    return f"\n\n{reply}\n\n{prompt}"
