"""Days, months, dates and schedules."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(2)
def weekday_after(s: Source) -> Draft:
    days = s.pick(
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
        ["spring", "summer", "autumn", "winter"],
        ["red", "yellow", "green"],
        ["north", "east", "south", "west"],
    )
    return draft(
        "next_in_cycle|after_some_steps|turn_to",
        "now|current|state: str, n|steps|count: int -> str",
        [
            "The names $days follow each other, and after the last one comes the first again. Return the name that "
            "comes $n steps after $now.",
            "Go $n places forward from $now in the list $days, continuing at the beginning behind its end, and return "
            "what you reach.",
        ],
        """
        names = $days!r
        return names[(names.index($now) + $n) % len(names)]
        """,
        lambda: (s.pick(*days), s.number(0, 20)),
        [(days[0], 0), (days[-1], 1), (days[1], len(days))],
        days=days,
    )


@family(2)
def days_of_month(s: Source) -> Draft:
    return draft(
        "length_of_month|days_of_month|last_day",
        "month|m|number: int -> int",
        [
            "Return the number of days of the month with the number $month, from 1 to 12, in a year that is {not a "
            "leap year|no leap year}.",
            "Given the number of a month, $month, return its last day: $feb for month 2, 30 for the months 4, 6, 9 and "
            "11, and 31 for all others.",
        ],
        """
        if $month == 2:
            return $feb
        return 30 if $month in (4, 6, 9, 11) else 31
        """,
        lambda: (s.number(1, 12),),
        [(2,), (4,), (12,)],
        feb=28,
    )


@family(1)
def day_of_year(s: Source) -> Draft:
    return draft(
        "day_of_year|days_so_far|running_day",
        "lengths|months: list[int], month|m: int, day|d: int -> int",
        [
            "The list $lengths gives the number of days of each month. Return which day of the year the day $day of "
            "the month $month is, where both are counted from 1.",
            "A calendar has months of $lengths days. Return how many days of the year have begun on day $day of month "
            "number $month; the first month has the number 1.",
        ],
        "return sum($lengths[: $month - 1]) + $day",
        lambda: ((n := s.ints(20, 40, 1, 5)), s.number(1, len(n)), s.number(1, 20)),
        [([30], 1, 1), ([30, 31], 2, 5), ([31, 28, 31], 3, 1)],
    )


@family(1)
def date_parts(s: Source) -> Draft:
    old, new = s.pick((".", "-"), ("/", "-"), ("-", "/"), ("/", "."))
    return draft(
        "turn_date|other_date_format|date_backwards",
        "date|text|day: str -> str",
        [
            "The date $date has the form 'day${old}month${old}year'. Return it in the form 'year${new}month${new}day', "
            "with the same digits.".replace("${old}", old).replace("${new}", new),
            "Split $date at $old!r, turn the order of its three parts around, and return them joined by $new!r.",
        ],
        "return $new!r.join($date.split($old!r)[::-1])",
        lambda: (old.join([f"{s.number(1, 28):02d}", f"{s.number(1, 12):02d}", str(s.number(1950, 2040))]),),
        [(f"01{old}02{old}2003",)],
        old=old,
        new=new,
    )


@family(1)
def is_earlier_date(s: Source) -> Draft:
    word, test = s.pick(("before", "<"), ("after", ">"))
    return draft(
        "date_comes_first|compare_dates|is_in_order",
        "a|first: tuple[int, int, int], b|second: tuple[int, int, int] -> bool",
        [
            "The tuples $a and $b are dates of the form (day, month, year). Return True if $a lies $word $b, and False "
            "otherwise.",
            "Compare two dates that are tuples of day, month and year, and return whether $a is $word $b.",
        ],
        "return $a[::-1] $test $b[::-1]",
        lambda: (
            (s.number(1, 4), s.number(1, 3), s.number(2020, 2021)),
            (s.number(1, 4), s.number(1, 3), s.number(2020, 2021)),
        ),
        [((1, 2, 2020), (1, 2, 2020)), ((9, 1, 2020), (1, 2, 2020)), ((1, 1, 2021), (3, 3, 2020))],
        word=word,
        test=test,
    )


@family(2)
def full_years(s: Source) -> Draft:
    return draft(
        "age_on_day|completed_years|years_old",
        "born|birth: tuple[int, int], today|now: tuple[int, int] -> int",
        [
            "The tuples $born and $today hold a year and a month. Return how many full years lie between them: a year "
            "is full when the same month is reached.",
            "Somebody was born in the year and month $born. Return the age in the year and month $today, where a "
            "birthday counts from the first day of its month. Both are tuples (year, month).",
        ],
        """
        years = $today[0] - $born[0]
        if $today[1] < $born[1]:
            years -= 1
        return years
        """,
        lambda: ((s.number(1990, 2005), s.number(1, 12)), (s.number(2006, 2020), s.number(1, 12))),
        [((2000, 5), (2010, 5)), ((2000, 5), (2010, 4)), ((2000, 5), (2010, 6))],
    )


@family(2)
def alarm_days(s: Source) -> Draft:
    rest = s.pick(["sat", "sun"], ["sun"], ["fri", "sat"], ["wed", "sun"])
    late = s.pick("9:00", "10:00", "never")
    return draft(
        "alarm_time|wake_up|when_to_get_up",
        "day|weekday: str, holiday|free|vacation: bool -> str",
        [
            "The alarm rings at $early!r on working days. If $day is in $rest, or $holiday is True, it is set to "
            "$late!r. Return the setting.",
            "Return $late!r if $holiday is True or $day is one of $rest, and $early!r otherwise.",
        ],
        """
        if $holiday or $day in $rest!r:
            return $late!r
        return $early!r
        """,
        lambda: (s.pick("mon", "tue", "wed", "fri", "sat", "sun"), s.random() < 0.3),
        [("mon", False), ("mon", True), (rest[0], False), (rest[-1], True)],
        rest=rest,
        late=late,
        early=s.pick("6:30", "7:00", "5:45"),
    )


@family(3)
def calendar_week(s: Source) -> Draft:
    return draft(
        "weekdays_of_month|list_weeks|calendar_rows",
        "days|length|n: int, first|start: int -> list[list[int]]",
        [
            "A month has $days days, and its first week has only $first days. Return the days of the month as a list "
            "of weeks, where each further week has 7 days and the last one may be shorter.",
            "Divide the numbers from 1 to $days into lists: the first list has $first numbers, each further one has 7, "
            "and the last one has what is left. Return the list of lists.",
        ],
        """
        weeks = [list(range(1, $first + 1))]
        for day in range($first + 1, $days + 1, 7):
            weeks.append(list(range(day, min(day + 7, $days + 1))))
        return weeks
        """,
        lambda: (s.number(8, 20), s.number(1, 7)),
        [(7, 7), (8, 1), (10, 3)],
    )


@family(1)
def games_in_years(s: Source) -> Draft:
    n = s.pick(3, 4, 5, 6)
    return draft(
        "events_in_years|count_festivals|years_with_games",
        "first|start: int, last|end: int -> int",
        [
            "Games take place in every year that is divisible by $n. Return how many games there are from the year "
            "$first to the year $last, both included. $first is positive and not larger than $last.",
            "Return how many of the years $first to $last, with both ends, are multiples of $n. $first is at least 1 "
            "and at most $last.",
        ],
        "return $last // $n - ($first - 1) // $n",
        lambda: ((y := s.number(1990, 2010)), y + s.number(0, 30)),
        [(1, 1), (n, n), (1, n), (2001, 2001)],
        n=n,
    )
