"""Clock times, calendars, schedules and durations."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def to_minutes(s: Source) -> Draft:
    return draft(
        "to_minutes|minutes_since_midnight|clock_to_minutes",
        "hours|hour|h: int, minutes|minute|m: int -> int",
        [
            "Return how many minutes after midnight it is when the clock shows $hours hours and $minutes minutes, on a "
            "clock that goes $late minutes ahead of the real time. The result may be negative.",
            "A clock is $late minutes fast. It shows the hour $hours and the minute $minutes. Return the real number "
            "of minutes since midnight, which is negative before midnight.",
        ],
        "return $hours * 60 + $minutes - $late",
        lambda: (s.number(0, 23), s.number(0, 59)),
        [(0, 0), (23, 59)],
        late=s.pick(2, 3, 5, 7, 10),
    )


@family(1)
def hours_and_minutes(s: Source) -> Draft:
    big, small, n = s.pick(
        ("hours", "minutes", 60), ("minutes", "seconds", 60), ("weeks", "days", 7), ("feet", "inches", 12)
    )
    return draft(
        "split_duration|in_two_units|as_larger_unit",
        "total|amount|n: int -> str",
        [
            "Write $total $small as $big and $small: return a text like '2 $big 5 $small', where the number of $small "
            "is below $n. The words stay the same for 1: '1 $big 1 $small'. $total is not negative.",
            "There are $n $small in each unit of $big. Return the duration or length of $total $small as a text such "
            "as '2 $big 5 $small', with as many $big as possible; 1 of each is '1 $big 1 $small'.",
        ],
        'return f"{$total // $n} $big {$total % $n} $small"',
        lambda: (s.number(0, 6 * n),),
        [(0,), (n,), (n - 1,)],
        big=big,
        small=small,
        n=n,
    )


@family(1)
def clock_text(s: Source) -> Draft:
    sep = s.pick(":", ".", "h", " : ")
    return draft(
        "clock_text|show_time|format_time",
        "minutes|total|m: int -> str",
        [
            "Return the time $minutes minutes after midnight as two digits for the hours, $sep!r, and two digits for "
            "the minutes. $minutes is less than 1440 and not negative.",
            "Convert $minutes since midnight into a clock time with hours and minutes of two digits each and $sep!r "
            "between them. The number lies between 0 and 1439.",
        ],
        'return f"{$minutes // 60:02d}$sep{$minutes % 60:02d}"',
        lambda: (s.number(0, 1439),),
        [(0,), (60,), (599,), (1439,)],
        sep=sep,
    )


@family(2)
def parse_clock(s: Source) -> Draft:
    return draft(
        "parse_clock|read_time|time_to_number",
        "text|time|clock: str -> int",
        [
            "The text $text is a time such as '07:45'. Return it as a number of minutes since midnight.",
            "Convert a clock time, hours and minutes with a colon between them, into the minutes that have passed "
            "since 00:00. The time is given as $text.",
        ],
        """
        hours, minutes = $text.split(":")
        return int(hours) * 60 + int(minutes)
        """,
        lambda: (f"{s.number(0, 23):02d}:{s.number(0, 59):02d}",),
        [("00:00",), ("00:07",), ("23:59",)],
    )


@family(1)
def later_hour(s: Source) -> Draft:
    n, what = s.pick((24, "a clock with 24 hours, from 0 to 23"), (12, "a dial with the hours 0 to 11"))
    return draft(
        "later_hour|hour_after|turn_clock",
        "hour|now|start: int, passed|later|hours: int -> int",
        [
            "On $what it is $hour now. Return the hour that it shows $passed hours later.",
            "Return which hour follows $passed hours after $hour on $what. Both numbers are whole and not negative.",
        ],
        "return ($hour + $passed) % $n",
        lambda: (s.number(0, n - 1), s.number(0, 60)),
        [(0, 0), (n - 1, 1), (5, n)],
        n=n,
        what=what,
    )


@family(2)
def twelve_hour_clock(s: Source) -> Draft:
    am, pm = s.pick(("am", "pm"), ("AM", "PM"), ("a.m.", "p.m."))
    return draft(
        "twelve_hour_clock|with_am_pm|spoken_hour",
        "hour|h: int -> str",
        [
            "Return the hour $hour, a number from 0 to 23, on the clock with twelve hours: '1 $am' to '11 $am' for 1 "
            "to 11, '12 $pm' for 12, '1 $pm' to '11 $pm' for 13 to 23, and '12 $am' for 0.",
            "Write the full hour $hour (0 to 23) with '$am' before noon and '$pm' from noon on, as in '3 $pm'. The "
            "hours 0 and 12 are both written with the number 12.",
        ],
        """
        half = "$am" if $hour < 12 else "$pm"
        return f"{$hour % 12 or 12} {half}"
        """,
        lambda: (s.number(0, 23),),
        [(0,), (12,), (11,), (13,)],
        am=am,
        pm=pm,
    )


@family(2)
def night_shift(s: Source) -> Draft:
    return draft(
        "night_shift|length_of_shift|hours_between",
        "start|begin|first: int, end|stop|last: int -> int",
        [
            "A shift begins at the hour $start and ends at the hour $end, both from 0 to 23. If $end is not larger "
            "than $start, it ends on the next day. Return how many hours it lasts.",
            "Return the hours from $start to $end on a clock with 24 hours. When $end is smaller than $start or equal "
            "to it, midnight lies between them.",
        ],
        """
        if $end > $start:
            return $end - $start
        return $end + 24 - $start
        """,
        lambda: (s.number(0, 23), s.number(0, 23)),
        [(22, 6), (6, 22), (8, 8), (0, 1)],
    )


@family(2)
def total_playing_time(s: Source) -> Draft:
    return draft(
        "total_time|length_of_album|sum_of_durations",
        "songs|parts|laps: list[tuple[int, int]] -> tuple[int, int]",
        [
            "Each tuple in $songs is a duration in minutes and seconds. Return the sum of all durations as a tuple of "
            "minutes and seconds, with fewer than 60 seconds.",
            "Add up the times in $songs, which are tuples (minutes, seconds), and return the total in the same form, "
            "where the seconds are below 60.",
        ],
        """
        total = sum(60 * minutes + seconds for minutes, seconds in $songs)
        return total // 60, total % 60
        """,
        lambda: ([(s.number(0, 9), s.number(0, 59)) for _ in range(s.number(0, 5))],),
        [([],), ([(0, 30), (0, 30)],), ([(1, 59), (2, 2)],)],
    )


@family(2)
def next_departure(s: Source) -> Draft:
    return draft(
        "next_departure|next_train|when_to_leave",
        "times|departures|buses: list[int], now|arrival: int -> int",
        [
            "The list $times is in ascending order. Return the first time in it that is not before $now, or $none if "
            "there is none.",
            "Buses leave at the minutes in $times, sorted from early to late. Return the departure of the next bus at "
            "the minute $now or later, and $none if no bus leaves any more.",
        ],
        """
        for time in $times:
            if time >= $now:
                return time
        return $none
        """,
        lambda: (sorted(s.ints(0, 50, 1, 5)), s.number(0, 50)),
        [([], 3), ([5], 5), ([5], 6), ([5, 9], 6)],
        none=s.pick(-1, None),
    )


@family(1)
def waiting_time(s: Source) -> Draft:
    n = s.pick(7, 8, 10, 12, 15, 20)
    return draft(
        "waiting_time|minutes_to_wait|until_next_bus",
        "minute|now|m: int -> int",
        [
            "A bus leaves every $n minutes, beginning at minute 0. Return how many minutes somebody has to wait who "
            "comes at minute $minute. It is 0 when a bus leaves just then.",
            "Return the smallest number, 0 or larger, that makes $minute a multiple of $n when it is added.",
        ],
        "return -$minute % $n",
        lambda: (s.number(0, 90),),
        [(0,), (n,), (n + 1,), (n - 1,)],
        n=n,
    )


@family(1)
def fastest_lap(s: Source) -> Draft:
    return draft(
        "best_lap|fastest_lap|lap_times",
        "marks|times|clock: list[int] -> int",
        [
            "The list $marks gives the time at which a runner passes the line after each lap, beginning from 0. Return "
            "the time of the fastest lap. There is at least one lap.",
            "A stopwatch starts at 0 and shows the numbers in $marks at the ends of the laps. Return the shortest time "
            "that a lap took. $marks is not empty.",
        ],
        "return min(b - a for a, b in zip([0] + $marks, $marks))",
        lambda: (sorted(s.sample(range(20, 200), s.number(1, 5))),),
        [([50],), ([50, 110],), ([50, 90],)],
    )
