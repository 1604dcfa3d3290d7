"""Simulator: what a robot's program does, in an open world to train on and in closed worlds with checks to evaluate.

Problems without worlds are run in RoboSim (envs/roboeval): score = probability that a run ends without an error, found
by exploring its random choices. The code is paid 1 and each way to fail takes its probability from the failing call;
what has no place is taken from the whole. RoboSim does not see what was left undone, so `guard` pays nothing to a
program with a run that calls no function of the robot, and `instructed` is the share of the score that goes by the
instruction's own nouns and actions in what the program did. `reward=runs` is that of the dense-rewards work: passes / 5
random runs, and -0.1 on every token where none passes or there is no program.

Problems with worlds: 1 where every trace is as asked, else 0, the failing call charged. `passed` says whether it is
right, the verdict is one of RoboEval's four, or "no program".
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
"""Of each token, where no run passes and reward=runs."""
KINDS = {"go_to": "GoTo", "is_in_room": "CheckEntity", "ask": "Ask", "say": "Say", "pick": "Pick", "place": "Place"}


class Simulator:
    """
    Args:
        sandbox: where programs run.
        reward: "probability" or "runs".
        mode: "hardened", or "compat" for RoboEval's own verdicts.
        shaking: "tree", "none" or "text", see envs.roboeval.explore.
        runs: random runs of reward=runs.
        guard: True pays nothing to a program that can end without calling the robot.
        instructed: share of the score that goes by the instruction's nouns and actions, from 0 to 1.

    Raises:
        ValueError: an unknown reward, or `instructed` outside 0 to 1.
    """

    judges_form = True  # reward=runs charges every token

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
            raise ValueError(f"simulator: reward={reward} is probability or runs, instructed={instructed} from 0 to 1")
        self.sandbox, self.reward, self.mode, self.shaking = sandbox, reward, mode, shaking
        self.runs, self.guard, self.instructed = runs, guard, instructed

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        results: list[ChannelResult | None] = [self._nothing(completion) for completion in completions]
        there = [i for i, completion in enumerate(completions) if completion.code and completion.code.strip()]
        closed = [i for i in there if "worlds" in problems[i].data]
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
            results[i] = None if judgement is None else _judged(completions[i], judgement, problems[i])
        opened = [i for i in there if "worlds" not in problems[i].data]
        programs = [program_of(completions[i].code or "") for i in opened]
        explored = await explore(self.sandbox, programs, mode=self.mode, shaking=self.shaking, runs=self.runs)
        for i, found in zip(opened, explored, strict=True):
            results[i] = None if found is None else self._explored(problems[i], completions[i], found)
        return results

    def _nothing(self, completion: Completion) -> ChannelResult:
        spans: tuple[Span, ...] = ()
        if self.reward == "runs":
            spans = (Span(0, len(completion.text), NO_PASS * len(completion.token_ids)),)
        score = sum(span.value for span in spans)
        return ChannelResult(score, spans, passed=False, verdict="no program", note="no program")

    def _explored(self, problem: Problem, completion: Completion, found: Exploration) -> ChannelResult:
        seen = Fraction(1) - Fraction(found.unexplored)
        right = float(Fraction(found.outcomes.get("ok", "0")) / seen) if seen else 0.0
        idle = self.guard and not found.reaches_call
        share = instructed_share(problem, found)
        passed = right == 1.0 and not idle and share == 1.0
        worst = max(found.failures, key=lambda failure: Fraction(failure.probability), default=None)
        verdict = "ok" if right == 1.0 else worst.outcome if worst else "timeout"
        note = f"ends well with probability {right:.2f}" + (f", {verdict}" if right < 1 else "")
        if idle:
            return ChannelResult(0.0, passed=False, verdict="idle", note="can end without calling the robot")
        if self.reward == "runs":
            if not found.passes:
                return self._nothing(completion)
            return _spread(
                completion, found.passes / found.runs, passed, verdict, f"{found.passes} of {found.runs} runs"
            )
        worth = 1 - self.instructed * (1 - share)
        if share < 1 and self.instructed:
            note += f", {share:.0%} of what was named"
        failing = [
            (_span(completion, failure.span), float(Fraction(failure.probability) / seen) * worth)
            for failure in found.failures
            if failure.span is not None
        ]
        return _charged(completion, worth, right * worth, failing, passed=passed, verdict=verdict, note=note)


def instructed_share(problem: Problem, found: Exploration) -> float:
    """Which share of the instruction's nouns and actions occurs in what the program did; 1 where none is known."""
    said = " ".join(f"{text} {options or ''}" for _, text, options in found.events).lower()
    kinds = {kind for kind, _, _ in found.events}
    nouns, actions = problem.data.get("nouns", ()), problem.data.get("actions", ())
    hits = [noun.lower() in said for noun in nouns] + [KINDS[action] in kinds for action in actions]
    return sum(hits) / len(hits) if hits else 1.0


def _judged(completion: Completion, judgement: Judgement, problem: Problem) -> ChannelResult:
    right = judgement.verdict == "Success"
    verdict = judgement.verdict if judgement.extracted else "no program"
    failing = [] if judgement.span is None else [(_span(completion, judgement.span), 1.0)]
    decisive = next((r for r in judgement.worlds if r.result not in ("sat",)), judgement.worlds[0])
    detail = {
        "world": decisive.world,
        "rooms": list(problem.data["worlds"][decisive.world].rooms),
        "start": problem.data["worlds"][decisive.world].robot_start,
        "trace": [[kind, text] for kind, text, _ in decisive.trace],
        "error": decisive.error,
    }
    return _charged(
        completion, 1.0, float(right), failing, passed=right, verdict=verdict, note=judgement.note, detail=detail
    )


def _span(completion: Completion, place: Place) -> tuple[int, int]:
    """A place of the whole program in the completion's text; empty where it lies in the line that the prompt gave."""
    assert completion.code_span is not None and completion.code is not None
    start, end = completion.code_span
    given = len(program_of(completion.code)) - len(completion.code)
    return min(max(start, start + place.start - given), end), min(max(start, start + place.end - given), end)


def _charged(
    completion: Completion, paid: float, score: float, failing: Sequence[tuple[tuple[int, int], float]], **said: Any
) -> ChannelResult:
    """The code is paid `paid`; failing places lose their part, and the whole what else is missing to `score`."""
    assert completion.code_span is not None
    spans = [Span(*place, -part) for place, part in failing if place[0] < place[1] and part]
    whole = score - sum(span.value for span in spans)
    spans = [Span(*completion.code_span, min(whole, paid)), *spans]
    return ChannelResult(sum(span.value for span in spans), tuple(spans), **said)


def _spread(completion: Completion, score: float, passed: bool, verdict: str, note: str) -> ChannelResult:
    """Shared by the code's tokens."""
    assert completion.code_span is not None
    return ChannelResult(score, (Span(*completion.code_span, score),), passed=passed, verdict=verdict, note=note)
