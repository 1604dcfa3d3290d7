"""Traces and open worlds of our own with verdicts from slow, plain readings of the rules, written here: no file from
outside is needed. The rules are those of envs/roboeval/trace.py and of RoboSim (Hu et al. 2025, arXiv 2405.20179)."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from fractions import Fraction

from envs.roboeval import explore
from envs.roboeval.trace import KINDS, satisfied

PLACES, WORDS = ["kitchen", "hall", "start_loc"], ["cup", "tea", "no tea", "the kitchen"]


# --- the trace language, from its definition ----------------------------------------------------------------------


def holds(event, trace_event) -> bool:
    kind, text, options = trace_event
    if "away" in event:
        return kind == "GoTo" and re.search(rf"\b{event['away']}\b", text, re.IGNORECASE) is None
    [name] = [key for key in event if key != "options"]
    if kind != KINDS[name] or not fits(event[name], text):
        return False
    return name != "ask" or any(fits(event.get("options", ""), option) for option in options)


def fits(pattern, text) -> bool:
    if isinstance(pattern, str):
        return re.search(pattern, text, re.IGNORECASE) is not None
    return all(any(each in text.lower() for each in item.split("/")) for item in pattern["has"])


def cut(term, trace):
    if term == "trace":
        return trace
    [(how, (inner, event))] = term.items()
    whole = cut(inner, trace)
    hits = [n for n, each in enumerate(whole) if holds(event, each)]
    if not hits:
        return whole
    at = hits[-1] if how.endswith("last") else hits[0]
    return whole[at + 1 :] if how.startswith("after") else whole[:at]


def visited(trace, location, event) -> bool:
    """Whether the event happens after the first arrival and before the robot goes elsewhere."""
    arrivals = [n for n, each in enumerate(trace) if holds({"go": location}, each)]
    if not arrivals:
        return False
    stay = list(itertools.takewhile(lambda each: not holds({"away": location}, each), trace[arrivals[0] + 1 :]))
    return any(holds(event, each) for each in stay)


def expected(condition, trace) -> bool:
    [(what, value)] = [(k, v) for k, v in condition.items() if k not in ("least", "most")]
    if what == "and":
        return all(expected(each, trace) for each in value)
    if what == "or":
        return any(expected(each, trace) for each in value)
    if what == "not":
        return not expected(value, trace)
    if what == "report":
        return visited(cut({"after": ["trace", {"away": "start_loc"}]}, trace), "start_loc", {"say": value})
    whole = cut(value[0], trace)
    if what == "in":
        return any(holds(value[1], each) for each in whole)
    if what == "visit":
        return visited(whole, value[1], value[2])
    if what == "count":
        number = sum(holds(value[1], each) for each in whole)
        return condition["least"] <= number <= condition["most"]
    while any(holds({"go": value[1]}, each) for each in whole):  # anyvisit
        if visited(whole, value[1], value[2]):
            return True
        whole = cut({"after": ["trace", {"go": value[1]}]}, whole)
    return False


def random_event(chance):
    name = chance.choice([*KINDS, "away"])
    if name == "away":
        return {"away": chance.choice(PLACES)}
    pattern = chance.choice(["", "tea", "^the", "CUP", {"has": ["no/cup"]}, {"has": ["tea", "no"]}, *PLACES])
    return {name: pattern, **({"options": chance.choice(["", "tea", "cup"])} if name == "ask" else {})}


def random_condition(chance, depth=2):
    kind = chance.choice(["in", "visit", "anyvisit", "report", "count", *(["and", "or", "not"] if depth else [])])
    if kind in ("and", "or"):
        return {kind: [random_condition(chance, depth - 1) for _ in range(2)]}
    if kind == "not":
        return {kind: random_condition(chance, depth - 1)}
    if kind == "report":
        return {kind: chance.choice(["tea", "no", ""])}
    term = "trace"
    for _ in range(chance.randrange(3)):
        term = {chance.choice(["after", "before", "after_last", "before_last"]): [term, random_event(chance)]}
    if kind == "count":
        return {kind: [term, random_event(chance)], "least": chance.randrange(2), "most": chance.randrange(1, 4)}
    if kind == "in":
        return {kind: [term, random_event(chance)]}
    return {kind: [term, chance.choice(PLACES), random_event(chance)]}


def random_trace(chance):
    trace = []
    for _ in range(chance.randrange(12)):
        kind = chance.choice([*KINDS.values(), "GoTo", "GoTo"])
        text = chance.choice(PLACES if kind == "GoTo" else WORDS)
        trace.append((kind, text, chance.sample(WORDS, 2) if kind == "Ask" else None))
    return trace


def test_conditions_on_random_traces():
    chance, results = random.Random(0), Counter()
    for _ in range(6000):
        condition, trace = random_condition(chance), random_trace(chance)
        wanted = expected(condition, trace)
        assert satisfied(condition, trace) == wanted, (condition, trace)
        results[wanted] += 1
    assert min(results.values()) > 1000


# --- open worlds, from the rules: every list of coins is tried ----------------------------------------------------


class Failed(Exception):
    pass


class World:
    """RoboSim for the few calls of the programs below, without waiting: coins are given, 0 means that it is there."""

    def __init__(self, coins):
        self.coins, self.used = coins, 0
        self.room, self.held, self.known, self.kinds = "start_loc", None, {}, {}

    def kind(self, name, kind):
        old = self.kinds.get(name)
        if old in (None, "either"):
            old = self.kinds[name] = kind
        allowed = {"object": "object either", "person": "person location either", "location": "person location"}
        if old != kind and kind not in allowed.get(old, "either").split():
            raise Failed("RobotTypeError")

    def coin(self):
        self.used += 1
        return self.coins[self.used - 1]

    def go_to(self, name):
        self.room = name
        self.kind(name, "location")

    def is_in_room(self, name):
        self.kind(name, "either")
        if (self.room, name) not in self.known:
            self.known[self.room, name] = self.coin() == 0
        return self.known[self.room, name]

    def ask(self, name, question, options):
        self.kind(name, "person")
        if self.known.setdefault((self.room, name), True) is False:
            raise Failed("RobotAskError")
        return options[self.coin()]

    def pick(self, name):
        if self.held:
            raise Failed("RobotPickError")
        self.held = name
        self.kind(name, "object")
        if self.known.pop((self.room, name), True) is False:
            self.known[self.room, name] = False
            raise Failed("RobotPickError")

    def place(self, name):
        if self.held != name:
            raise Failed("RobotPlaceError")
        self.held = None
        self.kind(name, "object")
        self.known[self.room, name] = True

    def say(self, message):
        pass


MOST_COINS = 6


def probabilities(program: str) -> dict[str, Fraction]:
    """Each list of coins has the same probability; a run uses its first ones."""
    results: Counter[str] = Counter()
    for coins in itertools.product((0, 1), repeat=MOST_COINS):
        world = World(coins)
        names = ("go_to", "is_in_room", "ask", "pick", "place", "say")
        space = {name: getattr(world, name) for name in names}
        exec(program, space)
        try:
            space["task_program"]()
            results["ok"] += 1
        except Failed as error:
            results[str(error)] += 1
    return {name: Fraction(number, 2**MOST_COINS) for name, number in results.items()}


def random_program(chance) -> str:
    lines, coins = [], 0
    for _ in range(chance.randrange(3, 8)):
        name, call = (
            chance.choice(["a", "b", "c"]),
            chance.choice(["go_to", "pick", "place", "pick", "place", "if", "ask"]),
        )
        if call in ("if", "ask") and coins < MOST_COINS:
            coins += 1
            test = f"is_in_room('{name}')" if call == "if" else f"ask('{name}', 'x', ['y', 'n']) == 'y'"
            lines += [f"    if {test}:", f"        {chance.choice(['go_to', 'pick', 'place', 'say'])}('{name}')"]
        elif call not in ("if", "ask"):
            lines.append(f"    {call}('{name}')")
    return "\n".join(["def task_program():", *(lines or ["    say('x')"])]) + "\n"


def test_probabilities_of_random_programs(sandbox):
    chance = random.Random(0)
    programs = [random_program(chance) for _ in range(150)]
    kinds: Counter[str] = Counter()
    for program, results in zip(programs, asyncio.run(explore(sandbox, programs, shaking="none", runs=0)), strict=True):
        wanted = probabilities(program)
        assert {name: Fraction(share) for name, share in results.outcomes.items()} == wanted, program
        kinds.update(wanted)
    assert {"ok", "RobotTypeError", "RobotPickError", "RobotPlaceError", "RobotAskError"} <= set(kinds), kinds
