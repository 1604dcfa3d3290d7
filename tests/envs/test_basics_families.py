"""The generated problems of basics: counts, sound references, tests that expose mutants, no near-duplicates."""

from __future__ import annotations

import ast
import asyncio
import functools
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envs.basics import Basics, families
from envs.basics.families.mutants import defined, may_not_end, mutants, wrong
from envs.task import Problem, TaskError, validate
from tests.envs.near_duplicates import Asked, asked, near_duplicates

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
EACH = 10


@functools.cache
def task(seed: int = 0) -> Basics:
    """Basics with generated problems."""
    began = time.perf_counter()
    made = Basics(generated=EACH, split_seed=seed)
    count = sum(len(made.problems(split)) for split in ("train", "test"))
    print(f"{count} problems of basics in {time.perf_counter() - began:.1f} s")
    return made


def generated(split: str, seed: int = 0) -> list[Problem]:
    return [p for p in task(seed).problems(split) if p.id.startswith("basics/new/")]  # type: ignore[arg-type]


def test_there_are_as_many_as_promised():
    train, test = task().problems("train"), task().problems("test")
    assert (len(train) - len(generated("train")), len(test) - len(generated("test"))) == (200, 66)
    assert len(generated("train")) >= 3000 and len(generated("test")) == 200
    assert len({p.family for p in generated("train")}) >= 300
    assert len({p.family for p in generated("test")}) == 200
    assert not {p.family for p in generated("train")} & {p.family for p in generated("test")}
    own = [f for f in families.FAMILIES.values() if not f.make.__module__.endswith("pipelines")]
    assert len(own) >= 250
    assert len({p.id for p in [*train, *test]}) == len(train) + len(test)
    assert min(Counter(p.data["level"] for p in generated("train")).values()) >= 300
    assert len({p.question for p in generated("train")}) == len(generated("train"))


@pytest.mark.parametrize("seed", [0, 1])
def test_without_generated_problems_the_task_is_the_hand_written_one(seed):
    alone, both = Basics(split_seed=seed), task(seed)
    for split in ("train", "test"):
        written = alone.problems(split)
        assert both.problems(split)[: len(written)] == written
        assert not any(p.id.startswith("basics/new/") for p in written)
    assert alone.problems("validation") == both.problems("validation") == []


def test_ones_own_rows_stay_alone(tmp_path):
    row = {
        "name": "f",
        "family": "f",
        "signature": "def f(x):",
        "description": "d",
        "solution": "def f(x):\n    return x",
    }
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({**row, "examples": [], "hidden": [{"args": [1], "expected": 1}]}) + "\n")
    with pytest.raises(TaskError, match=f"generated={EACH} with task.env.path="):
        Basics(train_size=0, path=str(file), generated=EACH)
    mine = Basics(train_size=0, path=str(file))
    assert [len(mine.problems(split)) for split in ("train", "test")] == [0, 1]


def test_holding_out_every_family_is_refused():
    with pytest.raises(TaskError, match="held_out_families=9999"):
        Basics(generated=EACH, held_out_families=9999)
    with pytest.raises(TaskError, match="generated_level=0"):
        Basics(generated=EACH, generated_level=0)


def test_easy_problems_alone_can_be_asked_for_and_the_held_out_ones_stay():
    easy = Basics(generated=1, generated_level=1)
    levels = {p.data["level"] for p in easy.problems("train") if p.id.startswith("basics/new/")}
    assert levels == {1}
    assert [p.id for p in easy.problems("test")] == [p.id for p in Basics(generated=1).problems("test")]


def test_problems_are_the_same_each_time_and_the_split_depends_on_its_seed():
    again = [families.row(families.FAMILIES[p.family.removeprefix("new/")], 0) for p in generated("test")]
    assert [(r["id"], r["solution"]) for r in again] == [(p.id, p.reference) for p in generated("test")]
    assert {p.family for p in generated("test")} != {p.family for p in generated("test", 1)}


def test_problems_do_not_depend_on_the_order_of_sets():
    code = (
        "from envs.basics import families as f; import hashlib; "
        "rows = [f.row(x, k) for x in f.FAMILIES.values() for k in range(2)]; "
        "print(hashlib.sha256(repr(rows).encode()).hexdigest())"
    )
    assert printed_alike(code)


def printed_alike(code: str) -> bool:
    """Whether a program prints the same with two orders of sets."""
    printed = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        printed.add(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=environment))
    return len(printed) == 1


def test_each_problem_has_tests_of_plain_data_and_shows_one():
    for problem in [*generated("train"), *generated("test")]:
        assert len(problem.cases) >= 7, problem.id
        calls = [f"{problem.entry_point}({', '.join(map(repr, c.args))}) ==" for c in problem.cases]
        assert sum(call in problem.question for call in set(calls)) == 1, problem.id
        assert len({repr(c.expected) for c in problem.cases[2:]}) > 1, f"{problem.id}: a constant answer passes"
        assert all(plain(value) for c in problem.cases for value in [*c.args, c.expected]), problem.id
        assert "$" not in re.sub(r"'[^']*'", "", problem.question), problem.id
        assert len(problem.question) < 900, problem.id


def plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    if isinstance(value, dict):
        return all(map(plain, [*value, *value.values()]))
    return value is None or type(value) in (bool, int, float, str)


def test_references_keep_their_arguments():
    for problem in generated("test"):
        function = defined(compile(problem.reference, problem.id, "exec"), str(problem.entry_point))
        for case in problem.cases:
            before = repr(case.args)
            assert function(*case.args) == case.expected
            assert repr(case.args) == before, problem.id


def sample(step: int) -> list[Problem]:
    return [*generated("train"), *generated("test")][::step]


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_references_pass_in_the_sandbox_and_nonsense_does_not(step, sandbox):
    problems = sample(step)
    assert [o.id for o in asyncio.run(validate(sandbox, problems)) if o.verdict != "pass"] == []
    if step > 1:
        for answer in ("None", "True", "0", "[]", "''"):
            outcomes = asyncio.run(validate(sandbox, problems, f"def {{name}}(*args):\n    return {answer}\n"))
            assert [o.id for o in outcomes if o.verdict == "pass"] == []


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_hidden_tests_expose_mutants(step):
    """Of mutants that differ on any of 60 inputs, nearly all fail a hidden test; those of construction fail one."""
    alive = []
    count = 0
    for problem in sample(step):
        _, _, name, number = problem.id.split("/")
        family = families.FAMILIES[name]
        drawn = family.make(families.Source(f"{name}:{number}"))
        arguments = [drawn.arguments() for _ in range(60)]
        reference = defined(compile(problem.reference, problem.id, "exec"), str(problem.entry_point))
        expected = [reference(*args) for args in arguments]
        tree = ast.parse(problem.reference)
        bounded = may_not_end(tree, str(problem.entry_point))
        for place, mutant in enumerate(mutants(tree, str(problem.entry_point), 8)):
            if any(wrong(mutant, c.args, c.expected, bounded) for c in problem.cases[2:]):  # type: ignore[union-attr]
                count += 1
            elif any(wrong(mutant, *case, bounded) for case in zip(arguments, expected, strict=True)):
                alive.append(f"{problem.id} {place}")
    assert len(alive) <= 0.01 * count, alive


def of(problem: Problem) -> Asked:
    text = problem.question.split(" For example, ")[0].split("\n\nWrite the Python function")[0]
    function = next(n for n in ast.parse(problem.reference).body if isinstance(n, ast.FunctionDef))
    return asked(problem.id, text, [function.name, *(a.arg for a in function.args.args)], problem.reference)


def distinct(problems: Iterable[Asked]) -> list[Asked]:
    """One of several that differ in constants only."""
    return list({(p.words, p.runs, p.tree): p for p in problems}.values())


def test_no_near_duplicate_lies_across_the_split():
    held_out = [of(p) for p in task().problems("test")]
    seen = distinct(of(p) for p in generated("train"))
    assert list(near_duplicates(seen, held_out)) == []
    written = [of(p) for p in Basics().problems("train")]
    assert list(near_duplicates([of(p) for p in generated("test")], written)) == []


@pytest.mark.slow
def test_no_two_families_are_near_duplicates():
    """Whatever the seed of the split."""
    made = {
        name: distinct(of(_problem_of(row)) for row in families.rows(family, EACH))
        for name, family in families.FAMILIES.items()
    }
    seen: list[Asked] = [of(p) for split in ("train", "test") for p in Basics().problems(split)]  # type: ignore[arg-type]
    results = []
    for problems in made.values():
        results += list(near_duplicates(problems, seen))
        seen += problems
    assert results == []


def _problem_of(row: dict[str, Any]) -> Problem:
    return Problem(row["id"], row["description"], row["name"], reference=row["solution"])


@pytest.mark.parametrize("name", ["humaneval/HumanEval.jsonl.gz", "mbpp/mbpp.jsonl.gz"])
def test_none_is_of_humaneval_or_mbpp(name):
    file = SHARED / name
    if not file.is_file():
        pytest.skip(f"the data is not there: {file}")
    read = _humaneval if "humaneval" in name else _mbpp
    new = distinct(of(p) for p in [*generated("train"), *generated("test")])
    assert list(near_duplicates(new, list(read(file)))) == []


def _humaneval(file: Path) -> Iterator[Asked]:
    for row in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
        tree = ast.parse(row["prompt"] + row["canonical_solution"])
        function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == row["entry_point"])
        text = re.split(r">>>|[Ee]xamples?:?|For example", ast.get_docstring(function) or "")[0]
        names = [function.name, *(a.arg for a in function.args.args)]
        yield asked(row["task_id"], text, names, ast.unparse(function))


def _mbpp(file: Path) -> Iterator[Asked]:
    for row in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
        text = re.sub(r"^Write (a|an)? ?(python )?function (to|that|which)", "Return", row["text"])
        functions = [n for n in ast.parse(row["code"].replace("\r", "")).body if isinstance(n, ast.FunctionDef)]
        yield asked(f"mbpp/{row['task_id']}", text, [], ast.unparse(functions[-1]) if functions else "")
