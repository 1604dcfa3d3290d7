"""Syntax: the first token after which the code is no beginning of any Python program.

Score 0 where there is none, else `penalty` on that token; also where a complete answer ends before its program does,
on what ends it (the closing fence, or the end of sequence). A completion cut by the length limit may be incomplete,
and one without code is for the form channel. After Ugare et al. 2024 (SynCode, arXiv 2403.01632), by CPython's own
parser: rewards/grammar.py. Parsing happens in the sandbox, since a source can bring a parser down.

    python -m rewards.syntax check FILE     one JSON object a line: id, text -> id, first_illegal
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from envs.rows import answer, command, read_rows
from envs.sandbox import LocalSandbox, Sandbox
from envs.task import Problem
from rewards.analysis import CRASH, analyse
from rewards.channel import ChannelResult, Completion, Span

PROGRAM = (
    Path(__file__).with_name("grammar.py").read_text()
    + """
import json
print(json.dumps([[None, True] if complete(text) else [first_illegal(text), False] for text in json.load(sys.stdin)]))
"""
)
FATAL = (0, False)
"""For a source that brings the parser down: nothing of it is a beginning."""


async def judge(sandbox: Sandbox, texts: Sequence[str]) -> list[tuple[int | None, bool] | None]:
    """For each text the index of its first illegal character (None: viable) and whether it is complete as it stands.

    None where the sandbox failed.
    """
    found = await analyse(sandbox, PROGRAM, list(texts))
    return [FATAL if each is CRASH else None if each is None else (each[0], each[1]) for each in found]


class Syntax:
    """
    Args:
        sandbox: where sources are parsed.
        penalty: of the first illegal token.
        incomplete: of an answer that ends before its program does.
    """

    judges_form = True  # it may point at the fence or the end of sequence

    def __init__(self, sandbox: Sandbox, penalty: float = -1.0, incomplete: float = -1.0):
        self.sandbox, self.penalty, self.incomplete = sandbox, penalty, incomplete

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        codes = [completion.code for completion in completions]
        there = [i for i, code in enumerate(codes) if code is not None]
        results: list[ChannelResult | None] = [ChannelResult(0.0, note="no code") for _ in completions]
        for i, judged in zip(there, await judge(self.sandbox, [codes[i] or "" for i in there]), strict=True):
            results[i] = judged and placed(completions[i], *judged, self.penalty, self.incomplete)
        return results


def placed(completion: Completion, first: int | None, whole: bool, penalty: float, incomplete: float) -> ChannelResult:
    """What is said of code that is illegal from character `first` on, or that is all of a program or not."""
    assert completion.code_span is not None
    start, end = completion.code_span
    if first is not None:
        place = Span(start + first, start + first + 1, penalty)
        note = f"no program can go on after {completion.text[place.start : place.end]!r}"
        return ChannelResult(penalty, (place,), note=f"{note} (character {first})")
    if not whole and completion.finished:
        fence = completion.text.find("```", end) if completion.closed else -1
        place = Span(fence, fence + 3, incomplete) if fence >= 0 else _the_end(completion, incomplete)
        return ChannelResult(incomplete, (place,), note="ends before the program does")
    return ChannelResult(0.0)


def _the_end(completion: Completion, value: float) -> Span:
    """Falls on the last token, the end of sequence."""
    return Span(len(completion.text), len(completion.text), value)


async def _check(path: str) -> None:
    rows = read_rows(path, "text")
    sandbox = LocalSandbox(2)
    found = await judge(sandbox, [row["text"] for row in rows if "error" not in row])
    await sandbox.close()
    answer(rows, [{"first_illegal": each[0]} if each else {"error": "the sandbox failed"} for each in found])


main = command("rewards.syntax", "check", __doc__.splitlines()[0], _check)

if __name__ == "__main__":
    sys.exit(main())
