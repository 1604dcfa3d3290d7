"""The curriculum: which problems are drawn, what is known of them, and that a resumed run draws the same."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from recipes.cli.errors import UserError
from recipes.data.curriculum import Curriculum, CurriculumSettings
from recipes.sampling.generate import Decoding
from recipes.sampling.sampler import Sampler
from tests.recipes.test_rollouts import ByProblem, rollouts

NAMES = [f"p{n}" for n in range(12)]
SETTINGS = CurriculumSettings(enabled=True, memory=0.0, least=0.02)


def curriculum(settings=SETTINGS, prompts=4, repeats=2, seed=0, **where) -> Curriculum:
    return Curriculum(settings, NAMES, prompts, repeats, seed, **where)


def observe(order: Curriculum, rates: dict[str, float], answers: int = 10) -> None:
    for name, rate in rates.items():
        passed = [SimpleNamespace(passed=n < rate * answers) for n in range(answers)]
        order.observe([NAMES.index(name)] * answers, passed)


def test_problems_that_half_of_the_answers_solve_are_drawn_most_often():
    order = curriculum()
    observe(order, {name: (0.0, 1.0, 0.5, 0.1)[n % 4] for n, name in enumerate(NAMES)})
    counts = Counter(NAMES[row] for _ in range(500) for row in order.draw(2))
    by_rate = [sum(counts[name] for name in NAMES[kind::4]) / 1000 for kind in range(4)]
    weights = torch.tensor([0.02, 0.02, 1.0, 0.36])
    assert by_rate == pytest.approx((weights / weights.sum()).tolist(), abs=0.05)
    assert min(counts.values()) > 0  # solved and hopeless ones are tried again


def test_what_was_never_tried_comes_before_what_is_known_to_teach_little():
    order = curriculum()
    observe(order, dict.fromkeys(NAMES[:6], 0.0))
    drawn = Counter(NAMES[row] for _ in range(200) for row in order.draw(2))
    assert sum(drawn[name] for name in NAMES[6:]) > 0.95 * drawn.total()


def test_no_problem_comes_twice_in_a_draw_and_processes_share_none():
    orders = [curriculum(rank=rank, world=2) for rank in (0, 1)]
    seen = [set(), set()]
    for order, rows in zip(orders, seen, strict=True):
        for _ in range(20):
            drawn = order.draw(8)
            assert drawn[::2] == drawn[1::2] and len(set(drawn)) == 4
            rows.update(drawn)
    assert seen[0] | seen[1] == set(range(12)) and not seen[0] & seen[1]
    with pytest.raises(UserError, match=r"12 training problems do not make .*prompts_per_step=14 .* in 2 processes"):
        curriculum(prompts=14, rank=0, world=2)


def test_a_pass_rate_moves_with_the_policy_and_what_nothing_judged_does_not_count():
    order = curriculum(CurriculumSettings(enabled=True, memory=0.5, least=0.05))
    order.observe([3] * 4, [SimpleNamespace(passed=None), None, None, None])
    assert order.state()["rates"] == {} and order.metrics()["curriculum/tried"] == 0
    for rate, known in ((0.0, 0.25), (0.0, 0.125), (1.0, 0.5625)):
        observe(order, {"p3": rate})
        assert order.state()["rates"] == {"p3": known}
    observe(order, dict.fromkeys(NAMES[:6] * 6, 0.0) | {"p7": 1.0})
    for _ in range(4):
        observe(order, {"p7": 1.0} | dict.fromkeys(NAMES[:3], 0.0))
    shares = {"curriculum/tried": 7 / 12, "curriculum/hopeless": 3 / 12, "curriculum/solved": 1 / 12}
    assert order.metrics() == pytest.approx(shares)


def test_a_resumed_order_goes_on_with_the_same_problems():
    first, second = curriculum(), curriculum(seed=9)
    first.draw(8)
    observe(first, {"p1": 0.0, "p2": 1.0})
    second.load_state(first.state())
    assert [second.draw(8) for _ in range(5)] == [first.draw(8) for _ in range(5)]
    assert second.metrics() == first.metrics()


@pytest.mark.parametrize(("name", "value"), [("memory", 1.0), ("memory", -0.1), ("least", 0.0), ("least", 1.5)])
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(UserError, match=f"recipe.curriculum.{name}={value}"):
        CurriculumSettings(**{"enabled": True, "memory": 0.3, "least": 0.05, name: value})


@pytest.mark.parametrize("ahead", [None, torch.float32])
def test_rollouts_tell_it_what_passed_and_resume_with_it(tiny_model, smollm2_tokenizer, ahead):
    """Also with a batch sampled ahead, and where a draw was refilled."""

    def made_with():
        def order(dataset, prompts, group):
            return Curriculum(SETTINGS, dataset["problem_id"], prompts, group, seed=0)

        settings = {"lookahead_dtype": ahead, "refill_rounds": 2}
        channel = ByProblem(lambda name, completion: len(name) % 3 == 0 and completion.token_ids[0] % 2)
        sampler = Sampler(Decoding(6), [2], 2)
        return rollouts(tiny_model, smollm2_tokenizer, channel, sampler=sampler, stream=order, **settings)

    made, model = made_with()
    first = made.next(model)
    rates = made.stream.state()["rates"]
    assert {p.id for p in first.problems} <= set(rates) and len(rates) >= 2
    assert 0 < first.sampling_metrics["curriculum/tried"] <= len(rates) / len(made.dataset)
    state = made.state()
    second, resumed = made.next(model), made_with()[0]
    made.close()
    resumed.load_state(state, model)
    again = resumed.next(model)
    resumed.close()
    assert [c.token_ids for c in again.completions] == [c.token_ids for c in second.completions]
    assert again.rows == second.rows
