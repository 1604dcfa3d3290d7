"""Masked lines of a simulation: their prompts, their task, and the scores of completions that fill them in.

It may import envs.etk.build and the modules of envs.etk and envs; it must not import rewards or recipes.
"""

from envs.etk.build.application import Application, Build, Run
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.completion.cases import Case, Gap, read_cases
from envs.etk.completion.embedded import flow2d, flow2d_cases
from envs.etk.completion.prompts import Prompt, prompt
from envs.etk.completion.scorer import CompletionScore, CompletionScorer, Request, Scorers

__all__ = [
    "Application", "ApplicationError", "Build", "Case", "CompletionScore", "CompletionScorer", "Gap", "Metric",
    "Prompt", "Request", "Run", "Scorers", "flow2d", "flow2d_cases", "prompt", "read_cases",
]  # fmt: skip
