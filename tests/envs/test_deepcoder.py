"""DeepCoder: every shape of `tests` becomes one, broken rows are counted, right answers pass and wrong ones do not."""

from __future__ import annotations

import ast
import asyncio
import gzip
import json
from pathlib import Path

import pytest

from envs.deepcoder import DeepCoder
from envs.deepcoder.cases import BadTests, normalise
from envs.sandbox import FunctionCase, Job, StdioCase, run_sync
from envs.task import Problem, TaskError
from rewards.channel import Completion
from rewards.form import Form
from rewards.unit_tests import UnitTests
from tests.envs.mutants import SAME, function_mutants, program_mutants, table_program

SHARED = Path(__file__).parents[3] / "shared" / "data" / "deepcoder"
ADD = (FunctionCase((1, [2]), 3), FunctionCase((4, []), {"a": None}))
ECHO = (StdioCase("1\n2", "1\n2\n"), StdioCase("", "x"))


def lcb(**fields) -> list[dict]:
    return [
        {"input": "1\n[2]", "output": "3", "testtype": "functional", **fields},
        {"input": "4\n[]\n", "output": '{"a": null}', "testtype": "functional", **fields},
    ]


def prime(**fields) -> list[dict]:
    return [
        {"type": "function_call", "fn_name": "add", "input": [1, [2]], "output": [3], **fields},
        {"type": "function_call", "fn_name": "add", "input": [4, []], "output": [{"a": None}], **fields},
    ]


def taco(**fields) -> dict:
    return {"inputs": [[1, [2]], [4, []]], "outputs": [[3], [{"a": None}]], "fn_name": "add", **fields}


PAIRS = [{"input": "1\n2", "output": "1\n2\n"}, {"input": "", "output": "x"}]
SOLUTION = "class Solution:\n    def helper(self): ...\n    def add(self, a: int, b: List[int]) -> int:\n        "
FUNCTIONS = [
    (lcb(metadata={"func_name": "add"}), None, ""),
    (lcb(metadata='{"func_name": "add"}'), None, ""),
    (lcb(), {"func_name": "add"}, ""),
    (lcb(metadata={}), '{"func_name": "add"}', ""),
    (lcb(), None, SOLUTION),
    (lcb(testtype=None), {"func_name": "add"}, ""),
    (prime(), None, ""),
    (prime(type=None), None, ""),
    (taco(), None, ""),
    (taco(outputs=[3, {"a": None}]), None, ""),
    (taco(inputs=["1\n[2]", "4\n[]"], outputs=["3", '{"a": null}']), None, ""),
    (taco(inputs="[[1, [2]], [4, []]]", outputs='[[3], [{"a": null}]]'), None, ""),
    ([json.dumps(test) for test in prime()], None, ""),
    (repr(prime()), None, ""),
]
PROGRAMS = [
    PAIRS,
    [{**pair, "testtype": "stdin"} for pair in PAIRS],
    [{**pair, "type": "stdin_stdout", "fn_name": None, "metadata": {"func_name": None}} for pair in PAIRS],
    {"inputs": ["1\n2", ""], "outputs": ["1\n2\n", "x"]},
    {"inputs": [["1", "2"], []], "outputs": [["1", "2", ""], ["x"]], "fn_name": ""},
    [{"input": "1\n2", "output": "1\n2\n"}, {"input": None, "output": "x"}],
]


@pytest.mark.parametrize("packed", [lambda tests: tests, json.dumps, lambda t: json.dumps(json.dumps(t))])
def test_every_shape_of_tests_becomes_one(packed):
    for tests, metadata, starter in FUNCTIONS:
        results = normalise(packed(tests), metadata, starter)
        assert (results.entry_point, results.cases) == ("add", ADD), tests
    for tests in PROGRAMS:
        results = normalise(packed(tests), {"func_name": None})
        assert (results.entry_point, results.cases) == (None, ECHO), tests


def test_a_single_test_and_what_json_cannot_say():
    assert normalise({"input": "1\n", "output": 2}).cases == (StdioCase("1\n", "2"),)
    assert normalise({"inputs": "1\n", "outputs": "2\n"}).cases == (StdioCase("1\n", "2\n"),)
    assert normalise(prime()[0]).cases == ADD[:1]
    assert normalise(taco(inputs=[[{"1": 2}], [{"a": 1}]])).cases[0].args == ({1: 2},)
    assert normalise({"input": {"a": 1}, "output": 2, "fn_name": "f"}).cases == (FunctionCase((), 2, {"a": 1}),)
    lists = normalise(taco(outputs=[[1], [1, 2]])).cases
    assert [case.expected for case in lists] == [[1], [1, 2]]  # lists that are results
    assert normalise([{**PAIRS[0], "testtype": "stdin"}], {"func_name": "f"}).entry_point is None


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (None, "no tests"),
        ([], "no tests"),
        ({}, "no tests"),
        ("", "tests are not JSON"),
        ("[{", "tests are not JSON"),
        (5, "tests of an unknown shape"),
        ([1], "tests of an unknown shape"),
        (["[]"], "tests of an unknown shape"),
        ([{"input": "1"}], "a test lacks its input or output"),
        ({"inputs": ["1"], "outputs": []}, "inputs and outputs do not match"),
        ({"inputs": {"a": 1}, "outputs": []}, "inputs and outputs do not match"),
        ([*PAIRS, *prime()], "tests of several functions, or of both kinds"),
        ([*prime(), *prime(fn_name="sub")], "tests of several functions, or of both kinds"),
        (lcb(), "no name of the function"),
        (prime(fn_name="a b"), "a function's name is not an identifier"),
        ([{**PAIRS[0], "testtype": "interactive"}], "an unknown type of test"),
        ([{"input": "", "output": " \n"}], "tests expect nothing"),
        (prime(output=[None]), "tests expect nothing"),
        ([{"input": {}, "output": {}}], "a program's input or output is not text"),
        (lcb(input="x y", fn_name="add"), "arguments are not JSON"),
        (lcb(output="x y", fn_name="add"), "a result is not JSON"),
        (prime(output=json.loads("[" * 400 + "]" * 400)), "values too deep or too large to send"),
        ("[" * 100_000, "tests are not JSON"),
    ],
)
def test_what_cannot_be_judged_by_has_a_reason(tests, reason):
    with pytest.raises(BadTests, match=reason):
        normalise(tests)


def rows(count: int, **fields) -> list[dict]:
    return [{"id": f"r{n}", "problem": f"Print {n}.", "tests": json.dumps(PAIRS), **fields} for n in range(count)]


def write(path: Path, lines: list) -> Path:
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def ids(task: DeepCoder) -> list[set[str]]:
    return [{problem.id for problem in task.problems(split)} for split in ("train", "test")]


def test_rows_come_from_files_of_three_kinds_and_folders(tmp_path):
    from pyarrow import Table, parquet

    lines = rows(20)
    write(tmp_path / "a.jsonl", lines)
    write(tmp_path / "b.jsonl.gz", lines)
    parquet.write_table(Table.from_pylist(lines), tmp_path / "c.parquet")
    results = [ids(DeepCoder(str(tmp_path / name))) for name in ("a.jsonl", "b.jsonl.gz", "c.parquet")]
    assert results[0] == results[1] == results[2] and [len(side) for side in results[0]] == [18, 2]
    assert [len(side) for side in ids(DeepCoder(str(tmp_path / "a.jsonl"), train_size=5))] == [5, 15]
    hub = tmp_path / "copy"
    for name, part in (("lcbv5/train-0", lines[:9]), ("taco/train-0", lines[9:15]), ("lcbv5/test-0", lines[15:])):
        (hub / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(Table.from_pylist(part), f"{hub / name}.parquet")
    assert [len(side) for side in ids(DeepCoder(str(hub)))] == [15, 5]
    for name, part in (("lcbv5/train-0", lines[:9]), ("taco/train-0", lines[9:15]), ("taco/test-0", lines[:3])):
        nameless = [{"problem": f"{name}: {row['problem']}", "tests": row["tests"]} for row in part]
        parquet.write_table(Table.from_pylist(nameless), f"{hub / name}.parquet")
    train, test = ids(DeepCoder(str(hub)))  # files with one name in several folders
    assert len({*train, *test}) == 15 + 8 and "deepcoder/taco/train-0-5" in train


def test_what_is_held_out_is_not_trained_on(tmp_path):
    """The same text in both, with other blanks, is for the test alone."""
    write(tmp_path / "train.jsonl", rows(9))
    held_out = [row | {"id": f"t{n}", "problem": row["problem"].replace(" ", "  ")} for n, row in enumerate(rows(3))]
    write(tmp_path / "test.jsonl", held_out)
    task = DeepCoder(str(tmp_path))
    assert [len(side) for side in ids(task)] == [6, 3]
    assert dict(task.dropped) == {"has the text of a held-out problem": 3}


def test_an_id_on_both_sides_is_held_out(tmp_path):
    write(tmp_path / "train.jsonl", rows(9))
    other = [row | {"problem": f"another text {n}"} for n, row in enumerate(rows(3))]
    write(tmp_path / "test.jsonl", other)
    task = DeepCoder(str(tmp_path))
    assert [len(side) for side in ids(task)] == [6, 3]
    assert {problem.question.split("\n")[0] for problem in task.problems("test")} == {row["problem"] for row in other}
    assert dict(task.dropped) == {"has the id of a held-out problem": 3}


def test_programs_may_print_what_their_tests_expect(tmp_path, sandbox):
    """More than the sandbox's usual limit, where the tests have as much."""
    long = [{"input": "1", "output": "7\n" * 3_000_000}]
    write(tmp_path / "rows.jsonl", [row | {"tests": json.dumps(long)} for row in rows(2)])
    [problem] = DeepCoder(str(tmp_path / "rows.jsonl"), train_size=1).problems("train")
    jobs = [problem.job(f"input()\nprint('7\\n' * {count}, end='')") for count in (3_000_000, 12_000_000)]
    outcomes = run_sync(sandbox, jobs)
    assert [outcome.verdict for outcome in outcomes] == ["pass", "killed"]


def test_data_that_is_not_there_is_said_in_one_line(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, says in (
        (tmp_path / "nowhere", "no such file"),
        (empty, "holds no .jsonl"),
        (write(tmp_path / "a.jsonl", ["{}\n"]), "no usable rows .1 no problem text"),
        (write(tmp_path / "b.jsonl", []), "no usable rows"),
    ):
        with pytest.raises(TaskError, match=says):
            DeepCoder(str(path))
    for name in ("c.jsonl.gz", "d.parquet"):
        (tmp_path / name).write_bytes(b"rubbish")
        with pytest.raises(TaskError, match=f"cannot read .*{name}") as error:
            DeepCoder(str(tmp_path / name))
        assert "\n" not in str(error.value)


def test_without_the_hub_one_line_says_what_to_do(monkeypatch):
    import datasets

    def absent(*_: object, **__: object):
        raise ConnectionError("cannot reach it\nand more")

    monkeypatch.setattr(datasets, "load_dataset", absent)
    with pytest.raises(TaskError, match=r"from the hub: give a copy .*\(ConnectionError: cannot") as error:
        DeepCoder()
    assert "\n" not in str(error.value)


def test_the_hubs_parts_keep_their_sides(monkeypatch):
    import datasets

    asked = []

    def load(name_of_it: str, name: str, split: str):
        asked.append((name, split))
        made = [{"problem": f"{name} {split}: {row['problem']}", "tests": row["tests"]} for row in rows(3)]
        return datasets.Dataset.from_list(made)

    monkeypatch.setattr(datasets, "load_dataset", load)
    train, test = ids(DeepCoder())
    assert asked == [(n, "train") for n in ("primeintellect", "taco", "lcbv5")] + [
        (n, "test") for n in ("codeforces", "lcbv5")
    ]
    assert len(train) == 9 and len(test) == 6 and "deepcoder/lcbv5-test-2" in test


@pytest.fixture(scope="module")
def task() -> DeepCoder:
    if not SHARED.is_dir():
        pytest.skip("../shared/data/deepcoder is not here")
    return DeepCoder(str(SHARED), several_answers="keep")


def all_problems(task: DeepCoder) -> list[Problem]:
    return [*task.problems("train"), *task.problems("test")]


def test_every_row_at_hand_is_used(task):
    problems = all_problems(task)
    assert len(problems) == 598 and not task.dropped
    assert sum(problem.entry_point is None for problem in problems) == 297
    assert len({problem.id for problem in problems}) == 598


def test_the_prompt_shows_the_problem_and_its_form(task):
    problems = {problem.id: problem for problem in all_problems(task)}
    program = problems["deepcoder/cf-0001"]
    system, user = task.messages(program)
    assert "Python" in system["content"] and "standard input" in user["content"] and "```python" in user["content"]
    function = problems["deepcoder/lcd-test-adjacent-increasing-subarrays-detection-i"]
    assert "def hasIncreasingSubarrays(self, nums: List[int], k: int) -> bool:" in function.question
    assert "standard input" not in function.question and function.setup and not program.setup
    assert "def is_prime(n):" in problems["deepcoder/apps-4184"].question
    for problem in problems.values():  # the examples in the statement aside
        hidden = [c for c in problem.cases if isinstance(c, FunctionCase) and len(repr(c.args)) > 200]
        assert not any(repr(case.args)[1:-1] in problem.question for case in hidden)
        assert problem.limits is not None and problem.limits.cpu_s == 6.0 and problem.limits.each_case


def graded(sandbox, jobs: list[Job]) -> dict[str, str]:
    return {outcome.id: outcome.verdict for outcome in run_sync(sandbox, jobs)}


def test_right_answers_pass_and_wrong_ones_do_not(task, sandbox):
    """A part; the whole: tests/bench/corpora_deepcoder.py."""
    jobs = []
    problems = sorted(all_problems(task), key=lambda problem: problem.id)
    functions = [problem for problem in problems if problem.entry_point]
    programs = [problem for problem in problems if not problem.entry_point]
    chosen = functions[::20] + [p for p in functions if p.id.endswith(("apps-4184", "lcd-train-56"))]
    for problem in chosen:
        jobs.append(problem.job(problem.reference, f"right {problem.id}"))
        jobs += [problem.job(code, f"wrong {kind} {problem.id}") for kind, code in function_mutants(problem)]
    for number, problem in enumerate(programs[::20]):
        kinds = list(SAME.items())
        known = table_program(problem)
        jobs.append(problem.job(known + kinds[number % len(kinds)][1], f"right {problem.id}"))
        mutants = list(program_mutants(problem))
        jobs += [problem.job(code, f"wrong {kind} {problem.id}") for kind, code in mutants[number % 2 :: 2]]
    jobs += [p.job(p.reference, f"right {p.id}") for p in programs if p.reference]
    verdicts = graded(sandbox, jobs)
    assert [i for i, v in verdicts.items() if (v == "pass") != i.startswith("right")] == []


PRINT = Problem("p/1", "", cases=(StdioCase("3\n", "6\n"), StdioCase("4\n", "8\n")))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nx = 1\n```\nbut better:\n```python\ny = 2\n```\ndone", "y = 2\n"),
        ("```python\nx = 1\n```\nthen\n```python\ny = 2", "x = 1\n"),
        ("```python\ny = 2", None),
        ("print(1)", None),
        ("", None),
    ],
)
def test_the_last_complete_block_is_the_answer(tmp_path, answer, code):
    task = DeepCoder(str(write(tmp_path / "a.jsonl", rows(10))))
    results = task.extract(answer)
    assert (None if results is None else answer[results.start : results.end]) == code
    assert results is None or results.closed
    assert not task.complete(answer)


class Counting:
    """A sandbox that counts the jobs it is given."""

    def __init__(self, box) -> None:
        self.box, self.jobs = box, 0

    async def run(self, jobs, progress=None):
        self.jobs += len(jobs)
        return await self.box.run(jobs, progress)


def test_the_reward_is_a_tenth_of_form_and_correctness(tmp_path, sandbox):
    from omegaconf import OmegaConf

    cfg = OmegaConf.load(Path(__file__).parents[2] / "conf" / "task" / "deepcoder.yaml").reward
    task = DeepCoder(str(write(tmp_path / "a.jsonl", rows(10))))
    answers = [
        "```python\nprint(2 * int(input()))\n```",
        "```python\nprint(6)\n```",
        "print(2 * int(input()))",
        "```python\nprint(2 * int(input()))",
    ]
    results = [task.extract(answer) for answer in answers]
    completions = [
        Completion(answer, [0], [(0, len(answer))], span and (span.start, span.end), closed=span is not None)
        for answer, span in zip(answers, results, strict=True)
    ]
    box = Counting(sandbox)
    form = Form(cfg.form.block, cfg.form.no_block, cfg.form.length_alpha)
    rewards = []
    for fractional in (cfg.unit_tests.fractional, True):
        tests = UnitTests(box, fractional)
        scores = [asyncio.run(channel.score([PRINT] * 4, completions)) for channel in (tests, form)]
        weights = (cfg.unit_tests.weight, cfg.form.weight)
        rewards.append(
            [sum(w * r.score for w, r in zip(weights, pair, strict=True)) for pair in zip(*scores, strict=True)]
        )
    assert rewards == [[1.0, 0.0, -0.1, -0.1], [1.0, 0.5, -0.1, -0.1]]
    assert box.jobs == 4  # none without a block


def test_references_are_programs(task):
    for problem in all_problems(task):
        ast.parse(problem.reference)


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": -2.0}, {"memory_mib": 0}, {"memory_mib": 512.5}])
def test_limits_that_no_program_can_keep_name_the_tasks_own_setting(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(TaskError, match=rf"^task\.env\.{name}={value}: .* expected$"):
        DeepCoder(**wrong)
