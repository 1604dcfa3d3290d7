"""Simulations: games, machines, animals and queues that change step by step."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(2)
def climbing_snail(s: Source) -> Draft:
    up = s.number(3, 8)
    return draft(
        "days_to_climb|snail_days|climb_out",
        "depth|height|wall: int -> int",
        [
            "A snail climbs $up meters every day and slides down $down meters every night. Return on which day it "
            "first reaches a height of at least $depth meters. The first day has the number 1.",
            "Each day adds $up to the position of a snail that begins at 0, and each night takes away $down. Return "
            "the number of the day on which the position is $depth or more for the first time.",
        ],
        """
        day, position = 1, $up
        while position < $depth:
            day += 1
            position += $up - $down
        return day
        """,
        lambda: (s.number(1, 30),),
        [(1,), (up,), (up + 1,)],
        up=up,
        down=s.number(1, 2),
    )


@family(2)
def rabbit_population(s: Source) -> Draft:
    return draft(
        "animals_after|population|herd_size",
        "start|animals|herd: int, years|seasons|times: int -> int",
        [
            "A herd has $start animals. Every year its number is multiplied by $m, and then $sold animals are sold, "
            "but the number never falls below 0. Return the number after $years years.",
            "Do this $years times: multiply $start by $m and subtract $sold, and replace a negative result by 0. "
            "Return the final number.",
        ],
        """
        for _ in range($years):
            $start = max($start * $m - $sold, 0)
        return $start
        """,
        lambda: (s.number(0, 20), s.number(0, 4)),
        [(5, 0), (1, 3), (10, 2)],
        m=s.number(2, 3),
        sold=s.number(3, 12),
    )


@family(2)
def elevator_ride(s: Source) -> Draft:
    start = s.number(0, 5)
    return draft(
        "floors_travelled|elevator_distance|total_ride",
        "stops|floors|calls: list[int] -> int",
        [
            "An elevator begins at floor $start and goes to the floors in $stops, one after the other. Return how many "
            "floors it travels in all.",
            "Return the sum of the distances from $start to the first number of $stops, from there to the second, and "
            "so on.",
        ],
        """
        floor, travelled = $start, 0
        for stop in $stops:
            travelled += abs(stop - floor)
            floor = stop
        return travelled
        """,
        lambda: (s.ints(0, 12),),
        [([],), ([start],), ([start + 2, start],)],
        start=start,
    )


@family(2)
def battery_level(s: Source) -> Draft:
    top = s.pick(100, 50, 10, 80)
    return draft(
        "battery_level|tank_level|charge_after",
        "changes|events|uses: list[int] -> int",
        [
            "A battery begins with a charge of $top, which is also the largest possible one. Each number of $changes "
            "is added to the charge, which stays between 0 and $top. Return the charge at the end.",
            "Begin with $top. For each change in $changes, add it to the level; a level above $top becomes $top, and "
            "one below 0 becomes 0. Return the last level.",
        ],
        """
        level = $top
        for change in $changes:
            level = min($top, max(0, level + change))
        return level
        """,
        lambda: (s.ints(-top, top // 2),),
        [([],), ([5],), ([-2 * top, 3],), ([-3, 9],)],
        top=top,
    )


@family(2)
def waiting_queue(s: Source) -> Draft:
    come, go = s.pick(("in", "out"), ("+", "-"), ("join", "leave"), ("push", "pop"))
    return draft(
        "people_waiting|queue_length|line_size",
        "events|log|actions: list[str] -> int",
        [
            "The event '$come' in $events means that somebody joins a line, and '$go' that the first one leaves, if "
            "there is anybody. Return how many people are in the line at the end. It is empty at first.",
            "Begin with 0. Add 1 for each '$come' in $events and subtract 1 for each '$go', unless the number is 0. "
            "Return the final number.",
        ],
        """
        waiting = 0
        for event in $events:
            if event == "$come":
                waiting += 1
            elif waiting > 0:
                waiting -= 1
        return waiting
        """,
        lambda: (s.some([come, come, go], 0, 8),),
        [([],), ([go, come],), ([come, go, go, come],)],
        come=come,
        go=go,
    )


@family(2)
def bottle_exchange(s: Source) -> Draft:
    k = s.number(3, 6)
    return draft(
        "bottles_drunk|exchange_bottles|drinks_in_all",
        "money|bought|bottles: int -> int",
        [
            "You buy $money bottles and drink them. For every $k empty bottles the shop gives you a full one, which "
            "you drink too, and so on. Return how many bottles you drink in all.",
            "Begin with $money full bottles. Empty ones can be exchanged, $k for one full bottle, as long as there are "
            "enough. Return the number of bottles that can be drunk.",
        ],
        """
        drunk = empty = $money
        while empty >= $k:
            drunk += empty // $k
            empty = empty // $k + empty % $k
        return drunk
        """,
        lambda: (s.number(0, 40),),
        [(0,), (k,), (k - 1,), (2 * k,)],
        k=k,
    )


@family(1)
def melting_candle(s: Source) -> Draft:
    k = s.number(2, 6)
    return draft(
        "candle_heights|burning_down|lengths_each_hour",
        "length|height|start: int -> list[int]",
        [
            "A candle is $length centimeters long and loses $k every hour. Return a list of its lengths, beginning "
            "with $length, as long as they are larger than 0.",
            "Return the list of the numbers $length, $length - $k, $length - 2 * $k and so on that are positive.",
        ],
        "return list(range($length, 0, -$k))",
        lambda: (s.number(0, 30),),
        [(0,), (1,), (k,), (3 * k + 1,)],
        k=k,
    )


@family(3)
def thermostat(s: Source) -> Draft:
    low, high = s.number(15, 18), s.number(20, 24)
    return draft(
        "heating_states|thermostat|heater_log",
        "degrees|temperatures|readings: list[int] -> list[bool]",
        [
            "A heater is off at first. It is switched on when the temperature is below $low, and off when it is above "
            "$high; otherwise it stays as it was. Return a list that says for each number of $degrees whether it is "
            "on.",
            "For each reading in $degrees, set a state to True if the reading is less than $low and to False if it is "
            "greater than $high, and keep it otherwise. Return the list of states; before the first one it is False.",
        ],
        """
        on = False
        states = []
        for degree in $degrees:
            if degree < $low:
                on = True
            elif degree > $high:
                on = False
            states.append(on)
        return states
        """,
        lambda: (s.ints(low - 3, high + 3),),
        [([],), ([low],), ([low - 1, low, high, high + 1, high],)],
        low=low,
        high=high,
    )


@family(1)
def growing_plant(s: Source) -> Draft:
    need = s.number(2, 5)
    return draft(
        "plant_height|growth_with_water|height_of_plant",
        "rain|water|liters: list[int] -> int",
        [
            "A plant is $start centimeters high. On a day with at least $need liters of water it grows by $g "
            "centimeters, on any other day it does not. Return its height after the days in $rain.",
            "Return $start plus $g for every number in $rain that is not less than $need.",
        ],
        "return $start + $g * sum(day >= $need for day in $rain)",
        lambda: (s.ints(0, 8),),
        [([],), ([need],), ([need - 1],)],
        need=need,
        g=s.number(2, 6),
        start=s.number(3, 15),
    )


@family(3)
def minutes_to_meet(s: Source) -> Draft:
    return draft(
        "meeting_time|minutes_to_meet|when_they_meet",
        "distance|gap|meters: int, a|first|fast: int, b|second|slow: int -> int",
        [
            "Two walkers are $distance meters apart and walk towards each other with $a and $b meters a minute. Return "
            "after how many full minutes their distance is $left meters or less for the first time.",
            "Subtract the sum of $a and $b from $distance until it is at most $left, and return how often that is "
            "done. $a and $b are positive.",
        ],
        """
        minutes = 0
        while $distance > $left:
            $distance -= $a + $b
            minutes += 1
        return minutes
        """,
        lambda: (s.number(0, 120), s.number(1, 9), s.number(1, 9)),
        [(0, 1, 1), (20, 5, 5), (21, 5, 5)],
        left=s.number(2, 9),
    )
