"""Data flow: how much of the reference solution's data flow the code has, and no more than that.

Score F1 in [0, 1] of the flows of rewards/flows.py; the note has the recall, CodeBLEU's figure, which 200 lines of
calls with made-up names bring to 0.8. The code is paid 1, and what is missing to 1 is taken from the variables whose
flow the reference has not; where all have, from the whole. A reference without data flow says nothing: 0 for all; a
problem without a reference leaves the channel silent.

    python -m rewards.dataflow match FILE     id, candidate, reference -> id, score, recall
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.rows import answer, command, read_rows
from envs.sandbox import LocalSandbox, Sandbox
from envs.task import Problem
from rewards.analysis import CRASH, analyse
from rewards.channel import ChannelResult, Completion, Span

PACKAGES = ("tree_sitter", "tree_sitter_python")
BATCH = 32
"""Pairs that one process compares, about a millisecond each; the sandbox's workers share a step's."""
SILENT = ChannelResult(0.0, note="no reference solution", silent=True)
PROGRAM = (
    Path(__file__).with_name("flows.py").read_text()
    + """
import gc, json, sys
gc.disable()  # trees have no cycles
print(json.dumps([match(candidate, reference) or [] for candidate, reference in json.load(sys.stdin)]))
"""
)


class Dataflow:
    """
    Args:
        sandbox: where sources are parsed; its packages must have tree_sitter and tree_sitter_python.
    """

    judges_form = False

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises RuntimeError where the sandbox lacks tree_sitter."""
        results: list[ChannelResult | None] = [
            ChannelResult(0.0, note="no code") if problem.reference else SILENT for problem in problems
        ]
        there = [i for i, problem in enumerate(problems) if problem.reference and completions[i].code is not None]
        pairs = [[completions[i].code, problems[i].reference] for i in there]
        for i, found in zip(there, await analyse(self.sandbox, PROGRAM, pairs, BATCH), strict=True):
            results[i] = self._result(completions[i], found)
        return results

    def _result(self, completion: Completion, found: Any) -> ChannelResult | None:
        if found is None:
            return None
        if found is CRASH or not found:
            return ChannelResult(0.0, note="the reference has no data flow" if not found else "brings the parser down")
        assert completion.code_span is not None
        start, end = completion.code_span
        f1, recall, _, _, unmatched = found
        places = [(first, last) for first, last in unmatched if first < last]
        spans = [Span(start, end, 1.0 if places else f1)]
        spans += [Span(start + first, start + last, (f1 - 1) / len(places)) for first, last in places]
        return ChannelResult(sum(span.value for span in spans), tuple(spans), note=f"F1 {f1:.2f}, recall {recall:.2f}")


async def _match(path: str) -> None:
    rows = read_rows(path, "candidate", "reference")
    sandbox = LocalSandbox(2, packages=PACKAGES)
    pairs = [[row["candidate"], row["reference"]] for row in rows if "error" not in row]
    found = await analyse(sandbox, PROGRAM, pairs)
    await sandbox.close()
    answer(rows, [_public(each) for each in found])


def _public(found: Any) -> dict[str, Any]:
    if found is CRASH or found is None:
        return {"error": "brings the parser down" if found is CRASH else "the sandbox failed"}
    return {"score": found[0], "recall": found[1]} if found else {"score": None, "recall": None}


main = command("rewards.dataflow", "match", __doc__.splitlines()[0], _match)

if __name__ == "__main__":
    sys.exit(main())
