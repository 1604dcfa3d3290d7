"""DensePPOTrainer step by step: where rewards land, what is left out, what an ungraded completion does (nothing)."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, set_seed

from envs.pacman import Corridor, play
from recipes.data.completions import Rollout
from recipes.data.training_data import tokenized_prompts
from recipes.evaluation.held_out import describe, evaluate_policy
from recipes.models.critic import NoValue, ValueFunction
from recipes.models.tiny import scratch_model
from recipes.records.jsonl import read_jsonl
from recipes.records.log import RunLog
from recipes.sampling.generate import Decoding
from recipes.sampling.sampler import Sampler
from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.metrics import completion_metrics
from recipes.trainers.optimizer_steps import Training
from recipes.trainers.own_ppo import PPOConfig, _without_dropout
from recipes.trainers.reinforce import ReinforceTrainer
from recipes.trainers.sequence_ppo import SequencePPOTrainer
from rewards.channel import ChannelResult
from rewards.compose import Reward
from rewards.pacman_moves import Moves

SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


class Sometimes(Moves):
    """`Moves`, but every third completion cannot be graded."""

    async def score(self, problems, completions):
        results = await super().score(problems, completions)
        return [None if i % 3 == 2 else result for i, result in enumerate(results)]


class Never(Moves):
    async def score(self, problems, completions):
        return [None for _ in completions]


class Shy(Moves):
    """`Moves`, but of every third completion there is nothing to say."""

    async def score(self, problems, completions):
        results = await super().score(problems, completions)
        return [ChannelResult(0.0, silent=True) if i % 3 == 2 else result for i, result in enumerate(results)]


class Short(Moves):
    """A part of the reward on every token."""

    pays_outside_code = True

    def _score(self, pellets, moves):
        return ChannelResult(-0.1 * len(moves))


class TwoCorridors(Corridor):
    def problems(self, split):
        return [*super().problems(split), *Corridor(self.cells, seed=1).problems(split)]


def trainer(folder, kind=DensePPOTrainer, placement="dense", channel=Moves, value=None, length=5, **settings):
    torch.manual_seed(0)
    policy, tokenizer = scratch_model("<>C?", **SHAPE)
    set_seed(0)
    task = TwoCorridors(length)
    fields = {field.name for field in dataclasses.fields(PPOConfig)}
    knobs = {"samples_per_prompt": 6, **{k: settings.pop(k) for k in list(settings) if k not in fields}}
    args = {
        "output_dir": str(folder),
        "total_episodes": 4,
        "per_device_train_batch_size": 2,
        "response_length": length,
        "temperature": 1.0,
        "learning_rate": 0.01,
        "kl_coef": 0.0,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "gradient_checkpointing": False,
        "logging_steps": 1,
    }
    return kind(
        model=policy,
        args=PPOConfig(**{**args, **settings}),
        processing_class=tokenizer,
        train_dataset=tokenized_prompts(task, tokenizer),
        task=task,
        reward=Reward({"moves": channel(), "short": Short()}, {"moves": 2.0, "short": 1.0}, placement),
        value=value or ValueFunction(SHAPE["hidden_size"]),
        run_log=RunLog(folder, 4),
        **knobs,
    )


def experience(t):
    e = t.rollout(next(t.prompts))
    t.score(e)
    t.logps_and_values(e)
    return e


def test_dense_and_sparse_pay_the_same(tmp_path):
    t = trainer(tmp_path)
    e = experience(t)
    dense = t.token_rewards(e)
    t.reward.placement = "sparse"
    sparse = t.token_rewards(e)
    assert torch.allclose(dense.sum(1), e.scores, atol=1e-6)
    assert torch.allclose(sparse.sum(1), e.scores, atol=1e-6)
    assert (dense[~e.mask] == 0).all()
    assert ((sparse != 0).sum(1) <= 1).all()


def test_each_move_is_paid_for_itself(tmp_path):
    t = trainer(tmp_path)
    e = experience(t)
    rewards = t.token_rewards(e)
    for row, (problem, answer) in enumerate(zip(e.problems, e.answers, strict=True)):
        earned = play(problem.reference, answer.text)
        each = -0.1 * len(answer.text) / len(answer.text) if answer.text else 0.0
        for token, (start, end) in enumerate(answer.offsets):
            if end > start:
                assert rewards[row, token].item() == pytest.approx(2 * earned[start] + each, abs=1e-6)


def test_kl_and_the_penalty_for_a_missing_end_are_on_their_tokens(tmp_path):
    t = trainer(tmp_path, kl_coef=0.5, missing_eos_penalty=3.0, length=2)
    t.task.complete = lambda answer: False
    e = experience(t)
    e.kl = torch.rand(e.mask.shape) * e.mask
    plain = t.token_rewards(e) + 0.5 * e.kl
    for row, (grade, ids) in enumerate(zip(e.grades, e.completions, strict=True)):
        wanted = grade.token_rewards
        if ids[-1] != 1:
            wanted = [*wanted[:-1], wanted[-1] - 3.0]
        assert plain[row, : len(ids)].tolist() == pytest.approx(wanted, abs=1e-6)


def test_what_was_not_graded_changes_nothing(tmp_path):
    """The update with every third completion ungraded is that of a step without them."""
    t = trainer(tmp_path, channel=Sometimes, num_ppo_epochs=1)
    e = experience(t)
    e.rewards = t.token_rewards(e)
    e.advantages, e.returns = t.advantages(e)
    ungraded = [i for i, g in enumerate(e.grades) if g is None]
    assert ungraded == [2, 5, 8, 11]
    assert not e.mask[ungraded].any() and not e.states[ungraded].any()
    assert (e.advantages[ungraded] == 0).all()
    rows = list(range(len(e.completions)))
    with_them = gradients(t, e, rows)
    without = gradients(t, e, [i for i in rows if i not in ungraded])
    for a, b in zip(with_them, without, strict=True):
        assert torch.allclose(a, b, atol=1e-7)


def gradients(t, e, rows):
    t.model.zero_grad()
    t.steps[0].step = lambda: None  # leaves them where they are
    t.optimizer_step(e, rows, Training(t.steps[0], policy=True, critic=True))
    return [p.grad.clone() for p in t.model.parameters() if p.grad is not None]


def test_where_a_channel_is_silent_is_left_out_of_its_mean(tmp_path):
    t = trainer(tmp_path, channel=Shy)
    e = experience(t)
    heard = [grade.results["moves"].score for grade in e.grades if not grade.results["moves"].silent]
    assert len(heard) == 8 and sum(heard)
    rollout = Rollout(e.problems, e.answers, e.grades)
    metrics = completion_metrics(rollout, ["moves", "short"], torch.device("cpu"))
    assert metrics["scores/moves"] == pytest.approx(sum(heard) / 8)
    with asyncio.Runner() as runner:
        results = evaluate_policy(
            t.policy, t.processing_class, t.task, t.reward, runner, Decoding(5), samples=6, split="train"
        )
    played = [play(t.task.problems("train")[i // 6].reference, row["completion"]) for i, row in enumerate(results.rows)]
    heard = [sum(earned) for i, earned in enumerate(played) if i % 3 != 2]
    assert results.summary["scores"]["moves"] == pytest.approx(sum(heard) / len(heard))


def test_an_evaluation_of_more_samples_than_rows_draws_them_in_parts(tmp_path):
    """And says how many problems pass@k is of, where an answer to one of them has no grade."""
    t = trainer(tmp_path)
    asked = []
    sample = Sampler.__call__
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            Sampler, "__call__", lambda s, p, prompts, n, *rest: asked.append(n) or sample(s, p, prompts, n, *rest)
        )
        results = evaluate_policy(
            t.policy, t.processing_class, t.task, t.reward, runner, Decoding(5), 5, split="train", rows_at_once=2
        )
    problems = t.task.problems("train")
    assert asked == [2, 2, 1] * len(problems)
    assert [row["task_id"] for row in results.rows] == [problem.id for problem in problems for _ in range(5)]
    assert [row["sample"] for row in results.rows] == list(range(5)) * len(problems)
    share = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}
    part = {"problems": 10, "judged": 8, "ungraded": 2, "pass@k": share}
    assert "(8 of 10 problems, " in describe(results.summary | part)
    assert "(10 problems, " in describe(results.summary | part | {"judged": 10, "ungraded": 0})


def test_a_step_without_a_grade_is_no_step(tmp_path):
    t = trainer(tmp_path, channel=Never)
    before = [p.clone() for p in t.model.parameters()]
    t.train()
    assert all(torch.equal(a, b) for a, b in zip(before, t.model.parameters(), strict=True))
    rows = read_jsonl(tmp_path / "metrics.jsonl")
    assert [row["ungraded"] for row in rows] == [12, 12]
    assert not any("loss/policy_avg" in row for row in rows)


def test_a_mini_batch_without_a_grade_is_left_out(tmp_path):
    class FirstOnly(Moves):
        async def score(self, problems, completions):
            results = await super().score(problems, completions)
            return [results[0], *(None for _ in results[1:])]

    t = trainer(tmp_path, channel=FirstOnly, num_mini_batches=2)
    t.train()
    assert all(p.isfinite().all() for p in t.model.parameters())


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
def test_warm_up_trains_the_critic_alone(tmp_path, shared):
    backbone = None if shared else scratch_model("<>C?", **SHAPE)[0].model
    value = ValueFunction(SHAPE["hidden_size"], backbone)
    t = trainer(tmp_path, value=value, value_warmup_updates=1, total_episodes=2)
    before = {n: p.clone() for n, p in t.model.named_parameters()}
    t.train()
    moved = {n for n, p in t.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved and not any(n.startswith("policy.") for n in moved)
    t = trainer(tmp_path, value=ValueFunction(SHAPE["hidden_size"], backbone), total_episodes=4, value_warmup_updates=1)
    before = {n: p.clone() for n, p in t.model.named_parameters()}
    t.train()
    assert any(n.startswith("policy.") for n, p in t.model.named_parameters() if not torch.equal(p, before[n]))


def test_the_critic_has_a_learning_rate_of_its_own(tmp_path):
    t = trainer(tmp_path, value_learning_rate=0.5)
    policy, critic = t.optimizer.param_groups
    assert (policy["lr"], critic["lr"]) == (0.01, 0.5)
    assert len(critic["params"]) == 1


@pytest.mark.parametrize("baseline", ["none", "batch", "group"])
def test_reinforce_subtracts_its_baseline(tmp_path, baseline):
    t = trainer(tmp_path, ReinforceTrainer, value=NoValue(), baseline=baseline, num_ppo_epochs=1)
    e = experience(t)
    e.rewards = t.token_rewards(e)
    advantages, returns = t.advantages(e)
    assert returns[:, 0].tolist() == pytest.approx(e.rewards.sum(1).tolist(), abs=1e-6)
    lengths = e.mask.sum(1).tolist()
    assert len(set(lengths)) > 1  # some end before others
    for row, length in enumerate(lengths):
        group = range(12) if baseline == "batch" else range(row // 6 * 6, row // 6 * 6 + 6)
        mean = 0.0
        for place in range(length):
            others = [returns[i, place].item() for i in group if i != row and lengths[i] > place]
            mean = mean if not others else sum(others) / len(others)
            wanted = returns[row, place].item() - (0.0 if baseline == "none" else mean)
            assert advantages[row, place].item() == pytest.approx(wanted, abs=1e-5)
        assert not advantages[row, length:].any()


def test_sequence_ratio_is_one_ratio_a_completion(tmp_path):
    t = trainer(tmp_path, SequencePPOTrainer, value=NoValue())
    e = experience(t)
    e.rewards = t.token_rewards(e)
    e.advantages, _ = t.advantages(e)
    assert e.advantages[:, 0].mean().item() == pytest.approx(0, abs=1e-6)
    shift = 0.05
    loss, results = t.policy_loss(e.logps + shift, e)
    ratios = torch.exp(shift * e.mask.sum(1))
    a = e.advantages[:, 0]
    wanted = torch.max(-a * ratios, -a * ratios.clamp(0.8, 1.2)).sum()
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-4)
    assert results["val/ratio"].item() == pytest.approx(ratios.sum().item(), rel=1e-4)
    assert t.units(e) == 12
    tokens = e.mask.sum()
    _, statistics = t.losses(e, True, False, t.units(e), tokens, e.states.sum())
    _, entropy, _ = t.forward(e, True, False, with_entropy=True)
    assert statistics["policy/entropy_avg"].item() == pytest.approx((entropy * e.mask).sum().item() / tokens.item())


@pytest.mark.parametrize("architecture", ["starcoder2", "gpt_bigcode", "gpt2"])
def test_no_architecture_keeps_its_dropout(architecture):
    """Some have it as modules, others as rates that their functions read."""
    rates = dict.fromkeys(("attention_dropout", "residual_dropout", "embedding_dropout"), 0.2)
    shape = SHAPE | {"vocab_size": 50, "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 0}
    policy = AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **shape, **rates)).train()
    ids = torch.arange(1, 20)[None]

    def logits() -> torch.Tensor:
        return policy(input_ids=ids, use_cache=False).logits

    assert not torch.equal(logits(), logits())
    _without_dropout(policy)
    assert torch.equal(logits(), logits())
