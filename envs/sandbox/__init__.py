"""Running untrusted generated programs against tests: one protocol; a local sandbox or a Sandbox Fusion server behind
it."""

from envs.sandbox.fusion import FusionSandbox
from envs.sandbox.local import LocalSandbox
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, Sandbox, StdioCase, run_sync

__all__ = [
    "FunctionCase",
    "FusionSandbox",
    "Job",
    "Limits",
    "LocalSandbox",
    "Outcome",
    "Sandbox",
    "StdioCase",
    "run_sync",
]
