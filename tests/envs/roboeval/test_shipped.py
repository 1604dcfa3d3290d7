"""The instructions, evaluation tasks and worked examples that come with the package: right, telling, and our own."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import envs.roboeval
from envs.roboeval import Benchmark, Judgement, Request, World, explore, judge
from envs.roboeval.closed_world_run import robot_functions
from envs.roboeval.examples import EXAMPLES, PREAMBLE
from envs.roboeval.trace import KINDS

DATA = Path(envs.roboeval.__file__).parent / "data"
WORK = {"fetch", "deliver", "inspect", "survey", "relay", "errand", "patrol", "tidy", "guide", "inventory"}
CALLS = {event: {"go": "go_to", "check": "is_in_room"}.get(name, name) for name, event in KINDS.items()}
CLOSEST, CLOSEST_TO_BENCHMARK = 0.75, 0.6
IDLE = ["def task_program():\n    pass\n", "def task_program():\n    say('done')\n"]
"""Programs that shall be right nowhere."""


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


TRAIN, TASKS = read("train"), read("eval")


def verdicts(sandbox, mode: str, programs: Iterable[tuple[dict, str]]) -> list[Judgement]:
    worlds = {task["id"]: [World.of(world) for world in task["worlds"]] for task in TASKS}
    requests = [Request(program, worlds[task["id"]], task["conditions"], mode) for task, program in programs]
    return asyncio.run(judge(sandbox, requests))


def test_sizes_kinds_and_fields():
    assert len(TRAIN) >= 72 and len(TASKS) == 20 and len(EXAMPLES) == 6
    assert {row["kind"] for row in TRAIN} == WORK == {task["kind"] for task in TASKS}
    assert min(Counter(row["kind"] for row in TRAIN).values()) >= 8
    assert {tuple(row) for row in TRAIN} == {("id", "kind", "text", "program", "nouns", "actions", "open", "ordered")}
    assert {tuple(task) for task in TASKS} == {("id", "kind", "text", "worlds", "conditions", "program", "wrong")}
    for rows in (TRAIN, TASKS):
        assert len({row["id"] for row in rows}) == len({row["program"] for row in rows}) == len(rows)
    for task in TASKS:
        assert 3 <= len(task["worlds"]) == len(task["conditions"]) <= 5, task["id"]
        assert len({json.dumps(world) for world in task["worlds"]}) == len(task["worlds"]), task["id"]
    written = " ".join(row["program"] for row in TRAIN)
    assert re.search(r'go_to\("', written) and re.search(r"go_to\('", written)


def test_names_and_options_are_plain_texts():
    """What is written out as an argument is text without blanks around it; options are lists of texts."""
    programs = [row["program"] for row in (*TRAIN, *TASKS)] + [program for _, program in EXAMPLES]
    for program in programs:
        assert program.startswith("def task_program():\n") and program.endswith("\n")
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 2:
                joined = node.value.startswith((" ", ",")) or node.value.endswith(" ")  # a part of a longer text
                assert joined or node.value == node.value.strip()
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ask":
                options = node.args[2]
                assert isinstance(options, ast.Name) or all(isinstance(o.value, str) for o in options.elts)


@pytest.mark.parametrize("mode", ["hardened", "compat"])
def test_references_are_right_and_wrong_programs_wrong_as_said(sandbox, mode):
    cases = [(task, "Success", task["program"]) for task in TASKS]
    cases += [(task, each["verdict"], each["program"]) for task in TASKS for each in task["wrong"]]
    results = verdicts(sandbox, mode, [(task, program) for task, _, program in cases])
    for (task, wanted, _), judgement in zip(cases, results, strict=True):
        assert judgement.verdict == wanted, (task["id"], wanted, judgement.note)
    for task in TASKS:
        kinds = {each["verdict"] for each in task["wrong"]}
        assert kinds == {"PythonError", "RobotExecutionError", "CompletionError"}, task["id"]


def test_worlds_tell_right_from_plausible(sandbox):
    """No idle program is right, and most wrong programs without an error are right in some world but not in all."""
    idle = verdicts(sandbox, "hardened", [(task, program) for task in TASKS for program in IDLE])
    assert {judgement.verdict for judgement in idle} == {"CompletionError"}
    wrong = [(t, each["program"]) for t in TASKS for each in t["wrong"] if each["verdict"] == "CompletionError"]
    partly = ["sat" in [world.result for world in results.worlds] for results in verdicts(sandbox, "hardened", wrong)]
    assert sum(partly) >= 15


def said(events: Sequence[tuple[str, str, Any]]) -> str:
    return " ".join(" ".join([text, *(options or ())]) for _, text, options in events).lower()


@pytest.mark.parametrize("mode", ["hardened", "compat"])
def test_the_open_world_accepts_training_programs_and_shows_what_was_asked(sandbox, mode):
    """Open rows for certain and without shaking; the others, which look for rooms by name, need it to be seen."""
    for open_, shaking in ((True, "none"), (False, "tree")):
        rows = [row for row in TRAIN if row["open"] is open_]
        results = asyncio.run(explore(sandbox, [row["program"] for row in rows], mode=mode, shaking=shaking, runs=0))
        for row, each in zip(rows, results, strict=True):
            assert each.outcomes == {"ok": "1/1"} if open_ else "ok" in each.outcomes, (row["id"], each.outcomes)
            assert each.exact and (each.least_events > 0 or not open_), row["id"]
            shown = said(each.events)
            assert not [noun for noun in row["nouns"] if noun.lower() not in shown], row["id"]
            assert row["actions"] and set(row["actions"]) <= {CALLS[kind] for kind, _, _ in each.events}, row["id"]


def test_rows_that_are_not_open_need_shaking(sandbox):
    rows = [row for row in TRAIN if not row["open"]]
    assert 3 <= len(rows) <= 10 and all("get_all_rooms()" in row["program"] for row in rows)
    results = asyncio.run(explore(sandbox, [row["program"] for row in rows], shaking="none", runs=0))
    for row, each in zip(rows, results, strict=True):
        missing = set(row["actions"]) - {CALLS[kind] for kind, _, _ in each.events}
        assert missing or "ok" not in each.outcomes, row["id"]
    assert any("ok" not in each.outcomes for each in results)


def test_nouns_are_words_of_the_instruction():
    for row in TRAIN:
        for noun in row["nouns"]:
            assert re.search(rf"\b{re.escape(noun)}\b", row["text"], re.IGNORECASE), (row["id"], noun)


def test_worked_examples(sandbox):
    stubs = {node.name: node for node in ast.parse(PREAMBLE).body if isinstance(node, ast.FunctionDef)}
    lines = PREAMBLE.splitlines()
    assert set(stubs) == {*CALLS.values(), "get_current_location", "get_all_rooms"}
    for name, stub in stubs.items():
        assert name in ast.get_docstring(ast.parse(PREAMBLE)) and lines[stub.lineno - 2].startswith("# ")
        assert stub.returns is not None and all(argument.annotation for argument in stub.args.args)
    results = asyncio.run(explore(sandbox, [program for _, program in EXAMPLES], shaking="none", runs=0))
    for (instruction, _), each in zip(EXAMPLES, results, strict=True):
        assert set(each.outcomes) == {"ok"} and each.exact, instruction
    used = {CALLS[kind] for each in results for kind, _, _ in each.events}
    assert used == set(CALLS.values())


def test_stubs_take_what_the_simulators_take():
    real = robot_functions(lambda *_: None, None)
    for stub in ast.parse(PREAMBLE).body:
        if isinstance(stub, ast.FunctionDef):
            assert [argument.arg for argument in stub.args.args] == [*signature(real[stub.name]).parameters], stub.name


def common(text: str, other: str) -> int:
    """The length of the longest common subsequence, a bit for each character (Hyyro 2004)."""
    places = {letter: sum(1 << i for i, each in enumerate(text) if each == letter) for letter in set(text)}
    full = left = (1 << len(text)) - 1
    for letter in other:
        met = left & places.get(letter, 0)
        left = ((left + met) | (left - met)) & full
    return len(text) - left.bit_count()


def too_close(texts: Iterable[str], others: Iterable[str], limit: float) -> list[tuple[float, str, str]]:
    """Pairs with a difflib ratio above the limit. What matches there is a common subsequence, and the longest is
    counted faster."""
    pairs = [(text.lower(), other.lower()) for text in texts for other in others]
    near = [(a, b) for a, b in pairs if 2 * common(a, b) > limit * (len(a) + len(b))]
    results = [(SequenceMatcher(None, a, b, autojunk=False).ratio(), a, b) for a, b in near]
    return [each for each in results if each[0] > limit]


def test_likeness_is_seen():
    text = TRAIN[0]["text"]
    assert too_close([text], [text.upper() + "!"], 0.9) and not too_close([text], [TRAIN[1]["text"]], 0.9)
    for other in (row["text"] for row in TRAIN[1:20]):
        blocks = SequenceMatcher(None, text, other, autojunk=False).get_matching_blocks()
        assert sum(block.size for block in blocks) <= common(text, other) == common(other, text)


def test_nothing_is_there_twice():
    train, tasks = [row["text"] for row in TRAIN], [task["text"] for task in TASKS]
    shown = [instruction for instruction, _ in EXAMPLES]
    for texts, others in ((train, tasks), (train, shown), (tasks, shown)):
        assert not too_close(texts, others, CLOSEST)
    for texts in (train, tasks, shown):
        for number, text in enumerate(texts):
            assert not too_close([text], texts[:number], CLOSEST)


def test_nothing_is_like_a_prompt_of_the_benchmark(benchmark_folder):
    """Its licence keeps it for evaluation."""
    texts = [row["text"] for row in (*TRAIN, *TASKS)] + [instruction for instruction, _ in EXAMPLES]
    prompts = [prompt.prompt for prompt in Benchmark(benchmark_folder).prompts()]
    assert len(prompts) == 80 and not too_close(texts, prompts, CLOSEST_TO_BENCHMARK)
