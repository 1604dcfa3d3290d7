"""Data flow: how well the data flow of the code matches that of the reference solution, as F1.

The score lies in [0, 1] and compares the flows of rewards/analysis/python_dataflow.py. The note also has the recall,
CodeBLEU's figure, which 200 lines of calls with invented names raise to 0.8. The whole code gets 1, and
the variables that do not match share the difference F1 - 1; if all match, the score is spread over the code. For a
problem without a reference, and where the reference has no data flow or is too large, the channel is silent.

    python -m rewards.dataflow match FILE     id, candidate, reference -> id, score, recall
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.command_rows import answer, command, read_rows
from envs.sandbox import LocalSandbox, Sandbox
from envs.task import Problem
from rewards.analysis.in_sandbox import CRASH, analyse
from rewards.channel import ChannelResult, Completion, Span, charged

PACKAGES = ("tree_sitter", "tree_sitter_python")
BATCH = 16
"""Pairs that one process compares, about a millisecond each; the sandbox's workers share the pairs of a step."""
SILENT = ChannelResult(0.0, note="no reference solution", silent=True)
CRASH_NOTE = "the code crashes the parser"
PROGRAM = (
    (Path(__file__).parent / "analysis" / "python_dataflow.py").read_text(encoding="utf-8")
    + """
import gc, json, sys
gc.disable()  # trees have no cycles
print(json.dumps([match(candidate, reference) or [] for candidate, reference in json.load(sys.stdin)]))
"""
)


class Dataflow:
    """
    Args:
        sandbox: where sources are parsed; its packages must include tree_sitter and tree_sitter_python.
    """

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises RuntimeError if the sandbox lacks tree_sitter."""
        results: list[ChannelResult | None] = [SILENT] * len(problems)
        # answers without code too: whether the channel is silent depends on the reference alone
        compared = [i for i, problem in enumerate(problems) if problem.reference]
        heads = [problems[i].head(completions[i].code or "") for i in compared]
        pairs = [
            [f"{head}{completions[i].code or ''}", f"{problems[i].head(problems[i].reference)}{problems[i].reference}"]
            for i, head in zip(compared, heads, strict=True)
        ]
        matches = await analyse(self.sandbox, PROGRAM, pairs, BATCH)
        for i, head, match in zip(compared, heads, matches, strict=True):
            results[i] = self._result(completions[i], match, len(head))
        return results

    def _result(self, completion: Completion, match: Any, given: int) -> ChannelResult | None:
        """`match`: see python_dataflow.Match; empty if the reference has no data flow or is too large, None if the
        sandbox failed. given: characters of the program before the code."""
        if match is None:
            return None
        if match is CRASH:
            return ChannelResult(0.0, note=CRASH_NOTE)
        if not match:
            return ChannelResult(0.0, note="the reference has no data flow, or is too large", silent=True)
        if completion.code_span is None:
            return ChannelResult(0.0, note="no code")
        start, end = completion.code_span
        f1, recall, _, _, unmatched = match
        seen = [(max(first, given) - given, last - given) for first, last in unmatched if max(first, given) < last]
        places = [(start + first, start + last) for first, last in seen]
        spans = charged((start, end), f1, places) or (Span(start, end, f1),)
        return ChannelResult(sum(span.value for span in spans), spans, note=f"F1 {f1:.2f}, recall {recall:.2f}")


async def _match(path: str) -> None:
    rows = read_rows(path, "candidate", "reference")
    sandbox = LocalSandbox(2, packages=PACKAGES)
    pairs = [[row["candidate"], row["reference"]] for row in rows if "error" not in row]
    matches = await analyse(sandbox, PROGRAM, pairs)
    await sandbox.close()
    answer(rows, [_answer(match) for match in matches])


def _answer(match: Any) -> dict[str, Any]:
    if match is CRASH or match is None:
        return {"error": CRASH_NOTE if match is CRASH else "the sandbox failed"}
    return {"score": match[0], "recall": match[1]} if match else {"score": None, "recall": None}


main = command("rewards.dataflow", "match", __doc__.splitlines()[0], _match)

if __name__ == "__main__":
    sys.exit(main())
