"""The trace language as data: each operator, what it says of events that are not there, and bad conditions."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.roboeval import Request, World, judge
from envs.roboeval.trace import (
    ANY,
    T,
    after,
    after_last,
    anyvisit,
    ask,
    away,
    before,
    before_last,
    check,
    count,
    every,
    go,
    has,
    inside,
    no,
    pick,
    place,
    report,
    satisfied,
    say,
    some,
    visit,
)

TRACE = [
    ("GoTo", "the Kitchen", None),
    ("CheckEntity", "red cup", None),
    ("Pick", "red cup", None),
    ("GoTo", "kitchen sink", None),
    ("Say", "here", None),
    ("GoTo", "hall", None),
    ("Ask", "Tea or water?", ["black tea", "Water"]),
    ("GoTo", "kitchen", None),
    ("Place", "red cup", None),
    ("GoTo", "start_loc", None),
    ("Say", "Ann wants tea", None),
]
HOLDS = {
    "search, ignoring case": inside(T, go("^the kitchen$")),
    "whole words": inside(T, away("kit")),
    "has is plain and in any order": inside(T, say(has("tea", "bob/ann"))),
    "all, any, not": inside(T, say({"all": ["tea", {"any": ["x", "ann"]}, {"not": r"\bno\b"}]})),
    "a question": inside(T, ask("tea")),
    "an option": inside(T, ask(ANY, "^water")),
    "not every option": no(inside(T, ask("tea", "coffee"))),
    "after": inside(after(T, go("hall")), place()),
    "after nothing is the whole": inside(after(T, go("moon")), pick()),
    "before nothing is the whole": inside(before(T, go("moon")), place()),
    "before": no(inside(before(T, go("hall")), ask())),
    "the last one": inside(before_last(T, go("kitchen")), ask()),
    "after the last one": no(inside(after_last(T, go("kitchen")), ask())),
    "the same place again is one stay": visit(T, "kitchen", say("here")),
    "the first stay only": no(visit(T, "kitchen", place("cup"))),
    "any stay": anyvisit(T, "kitchen", place("cup")),
    "the report": report("tea"),
    "no report before leaving": no(report("here")),
    "a number": every(count(T, go(ANY), 5, 5), count(T, say(), most=2), no(count(T, say(), 3))),
    "and, or": some(inside(T, go("moon")), every(inside(T, check()), inside(T, pick("cup")))),
}


@pytest.mark.parametrize("name", HOLDS)
def test_operators(name):
    condition = json.loads(json.dumps(HOLDS[name]))
    assert satisfied(condition, TRACE)
    assert not satisfied(no(condition), TRACE)


def test_options_that_are_no_text():
    odd = [("Ask", "Which?", ["yes", None]), ("Ask", "How many?", [1, 2])]
    assert satisfied(inside(T, ask("which", "yes")), odd)
    for condition in (inside(T, ask("which", "no")), some(inside(T, ask("which")), inside(T, ask("many")))):
        with pytest.raises(TypeError):
            satisfied(condition, odd)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"in": [T]},
        {"in": [T, {"jump": ""}]},
        {"in": [T, {"go": "("}]},
        {"in": [{"around": [T, go("x")]}, say()]},
        {"visit": [T, 5, say()]},
        {"count": [T, say()], "least": "2"},
        {"in": [T, {"say": "x", "options": "y"}]},
        {"in": [T, {"say": {"has": "x"}}]},
        {"and": inside(T, say())},
        "trace",
    ],
)
def test_what_is_no_condition(condition):
    with pytest.raises(ValueError, match="not a"):
        satisfied(condition, TRACE)


def test_a_task_of_ones_own_from_json(sandbox, tmp_path):
    path = tmp_path / "task.json"
    task = {
        "worlds": [
            {"rooms": ["shed", "start_loc"], "robot_start": "start_loc", "objects": {"shed": ["rake"]}},
            {"rooms": ["shed", "start_loc"], "robot_start": "start_loc"},
        ],
        "conditions": [
            {"report": {"has": ["there is a rake/yes"]}},
            {"and": [{"visit": ["trace", "shed", {"check": "rake"}]}, {"report": {"has": ["no"]}}]},
        ],
    }
    path.write_text(json.dumps(task))
    read = json.loads(path.read_text())
    worlds = [World.of(row) for row in read["worlds"]]
    right = (
        "def task_program():\n    go_to('shed')\n    found = is_in_room('rake')\n    go_to('start_loc')\n"
        "    say('Yes' if found else 'No')\n"
    )
    always = right.replace("'Yes' if found else 'No'", "'Yes'")
    requests = [Request(text, worlds, read["conditions"]) for text in (right, always)]
    first, second = asyncio.run(judge(sandbox, requests))
    assert first.verdict == "Success" and second.verdict == "CompletionError"
    assert [result.result for result in second.worlds] == ["sat", "unsat"] and "world 1" in second.note
    with pytest.raises(ValueError, match="2 worlds and 1 conditions"):
        asyncio.run(judge(sandbox, [Request(right, worlds, read["conditions"][:1])]))
    with pytest.raises(ValueError, match="not a condition"):
        asyncio.run(judge(sandbox, [Request(right, worlds, [{"is": 1}] * 2)]))
