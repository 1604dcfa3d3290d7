"""RoboEval and RoboSim: simulators of a robot, verdicts on its programs, and the task.

It may import envs.sandbox, envs.data, envs.json_lines and envs.task; it must not import rewards or recipes. The modules
that bundle.py sends into the sandbox may import only each other and the standard library.
"""

from envs.roboeval.exploration import SHAKINGS, Exploration, Failure, explore
from envs.roboeval.verdicts import MODES, Judgement, Place, Request, WorldResult, judge
from envs.roboeval.worlds import Benchmark, World

__all__ = [
    "MODES",
    "SHAKINGS",
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
