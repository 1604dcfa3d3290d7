"""Groups without a pass, drawn again behind the beginning of the reference: which, how much, what is trained on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envs.basics import Basics
from recipes.data.training_data import demonstration
from recipes.sampling.prefix import PrefixSettings, ReferencePrefixes
from rewards.channel import ChannelResult
from rewards.compose import Grade

SETTINGS = PrefixSettings(enabled=True, share=0.5, step=0.2, until=0.8)
TASK = Basics()
PROBLEMS = TASK.problems("train")


def prefixes(tokenizer, settings=SETTINGS, rollouts=10, longest=500) -> ReferencePrefixes:
    return ReferencePrefixes(settings, TASK, tokenizer, rollouts, longest)


def grades(*passed: bool | None) -> list[Grade | None]:
    return [
        None if p is None else Grade({"tests": ChannelResult(float(p), passed=p)}, {}, {"tests": 1.0}) for p in passed
    ]


def answer(problem, tokenizer) -> list[int]:
    return tokenizer(demonstration(TASK.messages(problem), problem.reference), add_special_tokens=False)["input_ids"]


def test_only_groups_in_which_nothing_passes_are_drawn_again(smollm2_tokenizer):
    asked = [p for p in (*PROBLEMS[:4], replace(PROBLEMS[4], reference=None)) for _ in range(2)]
    earned = grades(False, False, True, False, None, False, None, None, False, False)
    chosen = prefixes(smollm2_tokenizer).groups_to_draw_again(asked, earned, 2)
    assert [p.group for p in chosen] == [0, 2]  # 1 has a pass, 3 no grade, 4 no reference
    for prefixed, problem in zip(chosen, (PROBLEMS[0], PROBLEMS[2]), strict=True):
        signature, body = problem.reference.rstrip().split("\n", 1)
        text = smollm2_tokenizer.decode(prefixed.begun)
        assert text.startswith(f"```python\n{signature}\n") and prefixed.share == 0.5
        begun = text.removeprefix(f"```python\n{signature}\n")
        assert body.startswith(begun) and 0.2 < len(begun) / len(body) < 0.8


def test_a_reward_without_a_verdict_is_said_once(smollm2_tokenizer, caplog):
    shown, silent = prefixes(smollm2_tokenizer), [Grade({"bleu": ChannelResult(0.2)}, {}, {"bleu": 1.0})] * 2
    assert (
        shown.groups_to_draw_again([PROBLEMS[0]] * 2, silent, 2)
        == shown.groups_to_draw_again([PROBLEMS[0]] * 2, silent, 2)
        == []
    )
    assert [r.message for r in caplog.records if "says whether an answer passes" in r.message] == [
        caplog.records[0].message
    ]
    caplog.clear()
    assert (
        prefixes(smollm2_tokenizer).groups_to_draw_again([PROBLEMS[0]] * 2, grades(None, None), 2) == []
        and not caplog.records
    )


def test_the_share_moves_towards_a_pass_rate_of_one_half(smollm2_tokenizer):
    shown, first, other = prefixes(smollm2_tokenizer, rollouts=1000), PROBLEMS[0], PROBLEMS[1]

    def share(problem):
        (chosen,) = shown.groups_to_draw_again([problem], grades(False), 1)
        return chosen.share

    shown.observe(first, 0.5, grades(False, False))
    assert share(first) == pytest.approx(0.7)
    shown.observe(first, 0.7, grades(True, False))
    assert share(first) == pytest.approx(0.7)
    shown.observe(first, 0.7, grades(True, True, True, False))
    assert share(first) == pytest.approx(0.6)
    assert share(other) == pytest.approx(0.5 + 0.1 * 0.2 + 0.09 * 0.18 + 0.1 * 0.08, abs=0.02)  # the moving mean
    shown.observe(first, 0.6, grades(None))
    assert share(first) == pytest.approx(0.6)  # nothing was learnt of it


def test_the_most_that_is_shown_falls_to_nothing(smollm2_tokenizer):
    shown = prefixes(smollm2_tokenizer, PrefixSettings(True, 1.0, 0.2, 0.5), rollouts=8)
    seen = [shown.groups_to_draw_again([PROBLEMS[0]], grades(False), 1) for _ in range(8)]
    assert [round(chosen[0].share, 2) for chosen in seen[:4]] == [1.0, 0.75, 0.5, 0.25]
    assert seen[4:] == [[]] * 4
    assert smollm2_tokenizer.decode(seen[0][0].begun) == f"```python\n{PROBLEMS[0].reference.rstrip()}"
    assert PROBLEMS[0].reference.startswith("def ")  # all of the code, but not the end of its block


def test_code_without_lines_of_the_prompt_is_counted_from_its_beginning(smollm2_tokenizer):
    problem = replace(PROBLEMS[0], question="Anything.")
    (chosen,) = prefixes(smollm2_tokenizer).groups_to_draw_again([problem], grades(False), 1)
    fence = len(smollm2_tokenizer("```python\n", add_special_tokens=False)["input_ids"])
    code = len(answer(problem, smollm2_tokenizer)) - fence - 2  # without the newline and the fence behind it
    assert chosen.begun == answer(problem, smollm2_tokenizer)[: fence + round(0.5 * code)]


def test_a_reference_that_the_question_shows_is_given_but_for_its_end(smollm2_tokenizer):
    problem = replace(PROBLEMS[0], question=PROBLEMS[0].reference)
    (chosen,) = prefixes(smollm2_tokenizer, PrefixSettings(True, 0.001, 0.2, 0.8)).groups_to_draw_again(
        [problem], grades(False), 1
    )
    begun = smollm2_tokenizer.decode(chosen.begun)
    assert begun.rstrip() == f"```python\n{PROBLEMS[0].reference.rstrip()}"


def test_lines_that_stand_elsewhere_in_the_question_are_not_given(smollm2_tokenizer):
    """Masked lines of a simulation may stand in another place of the file, and no signature is asked for."""
    problem = replace(PROBLEMS[0], question=PROBLEMS[0].reference, entry_point=None)
    (chosen,) = prefixes(smollm2_tokenizer, PrefixSettings(True, 0.001, 0.2, 0.8)).groups_to_draw_again(
        [problem], grades(False), 1
    )
    assert smollm2_tokenizer.decode(chosen.begun) == "```python\n"


def test_a_prefix_leaves_room_for_a_token(smollm2_tokenizer):
    (chosen,) = prefixes(smollm2_tokenizer, longest=5).groups_to_draw_again([PROBLEMS[0]], grades(False), 1)
    assert len(chosen.begun) == 4


def test_its_state_goes_on_exactly(smollm2_tokenizer):
    one, two = prefixes(smollm2_tokenizer), prefixes(smollm2_tokenizer)
    one.groups_to_draw_again([PROBLEMS[0]], grades(False), 1)
    one.observe(PROBLEMS[0], 0.5, grades(False))
    two.load_state(one.state())
    asked = [PROBLEMS[0], PROBLEMS[1]]
    assert one.groups_to_draw_again(asked, grades(False, False), 1) == two.groups_to_draw_again(
        asked, grades(False, False), 1
    )
    assert one.shown == two.shown != prefixes(smollm2_tokenizer).shown
