"""The interface of a task: problems in splits, prompts, extraction of code from answers, validation of references."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from envs.indentation import without_indent
from envs.sandbox import FunctionCase, Job, Limits, Outcome, Sandbox, StdioCase

Split = Literal["train", "validation", "test"]
Message = dict[str, str]
Prompted = list[Message] | str
"""A conversation for the tokenizer's chat template, whose last message is continued if it is the assistant's; or a
plain text that the policy continues without a template."""


class TaskError(ValueError):
    """Data or settings that make no task; the message says what to do, in one line."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    id: unique, "task/name".
    question: text of the user's message.
    entry_point: name of the requested function, None for programs.
    cases, check_src: its tests (one of the two). shown: how many of them, the first ones, the question shows.
    setup: trusted source that runs before the solution.
    reference: a solution that passes.
    tol: tolerance of floating-point results (see Job); None: 1e-6 of functions, 0 of programs. unordered, any_case: see
        Job.
    family: shared by near-duplicates, which stay on one side of a split; empty: a family of its own.
    as_json: the expected values come from JSON (see Job).
    limits: None for the sandbox's own limits.
    data: further data for the task's own channels (worlds, a case of a simulation). `useless`: answers by name that
        take no work on this task, for rewards/audit.
    language: language of the code: "python", "c", "c++", "fortran", "make", "ccl" or "par".
    weight: in means of rewards over problems.
    parts: the problems that one answer solves together, each with tests of its own; this one then has none. Their entry
        points differ.
    begun: the beginning of the program, where the prompt gives it and the answer continues it.
    begins: found in code that has its own beginning; None: code that has `begun` itself.
    """

    id: str
    question: str
    entry_point: str | None = None
    cases: tuple[FunctionCase | StdioCase, ...] = ()
    check_src: str | None = None
    setup: str | None = None
    reference: str = ""
    tol: float | None = None
    unordered: bool = False
    any_case: bool = False
    family: str = ""
    as_json: bool = False
    limits: Limits | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    language: str = "python"
    weight: float = 1.0
    shown: int = 0
    parts: tuple[Problem, ...] = ()
    begun: str = ""
    begins: re.Pattern[str] | None = None

    def head(self, code: str) -> str:
        """What stands before `code` in the whole program: what the prompt gave, unless `code` has it too."""
        own = self.begins.search(code) if self.begins else self.begun and self.begun.strip() in code
        return "" if own else self.begun

    def job(self, code: str, job_id: str | None = None) -> Job:
        """The sandbox job that tests `code`, or the program that it ends. A block inside a list is indented as a whole,
        which Markdown does not count as part of it."""
        kind: Literal["function", "stdio", "check"] = "function"
        if self.check_src is not None:
            kind = "check"
        elif self.entry_point is None:
            kind = "stdio"
        return Job(
            id=job_id or self.id,
            kind=kind,
            code=head + code if (head := self.head(code)) else without_indent(code)[0],
            entry_point=self.entry_point,
            cases=self.cases,
            tol=self.tol if self.tol is not None else 0.0 if kind == "stdio" else 1e-6,
            unordered=self.unordered,
            any_case=self.any_case,
            check_src=self.check_src,
            setup=self.setup,
            as_json=self.as_json,
            limits=self.limits,
        )


@dataclass(frozen=True)
class Extracted:
    """Characters (start, end) of the code in an answer; `closed` if it stands in a complete fenced block."""

    start: int
    end: int
    closed: bool


class Task(Protocol):
    """What the trainer needs of a task. `name` is the prefix of its problems' ids."""

    name: str
    closing: str
    """Every complete answer ends with one of these characters; `complete` is called only after one was drawn."""

    def problems(self, split: Split) -> list[Problem]: ...

    def messages(self, problem: Problem) -> Prompted:
        """The prompt that the policy continues."""
        ...

    def extract(self, answer: str) -> Extracted | None:
        """The code in an answer, None if there is none."""
        ...

    def complete(self, answer: str) -> bool:
        """Whether an unfinished answer is already complete, so that sampling stops there."""
        ...


LANGUAGE = re.compile(r"[A-Za-z][\w+#.-]*")
"""What may stand behind a fence that opens a block."""
OPENING = re.compile(rf"\s*(?:(?:[-*+>]|\d{{1,3}}[.)])\s+)*(`{{3,}})|.*?[^`](`{{3,}})(?={LANGUAGE.pattern}\s*$)")

TRIPLE_QUOTES = ('"""', "'''")


def extract_fenced(answer: str) -> Extracted | None:
    """The last fenced block of an answer: after a line that begins with ``` up to the next one that begins with as many
    backquotes. An example in a docstring, with fences of its own that are indented, is code.

    As answers have them, a fence may open behind the mark of a list or behind text, if a language follows it; a fence
    with a language inside a block begins another block; and a fence may close at the end of the code's last line. A
    last block without a closing fence counts as code, with `closed` false. None without a fence.
    """
    last: Extracted | None = None
    opened: int | None = None
    position = indent = length = 0
    quotes = dict.fromkeys(TRIPLE_QUOTES, 0)  # of the open block, before this line
    for line in answer.splitlines(keepends=True):
        text, end = line.strip(), position + len(line)
        spaces, ticks = len(line) - len(line.lstrip()), len(text) - len(text.lstrip("`"))
        if opened is None:
            if (fence := OPENING.match(line)) and "`" not in line[fence.end() :]:
                opened, indent, length = end, spaces, len(fence[1] or fence[2])
                quotes = dict.fromkeys(TRIPLE_QUOTES, 0)
        elif ticks >= length and not (spaces > indent and _is_odd(quotes)):
            last = Extracted(opened, position, closed=True)
            opened, indent, length = (end, spaces, ticks) if LANGUAGE.fullmatch(text[ticks:]) else (None, 0, 0)
            quotes = dict.fromkeys(TRIPLE_QUOTES, 0)
        elif text.endswith("`" * length) and "#" not in text and not _is_odd(quotes):
            last = Extracted(opened, position + len(line.rstrip().rstrip("`")), closed=True)
            opened = None
        else:
            quotes = {mark: number + line.count(mark) for mark, number in quotes.items()}
        position = end
    if opened is not None and answer[opened:].strip():
        return Extracted(opened, len(answer), closed=False)
    return last


def _is_odd(quotes: Mapping[str, int]) -> bool:
    """Whether a triple-quoted string is still open."""
    return any(number % 2 for number in quotes.values())


def demonstration(prompt: Prompted, reference: str) -> str:
    """Code as the answer that a prompt asks for: a code block, or what closes the one that it has opened; of a text
    that ends in the code's first line, the rest."""
    if isinstance(prompt, str):
        return reference.removeprefix(prompt.rpartition("\n")[2])
    begun = prompt[-1]["role"] == "assistant"
    return f"{'' if begun else '```python' + chr(10)}{reference.rstrip()}\n```"


def seeded_split(problems: Sequence[Problem], train: int, seed: int) -> dict[Split, list[Problem]]:
    """At most `train` problems for training and the rest for testing; a family is never divided.

    Families are taken in the order of a hash of seed and name; a family that would exceed `train` is held out. Raises
    TaskError if `train` is not below the number of problems.
    """
    if train >= len(problems):
        raise TaskError(
            f"task.env.train_size={train}, but there are {len(problems)} problems and at least one is held out: "
            + (f"set it to {len(problems) - 1} or less, or add problems" if len(problems) > 1 else "add problems")
        )

    def rank(family: str) -> str:
        return hashlib.sha256(f"{seed}:{family}".encode()).hexdigest()

    families: dict[str, list[Problem]] = {}
    for problem in problems:
        families.setdefault(problem.family or problem.id, []).append(problem)
    split: dict[Split, list[Problem]] = {"train": [], "test": []}
    for name in sorted(families, key=rank):
        fits = len(split["train"]) + len(families[name]) <= train
        split["train" if fits else "test"].extend(families[name])
    return split


def require_tests(problems: Sequence[Problem], id_field: str = "id") -> None:
    """Raise TaskError for an empty dataset, a problem without tests, or two problems with one id, whose rows have it in
    `id_field`."""
    if not problems:
        raise TaskError("the task has no problems: see the file or folder that task.env.path names")
    require_own_ids(problems, id_field)
    for problem in problems:
        for part in problem.parts or (problem,):
            if not part.cases and not part.check_src:
                raise TaskError(f"{part.id} has no tests: remove the row or give it tests")


def require_own_ids(problems: Sequence[Problem], id_field: str = "id") -> None:
    """Raise TaskError where two problems have one id: an answer would be graded by the tests of either. id_field: the
    field of a row that the id is made of."""
    repeated = [name for name, count in Counter(problem.id for problem in problems).items() if count > 1]
    if repeated:
        raise TaskError(
            f"{len(repeated)} ids name several problems, as {repeated[0]}: give each row its own `{id_field}`"
        )


class Filtered:
    """A task without some of its problems; everything else is the original task's.

    Args:
        task: the original task.
        keep: whether a problem stays.
        splits: the sides of the split that are filtered.
    """

    def __init__(self, task: Task, keep: Callable[[Problem], bool], splits: Sequence[Split] = ("train",)):
        self._task, self._keep, self._splits = task, keep, splits
        self.name, self.closing = task.name, task.closing
        self.messages, self.extract, self.complete = task.messages, task.extract, task.complete

    def problems(self, split: Split) -> list[Problem]:
        """The problems that stay. Raises TaskError if none does."""
        problems = self._task.problems(split)
        kept = [p for p in problems if self._keep(p)] if split in self._splits else problems
        if problems and not kept:
            raise TaskError(f"none of {len(problems)} {split} problems of {self.name} stays after filtering")
        return kept


async def validate(sandbox: Sandbox, problems: Sequence[Problem], code: str | None = None) -> list[Outcome]:
    """Run `code`, or each problem's own reference, on the problem's tests. Outcomes have the problems' ids.

    Problems without a reference are left out; of one with parts each part has an outcome. A task is sound if every
    reference passes and nonsense does not.
    """
    tested = [(part, p.reference) for p in problems if p.reference for part in p.parts or (p,)]
    return await sandbox.run([p.job(own if code is None else code.format(name=p.entry_point)) for p, own in tested])


class CodeBlockTask:
    """A task whose answer is one fenced code block: the base of basics and HumanEval.

    Args:
        problems: all problems; each must have tests.
        train_size: number of problems to train on; the rest is held out.
        split_seed: seed of the split.
        system: the system message; empty for the chat template's own.
        held_out: the test problems, if the data has its own split; all of `problems` are then for training.

    Raises:
        TaskError: there are no problems, one has no tests, two have one id, or there are not more than `train_size`.
    """

    closing = "`\n"
    id_field = "id"
    """The field of the data's rows that problems have their ids from."""

    def __init__(
        self,
        problems: Sequence[Problem],
        train_size: int,
        split_seed: int,
        system: str,
        held_out: Sequence[Problem] | None = None,
    ):
        require_tests(problems, self.id_field)
        self.system = system
        self._splits: dict[Split, list[Problem]]
        if held_out is None:
            self._splits = seeded_split(problems, train_size, split_seed)
        else:
            require_tests(held_out, self.id_field)
            require_own_ids([*problems, *held_out], self.id_field)
            self._splits = {"train": list(problems), "test": list(held_out)}

    def problems(self, split: Split) -> list[Problem]:
        """The problems of one side of the split."""
        return self._splits.get(split, [])  # few tasks have a validation split

    def messages(self, problem: Problem) -> Prompted:
        """The system message, if there is one, and the question."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": problem.question}]

    def extract(self, answer: str) -> Extracted | None:
        """The last fenced block."""
        return extract_fenced(answer)

    def complete(self, answer: str) -> bool:
        """Whether the answer has one closed block."""
        code = extract_fenced(answer)
        return code is not None and code.closed
