"""MBPP, MBPP+ and OpenCodeInstruct on real rows: odd ones work, verdicts are EvalPlus's, wrong answers are refused."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

from envs.data import data_files, file_rows, hub_rows
from envs.mbpp import COLUMNS, Mbpp, called, extract_definitions, mbpp_problem, plus
from envs.sandbox import run_sync
from envs.task import TaskError, validate

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SLOW = {"Mbpp/271", "Mbpp/300", "Mbpp/599", "Mbpp/603", "Mbpp/630"}
"""Seconds and more of processor time each."""
STUB = "def {name}(*args, **kwargs):\n    return 'planted'\n"


def shared(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"../shared/data/{name} is not here")
    return path


def row(**changes):
    return {
        "task_id": 1,
        "text": "Add one.",
        "code": "import math\r\n\r\ndef helper(x):\r\n    return x\r\n\r\ndef f(x):\r\n    return helper(x) + 1\r\n",
        "test_list": ["assert math.isclose(f(1), 2)", "assert set(f(x) for x in (1, 2)) == {2, 3}"],
        "test_setup_code": "",
    } | changes


def test_a_row_with_crlf_imports_and_helpers_is_judged(sandbox):
    problem = mbpp_problem(row())
    assert problem.entry_point == "f" and "\r" not in problem.reference
    answers = ["def f(x):\n    return x + 1\n", "def f(x):\n    return x\n", problem.reference]
    outcomes = asyncio.run(sandbox.run([problem.job(code, str(n)) for n, code in enumerate(answers)]))
    assert [o.verdict for o in outcomes] == ["pass", "fail", "pass"]
    assert row()["test_list"][0] in problem.question and row()["test_list"][1] not in problem.question


def test_the_function_under_test_is_found():
    assert called(["assert set(f(1)) == set(g(2))"]) == "f"
    assert called(["assert h(f(1)) == 2"], ["f"]) == "f"
    with pytest.raises(TaskError, match="no test calls"):
        called(["assert 1 == 1"])


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here it is:\ndef f(x):\n    return x\nHope it helps", "def f(x):\n    return x\n"),
        ("import math\n\n\ndef f(x):\n\n    return x\n", "import math\n\n\ndef f(x):\n\n    return x\n"),
        (
            "@cache\ndef f(x):\n    return x\n\nclass A:\n    pass\nDone",
            "@cache\ndef f(x):\n    return x\n\nclass A:\n    pass\n",
        ),
        (
            "import math\nPI = 3.14\ndef area(r):\n    return PI\nSo it is.",
            "import math\nPI = 3.14\ndef area(r):\n    return PI\n",
        ),
        ("def f(\n    x,\n):\n    return x\n\nf(1)\nDone", "def f(\n    x,\n):\n    return x\n"),
        ("import math\n# a comment\ndef f(x):\n    return x", "import math\n# a comment\ndef f(x):\n    return x"),
        ("async def f(x):\n    return x\nThat's it", "async def f(x):\n    return x\n"),
        ("def f(x):\n    return x\n\ndef main():\n    print(", "def f(x):\n    return x\n"),
        ("def f(x):\n    y = 1\n    retrun y\nDone", "def f(x):\n    y = 1\n    retrun y\n"),
        ("import math\ndef f(x):\n    retrun x\nDone", "import math\ndef f(x):\n    retrun x\n"),
        ("def f(x):\n    return " + "-" * 100_000 + "x\nDone", "def f(x):\n    return " + "-" * 100_000 + "x\n"),
        ("no code here", None),
    ],
    ids=range(12),
)
def test_functions_are_extracted_by_pattern_where_no_fence_is(answer, code):
    results = extract_definitions(answer)
    assert (answer[results.start : results.end] if results else None) == code
    fenced = f"def g(): pass\n```python\n{answer}\n```"
    mbpp = Mbpp()
    assert fenced[mbpp.extract(fenced).start :].startswith(answer)


def test_no_reference_loses_anything_for_want_of_a_fence():
    for problem in Mbpp(path=str(shared("mbpp/mbpp.jsonl.gz")), every_id=True).problems("test"):
        answer = f"Here it is:\n{problem.reference}\nIt's {problem.entry_point}.\n"
        results = extract_definitions(answer)
        whole, ours = ast.parse(problem.reference), ast.parse(answer[results.start : results.end])
        assert [ast.dump(node) for node in whole.body[-len(ours.body) :]] == [ast.dump(node) for node in ours.body]
        assert problem.entry_point in {getattr(node, "name", None) for node in ours.body}


@pytest.mark.parametrize(
    ("evaluate", "file", "size"), [("mbpp", "mbpp.jsonl.gz", 60), ("sanitized", "sanitized-mbpp.jsonl.gz", 40)]
)
def test_references_pass_and_nonsense_does_not(sandbox, evaluate, file, size):
    task = Mbpp(evaluate, str(shared(f"mbpp/{file}")), every_id=True)
    problems = task.problems("test")
    assert len(problems) == (974 if evaluate == "mbpp" else 427)
    odd = [p for p in problems if p.id in ("mbpp/367", "mbpp/927")]  # their set-up builds on a class of the answer
    some = [*problems[:: len(problems) // size], *odd]
    assert [o.id for o in asyncio.run(validate(sandbox, some)) if o.verdict != "pass"] == []
    assert [o.id for o in asyncio.run(validate(sandbox, some, STUB)) if o.verdict == "pass"] == []


def test_only_the_test_ids_are_evaluated():
    problems = Mbpp(path=str(shared("mbpp/mbpp.jsonl.gz"))).problems("test")
    assert [p.id for p in problems] == [f"mbpp/{n}" for n in range(11, 511)]


def plus_rows():
    return list(file_rows(data_files(shared("mbppplus/mbppplus_v0.2.0_dev.jsonl.gz")), plus.COLUMNS))


def test_mbpp_plus_references_pass_and_nonsense_does_not(sandbox):
    rows = [row for row in plus_rows() if row["task_id"] not in SLOW][::4]  # a quarter, for its time
    problems = [plus.plus_problem(row) for row in rows]
    assert [o.id for o in asyncio.run(validate(sandbox, problems)) if o.verdict != "pass"] == []
    accepted = {o.id for o in asyncio.run(validate(sandbox, problems, STUB)) if o.verdict == "pass"}
    assert accepted <= {"mbppplus/164"}  # EvalPlus's oracle accepts anything there


SHARED_ELEMENTS = {
    "task_id": "Mbpp/2",
    "prompt": '"""\nShared elements.\nassert 1\n"""',
    "entry_point": "similar_elements",
    "canonical_solution": "\ndef similar_elements(a, b):\n  return tuple(set(a) & set(b))\n",
    "base_input": [[[3, 4, 5], [5, 4, 7]]],
    "plus_input": [],
    "atol": 0,
}
"""A row of EvalPlus's file."""


def test_special_comparisons_of_mbpp_plus(sandbox):
    row = SHARED_ELEMENTS
    rounded = row | {
        "task_id": "Mbpp/1",
        "entry_point": "half",
        "base_input": [[1.0]],
        "canonical_solution": "def half(x): return x / 3",
    }
    problem, close = plus.plus_problem(row), plus.plus_problem(rounded)
    asked = [
        (problem, "def similar_elements(a, b):\n    return [x for x in b if x in a]\n", "pass"),
        (problem, "def similar_elements(a, b):\n    return b\n", "fail"),
        (problem, "def similar_elements(a, b):\n    assert type(a) is tuple\n    return (4, 5)\n", "pass"),
        (close, "def half(x): return x / 3 + 1e-8", "pass"),
        (close, "def half(x): return x / 3 + 1e-5", "fail"),
    ]
    outcomes = asyncio.run(sandbox.run([p.job(code, str(n)) for n, (p, code, _) in enumerate(asked)]))
    assert [o.verdict for o in outcomes] == [verdict for _, _, verdict in asked]


def hub_row(**changes):
    """A row of evalplus/mbppplus on the hub, in the form that EvalPlus's tools/mbpp/to_original_fmt.py writes."""
    inputs = changes.pop("inputs", "[[[1, 2], 3], [[inf], 1], [[], 0], [[7], 0]]")
    call = changes.pop("call", "assertion(count_all(*inp), exp, 0)")
    test = "import numpy as np\nfrom math import inf\n\n\ndef assertion(out, exp, atol):\n    assert out == exp\n\n\n"
    test += f"inputs = {inputs}\nresults = [5, 2, 0, 1]\n"
    test += f"for i, (inp, exp) in enumerate(zip(inputs, results)):\n    {call}\n"
    return {
        "task_id": 5,
        "code": "\ndef count_all(a, b):\n  return len(a) + b\n",
        "prompt": "Write a function to count. ",
        "source_file": "",
        "test_imports": ["import math"],
        "test_list": ["assert count_all((1, 2), 3) == 5", "assert math.isclose(count_all((math.inf,), 1), 2)"],
        "test": test,
    } | changes


def test_base_and_extra_tests_are_two_verdicts_of_one_problem(sandbox):
    file = SHARED_ELEMENTS | {"plus_input": [[[1], [2]]]}
    in_file = plus.plus_problem(file)
    on_hub = plus.hub_problem(hub_row())
    assert on_hub.question == (
        "Write a function to count.\nassert count_all((1, 2), 3) == 5\n\nThe function is named `count_all`."
    )
    asked = [
        (in_file, in_file.reference, "pass", "pass"),
        (in_file, "def similar_elements(a, b):\n    return (4, 5)\n", "pass", "fail"),
        (in_file, "def similar_elements(a, b):\n    return (4,)\n", "fail", "fail"),
        (on_hub, on_hub.reference, "pass", "pass"),
        (on_hub, "def count_all(a, b):\n    return len(a) + b if a else 9\n", "pass", "fail"),
        (on_hub, "def count_all(a, b):\n    return len(a) + 3\n", "fail", "fail"),
    ]
    jobs = [
        each.job(code, f"{n} {name}")
        for n, (problem, code, *_) in enumerate(asked)
        for name, each in (("base", problem.data["base"]), ("all", problem))
    ]
    verdicts = [outcome.verdict for outcome in asyncio.run(sandbox.run(jobs))]
    assert verdicts == [verdict for _, _, *both in asked for verdict in both]


def test_the_hubs_base_tests_are_those_that_the_asserts_call():
    def base_inputs(row):
        """What the check on the base tests goes through."""
        source = plus.hub_problem(row).data["base"].check_src
        names = {}
        exec(source, names)
        [line] = [line.strip() for line in source.splitlines() if line.startswith("    for arguments in ")]
        return eval(line.removeprefix("for arguments in ").removesuffix(":"), names)

    assert len(base_inputs(hub_row())) == 2
    assert len(base_inputs(hub_row(test_list=["assert count_all((1, 2), 3) == 5"] * 2))) == 1
    assert len(base_inputs(hub_row(test_list=["assert count_all([], 0) == 1"]))) == 3  # a wrong assert calls it too
    assert len(base_inputs(hub_row(test_list=["assert count_all({}, 1)", "assert count_all({2}, 1)"]))) == 2


@pytest.mark.parametrize(
    ("call", "name", "atol"),
    [
        ("assertion(f(*inp), exp, 1e-06)", "f", "1e-06"),
        ("assertion(surface_Area(*inp), exp, _surface_Area(*inp), 0)", "surface_Area", "0.0"),
        ("assertion(g(*inp), ref_func(*inp), 0)", "g", "0.0"),
    ],
)
def test_every_form_of_the_hubs_assertion_is_read(call, name, atol):
    problem = plus.hub_problem(hub_row(call=call))
    assert problem.entry_point == name and f"atol = {atol}\n" in problem.check_src


def test_rows_of_the_hub_are_read_from_the_hub_and_from_a_copy(tmp_path, monkeypatch):
    monkeypatch.delenv("MBPP_OVERRIDE_PATH", raising=False)
    monkeypatch.setattr(plus, "hub_rows", lambda name, part, split, columns: [hub_row()] * (split == "test"))
    (tmp_path / "hub.jsonl").write_text(json.dumps(hub_row()) + "\n")
    for path in (None, str(tmp_path / "hub.jsonl")):
        [problem] = Mbpp("plus", path).problems("test")
        assert problem.id == "mbppplus/5" and problem.data["base"].id == problem.id
    (tmp_path / "hub.jsonl").write_text(json.dumps(hub_row(test="assert 1")) + "\n")
    with pytest.raises(TaskError, match="task 5: `test` is not of EvalPlus's form"):
        Mbpp("plus", str(tmp_path / "hub.jsonl")).problems("test")
    (tmp_path / "hub.jsonl").write_text('{"task_id": "Mbpp/1", "prompt": "x"}\n')
    with pytest.raises(TaskError, match=r"hub\.jsonl: task Mbpp/1: `entry_point` is missing: it must be a name"):
        Mbpp("plus", str(tmp_path / "hub.jsonl")).problems("test")


def test_arguments_are_what_evalplus_makes_of_them():
    if any(importlib.util.find_spec(name) is None for name in ("evalplus", "tempdir", "wget")):
        pytest.skip("evalplus is not installed")
    from evalplus.data.mbpp import mbpp_deserialize_inputs

    for row in plus_rows():
        number = int(row["task_id"].split("/")[1])
        inputs = row["base_input"] + row["plus_input"]
        ours = [plus.CONVERTED.get(number, plus._same)(arguments) for arguments in inputs]
        expected = [list(arguments) for arguments in mbpp_deserialize_inputs(row["task_id"], inputs)]
        assert repr([list(arguments) for arguments in ours]) == repr(expected), row["task_id"]


def test_an_answer_that_forgets_its_imports_fails(sandbox):
    code = "import re\ndef find(text):\n    return re.findall('[a-z]+', text)\n"
    row = {"task_id": 11, "text": "Words.", "code": code, "test_list": ["assert find('a 1 b') == ['a', 'b']"]}
    problem = mbpp_problem(row)
    assert problem.setup is None and "import" not in problem.check_src
    right, wrong = run_sync(sandbox, [problem.job(code), problem.job(code.replace("import re\n", ""))])
    assert (right.verdict, wrong.verdict) == ("pass", "fail") and "re" in wrong.note


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"code": None}, "mbpp/11: `code` is missing: it must be a text"),
        ({"test_list": ["assert True"]}, "mbpp/11: no test calls a"),
        *(
            ({"test_list": value}, r"mbpp/11: `test_list` is .*: it must be a list of texts")
            for value in (5, [1], {"a": 1}, "assert f()", [])
        ),
        ({"test_setup_code": 5}, "mbpp/11: `test_setup_code` is 5: it must be a text"),
        ({"test_imports": 5}, "mbpp/11: `test_imports` is 5: it must be a list of texts"),
        ({"test_imports": [1]}, r"mbpp/11: `test_imports` is \[1\]: it must be a list of texts"),
        ({"text": None}, "mbpp/11: `text` is missing"),
        ({"text": {}}, "mbpp/11: `text` is {}: it must be a text"),
        ({"text": {"a": 1}}, "mbpp/11: `text` is {'a': 1}: it must be a text"),
        ({"task_id": "11"}, "rows-0: `task_id` is '11': it must be an integer"),
        ({"task_id": 5}, r"no `task_id` is from 11 to 510: set task\.env\.every_id=true"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(changed, message, tmp_path):
    row = {"task_id": 11, "text": "Words.", "code": "def f():\n    pass\n", "test_list": ["assert f() is None"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row | {"test_setup_code": None, "test_imports": None}) + "\n")
    assert len(Mbpp(path=str(tmp_path / "rows.jsonl")).problems("test")) == 1
    (tmp_path / "rows.jsonl").write_text(json.dumps(row | changed) + "\n")
    with pytest.raises(TaskError, match=rf"^task\.env\.path={tmp_path}/rows\.jsonl: {message}") as caught:
        Mbpp(path=str(tmp_path / "rows.jsonl")).problems("test")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "values", "kind"),
    [
        ("task_id", (None, "zz", 2.5, True), "a number, or a text like Mbpp/5"),
        ("prompt", (None, 5, {}), "a text"),
        ("canonical_solution", (None, 5), "a text"),
        ("entry_point", (None, 5, "a b"), "a name"),
        ("base_input", (None, 5, {}, [], [1]), "a list of lists, not empty"),
        ("plus_input", (None, 5, [1]), "a list of lists"),
        ("atol", (None, "zz", {}, -1), "a number, 0 or more"),
        ("code", (None, 5), "a text"),
        ("test_list", (None, 5, [1]), "a list of texts"),
        ("test_imports", (5, [1]), "a list of texts"),
        ("test", (None, 5), "a text"),
    ],
)
def test_a_row_of_mbpp_plus_that_cannot_be_used_is_named(field, values, kind, tmp_path):
    path = tmp_path / "plus.jsonl"
    for row in (SHARED_ELEMENTS, hub_row()):
        for value in values if field in row else ():
            path.write_text(json.dumps(row | {field: value}))
            with pytest.raises(TaskError, match=rf"^task\.env\.path={path}: .*: `{field}` is .*: it must be {kind}"):
                Mbpp("plus", str(path)).problems("test")


def test_arguments_that_are_not_the_tasks_are_said(tmp_path):
    (tmp_path / "plus.jsonl").write_text(json.dumps(SHARED_ELEMENTS | {"base_input": [[3, 4]]}))
    with pytest.raises(TaskError, match="task Mbpp/2: `base_input` and `plus_input` are not this task's"):
        Mbpp("plus", str(tmp_path / "plus.jsonl")).problems("test")


def test_a_number_alone_names_a_task_of_mbpp_plus():
    by_text, by_number = (plus.plus_problem(SHARED_ELEMENTS | {"task_id": name}) for name in ("Mbpp/2", 2))
    assert by_text == by_number and by_number.id == "mbppplus/2"
    assert plus.hub_problem(hub_row(task_id="Mbpp/5")) == plus.hub_problem(hub_row())
    assert plus.plus_problem(SHARED_ELEMENTS | {"plus_input": {}}) == by_text


@pytest.mark.parametrize("evaluate", ["mbpp", "sanitized", "plus"])
def test_an_evaluation_needs_every_line_of_its_file(evaluate, tmp_path):
    rows = [SHARED_ELEMENTS if evaluate == "plus" else row(task_id=number) | {"prompt": "p"} for number in (11, 12)]
    whole = "".join(json.dumps(each) + "\n" for each in rows)
    path = tmp_path / "rows.jsonl"
    path.write_text(whole[:-20])
    with pytest.raises(TaskError, match=r"rows\.jsonl:2: not JSON"):
        Mbpp(evaluate, str(path)).problems("test")
    path.write_text("\n")
    with pytest.raises(TaskError, match=rf"^task\.env\.path={path}: no row in it"):
        Mbpp(evaluate, str(path)).problems("test")


@pytest.mark.parametrize("evaluate", ["mbpp", "sanitized", "plus"])
def test_two_rows_with_one_number_are_told_of_the_field_that_holds_it(evaluate, tmp_path):
    rows = [SHARED_ELEMENTS if evaluate == "plus" else row(task_id=11) | {"prompt": "p"}] * 2
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    with pytest.raises(TaskError, match=r"^1 ids name several problems, as mbpp.*: give each row its own `task_id`"):
        Mbpp(evaluate, str(path)).problems("test")


def test_what_is_missing_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("MBPP_OVERRIDE_PATH", raising=False)
    with pytest.raises(TaskError, match="one of mbpp, sanitized, plus"):
        Mbpp("minus")
    with pytest.raises(TaskError, match="no such file"):
        Mbpp(path="/nowhere.jsonl")
    with pytest.raises(TaskError, match="MBPP_OVERRIDE_PATH"):
        Mbpp("plus").problems("test")
    with pytest.raises(TaskError, match="from the hub: give a copy"):
        next(hub_rows("google-research-datasets/mbpp", "full", "test", COLUMNS))
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(
        TaskError, match=r"task\.env\.path=.*x\.jsonl: x-0: `task_id` is missing: it must be an integer"
    ):
        Mbpp(path=str(tmp_path / "x.jsonl")).problems("test")
    with pytest.raises(TaskError, match="no usable row"):
        Mbpp(train_path=str(tmp_path / "x.jsonl")).problems("train")


@pytest.mark.parametrize(("evaluate", "field"), [("sanitized", "text"), ("mbpp", "prompt")])
def test_a_file_of_the_other_set_is_refused(tmp_path, evaluate, field):
    row = {"task_id": 11, field: "double x", "code": "def f(x):\n    return 2 * x\n", "test_list": ["assert f(1) == 2"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(TaskError, match="as those of the other set"):
        Mbpp(evaluate, path=str(tmp_path / "rows.jsonl")).problems("test")


@pytest.mark.parametrize(
    "setting", [{"limit": 0}, {"limit": -5}, {"shown_tests": -1}, {"train_size": 0}, {"validation_size": -1}]
)
def test_numbers_of_problems_that_cannot_be_are_refused(setting):
    (name,) = setting
    with pytest.raises(TaskError, match=rf"task\.env\.{name}=.*: it must be"):
        Mbpp(**setting)
