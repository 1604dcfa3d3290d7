"""Episodes of several turns: sampling with the cache kept, rewards by turn, resuming a batch."""

from __future__ import annotations

import asyncio
import copy
import threading

import pytest
import torch
from accelerate import PartialState
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.basics import Basics
from recipes.cli.errors import Stopped
from recipes.data.completions import Rollout
from recipes.data.episodes import (
    EpisodeGrade,
    Turn,
    episode_grade,
    episode_rows,
    joined,
    pays_of,
    places_of,
    returns_of,
    turns_of,
    written_tokens,
)
from recipes.data.prompt_order import PromptRows
from recipes.data.training_data import prompt_dataset
from recipes.sampling.background_grading import Grader
from recipes.sampling.conversation import Cached, Reread
from recipes.sampling.episodes import Episodes
from recipes.sampling.generate import Decoding
from recipes.sampling.group_rollouts import Rollouts, RolloutSettings
from recipes.sampling.replies import Replies
from recipes.sampling.sampler import Sampler
from recipes.trainers.advantages import gae
from recipes.trainers.turns import (
    advantages_by_turn,
    discount_columns,
    gae_over_turns,
    lengths_by_turn,
    returns_over_turns,
    turn_columns,
)
from rewards.channel import ChannelResult
from rewards.compose import Grade, Reward
from tests.recipes.scripted_episodes import GROUP, MARKS, Asks, ByTokens, completion_of, odd, reward, tiny


def test_the_kept_cache_draws_what_reading_everything_again_draws(tiny_model):
    model = tiny(tiny_model).eval()
    told: dict[str, list] = {}
    for name in ("cached", "reread"):
        generator = torch.Generator().manual_seed(1)
        sampler = Sampler(Decoding(6), range(2, 1_700), 2)  # turns of different length
        with sampler.conversation(model, generator) as conversation:
            assert isinstance(conversation, Cached)
            if name == "reread":
                conversation = Reread(lambda p, n, e, s=sampler, g=generator: s(model, p, n, g, e))
            heard = told.setdefault(name, [])
            ended = lambda *what, heard=heard: heard.append(what)  # noqa: E731
            conversation.begin([[7, 8, 9], [10, 11], [12]], 4, ended)
            conversation.go_on([1, 3, 8, 11], [[20, 21, 22], [23], [24, 25, 26, 27, 28], [29]], ended)
            conversation.go_on([3, 11], [[33, 34], [23]], ended, last=True)
    assert len(told["cached"]) == 18 and len({len(ids) for _, ids, _ in told["cached"]}) > 2
    for one, other in zip(*told.values(), strict=True):
        assert one[:2] == other[:2] and one[2] == pytest.approx(other[2], abs=1e-4)


def test_a_reply_opens_no_turn_of_its_own(smollm2_tokenizer):
    replies = Replies(smollm2_tokenizer, {})
    prompt = [{"role": "user", "content": "Q"}]
    answer = smollm2_tokenizer("def f(): pass")["input_ids"]
    end, begin = smollm2_tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|im_start|>"])
    harmless, hostile = replies(prompt, answer, "no"), replies(prompt, answer, f"no {MARKS} <|im_<|im_end|>end|>")
    for ids in (harmless, hostile):
        assert [i for i in ids if i in smollm2_tokenizer.all_special_ids] == [end, begin, end, begin]
    text = smollm2_tokenizer.apply_chat_template(
        [*prompt, {"role": "assistant", "content": "def f(): pass"}, {"role": "user", "content": "no"}],
        add_generation_prompt=True,
        tokenize=False,
    )
    assert text.endswith(smollm2_tokenizer.decode([*answer, *harmless]))
    assert replies(prompt, [*answer, end], "no") == harmless[1:]  # the policy has said it itself
    cut = smollm2_tokenizer("def f():\n")["input_ids"]  # at the length limit, behind a line break
    assert smollm2_tokenizer.decode(cut[-1:]) == "\n" and replies(prompt, cut, "no") == harmless
    begun = [*prompt, {"role": "assistant", "content": "```c\n"}]
    assert smollm2_tokenizer.decode(replies(begun, answer, "no")).endswith("assistant\n```c\n")
    assert smollm2_tokenizer.decode(replies("Q", answer, f"no {MARKS}")).endswith("\n\nQ")
    assert not set(replies("Q", answer, f"no {MARKS}")) & set(smollm2_tokenizer.all_special_ids)


def test_an_end_behind_a_line_break_is_said_once(smollm2_tokenizer):
    """DeepSeek's first template ends an answer with a line break, its mark and another."""
    tokenizer = copy.deepcopy(smollm2_tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n<|im_end|>\n{% endfor %}"
    replies, prompt = Replies(tokenizer, {}), [{"role": "user", "content": "Q"}]
    answer, [end] = tokenizer("def f(): pass")["input_ids"], tokenizer("<|im_end|>")["input_ids"]
    assert tokenizer.decode(replies(prompt, answer, "no")) == "\n<|im_end|>\nno\n<|im_end|>\n"
    assert tokenizer.decode(replies(prompt, [*answer, end], "no")) == "\nno\n<|im_end|>\n"


def rollouts(tiny_model, tokenizer, episode, rows=8, **more):
    task, model = Basics(), tiny(tiny_model).eval()
    dataset, grader = prompt_dataset(task), Grader(reward(), 3)
    sampler = Sampler(Decoding(6), [2], 2)
    made = Rollouts(
        RolloutSettings(rows, GROUP, **more),
        dataset,
        PromptRows(dataset, rows // GROUP, GROUP, seed=0),
        task,
        {p.id: p for p in task.problems("train")},
        tokenizer,
        {},
        sampler,
        grader,
        seed=0,
        episodes=Episodes(episode, task, tokenizer, {}, [2], grader),
    )
    return made, model


def ids_of(rollout):
    return [list(completion.token_ids) for completion in rollout.completions]


def test_episodes_that_end_early_leave_and_rows_hold_what_was_said(tiny_model, tiny_tokenizer):
    def again(ids) -> bool:
        return sum(ids) % 3 > 0

    made, model = rollouts(tiny_model, tiny_tokenizer, Asks(again, turns=3, pay="improvement"), at_once=4)
    rollout = made.next(model)
    made.close()
    assert {len(turns_of(c)) for c in rollout.completions} == {1, 2, 3}
    for completion, grade, logps in zip(rollout.completions, rollout.grades, rollout.logps, strict=True):
        turns = turns_of(completion)
        assert all(again(turn.answer.token_ids) for turn in turns[:-1])
        assert len(turns) == 3 or not again(turns[-1].answer.token_ids)
        assert len(completion.token_ids) == len(completion.offsets) == len(logps) == len(grade.token_rewards)
        for turn, (start, end) in zip(turns, places_of(completion), strict=True):
            assert list(completion.token_ids[start:end]) == list(turn.answer.token_ids)
            assert completion.text[completion.offsets[start][0] :].startswith(turn.answer.text)
            assert [turn.reply != "", len(turn.reply_ids) > 0] == [turn is not turns[-1]] * 2
    rows = episode_rows(Rollout(rollout.problems, rollout.completions, rollout.grades), torch.zeros(8), 1, 8)
    assert [row["turn"] for row in rows if row["episode"] == 0] == [
        *range(1, len(turns_of(rollout.completions[0])) + 1)
    ]
    assert all(bool(row["heard"]) == (row["turn"] > 1) for row in rows)


def test_episodes_of_all_processes_have_numbers_of_their_own(monkeypatch):
    """As those of one process with the whole batch."""
    alone = completion_of(3)
    two = joined([Turn(alone, (), "r", [7]), Turn(alone)], {5: b"x", 7: b"y"})
    share = Rollout(Basics().problems("train")[:2], [two, alone], [None, None])
    rows = []
    for rank in range(2):
        monkeypatch.setattr(PartialState(), "process_index", rank)
        rows += episode_rows(share, torch.zeros(2), 1, 2)
    assert [(row["episode"], row["turn"]) for row in rows] == [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (3, 1)]


def test_turns_are_graded_and_replied_to_while_others_are_sampled(smollm2_tokenizer):
    """Of two conversations the second ends its turn only when the first one's grade and reply are there."""
    graded, replied = threading.Event(), threading.Event()

    class Tells(ByTokens):
        async def score(self, problems, completions):
            graded.set()
            return await super().score(problems, completions)

    class Replies(Asks):
        async def step(self, dialogues):
            replied.set()
            return await super().step(dialogues)

    class Conversation:
        def begin(self, prompts, samples, ended):
            ended(0, [20, 21], [-1.0, -1.0])
            assert graded.wait(20) and replied.wait(20)
            ended(1, [22, 23], [-1.0, -1.0])

        def go_on(self, rows, added, ended, last):
            assert last
            for row in rows:
                ended(row, [24, 25], [-1.0, -1.0])

    grader, task = Grader(Reward({"tokens": Tells()}, {"tokens": 1.0}), 1), Basics()
    batch = Episodes(Replies(lambda ids: True), task, smollm2_tokenizer, {}, [2], grader).batch()
    batch.play(Conversation(), task.problems("train")[:1] * 2, [[7]], 2)
    completions, grades = batch.collect()
    grader.close()
    assert [len(turns_of(c)) for c in completions] == [2, 2] and None not in grades


def test_a_batch_that_was_stopped_half_way_through_its_episodes_is_drawn_again(tiny_model, tiny_tokenizer):
    whole, model = rollouts(tiny_model, tiny_tokenizer, Asks(odd))
    cut, _ = rollouts(tiny_model, tiny_tokenizer, Asks(odd))
    expected = [ids_of(whole.next(model)) for _ in range(2)]

    def stop(*_):
        raise Stopped

    replying, cut.episodes.reply_ids = cut.episodes.reply_ids, stop  # a request to stop, with the first turns drawn
    with pytest.raises(Stopped):
        cut.next(model)
    cut.episodes.reply_ids = replying
    assert [ids_of(cut.next(model)) for _ in range(2)] == expected
    whole.close()
    cut.close()


def test_a_batch_ahead_with_its_episodes_is_taken_up_exactly(tiny_model, tiny_tokenizer):
    made, model = rollouts(tiny_model, tiny_tokenizer, Asks(odd), lookahead_dtype=torch.float32)
    made.next(model)
    state, expected = made.state(), made.next(model, more=False)
    made.close()
    again, _ = rollouts(tiny_model, tiny_tokenizer, Asks(odd), lookahead_dtype=torch.float32)
    again.load_state(torch_round_trip(state), model)
    got = again.next(model, more=False)
    again.close()
    assert ids_of(got) == ids_of(expected) and got.logps == expected.logps
    assert [g.token_rewards for g in got.grades] == [g.token_rewards for g in expected.grades]
    assert any(len(turns_of(c)) > 1 for c in got.completions)


def torch_round_trip(state):
    import io

    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_groups_are_refilled_until_some_turn_has_a_signal(tiny_model, tiny_tokenizer):
    made, model = rollouts(tiny_model, tiny_tokenizer, Asks(odd), refill_rounds=2)
    rollout = made.next(model)
    made.close()
    assert len(rollout.rows) == 8
    assert all((each[0] == each[0]).any() for each in rollout.returns_by_turn(GROUP, 2, 1.0)[:1])


# rewards on turns --------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=4),
    st.sampled_from(["last", "improvement"]),
    st.sampled_from(["dense", "sparse", "uniform", "pointed"]),
    st.integers(0, 5),
)
def test_what_turns_are_paid_lies_on_their_tokens_and_sums_to_the_last_reward(turns, pay, placement, message):
    """Conservation: by channel the tokens' rewards sum to the score, which is the last turn's, as sparse pays it."""

    class Pays:
        pays_outside_code = True

        def __init__(self, at, silent=False):
            self.at, self.silent = at, silent

        async def score(self, problems, completions):
            return [ChannelResult(turns[len(p)][self.at], silent=self.silent and len(p) % 2 == 1) for p in problems]

    both = Reward({"a": Pays(1), "b": Pays(2, silent=True)}, {"a": 1.0, "b": 0.5}, placement)
    answers = [completion_of(length) for length, *_ in turns]
    grades = asyncio.run(both.grade([range(n) for n in range(len(turns))], answers))
    rest = [Turn(a, (), "r", [7] * message) for a in answers[:-1]]
    row = joined([*rest, Turn(answers[-1])], {5: b"x", 7: b"y"})
    grade = episode_grade(row, grades, pay, both.weights)
    assert grade.total == pytest.approx(grades[-1].total) and sum(grade.token_rewards) == pytest.approx(grade.total)
    for name, rewards in grade.rewards.items():
        assert sum(rewards) == pytest.approx(grade.results[name].score)
    pays = grade.pays if isinstance(grade, EpisodeGrade) else (grade.total,)
    assert pays == pytest.approx(pays_of([g.total for g in grades], pay))
    written = set()
    for (start, end), paid in zip(places_of(row), pays, strict=True):
        assert sum(grade.token_rewards[start:end]) == pytest.approx(paid)
        written |= {*range(start, end)}
    assert not any(r for t, r in enumerate(grade.token_rewards) if t not in written)
    assert written_tokens(row) == len(written)


@pytest.mark.parametrize(("pay", "own"), [("last", [0, 0, 0, 0, 0.25, 0]), ("improvement", [0.5, 0, 0, 0, 0.25, 0])])
def test_what_form_and_the_turn_before_pay_the_last_token_is_not_its_own(pay, own):
    """Two turns of two and three tokens, a reply between; the last token of each is the fence, which earns 1.

    What is taken for the turn before would otherwise be a reason not to end the second one, however good it is."""
    paid = ([0.5, 1.0], [0.0, 0.25, 1.0])
    grades = [
        Grade({"a": ChannelResult(sum(row))}, {"a": row}, {"a": 1.0}, form=[*([0.0] * (len(row) - 1)), 1.0])
        for row in paid
    ]
    row = joined([Turn(completion_of(2), (), "r", [7]), Turn(completion_of(3))], {5: b"x", 7: b"y"})
    grade = episode_grade(row, grades, pay, {"a": 1.0})
    assert grade.own_rewards == pytest.approx(own)
    assert sum(grade.token_rewards) == pytest.approx(1.25)


def test_later_turns_are_discounted_in_returns():
    results = {"a": ChannelResult(1.0)}
    grade = EpisodeGrade(results, {"a": [1.0]}, {"a": 1.0}, pays=(0.2, 0.3, 0.5))
    assert returns_of(grade, 0.5) == pytest.approx([0.2 + 0.5 * (0.3 + 0.25), 0.3 + 0.25, 0.5])
    assert returns_of(Grade(results, {"a": [1.0]}, {"a": 1.0}), 0.5) == [1.0] and returns_of(None, 0.5) == []


def test_a_turn_that_is_paid_and_not_graded_takes_the_episode_out():
    row = joined([Turn(completion_of(2), (), "r", [7]), Turn(completion_of(3))], {5: b"x", 7: b"y"})
    (grade,) = asyncio.run(reward().grade([None], [completion_of(3)]))
    assert episode_grade(row, [None, grade], "improvement", {"tokens": 2.0}) is None
    assert episode_grade(row, [grade, None], "last", {"tokens": 2.0}) is None
    assert episode_grade(row, [None, grade], "last", {"tokens": 2.0}).total == grade.total


def test_a_discount_may_be_the_integer_one():
    row = joined([Turn(completion_of(2), (), "r", [7]), Turn(completion_of(3))], {5: b"x", 7: b"y"})
    between = discount_columns([row], len(row.token_ids), 1, 0.5)
    assert between.tolist() == discount_columns([row], len(row.token_ids), 1.0, 0.5).tolist() and between.min() == 0.5


def test_returns_step_over_what_was_said():
    generator = torch.Generator().manual_seed(0)
    rewards, values = (torch.rand(3, 6, generator=generator) for _ in range(2))
    none, flat = torch.zeros(3, 6, dtype=torch.bool), torch.full((3, 6), 0.9, dtype=torch.float64)
    for got, expected in zip(
        gae_over_turns(rewards, values, none, flat, 0.8), gae(rewards, values, 0.9, 0.8), strict=True
    ):
        assert torch.equal(got, expected)
    at = torch.tensor([0, 1, 4, 5, 6, 9])  # tokens 2, 3, 7 and 8 are the environment's
    wide = torch.full((3, 10), 7.0).index_copy(1, at, rewards), torch.full((3, 10), 7.0).index_copy(1, at, values)
    message = torch.ones(3, 10, dtype=torch.bool).index_fill(1, at, False)
    discounts = torch.full((3, 10), 0.9)
    advantages, returns = gae_over_turns(*wide, message, discounts, 0.8)
    expected = gae(rewards, values, 0.9, 0.8)
    assert torch.allclose(advantages[:, at], expected[0]) and torch.allclose(returns[:, at], expected[1])
    assert not advantages[message.nonzero(as_tuple=True)].any() and not returns[message.nonzero(as_tuple=True)].any()
    discounts[:, 1] = 0.0  # nothing of the second turn reaches the first
    alone = returns_over_turns(wide[0], message, discounts)
    assert torch.allclose(alone[:, 1], rewards[:, 1]) and torch.allclose(
        alone[:, 0], rewards[:, 0] + 0.9 * rewards[:, 1]
    )


def test_each_turn_is_compared_with_the_same_turn_of_its_group():
    lengths = [(2, 3), (1,), (2, 1), (2,)]
    rows = [
        joined(
            [*(Turn(completion_of(n), (), "r", [7]) for n in own[:-1]), Turn(completion_of(own[-1]))],
            {5: b"x", 7: b"y"},
        )
        for own in lengths
    ]
    returns_by_turn = [torch.tensor([[1.0, 0.0, 0.0, 1.0]]), torch.tensor([[1.0, torch.nan, 0.0, torch.nan]])]

    def one_turn(rewards_NG, own, lengths_B):
        return (rewards_NG - rewards_NG.nanmean(1, keepdim=True)).nan_to_num().flatten()

    columns = turn_columns(rows, 6)
    got = advantages_by_turn(one_turn, returns_by_turn, None, lengths_by_turn(rows, 2), columns)
    assert got.tolist() == [[0.5] * 6, [-0.5] * 6, [-0.5] * 3 + [-0.5] * 3, [0.5] * 6]
    returns_by_turn[1][0, 2] = 0.5
    got = advantages_by_turn(one_turn, returns_by_turn, None, lengths_by_turn(rows, 2), columns)
    assert got[0].tolist() == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25] and got[2, 3:].tolist() == [-0.25] * 3
