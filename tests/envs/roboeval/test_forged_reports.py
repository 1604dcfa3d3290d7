"""Reports from the process of a hostile program: what they claim is replayed, and nothing else of them is used."""

from __future__ import annotations

import asyncio
import json
import textwrap

import pytest

from envs.roboeval import explore
from envs.roboeval.bundle import Answer
from envs.roboeval.exploration import _explorations
from envs.roboeval.references import Task, references, run_in, world_run
from envs.task import Problem
from rewards.channel import Completion
from rewards.robot import Simulator


def forging(report: str) -> str:
    """A program that writes a report to every descriptor and ends its process."""
    text = f"""
        import os
        data = {report!r}.encode()
        for number in range(3, 64):
            try:
                os.write(number, data)
            except OSError:
                pass
        os._exit(0)
    """
    return "def task_program():\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n"


OLD = {
    "outcomes": {"ok": "69/1"},
    "unexplored": "0/1",
    "paths": 1,
    "failures": [],
    "least_calls": 3,
    "least_events": 3,
    "events": [["Say", "kitchen mug lab", None]],
}


def old(**changed) -> str:
    report = {**OLD, **changed}
    return json.dumps({"none": report, "tree": report, "passes": 5, "sampled": []}) + "\n{}\n"


def new(*runs) -> str:
    return json.dumps({"tree": list(runs), "sampled": [["ok", None, []]] * 5}) + "\n{}\n"


FORGED = {
    "69 times the reward": old(),
    "1e300": old(outcomes={"ok": "1e300"}),
    "exactly one": old(outcomes={"ok": "1/1"}),
    "infinity": old(least_calls=float("inf")),
    "a number that takes for ever": old(outcomes={"ok": "1e99999999999"}),
    "no number": old(least_calls=float("nan")),
    "an unknown call": new(["ok", None, [["fly", "home"]]]),
    "arguments of another type": new(["ok", None, [["say", 5]]]),
    "too many options": new(["ok", None, [["ask", "", "x", ["a"] * 2000]]]),
    "no options": new(["ok", None, [["ask", "", "x", []]]]),
    "no list": new("ok"),
    "deep": "[" * 100_000 + "\n{}\n",
    "large integers": new(["ok", [10**4000, -(10**4000)], []]),
}
QUESTION = "Bring the mug from the kitchen to the lab."


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_report_earns_nothing(sandbox, name):
    code = forging(FORGED[name])
    for reference in ("", 'def task_program():\n    go_to("lab")\n    pick("mug")\n'):
        problem = Problem("t/forged", QUESTION, reference=reference)
        [result] = asyncio.run(
            asyncio.wait_for(
                Simulator(sandbox).score([problem], [Completion(code, (0,), ((0, len(code)),), (0, len(code)))]), 120
            )
        )
        assert result.score == 0 and not result.passed, result


def explored(*runs, paths: int = 500):
    request = {"program": "", "paths": paths, "runs": 0, "seed": 0, "rooms": None}
    parts = [json.loads(json.dumps({"none": list(runs), "sampled": []}))]
    return _explorations(request, ["none"], Answer(parts, True))["none"]


def test_only_the_good_run_is_reported():
    """A coin was thrown, so the run on its other side is missing, and what is missing did not end well."""
    good = ["ok", None, [["check", "mug"], ["pick", "mug"]]]
    results = explored(good)
    assert results.outcomes == {"ok": "1/2"} and results.unexplored == "1/2" and not results.complete
    both = explored(good, ["RobotPickError", [0, 4], [["check", "mug"], ["pick", "mug"]]])
    assert both.outcomes == {"RobotPickError": "1/2", "ok": "1/2"} and both.complete


def test_events_and_probabilities_are_computed_here():
    results = explored(["ok", None, [["go", "lab"], ["pick", "lab"], ["ask", "", "x", ["a"]]]])
    assert results.events == [("GoTo", "lab", None), ("Ask", "x", ["a"])]  # no such thing can be picked
    assert explored(["all is well", None, []]).outcomes == {"Python:Error": "1/1"}
    assert explored(*[["ok", None, []]] * 3, paths=2).outcomes == {"timeout": "1/1"}


def test_text_that_cannot_be_printed_raises_as_in_the_original(sandbox):
    calls = ["say(chr(0xD83D))", "go_to(chr(0xD83D))", "is_in_room(chr(0xD83D))", "ask('', chr(0xD83D), ['a'])"]
    programs = [f"def task_program():\n    {call}\n" for call in [*calls, "pick(chr(0xD83D))"]]
    for mode in ("compat", "hardened"):
        for results in asyncio.run(explore(sandbox, programs, mode=mode, shaking="none")):
            assert results.outcomes == {"Python:UnicodeEncodeError": "1/1"}
    caught = (
        "def task_program():\n    try:\n        say(chr(0xD83D))\n    except UnicodeEncodeError:\n        go_to('a')\n"
    )
    [results] = asyncio.run(explore(sandbox, [caught], shaking="none"))
    assert results.outcomes == {"ok": "1/1"} and results.events == [("GoTo", "a", None)]


WORLD = {"rooms": ["start_loc", "lab"], "things": {"lab": {"mug": [1, 0]}}, "people": {}}


def test_calls_beside_a_reference_are_replayed():
    calls = [["pick", "mug"], ["go", "lab"], ["pick", "mug"], ["pick", "mug"], ["place", "cup"]]
    run = world_run(WORLD, {"status": "success", "error": "", "place": None, "trace": calls, "places": []})
    assert [(deed.kind, deed.room, deed.name) for deed in run.deeds] == [("go", "lab", ""), ("pick", "lab", "mug")]
    for wrong in ([["fly"]], [["go", 5]], [["ask", "q", ["a", 1], "", ""]], [["say", "x"]] * 3000, "go", [[]], [5]):
        assert not world_run(WORLD, {"status": "success", "trace": wrong}).deeds
    assert world_run(WORLD, {"status": "won", "trace": calls}).status == "error"


def test_a_forged_run_is_worth_what_its_calls_are(sandbox):
    reference = 'def task_program():\n    go_to("lab")\n    pick("mug")\n    go_to("start_loc")\n    place("mug")\n'
    [known] = asyncio.run(references(sandbox, [Task("Bring me the mug from the lab.", reference)]))
    claim = {"status": "success", "error": "", "place": None, "trace": [["pick", "mug"], ["place", "mug"]]}
    [[run]] = asyncio.run(run_in(sandbox, [(forging(json.dumps(claim) + "\n{}\n"), known.worlds)]))
    assert not run.deeds
