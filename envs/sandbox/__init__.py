"""Runs untrusted generated programs on tests: one protocol, with a local sandbox or a Sandbox Fusion server behind it.

It may import envs.json_lines and the standard library; it must not import any other module of envs. worker/ runs inside
the sandbox's own process and may import only its own files and the standard library.
"""

from envs.sandbox.fusion import FusionSandbox
from envs.sandbox.local import LocalSandbox
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, Sandbox, StdioCase, Tree, run_sync

__all__ = [
    "FunctionCase",
    "FusionSandbox",
    "Job",
    "Limits",
    "LocalSandbox",
    "Outcome",
    "Sandbox",
    "StdioCase",
    "Tree",
    "run_sync",
]
