"""Conditions of the RoboEval tasks in which an object is searched or carried; see checks.py."""

from __future__ import annotations

from envs.roboeval.trace import (
    ANY,
    Condition,
    T,
    TraceTerm,
    after,
    anyvisit,
    ask,
    away,
    before,
    before_last,
    check,
    count,
    every,
    exactly,
    go,
    has,
    inside,
    no,
    pick,
    place,
    report,
    say,
    some,
    visit,
)

START = "start_loc"
PRINTER_ROOMS = ["printer room 1", "printer room 2", "printer room 3"]


def find_backpack(world: int) -> Condition:
    room = f"conference room {world + 1}"
    put = place("backpack")
    return every(
        no(inside(T, go("lobby"))),
        no(inside(T, go("tom's office"))),
        some(visit(after(T, away(START)), START, put), no(inside(T, put))),
        inside(T, pick("backpack")),
        no(inside(T, place("laptop"))),
        no(inside(T, place("chair"))),
        anyvisit(T, room, pick("backpack")),
        count(T, pick(), most=1),
        visit(T, room, check("backpack")),
    )


def get_drink(world: int) -> Condition:
    drink = has(["water", "tea", "lemonade"][world])
    lobby, kitchen = go("lobby"), go("kitchen")
    return every(
        inside(T, lobby),
        inside(T, kitchen),
        no(inside(T, go("office"))),
        no(inside(before(T, lobby), away(START))),
        inside(after(T, lobby), kitchen),
        inside(after(T, kitchen), lobby),
        no(inside(before_last(after(T, lobby), lobby), go(START))),
        some(visit(T, "lobby", ask(drink)), visit(T, "lobby", ask(ANY, drink))),
        visit(T, "kitchen", pick(drink)),
    )


def mail_delivery(world: int) -> Condition:
    answers = [(True, True, True), (False, True, True), (True, False, False), (False, False, False)][world]
    has_mail = dict(zip(("alice", "bob", "charlie"), answers, strict=True))
    offices = [f"{name}'s office" for name in has_mail]
    rest = after(T, go("mail room"))
    return every(
        *(inside(T, go(room)) for room in [*offices, "mail room"]),
        no(inside(T, go("lobby"))),
        no(inside(T, go("conference room"))),
        *(visit(T, room, ask(has("mail"))) for room in offices),
        visit(T, "mail room", pick("bin")),
        no(inside(before(T, go("mail room")), away(START))),
        visit(rest, "mail room", place("bin")),
        *(inside(before(rest, go("mail room")), go(room)) for room in offices),
        *(exactly(there, visit(rest, "mail room", say(has(name)))) for name, there in has_mail.items()),
    )


def stapler_delivery(world: int) -> Condition:
    needy = [PRINTER_ROOMS[1:], PRINTER_ROOMS[:1], PRINTER_ROOMS][world]
    stapler = pick("stapler")
    rest: TraceTerm = T
    deliveries = []
    for _ in needy:
        deliveries.append(visit(rest, "supply room", stapler))
        rest = after(rest, stapler)
    return every(
        *(inside(T, go(room)) for room in PRINTER_ROOMS),
        no(inside(T, go("meeting room"))),
        *(visit(T, room, check(has("stapler"))) for room in PRINTER_ROOMS),
        *deliveries,
        no(inside(rest, stapler)),
        *(anyvisit(T, room, place("stapler")) for room in needy),
        no(visit(T, "printer room", stapler)),
    )


def stapler_supply(world: int) -> Condition:
    without = [PRINTER_ROOMS[1:], PRINTER_ROOMS[:1], PRINTER_ROOMS][world]

    def told(number: int) -> Condition:
        pattern = has(str(number), "not/no/don't/doesn't/without")
        seen = [inside(before(T, say(pattern)), go(room)) for room in PRINTER_ROOMS]
        return every(*seen, report(pattern))

    return every(
        *(inside(T, go(room)) for room in PRINTER_ROOMS),
        no(inside(T, go("meeting room"))),
        *(visit(T, room, check(has("stapler"))) for room in PRINTER_ROOMS),
        *(exactly(room in without, told(number)) for number, room in enumerate(PRINTER_ROOMS, 1)),
    )
