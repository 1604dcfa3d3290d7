"""Robot programs: what the open-world simulator saw. An evaluation's closed worlds and their checks stay hidden."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from envs.feedback.observation import Observation
from envs.feedback.plain_text import cut, quoted
from envs.roboeval import Exploration, explore
from envs.roboeval.task import program_of
from envs.sandbox import Sandbox
from envs.task import Problem

MOST_EVENTS = 12


class RobotRuns:
    """
    Args:
        sandbox: where programs run.
        mode, shaking: see envs.roboeval.explore.

    A program is fine where every run in RoboSim's invented worlds ends well and calls the robot.
    """

    def __init__(self, sandbox: Sandbox, mode: Any = "hardened", shaking: Any = "tree"):
        self.sandbox, self.mode, self.shaking = sandbox, mode, shaking

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Nothing to prepare."""

    async def observe(self, problems: Sequence[Problem], codes: Sequence[str]) -> list[Observation]:
        """What RoboSim saw of each program."""
        programs = [program_of(code) for code in codes]
        seen = await explore(self.sandbox, programs, mode=self.mode, shaking=self.shaking)
        return [
            Observation(False, failed=True) if each is None else _observation(each, program, code)
            for each, program, code in zip(seen, programs, codes, strict=True)
        ]


def _observation(seen: Exploration, program: str, code: str) -> Observation:
    events = [f"{kind}: {cut(text, 80)}" for kind, text, _ in seen.events[:MOST_EVENTS]]
    saw = ["In the simulator the robot did:", *map(quoted, events)] if events else ["The robot did nothing."]
    if not seen.failures and seen.reaches_call and set(seen.outcomes) <= {"ok"}:
        return Observation(fine=True)
    if not seen.failures:
        what = "Some run calls no function of the robot." if not seen.reaches_call else "Some run does not end."
        return Observation(False, "\n".join([what, *saw]))
    worst = max(seen.failures, key=lambda failure: Fraction(failure.probability))
    message = [
        f"In some runs the program fails ({float(Fraction(worst.probability)):.0%} of them):",
        quoted(worst.outcome),
    ]
    if worst.span is not None:
        given = max(0, len(program) - len(code))  # the program may lack an indent of all lines of the code
        line = program.count("\n", 0, worst.span.start) - program.count("\n", 0, given) + 1
        message.append(quoted(f"line {line}: {cut(program[worst.span.start : worst.span.end], 120)}"))
    return Observation(False, "\n".join([*message, *saw]))
