"""RoboEval and RoboSim: simulated robots, what their programs did, and whether it was what was asked."""

from envs.roboeval.judge import (
    Exploration,
    Failure,
    Judgement,
    Place,
    Request,
    WorldResult,
    explore,
    judge,
)
from envs.roboeval.worlds import Benchmark, World

__all__ = [
    "Benchmark",
    "Exploration",
    "Failure",
    "Judgement",
    "Place",
    "Request",
    "World",
    "WorldResult",
    "explore",
    "judge",
]
