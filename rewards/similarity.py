"""Similarity: BLEU-4 of the code against the problem's reference solution, on tokens of code (analysis/code_tokens.py).

The score lies in [0, 1] and is shared by the tokens of the matching n-grams, in proportion to the number of matches
that each takes part in. Comments and line ends do not count: a banner copied from another file would. Where the
reference is comments alone, the words of both sides are compared. With a `budget`, code and reference are both cut to
that many tokens; otherwise the brevity penalty makes 400 generated tokens worth almost nothing against a reference of
4,000.

The obvious way to cheat is to copy a file that the prompt shows, because the files of one thorn are alike. `detail`
holds `bleu`, `bleu_full` (both sides uncut) and, where the problem's `data["visible"]` has the texts that the prompt
shows, `copy_bleu`: the best score that copying one of them would earn. With `baseline: copy` only the part above it is
paid.

Another way to cheat is to write what all files have: with a budget of 48 tokens one list of include lines, the same
for every thorn, earns more BLEU than a 135M policy after SFT (tests/bench/results/etk.md). With `common: 500` the 500
n-grams that the most training references hold do not count (CrystalBLEU, see envs/bleu.py), and `bleu` in `detail`
stays the plain one.

Where a problem has several masked places (`data["places"]`: the lines of each), each is compared with its own lines, up
to `budget` tokens of each, and the score is the mean.

    python -m rewards.similarity bleu FILE     id, candidate, reference, budget or null (language, file) -> id, bleu
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any

from envs.bleu import Bleu, Gram, bleu, common
from envs.command_rows import answer, command, read_rows
from envs.etk.completion.cases import piece_spans
from envs.task import Problem
from rewards.analysis.code_tokens import COMMENTS, Token, token_texts, tokens, words
from rewards.channel import ChannelResult, Completion, Span, require_references


def code_bleu(
    candidate: str,
    reference: str,
    budget: int | None = None,
    language: str = "python",
    file: str = "",
    ignored: Set[Gram] = frozenset(),
) -> float:
    """BLEU-4 of two pieces of code, each cut to its first `budget` tokens, without the n-grams `ignored`."""
    split, expected = _splitter(reference, language, file)
    return bleu([token.text for token in split(candidate)[:budget]], expected[:budget], ignored).score


def _splitter(reference: str, language: str, file: str) -> tuple[Callable[[str], list[Token]], Sequence[str]]:
    """How code is split to be compared with a reference, and the reference's parts: tokens of code, or words if it has
    no code."""
    expected = token_texts(reference, language, file)
    if expected:
        return lambda text: tokens(text, language, file), expected
    return words, [word.text for word in words(reference)]


class Similarity:
    """
    Args:
        language: whose comments are left out, one of COMMENTS; None: the problem's language.
        budget: number of tokens of code and reference that are compared; None: all.
        baseline: "copy" pays max(0, (b - c) / (1 - c)) for a BLEU of b where the best copy earns c, and 0 where a copy
            is as good as the reference; None pays b.
        common: so many n-grams, those that the most training references hold, do not count; 0: all count. They are
            counted in `data["corpus"]`, the training files of the task (text, language, file).

    Raises:
        ValueError: an unknown language or baseline; a budget below 1, or `common` below 0.
    """

    def __init__(
        self, language: str | None = None, budget: int | None = None, baseline: str | None = None, common: int = 0
    ):
        if language is not None and language not in COMMENTS:
            raise ValueError(f"similarity.language={language}: unknown language; use one of {', '.join(COMMENTS)}")
        if baseline not in (None, "copy"):
            raise ValueError(f"similarity.baseline={baseline}: unknown baseline; use copy or null")
        if budget is not None and budget < 1:
            raise ValueError(f"similarity.budget={budget}: it must be 1 or more, or null to compare all tokens")
        if common < 0:
            raise ValueError(f"similarity.common={common}: it must be 0 or more")
        self.language, self.budget, self.baseline, self.common = language, budget, baseline, common
        self._ignored: frozenset[Gram] | None = None
        self._copy_scores: dict[tuple[str, str | None], float] = {}

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Raises ValueError if a problem has no reference solution, or `common` is set and a task has no corpus."""
        require_references(problems, "similarity")
        if problems:
            self._ignored_in(problems[0])

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        return [
            self._by_place(p, c) if "places" in p.data and c.code_span else self._score(p, c)
            for p, c in zip(problems, completions, strict=True)
        ]

    def _by_place(self, problem: Problem, completion: Completion) -> ChannelResult:
        """The mean over several masked places, each compared with its own lines; each is a part of the answer."""
        assert completion.code is not None and completion.code_span is not None
        lines, first, spans, results = problem.data["places"], completion.code_span[0], [], []
        for number, (start, end) in enumerate(piece_spans(completion.code, len(lines)), 1):
            here = (first + start, first + end)
            result = self._score(replace(problem, reference=lines[number - 1]), replace(completion, code_span=here))
            results.append(result)
            spans += [
                replace(span, value=span.value / len(lines), part=f"place {number}")
                for span in (Span(*here, 0.0), *result.spans)
            ]
        detail = {name: sum(r.detail[name] for r in results) / len(lines) for name in results[0].detail}
        score = sum(span.value for span in spans)
        return ChannelResult(
            score, tuple(spans), note=f"BLEU {detail['bleu']:.2f} in {len(lines)} places", detail=detail
        )

    def _score(self, problem: Problem, completion: Completion) -> ChannelResult:
        require_references([problem], "similarity")
        language, file = self.language or problem.language, problem.data.get("file", "")
        split, reference = _splitter(problem.reference, language, file)
        all_tokens = split(completion.code or "")
        compared = all_tokens[: self.budget]
        texts = [t.text for t in compared]
        plain = bleu(texts, reference[: self.budget])
        match = bleu(texts, reference[: self.budget], self._ignored_in(problem)) if self.common else plain
        full_match = plain if self.budget is None else bleu([t.text for t in all_tokens], reference)
        detail = {"bleu": plain.score, "bleu_full": full_match.score}
        score, note = match.score, f"BLEU {plain.score:.2f}"
        if self.common:
            detail["bleu_without_common"] = score
            note += f", {score:.2f} without common n-grams"
        if "visible" in problem.data:
            copied = detail["copy_bleu"] = self.copy_bleu(problem)
            note += f", a copy {copied:.2f}"
            if self.baseline == "copy":
                score = max(0.0, (score - copied) / (1 - copied)) if copied < 1 else 0.0
        if completion.code_span is None:
            return ChannelResult(0.0, note="no code", detail=detail)
        spans = _matched_spans(completion.code_span[0], compared, match, score)
        return ChannelResult(sum(s.value for s in spans), spans, note=note, detail=detail)

    def copy_bleu(self, problem: Problem) -> float:
        """The best BLEU that copying a text of the problem's `data["visible"]` earns; 0 where it has none."""
        asked = problem.id, problem.reference  # a problem with several places has a reference for each
        if asked not in self._copy_scores:
            language, file = self.language or problem.language, problem.data.get("file", "")
            texts = problem.data.get("visible", ())
            ignored = self._ignored_in(problem)
            scores = (code_bleu(text, problem.reference, self.budget, language, file, ignored) for text in texts)
            self._copy_scores[asked] = max(scores, default=0.0)
        return self._copy_scores[asked]

    def _ignored_in(self, problem: Problem) -> frozenset[Gram]:
        """The n-grams that do not count. Raises ValueError where the problem's task has no corpus to find them in."""
        if self._ignored is None and self.common:
            if not (corpus := problem.data.get("corpus")):
                raise ValueError(
                    f"similarity.common={self.common} counts n-grams in the task's training files, and {problem.id} "
                    "has none (task=etk has them): set similarity.common=0"
                )
            self._ignored = common((token_texts(*source) for source in corpus), self.common)
        return self._ignored or frozenset()


def _matched_spans(code_start: int, compared: Sequence[Token], match: Bleu, score: float) -> tuple[Span, ...]:
    """`score` shared by the tokens of the matching n-grams."""
    total = sum(match.matches)
    if not total or not score:
        return ()
    return tuple(
        Span(code_start + token.start, code_start + token.end, score * count / total)
        for token, count in zip(compared, match.matches, strict=True)
        if count
    )


async def _bleu(path: str) -> None:
    rows = read_rows(path, "candidate", "reference")
    answer(rows, [_answer(row) for row in rows if "error" not in row])


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    budget, language = row.get("budget"), row.get("language", "c++")
    file = row.get("file", "")
    if (
        not (budget is None or (type(budget) is int and budget > 0))
        or not isinstance(language, str)
        or language not in COMMENTS
    ):
        return {"error": f"budget must be a positive integer or null, language one of {', '.join(COMMENTS)}"}
    if not isinstance(file, str):
        return {"error": "file must be text: the name of the reference's file"}
    return {"bleu": code_bleu(row["candidate"], row["reference"], budget, language, file)}


main = command("rewards.similarity", "bleu", __doc__.splitlines()[0], _bleu)

if __name__ == "__main__":
    sys.exit(main())
