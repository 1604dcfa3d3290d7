"""The open world: exact probabilities, shaking, guards against rewards for nothing, places of failures, samples."""

from __future__ import annotations

import asyncio
import textwrap
from fractions import Fraction

import pytest

from envs.roboeval import explore


@pytest.fixture
def explored(sandbox):
    def run(text: str, **options):
        program = "def task_program():\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n"
        [results] = asyncio.run(explore(sandbox, [program], **options))
        return results, program

    return run


def test_a_rare_failure_is_certain_and_has_its_place(explored):
    results, program = explored("if all(is_in_room(x) for x in 'abcdef'):\n    pick('a')\n    pick('b')")
    assert results.outcomes == {"RobotPickError": "1/64", "ok": "63/64"} and results.exact
    [failure] = results.failures
    assert program[failure.span.start : failure.span.end] == "pick('b')" and failure.probability == "1/64"


OUTCOMES = {
    "types": ("go_to('Ann')\npick('Ann')", {"RobotTypeError": "1/1"}),
    "people are named by their place": ("go_to('Ann')\nask('Ann', 'x', ['a'])", {"ok": "1/1"}),
    "what was picked may be there again": ("pick('a')\nplace('a')\npick('a')\nplace('a')", {"ok": "1/1"}),
    "known absent": ("if not is_in_room('Bob'):\n    ask('bob', 'x', ['a'])", {"ok": "1/2", "RobotAskError": "1/2"}),
    "a failed pick holds": (
        "is_in_room('a')\ntry:\n    pick('a')\nexcept Exception:\n    place('a')",
        {"ok": "1/1"},
    ),
    "an option that is no text": ("ask('', 'x', ['a', 2])", {"RobotAskError": "1/1"}),
    "one of three": (
        "if ask('', 'x', ['a', 'b', 'c']) == 'c':\n    undefined",
        {"Python:NameError": "1/3", "ok": "2/3"},
    ),
    "fifteen equal answers, then another draw": (
        "xs = [is_in_room('a') for _ in range(16)]\nassert xs == [xs[0]] * 15 + [True]",
        {"Python:AssertionError": "1/2", "ok": "1/2"},
    ),
    "an endless loop": ("if is_in_room('a'):\n    while True:\n        pass", {"ok": "1/2", "timeout": "1/2"}),
    "does not parse": ("say(", {"Python:SyntaxError": "1/1"}),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes(explored, name):
    text, wanted = OUTCOMES[name]
    results, _ = explored(text, shaking="none")
    assert results.outcomes == wanted and Fraction(results.unexplored) == 0


def test_shaking(explored):
    text = "for room in get_all_rooms():\n    if 'office' in room.lower():\n        undefined"
    assert explored(text, shaking="none")[0].outcomes == {"ok": "1/1"}
    assert explored(text, shaking="tree")[0].outcomes == {"Python:NameError": "4/15", "ok": "11/15"}
    doubled = text.replace("'office'", '"office"')
    assert explored(doubled, shaking="text")[0].outcomes == {"Python:AttributeError": "8/15", "ok": "7/15"}
    two = "for room in get_all_rooms():\n    if 'a1' in room and 'b1' not in room:\n        undefined"
    # the second test is as it is, or true, with 2/3; the first is true with 1/3
    assert explored(two)[0].outcomes["Python:NameError"] == str(Fraction(4, 5) * Fraction(1, 3) * Fraction(2, 3))


def test_waiting_is_explored_as_far_as_worth_it(explored):
    results, _ = explored("while not is_in_room('bus'):\n    time.sleep(60)\nsay('here it comes')")
    assert set(results.outcomes) == {"ok"} and results.exact and Fraction(results.unexplored) > 0
    few, _ = explored("while not is_in_room('bus'):\n    pass", paths=3)
    assert Fraction(few.unexplored) == Fraction(1, 8) and not few.exact and few.paths == 3


def test_a_reward_for_nothing_is_seen(explored):
    for text in ("pass", "try:\n    undefined\nexcept Exception:\n    pass", "print('hello')"):
        results, _ = explored(text)
        assert results.outcomes == {"ok": "1/1"} and not results.reaches_call
    some, _ = explored("if is_in_room('a'):\n    go_to('hall')\n    ask('Ann', 'Tea?', ['yes', 'no'])")
    assert some.reaches_call and (some.least_calls, some.least_events) == (1, 1)
    assert ("GoTo", "hall", None) in some.events and ("Ask", "Tea?", ["yes", "no"]) in some.events
    only_asks_where, _ = explored("get_current_location()")
    assert (only_asks_where.least_calls, only_asks_where.least_events) == (1, 0)


def test_random_runs_are_seeded(explored):
    text = "if is_in_room('a'):\n    undefined"
    passes = [explored(text, runs=20, seed=seed)[0].passes for seed in (1, 1, 2, 3, 4)]
    assert passes[0] == passes[1] and len(set(passes)) > 1 and all(0 < each < 20 for each in passes)


def test_hostile_programs_cost_their_own_answer_only(sandbox):
    programs = ["import os\ndef task_program():\n    os._exit(0)\n", "def task_program():\n    9 ** 9 ** 9\n"]
    programs += ["def task_program():\n    say('a')\n"] * 2
    results = asyncio.run(explore(sandbox, programs))
    assert [each.outcomes for each in results[:2]] == [{"timeout": "1/1"}] * 2
    assert [each.outcomes for each in results[2:]] == [{"ok": "1/1"}] * 2
    assert results[0].failures[0].span is None and not results[0].reaches_call
