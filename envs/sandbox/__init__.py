"""Running untrusted generated programs against tests: one protocol, and a local sandbox behind it."""

from envs.sandbox.local import LocalSandbox
from envs.sandbox.protocol import FunctionCase, Job, Limits, Outcome, Sandbox, StdioCase, run_sync

__all__ = ["FunctionCase", "Job", "Limits", "LocalSandbox", "Outcome", "Sandbox", "StdioCase", "run_sync"]
