"""GRPO's rollouts: TRL's order of prompts, grading beside sampling, refilled groups, batches ahead of time."""

from __future__ import annotations

import itertools
import os
import signal
import threading

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl.trainer.utils import RepeatSampler

from envs.basics import Basics
from recipes.cli import memory_use, stopping
from recipes.cli.errors import UserError
from recipes.data.completions import AnswerComplete, sandbox_seconds
from recipes.data.prompt_order import PromptRows
from recipes.data.training_data import demonstration, prompt_dataset
from recipes.sampling.background_grading import Grader
from recipes.sampling.generate import Decoding, cut
from recipes.sampling.group_batch import degenerate_groups, rewards_of
from recipes.sampling.group_rollouts import Rollouts, RolloutSettings
from recipes.sampling.prefix import PrefixSettings, ReferencePrefixes
from recipes.sampling.sampler import Sampler
from recipes.trainers.metrics import group_metrics, metrics_from_prompt, prefix_metrics
from rewards.attribution import TokenBytes
from rewards.channel import ChannelResult
from rewards.compose import Reward

GROUP = 4


class ByProblem:
    """Pays what `paid` says of (problem id, completion)."""

    pays_outside_code = True

    def __init__(self, paid):
        self.paid, self.asked = paid, []

    async def score(self, problems, completions):
        self.asked.append(len(problems))
        message = [self.paid(p.id, c) for p, c in zip(problems, completions, strict=True)]
        return [ChannelResult(float(r), passed=r > 0, detail={"seconds": 0.5}) for r in message]


def rollouts(tiny_model, tokenizer, channel, chunk=2, rows=8, sampler=None, prefixes=None, stream=None, **settings):
    task = Basics()
    dataset = prompt_dataset(task)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    made = Rollouts(
        RolloutSettings(rows, GROUP, **settings),
        dataset,
        stream(dataset, rows // GROUP, GROUP) if stream else PromptRows(dataset, rows // GROUP, GROUP, seed=0),
        task,
        {p.id: p for p in task.problems("train")},
        tokenizer,
        {},
        sampler or Sampler(Decoding(6), [2], 2),
        Grader(Reward({"channel": channel}, {"channel": 1.0}), chunk),
        seed=0,
        prefixes=prefixes(task, tokenizer) if prefixes else None,
    )
    return made, model


def parity(name, completion):
    return sum(completion.token_ids) % 2


def test_the_stream_is_trls_order_shared_out_and_drawn_in_any_portions():
    dataset = Dataset.from_dict({"x": list(range(7))})
    sampler = RepeatSampler(dataset, mini_repeat_count=2, batch_size=3, seed=5)
    want = [list(sampler) for _ in range(3)]  # three epochs of two batches of six rows
    flat = list(itertools.chain(*want))
    stream = PromptRows(dataset, 3, 2, seed=5)
    assert [row for portion in (6, 1, 4, 2, 23) for row in stream.draw(portion)] == flat
    stream.seek(11)
    assert stream.position == 11 and stream.draw(3) == flat[11:14]

    halves = [PromptRows(dataset, 3, 2, seed=5, rank=rank, world=2) for rank in (0, 1)]
    first = halves[0].draw(5) + halves[0].draw(4)
    second = halves[1].draw(9)
    assert [first[i : i + 3] + second[i : i + 3] for i in (0, 3, 6)] == [flat[i : i + 6] for i in (0, 6, 12)]
    with pytest.raises(UserError, match=r"7 training problems do not make a step of recipe.prompts_per_step=8"):
        PromptRows(dataset, 8, 2, seed=5)


def test_answers_are_graded_while_others_are_still_sampled(tiny_model, tiny_tokenizer):
    graded = threading.Event()

    class Waiting(Sampler):
        """Ends half of its rows, then waits for a grade before it ends the others."""

        def __call__(self, policy, prompts, num_samples, generator=None, ended=None, begun=None):
            for place in range(len(prompts) * num_samples):
                assert place < 4 or graded.wait(60), "nothing was graded before the last answer"
                ended(place, [5 + place, 2], [-1.0, -1.0])

    def paid(name, completion):
        graded.set()
        return parity(name, completion)

    made, model = rollouts(tiny_model, tiny_tokenizer, ByProblem(paid), sampler=Waiting(Decoding(6), [2], 2))
    rollout = made.next(model)
    assert [g.total for g in rollout.grades] == [parity("", c) for c in rollout.completions]
    made.close()


@pytest.mark.parametrize("chunk", [0, 1, 3, 8])
def test_grades_come_in_order_whatever_the_chunk(tiny_model, tiny_tokenizer, chunk):
    channel = ByProblem(lambda name, completion: completion.token_ids[0])
    made, model = rollouts(tiny_model, tiny_tokenizer, channel, chunk, at_once=4)
    torch.manual_seed(0)
    rollout = made.next(model)
    made.close()
    assert [g.total for g in rollout.grades] == [c.token_ids[0] for c in rollout.completions]
    assert sum(channel.asked) == 8 and max(channel.asked) == (chunk or 8)
    assert [p.id for p in rollout.problems] == [made.dataset[row]["problem_id"] for row in rollout.rows]
    assert set(rollout.clock) == {"seconds/rollout", "seconds/grade", "seconds/grading", "seconds/wait"}
    assert sandbox_seconds(rollout.grades) == [0.5] * 8


def test_a_group_without_a_pass_is_drawn_again_behind_the_beginning_of_its_reference(tiny_model, tiny_tokenizer):
    settings = PrefixSettings(enabled=True, share=0.5, step=0.2, until=1.0)

    def made_with(paid, rollouts_in_all=100):
        return rollouts(
            tiny_model,
            tiny_tokenizer,
            ByProblem(paid),
            sampler=Sampler(Decoding(60), [2], 2),
            prefixes=lambda task, tokenizer: ReferencePrefixes(settings, task, tokenizer, rollouts_in_all, 60),
        )

    passing = []

    def paid(name, completion):  # the first group that is asked for passes, the other only behind its reference
        passing.append(name)
        return name == passing[0] or (completion.given > 0 and completion.token_ids[-1] % 2)

    made, model = made_with(paid)
    rollout = made.next(model)
    groups = [rollout.take(range(4)), rollout.take(range(4, 8))]
    plain, again = sorted(groups, key=lambda group: group.completions[0].given)
    assert [c.given for c in plain.completions] == [0] * 4 and len({c.given for c in again.completions}) == 1
    problem, (first, *_) = again.problems[0], again.completions
    whole = demonstration(made.task.messages(problem), problem.reference)
    assert first.given > 3 and whole.startswith(first.text[: first.offsets[first.given - 1][1]])
    for prompt, completion in zip(again.prompt_ids, again.completions, strict=True):
        assert prompt[-completion.given :] == list(completion.token_ids[: completion.given])
        assert len(completion.token_ids) <= 60 and len(completion.sampled_ids) > 0
    assert [len(logps) for logps in rollout.logps] == [len(c.sampled_ids) for c in rollout.completions]
    assert rollout.graded_samples == 12 and rollout.left_out == (1, 0, 1)
    assert rollout.prefixed == (1.0, 0.5) and rollout.sampling_metrics == {}
    assert prefix_metrics(rollout.prefixed, torch.device("cpu")) == {"prefix/groups": 1.0, "prefix/share": 0.5}
    kept = sum(len(c.sampled_ids) for c in rollout.completions)
    assert kept < rollout.sampled_tokens <= kept + 4 * 60  # those of the four answers that were left out, too
    assert metrics_from_prompt(rollout.from_prompt, torch.device("cpu")) == {
        "from_prompt/reward": 0.5,  # the first group earned 1 each, the second nothing before its reference was shown
        "from_prompt/pass_rate": 0.5,
    }

    state, name = made.state(), passing[0]
    second = made.next(model)
    made.close()
    passing[:] = [name]
    resumed, model = made_with(paid)
    resumed.load_state(state, model)
    third = resumed.next(model)
    resumed.close()
    assert [c.token_ids for c in third.completions] == [c.token_ids for c in second.completions]
    assert any(c.given for c in second.completions)


def test_a_channels_error_reaches_the_trainer(tiny_model, tiny_tokenizer):
    def broken(name, completion):
        raise ZeroDivisionError("a channel's own fault")

    for settings in ({}, {"lookahead_dtype": torch.float32}):
        made, model = rollouts(tiny_model, tiny_tokenizer, ByProblem(broken), **settings)
        with pytest.raises(ZeroDivisionError, match="own fault"):
            made.next(model)
        made.close()


def test_groups_without_a_signal_are_replaced(tiny_model, tiny_tokenizer):
    names = prompt_dataset(Basics())["problem_id"]
    kinds = {name: ("pass", "fail", "both")[n % 3] for n, name in enumerate(names)}

    def paid(name, completion):
        return {"pass": 1, "fail": 0, "both": len(set(completion.token_ids)) * (sum(completion.token_ids) % 5)}[
            kinds[name]
        ]

    torch.manual_seed(0)
    channel = ByProblem(paid)
    made, model = rollouts(tiny_model, tiny_tokenizer, channel, rows=24, refill_rounds=20)
    rollout = made.next(model)
    assert len(rollout.rows) == 24 and not degenerate_groups(rewards_of(rollout.grades).view(-1, GROUP)).any()
    assert all(len(set(rollout.rows[i : i + GROUP])) == 1 for i in range(0, 24, GROUP))
    assert sum(channel.asked) == made.stream.position == GROUP * (6 + rollout.left_out[0])
    assert rollout.from_prompt[1] == rollout.from_prompt[3] == sum(channel.asked) > 24
    over = rollout.left_out
    assert over[1] and over[2] and over[1] + over[2] == over[0]  # all of one kind or the other
    metrics = group_metrics(rollout, rewards_of(rollout.grades).view(-1, GROUP))
    assert metrics["groups_total"] == 6 + over[0] and metrics["groups_skipped"] == over[0]
    assert metrics["groups_all_pass"] >= over[1] and metrics["groups_all_fail"] >= over[2]
    made.close()

    hopeless, model = rollouts(tiny_model, tiny_tokenizer, ByProblem(lambda *_: 0), refill_rounds=2)
    rollout = hopeless.next(model)
    assert len(rollout.rows) == 8 and rollout.left_out == (4, 0, 4)  # two rounds of two groups, then given up
    assert hopeless.stream.position == 24
    hopeless.close()


def test_the_batch_ahead_comes_from_the_policy_before_the_update(tiny_model, tiny_tokenizer):
    made, model = rollouts(tiny_model, tiny_tokenizer, ByProblem(parity), lookahead_dtype=torch.float32)
    policies, batches = [], []
    for step in range(3):
        policies.append(AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval())
        policies[-1].load_state_dict(model.state_dict())
        batches.append(made.next(model, more=step < 2))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))  # the update
    assert made._ahead is None
    made.close()

    def off(policy, batch):
        """Largest difference between the policy's log-probabilities and those that the batch was sampled with."""
        results = 0.0
        for prompt, completion, logps in zip(batch.prompt_ids, batch.completions, batch.logps, strict=True):
            ids = list(completion.token_ids)
            with torch.no_grad():
                logits = policy(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
            own = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).squeeze(1)
            results = max(results, (own - torch.tensor(logps)).abs().max().item())
        return results

    sampled_by = [0, 0, 1]  # the first two from the first policy, then one update behind
    for batch, own in zip(batches, sampled_by, strict=True):
        assert off(policies[own], batch) < 1e-3
        assert all(off(policies[n], batch) > 0.05 for n in range(3) if n != own)
    assert batches[0].rows != batches[1].rows


def test_a_stop_while_the_next_batch_is_begun_loses_none(tiny_model, tiny_tokenizer, monkeypatch):
    made, model = rollouts(tiny_model, tiny_tokenizer, ByProblem(parity), lookahead_dtype=torch.float32)
    made.next(model)
    ahead, settle, stops = made._ahead, memory_use.settle, []

    def stopped_once(name: str) -> None:
        settle(name)
        if made._ahead is not ahead and not stops:
            stops.append(name)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(memory_use, "settle", stopped_once)
    with stopping.listening():
        batch = made.next(model)
    assert stops and batch.rows == ahead.result().rows
    made.close()


def test_closing_ends_what_is_being_sampled(tiny_model, tiny_tokenizer):
    sampler = Sampler(Decoding(100_000), [], 2)
    made, model = rollouts(
        tiny_model, tiny_tokenizer, ByProblem(parity), sampler=sampler, lookahead_dtype=torch.float32
    )
    ahead = made._begin(model)
    made.close()  # returns although 100,000 tokens are asked for
    assert ahead.done() and ahead.exception() is not None
    assert not [t for t in threading.enumerate() if t.name.startswith(("rollout", "grader"))]


def test_answers_that_another_sampler_drew_end_where_ours_do(tiny_tokenizer):
    """At the first end of sequence, or where the task's answer is complete: what is graded is the same block."""
    task, table = Basics(train_size=4), TokenBytes(tiny_tokenizer)
    complete, text = AnswerComplete(task, table), "```python\ndef f():\n    pass\n```\nExample:\n```python\nf()\n```"
    ids = tiny_tokenizer(text, add_special_tokens=False)["input_ids"]
    drawn, logps = cut(ids, [0.5] * len(ids), [tiny_tokenizer.eos_token_id], complete)
    ours = tiny_tokenizer.decode(drawn)
    assert ours.rstrip().endswith("pass\n```") and len(drawn) == len(logps) < len(ids)
    assert cut([5, 6, 2, 7], [], [2], None) == ([5, 6, 2], [])
    begun, rest = ids[:4], ids[4:]
    assert begun + cut(rest, [], [], complete, begun)[0] == drawn
    assert cut([5, 6], [0.1, 0.2], [2], complete) == ([5, 6], [0.1, 0.2])
