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
            "of "
            "minutes since midnight, which is negative before midnight.",
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
            "is "
            "below $n. $total is not negative.",
            "There are $n $small in each unit of $big. Return the duration or length of $total $small as a text such "
            "as "
            "'2 $big 5 $small', with as many $big as possible.",
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
            "the "
            "minutes. $minutes is less than 1440 and not negative.",
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
            "since "
            "00:00. The time is given as $text.",
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
            "to "
            "11, '12 $pm' for 12, '1 $pm' to '11 $pm' for 13 to 23, and '12 $am' for 0.",
            "Write the full hour $hour (0 to 23) with '$am' before noon and '$pm' from noon on, as in '3 $pm'. The "
            "hours "
            "0 and 12 are both written with the number 12.",
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
            "than "
            "$start, it ends on the next day. Return how many hours it lasts.",
            "Return the hours from $start to $end on a clock with 24 hours. When $end is smaller than $start or equal "
            "to "
            "it, midnight lies between them.",
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
            "comes "
            "$n steps after $now.",
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
            "leap "
            "year|no leap year}.",
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
            "the "
            "month $month is, where both are counted from 1.",
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
            "is "
            "full when the same month is reached.",
            "Somebody was born in the year and month $born. Return the age in the year and month $today, where a "
            "birthday "
            "counts from the first day of its month. Both are tuples (year, month).",
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
            "comes "
            "at minute $minute. It is 0 when a bus leaves just then.",
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


@family(2)
def alarm_days(s: Source) -> Draft:
    rest = s.pick(["sat", "sun"], ["sun"], ["fri", "sat"], ["wed", "sun"])
    late = s.pick("9:00", "10:00", "never")
    return draft(
        "alarm_time|wake_up|when_to_get_up",
        "day|weekday: str, holiday|free|vacation: bool -> str",
        [
            "The alarm rings at $early!r on working days. If $day is in $rest, or $holiday is True, it is set to "
            "$late!r. "
            "Return the setting.",
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
            "of "
            "weeks, where each further week has 7 days and the last one may be shorter.",
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
            "and "
            "at most $last.",
        ],
        "return $last // $n - ($first - 1) // $n",
        lambda: ((y := s.number(1990, 2010)), y + s.number(0, 30)),
        [(1, 1), (n, n), (1, n), (2001, 2001)],
        n=n,
    )
