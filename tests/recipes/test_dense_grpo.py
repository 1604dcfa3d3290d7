"""The trainer's own steps against the plain ones they replace."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM
from trl import GRPOConfig

from envs.basics import Basics
from envs.task import Problem
from recipes.data.training_data import prompt_dataset
from recipes.records.log import RunLog
from recipes.sampling.group_batch import GroupRollout, degenerate_groups, rewards_of
from recipes.trainers.advantages import group_relative, token_shaping
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from recipes.trainers.group_advantages import GroupAdvantages
from recipes.trainers.log_probs import packed_logps, token_logps
from recipes.trainers.micro_batches import loss_of_nothing
from recipes.trainers.packing import Rows
from rewards.channel import ChannelResult, Completion, Span
from rewards.compose import Grade, Reward
from rewards.form import Form

NAN = float("nan")


def batch(seed: int = 0):
    """Two prompts of different length, three completions each, one of them empty; prompts padded left."""
    g = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(3, 900, (n,), generator=g).tolist() for n in (5, 3)]
    lengths, width = [4, 1, 6, 3, 0, 6], 6
    ids, mask = [], []
    for row, n in enumerate(lengths):
        prompt = prompts[row // 3]
        pad = 5 - len(prompt)
        completion = torch.randint(3, 900, (n,), generator=g).tolist()
        ids.append([2] * pad + prompt + completion + [2] * (width - n))
        mask.append([0] * pad + [1] * (len(prompt) + n) + [0] * (width - n))
    return torch.tensor(ids), torch.tensor(mask), width


def plain(model, ids, mask, width):
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, :-1][:, -width:]
    return token_logps(logits, ids[:, -width:], 0.7, "loss")


def test_packed_groups_give_the_padded_rows_numbers_and_gradients(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    ids, mask, width = batch()
    real, rows = mask[:, -width:].bool(), Rows.of_padded(ids, mask, width, 4096)
    results = []
    for function in (
        lambda: plain(model, ids, mask, width),
        lambda: packed_logps(model, rows, 0.7, "loss"),
        lambda: packed_logps(model, rows, 0.7, "loss", logits_at_once=4),
    ):
        model.zero_grad()
        logps, entropy = function()
        ((logps * real * torch.arange(width)).sum() + (entropy * real).sum()).backward()
        results.append((logps[real], entropy[real], [p.grad.clone() for p in model.parameters()]))
    (logps, entropy, grads), *others = results
    for packed, packed_entropy, packed_grads in others:
        assert torch.allclose(logps, packed, atol=1e-5)
        assert torch.allclose(entropy, packed_entropy, atol=1e-4)
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(grads, packed_grads, strict=True))
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight  # the head is back, tied


def test_padding_is_zero_and_groups_are_found_whatever_the_padding():
    ids, mask, width = batch()
    assert Rows.of_padded(ids, mask, width, 4096).by_prompt() == [[0, 1, 2], [3, 4, 5]]


def test_a_row_without_completions_has_no_log_probabilities_and_a_gradient_of_zero(tiny_model):
    """What fills up a process that has less to learn than another."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    logps, _ = packed_logps(model, Rows([[3, 4, 5]], [[]], 2, torch.device("cpu")), 1.0)
    logps.sum().backward()
    assert logps.tolist() == [[0.0, 0.0]]
    assert not any(p.grad is not None and p.grad.any() for p in model.parameters())


def test_degenerate_groups():
    rewards = torch.tensor([[1, 1, 1], [0, 1, 0], [NAN, 1, 1], [NAN, 1, 0], [NAN, NAN, 1], [NAN] * 3])
    assert degenerate_groups(rewards).tolist() == [True, False, True, False, True, True]


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_advantages_are_relative_to_the_graded_of_the_group(scale):
    rewards = torch.tensor([[1.0, 2.0, 3.0, NAN], [5.0, NAN, NAN, NAN], [0.0, 0.0, 1.0, 1.0]])
    graded = rewards[~rewards.isnan()]
    deviation = {"none": [1.0] * 3, "group": [1.0 + 1e-4, 1.0, 1 / 3**0.5 + 1e-4], "batch": [graded.std() + 1e-4] * 3}
    centred = [[-1.0, 0.0, 1.0, 0.0], [0.0] * 4, [-0.5, -0.5, 0.5, 0.5]]
    wanted = torch.tensor(centred) / torch.tensor(deviation[scale])[:, None]
    assert torch.allclose(group_relative(rewards, scale), wanted, atol=1e-6)


def test_a_tokens_own_reward_is_relative_to_the_mean_over_the_groups_tokens():
    own = torch.tensor([[3.0, 1.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    lengths, rewards = torch.tensor([2, 1, 3, 2]), torch.tensor([[4.0, 2.0], [3.0, NAN]])
    shaping = token_shaping(own, lengths, rewards)
    assert shaping[0, :2].tolist() == [1.0, -1.0] and shaping[1, 0] == 0.0  # 6 over 3 tokens
    assert shaping[2].tolist() == [0.0, 0.0, 0.0]  # 3 over 3 tokens: those of the completion without a grade are none


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_what_tokens_earn_is_not_divided_by_what_answers_earn(scale):
    """Four answers of which one lost 0.01: their deviation is next to nothing, and what its tokens earned is not."""
    with pytest.raises(ValueError, match=f"shaping=1 with scale='{scale}'"):
        GroupAdvantages(4, longest=5, scale=scale, shaping=1.0, turns=1, discount=1.0)
    GroupAdvantages(4, longest=5, scale=scale, shaping=0.0, turns=1, discount=1.0)


def test_what_a_fence_earns_is_no_reason_to_end_early():
    """The closing fence of an answer earns the same whenever it comes."""
    text = "ab```"
    completion = Completion(text, list(range(5)), [(i, i + 1) for i in range(5)], (0, 2))
    grades = [
        Grade({"form": ChannelResult(sum(r))}, {"form": r}, {"form": 1.0}, form=[0.0] * 4 + [1.0])
        for r in ([0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, -0.25, 0.0, 1.0])
    ]
    advantages = GroupAdvantages(2, longest=5, scale="none", shaping=1.0, turns=1, discount=1.0)
    rollout = GroupRollout([], [completion] * 2, list(grades))
    rewards = rewards_of(grades).view(1, 2)
    got = advantages(rollout, advantages.returns_by_turn(rollout, rewards))
    mean = -0.25 / 10  # of the tokens' own rewards
    assert got[0].tolist() == pytest.approx([0.125 - mean] * 5)
    assert got[1].tolist() == pytest.approx([-0.125 + own - mean for own in (0.0, 0.0, -0.25, 0.0, 0.0)])


class Everywhere:
    """Pays and charges characters of the code and of the fences alike."""

    pays_outside_code = True

    async def score(self, problems, completions):
        spans = (Span(4, 10, 2.0), Span(10, 12, 1.0), Span(12, 15, -0.5))  # a fence, code, code
        return [ChannelResult(2.5, spans) for _ in completions]


@pytest.mark.parametrize("placement", ["dense", "pointed", "sparse", "uniform"])
def test_what_form_pays_outside_the_code_is_no_tokens_own(placement):
    """Where tokens are told apart; a token with the last newline of the code and the fence lies outside."""
    text = "```python\nx = 1\n```"
    edges = [*((i, i + 1) for i in range(15)), (15, 19)]
    answer = Completion(text, list(range(16)), edges, (10, 16), closed=True)
    reward = Reward({"form": Form(), "more": Everywhere()}, {"form": 1.0, "more": 2.0}, placement)
    [grade] = asyncio.run(reward.grade([Problem("t/x", "")], [answer]))
    assert sum(grade.token_rewards) == pytest.approx(6.0)
    if placement in ("sparse", "uniform"):
        assert grade.own_rewards == grade.token_rewards
        return
    own = [0.0] * 10 + [1.0, 1.0] + [-1 / 3] * 3 + [0.0]
    assert grade.own_rewards == pytest.approx(own)


def test_a_step_that_teaches_nothing_passes_the_scaler_of_fp16():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(loss_of_nothing(model, SimpleNamespace(device="cpu", scaler=None))).backward()
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(loss_of_nothing(model, SimpleNamespace(device="cpu", scaler=scaler))).backward()
    scaler.step(optimizer)
    scaler.update()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert [p.grad is not None for p in model.parameters()].count(True) == 1


def test_old_and_reference_log_probabilities_take_as_many_rows_at_once_as_the_loss():
    seen = []

    def logps(model, ids, mask, width, rows):
        seen.append((len(ids), trainer._written.tolist()))
        return [ids[:, -width:].float()]

    trainer = SimpleNamespace(
        args=SimpleNamespace(per_device_train_batch_size=2),
        _get_per_token_logps_and_entropies=logps,
        _set_written=lambda written: setattr(trainer, "_written", written),
    )
    ids = torch.arange(12).view(4, 3)
    batch = {"prompt_ids": ids, "completion_ids": ids, "prompt_mask": ids > 0, "completion_mask": ids > 0}
    assert DenseGRPOTrainer._logps(trainer, None, batch).tolist() == ids.tolist()
    assert [rows for rows, _ in seen] == [2, 2]
    batch["tool_mask"] = ids % 2
    DenseGRPOTrainer._logps(trainer, None, batch)
    assert [written for _, written in seen[2:]] == [(ids % 2)[:2].tolist(), (ids % 2)[2:].tolist()]


@pytest.mark.parametrize(("lookahead", "delta", "moves"), [(False, None, True), (True, None, False), (True, 9.0, True)])
def test_with_another_sampler_a_ratio_is_bounded_for_a_negative_advantage_too(
    tiny_model, tiny_tokenizer, tmp_path, lookahead, delta, moves
):
    task = Basics()
    trainer = DenseGRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32),
        args=GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=2,
            per_device_train_batch_size=2,
            max_steps=1,
            use_cpu=True,
            bf16=False,
            report_to="none",
            remove_unused_columns=False,
            gradient_checkpointing=False,
            delta=delta,
        ),
        train_dataset=prompt_dataset(task),
        processing_class=tiny_tokenizer,
        task=task,
        reward=Reward({"form": Form()}, {"form": 1.0}, "sparse"),
        run_log=RunLog(tmp_path, 0),
        shaping=0.0,
        lookahead=lookahead,
    )
    ids = torch.arange(3, 11).view(2, 4)
    whole = torch.ones_like(ids)
    batch = {"prompt_ids": ids, "completion_ids": ids + 9, "prompt_mask": whole, "completion_mask": whole}
    batch |= {"advantages": torch.full((2,), -1.0), "num_items_in_batch": torch.tensor(8)}
    batch["old_per_token_logps"] = trainer._logps(trainer.model, batch).detach() - 2.0  # a ratio of 7.4
    trainer.current_gradient_accumulation_steps = 1
    trainer.compute_loss(trainer.model, batch).backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in trainer.model.parameters()) is moves
