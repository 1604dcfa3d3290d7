"""Programs for a robot: trained on instructions with RoboSim's open world, evaluated in closed worlds with checks.

Train: the shipped instructions, or zichao22/robo-instruct (Hu et al. 2025, arXiv 2405.20179) from the hub or a file.
Test: the shipped tasks; with `benchmark_dir` the 80 prompts of RoboEval (Hu et al. 2024, arXiv 2311.11183), whose
licence allows evaluation and forbids training: they are in no split but `test`, and not shipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from envs.data import Row, data_files, file_rows, hub_rows
from envs.roboeval import checks
from envs.roboeval.examples import EXAMPLES, PREAMBLE
from envs.roboeval.extraction import DEFINITION, EXTRACTIONS
from envs.roboeval.worlds import Benchmark, World
from envs.task import Extracted, Problem, Prompted, Split, TaskError, extract_fenced, seeded_split

DATA = Path(__file__).parent / "data"
HUB = "zichao22/robo-instruct"
COLUMNS = ("text", "program", "prompt")
STYLES = ("chat", "completion")
MARK = "# Instruction:"
TASK = (
    "Write one Python program for the robot, a function task_program() without parameters that uses only the functions "
    "above, in one code block."
)


class RoboEval:
    """
    Args:
        train: "shipped", "hub", or rows in files with the hub's columns `text` and `program`.
        benchmark_dir: RoboEval's folder (prompts.jsonl, tests.jsonl, worlds.json) to evaluate on; None for the shipped
            evaluation tasks.
        style: "chat", or "completion" for base models: one text that ends with the definition line.
        examples: worked examples in the prompt, at most six.
        extraction: "fenced", "robo_instruct" or "seed_paper".
        train_size: None for all.
        split_seed: of the sample where there are more.

    Raises:
        TaskError: an unknown style or extraction, missing data.
    """

    name = "roboeval"

    def __init__(
        self,
        train: str = "shipped",
        benchmark_dir: str | None = None,
        style: str = "chat",
        examples: int = 2,
        extraction: str = "fenced",
        train_size: int | None = None,
        split_seed: int = 0,
    ):
        if style not in STYLES or extraction not in EXTRACTIONS:
            raise TaskError(f"task.env: style is {' or '.join(STYLES)}, extraction one of {', '.join(EXTRACTIONS)}")
        if not 0 <= examples <= len(EXAMPLES):
            raise TaskError(f"task.env.examples={examples}: there are {len(EXAMPLES)}")
        self.style, self.examples, self.extraction = style, EXAMPLES[:examples], extraction
        self.closing = "`\n" if style == "chat" else "\n"
        test = shipped_tasks() if benchmark_dir is None else benchmark_tasks(benchmark_dir)
        instructions = list(_train(train))
        if train_size is not None and train_size < len(instructions):
            instructions = seeded_split(instructions, train_size, split_seed)["train"]
        self._splits: dict[Split, list[Problem]] = {"train": instructions, "validation": [], "test": test}

    def problems(self, split: Split) -> list[Problem]:
        """The instructions of one split."""
        return self._splits[split]

    def messages(self, problem: Problem) -> Prompted:
        """Chat: preamble as system message, worked examples as turns. Completion: one text to go on with."""
        if self.style == "completion":
            shown = "".join(f"{MARK} {text}\n{program.rstrip()}\n\n" for text, program in self.examples)
            return f"{PREAMBLE}\n\n{shown}{MARK} {problem.question}\n{DEFINITION}"
        turns = [{"role": "system", "content": f"{PREAMBLE}\n\n{TASK}"}]
        for text, program in self.examples:
            turns.append({"role": "user", "content": f"{MARK} {text}"})
            turns.append({"role": "assistant", "content": f"```python\n{program.rstrip()}\n```"})
        return [*turns, {"role": "user", "content": f"{MARK} {problem.question}"}]

    def extract(self, answer: str) -> Extracted | None:
        """Where the program is; what precedes it (a definition line that the prompt gave) is not part of it."""
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
        """Chat: one closed block. Completion: a line that is not part of the function has begun."""
        if self.style == "chat":
            code = extract_fenced(answer)
            return code is not None and code.closed
        return any(line and not line[0].isspace() for line in answer.split("\n")[1:])


def program_of(code: str) -> str:
    """The whole program of an extracted code, whose definition line the prompt may have given."""
    if DEFINITION in code:
        return code
    return f"{DEFINITION}{code}" if code.startswith("\n") else f"{DEFINITION}\n{code}"


def shipped_tasks() -> list[Problem]:
    """Evaluation tasks written for this collection."""
    rows = [json.loads(line) for line in (DATA / "eval.jsonl").read_text().splitlines()]
    return [
        Problem(
            id=f"roboeval/{row['id']}",
            question=row["text"],
            reference=row["program"],
            data={"worlds": [World.of(world) for world in row["worlds"]], "conditions": row["conditions"]},
        )
        for row in rows
    ]


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
        rows: Iterable[Row] = (json.loads(line) for line in (DATA / "train.jsonl").read_text().splitlines())
        return [_instruction(row["text"], row["program"], row["id"], row) for row in rows]
    rows = hub_rows(HUB, None, "train", COLUMNS) if source == "hub" else file_rows(data_files(Path(source)), COLUMNS)
    found = [_from_text(row, number) for number, row in enumerate(rows)]
    kept = [problem for problem in found if problem is not None]
    if not kept:
        raise TaskError(f"task.env.train={source}: no row with `text` ({MARK} ...) and `program`")
    return kept


def _from_text(row: Row, number: int) -> Problem | None:
    """A row of Robo-Instruct: `text` holds stubs, the instruction behind its mark, the program."""
    text, program = row.get("text"), row.get("program")
    if not isinstance(text, str) or not isinstance(program, str) or MARK not in text or DEFINITION not in program:
        return None
    instruction = text.rpartition(MARK)[2].partition(DEFINITION)[0].strip()
    return _instruction(instruction, program, f"robo-instruct-{number}", {}) if instruction else None


def _instruction(text: str, program: str, name: str, row: dict[str, Any]) -> Problem:
    asked: dict[str, Sequence[str]] = {key: row.get(key, ()) for key in ("nouns", "actions")}
    return Problem(id=f"roboeval/{name}", question=text, reference=program, data=asked)
