"""The arithmetic of PPO against the formulas written out."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recipes.trainers.advantages import KLCoefficient, gae, kl_per_token, masked_mean, whiten
from recipes.trainers.metrics import explained_variance


@given(st.integers(1, 4), st.integers(1, 9), st.floats(0, 1), st.floats(0, 1), st.integers(0, 10_000))
def test_gae_is_the_double_sum(rows, width, gamma, lam, seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    mask = torch.arange(width) < lengths[:, None]
    rewards, values = (torch.randn(rows, width, generator=generator, dtype=torch.float64) * mask for _ in range(2))
    advantages, returns = gae(rewards, values, gamma, lam)
    for b in range(rows):
        for t in range(int(lengths[b])):
            wanted = 0.0
            for k in range(t, int(lengths[b])):
                after = values[b, k + 1] if k + 1 < lengths[b] else 0.0
                wanted += (gamma * lam) ** (k - t) * (rewards[b, k] + gamma * after - values[b, k])
            assert float(advantages[b, t]) == pytest.approx(float(wanted), abs=1e-9)
    assert torch.allclose(returns, advantages + values)
    assert (advantages[~mask] == 0).all()


def test_lambda_one_makes_returns_the_discounted_sums():
    rewards = torch.tensor([[1.0, 2.0, 4.0]])
    _, returns = gae(rewards, torch.randn(1, 3), 0.5, 1.0)
    assert torch.allclose(returns, torch.tensor([[3.0, 4.0, 4.0]]))


def test_kl_estimators_average_to_the_kl():
    torch.manual_seed(0)
    policy, reference = torch.randn(2, 7).log_softmax(-1)
    draws = torch.multinomial(policy.exp(), 200_000, replacement=True)
    wanted = (policy.exp() * (policy - reference)).sum().item()
    for estimator in ("k1", "k3"):
        results = kl_per_token(policy[draws], reference[draws], estimator)
        assert results.mean().item() == pytest.approx(wanted, rel=0.02)
    assert (results >= 0).all()  # k3


@pytest.mark.parametrize("distance", [0.1, 0.5, 2.0])
def test_as_a_reward_k1_alone_has_the_gradient_of_the_kl(distance):
    """Exact sums over eight tokens: what a policy gradient makes of the penalty, and the KL's own gradient."""
    torch.manual_seed(0)
    reference = torch.randn(8, dtype=torch.float64).log_softmax(-1)
    logits = (reference + distance * torch.randn(8, dtype=torch.float64)).requires_grad_()

    def gradient(of):
        return torch.autograd.grad(of, logits, retain_graph=True)[0]

    policy = logits.log_softmax(-1)
    kl, reverse = ((to.exp() * (to - away)).sum() for to, away in ((policy, reference), (reference, policy)))
    chances = policy.exp().detach()
    k1, k3 = (
        gradient((chances * kl_per_token(policy.detach(), reference, estimator) * policy).sum())
        for estimator in ("k1", "k3")
    )
    assert torch.allclose(k1, gradient(kl))
    assert torch.allclose(k3, gradient(kl) - gradient(reverse))


def test_whitening_sees_the_mask_alone():
    values, mask = torch.tensor([[1.0, 3.0, 99.0], [5.0, 99.0, 99.0]]), torch.tensor([[1, 1, 0], [1, 0, 0]]).bool()
    white = whiten(values, mask)[mask]
    assert white.mean().item() == pytest.approx(0, abs=1e-6)
    assert white.var().item() == pytest.approx(1, abs=1e-5)
    kept = whiten(values, mask, shift_mean=False)
    assert masked_mean(kept, mask).item() == pytest.approx(3, abs=1e-5)
    one = torch.tensor([[True, False, False], [False] * 3])
    assert torch.equal(whiten(values, one), values)  # one value has no variance


def test_explained_variance():
    returns, mask = torch.tensor([[1.0, 2.0, 3.0, 50.0]]), torch.tensor([[True, True, True, False]])
    assert explained_variance(returns.clone(), returns, mask).item() == pytest.approx(1)
    assert explained_variance(torch.full_like(returns, 7.0), returns, mask).item() == pytest.approx(0)
    assert explained_variance(-returns, returns, mask).item() < 0


def test_adaptive_kl_moves_towards_its_target_and_a_fixed_one_does_not():
    fixed, adaptive = KLCoefficient(0.1), KLCoefficient(0.1, target=2.0, horizon=1000)
    for coefficient in (fixed, adaptive):
        coefficient.update(kl=20.0, completions=100)
    assert fixed.value == 0.1
    assert adaptive.value == pytest.approx(0.1 * 1.02)  # the error is clipped at 20 %
    adaptive.update(kl=1.9, completions=1000)
    assert adaptive.value == pytest.approx(0.102 * 0.95)
    assert math.isfinite(adaptive.value)
