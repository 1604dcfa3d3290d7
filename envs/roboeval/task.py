"""Programs for a robot: trained on instructions with RoboSim's open world, evaluated in closed worlds with checks.

Training: the shipped instructions, or zichao22/robo-instruct (Hu et al. 2025, arXiv 2405.20179) from the hub or a file;
beside either, generated instructions (envs/roboeval/generated).
Test: the shipped tasks, or with `benchmark_dir` the 80 prompts of RoboEval (Hu et al. 2024, arXiv 2311.11183). Their
licence allows evaluation and forbids training, so they are only in the split `test`, and not part of this package.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.data import data_files, file_rows, hub_rows
from envs.indentation import without_indent
from envs.json_lines import Row, read_json_lines
from envs.roboeval import checks
from envs.roboeval.examples import EXAMPLES, PREAMBLE
from envs.roboeval.extraction import DEFINES, DEFINITION, EXTRACTIONS
from envs.roboeval.generated import rows as generated_rows
from envs.roboeval.instructions import EVENTS
from envs.roboeval.trace import satisfied
from envs.roboeval.worlds import Benchmark, World
from envs.task import Extracted, Problem, Prompted, Split, TaskError, extract_fenced, seeded_split

log = logging.getLogger("codegrain")
DATA = Path(__file__).parent / "data"
HUB = "zichao22/robo-instruct"
KNOWN = ("nouns", "actions", "ordered")
"""Fields of a row that tell the reward more about an instruction."""
COLUMNS = ("text", "program", "prompt", *KNOWN)
CHECKED = ("id", "text", "program", "worlds", "conditions")
VALIDATION = 4
"""Instructions of each held-out family in the split "validation"."""
STYLES = ("chat", "completion")
MARK = "# Instruction:"
TASK = (
    "Write one Python program for the robot, a function task_program() without parameters that uses only the functions "
    "above, in one code block."
)


class RoboEval:
    """
    Args:
        train: "shipped", "hub", or a file or folder of rows with the hub's columns `text` and `program`. Optional are
            `program` (see rewards.robot), `ordered` (whether the instruction gives an order), and for rows without a
            program `nouns` and `actions` (words and functions that are needed).
        test: "shipped", or a file or folder of rows {id, text, program, worlds, conditions} like data/eval.jsonl;
            conditions, one for each world, are in the language of trace.py.
        benchmark_dir: RoboEval's folder for evaluation, as it is published (tasks/*.py) or as prompts.jsonl,
            tests.jsonl and worlds.json; None for the tasks of `test`.
        style: "chat", or "completion" for base models: one text that ends with the definition line.
        generated: number of generated instructions of each family, for training beside those of `train`. Instructions
            of families that are never trained on (generated.HELD_OUT) are the split "validation"; 0 for none of both.
        examples: number of worked examples in the prompt, at most six.
        extraction: "fenced", "robo_instruct" or "seed_paper".
        train_size: number of training instructions; None for all.
        split_seed: seed of their sample.

    Raises:
        TaskError: an unknown style or extraction, two that do not go together, a negative number, or missing data.
    """

    name = "roboeval"

    def __init__(
        self,
        train: str = "shipped",
        test: str = "shipped",
        benchmark_dir: str | None = None,
        generated: int = 0,
        style: str = "chat",
        examples: int = 2,
        extraction: str = "fenced",
        train_size: int | None = None,
        split_seed: int = 0,
    ):
        if style not in STYLES or extraction not in EXTRACTIONS:
            raise TaskError(
                f"task.env.style={style}, task.env.extraction={extraction}: style must be {' or '.join(STYLES)}, "
                f"extraction one of {', '.join(EXTRACTIONS)}"
            )
        if style == "completion" and extraction != "robo_instruct":
            lacks = "fence" if extraction == "fenced" else "definition line"
            raise TaskError(
                f"task.env.style=completion, task.env.extraction={extraction}: an answer that continues a program has "
                f"no {lacks}, so no program would be found; set task.env.extraction=robo_instruct"
            )
        if generated < 0:
            raise TaskError(f"task.env.generated={generated}: must be 0 or more instructions of each family")
        if not 0 <= examples <= len(EXAMPLES):
            raise TaskError(f"task.env.examples={examples}: must be from 0 to {len(EXAMPLES)}")
        self.style, self.examples, self.extraction = style, EXAMPLES[:examples], extraction
        self.closing = "`\n" if style == "chat" else "\n"
        if test != "shipped" and benchmark_dir is not None:
            raise TaskError("task.env.test and task.benchmark_dir: both name evaluation tasks; set one of them")
        own = shipped_tasks() if test == "shipped" else own_tasks(test)
        evaluated = own if benchmark_dir is None else benchmark_tasks(benchmark_dir)
        instructions = list(_train(train))
        if train_size is not None and train_size < len(instructions):
            instructions = seeded_split(instructions, train_size, split_seed)["train"]
        instructions += _generated(generated)
        validation = _generated(VALIDATION, held_out=True) if generated else []
        splits: dict[Split, list[Problem]] = {"train": instructions, "validation": validation, "test": evaluated}
        # an answer in a chat may leave it out too (program_of)
        begun = f"{DEFINITION}\n"
        self._splits = {name: [replace(p, begun=begun, begins=DEFINES) for p in side] for name, side in splits.items()}

    def problems(self, split: Split) -> list[Problem]:
        """The instructions of one split."""
        return self._splits[split]

    def messages(self, problem: Problem) -> Prompted:
        """Chat: preamble as system message, worked examples as turns. Completion: one text to continue."""
        if self.style == "completion":
            shown = "".join(f"{MARK} {text}\n{program.rstrip()}\n\n" for text, program in self.examples)
            return f"{PREAMBLE}\n\n{shown}{MARK} {problem.question}\n{DEFINITION}"
        turns = [{"role": "system", "content": f"{PREAMBLE}\n\n{TASK}"}]
        for text, program in self.examples:
            turns.append({"role": "user", "content": f"{MARK} {text}"})
            turns.append({"role": "assistant", "content": f"```python\n{program.rstrip()}\n```"})
        return [*turns, {"role": "user", "content": f"{MARK} {problem.question}"}]

    def extract(self, answer: str) -> Extracted | None:
        """The program in the answer, without the definition line that the prompt may have given."""
        if self.extraction == "fenced" and self.style == "chat":
            return extract_fenced(answer)
        program = EXTRACTIONS[self.extraction](answer)
        text = program if program in answer else program.removeprefix(DEFINITION).removeprefix("\n")
        start = answer.find(text)
        if not text.strip() or start < 0:
            return None
        closed = answer[start + len(text) :].lstrip("\n").startswith("```")
        return Extracted(start, start + len(text), closed)

    def complete(self, answer: str) -> bool:
        """Chat: whether there is one closed block. Completion: whether a line outside the function has begun."""
        if self.style == "chat":
            code = extract_fenced(answer)
            return code is not None and code.closed
        return any(line and not line[0].isspace() for line in answer.split("\n")[1:])


def program_of(code: str) -> str:
    """The whole program of extracted code, with the definition line, which the prompt may have given; without an indent
    of all its lines."""
    if DEFINES.search(code):
        return without_indent(code)[0]
    return f"{DEFINITION}{code}" if code.startswith("\n") else f"{DEFINITION}\n{code}"


def shipped_tasks() -> list[Problem]:
    """Evaluation tasks written for this collection."""
    return [_checked_task(row) for row in read_json_lines(DATA / "eval.jsonl")]


def own_tasks(source: str) -> list[Problem]:
    """Evaluation tasks of the user's, from a file or folder. Raises TaskError, with the row's id."""
    problems: dict[str, Problem] = {}
    for number, row in enumerate(file_rows(data_files(Path(source), "task.env.test"), CHECKED, strict=True)):
        name = row.get("id") or f"row {number}"
        setting = f"task.env.test={source}: {name}"
        if missing := [column for column in CHECKED[1:] if not row.get(column)]:
            raise TaskError(f"{setting}: {missing[0]} is missing; a task needs {', '.join(CHECKED)}")
        if wrong := [column for column in ("text", "program") if not isinstance(row.get(column, ""), str)]:
            raise TaskError(f"{setting}: {wrong[0]} is no text")
        if wrong := [column for column in ("worlds", "conditions") if not isinstance(row[column], list)]:
            raise TaskError(f"{setting}: {wrong[0]} is no list")
        try:
            if len(row["worlds"]) != len(row["conditions"]):
                raise ValueError(f"{len(row['worlds'])} worlds and {len(row['conditions'])} conditions")
            problem = _checked_task({**row, "id": name})
            for condition in row["conditions"]:
                satisfied(condition, [])
        except (TaskError, ValueError, TypeError, LookupError) as error:
            raise TaskError(f"{setting}: {error}") from None
        if problem.id in problems:
            raise TaskError(f"{setting}: a second task with this id")
        problems[problem.id] = problem
    if not problems:
        raise TaskError(f"task.env.test={source}: no row")
    return list(problems.values())


def _checked_task(row: Row) -> Problem:
    """A task whose program is judged in closed worlds. Raises TaskError for a world that is none."""
    return Problem(
        id=f"roboeval/{row['id']}",
        question=row["text"],
        reference=row["program"],
        data={"worlds": [World.of(world) for world in row["worlds"]], "conditions": row["conditions"]},
    )


def benchmark_tasks(folder: str) -> list[Problem]:
    """RoboEval's 80 prompts with their worlds and checks."""
    benchmark = Benchmark(folder)
    return [
        Problem(
            id=f"roboeval/{prompt.id}",
            question=prompt.prompt,
            family=prompt.task,
            data={"worlds": benchmark.worlds[prompt.task], "conditions": checks.conditions(prompt.task)},
        )
        for prompt in benchmark.prompts()
    ]


def _train(source: str) -> Iterable[Problem]:
    if source == "shipped":
        rows = read_json_lines(DATA / "train.jsonl")
        return [_instruction(row["text"], row["program"], row["id"], row) for row in rows]
    if source == "hub":
        source_rows = hub_rows(HUB, None, "train", COLUMNS)
    else:
        source_rows = file_rows(data_files(Path(source), "task.env.train"), COLUMNS)
    parsed = [_from_text(row, number) for number, row in enumerate(source_rows)]
    problems = [problem for problem in parsed if isinstance(problem, Problem)]
    left_out = [f"row {number}: {reason}" for number, reason in enumerate(parsed) if isinstance(reason, str)]
    if not problems:
        raise TaskError(f"task.env.train={source}: no row can be used; {(left_out or ['there is none'])[0]}")
    if left_out:
        counts = len(left_out), len(parsed)
        log.warning("task.env.train=%s: %d of %d rows are left out; %s", source, *counts, left_out[0])
    return problems


def _generated(count: int, held_out: bool = False) -> list[Problem]:
    made = generated_rows(count, held_out)
    return [replace(_instruction(row["text"], row["program"], row["id"], row), family=row["family"]) for row in made]


def _from_text(row: Row, number: int) -> Problem | str:
    """A row of Robo-Instruct, whose `text` has function stubs, the instruction after its mark, and the program; or one
    without a program. A text says why a row cannot be used."""
    text, program = row.get("text"), row.get("program") or ""
    if not isinstance(text, str) or MARK not in text:
        return f"its `text` has no line `{MARK} ...`"
    if not isinstance(program, str) or (program and not DEFINES.search(program)):
        return f"its `program` does not define task_program: {program!r:.60}"
    instruction = DEFINES.split(text.rpartition(MARK)[2])[0].strip()
    if not instruction:
        return f"there is nothing behind `{MARK}`"
    return _instruction(instruction, program, f"robo-instruct-{number}", row)


def _instruction(text: str, program: str, name: str, row: dict[str, Any]) -> Problem:
    known = {key: row[key] for key in KNOWN if row.get(key) is not None}
    for key in ("nouns", "actions"):
        if not (isinstance(known.get(key, []), list) and all(isinstance(each, str) for each in known.get(key, ()))):
            raise TaskError(f"task.env.train: {name}: {key}={known[key]!r:.60} must be a list of texts")
    if unknown := set(known.get("actions", ())) - set(EVENTS):
        raise TaskError(f"task.env.train: {name}: actions={min(unknown)} is not one of {', '.join(EVENTS)}")
    if type(known.get("ordered", False)) is not bool:
        raise TaskError(f"task.env.train: {name}: ordered={known['ordered']!r:.60} must be true or false")
    return Problem(id=f"roboeval/{name}", question=text, reference=program, data=known)
