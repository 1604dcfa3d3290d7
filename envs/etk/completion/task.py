"""Filling in masked lines of a simulation, as a task: the embedded gas simulation, or a user's application.

The completion continues an open code block. Cases whose lines overlap are a family and stay on one side of the split;
the context of a training case still shows lines of other cases, as in the study that this task follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.etk.answer import extracted
from envs.etk.build.application import Application
from envs.etk.build.compare import ApplicationError
from envs.etk.completion.cases import Case, Gap, joined, read_cases
from envs.etk.completion.embedded import INITIAL_STATE, flow2d, flow2d_cases
from envs.etk.completion.own_application import read_application
from envs.etk.completion.prompts import prompt
from envs.etk.languages import CXX, language_of
from envs.task import Extracted, Message, Problem, Split, TaskError, seeded_split


class EtkCompletion:
    """
    Args:
        application: None for the embedded one; otherwise the user's: a TOML file (own_application.py), or the fields of
            Application with its `source_dir`. Its name begins the problems' ids.
        cases: a file of JSON lines {id, file, start, end}; required with the fields of an application. None: the cases
            that a TOML file names, or those of the embedded application.
        train_size: number of cases to train on; 0 holds all of them out.
        split_seed: seed of the split.
        context_chars: characters of the file around the gap that the prompt shows, nearest lines first. Lines between
            places come before all others.
        places: how many masked places one prompt asks for, at most: cases of one side of the split that lie near enough
            for the lines between them to fit into `context_chars` are joined (cases.joined).

    Raises:
        TaskError: a file does not exist, a case lies outside its file, or `places` is below 1.
    """

    name = "etk_completion"
    closing = "`\n"

    def __init__(
        self,
        application: dict[str, Any] | str | None = None,
        cases: str | None = None,
        train_size: int = 54,
        split_seed: int = 0,
        context_chars: int = 3000,
        places: int = 1,
    ):
        if places < 1:
            raise TaskError(f"task.env.places={places}: a prompt asks for 1 place or more")
        try:
            self._useless: dict[str, str] = {}
            if application is None:
                self.application, masked = flow2d(), flow2d_cases() if cases is None else read_cases(Path(cases))
                self._useless = {"writes the initial state and exits": INITIAL_STATE}
            elif isinstance(application, str):
                self.application, masked = read_application(Path(application), with_cases=cases is None)
                masked = masked if cases is None else read_cases(Path(cases))
            else:
                if cases is None:
                    raise TaskError("task.env.cases: missing; give the file with the cases of task.env.application")
                self.application, masked = Application.from_config(application), read_cases(Path(cases))
            gaps = [Gap.of(case, self.application.source_dir) for case in masked]
        except (ApplicationError, OSError) as error:
            raise TaskError(str(error)) from None
        if not gaps:
            raise TaskError(f"task.env.cases={cases}: the file has no cases")
        self.context_chars = context_chars
        self._prefix = self.name if application is None else self.application.name
        self._gaps = {gap.case.id: gap for gap in gaps}
        problems = [self._problem(gap, family) for gap, family in zip(gaps, families(masked), strict=True)]
        split = seeded_split(problems, train_size, split_seed)
        if places > 1:
            split = {side: self._joined(alone, places) for side, alone in split.items()}
        self._splits: dict[Split, list[Problem]] = {**split, "validation": []}

    def _joined(self, problems: Sequence[Problem], places: int) -> list[Problem]:
        """The problems of one side of the split, `places` in one."""
        family_of = {(case.file, case.places): p.family for p in problems for case in [p.data["case"]]}

        def near(first: Case, last: Case) -> bool:
            """Whether the lines from one case to another, which the prompt shows, fit into it."""
            gap = Gap.of(Case("", first.file, first.start, last.end), self.application.source_dir)
            return len(gap.original) <= self.context_chars

        result = []
        for case in joined([problem.data["case"] for problem in problems], places, near):
            self._gaps[case.id] = gap = Gap.of(case, self.application.source_dir)
            parts = [case.places] if (case.file, case.places) in family_of else [(place,) for place in case.places]
            names = dict.fromkeys(family_of[case.file, part] for part in parts)
            result.append(self._problem(gap, "+".join(names)))
        return result

    def problems(self, split: Split) -> list[Problem]:
        """The cases of one side of the split."""
        return self._splits[split]

    def messages(self, problem: Problem) -> list[Message]:
        """The last message is the beginning of the assistant's answer, which the policy continues."""
        case_prompt = prompt(self._gaps[problem.data["case"].id], self.context_chars)
        return [*case_prompt.messages, {"role": "assistant", "content": case_prompt.prefill}]

    def extract(self, answer: str) -> Extracted | None:
        """The lines up to a closing fence; nothing before it is an empty completion, which is scored too."""
        return extracted(answer)

    def complete(self, answer: str) -> bool:
        """Whether there is a closing fence."""
        return extracted(answer).closed

    def _problem(self, gap: Gap, family: str) -> Problem:
        return Problem(
            id=f"{self._prefix}/{gap.case.id}",
            question=prompt(gap, self.context_chars).user,
            reference=gap.original,
            family=family,
            data={
                "case": gap.case,
                "application": self.application,
                "file": gap.case.file,
                "useless": self._useless,
                **({"places": gap.texts} if gap.case.more else {}),
            },
            language=(language_of(gap.case.file) or CXX).name,
            weight=gap.case.weight,
        )


def families(cases: list[Case]) -> list[str]:
    """For each case the name of its family: cases of one file whose lines overlap, directly or through other cases."""
    names = [f"{case.file}:{number}" for number, case in enumerate(cases)]
    for i, one in enumerate(cases):
        for j, other in enumerate(cases[:i]):
            overlap = any(a < d and c < b for a, b in one.places for c, d in other.places)
            if one.file == other.file and overlap:
                old, new = names[i], names[j]
                names = [new if name == old else name for name in names]
    return names
