"""Monte Carlo values: where a completion is cut, what the values are, what a segment's tokens share."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from transformers import set_seed

from envs.task import Extracted, Problem
from recipes.data.training_data import tokenized_prompts
from recipes.models.critic import NoValue
from recipes.models.tiny import scratch_model
from recipes.records.log import RunLog
from recipes.sampling.generate import Decoding, sample
from recipes.trainers.monte_carlo_ppo import MonteCarloPPOTrainer, line_cuts, mean_of_others
from recipes.trainers.own_ppo import PPOConfig
from rewards.attribution import locate
from rewards.channel import ChannelResult, Completion
from rewards.compose import Reward

SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
LENGTH = 9


class Lines:
    """A text of `a`, `b` and ends of lines, all of it code."""

    name, closing, system = "lines", "", ""

    def problems(self, split):
        return [Problem(id=f"lines/{i}", question="a" * i) for i in (1, 2)]

    def messages(self, problem):
        return problem.question

    def extract(self, text):
        return Extracted(0, len(text), True)

    def complete(self, text):
        return False


class Letters:
    """Pays 1 for each `a`."""

    pays_outside_code = True

    async def score(self, problems, completions):
        return [ChannelResult(float(c.text.count("a"))) for c in completions]


class Nothing(Letters):
    async def score(self, problems, completions):
        return [ChannelResult(0.0) for _ in completions]


def trainer(folder, channel=Letters, continuations=3, cuts=4, samples=4, **settings) -> MonteCarloPPOTrainer:
    torch.manual_seed(0)
    policy, tokenizer = scratch_model("ab\n", **SHAPE)
    set_seed(0)
    args = {
        "output_dir": str(folder),
        "total_episodes": 4,
        "per_device_train_batch_size": 2,
        "response_length": LENGTH,
        "temperature": 1.0,
        "kl_coef": 0.0,
        "lam": 0.0,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "save_strategy": "no",
        "gradient_checkpointing": False,
        "logging_steps": 1,
    }
    task = Lines()
    known = {field.name for field in dataclasses.fields(PPOConfig)}
    assert set(settings) <= known
    return MonteCarloPPOTrainer(
        continuations=continuations,
        cuts=cuts,
        model=policy,
        args=PPOConfig(**{**args, **settings}),
        processing_class=tokenizer,
        train_dataset=tokenized_prompts(task, tokenizer),
        task=task,
        reward=Reward({"letters": channel()}, {"letters": 1.0}, "sparse"),
        value=NoValue(),
        run_log=RunLog(folder, 4),
        samples_per_prompt=samples,
    )


def experience(t):
    e = t.rollout(next(t.prompts))
    t.score(e)
    t.logps_and_values(e)
    e.rewards = t.token_rewards(e)
    return e


def completion(text: str, pieces: list[str], code: tuple[int, int] | None) -> Completion:
    ends = [sum(map(len, pieces[: i + 1])) for i in range(len(pieces))]
    offsets = [(end - len(piece), end) for piece, end in zip(pieces, ends, strict=True)]
    assert "".join(pieces) == text
    return Completion(text, list(range(len(pieces))), offsets, code)


def test_a_completion_is_cut_where_lines_of_its_code_begin():
    pieces = ["```", "python\n", "def f", "(x):", "\n   ", " y = x", "\n\n   ", " return", " y", "\n", "```"]
    text = "".join(pieces)
    span = (text.index("def"), text.rindex("\n```"))
    answer = completion(text, pieces, span)
    assert line_cuts(answer, 9) == [4, 6]  # the tokens that hold the ends of the lines before
    assert line_cuts(answer, 1) == [4]
    assert line_cuts(dataclasses.replace(answer, code_span=None), 9) == []
    whole = ["a\n", "b\n", "c\n", "d\n", "e"]
    assert line_cuts(completion("".join(whole), whole, (0, 9)), 2) == [1, 3]


def test_values_are_what_continuations_earn_on_average(tmp_path):
    t = trainer(tmp_path, continuations=400)
    e = experience(t)
    row = next(i for i, cuts in enumerate(e.cuts) if len(cuts) > 1)
    cut = e.cuts[row][-1]
    begun = e.completions[row][:cut]
    model = t.policy.eval()
    drawn = sample(model, [e.prompts[row] + begun], 2000, Decoding(LENGTH - cut), t._end_ids, 0)
    letters = [locate(begun + ids, t._token_bytes)[0].count("a") for ids in drawn]
    assert e.values[row, cut].item() == pytest.approx(sum(letters) / len(letters), abs=0.25)
    assert all(len(begun) + len(ids) <= LENGTH for ids in drawn)
    others = [e.scores[other].item() for other in range(row // 4 * 4, row // 4 * 4 + 4) if other != row]
    assert e.values[row, 0].item() == pytest.approx(sum(others) / 3, abs=1e-6)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_tokens_of_a_segment_share_the_difference_of_the_values_at_its_ends(tmp_path, lam):
    t = trainer(tmp_path, lam=lam)
    e = experience(t)
    assert any(len(cuts) > 2 for cuts in e.cuts)
    advantages, returns = t.advantages(e)
    expected = torch.zeros_like(advantages)
    for row, cuts in enumerate(e.cuts):
        values = [e.values[row, cut].item() for cut in cuts] + [e.scores[row].item()]
        deltas = [after - before for before, after in itertools.pairwise(values)]
        ends = [*cuts[1:], len(e.completions[row])]
        for i, (start, end) in enumerate(zip(cuts, ends, strict=True)):
            expected[row, start:end] = sum(delta * lam**n for n, delta in enumerate(deltas[i:]))
    assert torch.allclose(advantages, expected / expected[e.mask].square().mean().sqrt(), atol=1e-5)
    assert torch.allclose(returns[:, 0], e.scores)


@pytest.mark.parametrize("channel", [Letters, Nothing])
def test_continuations_are_graded_samples_also_where_all_completions_earn_the_same(tmp_path, channel):
    t = trainer(tmp_path, channel=channel, continuations=3)
    e = experience(t)
    assert t.graded_samples(e) == 8 + 3 * sum(len(cuts) - 1 for cuts in e.cuts) > 8
    assert t.advantages(e)[0].any() == (channel is Letters)


def test_a_mean_leaves_out_the_answer_itself_and_those_without_a_score():
    scores = torch.tensor([[1.0, 0.0, torch.nan, 2.0], [torch.nan, 3.0, torch.nan, torch.nan]])
    means = mean_of_others(scores)
    assert means[0].tolist() == [1.0, 1.5, 1.0, 0.5]
    assert means[1, [0, 2, 3]].tolist() == [3.0] * 3 and means[1, 1].isnan()


@pytest.mark.parametrize("passes", [(0.0, 0.1), (0.3, 0.5), (0.9, 1.0)])
def test_the_first_segment_moves_towards_the_better_beginning(passes):
    """Two beginnings, one half of the answers each, pass at these rates: over all groups of four, the mean advantage of
    the better one's first segment minus that of the other is the difference of the rates."""
    n, groups = 4, list(itertools.product(itertools.product((0, 1), repeat=2), repeat=4))  # (beginning, reward)
    chance = torch.tensor(
        [[0.5 * (passes[begun] if reward else 1 - passes[begun]) for begun, reward in group] for group in groups]
    ).prod(1)
    begun, scores = torch.tensor(groups).float().unbind(2)
    advantages = torch.tensor(passes)[begun.long()] - mean_of_others(scores)
    sides = [(chance[:, None] * advantages * (begun == side)).sum() / (n / 2) for side in (0, 1)]
    assert sides[1] - sides[0] == pytest.approx(passes[1] - passes[0], abs=1e-5)


def test_a_single_completion_of_a_prompt_takes_its_first_value_from_continuations_too(tmp_path):
    t = trainer(tmp_path, samples=1)
    e = experience(t)
    assert t.graded_samples(e) == 2 + 3 * sum(len(cuts) for cuts in e.cuts)
    assert all(e.values[row, 0] != e.scores[row] for row in range(2))
    t.train()  # updates run through, from a new rollout
