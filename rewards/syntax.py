"""Syntax: a penalty on the first syntactically invalid token of Python code.

That is the first token after which no continuation gives a valid program. Of a program that the grammar allows and
Python does not compile (`nonlocal` at the top level, two parameters of one name) it is the token that Python names. The
score is `penalty` on that token, or `incomplete` on the closing fence or the end of sequence if a finished completion
ends before its program does, else 0. A completion cut by the length limit may be incomplete. One without code (none, or
comments alone) scores `no_code`, so that saying nothing earns no more than a slip. After Ugare et al. 2024 (SynCode,
arXiv 2403.01632), with CPython's own parser (rewards/analysis/python_grammar.py). Parsing runs in the sandbox, because
a source can crash a parser.

    python -m rewards.syntax check FILE     one JSON object a line: id, text -> id, first_illegal
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from envs.command_rows import answer, command, read_rows
from envs.indentation import without_indent
from envs.sandbox import LocalSandbox, Sandbox
from envs.task import Problem
from rewards.analysis.code_tokens import has_tokens
from rewards.analysis.in_sandbox import CRASH, analyse
from rewards.channel import ChannelResult, Completion, Span

PROGRAM = (
    (Path(__file__).parent / "analysis" / "python_grammar.py").read_text(encoding="utf-8")
    + """
import json
def judged(text):
    first = int(text.startswith("\\ufeff"))  # a file may begin with this mark
    text = text[first:]
    if (fault := not_compiled(text)) is None or complete(text):
        return [None, True, None if fault is None else first + fault]
    return [None if (place := first_illegal(text)) is None else first + place, False, None]
print(json.dumps(list(map(judged, json.load(sys.stdin)))))
"""
)


class Judgement(NamedTuple):
    """first_illegal: index of the first character after which no program is possible; None: the text can be continued.
    complete: whether it is a program for the grammar. not_compiled: of such a program, the character at which Python
    refuses it all the same; else None."""

    first_illegal: int | None
    complete: bool
    not_compiled: int | None = None


FATAL = Judgement(0, False)
"""The judgement of a source that crashes the parser: invalid from its first character."""


async def judge(sandbox: Sandbox, texts: Sequence[str]) -> list[Judgement | None]:
    """The judgement of each text; None where the sandbox failed."""
    judgements = await analyse(sandbox, PROGRAM, list(texts))
    return [FATAL if each is CRASH else None if each is None else Judgement(*each) for each in judgements]


class Syntax:
    """
    Args:
        sandbox: where sources are parsed.
        penalty: score of code with an invalid token, on that token.
        incomplete: score of a completion that ends before its program does.
        no_code: score of a completion without code.
    """

    pays_outside_code = True  # a penalty may lie on the fence or the end of sequence
    best = 0.0

    def __init__(self, sandbox: Sandbox, penalty: float = -1.0, incomplete: float = -1.0, no_code: float = -1.0):
        self.sandbox, self.penalty, self.incomplete, self.no_code = sandbox, penalty, incomplete, no_code

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        codes = [completion.code for completion in completions]
        with_code = [i for i, code in enumerate(codes) if code is not None and has_tokens(code)]
        results: list[ChannelResult | None] = [ChannelResult(self.no_code, note="no code") for _ in completions]
        heads = [problems[i].head(codes[i] or "") for i in with_code]
        own = [without_indent("" if head else codes[i] or "") for i, head in zip(with_code, heads, strict=True)]
        programs = [
            f"{head}{codes[i]}" if head else text for i, head, (text, _) in zip(with_code, heads, own, strict=True)
        ]
        judgements = await judge(self.sandbox, programs)
        for i, head, (_, place), judgement in zip(with_code, heads, own, judgements, strict=True):
            if judgement is None:
                results[i] = None
                continue
            fault = judgement.first_illegal if judgement.not_compiled is None else judgement.not_compiled
            at = None if fault is None else max(0, fault - len(head)) if head else place(fault)
            results[i] = self._result(completions[i], at, judgement)
        return results

    def _result(self, completion: Completion, first_invalid: int | None, judgement: Judgement) -> ChannelResult:
        assert completion.code_span is not None
        start, end = completion.code_span
        if first_invalid is not None:
            span = Span(start + first_invalid, start + first_invalid + 1, self.penalty)
            token = completion.text[span.start : span.end]
            fault = "Python does not compile" if judgement.complete else "no program can continue after"
            note = f"{fault} {token!r} (character {first_invalid})"
            return ChannelResult(self.penalty, (span,), note=note)
        if not judgement.complete and completion.finished:
            fence = completion.text.find("```", end) if completion.closed else -1
            last = len(completion.text)  # an empty span there falls on the last token, the end of sequence
            span = Span(fence, fence + 3, self.incomplete) if fence >= 0 else Span(last, last, self.incomplete)
            return ChannelResult(self.incomplete, (span,), note="ends before the program does")
        return ChannelResult(0.0)


async def _check(path: str) -> None:
    rows = read_rows(path, "text")
    sandbox = LocalSandbox(2)
    judgements = await judge(sandbox, [row["text"] for row in rows if "error" not in row])
    await sandbox.close()
    answer(rows, [{"first_illegal": each[0]} if each else {"error": "the sandbox failed"} for each in judgements])


main = command("rewards.syntax", "check", __doc__.splitlines()[0], _check)

if __name__ == "__main__":
    sys.exit(main())
