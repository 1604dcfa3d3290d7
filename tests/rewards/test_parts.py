"""Answers of several functions: where each stands, what it earns, and what its tokens are compared with."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest
import torch

from envs.basics import Basics
from envs.basics.together import ASKED, together
from envs.sandbox import FunctionCase
from envs.task import Problem, TaskError, extract_fenced, validate
from recipes.data.parts import centred, earned, groups_that_differ, without_other_parts
from recipes.evaluation.task_soundness import examine
from recipes.sampling.group_batch import GroupRollout, rewards_of
from recipes.tools.conversation.grading import cases_of
from recipes.trainers.group_advantages import GroupAdvantages
from recipes.trainers.metrics import group_metrics
from rewards.analysis.definitions import definitions
from rewards.attribution import Part, parts_on_tokens
from rewards.audit.answers import useless_answers
from rewards.channel import ChannelResult, Completion
from rewards.compose import Grade, Reward
from rewards.unit_tests import UnitTests, of_parts

DOUBLE = Problem("t/double", "", "double", (FunctionCase((1,), 2), FunctionCase((0,), 0)))
NEGATE = Problem("t/negate", "", "negate", (FunctionCase((1,), -1), FunctionCase((2,), -2)))
BOTH = Problem("t/both", "double and negate", parts=(DOUBLE, NEGATE))

RIGHT = "```python\ndef double(x):\n    return 2 * x\n\n\ndef negate(x):\n    return -x\n```"
FIRST = RIGHT.replace("-x", "x")
SECOND = RIGHT.replace("2 * x", "x")
ALONE = "```python\ndef double(x):\n    return 2 * x\n```"
BROKEN = RIGHT.replace("2 * x", "2 * (x")
PROSE = "I double it."


def answer(text: str, given: int = 0) -> Completion:
    """A token for each character, and the end of sequence."""
    code = extract_fenced(text)
    edges = list(itertools.pairwise(range(len(text) + 1)))
    span = None if code is None else (code.start, code.end)
    return Completion(text, list(range(len(text) + 1)), [*edges, (len(text), len(text))], span, given=given)


def graded(sandbox, *texts, placement="dense", weight=1.0, **settings):
    reward = Reward({"tests": UnitTests(sandbox, **settings)}, {"tests": weight}, placement)
    return asyncio.run(reward.grade([BOTH] * len(texts), [answer(text) for text in texts]))


def corrections(grades, completions, group, width):
    return without_other_parts(grades, completions, centred(earned(grades), group), width)


@pytest.mark.parametrize("fractional", [True, False])
@pytest.mark.parametrize("locate", [True, False])
def test_the_score_is_the_mean_of_the_functions_scores_and_lies_on_each(sandbox, fractional, locate):
    grades = graded(sandbox, RIGHT, FIRST, SECOND, ALONE, BROKEN, PROSE, fractional=fractional, locate=locate)
    totals = [grade.total for grade in grades]
    half = 0.25 if fractional else 0.0  # `return x` doubles 0
    assert totals == pytest.approx([1.0, 0.5, 0.5 + half, 0.5, 0.5, 0.0])
    assert [grade.passed for grade in grades] == [True, False, False, False, False, False]
    for grade, text in zip(grades, (RIGHT, FIRST, SECOND, ALONE, BROKEN, PROSE), strict=True):
        assert sum(grade.token_rewards) == pytest.approx(grade.total)
        start = text.find("def negate")
        if start > 0:
            assert sum(grade.token_rewards[:start]) == pytest.approx(grade.parts["tests/double"].reward)
            assert sum(grade.token_rewards[start:]) == pytest.approx(grade.parts["tests/negate"].reward)
    assert grades[3].parts["tests/negate"].tokens == {len(ALONE)}  # where the answer ended without it
    assert not grades[5].parts


@pytest.mark.parametrize("locate", [True, False])
@pytest.mark.parametrize("fractional", [True, False])
def test_a_function_that_does_not_parse_costs_what_it_would_have_earned(sandbox, locate, fractional):
    texts = (RIGHT, BROKEN)
    grades = graded(sandbox, *texts, fractional=fractional, locate=locate)
    assert grades[1].total == 0.5 and grades[1].passed is False
    assert {name: part.reward for name, part in grades[1].parts.items()} == {"tests/double": 0.0, "tests/negate": 0.5}
    completions = [answer(text) for text in texts]
    advantages = torch.tensor([[0.25], [-0.25]]) + corrections(grades, completions, 2, len(RIGHT) + 1)
    for row, (text, sign) in enumerate(zip(texts, (1, -1), strict=True)):
        assert advantages[row, text.find("def double")].item() == pytest.approx(0.25 * sign)
        assert advantages[row, text.find("def negate")].item() == pytest.approx(0.0)  # both are right


def test_functions_keep_their_imports_where_another_does_not_parse(sandbox):
    text = BROKEN.replace("python\n", "python\nfrom operator import neg\n\n\n").replace("return -x", "return neg(x)")
    broken, once_more = graded(sandbox, text, text.replace("neg(x)", "neg(x"), locate=True)
    assert broken.total == 0.5 and broken.parts["tests/negate"].reward == 0.5
    assert once_more.total == 0.0 and {part.reward for part in once_more.parts.values()} <= {0.0}


def test_where_each_function_parses_the_fault_is_charged_to_the_whole_answer(sandbox):
    between = RIGHT.replace("\n\n\ndef negate", "\n\n1 +\n\ndef negate")
    grades = graded(sandbox, RIGHT, between, fractional=False)
    assert grades[1].total == 0.0 and not grades[1].parts
    whole = torch.tensor([[0.5], [-0.5]]) + corrections(grades, [answer(RIGHT), answer(between)], 2, len(between))
    assert torch.equal(whole[1], torch.full_like(whole[1], -0.5))


def test_a_fault_between_functions_costs_all_where_a_function_is_broken_too(sandbox):
    text = BROKEN.replace("\n\n\ndef negate", "\n\n1 +\n\ndef negate")
    [grade] = graded(sandbox, text)
    assert grade.total == 0.0 and not grade.parts


def test_an_answer_cut_within_a_function_loses_that_function(sandbox):
    reward = Reward({"tests": UnitTests(sandbox)}, {"tests": 1.0})
    cut = replace(answer(RIGHT[: RIGHT.index("-x")] + "(x"), finished=False)
    [grade] = asyncio.run(reward.grade([BOTH], [cut]))
    assert grade.total == 0.5 and grade.passed is False and grade.parts["tests/negate"].reward == 0.0


def test_a_function_is_missing_beside_one_that_does_not_parse(sandbox):
    three = Problem("t/three", "", parts=(DOUBLE, NEGATE, replace(NEGATE, id="t/minus", entry_point="minus")))
    reward = Reward({"tests": UnitTests(sandbox, held_out=0.5)}, {"tests": 1.0})
    [grade] = asyncio.run(reward.grade([three], [answer(BROKEN)]))
    rewards = {name: part.reward for name, part in grade.parts.items()}
    assert rewards == {"tests/double": 0.0, "tests/negate": pytest.approx(1 / 3), "tests/minus": 0.0}
    assert grade.parts["tests/minus"].tokens == {len(BROKEN)} and grade.results["tests"].detail["watched"] == 0


@pytest.mark.parametrize("placement", ["dense", "pointed"])
def test_functions_that_the_top_level_does_not_define_earn_at_the_end(sandbox, placement):
    text = "```python\ndef double(x):\n    return 2 * x\n\nnegate = lambda x: -x\n```"
    [grade] = graded(sandbox, text, placement=placement)
    assert grade.passed and grade.parts["tests/negate"].tokens == {len(text)}
    assert grade.token_rewards[-1] == pytest.approx(0.5)


def test_a_missing_function_is_on_the_end_of_sequence_where_a_token_joins_code_and_fence():
    text = "```python\ndef double(x):\n    return 2 * x```"
    edges = [0, 10, len(text) - 4, len(text)]
    offsets = [*itertools.pairwise(edges), (len(text), len(text))]
    completion = Completion(text, range(4), offsets, (10, len(text) - 3), closed=True)
    results = [ChannelResult(1.0, passed=True, verdict="pass"), ChannelResult(0.0, passed=False, verdict="fail")]
    parts = parts_on_tokens(completion, of_parts([DOUBLE, NEGATE], completion, results), False)
    assert parts["negate"].tokens == {3} and parts["double"].tokens == {1, 2}


def test_one_function_without_a_verdict_leaves_the_answer_without_a_grade(sandbox):
    whole, failed = ChannelResult(1.0, passed=True, verdict="pass"), None
    assert of_parts((DOUBLE, NEGATE), answer(RIGHT), [whole, failed]) is None


def test_held_out_tests_are_watched_where_all_functions_pass_their_paid_ones(sandbox):
    games = RIGHT.replace("return -x", "return -1")  # passes the test that is paid alone
    grades = graded(sandbox, RIGHT, games, FIRST, held_out=0.5)
    details = [dict(grade.results["tests"].detail) for grade in grades]
    for each in details:
        each.pop("seconds")
    assert details == [{"watched": 1, "held_out_passed": 1}, {"watched": 1, "held_out_passed": 0}, {"watched": 0}]
    assert [grade.passed for grade in grades] == [True, False, False]
    assert [grade.verdict for grade in grades] == ["pass", "held-out", "fail"]


def test_the_note_names_the_functions_that_fail(sandbox):
    [grade] = graded(sandbox, FIRST)
    assert grade.results["tests"].note == "1 of 2 functions; negate: case 1: expected -1, got 1"


def test_sparse_and_uniform_placement_have_no_parts_and_pay_the_same(sandbox):
    for placement in ("sparse", "uniform"):
        [grade] = graded(sandbox, FIRST, placement=placement)
        assert grade.total == pytest.approx(0.5) and not grade.parts


def test_a_right_function_is_not_discouraged_by_a_wrong_neighbour(sandbox):
    texts = (FIRST, SECOND)
    grades = graded(sandbox, *texts, fractional=False, weight=2.0)
    completions = [answer(text) for text in texts]
    width = max(len(c.token_ids) for c in completions)
    corrected = corrections(grades, completions, 2, width)  # both earned 1 in all: their advantage is 0
    for row, (text, sign) in enumerate(zip(texts, (1, -1), strict=True)):
        double, negate = text.find("def double"), text.find("def negate")
        assert corrected[row, double + 1].item() == pytest.approx(0.5 * sign)
        assert corrected[row, negate + 1].item() == pytest.approx(-0.5 * sign)
        assert not corrected[row, :double].any()  # the fence is before all parts
    assert groups_that_differ(earned(grades), 2).tolist() == [True]
    assert groups_that_differ(earned([grades[0], grades[0]]), 2).tolist() == [False]


def test_answers_without_a_grade_or_without_a_function(sandbox):
    texts = (RIGHT, ALONE, PROSE)
    grades = [*graded(sandbox, *texts, fractional=False), None]
    completions = [answer(text) for text in (*texts, RIGHT)]
    width = len(RIGHT) + 1
    corrected = corrections(grades, completions, 4, width)
    double, negate = 2 / 3, 1 / 3  # means of the three that are graded
    assert corrected[0, RIGHT.find("def double")].item() == pytest.approx(-0.5 * (1 - negate))
    assert corrected[0, RIGHT.find("def negate")].item() == pytest.approx(-0.5 * (1 - double))
    assert corrected[1, len(ALONE)].item() == pytest.approx(-0.5 * (1 - double))  # where `negate` is missing
    assert not corrected[2:].any()


def test_the_tokens_that_end_an_answer_keep_what_the_missing_function_costs(sandbox):
    texts = (RIGHT, ALONE)
    grades = graded(sandbox, *texts, fractional=False)
    completions = [answer(text) for text in texts]
    whole = torch.tensor([[0.25], [-0.25]])  # both have `double`, one of two has `negate`
    advantages = whole + corrections(grades, completions, 2, len(RIGHT) + 1)
    fence, after = ALONE.index("\n```"), RIGHT.index("\n\n\ndef negate")
    assert advantages[1, fence : len(ALONE) + 1].tolist() == pytest.approx([-0.25] * (len(ALONE) + 1 - fence))
    assert advantages[0, after : after + 3].tolist() == pytest.approx([0.25] * 3)  # going on is what pays
    assert advantages[0, RIGHT.index("\n```") :].abs().max().item() == pytest.approx(0)  # nothing is left to earn


def test_what_a_function_earned_is_not_credited_to_what_stands_behind_it(sandbox):
    texts = (RIGHT, SECOND)
    grades = graded(sandbox, *texts, fractional=False)
    advantages = torch.tensor([[0.25], [-0.25]]) + corrections(
        grades, [answer(text) for text in texts], 2, len(RIGHT) + 1
    )
    for row, text in enumerate(texts):
        end = text.index("\n\n\ndef negate")
        assert advantages[row, :end].tolist() == pytest.approx([0.25 - 0.5 * row] * end)
        assert advantages[row, end:].abs().max().item() == pytest.approx(0)


def test_tokens_that_were_given_have_no_column(sandbox):
    grades = graded(sandbox, FIRST, SECOND, fractional=False)
    whole = corrections(grades, [answer(FIRST), answer(SECOND)], 2, 100)
    begun = corrections(grades, [answer(FIRST, given=15), answer(SECOND, given=15)], 2, 85)
    assert torch.equal(whole[:, 15:], begun)


def test_answers_without_parts_have_nothing_taken_off(sandbox):
    reward = Reward({"tests": UnitTests(sandbox)}, {"tests": 1.0})
    completions = [answer(ALONE), answer(ALONE.replace("2 *", "3 *"))]
    grades = asyncio.run(reward.grade([DOUBLE, DOUBLE], completions))
    assert not corrections(grades, completions, 2, 50).any()
    assert not groups_that_differ(earned(grades), 2).any()


def test_definitions_are_found_in_code_that_does_not_parse():
    code = "import os\n@cache\n@other\ndef f(a,\n  b\n):\n  return (\n\n\n# a note\nasync def g(: \n    x\nf(1)\n"
    places = definitions(code, ["f", "g", "h"])
    assert code[slice(*places["f"])] == "@cache\n@other\ndef f(a,\n  b\n):\n  return ("
    assert code[slice(*places["g"])] == "async def g(: \n    x"
    assert set(places) == {"f", "g"}


def test_what_a_string_says_is_no_definition():
    code = (
        'def f(x):\n    """Text\ndef g(x):\n    return 1\n"""\n    return 2\n\ndef g(x):\n    return """\nf = 1\n"""\n'
    )
    places = definitions(code, ["f", "g"], parses=True)
    assert code[slice(*places["f"])].endswith("return 2") and code[slice(*places["g"])].endswith('f = 1\n"""')
    assert set(definitions('a = "\\\ndef f(x):\\\n"\n', ["f"], parses=True)) == set()
    quoted = 'def f(x):\n    """Quote with \\"""."""\n    return x\n\ndef g(x):\n    """Twice."""\n    return 2 * x\n'
    assert quoted[slice(*definitions(quoted, ["f", "g"], parses=True)["f"])].endswith("return x")
    broken = 'def f(x):\n    """not closed\ndef g(x):\n    """One."""\n    return 1\n'
    assert set(definitions(broken, ["f", "g"])) == {"f", "g"}


def test_a_definition_may_begin_with_a_form_feed_and_have_arguments_in_the_first_column():
    code = "\x0cdef f(\nx\n):\n    return {\n'def': x}\n\x0cdef g(x):\n    return 1\n"
    places = definitions(code, ["f", "g"], parses=True)
    assert code[slice(*places["f"])].endswith("'def': x}") and code[slice(*places["g"])].endswith("return 1")


def test_of_two_definitions_the_last_counts():
    code = "def f(x):\n    return 1\n\ndef f(x):\n    return 2\n"
    assert code[slice(*definitions(code, ["f"])["f"])] == "def f(x):\n    return 2"


def test_the_problems_of_basics_together(sandbox):
    single = Basics().problems("train")
    modules = Basics(functions=3).problems("train")
    assert sorted(p.id for m in modules for p in m.parts) == sorted(p.id for p in single)
    assert {len(m.parts) for m in modules} <= {1, 2, 3} and len({m.id for m in modules}) == len(modules)
    assert all(len({p.entry_point for p in m.parts}) == len(m.parts) for m in modules)
    assert modules == together(list(reversed(single)), 3)
    held_out = {p.id for m in Basics(functions=3).problems("test") for p in m.parts}
    assert held_out == {p.id for p in Basics().problems("test")}
    outcomes = asyncio.run(validate(sandbox, modules[:20]))
    assert len(outcomes) == sum(len(m.parts) for m in modules[:20])
    assert all(outcome.verdict == "pass" for outcome in outcomes)
    question = modules[0].question
    assert question.startswith("1. ") and "\n3. " in question and question.count("def ") == 3


def enumerated(parts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the gradient in the two log odds of a policy of two independent tokens, each right or wrong,
    over all groups of three answers."""
    odds = torch.tensor([0.3, 0.6])
    mean, square = torch.zeros(2), torch.zeros(2)
    for outcome in itertools.product((0, 1), repeat=6):
        right = torch.tensor(outcome, dtype=torch.float).view(3, 2)
        chance = torch.where(right > 0, odds, 1 - odds).prod()
        completions = [Completion("ab", [0, 1], [(0, 1), (1, 2)], (0, 2))] * 3
        grades = [of_tokens(row) for row in right.tolist()]
        advantages = (right.sum(1) - right.sum(1).mean())[:, None]
        if parts:
            advantages = advantages + corrections(grades, completions, 3, 2)
        gradient = (advantages * (right - odds)).sum(0)
        mean, square = mean + chance * gradient, square + chance * gradient**2
    return mean, square - mean**2


def of_tokens(right: list[float]) -> Grade:
    results = {"tests": ChannelResult(sum(right))}
    parts = {f"tests/{i}": Part(value, frozenset([i])) for i, value in enumerate(right)}
    return Grade(results, {"tests": right}, {"tests": 1.0}, parts)


def test_of_independent_parts_the_expected_gradient_stays_and_its_variance_falls():
    whole, noise = enumerated(parts=False)
    by_part, less_noise = enumerated(parts=True)
    assert torch.allclose(whole, by_part, atol=1e-5)
    assert (less_noise < 0.7 * noise).all()


def rollout_of(*rows: list[float]) -> GroupRollout:
    completions = [Completion("ab", [0, 1], [(0, 1), (1, 2)], (0, 2))] * len(rows)
    return GroupRollout([], completions, [of_tokens(row) for row in rows])


TIED = ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0])
"""Two groups of two answers that are equal in all; in the first the parts tell them apart."""


def test_answers_that_only_their_parts_tell_apart_have_advantages():
    rollout = rollout_of(*TIED)
    rewards = rewards_of(rollout.grades).view(2, 2)
    advantages = GroupAdvantages(2, longest=3, scale="none", shaping=1e-9, turns=1, discount=1.0)
    got = advantages(rollout, advantages.returns_by_turn(rollout, rewards))
    wanted = torch.tensor([[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0], [0.0, 0.0]])
    assert torch.allclose(got[:, :2], wanted, atol=1e-6)
    differ = advantages.differ(rollout, torch.device("cpu"))
    assert differ.tolist() == [True, False]
    assert group_metrics(rollout, rewards, differ=differ)["groups_skipped"] == 1
    assert group_metrics(rollout, rewards)["groups_skipped"] == 2


def test_parts_do_not_count_without_shaping():
    rollout = rollout_of(*TIED)
    rewards = rewards_of(rollout.grades).view(2, 2)
    alone = GroupAdvantages(2, longest=3, scale="none", shaping=0.0, turns=1, discount=1.0)
    assert not alone(rollout, [rewards]).any() and alone.differ(rollout, torch.device("cpu")) is None


def test_a_comment_above_a_function_is_not_the_one_befores():
    code = "def f(x):\n    return 1\n\n# g doubles\n# its argument\ndef g(x):\n    return 2 * x\n"
    assert code[slice(*definitions(code, ["f", "g"])["f"])] == "def f(x):\n    return 1"


def test_references_that_share_the_name_of_a_function_are_not_joined():
    names = ["helper", "helper", "other"]
    problems = [
        Problem(
            f"t/f{n}",
            f"f{n}\n\n{ASKED}\n\n```python\ndef f{n}(x):\n```",
            f"f{n}",
            DOUBLE.cases,
            reference=f"def {name}(x):\n    return {n}\n\ndef f{n}(x):\n    return {name}(x)\n",
        )
        for n, name in enumerate(names)
    ]
    modules = [{p.entry_point for p in module.parts} for module in together(problems, 3)]
    assert sorted(map(len, modules)) == [1, 2] and {"f0", "f1"} not in modules


def test_nonsense_is_planted_for_each_function_and_examples_of_each_are_hard_coded(sandbox):
    task = Basics(functions=3)
    [problem] = [p for p in task.problems("train") if len(p.parts) == 3][:1]
    reward = Reward({"tests": UnitTests(sandbox, fractional=False)}, {"tests": 1.0}, "sparse")
    assert asyncio.run(examine(reward, task, [problem]))[:2] == ([], [])
    accepting = replace(problem.parts[2], cases=(FunctionCase((1,), "a planted wrong answer"),))
    careless = replace(problem, parts=(*problem.parts[:2], accepting))
    failures, _, _ = asyncio.run(examine(reward, task, [careless]))
    assert [row["what"] for row in failures] == ["the reference fails", "nonsense passes"]
    codes = dict(useless_answers(task, problem, DOUBLE.reference or "def double(x):\n    return 2 * x\n"))
    for name in ("the examples shown, hard-coded", "another problem's reference"):
        for part in problem.parts:
            assert f"def {part.entry_point}(" in (codes[name].code or ""), name
    assert len(cases_of(problem)) == 13  # twelve and how many more


def test_a_prompt_asks_for_one_function_at_least():
    with pytest.raises(TaskError, match=r"task\.env\.functions=0"):
        Basics(functions=0)
