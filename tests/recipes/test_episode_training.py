"""Episodes of several turns in the trainers and in evaluations: masks, equality with one turn, metrics, the rival."""

from __future__ import annotations

import asyncio
import itertools
import math
from statistics import fmean

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from envs.basics import Basics
from recipes.data.episodes import (
    Turn,
    joined,
    turns_of,
)
from recipes.data.training_data import prompt_dataset, tokenized_prompts
from recipes.evaluation.episodes import equal_tokens, evaluate_episodes, rival
from recipes.models.critic import NoValue
from recipes.records.jsonl import read_jsonl
from recipes.records.log import RunLog
from recipes.sampling.generate import Decoding
from recipes.trainers.dense_grpo import DenseGRPOTrainer
from recipes.trainers.dense_ppo import DensePPOTrainer
from recipes.trainers.own_ppo import PPOConfig
from recipes.trainers.reinforce import ReinforceTrainer
from recipes.trainers.trl_rollout import EpisodeRollout
from rewards.attribution import TokenBytes
from rewards.channel import ChannelResult
from rewards.compose import Grade
from tests.recipes.scripted_episodes import GROUP, Asks, completion_of, odd, reward, tiny


def grpo(tiny_model, tokenizer, folder, episode, placement, max_steps=2, **more):
    task = Basics()
    torch.manual_seed(0)
    folder.mkdir()
    return DenseGRPOTrainer(
        model=tiny(tiny_model),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=max_steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            num_generations=GROUP,
            max_completion_length=6,
            learning_rate=0.05,
            optim="sgd",
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            logging_steps=1,
            gradient_checkpointing=False,
            loss_type="dapo",
            scale_rewards="none",
            **more,
        ),
        train_dataset=prompt_dataset(task),
        processing_class=tokenizer,
        task=task,
        reward=reward(placement),
        run_log=RunLog(folder, 4),
        episode=episode,
    )


def ppo(tiny_model, tokenizer, folder, episode, placement, kind=DensePPOTrainer, **more):
    task = Basics()
    torch.manual_seed(0)
    folder.mkdir()
    model = tiny(tiny_model)
    return kind(
        model=model,
        args=PPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=2,
            gradient_accumulation_steps=1,
            total_episodes=4,
            response_length=6,
            learning_rate=0.01,
            num_ppo_epochs=1,
            num_mini_batches=1,
            kl_coef=0.1,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            remove_unused_columns=False,
            gradient_checkpointing=False,
        ),
        processing_class=tokenizer,
        train_dataset=tokenized_prompts(task, tokenizer),
        task=task,
        reward=reward(placement),
        value=NoValue(),
        run_log=RunLog(folder, 4),
        samples_per_prompt=GROUP,
        episode=episode,
        **more,
    )


@pytest.mark.parametrize("placement", ["sparse", "dense"])
@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_no_token_of_the_environments_has_a_gradient_in_grpo(tiny_model, tiny_tokenizer, tmp_path, placement, beta):
    """The loss reads logits through each token's log-probability alone, so its gradient there is the logit's."""
    trainer = grpo(tiny_model, tiny_tokenizer, tmp_path / "run", Asks(odd, pay="improvement"), placement, beta=beta)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 2
    batch = trainer._generate_and_score_completions([])
    trainer.rollouts.close()
    shape = batch["completion_ids"].shape
    leaf = (torch.rand(shape) - 3.0).requires_grad_()
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (leaf, torch.rand(shape), None)
    trainer._compute_loss(trainer.model, batch).backward()
    message = (batch["completion_mask"] == 1) & (batch["tool_mask"] == 0)
    assert message.any() and not leaf.grad[message].any() and not leaf.grad[batch["completion_mask"] == 0].any()
    written = (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert (leaf.grad[written] != 0).float().mean() > 0.3
    assert batch["num_items_in_batch"] == written.sum()


@pytest.mark.parametrize(
    ("kind", "placement"), [(DensePPOTrainer, "sparse"), (DensePPOTrainer, "dense"), (ReinforceTrainer, "dense")]
)
def test_no_token_of_the_environments_has_a_gradient_in_ppo(tiny_model, tiny_tokenizer, tmp_path, kind, placement):
    more = {"kind": ReinforceTrainer, "baseline": "group"} if kind is ReinforceTrainer else {}
    episode = Asks(odd, pay="improvement", gamma=0.5)
    trainer = ppo(tiny_model, tiny_tokenizer, tmp_path / "run", episode, placement, **more)
    trainer.model.train()
    e = trainer.rollout(next(trainer.prompts))
    trainer.score(e)
    trainer.logps_and_values(e)
    e.rewards = trainer.token_rewards(e)
    e.advantages, e.returns = trainer.advantages(e)
    trainer.close()
    assert e.reply.any() and not (e.mask & e.reply).any() and not (e.states & e.reply).any()
    for name in ("rewards", "advantages", "returns", "kl", "logps", "ref_logps"):
        assert not getattr(e, name)[e.reply].any(), name
    leaf, values = (torch.rand(e.mask.shape).requires_grad_() for _ in range(2))
    trainer.forward = lambda *a, **k: (e.logps + leaf, torch.zeros_like(leaf), values)
    loss, _ = trainer.losses(e, True, True, e.mask.sum(), e.mask.sum(), e.states.sum())
    loss.backward()
    for gradient in (leaf.grad, values.grad):
        assert not gradient[e.reply].any() and gradient[e.mask].any()
    for row, grade in enumerate(e.grades):
        assert (e.rewards[row] + trainer.kl_coefficient.value * e.kl[row]).sum().item() == pytest.approx(
            grade.total, abs=1e-5
        )


@pytest.mark.parametrize("placement", ["sparse", "dense"])
@pytest.mark.parametrize("kind", ["grpo", "ppo", "reinforce"])
def test_episodes_that_all_end_in_one_turn_make_the_update_of_today(
    tiny_model, tiny_tokenizer, tmp_path, kind, placement
):
    """Bit for bit: no episode, an episode of at most one turn, and one whose first answers leave nothing to repair."""
    weights = []
    for name, episode in (("none", None), ("one", Asks(lambda ids: True, turns=1)), ("fine", Asks(lambda ids: False))):
        if kind == "grpo":
            trainer = grpo(tiny_model, tiny_tokenizer, tmp_path / name, episode, placement)
        else:
            more = {"kind": ReinforceTrainer, "baseline": "group"} if kind == "reinforce" else {}
            trainer = ppo(tiny_model, tiny_tokenizer, tmp_path / name, episode, placement, **more)
        trainer.train()
        weights.append([p.detach().clone() for p in trainer.policy.parameters()])
    before = list(tiny(tiny_model).parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, weights[0], strict=True))
    for other in weights[1:]:
        assert all(torch.equal(a, b) for a, b in zip(weights[0], other, strict=True))


@pytest.mark.parametrize("kind", ["grpo", "ppo", "reinforce"])
def test_metrics_and_rows_tell_of_turns(tiny_model, tiny_tokenizer, tmp_path, kind):
    episode = Asks(odd, turns=3, pay="improvement", gamma=0.9)
    if kind == "grpo":
        trainer = grpo(tiny_model, tiny_tokenizer, tmp_path / "run", episode, "dense")
    else:
        more = {"kind": ReinforceTrainer, "baseline": "batch"} if kind == "reinforce" else {}
        trainer = ppo(tiny_model, tiny_tokenizer, tmp_path / "run", episode, "dense", **more)
    trainer.train()
    metrics, rows = (read_jsonl(tmp_path / "run" / f"{name}.jsonl") for name in ("metrics", "completions"))
    assert 1 < metrics[0]["turns"] < 3 and {"turn_1/pass_rate", "turn_3/tokens", "turn_2/repeated"} <= metrics[0].keys()
    for _, own in itertools.groupby(rows, lambda row: (row["step"], row["episode"])):
        turns = list(own)
        assert [row["turn"] for row in turns] == [*range(1, turns[0]["turns"] + 1)]
        assert sum(row["paid"] for row in turns) == pytest.approx(turns[-1]["reward"])


def test_the_same_episodes_run_under_trls_own_trainer(tiny_model, tiny_tokenizer, tmp_path):
    task = Basics()
    rollout = EpisodeRollout(task, reward("sparse"), Asks(odd), tiny_tokenizer, Decoding(6))
    seen = []

    class Stock(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            seen.append({name: inputs[name] for name in ("completion_mask", "tool_mask", "advantages")})
            return super()._compute_loss(model, inputs)

    args = GRPOConfig(
        output_dir=str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=8,
        num_generations=GROUP,
        max_completion_length=6,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        gradient_checkpointing=False,
    )
    dataset = prompt_dataset(task)
    model = tiny(tiny_model)
    trainer = Stock(
        model, rollout.reward, args, train_dataset=dataset, processing_class=tiny_tokenizer, rollout_func=rollout
    )
    trainer.train()
    rollout.close()
    (batch,) = seen
    written = batch["completion_mask"] * batch["tool_mask"]
    assert 0 < written.sum() < batch["completion_mask"].sum() and batch["advantages"].any()


# evaluation --------------------------------------------------------------------------------------------------------


def test_evaluation_reports_each_turn_and_a_rival_of_as_many_tokens(tiny_model, tiny_tokenizer):
    class Few(Basics):
        def problems(self, split):
            return super().problems(split)[:3]

    model = tiny(tiny_model).eval()
    with asyncio.Runner() as runner:
        result = evaluate_episodes(
            model, tiny_tokenizer, Few(), reward(), runner, Decoding(6), 4, Asks(odd), rows_at_once=8
        )
    summary = result.summary
    assert [turn["turn"] for turn in summary["turns"]] == [1, 2]
    assert summary["turns"][0]["share"] == 1.0 and 0 < summary["turns"][1]["share"] < 1
    assert summary["turns"][1]["pass@1"]["value"] == summary["pass@k"]["1"]["value"]
    assert 1 < summary["equal_tokens"]["samples"] <= 2 and summary["reply_tokens"] > 0
    assert [row["task_id"] for row in result.rows] == [p.id for p in Few().problems("test") for _ in range(4)]
    assert all(row["tokens"] == sum(turn["tokens"] for turn in row["turns"]) for row in result.rows)
    assert all(row["finished"] is row["turns"][-1]["finished"] for row in result.rows)
    assert not all(row["finished"] for row in result.rows)  # cut at six tokens, so not imitated


def test_the_rival_is_what_sampling_would_give():
    """Against a count of all subsets: two of four answers, kept by the shown tests."""
    token_bytes = TokenBytesOf()
    fine, passed = [True, False, False, True], [False, True, False, True]
    rows, grades = [], []
    for f, p in zip(fine, passed, strict=True):
        first = Turn(completion_of(4), (), "" if f else "r", () if f else [7])
        rows.append(joined([first] if f else [first, Turn(completion_of(4 + 4))], token_bytes))
        result = {"a": ChannelResult(0.0, passed=p)}
        grades.append([Grade(result, {"a": []}, {"a": 1.0})] * len(turns_of(rows[-1])))
    got = equal_tokens(rows, grades, 4)
    counts = [1, 3, 3, 1]  # answers of 4 tokens for 4, 12, 12, 4 tokens
    assert got["samples"] == 2.0
    kept, best = [], []
    for own, count in enumerate(counts):
        orders = list(itertools.permutations([i for i in range(4) if i != own], count))
        chosen = [next((i for i in order if fine[i]), order[0]) for order in orders]
        kept.append(fmean(passed[i] for i in chosen))
        best.append(fmean(any(passed[i] for i in order) for order in orders))
    assert got["pass@1"]["value"] == pytest.approx(fmean(kept))
    assert got["best"]["value"] == pytest.approx(fmean(best))
    assert equal_tokens(rows[:2], grades[:2], 2) is None


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("episodes", [3, 4, 8])
def test_the_rivals_figure_is_right_on_average(rate, episodes):
    """Over all outcomes of a policy that passes with this probability and answers as long again where it fails: it buys
    2 - rate answers."""
    wanted = rate + (1 - rate) * (1 - rate) * rate  # the second answer counts with probability 1 - rate
    mean = 0.0
    for fine in itertools.product([True, False], repeat=episodes):
        share = math.prod(rate if each else 1 - rate for each in fine)
        mean += share * rival(fine, fine, [10] * episodes, [10 if each else 20 for each in fine])[1]
    assert mean == pytest.approx(wanted)


def test_an_empty_first_turn_costs_nothing_to_buy():
    assert rival([True, False, False], [True, False, False], [0, 0, 0], [0, 5, 5])[0] == pytest.approx(5 / 3)


class TokenBytesOf(TokenBytes):
    def __init__(self):
        self._cache = {5: b"x", 7: b"y"}
