"""The simulation channel on the embedded code: the original lines get full marks, errors fall on their place."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from envs.etk.build.compare import ApplicationError
from envs.etk.completion.cases import MARK, Case
from envs.etk.completion.embedded import FLOW2D
from envs.etk.completion.scorer import CompletionScore
from envs.etk.completion.task import EtkCompletion, families
from envs.feedback.masked_lines import MaskedLines
from envs.task import TaskError
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.compose import Reward
from rewards.similarity import Similarity
from rewards.simulation import Simulation, _charged_spans

pytestmark = [
    pytest.mark.cxx,
    pytest.mark.skipif(not (shutil.which("g++") and shutil.which("make")), reason="g++ or make is not here"),
]
REPORTED = ("exact", "line_count_match", "time_mismatch")


def test_what_passes_has_all_and_other_times_have_no_more_than_at_equal_times():
    """Where the reference stays as it began, any rounding has no skill; a result of another time is another result."""
    near = CompletionScore(1.0, 1.0, 1.0, 1.0, total=1.0, skill=0.0, left_out=0.0, baseline=1.0, exact=False,
                           line_count_match=True, largest=1e-9)  # fmt: skip
    by_skill, by_total = SimpleNamespace(paid="skill"), SimpleNamespace(paid="total")
    assert near.verdict == "pass" and Simulation._paid(by_skill, near) == 1.0
    late = replace(near, total=0.9, skill=1.0, time_mismatch=True, equal_time=0.4)
    assert Simulation._paid(by_skill, late) == 0.4 and Simulation._paid(by_total, late) == 0.9
    assert Simulation._paid(by_skill, replace(late, equal_time=None)) == 0.0
    assert Simulation._paid(by_skill, replace(late, time_mismatch=False)) == 1.0


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> str:
    """Where the embedded simulation is prepared once for all tests of this file."""
    return str(tmp_path_factory.mktemp("cache"))


def answer(task: EtkCompletion, lines: str) -> Completion:
    text = f"{lines}```"
    code = task.extract(text)
    edges = [*range(0, len(text), 4), len(text)]
    offsets = [*itertools.pairwise(edges), (len(text), len(text))]
    return Completion(text, range(len(offsets)), offsets, (code.start, code.end), closed=code.closed)


def test_original_lines_get_full_marks_and_errors_fall_on_their_place(sandbox, cache):
    task = EtkCompletion()
    problem = next(p for p in task.problems("train") if p.data["case"].count == 1)
    wrong = problem.reference.replace("=", "= undeclared_name +", 1)
    answers = [answer(task, text) for text in (problem.reference, wrong, "", problem.data["case"].broken)]
    channel = Simulation(sandbox, cache=cache)
    grades = asyncio.run(Reward({"simulation": channel}, {"simulation": 1.0}).grade([problem] * 4, answers))
    results = [grade.results["simulation"] for grade in grades]
    reported = [[grade.measures[f"simulation/{name}"] for name in REPORTED] for grade in grades[:3]]
    assert reported == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    assert results[0].passed and results[0].score == pytest.approx(1.0) and results[0].verdict == "pass"
    assert results[1].score == 0 and results[1].verdict == "build" and "undeclared_name" in results[1].note
    charged = [answers[1].text[s.start : s.start + 15] for s in results[1].spans if s.value < 0]
    assert charged == ["undeclared_name"]
    assert sum(attribute(answers[1], results[1])) == pytest.approx(0)
    assert results[1].picture is None
    drawn = results[0].picture()
    assert np.shape(drawn["result"]) == (64, 64) and drawn["result"] == drawn["reference"] and drawn["skill"] == 1
    broken = results[3].picture() if results[3].picture else None
    assert (broken is None) == (results[3].verdict in ("build", "run"))
    expected = problem.data["case"].expected
    assert results[2].score == 0 and results[2].detail["left_out"] == pytest.approx(
        expected["empty"]["left_out"], abs=1e-3
    )
    assert results[3].score == pytest.approx(expected["broken"]["skill"], abs=1e-3) and not results[3].passed


def test_each_place_is_paid_by_itself(sandbox, tmp_path):
    """A right place beside one that does not compile; nothing passes but what is right with all places filled."""
    task = EtkCompletion(places=3)
    problem = next(p for p in task.problems("train") if [b - a for a, b in p.data["case"].places] == [1, 1, 1])
    first, second, third = problem.data["places"]
    texts = [
        problem.reference,
        f"{first}{MARK}\nundeclared_name;\n{MARK}\n{third}",
        f"{first}{MARK}\n{second}",
        "",
    ]
    answers = [answer(task, text) for text in texts]
    channels = {"simulation": Simulation(sandbox, cache=str(tmp_path), places="each"), "similarity": Similarity()}
    weights = {"simulation": 1.0, "similarity": 0.0}
    grades = asyncio.run(Reward(channels, weights).grade([problem] * 4, answers))
    results = [grade.results["simulation"] for grade in grades]
    assert [r.score for r in results] == pytest.approx([1, 2 / 3, 2 / 3, 0], abs=1e-6)
    assert [r.passed for r in results] == [True, False, False, False]
    assert [r.note[:15] for r in results] == [
        "3 of 3 places a",
        "2 of 3 places a",
        "2 of 3 places a",
        "0 of 3 places a",
    ]
    paid = [{name: part.reward for name, part in grade.parts.items() if "simulation" in name} for grade in grades]
    names = [f"simulation/place {n}" for n in (1, 2, 3)]
    assert paid[1] == pytest.approx(dict(zip(names, (1 / 3, 0, 1 / 3), strict=True)))
    assert paid[2] == pytest.approx(dict(zip(names, (1 / 3, 1 / 3, 0), strict=True)))
    charged = [answers[1].text[s.start : s.start + 15] for s in results[1].spans if s.value < 0]
    assert charged == ["undeclared_name"]
    similar = [grade.results["similarity"] for grade in grades]
    assert [r.score for r in similar] == pytest.approx([1, 2 / 3, 2 / 3, 0])
    assert {span.part for span in similar[1].spans} == {f"place {n}" for n in (1, 2, 3)}
    together = asyncio.run(Simulation(sandbox, cache=str(tmp_path)).score([problem] * 4, answers))
    assert [r.score for r in together][:2] == pytest.approx([1, 0]) and together[1].passed is False
    with pytest.raises(ValueError, match=r"simulation\.places=both"):
        Simulation(sandbox, places="both")
    with pytest.raises(TaskError, match=r"task\.env\.places=0"):
        EtkCompletion(places=0)


def test_an_application_that_cannot_be_graded_by_is_found_before_anything_is(sandbox, tmp_path):
    channel = Simulation(sandbox, cache=str(tmp_path / "cache"))
    reward = Reward({"simulation": channel}, {"simulation": 1.0})
    [problem, *others] = EtkCompletion().problems("train")
    asyncio.run(reward.ready([problem, *others]))
    good = problem.data["application"]
    assert [path.name.startswith("flow2d-") for path in (tmp_path / "cache").glob("*-*")] == [True]
    for changed, message in (
        (replace(good, metric=replace(good.metric, field="temperature")), "no field 'temperature'"),
        (replace(good, build=replace(good.build, artifact="flaw")), "there is no flaw; output: .*SUCCESS"),
        (replace(good, build=replace(good.build, success_regex="DONE")), "does not end with DONE"),
        (replace(good, build=replace(good.build, command="make nothing")), "No rule to make target"),
        (replace(good, run=replace(good.run, inputs=("inputz",))), "run.inputs: no file inputz"),
    ):
        wrong = replace(problem, data={**problem.data, "application": replace(changed, name="wrong")})
        channel = Simulation(sandbox, cache=str(tmp_path / "cache"))
        with pytest.raises(ApplicationError, match=message):
            asyncio.run(Reward({"simulation": channel}, {"simulation": 1.0}).ready([wrong]))


def test_what_grades_and_what_tells_of_failures_share_a_scorer(sandbox, tmp_path):
    """An application is prepared once for both; not with another application of that name, folder or sandbox."""
    problem = EtkCompletion().problems("train")[0]
    graded = Simulation(sandbox, cache=str(tmp_path)).scorers
    told = MaskedLines(sandbox, cache=str(tmp_path)).scorers
    assert told.of(problem) is graded.of(problem) is graded.of(problem)
    same_name = replace(problem, data={**problem.data, "application": replace(problem.data["application"])})
    apart = (MaskedLines(sandbox, cache=str(tmp_path / "other")), MaskedLines(sandbox, str(tmp_path), keep=False))
    others = [told.of(same_name), *(each.scorers.of(problem) for each in apart)]
    assert len({id(each) for each in [told.of(problem), *others]}) == 4


def test_overlapping_cases_stay_on_one_side():
    cases = [
        Case("a", "f", 0, 3),
        Case("b", "f", 2, 4),
        Case("c", "f", 3, 5),
        Case("d", "g", 2, 4),
        Case("e", "f", 5, 6),
    ]
    assert families(cases) == ["f:0", "f:0", "f:0", "g:3", "f:4"]
    task = EtkCompletion()
    train, test = task.problems("train"), task.problems("test")
    assert len(train) + len(test) == 78 and not {p.family for p in train} & {p.family for p in test}


def test_the_prompt_ends_in_an_open_block_and_hides_the_lines():
    task = EtkCompletion()
    for problem in task.problems("test"):
        messages = task.messages(problem)
        assert messages[-1]["role"] == "assistant" and messages[-1]["content"].endswith("```cpp\n")
        assert len(problem.question) < 4200
    assert task.complete("x = 1;\n```") and not task.complete("x = 1;\n")


def test_an_application_of_ones_own_needs_its_files(tmp_path):
    with pytest.raises(TaskError, match=r"task\.env\.cases"):
        EtkCompletion(application={"name": "a", "source_dir": str(tmp_path)})
    with pytest.raises(TaskError):
        EtkCompletion(application={"name": "a"}, cases=str(tmp_path / "none.jsonl"))


def test_a_place_without_an_effect_earns_nothing_and_a_fault_in_it_costs(sandbox, cache):
    lines = (FLOW2D / "hydro.cpp").read_text().split("\n")
    comment = next(n for n, line in enumerate(lines) if line.startswith("//"))
    step = next(n for n, line in enumerate(lines) if line.strip().startswith("return options.cfl"))
    case = Case("both", "hydro.cpp", comment, comment + 1, more=((step, step + 1),))
    task = EtkCompletion(places=3)
    problem = task.problems("train")[0]
    problem = replace(problem, data={**problem.data, "case": case})
    right = f"{lines[step]}\n"
    texts = [f"{lines[comment]}\n{MARK}\n{right}", f"{MARK}\n{right}", f")) no C++ ((\n{MARK}\n{right}", f"{MARK}\n"]
    channel = Simulation(sandbox, cache=cache, places="each")
    results = asyncio.run(channel.score([problem] * 4, [answer(task, text) for text in texts]))
    assert [r.score for r in results] == pytest.approx([1, 1, 0.5, 0], abs=1e-6)
    assert [r.passed for r in results] == [True, True, False, False]


@pytest.mark.parametrize(
    ("line", "charged"),
    [("    u = fact;", "f"), ("\t\tu = fact;", "u = fact;"), ("    /* Größe */ u = fact;", "/* Größe */ u = fact;")],
)
def test_a_line_is_charged_where_compilers_count_columns_in_different_ways(line, charged):
    text = f"```c++\nint a;\n{line}\nint b;\n```"
    code = (7, len(text) - 3)
    whole, place = _charged_spans(text, code, 0.25, [text.index("fact") - 7])
    assert (whole.start, whole.end, whole.value) == (*code, 1.0)
    assert text[place.start : place.end] == charged and place.value == -0.75
