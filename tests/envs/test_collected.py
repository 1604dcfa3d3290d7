"""Problems from collections of functions: what is cut out, how tests are made, and what is left out."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path

import pytest

from envs.basics import Basics
from envs.basics.collected import doctests, instructions, mbpp, snippets
from envs.basics.collected.__main__ import main
from envs.basics.collected.arguments import MOST, candidates
from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls, paragraph, parsed, plain
from envs.basics.collected.rows import LIMITS, PROGRAM, _ran, _tests, rows
from envs.basics.collected.set_order import depends
from envs.humaneval import HumanEval
from envs.mbpp import Mbpp
from envs.sandbox import Job, LocalSandbox, run_sync
from envs.task import Problem, validate

DATA = Path(__file__).parents[2].parent / "shared" / "data"
MBPP, HUMANEVAL = DATA / "mbpp" / "mbpp.jsonl.gz", DATA / "humaneval" / "HumanEval.jsonl.gz"
FILE = '''
import math as m
import os
from collections import Counter

LIMIT = 3

def area(radius: float) -> float:
  """
  Area of a circle,
  rounded to two places.

  :param radius: any number
  >>> area(1)
  3.14
  >>> area(2)
  12.57
  >>> area("x")
  Traceback (most recent call last):
  TypeError: no
  """
  # twice
  if radius < 0:
    return 0.0
  return round(m.pi * radius ** 2, 2)

def most(words):
    "The most frequent word."
    return Counter(words).most_common(1)[0][0]
'''


def cut(source: str, name: str) -> Found:
    tree = ast.parse(source)
    [node] = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    return cut_out(f"a/{name}", tree, source, node, "Do what is asked.", [])


def functions_of(found) -> list[Found]:
    return [each for each in found if isinstance(each, Found)]


def test_a_function_with_its_imports_and_without_its_docstring():
    area = cut(FILE, "area")
    assert (area.signature, area.parameters) == ("def area(radius: float) -> float:", ("radius",))
    assert area.solution == (
        "import math as m\n\ndef area(radius: float) -> float:\n    # twice\n    if radius < 0:\n        return 0.0\n"
        "    return round(m.pi * radius ** 2, 2)\n"
    )
    typed = "from typing import List\n\ndef run(xs: List[int], n: list[int]) -> 'List':\n    return xs[:n]\n"
    assert cut(typed, "run").solution == "def run(xs, n: list[int]) -> 'List':\n    return xs[:n]\n"
    assert cut(FILE, "most").solution.startswith("from collections import Counter\n\ndef most(words):\n    return")
    assert "from math import pow" in cut("from math import pow\ndef f(x):\n    return pow(x, 2)", "f").solution
    tabs = cut("def f(x):\n\tif x:\n\t\treturn 'a\tb '\n\treturn x", "f").solution
    assert tabs == "def f(x):\n    if x:\n        return 'a\tb '\n    return x\n"


@pytest.mark.parametrize(
    "function, reason",
    [
        ("def f(x):\n    return x < LIMIT", "needs more than itself"),
        ("def f(x):\n    return os.remove(x)", "needs more than itself"),
        ("def f(x):\n    print(x)\n    return x", "has effects"),
        ("def f(x):\n    return hash(x)", "other results another time"),
        ("def f(x):\n    return x.today()", "other results another time"),
        ("def f(x):\n    return x.__class__", "has effects"),
        ("def f(x):\n    x.sort()", "returns nothing"),
        ("def f():\n    return 1", "no arguments"),
        ("def f(x, y=1):\n    return x", "other than plain"),
        ("def f(*x):\n    return x", "other than plain"),
        ("@m.cache\ndef f(x):\n    return x", "decorated"),
        ("def f(x): return x", "cannot be cut out"),
        ("def f(x):\n    return '''a\n  b'''", "string of several lines"),
        ("def f(x):\n    import os\n    return x", "it imports, yields"),
        ("def f(x):\n    yield x\n    return x", "it imports, yields"),
    ],
)
def test_what_makes_no_problem(function, reason):
    with pytest.raises(Unusable, match=reason):
        cut(FILE + function, "f")


def test_programs_that_python_cannot_read():
    assert parsed("-" * 20000 + "1") is None and parsed("a" + ".b" * 20000) is None
    assert parsed("def f(") is None and parsed("\0") is None and parsed("x = 1") is not None


def test_calls_of_literals():
    text = "xs = [1, 2]\nf(xs, 'a')\nprint(f([], 'b'))\nf(unknown, 'c')\nf(1, b='d')\nf(xs, 'a')\nf((1,), 'e')"
    assert literal_calls(text, "f") == [([1, 2], "a"), ([], "b")]
    assert literal_calls("f(", "f") == []
    assert not plain({1: 2}) and not plain(float("nan")) and plain([{"a": None}])


def test_the_first_paragraph_alone():
    assert paragraph("\n Adds two\n numbers.\n\n More.") == "Adds two numbers."
    assert paragraph("Adds.\n:param x: a\n") == "Adds."
    assert paragraph("| Adds.\n| Wikipedia reference: https://a.b") == "Adds."


def test_forms_of_collections(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text(FILE)
    (tmp_path / "broken.py").write_text("def f(")
    area, most = functions_of(doctests.found(tmp_path))
    assert (area.id, area.description) == ("doctests/sub/a/area", "Area of a circle, rounded to two places.")
    assert area.calls == ((1,), (2,)) and most.calls == ()

    answers = [
        ("Add two numbers.", "1, 2", "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```\nDone."),
        ("Double it.", "", "This doubles.\n\ndef twice(x):\n    return 2 * x\n\nprint(twice(4))"),
        ("Two.", "", "def one(x):\n    return x\ndef two(x):\n    return x"),
        ("A class.", "", "class A: pass\ndef two(x):\n    return x"),
        ("No Python.", "", "function f(x) { return x; }"),
    ]
    written = [{"instruction": asked, "input": given, "output": answer} for asked, given, answer in answers]
    (tmp_path / "a.json").write_text(json.dumps(written))
    add, twice = functions_of(instructions.found(tmp_path / "a.json"))
    assert (add.id, add.calls, add.signature) == ("a/0", ((1, 2),), "def add(a, b):")
    assert (twice.description, twice.calls) == ("Double it.", ((4,),))
    (tmp_path / "wrong.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="no JSON list of objects"):
        list(instructions.found(tmp_path / "wrong.json"))

    (tmp_path / "twice.md").write_text(
        "---\ntitle: x\n---\n\nDoubles a number.\n\n- Use `*`.\n\n```py\ndef twice(x):\n  return 2 * x\n```\n\n"
        "```py\ntwice(3) # 6\n```\n"
    )
    [snippet] = functions_of(snippets.found(tmp_path))
    assert (snippet.description, snippet.calls) == ("Doubles a number.", ((3,),))
    assert snippet.solution == "def twice(x):\n    return 2 * x\n"


def test_rows_of_mbpp(tmp_path):
    row = {
        "text": "Write a function to double a number. ",
        "code": "def twice(x):\r\n\treturn 2 * x\r\n",
        "task_id": 700,
        "test_setup_code": "",
        "test_list": ["assert twice(2) == 4", "assert twice(-1) == -2", "assert twice((1, 2)) == 0"],
    }
    others = [{**row, "task_id": 510}, {**row, "task_id": 703, "test_setup_code": "import os"}]
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [row, *others]))
    [twice] = functions_of(mbpp.found(tmp_path / "mbpp.jsonl"))
    assert (twice.id, twice.calls, twice.description[-7:]) == ("mbpp/700", ((2,), (-1,)), "number.")
    assert twice.solution == "def twice(x):\n    return 2 * x\n"
    sanitized = {"prompt": row["text"], **{key: value for key, value in row.items() if key != "text"}}
    (tmp_path / "sanitized.jsonl").write_text(json.dumps(sanitized))
    assert functions_of(mbpp.found(tmp_path / "sanitized.jsonl"))[0].description == twice.description
    (tmp_path / "wrong.jsonl").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="no object with `task_id`"):
        list(mbpp.found(tmp_path / "wrong.jsonl"))


def function(solution: str, *calls: tuple, name: str = "f", id: str = "") -> Found:
    head = next(line for line in solution.splitlines() if line.startswith("def "))
    parameters = tuple(each.arg for each in ast.walk(ast.parse(f"{head}\n    pass")) if isinstance(each, ast.arg))
    return Found(id or f"test/{solution}", name, head, parameters, "Do what is asked here.", solution, calls)


def test_arguments_are_the_same_in_every_run_and_of_the_shown_types():
    shown = function("def f(a, b, c):\n    return a\n", ([1, 2, 3], "two words", {"k": 1.5}), id="a/1")
    tried = candidates(shown)
    assert tried[:3] == [
        ([1, 2, 3], "two words", {"k": 1.5}),
        ([3, 0], "two", {"k": 1.5}),
        ([2, 2], "two", {"k": 2.2}),
    ]
    assert all(isinstance(a, list) and isinstance(b, str) and isinstance(c, dict) for a, b, c in tried)
    assert len({repr(each) for each in tried}) == len(tried) == MOST and all(map(plain, map(list, tried)))
    by_name = candidates(function("def f(numbers, text):\n    return text\n"))
    assert by_name and all(isinstance(a, list) and isinstance(b, str) for a, b in by_name)
    assert candidates(function("def f(quux):\n    return quux\n")) == []


def test_tests_are_answers_and_held_out_problems_are_left_out(tmp_path):
    check = "def check(f):\n    assert f(3) == 10\n"
    held_out = [
        *Basics().problems("test"),
        Problem("check", "", "g", check_src=check, reference="def g(x):\n    return x + 7\n"),
    ]
    good = function("def f(x, y):\n    if x > y:\n        return [x, y]\n    return [y]\n", (3, 1))
    left_out = {
        "def f(text):\n    return text.find(' ') >= 0\n": ("a b",),  # contains_space, written otherwise
        "def f(x):\n    y = x + 6\n    return y + 1\n": (4,),  # what check_src asks for
        "def f(x):\n    while x:\n        x = abs(x)\n    return x\n": (3,),
        "def f(x):\n    return list(set(x))\n": ([3, 1],),
        "def f(x):\n    return lambda: x\n": (3,),
        "def f(x):\n    return x * 1e12 + 0.5\n": (3,),
        "def f(x):\n    return x * 1e-12\n": (3,),
        "def f(x):\n    return 'a' * (400 + x)\n": (3,),
        "def f(x):\n    raise SystemExit\n    return x\n": (3,),
        "def f(x):\n    return x\n" + "#" * 500: (3,),
    }
    found = [good, *(function(solution, call) for solution, call in left_out.items()), Unusable("a reason")]

    async def made():
        sandbox = LocalSandbox(2)
        try:
            result = await rows(found, held_out, sandbox, 400)
            (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in result.rows))
            problems = Basics(further=str(tmp_path / "rows.jsonl")).problems("train")[-len(result.rows) :]
            return result, await validate(sandbox, problems)
        finally:
            await sandbox.close()

    result, outcomes = asyncio.run(made())
    [row] = result.rows
    assert row["id"] == good.id and [outcome.verdict for outcome in outcomes] == ["pass"]
    for test in (tests := [*row["examples"], *row["hidden"]]):
        x, y = test["args"]
        assert test["expected"] == ([x, y] if x > y else [y])
    assert len(tests) == 8
    assert result.left_out == {
        "it passes the tests of a held-out problem": 2,
        "it has not 4 tests, and two different answers": 5,
        "it cannot be run": 1,
        "the order of a set may decide its answer": 1,
        "it is longer than --longest": 1,
        "a reason": 1,
    }


def test_names_of_the_program_that_asks_are_no_trap():
    names = [node.name for node in ast.parse(PROGRAM).body if isinstance(node, ast.FunctionDef)]
    found = [
        function(f"def {name}(a):\n    return [a, {'-' * n}a]\n", (4,), name=name)
        for n, name in enumerate([*names, "type", "json", "check"])
    ]
    check = "assert f(1) == 99\n"
    held_out = [Problem("h/f", "", "f", check_src=check, reference="def f(x):\n    return 99\n")]

    async def made():
        sandbox = LocalSandbox(2)
        try:
            return await rows(found, held_out, sandbox, 400)
        finally:
            await sandbox.close()

    result = asyncio.run(made())
    assert len(result.rows) == len(found) and "main" in names
    assert all(row["examples"][0]["expected"][0] == row["examples"][0]["args"][0] for row in result.rows)


@pytest.mark.slow
@pytest.mark.parametrize("data", [None, HUMANEVAL, MBPP], ids=["basics", "humaneval", "mbpp"])
def test_every_held_out_reference_passes_its_own_tests_here(data):
    if data is not None and not data.exists():
        pytest.skip(f"{data.name} is not beside this clone")
    if data is None:
        problems = Basics(generated=1).problems("test")
    else:
        task = HumanEval(path=str(data), train_size=0) if data is HUMANEVAL else Mbpp(path=str(data))
        problems = task.problems("test")
    jobs = []
    for problem in problems:
        tests = _tests(problem)
        asked = {"source": problem.reference, "name": problem.entry_point, "calls": [], "held_out": [tests]}
        jobs.append(Job(problem.id, "program", PROGRAM, stdin=json.dumps(asked), limits=LIMITS))
    outcomes = run_sync(LocalSandbox(2), jobs)
    missed = [outcome.id for outcome in outcomes if (_ran(outcome) or {"passes": []})["passes"] != [outcome.id]]
    class_needed, too_many_lines = {"mbpp/367"}, {"HumanEval/75", "mbpp/123"}
    assert set(missed) <= class_needed | too_many_lines


@pytest.mark.parametrize(
    "body, expected",
    [
        ("return list(set(x))", True),
        ("return [a for a in set(x)]", True),
        ("y = set(x)\n    z = y - {1}\n    for a in z:\n        return a", True),
        ("return ' '.join(set(x))", True),
        ("return set(x).pop()", True),
        ("return [*set(x)]", True),
        ("return max(set(x), key=x.count)", True),
        ("return sorted(set(x), key=len)", True),
        ("y: set[int] = set(x)\n    return list(y)", True),
        ("a, b = set(x), {1}\n    return list(a & b)", True),
        ("a, b = set(x)\n    return a", True),
        ("r = []\n    r.extend(set(x))\n    return r", True),
        ("r = []\n    r += set(x)\n    return r", True),
        ("return [k for k in x.keys() & {1}]", True),
        ("return list(set(x) if x else set())", True),
        ("return f'{set(x)}'", True),
        ("return [list(s) for s in map(set, x)]", True),
        ("d = {}\n    d['a'] = set(x)\n    return list(d['a'])", True),
        ("def g(y):\n        return set(y)\n    return list(g(x))", True),
        ("return list(set(x) or [1])", True),
        ("return list((y := set(x)))", True),
        ("return sorted(set(x))", False),
        ("return sum(a for a in set(x))", False),
        ("return len(set(x) & set('ab'))", False),
        ("a, b = set(x), {1}\n    return len(a | b) - x.count(3)", False),
        ("return all(a in {1, 2} for a in x)", False),
        ("return {a + 1 for a in set(x)} == {3}", False),
        ("seen = set()\n    for a in x:\n        seen.add(a)\n    return 3 in seen", False),
    ],
)
def test_answers_that_depend_on_the_order_of_a_set(body, expected):
    assert depends(f"def f(x):\n    {body}\n") is expected


def test_the_command(tmp_path, capsys):
    (tmp_path / "a.py").write_text(FILE)
    (tmp_path / "none.json").write_text("[]")
    command = [f"doctests={tmp_path}", f"instructions={tmp_path / 'none.json'}", "-o", str(tmp_path / "rows.jsonl")]
    assert main([*command, "--workers", "1"]) == 0
    assert "2 problems of 2 functions" in capsys.readouterr().out
    area, most = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert area["name"] == "area" and area["examples"][0]["expected"] == 3.14 and most["name"] == "most"
    before = sorted(tmp_path.iterdir())
    for wrong, reason in (
        ([f"instructions={tmp_path / 'absent.json'}"], "absent.json: there is no such file"),
        ([f"instructions={tmp_path / 'none.json'}"], "no function that makes a problem"),
        ([f"mbpp={tmp_path / 'rows.jsonl'}"], "rows.jsonl: a line is no object with `task_id`"),
        ([f"doctests={tmp_path}", "--humaneval", "nope.jsonl"], "--humaneval=nope.jsonl: no such file"),
        ([f"doctests={tmp_path}", "--humaneval", str(tmp_path / "rows.jsonl")], "rows.jsonl: "),
        ([f"doctests={tmp_path}", "--validation", "inf"], "--validation=inf: "),
        ([f"doctests={tmp_path}", "--workers", "0"], "--workers=0: must be at least 1"),
        ([f"doctests={tmp_path}", "--validation", "2"], "--validation=2.0: task.env.validation=2.0"),
        ([f"doctests={tmp_path}", "-o", str(tmp_path)], "must be a file in a folder that exists"),
        ([f"doctests={tmp_path}", "-o", str(tmp_path / "no" / "x")], "must be a file in a folder that exists"),
    ):
        assert main(["-o", str(tmp_path / "x.jsonl"), *wrong]) == 1
        said = capsys.readouterr().err
        assert reason in said and said.count("\n") == 1, said
    with pytest.raises(SystemExit):
        main(["novels=a", "-o", str(tmp_path / "x.jsonl")])
    assert "is not KIND=PATH with a kind of doctests, " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not MBPP.exists(), reason="shared/data/mbpp is not beside this clone")
def test_the_real_file_of_mbpp():
    found = functions_of(mbpp.found(MBPP))
    assert len(found) > 400 and len({each.id for each in found}) == len(found)
    assert all(511 <= int(each.id.removeprefix("mbpp/")) <= 974 for each in found)
