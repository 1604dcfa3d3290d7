"""ETK: write one source file of a thorn of the Einstein Toolkit, given the rest of the thorn."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from envs.data import reasons_of
from envs.etk.answer import extracted
from envs.etk.checkout import Filters
from envs.etk.prompts import Prompt
from envs.etk.rows import SourceFile, dataset, source_files
from envs.task import Extracted, Problem, Prompted, Split, TaskError, seeded_split

log = logging.getLogger("codegrain")
SPLITS = ("arrangement", "thorn")
FLAVOUR = re.compile(r"(?<=[a-z0-9_])_?(?:CUDA|CXX|CPP|C|X|F77|F90|FreeF90)$")
"""The suffixes of a thorn's variants: WaveToyC and WaveToyF77, WaveToyNRPy and WaveToyNRPyX."""
TOKEN = re.compile(r"[^\W\d]\w*|\d[\w.]*|\S")
INCLUDE = re.compile(r"^#[ \t]*include[ \t]+[<\"][^>\"\s]+[>\"]", re.MULTILINE)
INCLUDES = 12
"""So many include lines make the answer without work that rewards/audit tries."""
SHORT = 40
"""Texts of fewer tokens are copies of each other only if they are equal."""


class Etk:
    """
    Args:
        source: "nrpy": 22 files of two wave equations, written by the package nrpy; "hub": the public dataset; "path":
            rows as `python -m envs.etk build` writes them.
        path: the file of those rows, .jsonl, .jsonl.gz or .parquet, or a folder of them.
        split: the unit that is not divided, because files of a thorn are in each other's prompts (R13): "arrangement"
            or "thorn" (with its variants). None: by arrangement, but by thorn for nrpy, which has one arrangement. A
            training file that is a held-out one but for its names (see `outline`) is left out.
        test_share, validation_share: largest share of the problems that is held out; at least one arrangement or thorn
            if the share is not 0.
        split_seed: seed of the split.
        style, context_limit, ccl_limit, count_tokens, context_order, own_language, template: see Prompt.
        max_src_chars, min_src_chars, languages, drop_generated, drop_duplicates: see Filters; here they select the
            requested files, and the context is unchanged.

    Raises:
        TaskError: invalid settings or rows, or a missing package or dataset.
    """

    name = "etk"
    closing = "`"

    def __init__(
        self,
        source: str = "nrpy",
        path: str | None = None,
        split: str | None = None,
        test_share: float = 0.2,
        validation_share: float = 0.0,
        split_seed: int = 0,
        style: str = "chat_template",
        context_limit: int = 10_000,
        ccl_limit: int = 1_000,
        count_tokens: Callable[[str], int] | None = None,
        context_order: str = "row",
        own_language: bool = False,
        template: str | None = None,
        max_src_chars: int | None = None,
        min_src_chars: int | None = None,
        languages: Sequence[str] | None = None,
        drop_generated: bool = False,
        drop_duplicates: bool = False,
    ):
        if split not in (None, *SPLITS):
            raise TaskError(f"task.env.split={split}: one of {', '.join(SPLITS)}")
        if min(test_share, validation_share) < 0 or test_share + validation_share >= 1:
            raise TaskError("task.env.test_share and task.env.validation_share must be 0 or more, and below 1 together")
        self.prompt = Prompt(style, context_limit, ccl_limit, count_tokens, context_order, own_language, template)
        filters = Filters(max_src_chars, min_src_chars, languages, drop_generated, drop_duplicates)
        self._split_by = split or ("thorn" if source == "nrpy" else "arrangement")
        self._files: dict[str, SourceFile] = {}
        self._corpus: list[tuple[str, str, str]] = []
        self._useless: dict[str, str] = {}
        problems = self._problems(source, path, filters)
        shares: tuple[tuple[Split, float], ...] = (("test", test_share), ("validation", validation_share))
        sizes = [(side, share * len(problems)) for side, share in shares]
        self._splits: dict[Split, list[Problem]] = {}
        for side, size in sizes:
            self._splits[side], problems = self._hold_out(problems, size, split_seed)
        held_out = {outline(p.reference or "") for side in self._splits.values() for p in side}
        self._splits["train"] = [p for p in problems if outline(p.reference or "") not in held_out]
        self._corpus += [(p.reference or "", p.language, p.data["file"]) for p in self._splits["train"]]
        if includes := common_includes(text for text, _, _ in self._corpus):
            self._useless["the include lines of most files"] = includes
        if copies := len(problems) - len(self._splits["train"]):
            log.info("etk: %d training files left out: copies of held-out ones but for names", copies)

    def problems(self, split: Split) -> list[Problem]:
        """The problems of one side of the split."""
        return self._splits[split]

    def messages(self, problem: Problem) -> Prompted:
        """System message, user message and the beginning of the assistant's, an open block; or one literal text."""
        return self.prompt.messages(self._files[problem.id], problem.question)

    def extract(self, answer: str) -> Extracted:
        """The code of an answer; it may be empty, since an empty file is an answer."""
        return extracted(answer)

    def complete(self, answer: str) -> bool:
        """Whether the block is closed."""
        return extracted(answer).closed

    def _problems(self, source: str, path: str | None, filters: Filters) -> list[Problem]:
        dropped = Counter[str]()
        problems = []
        names = Counter[str]()
        for file in source_files(dataset(source, path), self.prompt.context_chars, dropped):
            language = file.language.name
            if reason := filters.reason(file.thorn, language, file.text):
                dropped[reason] += 1
                continue
            name = f"{self.name}/{file.thorn}/{file.name}"
            names[name] += 1
            if names[name] > 1:  # one thorn from two repositories
                name = f"{name}#{names[name]}"
            self._files[name] = file
            problems.append(
                Problem(
                    id=name,
                    question=self.prompt.question(file),
                    reference=file.text,
                    family=family(file, self._split_by),
                    language=language,
                    data={
                        "thorn": file.thorn,
                        "file": file.name,
                        "visible": tuple(text for _, text in self.prompt.visible(file)),
                        "corpus": self._corpus,  # of all problems the same: the training files
                        "useless": self._useless,
                    },
                )
            )
        if dropped:
            log.info("etk: rows left out: %s", reasons_of(dropped))
        if not problems:
            raise TaskError(f"no rows left in {path or source}: loosen the filters of task.env")
        return problems

    def _hold_out(self, problems: list[Problem], size: float, seed: int) -> tuple[list[Problem], list[Problem]]:
        """Families with at most `size` problems together, or the smallest if none fits; and all other problems."""
        if size == 0:
            return [], problems
        sizes = Counter(p.family for p in problems)
        if len(sizes) < 2:
            raise TaskError(
                f"all rows are of the {self._split_by} {problems[0].family}, so none can be held out: "
                "task.env.split=thorn, more rows, or task.env.test_share=0 with validation_share=0"
            )
        smallest = min(sizes.values())
        parts = seeded_split(problems, max(int(size), smallest), seed)
        return parts["train"], parts["test"]


def common_includes(texts: Iterable[str]) -> str:
    """The include lines that the most of these files have, each in two files at least; empty if there are none."""
    held = Counter(line for text in texts for line in set(INCLUDE.findall(text)))
    ranked = sorted((-count, line) for line, count in held.items() if count > 1)
    return "".join(f"{line}\n" for _, line in ranked[:INCLUDES])


def outline(text: str) -> str:
    """What copies have in common that differ in names alone: the tokens of `text`, each word of them the same. A text
    of fewer than SHORT tokens is its own outline."""
    tokens = TOKEN.findall(text)
    return " ".join("x" if t[0].isidentifier() else t for t in tokens) if len(tokens) >= SHORT else text


def family(file: SourceFile, split_by: str) -> str:
    """The name of the unit that stays on one side of the split (R13)."""
    if split_by == "arrangement":
        return file.arrangement
    return FLAVOUR.sub("", file.thorn)
