"""Form: is the completion a complete fenced block, and how long is it?

A block without code (empty, or comments alone) counts as none. Score = `block` or `no_block`, minus `length_alpha` *
tokens / 100 (0.01 to 0.03 keeps completions short), before the channel's weight. The block's reward lies on the fence
lines; those of a missing block and of the length on all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.task import Problem
from rewards.analysis.code_tokens import has_code
from rewards.channel import ChannelResult, Completion, Span


class Form:
    """
    Args:
        block: reward of a complete fenced block (the last one counts).
        no_block: reward of a completion without one (DeepCoder: -1).
        length_alpha: penalty for each 100 tokens.
        needs_code: False also pays a block without code.
    """

    pays_outside_code = True

    def __init__(self, block: float = 1.0, no_block: float = 0.0, length_alpha: float = 0.0, needs_code: bool = True):
        self.block, self.no_block, self.length_alpha, self.needs_code = block, no_block, length_alpha, needs_code
        self.best = max(block, no_block)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        return [self._score(p, c) for p, c in zip(problems, completions, strict=True)]

    def _score(self, problem: Problem, completion: Completion) -> ChannelResult:
        block = completion.closed and (not self.needs_code or has_code(problem, completion.code))
        spans = self._block_spans(completion, block)
        tokens = len(completion.token_ids)
        if self.length_alpha and tokens:
            spans.append(Span(0, len(completion.text), -self.length_alpha * tokens / 100))
        missing = "" if block else "no code in the block, " if completion.closed else "no complete code block, "
        note = f"{missing}{tokens} tokens"
        return ChannelResult(sum(s.value for s in spans), tuple(spans), note=note)

    def _block_spans(self, completion: Completion, block: bool) -> list[Span]:
        text = completion.text
        if not block or completion.code_span is None:
            return [Span(0, len(text), self.no_block)] if self.no_block else []
        start, end = completion.code_span
        opening = text.rfind("```", 0, start)
        closing = text.find("```", end)
        if not self.block:
            return []
        if opening < 0:  # the prompt opened the block
            return [Span(closing, closing + 3, self.block)]
        return [Span(opening, start, self.block / 2), Span(closing, closing + 3, self.block / 2)]
