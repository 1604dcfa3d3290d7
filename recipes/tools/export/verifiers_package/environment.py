"""A task of codegrain as an environment of verifiers: its problems, its replies between turns, its reward.

verifiers finds the three classes in the package's `__all__`: the taskset gives the problems, the environment plays an
episode of each, and the harness asks the model, in this process. No generated code runs in verifiers' runtime: programs
run in codegrain's sandbox on this machine. Tests, references and worlds never enter verifiers' records.

recipes/environment.py copies this file into a package of its own, beside settings.json.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire

from envs.task import Problem
from rewards.build import made, task_episode, task_reward
from rewards.channel import as_completion
from rewards.played_episode import PlayedEpisode

SETTINGS = Path(__file__).parent / "settings.json"


class Grading:
    """The task, its reward and its episode, as the settings describe them."""

    def __init__(self, settings: dict[str, Any]):
        task = settings["task"]
        self.task = made(task["env"])
        self.sandbox = made(settings["sandbox"])
        self.reward = task_reward(task["reward"], bool(task["mean_reward"]), "sparse", self.sandbox)
        self.episode = task_episode(settings["episode"], task["feedback"], self.sandbox)
        self._problems: dict[str, dict[str, Problem]] = {}
        self._ready: set[str] = set()
        self._one_at_a_time = asyncio.Lock()

    def problems(self, split: str) -> dict[str, Problem]:
        """The problems of a split by id."""
        if split not in self._problems:
            self._problems[split] = {problem.id: problem for problem in self.task.problems(split)}
        return self._problems[split]

    async def ready(self, split: str) -> None:
        """Prepare, once, what grading a split and replying about it take."""
        async with self._one_at_a_time:
            if split not in self._ready:
                problems = list(self.problems(split).values())
                await self.reward.ready(problems)
                await self.episode.ready(problems)
                self._ready.add(split)


@functools.cache
def grading() -> Grading:
    """This package's own."""
    return Grading(json.loads(SETTINGS.read_text(encoding="utf-8")))


class CodeData(vf.TaskData):
    """`id` is the problem's."""

    split: str


class CodeTask(vf.Task[CodeData, vf.State, vf.TaskConfig]):
    """One problem. Its reward is what the last answer earns, by channel."""

    @property
    def key(self) -> str:
        """The problem's id."""
        return str(self.data.id)

    @property
    def problem(self) -> Problem:
        """The problem with its tests."""
        return grading().problems(self.data.split)[self.key]

    @vf.reward
    async def graded(self, trace: vf.Trace) -> dict[str, float]:
        """What each channel pays, weighted. Raises RuntimeError where the answer could not be graded: such a rollout is
        an error and no zero."""
        own = grading()
        await own.ready(self.data.split)
        usage = trace.branches[-1].last_usage if trace.branches else None
        answer = as_completion(own.task, said(trace), lambda text: usage.completion_tokens if usage else len(text))
        [grade] = await own.reward.grade([self.problem], [answer])
        if grade is None:
            raise RuntimeError(f"the answer to {self.key} could not be graded")
        if grade.passed is not None:
            trace.record_metric("passed", float(grade.passed))
        return {name: grade.weights[name] * result.score for name, result in grade.results.items()}


def said(trace: vf.Trace) -> str:
    """The model's last message."""
    messages = trace.assistant_messages
    return (messages[-1].content or "") if messages else ""


class CodeTasksetConfig(vf.TasksetConfig):
    split: str = "train"
    """Problems to train on ("train"), or held-out ones ("test", "validation")."""


class CodeTaskset(vf.Taskset[CodeTask, CodeTasksetConfig]):
    """The problems of one split."""

    def load(self) -> Iterable[CodeTask]:
        """A task for each problem, with the prompt that the policy would read in codegrain."""
        split = self.config.split
        for problem in grading().problems(split).values():
            prompt = grading().task.messages(problem)
            system = [message["content"] for message in prompt if message["role"] == "system"]
            asked = [message for message in prompt if message["role"] != "system"]
            data = CodeData(
                id=problem.id,
                name=problem.id,
                split=split,
                system_prompt="\n\n".join(system) or None,
                prompt=asked[0]["content"] if len(asked) == 1 else asked,
            )
            yield CodeTask(data, self.config.task)


class CodeEnvConfig(vf.EnvConfig):
    policy: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class CodeEnv(vf.Env[CodeEnvConfig]):
    """Episodes of several turns: the policy answers, is told what failed, and answers again."""

    async def start(self) -> None:
        """Prepare what grading takes before the first rollout."""
        await grading().ready(self.taskset.config.split)

    async def stop(self) -> None:
        """End the sandbox's processes."""
        await grading().sandbox.close()

    async def run(self, task: CodeTask, agents: vf.Agents) -> None:
        """One episode."""
        own = grading()
        played = PlayedEpisode(own.task, task.problem, own.episode)
        async with agents.policy.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                step = await played.reply(as_completion(own.task, said(interaction.trace)))
                if step.done:
                    break
                segment = await interaction.turn(step.reply)


class ChatConfig(vf.HarnessConfig):
    pass


class Chat(vf.Harness[ChatConfig]):
    """Asks the model once a turn with the whole conversation, without tools."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """One request to verifiers' own endpoint, which records it."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        async with httpx.AsyncClient(timeout=None) as client:
            reply = await client.post(
                f"{endpoint.rstrip('/')}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return vf.ProgramResult(exit_code=int(reply.status_code >= 400), stdout="", stderr=reply.text)
