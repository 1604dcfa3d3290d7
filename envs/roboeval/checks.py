"""The conditions on traces of RoboEval's 16 tasks in each of their 52 worlds (Hu et al. 2024, arXiv 2311.11183).

Prompts and worlds are not part of this package: their licence allows evaluation only, and they are read from a folder
that the user names (worlds.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from envs.roboeval import checks_delivery as delivery
from envs.roboeval.trace import (
    ANY,
    Condition,
    EventTest,
    Pattern,
    T,
    TraceTerm,
    after,
    after_last,
    ask,
    away,
    before,
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
SNACKS: Sequence[Sequence[str | None]] = [
    ["donut", "cake", "donut", "cake"],
    ["sandwich", "donut", "cake", "beef/jerky"],
    ["beef/jerky", "cake", "cake", None],
    [None, "sandwich", "beef/jerky", "sandwich"],
]
TREATS: Sequence[Sequence[str | None]] = [
    ["gumm", "caramel", "choco"],
    ["caramel", "gumm", "caramel"],
    ["choco", "choco", None],
]
"""The answer in each office of each world; None if nobody is there."""


def office(name: str) -> str:
    return f"{name}'s office"


def asks(trace: TraceTerm, location: str, pattern: Pattern) -> Condition:
    """During the first stay at a place, a question or one of its options matches `pattern`."""
    return some(visit(trace, location, ask(pattern)), visit(trace, location, ask(ANY, pattern)))


def goes(*locations: str, trace: TraceTerm = T) -> Condition:
    return every(*(inside(trace, go(location)) for location in locations))


def never(*events: EventTest, trace: TraceTerm = T) -> Condition:
    return every(*(no(inside(trace, event)) for event in events))


def count_savory(world: int) -> Condition:
    names = ["alice", "bob", "charlie", "david"]
    answers = SNACKS[world]
    told = has(["0/zero/no", "2/two", "1/one", "3/three"][world])

    def asked(name: str, pattern: Pattern) -> Condition:
        stay = after(T, go(office(name)))
        return every(asks(T, office(name), pattern), inside(before(stay, ask(pattern)), check()))

    occupied = [answer for answer in answers if answer]
    return every(
        goes(*map(office, names)),
        never(go("lobby"), go("cafeteria")),
        *(visit(T, office(name), check()) for name in names),
        *(
            asked(name, has(answer)) if answer else no(asked(name, ANY))
            for name, answer in zip(names, answers, strict=True)
        ),
        goes(*map(office, names), trace=before(T, say(told))),
        report(told),
        count(T, ask(), len(occupied), len(occupied)),
    )


def elevator_tour(world: int) -> Condition:
    tour = ask(has("tour"))
    asked = visit(T, "elevator", tour)
    always = every(
        never(away(START), trace=before(T, go("elevator"))),
        never(go("lobby")),
        visit(T, "elevator", check()),
        exactly(world != 2, asked),
    )
    if world:
        return always
    welcome, follow = say(has("welcome", "university")), say(has("follow"))
    stay = before(after(T, go("elevator")), away("elevator"))
    return every(
        always,
        visit(T, "elevator", welcome),
        visit(T, "elevator", follow),
        inside(before(stay, welcome), tour),
        inside(before(stay, follow), tour),
        inside(before(T, go("conference")), welcome),
        inside(before(T, go("conference")), follow),
        never(away("elevator"), trace=before(after(T, go("elevator")), go("conference"))),
        visit(T, "conference", say(has("arr"))),
    )


def grilled_cheese(world: int) -> Condition:
    zarko = office("zarko")
    return every(
        never(go("lobby")),
        goes(zarko),
        asks(T, zarko, has("cheese")),
        asks(T, zarko, has("bread")),
        visit(after(T, go(zarko)), START, say()),
    )


def halloween_list(world: int) -> Condition:
    names = ["sally", "mark", "cindy"]
    answers = TREATS[world]
    pairs = [
        [("choco", "1/one"), ("gumm", "1/one"), ("caramel", "1/one")],
        [("gumm", "1/one"), ("caramel", "2/two")],
        [("choco", "2/two")],
    ][world]
    told = [has(*pair) for pair in pairs]
    return every(
        goes(*map(office, names)),
        never(go("kitchen")),
        *(visit(T, office(name), check()) for name in names),
        *(
            exactly(answer is not None, asks(T, office(name), has(answer) if answer else ANY))
            for name, answer in zip(names, answers, strict=True)
        ),
        *(goes(office("sally"), office("cindy"), trace=before(T, say(pattern))) for pattern in told),
        *(report(pattern) for pattern in told),
    )


def halloween_shopping(world: int) -> Condition:
    total = ["12", "6", "4", "0/zero/no", "0/zero/no"][world]
    return every(
        goes(office("gavin"), office("sunny"), office("frank")),
        never(go("lobby"), go("robotics")),
        *(report(has(total, treat)) for treat in ("choco", "caramel", "gumm")),
    )


def lunch_break(world: int) -> Condition:
    joins = dict(
        zip(("alice", "bob"), [(True, True), (False, False), (True, False), (False, True)][world], strict=True)
    )
    lunch, invitation = ask(has("lunch")), say(has("5/five", "lobby"))

    def meet(name: str) -> Condition:
        stay = before(after(T, go(office(name))), away(office(name)))
        return every(visit(T, office(name), invitation), inside(before(stay, invitation), lunch))

    def named(name: str) -> Condition:
        pattern: Pattern = {"all": [has(name), {"not": r"\bno\b"}, {"not": r"\Anot\b"}]}
        return every(goes(office("alice"), office("bob"), trace=before(T, say(pattern))), report(pattern))

    return every(
        goes(office("alice"), office("bob")),
        never(go(office("charlie"))),
        *(visit(T, office(name), lunch) for name in joins),
        *(exactly(joining, meet(name)) for name, joining in joins.items()),
        *(exactly(joining, named(name)) for name, joining in joins.items()),
    )


def lunch_time(world: int) -> Condition:
    jill, lunch = office("jill"), ask(has("lunch"))
    always = every(
        goes(jill),
        never(go(office("andrew"))),
        visit(T, jill, lunch),
        goes(jill, trace=before(T, say())),
        report(ANY),
    )
    if world:
        return every(always, never(ask(), trace=after(T, lunch)), never(ask(), trace=before(T, lunch)))
    good = has("11/eleven/12/twelve")
    bad = has("/".join(f"{hour}:" for hour in (17, 18, 19, 20, 21, 22, 23, 24, 4, 5, 6, 7, 8)))
    return every(
        always,
        asks(T, jill, good),
        never(ask(good), ask(ANY, good), trace=before(T, lunch)),
        no(asks(T, jill, bad)),
    )


def movie_messenger(world: int) -> Condition:
    sally, mark = office("sally"), office("mark")
    rest = after(T, go(mark))
    always = every(
        goes(sally, mark),
        never(go(mark), trace=before(T, go(sally))),
        never(go(START), trace=before(after(T, go(sally)), go(mark))),
        visit(T, sally, ask(has("cinema/film/movie", "mark"))),
        visit(T, mark, say()),
        never(ask(), trace=before(rest, say())),
    )
    if world == 2:
        return every(always, never(ask(), trace=after(rest, say(has("no")))))
    hour = has(["6", "5"][world], "pm")
    return every(
        always,
        asks(T, mark, hour),
        goes(sally, trace=rest),
        never(go(START), trace=before(rest, go(sally))),
        visit(rest, sally, say(hour)),
    )


def say_good_day(world: int) -> Condition:
    labs = ["sam's lab", "amy's lab"]
    occupied = [labs, labs[:1], labs[1:], []][world]
    wish = say(has("good", "day"))

    def wished(lab: str) -> Condition:
        return every(visit(T, lab, wish), inside(before(after(T, go(lab)), wish), check()))

    def silent(lab: str) -> Condition:
        return every(no(visit(T, lab, say(has("good")))), no(visit(T, lab, say(has("day")))))

    return every(
        goes(*labs),
        never(go("lobby"), go("conference")),
        *(visit(T, lab, check()) for lab in labs),
        *(wished(lab) if lab in occupied else silent(lab) for lab in labs),
    )


def set_temperature(world: int) -> Condition:
    arjun = office("arjun")
    number = [r"\b(7[3-9]|8[0-9])\b", r"\b(5[0-9]|6[0-9]|7[01])\b"][world]
    return every(
        goes(arjun),
        never(go(office("joydeep"))),
        asks(T, arjun, has(["wa", "co"][world])),
        report(number),
        goes(START, trace=after(T, go(arjun))),
    )


def weather_poll(world: int) -> Condition:
    entrance = "entrance"
    if world == 4:
        return every(goes(entrance), never(go("conference")), inside(T, check()), never(ask(), say()))

    def checked_just_before(trace: TraceTerm) -> Condition:
        waiting = before(trace, ask())
        between = after_last(waiting, check())
        quiet = never(away(entrance), say(), pick(), place(), trace=between)
        return every(inside(trace, ask()), inside(waiting, check()), quiet)

    told: list[Pattern] = [
        [has("100/hundred/all"), has(" 10")],
        [has("0/zero/no")],
        [has("60/sixty/6"), has(" 6")],
        [{"any": [has("40/forty/fourty"), r"\A4\b"]}, has(" 4")],
    ][world]
    there = after(T, go(entrance))
    return every(
        goes(entrance),
        never(go("conference")),
        count(there, check(), 10),
        count(there, ask(), 10, 10),
        checked_just_before(T),
        checked_just_before(after(T, ask())),
        some(*(report(pattern) for pattern in told)),
    )


TASKS: dict[str, tuple[Callable[[int], Condition], int]] = {
    "CountSavory": (count_savory, 4),
    "ElevatorTour": (elevator_tour, 3),
    "FindBackpack": (delivery.find_backpack, 3),
    "GetDrink": (delivery.get_drink, 3),
    "GrilledCheese": (grilled_cheese, 1),
    "HalloweenList": (halloween_list, 3),
    "HalloweenShopping": (halloween_shopping, 5),
    "LunchBreak": (lunch_break, 4),
    "LunchTime": (lunch_time, 2),
    "MailDelivery": (delivery.mail_delivery, 4),
    "MovieMessenger": (movie_messenger, 3),
    "SayGoodDay": (say_good_day, 4),
    "SetTemperature": (set_temperature, 2),
    "StaplerDelivery": (delivery.stapler_delivery, 3),
    "StaplerSupply": (delivery.stapler_supply, 3),
    "WeatherPoll": (weather_poll, 5),
}
"""By name of the task: its condition by number of the world, and the number of its worlds."""


@functools.cache
def conditions(task: str) -> Sequence[Condition]:
    """The condition of each world of a task. Raises KeyError for an unknown task."""
    build, worlds = TASKS[task]
    return tuple(build(world) for world in range(worlds))
