"""The reward beside a reference: right programs in any dress have full marks, useless ones next to none."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import statistics
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from envs.roboeval import bundle
from envs.roboeval.reference_world import MOST_CALLS, START
from envs.roboeval.references import Task, is_ordered, references, run_in
from envs.roboeval.spare_rooms import ROOMS
from envs.roboeval.task import RoboEval
from envs.task import Problem
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.robot import Simulator
from tests.bench.robot_programs import MUTANTS, USELESS
from tests.envs.roboeval.test_hardened import DIGGERS

PROBLEMS = {problem.id.removeprefix("roboeval/"): problem for problem in RoboEval().problems("train")}
VARIANTS = [json.loads(line) for line in (Path(__file__).parent / "variants.jsonl").read_text().splitlines()]
"""Right programs in another way: other names, loops, words, and another order where the instruction leaves it open."""
GRADED = [json.loads(line) for line in (Path(__file__).parent / "graded_programs.jsonl").read_text().splitlines()]
"""Right and wrong programs for generated instructions, written by hand: a wrong one differs in one thing."""
CAP = 0.15
HARDEST = ("patrol-06", "patrol-08", "guide-05", "survey-05")
"""Instructions on which programs that go everywhere earn most; tests/bench/robot_programs.py measures all."""


def body(text: str) -> str:
    return "def task_program():\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n"


def completion(code: str) -> Completion:
    edges = [*range(0, len(code), 3), len(code)]
    offsets = [*itertools.pairwise(edges), (len(code), len(code))]
    return Completion(code, range(len(offsets)), offsets, (0, len(code)))


@pytest.fixture(scope="module")
def scored(sandbox):
    return scorer(Simulator(sandbox))


@pytest.fixture(scope="module")
def scored_by_act(sandbox):
    return scorer(Simulator(sandbox, acts="each"))


def scorer(channel):
    """The results of programs, each with the problem that it answers; every score is conserved in its tokens."""

    def run(pairs):
        answers = [completion(code) for _, code in pairs]
        results = asyncio.run(channel.score([problem for problem, _ in pairs], answers))
        for answer, result in zip(answers, results, strict=True):
            assert sum(attribute(answer, result, True)) == pytest.approx(result.score, abs=1e-9)
            assert -1e-9 <= result.score <= 1
        return results

    return run


def test_every_reference_has_full_marks(scored):
    for problem, result in zip(PROBLEMS.values(), scored([(p, p.reference) for p in PROBLEMS.values()]), strict=True):
        assert result.score == 1 and result.passed and result.verdict == "ok", (problem.id, result.note)


def test_right_programs_written_in_another_way_have_full_marks(scored):
    assert len(VARIANTS) >= 20
    results = scored([(PROBLEMS[row["id"]], row["program"]) for row in VARIANTS])
    for row, result in zip(VARIANTS, results, strict=True):
        assert row["program"] != PROBLEMS[row["id"]].reference
        assert result.score == 1 and result.passed, (row["id"], result.score, result.note)


def test_it_does_not_matter_which_of_two_things_is_looked_for_first(scored):
    """Nor in a world in which nothing is to be done, where the second may not be looked for at all."""
    two = re.compile(r"(is_in_room\([^)]*\)) and (is_in_room\([^)]*\))")
    problems = [p for p in RoboEval(generated=20).problems("train") if two.search(p.reference)]
    assert len(problems) > 100
    swapped = [(problem, two.sub(r"\2 and \1", problem.reference)) for problem in problems]
    for problem, result in zip(problems, scored(swapped), strict=True):
        assert result.score == 1 and result.passed, (problem.id, result.note)
    never = [(problem, two.sub("False", problem.reference)) for problem in problems]
    assert max(result.score for result in scored(never)) < 0.9


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_programs_for_generated_instructions_are_graded_right(scored, right):
    rows = [row for row in GRADED if row["right"] == right]
    assert len(rows) > 100
    problems = [
        Problem(
            id=row["id"],
            question=row["text"],
            reference=row["reference"],
            data={"ordered": True} if row.get("ordered") else {},
        )
        for row in rows
    ]
    results = scored([(problem, row["program"]) for problem, row in zip(problems, rows, strict=True)])
    wrong = [
        (row["id"], result.score, result.note)
        for row, result in zip(rows, results, strict=True)
        if result.passed != right
    ]
    assert wrong == []


USELESS = USELESS | {
    "goes to every room that is not known to be spare": lambda row: body(
        f"""
        told = []
        for room in get_all_rooms():
            if room not in {(*ROOMS, START)}:
                go_to(room)
                try:
                    told.append(ask("", "Yes or no?", ["yes", "no"]))
                except Exception:
                    pass
                if is_in_room("person"):
                    say("Please leave.")
        go_to("start_loc")
        say("Yes, I have checked: " + ", ".join(told))
        """
    ),
    "goes to the rooms of the largest group": lambda row: body(
        """
        from collections import Counter
        rooms = get_all_rooms()
        [(first, _)] = Counter(room.split()[0] for room in rooms).most_common(1)
        for room in rooms:
            if room.split()[0] == first:
                go_to(room)
        go_to("start_loc")
        say("Done.")
        """
    ),
}


TRY_MANY_NAMES = [name for name in USELESS if "takes" in name or "looks for" in name]
"""These call the robot hundreds of times."""


@pytest.mark.parametrize("name", [*USELESS, "another task's program"])
def test_programs_that_know_no_instruction_earn_less_than_the_cap(scored, name):
    """On shipped instructions, and on some without their references."""
    problems, pairs = list(PROBLEMS.values()), []
    step = 12 if name in TRY_MANY_NAMES else 2
    for number, problem in enumerate(problems):
        other = problems[(number + 7) % len(problems)].reference
        code = USELESS[name]({"text": problem.question}) if name in USELESS else other
        pairs += [(problem, code)] if number % step == 1 or problem.id.endswith(HARDEST) else []
        pairs += [(Problem(problem.id, problem.question), code)] if number % 15 == 0 or number == 87 else []
    for (problem, _), result in zip(pairs, scored(pairs), strict=True):
        assert result.score < CAP and not result.passed, (problem, result.score, result.note)


def test_nearly_right_programs_are_graded_between(scored):
    """Mutants of the references lose, and keep more than useless programs have."""
    pairs = [(p, code) for p in PROBLEMS.values() for make in MUTANTS.values() for code in make(p.reference)][::9]
    shares = [result.score for result in scored(pairs)]
    assert 0.35 < statistics.mean(shares) < 0.8 and len(set(shares)) > 20
    assert sum(share == 1 for share in shares) <= 1


PATIENCE = Problem(
    "t/wait",
    "Wait at the gate for Ruth, then come back and tell me that she has arrived.",
    reference=body(
        """
        start = get_current_location()
        go_to("gate")
        while not is_in_room("Ruth"):
            time.sleep(1)
        go_to(start)
        say("Ruth has arrived.")
        """
    ),
)


def test_who_waits_meets_who_comes_late(scored):
    impatient = body('go_to("gate")\nif is_in_room("Ruth"):\n    go_to("start_loc")\n    say("Ruth arrived")')
    patient = body(
        'go_to("gate")\nseen = False\nwhile not seen:\n    seen = is_in_room("Ruth")\n'
        'go_to("start_loc")\nsay("Ruth arrived")'
    )
    few, many = scored([(PATIENCE, impatient), (PATIENCE, patient)])
    assert many.score == 1 and few.score < 0.7


def test_wrong_words_and_wrong_calls_are_charged(scored):
    problem = PROBLEMS["inspect-01"]  # is there a puddle in the boiler room?
    code = problem.reference.replace("There is no puddle", "There is a puddle")
    [result] = scored([(problem, code)])
    charged = {code[span.start : span.end] for span in result.spans if span.value < 0}
    assert charged == {'say("There is a puddle in the boiler room.")'} and 0.3 < result.score < 0.8
    [result] = scored([(problem, problem.reference.replace('go_to("boiler room")', 'go_to("cellar")'))])
    assert [result.verdict, result.score] == ["RobotGoToError", 0]
    assert {(span.start, span.end) for span in result.spans if span.value < 0}
    assert result.detail["rooms"] and result.detail["error"]


def test_the_order_counts_where_the_instruction_gives_one(scored):
    problem = PROBLEMS["errand-04"]  # first the bucket and then the mop
    turned = problem.reference.replace("for tool in ['bucket', 'mop']:", "for tool in ['mop', 'bucket']:")
    free = Problem("t/free", problem.question, reference=problem.reference, data={"ordered": False})
    first, second = scored([(problem, turned), (free, turned)])
    assert turned != problem.reference and first.score < 1 and second.score == 1


def test_a_reference_that_never_ends_well_leaves_the_words_of_the_instruction(scored):
    question = "Bring the mug from the kitchen to the lab."
    broken = Problem("t/broken", question, reference=body("undefined()"))
    right = body('go_to("kitchen")\npick("mug")\ngo_to("lab")\nplace("mug")')
    results = scored([(broken, right), (broken, body(f"say({question!r})")), (Problem("t/none", question), right)])
    assert [result.score for result in results] == [1, 0, 1]


def test_a_lost_sandbox_grades_nothing():
    class Lost:
        async def run(self, jobs, progress=None):
            from envs.sandbox import Outcome

            return [Outcome(job.id, "error", 0, 0, 0.0) for job in jobs]

    problem = PROBLEMS["fetch-01"]
    assert asyncio.run(Simulator(Lost()).score([problem], [completion(problem.reference)])) == [None]


def test_worlds_differ_and_do_not_depend_on_the_run(sandbox):
    task = Task(PROBLEMS["survey-05"].question, PROBLEMS["survey-05"].reference)
    [first], [second] = (asyncio.run(references(sandbox, [task])) for _ in range(2))
    assert first == second and 4 <= len(first.worlds) <= 8
    assert len({json.dumps([[d.kind, d.room, d.text] for d in run.deeds]) for run in first.runs}) == len(first.worlds)


def test_no_world_has_a_room_twice(sandbox, monkeypatch):
    """The robot takes "locker A", a room to spare, for the "locker a" that a program has visited."""
    monkeypatch.setattr("envs.roboeval.references.spare_rooms", lambda text, number: ["locker A", "locker B", "attic"])
    task = Task("Say hello in every room.", body('for room in get_all_rooms():\n    go_to(room)\n    say("hello")'))
    [reference] = asyncio.run(references(sandbox, [task]))
    rooms = [[room.lower() for room in world["rooms"]] for world in reference.worlds]
    assert rooms and any("locker a" in each for each in rooms) and all(len(each) == len({*each}) for each in rooms)


def test_a_program_cannot_learn_a_world_without_asking(sandbox):
    """The hiding place is not in the program, so it can only come from the world."""
    task = Task(
        "Fetch the swordfish from the hall.",
        body('go_to("hall")\npick("swordfish")\ngo_to("start_loc")\nplace("swordfish")'),
    )
    [reference] = asyncio.run(references(sandbox, [task]))
    told = '\nsay("found " + ("sword" + "fish") if ("sword" + "fish") in repr(found) else "nothing")'
    programs = [(body(textwrap.dedent(dig).strip() + told), reference.worlds) for dig in DIGGERS.values()]
    for name, runs in zip(DIGGERS, asyncio.run(run_in(sandbox, programs)), strict=True):
        message = [deed.text for run in runs for deed in run.deeds if deed.kind == "say"]
        assert not [text for text in message if "swordfish" in text], name


@pytest.mark.parametrize(
    ("instruction", "ordered"),
    [
        ("First take the rope to the barn, then the mug to the hall.", True),
        ("Carry the first aid kit from the office to the hall and the rope to the barn, then stay there.", False),
        ("Look on the first floor for a ladder, then report.", False),
    ],
)
def test_a_first_thing_is_no_order(instruction, ordered):
    assert is_ordered(Task(instruction, "")) is ordered


def test_with_acts_each_what_an_act_earns_lies_on_its_call(scored_by_act):
    problem = PROBLEMS["fetch-01"]  # bring the torque wrench from the workshop
    dropped, lost = problem.reference.replace('place("torque wrench")', "pass"), "go_to('attic')"
    failing = problem.reference.replace('pick("torque wrench")', f'pick("torque wrench")\n    {lost}')
    results = scored_by_act([(problem, code) for code in (problem.reference, dropped, failing)])
    earned = [
        {span.part: (completion(code).text[span.start : span.end], span.value) for span in result.spans if span.part}
        for code, result in zip([problem.reference, dropped, failing], results, strict=True)
    ]
    pick, place = "pick torque wrench in workshop", f"place torque wrench in {START}"
    assert {name: code for name, (code, _) in earned[0].items()} == {
        pick: 'pick("torque wrench")',
        place: 'place("torque wrench")',
    }
    assert sum(value for _, value in earned[0].values()) == pytest.approx(1)
    assert [*earned[1]] == [*earned[2]] == [pick]
    assert 0 < earned[2][pick][1] < earned[0][pick][1]
    charged = [span for span in results[2].spans if span.value < 0]
    assert [failing[span.start : span.end] for span in charged] == [lost]


def test_acts_change_where_rewards_lie_and_not_how_much_is_earned(scored, scored_by_act):
    pairs = []
    for number, problem in enumerate([*PROBLEMS.values()][::6]):
        row = {"text": problem.question, "program": problem.reference}
        useless = [made(row) for name, made in USELESS.items() if name not in TRY_MANY_NAMES or number == 0]
        mutants = [code for made in MUTANTS.values() for code in made(problem.reference)]
        pairs += [(problem, code) for code in (problem.reference, *filter(None, useless), *mutants)]
    together, parts = scored(pairs), scored_by_act(pairs)
    assert [r.score for r in parts] == pytest.approx([r.score for r in together])
    assert [r.passed for r in parts] == [r.passed for r in together]
    assert not any(span.part for r in together for span in r.spans)
    for result in parts:
        assert sum(span.value for span in result.spans if span.part) <= result.score + 1e-9


def test_slow_programs_take_no_time_from_those_that_share_their_process(sandbox, monkeypatch):
    monkeypatch.setitem(bundle.LIMITS, "closed", replace(bundle.LIMITS["closed"], cpu_s=1.0))
    world = {"rooms": [START, "hall"], "things": {}, "people": {}}
    slow = body('sum(range(1_500_000))\ngo_to("hall")')  # 16 of these in 8 worlds take 1.5 s or more, one of them 0.1 s
    runs = asyncio.run(run_in(sandbox, [(slow, [world] * 8)] * 16))
    assert {run.status for each in runs for run in each} == {"success"}


def test_as_many_calls_as_are_allowed_end_before_the_limit_of_time(sandbox):
    world = {"rooms": [START, *(f"{name} {n}" for name in ("west wing", "old shed") for n in range(6))]}
    code = body('for n in range(5000):\n    is_in_room(f"thing {n % 90}")\n    go_to("old shed 3")')
    [[run]] = asyncio.run(run_in(sandbox, [(code, [{**world, "things": {}, "people": {}}])]))
    assert (run.status, len(run.deeds)) == ("timeout", MOST_CALLS)
