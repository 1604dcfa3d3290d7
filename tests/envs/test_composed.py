"""Problems of basics that are put together from phrases: sound, of many structures, and none of them a held-out one."""

from __future__ import annotations

import ast
import asyncio
import collections
import contextlib
import functools
import re

import pytest

from envs.basics import Basics, _generated, composed, families
from envs.basics.composed import APART, NAMES, ROOTS, SIZES, TYPES, VARIABLES, _chain, _told
from envs.basics.composed.arguments import arguments
from envs.basics.composed.phrase import (
    SLOT,
    VALUES,
    Constant,
    NoSuchPhrase,
    Parameter,
    Part,
    Phrase,
    drawn,
    entries,
    expression,
    kind_of,
    slots_of,
)
from envs.basics.families.mutants import defined
from envs.basics.families.source import Source
from envs.sandbox import FunctionCase
from envs.task import Problem, TaskError, validate
from tests.envs.near_duplicates import near_duplicates
from tests.envs.test_basics_families import SHARED, _humaneval, of, plain, printed_alike

COUNT = 400
KINDS = [kind for kind in entries() if kind != "constants"]


@functools.cache
def task() -> Basics:
    return Basics(generated=1, composed=COUNT)


@functools.cache
def made() -> list[Problem]:
    return [p for p in task().problems("train") if p.family.startswith("composed/")]


def test_they_are_trained_on_where_they_are_asked_for():
    alone = Basics(generated=1)
    assert task().problems("test") == alone.problems("test")
    assert task().problems("train") == alone.problems("train") + made()
    ids = {p.id for p in made()}
    left_out = [_generated(row) for row in composed.rows(COUNT) if row["id"] not in ids]
    shapes = {families.shape_of(p.reference, p.entry_point) for p in alone.problems("test")}
    assert 0 < len(left_out) < 0.1 * COUNT
    for problem in left_out:
        same = composed.solves_any(problem, alone.problems("test"))
        assert same or families.shape_of(problem.reference) in shapes, problem.id
    with pytest.raises(TaskError, match=r"task\.env\.composed=5 with task\.env\.path="):
        Basics(path="mine.jsonl", composed=5)
    with pytest.raises(TaskError, match=r"task\.env\.composed=-1: it must be 0 or more"):
        Basics(composed=-1)


def test_problem_k_is_the_same_each_time_whatever_the_split():
    other = Basics(split_seed=1, validation=0.2, composed=COUNT).problems("train")
    questions = {p.id: (p.question, p.reference, p.cases) for p in other}
    both = [p for p in made() if p.id in questions]
    assert len(both) > 0.9 * len(made())
    assert all(questions[p.id] == (p.question, p.reference, p.cases) for p in both)


def test_problems_do_not_depend_on_the_order_of_sets():
    assert printed_alike("from envs.basics import composed; print(composed.rows(20))")


def test_references_keep_their_arguments_and_texts_name_every_parameter():
    for problem in made():
        function = defined(compile(problem.reference, problem.id, "exec"), problem.entry_point)
        for case in problem.cases:
            before = repr(case.args)
            assert function(*case.args) == case.expected
            assert repr(case.args) == before, problem.id
        named = set(re.findall(r"\w+", problem.question.split(" For example, ")[0]))
        assert set(function.__code__.co_varnames[: function.__code__.co_argcount]) <= named, problem.id


def test_what_a_text_leaves_open_is_in_no_test():
    """Which of several equal ones counts, and whether capitals come before small letters."""
    tied = "def f(words, table):\n    return [min(words, key=len), sorted(table, key=table.get), sorted(words)]\n"
    from_the_end, ignoring_case = composed.other_readings(tied, "f", {"unequal", "alphabetical"})
    assert from_the_end(["b", "Ca", "a"], {"x": 1, "y": 1}) == ["a", ["y", "x"], ["Ca", "a", "b"]]
    assert ignoring_case(["b", "Ca", "a"], {"x": 1, "y": 1}) == ["b", ["x", "y"], ["a", "b", "Ca"]]
    [compared] = composed.other_readings("def f(a, b):\n    return a < b\n", "f", {"alphabetical"})
    assert compared("apple", "Cora") and not compared("b", "Apple") and compared(1, 2)
    open_ones = [p for p in made() if re.search(r"key=|\bsorted\(|\bmin\(|\bmax\(| < ", p.reference)]
    assert len(open_ones) > 50
    for problem in open_ones:
        for other in composed.other_readings(problem.reference, problem.entry_point, {"unequal", "alphabetical"}):
            for case in problem.cases:
                assert other(*case.args) == case.expected, (problem.id, problem.question, case)


def test_a_phrase_in_another_ends_with_what_it_is_about():
    texts = [problem.question.split("\n\n")[0] for problem in made()]
    assert not [text for text in texts if re.search(r"\bthe (squares|halves|doubles) of \w+, with every", text)]


def test_hardly_two_have_the_same_structure():
    shapes = collections.Counter(families.shape_of(p.reference) for p in made())
    assert len(shapes) > 0.85 * len(made())
    assert {p.data["level"] for p in made()} == {1, 2, 3}
    easy = Basics(composed=100, generated_level=1).problems("train")
    assert {p.data["level"] for p in easy if p.family.startswith("composed/")} == {1}


def test_each_has_tests_of_plain_data_and_reads_as_a_text():
    for problem in made():
        text = problem.question.split("\n\n")[0]
        assert len(problem.cases) >= 6, problem.id
        assert all(plain(value) for c in problem.cases for value in [*c.args, c.expected]), problem.id
        assert len({repr(c.expected) for c in problem.cases}) > 1, f"{problem.id}: a constant answer passes"
        sentences = re.sub(r"'[^']*'", "quoted", text.split(" For example, ")[0])
        assert not re.search(r"[${}]|\b([a-z]+) \1\b|  ", sentences), text
        for sentence in re.split(r"(?<=\.) ", sentences):
            assert sentence[0].isupper() or not sentence[0].isalpha(), text


def test_references_pass_in_the_sandbox_and_nonsense_does_not(sandbox):
    some = made()[::4]
    assert [o.id for o in asyncio.run(validate(sandbox, some)) if o.verdict != "pass"] == []
    for answer in ("None", "True", "0", "args[0]"):
        outcomes = asyncio.run(validate(sandbox, some, f"def {{name}}(*args):\n    return {answer}\n"))
        assert [o.id for o in outcomes if o.verdict == "pass"] == []


def test_none_is_a_held_out_problem():
    held_out = task().problems("test")
    shapes = {families.shape_of(p.reference, p.entry_point) for p in held_out}
    assert not any(families.shape_of(p.reference) in shapes for p in made())
    found = list(near_duplicates([of(p) for p in made()], [of(p) for p in held_out]))
    assert [pair for pair in found if pair[2] != "words"] == [] and len(found) <= 0.01 * len(made()), found


def test_one_that_passes_the_tests_of_another_is_found():
    largest = Problem("a", "", "f", reference="def f(values):\n    return sorted(values)[-1]\n")
    tests = (FunctionCase(([3, 1, 2],), 3), FunctionCase(([7],), 7))
    same, large = (Problem("b", "", "g", cases) for cases in (tests, (*tests, FunctionCase((10**9,), 1))))
    other = Problem("c", "", "h", (*tests, FunctionCase(([1, 2],), 1)))
    two = Problem("d", "", "i", (FunctionCase(([1], 2), 1),))
    assert composed.solves_any(largest, [two, other, same]) and composed.solves_any(largest, [large])
    assert not composed.solves_any(largest, [two, other, Problem("e", "", "j")])


def test_none_is_of_humaneval():
    file = SHARED / "humaneval" / "HumanEval.jsonl.gz"
    if not file.is_file():
        pytest.skip(f"the data is not there: {file}")
    assert list(near_duplicates([of(p) for p in made()], list(_humaneval(file)))) == []


def test_the_names_in_a_wording_are_those_of_its_expression():
    for kind in KINDS:
        for key, entry in entries()[kind].items():
            forms = [set(SLOT.findall(text)) for form in ("said", "leaf", "do") for text in entry.get(form, [])]
            names = {node.id for node in ast.walk(ast.parse(entry["code"], mode="eval")) if isinstance(node, ast.Name)}
            assert forms and all(form == forms[0] for form in forms) and forms[0] <= names, (kind, key)
            assert not any(kind_of(name) in VALUES for name in names - forms[0]), (kind, key)


def test_entries_have_no_other_fields_or_marks():
    """A mistyped one would change nothing."""
    apart = {mark for pair in APART for marks in pair for mark in marks}
    for kind in KINDS:
        for key, entry in entries()[kind].items():
            assert set(entry) <= {"said", "leaf", "do", "code", "given", "marks"}, (kind, key)
            assert set(entry.get("marks", ())) <= {*apart, "unequal", "paired"}, (kind, key)


def test_every_phrase_can_be_told():
    source, told = Source("told"), set()
    for _ in range(8000):
        with contextlib.suppress(NoSuchPhrase):
            root = drawn(source, source.pick(*ROOTS), source.pick(*SIZES), [])
            _told(source, root, _chain(root))
            told |= {(phrase.kind, phrase.key) for phrase in root.walk()}
    assert {(kind, key) for kind in KINDS for key in entries()[kind]} == told


def test_what_makes_many_items_takes_no_number_that_was_computed():
    """The cube of a cube, counted up to, would take for ever."""
    for kind in KINDS:
        for key, entry in entries()[kind].items():
            makes = "range(" in entry["code"] or (
                kind in ("text", "numbers") and re.search(r"\* number$", entry["code"])
            )
            if makes and kind_of("number") in map(kind_of, slots_of(kind, key)):
                assert entry.get("given"), (kind, key)


def with_parameters(kind: str, key: str) -> Phrase:
    """An entry with nothing but parameters and constants in it, apart from conditions."""
    slots: dict[str, Part] = {}
    for name in slots_of(kind, key):
        inner, options = kind_of(name), entries()["constants"].get(name)
        if options:
            slots[name] = Constant(next(iter(options.values() if isinstance(options, dict) else options)), "")
        elif inner in VALUES:
            slots[name] = Parameter(inner, int(name.removeprefix(inner) or 1) - 1)
        else:
            slots[name] = with_parameters(inner, {"flag": "begins", "wordtest": "capital", "numbertest": "even"}[inner])
    return Phrase(kind, key, entries()[kind][key], slots)


@pytest.mark.parametrize("kind", KINDS)
def test_every_phrase_has_answers_of_its_kind(kind):
    member = {
        "wordtest": ("w", ["apple", "Tea", "abba", "fairy", "x", "of"]),
        "numbertest": ("x", [-4, 0, 2, 3, 8, 14, 90]),
    }
    bound, members = member.get(kind, ("unused", [None]))
    types = {"text": str, "words": list, "numbers": list, "number": (int, float), "table": dict}
    for key in entries()[kind]:
        phrase = with_parameters(kind, key)
        known = sorted(set().union(*(phrase.parts(each) for each in VALUES)), key=str)
        code = compile(ast.unparse(expression(phrase, {})), key, "eval")
        answers = []
        for args in arguments(Source(key), known, [phrase]):
            for each in members:
                with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
                    answers.append(eval(code, {**dict(zip([p.name for p in known], args, strict=True)), bound: each}))
        assert answers and all(isinstance(answer, types.get(kind, bool)) for answer in answers), key


def test_no_parameter_is_caught_by_a_variable_of_an_expression():
    """In `[x for x in numbers if x > limit]` no parameter may be called x."""
    stored = {"w", "x"}
    for kind in KINDS:
        for entry in entries()[kind].values():
            nodes = list(ast.walk(ast.parse(entry["code"], mode="eval")))
            stored |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            stored |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [name for each in NAMES.values() for options in each for name in options.split("|")]
    assert len(set(names)) == len(names) and set(NAMES) == set(TYPES) == set(VALUES)
    assert not stored & {*names, *VARIABLES.values()}
