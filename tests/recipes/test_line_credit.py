"""Credit for lines: what answers of a group earn for the lines in which they differ."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
import torch

from envs.basics import Basics
from envs.task import Problem, extract_fenced
from recipes.cli.errors import UserError
from recipes.run.checks import check_grpo
from recipes.sampling.background_grading import Grader
from recipes.sampling.group_batch import GroupRollout, rewards_of
from recipes.trainers.advantages import group_relative
from recipes.trainers.group_advantages import GroupAdvantages
from recipes.trainers.line_credit import MOST_PLACES, LineCredit, differing, exchanged, tokens_of
from rewards.channel import ChannelResult, Completion
from rewards.compose import Reward
from tests.recipes.test_configs import compose


def answer(*lines: str, given: int = 0, finished: bool = True) -> Completion:
    """A fenced program with a token for each character, and the end of sequence."""
    text = "```python\n" + "".join(f"{line}\n" for line in lines) + "```"
    code = extract_fenced(text)
    edges = [*itertools.pairwise(range(len(text) + 1)), (len(text), len(text))]
    return Completion(text, list(range(len(edges))), edges, (code.start, code.end), given=given, finished=finished)


class Sums:
    """Adds up the numbers in the lines `x = 3`; with `needs`, only if the code has this text; None for a `?`."""

    def __init__(self, needs: str = ""):
        self.needs, self.graded = needs, []

    async def score(self, problems, completions):
        self.graded += completions
        return [self.result(completion.code or "") for completion in completions]

    def result(self, code):
        numbers = [float(number) for number in re.findall(r"= (-?[\d.]+)", code)]
        return None if "?" in code else ChannelResult(sum(numbers) if self.needs in code else 0.0, passed=False)


def credited(*completions, group=None, channel=None, width=None):
    """The advantages of answers, a list of characters' advantages for each, and the rollout."""
    reward = Reward({"sums": channel or Sums()}, {"sums": 1.0}, "sparse")
    grader = Grader(reward, 3)
    batch, problem = grader.batch(), Problem("t/sum", "", "x")
    for place, completion in enumerate(completions):
        batch.add(place, problem, completion)
    rollout = GroupRollout([problem] * len(completions), list(completions), batch.collect())
    credit = LineCredit(Basics(), grader, group or len(completions), len)
    try:
        return credit(rollout, width or max(len(c.token_ids) for c in completions)), rollout
    finally:
        grader.close()


def of_line(advantages, completion, text):
    """The one advantage that all characters of a line have."""
    start = completion.text.index(text)
    values = set(advantages[start : start + len(text)].tolist())
    assert len(values) == 1, values
    return values.pop()


def test_lines_that_differ_are_found_one_by_one_where_they_can_be():
    assert differing(["a\n", "b\n", "c\n"], ["a\n", "x\n", "y\n"]) == [
        (slice(1, 2), slice(1, 2)),
        (slice(2, 3), slice(2, 3)),
    ]
    assert differing(["a\n", "b\n"], ["a\n", "b\n", "c\n"]) == [(slice(2, 2), slice(2, 3))]
    assert differing(["a\n", "b\n", "c\n"], ["a\n", "x\n"]) == [(slice(1, 3), slice(1, 2))]
    assert differing(["a\n"], ["a\n"]) == []
    many = [f"{i}\n" for i in range(MOST_PLACES + 1)]
    assert differing(many, [f"x{line}" for line in many]) == [(slice(0, len(many)), slice(0, len(many)))]
    assert exchanged(["a\n", "b\n", "c\n"], slice(1, 1), ["x\n"]) == "a\nx\nb\nc\n"


def test_the_tokens_of_no_lines_are_the_one_that_did_not_write_any():
    completion = answer("x = 1")
    assert "".join(completion.text[t] for t in tokens_of(completion, slice(1, 2))) == "x = 1\n"
    assert tokens_of(completion, slice(1, 1)) == [completion.text.index("x")]
    assert tokens_of(completion, slice(3, 3)) == [len(completion.text)]  # the end of sequence
    assert tokens_of(replace(completion, token_ids=[], offsets=[]), slice(1, 2)) == []


def test_answers_that_differ_in_one_line_have_the_advantage_of_grpo_there_and_nothing_elsewhere():
    answers = [answer("y = 5", f"x = {value}") for value in (0, 1, 4)]
    advantages, rollout = credited(*answers)
    relative = group_relative(rewards_of(rollout.grades).view(1, 3), "none").flatten()
    for row, completion, wanted in zip(advantages, answers, relative.tolist(), strict=True):
        assert of_line(row, completion, "x = ") == pytest.approx(wanted)
        assert of_line(row, completion, "y = 5\n") == 0
    assert rollout.mixed_answers == 0  # an exchange makes the other answer


def test_an_answer_that_ends_in_the_line_that_differs_is_credited_for_ending_there():
    """Answers without a closing fence, `x = 1` and `x = 1 + 1`: the first differs in its end of sequence alone."""

    def ends(text):
        edges = [*itertools.pairwise(range(len(text) + 1)), (len(text), len(text))]
        return Completion(text, list(range(len(edges))), edges, (0, len(text)))

    answers = [ends("y = 2\nx = 1"), ends("y = 2\nx = 4 + 1")]
    advantages, _ = credited(*answers)
    assert advantages[:, :6].tolist() == [[0.0] * 6] * 2
    for row, completion, wanted in zip(advantages, answers, (-1.5, 1.5), strict=True):
        assert row[6 : len(completion.offsets)].tolist() == pytest.approx([wanted] * (len(completion.offsets) - 6))
    many = [
        ends("\n".join(f"{name}{i} = {value}" for i in range(MOST_PLACES + 1))) for name, value in (("a", 0), ("b", 1))
    ]
    advantages, _ = credited(*many)  # exchanged as a whole
    assert torch.allclose(advantages, torch.tensor([[-6.5], [6.5]]).expand_as(advantages))


def test_answers_of_equal_text_keep_their_own_rewards_and_differ_in_their_end():
    class LessIfCut(Sums):
        async def score(self, problems, completions):
            return [ChannelResult(self.result(c.code).score - 2 * (not c.finished)) for c in completions]

    answers = [answer("x = 0"), answer("x = 4"), answer("x = 4", finished=False)]
    advantages, rollout = credited(*answers, channel=LessIfCut())
    assert rewards_of(rollout.grades).tolist() == [0, 4, 2] and rollout.mixed_answers == 0
    wanted = zip(advantages, answers, (-2, 4 / 3, 2 / 3), (0, 2 / 3, -2 / 3), strict=True)
    for row, completion, of_x, of_end in wanted:
        assert of_line(row, completion, "x = ") == pytest.approx(of_x)
        assert row[len(completion.text) - 1] == 0 and row[len(completion.text)] == pytest.approx(of_end)


def test_each_line_keeps_its_own_part_of_a_sum():
    answers = [answer("x = 0", "y = 3"), answer("x = 1", "y = 0"), answer("x = 2", "y = 0")]
    advantages, rollout = credited(*answers)
    for row, completion, x, y in zip(advantages, answers, (-1, 0, 1), (2, -1, -1), strict=True):
        assert of_line(row, completion, "x = ") == pytest.approx(x)
        assert of_line(row, completion, "y = ") == pytest.approx(y)
    assert rollout.mixed_answers == 3  # x = 1, y = 3; x = 2, y = 3; and x = 0, y = 0, which two pairs make
    assert not advantages.sum().isnan()


def test_lines_that_only_work_together_share_the_difference():
    answers = [answer("a = 2", "b()"), answer("c()", "d()")]
    advantages, _ = credited(*answers, channel=Sums(needs="b()"))
    assert of_line(advantages[0], answers[0], "a = 2\n") == pytest.approx(0.5)  # (2 - 0) / 2 for the place, / 2 answers
    assert of_line(advantages[0], answers[0], "b()\n") == pytest.approx(0.5)
    assert of_line(advantages[1], answers[1], "c()\n") == pytest.approx(-0.5)


def test_a_line_that_others_do_not_have_is_credited_to_the_token_in_its_place():
    answers = [answer("x = 1"), answer("x = 1", "y = 2")]
    advantages, _ = credited(*answers)
    behind = answers[0].text.index("\n```") + 1
    assert advantages[0].nonzero().flatten().tolist() == [behind]
    assert advantages[0, behind] == -1 and of_line(advantages[1], answers[1], "y = 2\n") == 1


def test_groups_do_not_mix_and_those_without_a_difference_earn_nothing():
    answers = [answer("x = 1"), answer("y = 1"), answer("x = 0"), answer("x = 4")]
    channel = Sums()
    advantages, rollout = credited(*answers, group=2, channel=channel)
    assert not advantages[:2].any()
    assert of_line(advantages[3], answers[3], "x = ") == 2
    assert len(channel.graded) == 4 and rollout.mixed_answers == 0 and rollout.clock["seconds/mixed"] >= 0


def test_answers_without_a_grade_do_not_count_and_given_tokens_have_no_advantage():
    shown = len("```python\nx = ")
    answers = [answer("x = 1", given=shown), answer("x = ?", given=shown), answer("x = 3", given=shown)]
    advantages, _ = credited(*answers)
    assert not advantages[1].any()
    assert advantages[0, 0] == -1 and advantages[2, 0] == 1  # the first sampled token is the number


def test_a_mixed_answer_that_cannot_be_graded_leaves_half_of_the_difference():
    answers = [answer("x = 4", "y"), answer("x", "y = 0 # a")]

    class Fails(Sums):
        def result(self, code):
            return None if code.strip() == "x = 4\ny = 0 # a" else super().result(code)

    advantages, _ = credited(*answers, channel=Fails())
    # 4 - 0 in the first, mean of 4 and 0 - 0 in the second: 3, over two answers
    assert of_line(advantages[0], answers[0], "x = 4\n") == pytest.approx(1.5)


def test_a_mixed_answer_is_finished_if_both_are():
    channel = Sums()
    credited(answer("x = 1", "y = 0"), answer("x = 0", "y = 3", finished=False), channel=channel)
    assert [completion.finished for completion in channel.graded] == [True, False, False, False]
    assert {len(completion.token_ids) for completion in channel.graded[2:]} == {len("```python\nx = 1\ny = 3\n```")}


def gradients(lines: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the gradient of a policy that chooses each of two lines for itself, with groups of two; by
    enumeration of all groups."""
    chances, mean, square = (0.3, 0.6), torch.zeros(2), torch.zeros(2)
    for choices in itertools.product((0, 1), repeat=4):
        pairs = choices[:2], choices[2:]
        chance = 1.0
        for pair in pairs:
            for place, choice in enumerate(pair):
                chance *= chances[place] if choice else 1 - chances[place]
        answers = [answer(f"x = {first}", f"y = {2 * second}") for first, second in pairs]
        advantages, rollout = credited(*answers)
        if not lines:
            relative = group_relative(rewards_of(rollout.grades).view(1, 2), "none").view(2, 1)
            advantages = relative.expand(2, advantages.shape[1])
        total = torch.zeros(2)
        for row, completion, pair in zip(advantages, answers, pairs, strict=True):
            for place, name in enumerate("xy"):
                total[place] += row[completion.text.index(f"{name} = ")] * (pair[place] - chances[place])
        mean += chance * total
        square += chance * total**2
    return mean, square - mean**2


def test_of_independent_lines_the_expected_gradient_stays_and_its_variance_falls():
    whole, noise = gradients(lines=False)
    by_line, less_noise = gradients(lines=True)
    assert torch.allclose(whole, by_line, atol=1e-5) and (whole > 0).all()
    assert (less_noise < 0.9 * noise).all() and less_noise.sum() < 0.6 * noise.sum()


def test_the_trainers_advantages_are_those_of_lines_for_any_placement():
    answers = [answer("x = 0", "y = 3"), answer("x = 1", "y = 0")]
    wanted, rollout = credited(*answers, width=40)
    grader = Grader(Reward({"sums": Sums()}, {"sums": 1.0}, "dense"), 0)
    lines = LineCredit(Basics(), grader, 2, len)
    advantages = GroupAdvantages(2, longest=40, scale="none", shaping=0.0, turns=1, discount=1.0, lines=lines)
    returns = advantages.returns_by_turn(rollout, rewards_of(rollout.grades).view(1, 2))
    assert torch.equal(advantages(rollout, returns), wanted)
    assert advantages.differ(rollout, torch.device("cpu")) is None
    grader.close()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("episode=repair", "recipe.credit=lines compares answers of one turn: leave out episode=repair"),
        ("recipe.trl.scale_rewards=group", "recipe.trl.scale_rewards=group: the deviation of whole answers"),
        ("+recipe.trl.importance_sampling_level=sequence", "recipe.trl.importance_sampling_level=sequence has one"),
    ],
)
def test_what_does_not_go_with_credit_for_lines_is_refused(override, message):
    check_grpo(compose("recipe.credit=lines"))
    with pytest.raises(UserError, match=re.escape(message)):
        check_grpo(compose("recipe.credit=lines", override))
