"""Simulator: what a robot program does, in an open world for training and in closed worlds with checks for evaluation.

A problem without worlds runs in RoboSim (envs/roboeval). The score is the probability that a run ends without an error,
computed by exploring its random choices. The code is paid 1, and each failure takes its probability from the call that
fails, or from all the code if it has no location. RoboSim does not see what a program leaves undone. Therefore `guard`
pays 0 if some run calls no function of the robot, and `instructed` is the share of the score that depends on how many
of the instruction's nouns and actions occur in the program's events. `reward=runs` is the reward of the dense-rewards
work: passes / 5 random runs, and -0.1 on every token if none passes or there is no program.

A problem with worlds scores 1 if every trace satisfies its check, else 0 with the penalty on the failing call. `passed`
is whether it does; the verdict is one of RoboEval's four, or "no program".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from envs.roboeval import Exploration, Judgement, Place, Request, explore, judge
from envs.roboeval.task import program_of
from envs.sandbox import Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

NO_PASS = -0.1
"""Reward of each token if no run passes, with reward=runs."""
EVENT_OF_ACTION = {
    "go_to": "GoTo",
    "is_in_room": "CheckEntity",
    "ask": "Ask",
    "say": "Say",
    "pick": "Pick",
    "place": "Place",
}


class Simulator:
    """
    Args:
        sandbox: where programs run.
        reward: "probability" or "runs".
        mode: "hardened", or "compat" for RoboEval's own verdicts.
        shaking: "tree", "none" or "text", see envs.roboeval.explore.
        runs: number of random runs of reward=runs.
        guard: True pays 0 to a program that can end without calling the robot.
        instructed: share of the score that depends on the instruction's nouns and actions, from 0 to 1.

    Raises:
        ValueError: an unknown reward, or `instructed` outside 0 to 1.
    """

    judges_form = True  # with reward=runs every token may have a penalty

    def __init__(
        self,
        sandbox: Sandbox,
        reward: str = "probability",
        mode: Any = "hardened",
        shaking: Any = "tree",
        runs: int = 5,
        guard: bool = True,
        instructed: float = 0.0,
    ):
        if reward not in ("probability", "runs") or not 0 <= instructed <= 1:
            raise ValueError(
                f"simulator.reward={reward}, simulator.instructed={instructed}: reward must be probability or runs, "
                "instructed from 0 to 1"
            )
        self.sandbox, self.reward, self.mode, self.shaking = sandbox, reward, mode, shaking
        self.runs, self.guard, self.instructed = runs, guard, instructed

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = [self._no_program(completion) for completion in completions]
        with_code = [i for i, completion in enumerate(completions) if completion.code and completion.code.strip()]
        closed = [i for i in with_code if "worlds" in problems[i].data]
        requests = [
            Request(
                program_of(completions[i].code or ""),
                problems[i].data["worlds"],
                problems[i].data["conditions"],
                self.mode,
            )
            for i in closed
        ]
        for i, judgement in zip(closed, await judge(self.sandbox, requests), strict=True):
            results[i] = None if judgement is None else _closed_world_result(completions[i], judgement, problems[i])
        opened = [i for i in with_code if "worlds" not in problems[i].data]
        programs = [program_of(completions[i].code or "") for i in opened]
        explorations = await explore(self.sandbox, programs, mode=self.mode, shaking=self.shaking, runs=self.runs)
        for i, exploration in zip(opened, explorations, strict=True):
            if exploration is None:
                results[i] = None
            else:
                results[i] = self._open_world_result(problems[i], completions[i], exploration)
        return results

    def _no_program(self, completion: Completion) -> ChannelResult:
        spans: tuple[Span, ...] = ()
        if self.reward == "runs":
            spans = (Span(0, len(completion.text), NO_PASS * len(completion.token_ids)),)
        score = sum(span.value for span in spans)
        return ChannelResult(score, spans, passed=False, verdict="no program", note="no program")

    def _open_world_result(self, problem: Problem, completion: Completion, exploration: Exploration) -> ChannelResult:
        explored = Fraction(1) - Fraction(exploration.unexplored)
        success = float(Fraction(exploration.outcomes.get("ok", "0")) / explored) if explored else 0.0
        idle = self.guard and not exploration.reaches_call
        share = instructed_share(problem, exploration)
        passed = success == 1.0 and not idle and share == 1.0
        worst = max(exploration.failures, key=lambda failure: Fraction(failure.probability), default=None)
        verdict = "ok" if success == 1.0 else worst.outcome if worst else "timeout"
        note = f"ends well with probability {success:.2f}" + (f", {verdict}" if success < 1 else "")
        if idle:
            return ChannelResult(0.0, passed=False, verdict="idle", note="can end without calling the robot")
        if self.reward == "runs":
            if not exploration.passes:
                return self._no_program(completion)
            share_of_runs = exploration.passes / exploration.runs
            note = f"{exploration.passes} of {exploration.runs} runs"
            span = Span(*_code_span(completion), share_of_runs)
            return ChannelResult(share_of_runs, (span,), passed=passed, verdict=verdict, note=note)
        highest = 1 - self.instructed * (1 - share)
        if share < 1 and self.instructed:
            note += f", {share:.0%} of the instruction's nouns and actions"
        failures = [
            (_text_span(completion, failure.span), float(Fraction(failure.probability) / explored) * highest)
            for failure in exploration.failures
            if failure.span is not None
        ]
        score, spans = _charged_spans(completion, highest, success * highest, failures)
        return ChannelResult(score, spans, passed=passed, verdict=verdict, note=note)


def instructed_share(problem: Problem, exploration: Exploration) -> float:
    """The share of the instruction's nouns and actions that occur in the program's events; 1 if none is listed."""
    text_of_events = " ".join(f"{text} {options or ''}" for _, text, options in exploration.events).lower()
    kinds = {kind for kind, _, _ in exploration.events}
    nouns, actions = problem.data.get("nouns", ()), problem.data.get("actions", ())
    hits = [noun.lower() in text_of_events for noun in nouns] + [EVENT_OF_ACTION[action] in kinds for action in actions]
    return sum(hits) / len(hits) if hits else 1.0


def _closed_world_result(completion: Completion, judgement: Judgement, problem: Problem) -> ChannelResult:
    passed = judgement.verdict == "Success"
    verdict = judgement.verdict if judgement.extracted else "no program"
    failures = [] if judgement.span is None else [(_text_span(completion, judgement.span), 1.0)]
    decisive = next((r for r in judgement.worlds if r.result not in ("sat",)), judgement.worlds[0])
    detail = {
        "world": decisive.world,
        "rooms": list(problem.data["worlds"][decisive.world].rooms),
        "start": problem.data["worlds"][decisive.world].robot_start,
        "trace": [[kind, text] for kind, text, _ in decisive.trace],
        "error": decisive.error,
    }
    score, spans = _charged_spans(completion, 1.0, float(passed), failures)
    return ChannelResult(score, spans, passed=passed, verdict=verdict, note=judgement.note, detail=detail)


def _code_span(completion: Completion) -> tuple[int, int]:
    assert completion.code_span is not None
    return completion.code_span


def _text_span(completion: Completion, place: Place) -> tuple[int, int]:
    """Characters (start, end) of a place of the whole program in the completion's text; empty if the place lies in the
    line that the prompt gave."""
    assert completion.code is not None
    start, end = _code_span(completion)
    given = len(program_of(completion.code)) - len(completion.code)
    return min(max(start, start + place.start - given), end), min(max(start, start + place.end - given), end)


def _charged_spans(
    completion: Completion, highest: float, score: float, failures: Sequence[tuple[tuple[int, int], float]]
) -> tuple[float, tuple[Span, ...]]:
    """The score, and the spans that sum to it: all the code is paid at most `highest`, failures take their penalties.

    Args:
        failures: characters (start, end) and the penalty there.
    """
    charged = [Span(*place, -penalty) for place, penalty in failures if place[0] < place[1] and penalty]
    whole = score - sum(span.value for span in charged)
    spans = (Span(*_code_span(completion), min(whole, highest)), *charged)
    return sum(span.value for span in spans), spans
