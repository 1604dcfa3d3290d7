"""Checking inputs: passwords, codes, orders, moves and forms."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def strong_password(s: Source) -> Draft:
    n = s.number(5, 8)
    return draft(
        "strong_password|accept_password|is_good_password",
        "password|text|secret: str -> bool",
        [
            "A password is accepted if it has at least $n characters and contains a digit. Return whether $password is "
            "accepted.",
            "Return True if $password is $n or more characters long and at least one of them is a digit from 0 to 9, "
            "and False otherwise.",
        ],
        "return len($password) >= $n and any(c.isdigit() for c in $password)",
        lambda: (s.letters(s.pick("abcXYZ", "abc123"), n - 3, n + 3),),
        [("",), ("a" * n,), ("a" * (n - 1) + "1",), ("1" * (n - 1),)],
        n=n,
    )


@family(2)
def password_problems(s: Source) -> Draft:
    n = s.number(4, 7)
    return draft(
        "password_problems|check_entry|list_mistakes",
        "text|password|entry: str -> list[str]",
        [
            "Return a list of what is wrong with $text: first 'short' if it has fewer than $n characters, then 'space' "
            "if it contains a space. The list is empty if nothing is wrong.",
            "Check $text and collect messages in a list: 'short' for less than $n characters, and after it 'space' if "
            "there is a space in it. Return the list.",
        ],
        """
        problems = []
        if len($text) < $n:
            problems.append("short")
        if " " in $text:
            problems.append("space")
        return problems
        """,
        lambda: (s.letters(s.pick("abc", "ab "), 0, n + 3),),
        [("",), ("a" * n,), (" " * (n - 1),), ("a " * n,)],
        n=n,
    )


@family(2)
def valid_move(s: Source) -> Draft:
    piece, rule, body = s.pick(
        ("rook", "the row or the column stays the same, but not both", "return ($a[0] == $b[0]) != ($a[1] == $b[1])"),
        (
            "bishop",
            "row and column change by the same number, which is not 0",
            "return $a != $b and abs($a[0] - $b[0]) == abs($a[1] - $b[1])",
        ),
        (
            "king",
            "row and column each change by at most 1, and at least one of them changes",
            "return $a != $b and max(abs($a[0] - $b[0]), abs($a[1] - $b[1])) == 1",
        ),
        (
            "knight",
            "one of row and column changes by 2 and the other one by 1",
            "return sorted([abs($a[0] - $b[0]), abs($a[1] - $b[1])]) == [1, 2]",
        ),
    )
    return draft(
        "can_move|is_legal_move|move_allowed",
        "a|start|here: tuple[int, int], b|end|there: tuple[int, int] -> bool",
        [
            f"The fields $a and $b of a board are tuples of row and column. Return True if a {piece} may go from $a to "
            f"$b on an empty board: {rule}.",
            f"A {piece} moves such that {rule}. Return whether it can go from $a to $b, which are tuples (row, "
            f"column).",
        ],
        body,
        lambda: ((r := s.number(1, 5), c := s.number(1, 5)), (r + s.number(-2, 2), c + s.number(-2, 2))),
        [((1, 1), (1, 1)), ((1, 1), (1, 2)), ((3, 3), (2, 2)), ((3, 3), (5, 4)), ((3, 3), (5, 5)), ((3, 4), (3, 1))],
    )


@family(1)
def balanced_marks(s: Source) -> Draft:
    a, b = s.pick(("x", "y"), ("+", "-"), ("L", "R"), ("<", ">"))
    return draft(
        "same_number_of|is_balanced|equally_often",
        "text|line|moves: str -> bool",
        [
            "Return True if $a!r and $b!r occur equally often in $text and $text is not empty, and False otherwise.",
            "Return whether the non-empty text $text has as many $a!r as $b!r. The empty text gives False.",
        ],
        'return $text != "" and $text.count($a!r) == $text.count($b!r)',
        lambda: (s.letters(a + b, 0, 6),),
        [("",), (a,), (a + b,), (b + b,)],
        a=a,
        b=b,
    )


@family(1)
def valid_score(s: Source) -> Draft:
    n, gap = s.pick((11, 2), (21, 2), (25, 2), (15, 3))
    return draft(
        "game_is_over|set_is_won|someone_won",
        "a|home|left: int, b|guest|right: int -> bool",
        [
            "A game is over when one of the two players has at least $n points and leads by $gap or more. Return "
            "whether it is over with the scores $a and $b.",
            "Return True if the larger one of $a and $b is at least $n and they differ by at least $gap, and False "
            "otherwise.",
        ],
        "return max($a, $b) >= $n and abs($a - $b) >= $gap",
        lambda: (s.number(n - 5, n + 4), s.number(n - 5, n + 4)),
        [(n, n - 1), (n, n - gap), (n - 1, 0), (0, n), (n + 1, n + 1)],
        n=n,
        gap=gap,
    )


@family(1)
def valid_clock(s: Source) -> Draft:
    n = s.pick(24, 12)
    return draft(
        "is_valid_time|real_time|clock_exists",
        "hour|h|hours: int, minute|m|minutes: int -> bool",
        [
            "Return True if $hour from 0 to $last and $minute from 0 to 59 give a time of day, and False otherwise.",
            "Return whether $hour lies between 0 and $last and $minute between 0 and 59, both ends included.",
        ],
        "return $hour in range($n) and $minute in range(60)",
        lambda: (s.number(-2, n + 3), s.number(-20, 80)),
        [(0, 0), (n - 1, 59), (n, 0), (0, 60), (-1, 5), (5, -1)],
        n=n,
        last=n - 1,
    )


@family(2)
def valid_variable_name(s: Source) -> Draft:
    extra = s.pick("_", "-", ".", "$")
    return draft(
        "is_valid_label|accept_name|is_clean_name",
        "name|label|text: str -> bool",
        [
            "A name is valid if it begins with a letter and all its characters are letters, digits or $extra!r. Return "
            "whether $name is valid; the empty text is not.",
            "Return True if $name is not empty, its first character is a letter, and each character is a letter, a "
            "digit or $extra!r. Return False otherwise.",
        ],
        "return $name[:1].isalpha() and all(c.isalnum() or c == $extra!r for c in $name)",
        lambda: (s.letters("ab1" + extra + s.pick("", "", "!"), 0, 5),),
        [("",), ("a" + extra,), (extra + "a",), ("1a",), ("a b",)],
        extra=extra,
    )


@family(1)
def parts_make_whole(s: Source) -> Draft:
    n = s.pick(100, 180, 360, 60)
    return draft(
        "adds_up_to|shares_are_valid|parts_make_whole",
        "parts|shares|angles: list[int] -> bool",
        [
            "Return True if all numbers in $parts are larger than 0 and their sum is $n, and False otherwise.",
            "Return whether $parts are positive numbers that add up to exactly $n.",
        ],
        "return min($parts, default=0) > 0 and sum($parts) == $n",
        lambda: ((p := s.ints(1, n // 3, 1, 3)) + [n - sum(p) + s.pick(0, 0, 1)],),
        [([],), ([n],), ([n + 5, -5],), ([n, 0],), ([n // 2, n // 2],)],
        n=n,
    )


@family(1)
def order_possible(s: Source) -> Draft:
    return draft(
        "order_possible|can_deliver|enough_in_stock",
        "stock|store|shelf: dict[str, int], order|wanted|list_of_wishes: dict[str, int] -> bool",
        [
            "Return True if every article of $order is in $stock in at least the number that is ordered, and False "
            "otherwise. An article that is no key of $stock is not there at all.",
            "Both $stock and $order map articles to numbers. Return whether $stock has enough of everything in $order; "
            "missing keys count as 0.",
        ],
        "return all($stock.get(k, 0) >= n for k, n in $order.items())",
        lambda: (
            {k: s.number(0, 5) for k in s.few(["fig", "kiwi", "plum"], 1, 3)},
            {k: s.number(0, 3) for k in s.few(["fig", "kiwi", "plum"], 0, 2)},
        ),
        [({}, {}), ({}, {"fig": 1}), ({"fig": 2}, {"fig": 2}), ({"fig": 2}, {"fig": 3})],
    )


@family(1)
def missing_fields(s: Source) -> Draft:
    fields = s.pick(["name", "email", "age"], ["id", "title"], ["street", "city", "zip"], ["user", "date", "text"])
    return draft(
        "missing_fields|unfilled|what_is_missing",
        "form|record|entry: dict[str, str] -> list[str]",
        [
            "Return a list of the names in $fields that are no keys of $form or whose value there is the empty text, "
            "in the order given here.",
            "A form needs the fields $fields. Return those that are missing in $form or have the value '', in this "
            "order.",
        ],
        "return [field for field in $fields!r if not $form.get(field)]",
        lambda: ({f: s.pick("", "x", "y") for f in fields if s.random() < 0.7},),
        [({},), (dict.fromkeys(fields, "a"),), (dict.fromkeys(fields, ""),)],
        fields=fields,
    )


@family(1)
def allowed_to_ride(s: Source) -> Draft:
    cm, age = s.pick(120, 130, 140, 150), s.pick(8, 10, 12)
    return draft(
        "may_ride|allowed_on_ride|can_enter",
        "height|size|cm: int, age|years|old: int -> bool",
        [
            "Somebody may use a ride with a height of at least $min_cm centimeters, or at an age of at least $min_age "
            "years. Return whether a person with $height and $age may use it.",
            "Children below $min_cm centimeters who are also younger than $min_age stay outside, all others get in. "
            "Return whether somebody with $height and $age gets in.",
        ],
        "return $height >= $min_cm or $age >= $min_age",
        lambda: (s.number(cm - 30, cm + 20), s.number(age - 5, age + 4)),
        [(cm, age - 1), (cm - 1, age), (cm - 1, age - 1)],
        min_cm=cm,
        min_age=age,
    )


@family(1)
def rules_met(s: Source) -> Draft:
    n = s.number(10, 60)
    m = s.number(2, 6)
    d = s.number(0, 9)
    return draft(
        "rules_met|points_for_number|count_properties",
        "n|number|value: int -> int",
        [
            "Return how many of these are true for $n: it is larger than $limit; it is divisible by $m; its last digit "
            "is $d. $n is not negative.",
            "Give one point if $n is above $limit, one if $m divides it, and one if it ends with the digit $d. Return "
            "the points of the non-negative number $n.",
        ],
        "return ($n > $limit) + ($n % $m == 0) + ($n % 10 == $d)",
        lambda: (s.pick(s.number(0, 2 * n), 10 * s.number(0, 9) + d, m * s.number(0, 20)),),
        [(0,), (n,), (n + 1,)],
        limit=n,
        m=m,
        d=d,
    )


@family(2)
def first_invalid(s: Source) -> Draft:
    low, high = s.number(0, 10), s.number(20, 60)
    return draft(
        "first_invalid|find_outlier|first_bad_value",
        "values|readings|numbers: list[int] -> int",
        [
            "Return the index of the first number in $values that is less than $low or greater than $high. If there is "
            "none, return -1.",
            "Readings from $low to $high are valid. Return the position, counted from 0, of the first invalid one in "
            "$values, or -1 if all are valid.",
        ],
        """
        for i, value in enumerate($values):
            if value < $low or value > $high:
                return i
        return -1
        """,
        lambda: (s.pick(s.ints(low, high), s.ints(low - 5, high + 5)),),
        [([],), ([low, high],), ([low - 1],), ([high + 1],), ([low, high + 1, low - 1],)],
        low=low,
        high=high,
    )


@family(2)
def valid_readings_mean(s: Source) -> Draft:
    bad = s.pick(-1, -99, 999, 0)
    return draft(
        "mean_of_valid|average_reading|ignore_failed",
        "values|readings|measured: list[int] -> float",
        [
            "The number $bad in $values stands for a failed reading. Return the average of the other readings, or 0.0 "
            "if there are none.",
            "Return the mean of all numbers in $values that are not $bad. Without any such number, return 0.0.",
        ],
        """
        valid = [v for v in $values if v != $bad]
        return sum(valid) / len(valid) if valid else 0.0
        """,
        lambda: ([s.pick(bad, s.number(1, 20), s.number(1, 20)) for _ in range(s.number(0, 6))],),
        [([],), ([bad],), ([bad, 4],), ([1, 2],)],
        bad=bad,
    )


@family(1)
def safe_division(s: Source) -> Draft:
    return draft(
        "safe_ratio|divide_or_default|ratio_or",
        "a|part|sum_of_all: int, b|whole|count: int -> float",
        [
            "Return $a divided by $b, but $none if $b is 0.",
            "Return the quotient of $a and $b. Since one cannot divide by 0, return $none when $b is 0.",
        ],
        "return $a / $b if $b else $none",
        lambda: (s.number(-20, 40), s.pick(0, 1, 2, 4, 5, 8, -2)),
        [(3, 0), (0, 4), (5, 2)],
        none=s.pick("None", "-1.0", "0.0"),
    )


@family(1)
def int_or_default(s: Source) -> Draft:
    return draft(
        "to_number|read_number|int_or_default",
        "text|entry|cell: str -> int",
        [
            "Return $text as a whole number if it consists only of digits, and $none otherwise. The empty text is no "
            "number.",
            "Convert $text to an int. If there is any character that is not a digit, or no character at all, return "
            "$none instead.",
        ],
        "return int($text) if $text.isdigit() else $none",
        lambda: (s.letters(s.pick("0123456789", "0123456789", "12a-"), 0, 4),),
        [("",), ("-5",), ("007",), ("1 2",)],
        none=s.pick("None", "-1", "0"),
    )


@family(1)
def winning_hand(s: Source) -> Draft:
    n, word = s.pick((2, "twice"), (3, "three times"))
    return draft(
        "has_repeats|rolled_equal|is_winning_throw",
        "dice|cards|throw: list[int] -> bool",
        [
            "Return True if some number occurs at least $word in $dice, and False otherwise.",
            "A throw wins when at least $n of the dice show the same number. Return whether the throw $dice wins.",
        ],
        "return any($dice.count(x) >= $n for x in $dice)",
        lambda: (s.ints(1, 6, n, n + 3),),
        [([],), ([4] * n,), ([4] * (n - 1),), ([1, 2, 3, 4, 5, 6],)],
        n=n,
        word=word,
    )


@family(2)
def smooth_enough(s: Source) -> Draft:
    n = s.number(2, 6)
    return draft(
        "neighbors_differ_by|smooth_enough|no_big_jump",
        "levels|values|heights: list[int] -> bool",
        [
            "Return True if no two neighboring numbers in $levels differ by more than $n, and False otherwise.",
            "A road is smooth if its height changes by at most $n from each point to the next. Return whether $levels "
            "describes a smooth road.",
        ],
        "return all(abs(a - b) <= $n for a, b in zip($levels, $levels[1:]))",
        lambda: (s.pick(s.ints(0, 2 * n, 0, 5), s.ints(0, n, 0, 6)),),
        [([],), ([1],), ([0, n],), ([n + 1, 0],)],
        n=n,
    )
