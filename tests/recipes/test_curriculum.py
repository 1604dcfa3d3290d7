"""The curriculum: which problems are drawn, what is known of them, and that a resumed run draws the same."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from recipes.cli.errors import UserError
from recipes.data.curriculum import Curriculum, CurriculumSettings, spread_of
from recipes.sampling.generate import Decoding
from recipes.sampling.sampler import Sampler
from rewards.attribution import Part
from rewards.channel import ChannelResult
from rewards.compose import Grade
from tests.recipes.test_rollouts import ByProblem, rollouts

NAMES = [f"p{n}" for n in range(12)]
SETTINGS = CurriculumSettings(enabled=True, memory=0.0, least=0.02)


def curriculum(settings=SETTINGS, prompts=4, repeats=2, seed=0, **where) -> Curriculum:
    return Curriculum(settings, NAMES, prompts, repeats, seed, **where)


def grade(reward: float, **parts: float) -> Grade:
    named = {name: Part(value, frozenset({0})) for name, value in parts.items()}
    return Grade({"channel": ChannelResult(reward)}, {"channel": [reward]}, {"channel": 1.0}, named)


def observe(order: Curriculum, rates: dict[str, float], answers: int = 10) -> None:
    for name, rate in rates.items():
        order.observe([NAMES.index(name)] * answers, [grade(float(n < rate * answers)) for n in range(answers)])


def test_problems_that_half_of_the_answers_solve_are_drawn_most_often():
    order = curriculum()
    observe(order, {name: (0.0, 1.0, 0.5, 0.1)[n % 4] for n, name in enumerate(NAMES)})
    counts = Counter(NAMES[row] for _ in range(500) for row in order.draw(2))
    by_rate = [sum(counts[name] for name in NAMES[kind::4]) / 1000 for kind in range(4)]
    weights = torch.tensor([0.02, 0.02, 1.0, 0.36])
    assert by_rate == pytest.approx((weights / weights.sum()).tolist(), abs=0.05)
    assert min(counts.values()) > 0  # those that teach nothing are tried again


def test_what_was_never_tried_counts_as_the_best():
    order = curriculum()
    observe(order, dict.fromkeys(NAMES[:4], 0.0) | dict.fromkeys(NAMES[4:8], 0.2))
    drawn = Counter(NAMES[row] for _ in range(300) for row in order.draw(2))
    assert drawn["p0"] < drawn.total() / 20
    shares = [sum(drawn[name] for name in names) / drawn.total() for names in (NAMES[4:8], NAMES[8:])]
    assert shares == pytest.approx([0.5, 0.5], abs=0.1)


def test_no_problem_comes_twice_in_a_draw_and_processes_share_none():
    orders = [curriculum(rank=rank, world=2) for rank in (0, 1)]
    seen: list[set[int]] = [set(), set()]
    for order, rows in zip(orders, seen, strict=True):
        for _ in range(20):
            drawn = order.draw(8)
            assert drawn[::2] == drawn[1::2] and len(set(drawn)) == 4
            rows.update(drawn)
    assert seen[0] | seen[1] == set(range(12)) and not seen[0] & seen[1]
    with pytest.raises(UserError, match=r"12 training problems do not make .*prompts_per_step=14 .* in 2 processes"):
        curriculum(prompts=14, rank=0, world=2)
    with pytest.raises(ValueError, match="3 rows in a process are no whole groups of 2"):
        curriculum().draw(3)


def test_what_is_known_moves_with_the_policy_and_what_nothing_graded_teaches_nothing():
    order = curriculum(CurriculumSettings(enabled=True, memory=0.5, least=0.05))
    assert order.metrics() == {"curriculum/tried": 0, "curriculum/least": 0}
    order.observe([2] * 4, [grade(1.0), None, None, None])  # one answer has no spread
    assert order.metrics()["curriculum/tried"] == 0
    order.observe([3] * 4, [None] * 4)  # it may be broken
    observe(order, {"p4": 0.5})
    for rate, known in ((0.5, 0.125), (0.5, 0.1875), (0.0, 0.09375)):
        observe(order, {"p3": rate})
        assert order.state()["spreads"] == pytest.approx({"p3": known, "p4": 0.25})
    order.observe([3] * 8, [None] * 4 + [grade(0.0), None, None, None])  # a failure of the machine
    assert order.state()["spreads"]["p3"] == pytest.approx(known)
    observe(order, {"p5": 1.0})
    assert order.metrics() == pytest.approx({"curriculum/tried": 3 / 12, "curriculum/least": 1 / 12})


def test_the_spread_of_answers_in_parts_is_that_of_their_parts():
    """Two parts that pay one half each, of which one answer in two has the first right and the other the second."""
    assert spread_of([grade(1.0), grade(0.0)]) == 0.25 and spread_of([grade(1.0)]) == 0
    tied = [grade(0.5, f=0.5, g=0.0), grade(0.5, f=0.0, g=0.5)]
    assert spread_of(tied) == pytest.approx(2 * (0.0625 + 0.0625))  # as one that half of the answers solve
    assert spread_of(tied, by_part=False) == 0  # as whole answers they teach nothing
    beside = [grade(0.7, f=0.5), grade(0.5, f=0.5)]
    assert spread_of(beside) == pytest.approx(0.01)
    assert spread_of([grade(0.5, f=0.5), grade(0.0)]) == pytest.approx(0.0625)  # a part that an answer lacks


def test_a_resumed_order_goes_on_with_the_same_problems():
    first, second = curriculum(), curriculum(seed=9)
    first.draw(8)
    observe(first, {"p1": 0.0, "p2": 1.0})
    second.load_state(first.state())
    assert [second.draw(8) for _ in range(5)] == [first.draw(8) for _ in range(5)]
    assert second.metrics() == first.metrics()


@pytest.mark.parametrize("ahead", [None, torch.float32])
def test_rollouts_tell_it_what_was_earned_and_resume_with_it(tiny_model, tiny_tokenizer, ahead):
    """Also with a batch sampled ahead, and where a draw was refilled."""

    def made_with():
        def order(dataset, prompts, group):
            return Curriculum(SETTINGS, dataset["problem_id"][:12], prompts, group, seed=0)

        settings = {"lookahead_dtype": ahead, "refill_rounds": 2}
        channel = ByProblem(lambda name, completion: len(name) % 3 == 0 and completion.token_ids[0] % 2)
        sampler = Sampler(Decoding(6), [2], 2)
        return rollouts(tiny_model, tiny_tokenizer, channel, sampler=sampler, stream=order, **settings)

    made, model = made_with()
    first = made.next(model)
    spreads = made.stream.state()["spreads"]
    assert {p.id for p in first.problems} <= set(spreads) and len(spreads) >= 2
    assert 0 < first.sampling_metrics["curriculum/tried"] <= len(spreads) / 12
    state = made.state()
    further = [made.next(model) for _ in range(4)]
    made.close()
    resumed = made_with()[0]
    resumed.load_state(state, model)
    again = [resumed.next(model) for _ in range(4)]
    resumed.close()
    for one, other in zip(again, further, strict=True):
        assert one.rows == other.rows and one.sampling_metrics == other.sampling_metrics
        assert [c.token_ids for c in one.completions] == [c.token_ids for c in other.completions]
