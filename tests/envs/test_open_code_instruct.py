"""OpenCodeInstruct: rows of every shape, the tested function, what tests may use of a solution, samples."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from envs.data import data_files, file_rows
from envs.mbpp import Mbpp, instruct
from envs.sandbox import run_sync
from envs.task import TaskError
from tests.envs.test_mbpp import shared

ROOT = Path(__file__).parents[2]


def test_open_code_instruct_rows_in_the_hubs_columns(sandbox):
    rows = list(file_rows(data_files(shared("opencodeinstruct_sample/sample.jsonl")), instruct.COLUMNS))
    problems = [instruct.problem(row) for row in rows]
    assert {p.entry_point for p in problems} >= {"find_min_max", "find_unique_elements", "sum_values"}
    right = "def sum_values(d):\n    return {k: sum(v) for k, v in d.items()}\n"
    [problem] = [p for p in problems if p.entry_point == "sum_values"]
    codes = (right, right.replace("sum(v)", "len(v)"))
    outcomes = asyncio.run(sandbox.run([problem.job(code, code) for code in codes]))
    assert [o.verdict for o in outcomes] == ["pass", "fail"]


def made(number: int, **changes):
    return {
        "id": f"r{number}",
        "input": f"Write f{number}.",
        "output": f"Sure:\n```python\ndef f{number}(x):\n    return x\n```",
        "domain": "generic",
        "unit_tests": json.dumps([f"\nassert f{number}(1) == 1\n", "assert broken("]),
    } | changes


def test_rows_of_every_shape_are_used_or_dropped_with_a_reason(tmp_path, caplog):
    odd = [
        made(100, domain="algorithmic"),
        made(101, unit_tests="[]"),
        made(102, unit_tests="not json"),
        made(103, unit_tests=["assert f103(1) == 1"]),
        made(104, unit_tests=json.dumps(["assert len('a') == 1"])),
        made(105, input=""),
        made(106, output=None),
        made(107, domain=None),
        made(108, domain=""),
        {key: value for key, value in made(109).items() if key != "domain"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in [*map(made, range(20)), *odd]) + "not json\n")
    task = Mbpp(train_path=str(file), train_size=15, validation_size=5)
    train, validation = task.problems("train"), task.problems("validation")
    [told] = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert told.startswith("OpenCodeInstruct: left out 7 rows (") and "1 domain algorithmic" in told
    assert (len(train), len(validation)) == (15, 5) and not {p.id for p in train} & {p.id for p in validation}
    assert train == Mbpp(train_path=str(file), train_size=15, validation_size=5).problems("train")
    assert train != Mbpp(train_path=str(file), train_size=15, validation_size=5, split_seed=1).problems("train")
    file.write_text("".join(json.dumps(made(n, id=f"r{n % 19}")) + "\n" for n in range(20)))
    with pytest.raises(TaskError, match="1 ids name several problems"):
        Mbpp(train_path=str(file), train_size=15, validation_size=5).problems("train")
    reasons = Counter()
    for each in odd:
        try:
            problem = instruct.problem(each)
            reasons["kept"] += 1
            assert len(problem.check_src.splitlines()) == 1
        except TaskError as error:
            reasons[str(error)] += 1
    assert reasons == {
        "kept": 3,
        "domain algorithmic": 1,
        "domain empty": 2,
        "no asserts": 2,
        "tests call no function": 1,
        "no instruction": 1,
    }
    assert instruct.problem(made(1)).reference == "def f1(x):\n    return x\n"


@pytest.mark.parametrize(
    "test",
    [
        "import io\nfrom contextlib import redirect_stdout\nb = io.StringIO()\nwith redirect_stdout(b):\n    f(2)\n"
        "assert b.getvalue() == '0'",
        "import sys, io\nsys.stdout = io.StringIO()\nf(1)\nassert sys.stdout.getvalue() == '1'",
        "from unittest.mock import patch\nwith patch('builtins.input', return_value='2'):\n    assert f() == 4",
        "import random\nrandom.seed(0)\nassert f() == 3",
        "open('t.txt', 'w').write('x')\nassert f('t.txt') == 1",
        "import os\nos.environ['K'] = 'v'\nassert f('K') == 'v'",
        "assert asyncio.run(f(1)) == 1",
        "import asyncio as a\nassert a.run(f(1)) == 1",
        "import io\no = io.StringIO()\nf(o)\nassert o.getvalue() == '1'",
        "import sys\nsys.argv = ['x', '1']\nassert f() == 1",
        "from pathlib import Path\nPath('a.txt').write_text('hi')\nassert f('a.txt') == 'hi'",
        "from pytest import approx\nassert f(1) == approx(1)",
        "assert f(1) == pytest.approx(1)",
    ],
)
def test_tests_that_need_the_programs_streams_files_seeds_or_coroutines_are_left_out(test):
    """A test runs in a process of its own: every right program would fail."""
    assert instruct.asserts([test, "assert f(1) == 1"]) == ["assert f(1) == 1"]


def test_tests_that_the_rows_own_solution_fails_are_left_out():
    tests = ["assert f(1) == 1", "assert f(2) == 9", "assert f(3) == 3"]
    status = ["pass", "fail", "pass"]
    assert instruct.asserts(json.dumps(tests), json.dumps(status)) == [tests[0], tests[2]]
    assert instruct.asserts(tests, status[:2]) == tests  # not of these tests
    with pytest.raises(TaskError, match="no asserts"):
        instruct.problem(made(1, unit_tests=tests, tests_execution_status=["fail"] * 3))


@pytest.mark.parametrize(
    ("output", "tests", "reason"),
    [
        ("X = 5\ndef f1(s):\n    return s + X", ["assert f1(1) == 1 + X"], "what nothing defines, such as X"),
        ("try:\n    import numpy as np\nexcept ImportError: pass\ndef f1(s): ...", ["assert f1(np.ones(1))"], "np"),
        ("async def f1(x):\n    return x", ["assert f1(1) == 1"], "coroutine"),
        ("def f1(x):\n    return x", ["f1 = f1(1)\nassert f1 == 1"], "give the function's name to something else"),
    ],
)
def test_rows_whose_tests_no_program_passes_are_left_out(output, tests, reason):
    with pytest.raises(TaskError, match=reason):
        instruct.problem(made(1, output=output, unit_tests=json.dumps(tests)))


def test_a_test_that_gives_the_functions_name_to_something_else_is_left_out():
    """The tests of a row run together, in one namespace."""
    tests = [
        "f1 = f1(1)\nassert f1 == 1",
        "for x in [1]:\n    def g(y, *z, **w): return [y for y in z]\nassert f1(x) == 1",
    ]
    assert instruct.problem(made(1, unit_tests=json.dumps(tests))).check_src == tests[1]
    imported = ["from math import *\nassert f1(floor(1.5)) == 1"]
    assert instruct.problem(made(1, unit_tests=json.dumps(imported))).check_src == imported[0]


def test_the_recorded_answer_is_the_reference_where_it_defines_what_is_tested():
    def reference(output, test):
        return instruct.problem(made(1, output=output, unit_tests=json.dumps([test]))).reference

    stack = "class Stack:\n    pass\n"
    assert reference(f"```python\n{stack}```", "assert Stack()") == stack
    assert reference("def f10(x):\n    return x", "assert f1(1)") == reference(None, "assert f1(1)") == ""


@pytest.mark.parametrize(
    ("tests", "answer", "name"),
    [
        (['assert decode(encode("a")) == "a"', 'assert decode(encode("b")) == "b"'], "", "decode"),
        (["n = Node(3)\nassert f(n) == 3"], "class Node:\n    pass\ndef f(n):\n    return 3\n", "f"),
        (["n = Node(3)\nassert f(n) == 3"], "", "f"),
        (["x = make()\nassert x == 1", "assert make() == 2"], "", "make"),
        (["assert len([1]) == 1"], "", None),
    ],
)
def test_the_tested_function_does_not_depend_on_the_order_of_a_set(tests, answer, name):
    """Of names that as many tests call: a function of the solution, then the outermost call of an assert."""
    assert instruct.function_under_test(tests, answer) == name
    code = f"from envs.mbpp import instruct; print(instruct.function_under_test({tests!r}, {answer!r}))"
    for seed in ("1", "2", "5"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
        assert done.stdout.strip() == str(name), done.stderr


def test_tests_have_the_imports_of_the_solution_and_an_answer_has_not(sandbox):
    """Those that the tests use; a row whose tests need more of the solution is left out."""
    solution = "import math\nimport re\nfrom collections import OrderedDict\n\ndef f(x):\n    return math.sqrt(x)\n"
    row = made(1, output=solution, unit_tests=json.dumps(["assert math.isclose(f(4), 2)", "assert f(9) == 3"]))
    problem = instruct.problem(row)
    assert problem.check_src.splitlines()[0] == "import math" and "re" not in problem.check_src.split()
    forgetful = solution.replace("import math\n", "")
    right, wrong = (run_sync(sandbox, [problem.job(code)])[0].verdict for code in (solution, forgetful))
    assert (right, wrong) == ("pass", "fail")
    helped = made(2, output="def g(x):\n    return x\ndef f(x):\n    return g(x)", unit_tests='["assert f(g(1)) == 1"]')
    with pytest.raises(TaskError, match="tests use more of the solution than one function"):
        instruct.problem(helped)


def test_a_sample_of_many_rows_parses_and_keeps_few_of_them(monkeypatch):
    def drawn(wanted: int, seed: int = 0, in_order: bool = False) -> list[int]:
        rows = (made(n, domain="generic" if n % 2 else "") for n in range(4000))
        return [int(p.entry_point[1:]) for p in instruct.sample(rows, wanted, seed, in_order)]

    parsed = []
    parse = instruct.problem
    monkeypatch.setattr(instruct, "problem", lambda row: parsed.append(row["id"]) or parse(row))
    sampled = drawn(20)
    assert len(set(sampled)) == 20 and len(parsed) < 500 and all(n % 2 for n in sampled)
    assert sampled != sorted(sampled) and min(sampled) < 1000 and max(sampled) > 3000
    assert sampled == drawn(20) == drawn(30)[:20] and sampled != drawn(20, seed=1)
    assert drawn(20, in_order=True) == list(range(1, 41, 2))


def test_a_tool_of_the_tests_is_not_the_function():
    assert instruct.function_under_test(["assert isclose(f(1), 1)", "assert approx(f(2)) == 2"]) == "f"
    assert instruct.function_under_test(["from m import near\nassert near(g(1), 1)"]) == "g"
    assert instruct.function_under_test(["assert isclose(1, 1)"], "def isclose(a, b):\n    return a == b") == "isclose"
    assert instruct.function_under_test(["assert isclose(1, 1)"]) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "there are no rows"),
        ("not json\n", "1 not a JSON object"),
        ('{"a": 1}\n{"input": "Write f."}\n{"a": 2}\n', "2 no instruction, 1 no asserts"),
    ],
)
def test_a_file_without_a_usable_row_is_told_with_setting_value_reason_and_remedy(tmp_path, content, reason):
    path = tmp_path / "rows.jsonl"
    path.write_text(content)
    message = rf"^task\.env\.train_path={path}: no usable row of OpenCodeInstruct \({reason}\); name a file or folder"
    with pytest.raises(TaskError, match=message) as error:
        Mbpp(train_path=str(path)).problems("train")
    assert "\n" not in str(error.value) and "input, unit_tests" in str(error.value)
