"""Simulator: what a robot program does, beside a reference program in training and in worlds with checks in evaluation.

A problem with a reference program and without worlds is graded by behaviour (envs/roboeval/behaviour.py): program and
reference run in the same worlds, made from what the reference looked for, and the score is the mean share of what the
reference asked, said, picked and put down there, at the right places. The code is paid 1; what a world loses is taken
from the call that fails, and from the calls that do something else than was asked. With acts=each, what an act of the
reference earns lies on the calls that do it, and GRPO compares it with the same act of the group's other programs.

Without a reference the program runs in RoboSim's open world (Hu et al. 2025, arXiv 2405.20179). The score is the
probability that a run ends without an error, times the share of what the instruction names that the program uses
(envs/roboeval/instructions.py): weaker, since it does not know what is right. Each failure takes its probability from
the call that fails. `reward=runs` is the reward of the dense-rewards paper: passes / 5 random runs of RoboSim, and -0.1
on every token if none passes or there is no program. It says nothing of the task: one `say` earns it in full.

A problem with worlds scores 1 if every trace satisfies its check, else 0 with the penalty on the failing call. `passed`
is whether it does; the verdict is one of RoboEval's four, or "no program".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from envs.indentation import without_indent
from envs.roboeval import MODES, SHAKINGS, Exploration, Judgement, Place, Request, explore, judge
from envs.roboeval.behaviour import Marks, marks
from envs.roboeval.closed_world import NAMES
from envs.roboeval.extraction import DEFINES
from envs.roboeval.instructions import named_share
from envs.roboeval.reference_world import START
from envs.roboeval.references import Reference, Task, WorldRun, references, run_in
from envs.roboeval.task import program_of
from envs.sandbox import Sandbox
from envs.task import Problem
from rewards.channel import ChannelResult, Completion, Span

NO_PASS = -0.1
"""Reward of each token if no run passes, with reward=runs."""
ACTS = ("together", "each")
MOST_REFERENCES = 4000
"""References whose worlds are kept."""
ROBOT_ERROR = re.compile(r"(?:Exception|TypeError): (Robot\w{1,40}Error)\b")
PYTHON_ERROR = re.compile(r"([A-Za-z_]\w{0,60})\b")
Penalty = tuple[tuple[int, int], float]
"""Characters (start, end) of the completion, and the penalty there."""


class Simulator:
    """
    Args:
        sandbox: where programs run.
        reward: "behaviour" or "runs".
        mode: "hardened", or "compat" for RoboEval's own verdicts. Beside a reference, programs always run hardened.
        shaking: "tree", "none" or "text", see envs.roboeval.explore.
        runs: number of random runs of reward=runs.
        guard: True pays 0 to a program that can end without calling the robot in the open world.
        acts: beside a reference, "together" pays all the code; with "each" every act of the reference is a part of the
            answer (Span.part).

    Raises:
        ValueError: an unknown reward, mode, shaking or acts.
    """

    pays_outside_code = True  # with reward=runs every token may have a penalty

    def __init__(
        self,
        sandbox: Sandbox,
        reward: str = "behaviour",
        mode: Any = "hardened",
        shaking: Any = "tree",
        runs: int = 5,
        guard: bool = True,
        acts: Any = "together",
    ):
        if reward not in ("behaviour", "runs"):
            raise ValueError(
                f"task.reward.simulator.reward={reward}: unknown, so nothing can be graded; set it to behaviour "
                "(beside the reference program) or runs (the published reward)"
            )
        for name, value, known in (("mode", mode, MODES), ("shaking", shaking, SHAKINGS), ("acts", acts, ACTS)):
            if value not in known:
                raise ValueError(f"task.reward.simulator.{name}={value}: unknown; set it to {', '.join(known)}")
        self.sandbox, self.reward, self.mode, self.shaking = sandbox, reward, mode, shaking
        self.runs, self.guard, self.acts = runs, guard, acts
        self.known: dict[Task, Reference] = {}

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
        trained = [i for i in with_code if "worlds" not in problems[i].data]
        beside = await self._references({i: problems[i] for i in trained})
        await self._grade_beside(beside, completions, results)
        opened = [i for i in trained if i not in beside]
        programs = [program_of(completions[i].code or "") for i in opened]
        explorations = await explore(self.sandbox, programs, mode=self.mode, shaking=self.shaking, runs=self.runs)
        for i, exploration in zip(opened, explorations, strict=True):
            if exploration is None:
                results[i] = None
            else:
                results[i] = self._open_world_result(problems[i], completions[i], exploration)
        return results

    async def _references(self, problems: Mapping[int, Problem]) -> dict[int, Reference | None]:
        """The references of the problems that have one with worlds; None where the sandbox failed."""
        if self.reward == "runs":
            return {}
        tasks = {i: Task(p.question, p.reference, p.data.get("ordered")) for i, p in problems.items() if p.reference}
        # kept here too: while references are made, other answers' may push these out of `known`
        found: dict[Task, Reference | None] = {task: self.known[task] for task in tasks.values() if task in self.known}
        new = [task for task in dict.fromkeys(tasks.values()) if task not in found]
        for task, matches in zip(new, await references(self.sandbox, new), strict=True):
            found[task] = matches
            if matches is not None:
                self.known[task] = matches
        beside = {i: found[task] for i, task in tasks.items()}
        while len(self.known) > MOST_REFERENCES:
            del self.known[next(iter(self.known))]
        return {i: matches for i, matches in beside.items() if matches is None or matches.worlds}

    async def _grade_beside(
        self,
        beside: Mapping[int, Reference | None],
        completions: Sequence[Completion],
        results: list[ChannelResult | None],
    ) -> None:
        """Put the results of programs that have a reference into `results`."""
        with_worlds = {i: matches for i, matches in beside.items() if matches is not None}
        programs = [(program_of(completions[i].code or ""), matches.worlds) for i, matches in with_worlds.items()]
        for i in beside:
            results[i] = None
        for (i, matches), runs in zip(with_worlds.items(), await run_in(self.sandbox, programs), strict=True):
            if runs is not None:
                results[i] = _behaviour_result(completions[i], matches, runs, self.acts == "each")

    def _no_program(self, completion: Completion) -> ChannelResult:
        spans: tuple[Span, ...] = ()
        if self.reward == "runs":
            spans = (Span(0, len(completion.text), NO_PASS * len(completion.token_ids)),)
        score = sum(span.value for span in spans)
        return ChannelResult(score, spans, passed=False, verdict="no program", note="no program")

    def _open_world_result(self, problem: Problem, completion: Completion, exploration: Exploration) -> ChannelResult:
        # what was not explored because the program used up its turns does not count as well ended
        explored = Fraction(1) - Fraction(exploration.unexplored) if exploration.complete else Fraction(1)
        success = float(Fraction(exploration.outcomes.get("ok", "0")) / explored) if explored else 0.0
        worst = max(exploration.failures, key=lambda failure: Fraction(failure.probability), default=None)
        verdict = "ok" if success == 1.0 else worst.outcome if worst else "timeout"
        note = f"ends well with probability {success:.2f}" + (f", {verdict}" if success < 1 else "")
        if self.guard and "ok" in exploration.outcomes and not exploration.reaches_call:
            return ChannelResult(0.0, passed=False, verdict="idle", note="can end without calling the robot")
        if self.reward == "runs":
            if not exploration.passes:
                return replace(self._no_program(completion), verdict=verdict, note=note)
            share_of_runs = exploration.passes / exploration.runs
            note = f"{exploration.passes} of {exploration.runs} runs"
            span = Span(*_code_span(completion), share_of_runs)
            return ChannelResult(share_of_runs, (span,), passed=success == 1.0, verdict=verdict, note=note)
        named = [problem.data.get(key, ()) for key in ("nouns", "actions")]
        share = named_share(problem.question, exploration.events, *named)
        if share < 1:
            note += f", {share:.0%} of what the instruction names"
        failures = [
            (_text_span(completion, failure.span), float(Fraction(failure.probability) / explored) * share)
            for failure in exploration.failures
            if failure.span is not None
        ]
        score, spans = _charged_spans(completion, share, success * share, failures)
        return ChannelResult(score, spans, passed=success == share == 1.0, verdict=verdict, note=note)


def _behaviour_result(
    completion: Completion, reference: Reference, runs: Sequence[WorldRun], in_parts: bool
) -> ChannelResult:
    """The result of a program beside its reference. in_parts: what an act earns lies on its calls."""
    results = marks(reference, runs)
    penalties: dict[tuple[int, int], float] = {}
    for each in results:
        for place, loss in each.places:
            where = _offsets(completion, place)
            penalties[where] = penalties.get(where, 0.0) + (1 - each.share) * loss / len(results)
    score, acted = sum(each.share for each in results) / len(results), _acts(completion, results) if in_parts else []
    rest, spans = _charged_spans(completion, 1.0, score - sum(span.value for span in acted), [*penalties.items()])
    score, spans = rest + sum(span.value for span in acted), (*spans, *acted)
    passed = all(each.share == 1.0 for each in results)
    errors = Counter(_error_name(run) for run in runs if run.status != "success")
    verdict = "ok" if passed else errors.most_common(1)[0][0] if errors else "differs"
    world = min(range(len(results)), key=lambda number: results[number].share)
    kinds = {"go": "GoTo", **NAMES}
    detail = {
        "world": world,
        "rooms": list(reference.worlds[world]["rooms"]),
        "start": START,
        "trace": [[kinds[deed.kind], deed.room if deed.kind == "go" else deed.text] for deed in runs[world].deeds],
        "error": runs[world].error,
    }
    note = f"as the reference in {sum(each.share == 1.0 for each in results)} of {len(results)} worlds"
    note += "" if passed else f"; world {world}: {results[world].note}"
    return ChannelResult(score, spans, passed=passed, verdict=verdict, note=note, detail=detail)


def _acts(completion: Completion, results: Sequence[Marks]) -> list[Span]:
    """What each act of the reference earned in all worlds, on the calls that did it."""
    spans: dict[tuple[str, int, int], float] = {}
    for met in (met for each in results for met in each.met if met.spans):
        for place in met.spans:
            key = (met.name, *_offsets(completion, place))
            spans[key] = spans.get(key, 0.0) + met.share / len(met.spans) / len(results)
    return [Span(start, end, value, name) for (name, start, end), value in spans.items()]


def _error_name(run: WorldRun) -> str:
    """The name of a run's error, as RoboSim's outcomes are named."""
    if run.status == "timeout":
        return "timeout"
    robot, python = ROBOT_ERROR.match(run.error), PYTHON_ERROR.match(run.error)
    return robot.group(1) if robot else f"Python:{python.group(1) if python else 'Error'}"


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
    return _offsets(completion, (place.start, place.end))


def _offsets(completion: Completion, place: tuple[int, int]) -> tuple[int, int]:
    """Characters (start, end) of a place of the whole program in the completion's text; empty if the place lies in the
    line that the prompt gave."""
    code = completion.code or ""
    start, end = _code_span(completion)
    given, indented = len(program_of(code)) - len(code), DEFINES.search(code) is not None
    _, place_in_code = without_indent(code)

    def in_text(offset: int) -> int:
        own = place_in_code(max(0, offset)) if indented else offset - given
        return min(max(start, start + own), end)

    first, last = in_text(place[0]), in_text(place[1] - 1) + 1
    return first, max(first, min(last, end)) if place[0] < place[1] else first


def _charged_spans(
    completion: Completion, highest: float, score: float, failures: Sequence[Penalty]
) -> tuple[float, tuple[Span, ...]]:
    """The score, and the spans that sum to it: the code is paid at most `highest`, failures take their penalties."""
    charged = [Span(*place, -penalty) for place, penalty in failures if place[0] < place[1] and penalty]
    whole = score - sum(span.value for span in charged)
    spans = (Span(*_code_span(completion), min(whole, highest)), *charged)
    return sum(span.value for span in spans), spans
