"""Masked lines of a simulation's source: a model fills them in, the program is built and run, its fields are compared
with those of the original."""

from envs.etk.completion.application import Application, Build, Run
from envs.etk.completion.cases import Case, Gap, read_cases
from envs.etk.completion.compare import CompletionError, Metric
from envs.etk.completion.embedded import flow2d, flow2d_cases
from envs.etk.completion.prompts import Prompt, prompt
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request

__all__ = [
    "Application", "Build", "Case", "CompletionError", "CompletionScore", "CompletionScorer", "Gap", "Metric",
    "Prompt", "Request", "Run", "flow2d", "flow2d_cases", "prompt", "read_cases",
]  # fmt: skip
