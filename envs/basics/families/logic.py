"""True and False: rules, choices and flags."""

from __future__ import annotations

from typing import Any

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source

BOTH = (True, False)


@family(1)
def alarm_rings(s: Source) -> Draft:
    n = s.number(2, 9)
    return draft(
        "alarm_rings|should_warn|send_message",
        "open|moved|broken: bool, off|paused|muted: bool, level|count|number: int -> bool",
        [
            "Return True if $open is True, $off is False and $level is more than $n. Return False otherwise.",
            "An alarm rings when $open is True and $level is above $n, but never when $off is True. Return whether it "
            "rings.",
        ],
        "return $open and not $off and $level > $n",
        lambda: (s.random() < 0.75, s.random() < 0.3, s.number(n - 2, n + 5)),
        [(True, False, n), (True, False, n + 1), (False, False, n + 1), (True, True, n + 1)],
        n=n,
    )


@family(1)
def at_least_two(s: Source) -> Draft:
    n, test, wording = s.pick((2, ">=", "at least two"), (2, "==", "exactly two"), (1, "==", "exactly one"))
    return draft(
        "enough_votes|count_of_three|members_agree",
        "a|x|first: bool, b|y|second: bool, c|z|third: bool -> bool",
        [
            f"Return True if {wording} of the three values $a, $b and $c {{are|is}} True.".replace(
                "{are|is}", "are" if n == 2 else "is"
            ),
            f"Three people vote with True or False: $a, $b and $c. Return whether {wording} of them voted True.",
        ],
        f"return $a + $b + $c {test} {n}",
        lambda: (s.flag(), s.flag(), s.flag()),
        [(x, y, z) for x in BOTH for y in BOTH for z in BOTH],
    )


@family(1)
def rule_holds(s: Source) -> Draft:
    n = s.number(5, 18)
    return draft(
        "rule_is_kept|permitted|follows_rule",
        "age|points|size: int, guided|member|signed: bool -> bool",
        [
            "Whoever has $age below $n needs $guided to be True; for all others it does not matter. Return whether the "
            "rule is kept.",
            "Return True if $age is at least $n or $guided is True, and False otherwise.",
        ],
        "return $guided or $age >= $n",
        lambda: (s.number(1, 2 * n), s.flag()),
        [(n, False), (n - 1, False), (n - 1, True)],
        n=n,
    )


@family(1)
def look_up_action(s: Source) -> Draft:
    tables: list[tuple[dict[str, Any], str]] = [
        ({"red": "stop", "yellow": "wait", "green": "go"}, "light"),
        ({"circle": 0, "triangle": 3, "square": 4}, "shape"),
        ({"mon": 5, "sat": 8, "sun": 9}, "day"),
        ({"cat": "meow", "dog": "woof", "cow": "moo"}, "animal"),
    ]
    table, what = s.pick(*tables)
    other = "?" if isinstance(next(iter(table.values())), str) else -1
    return draft(
        "look_up|reaction|value_for",
        "key|word|name: str -> str" if other == "?" else "key|word|name: str -> int",
        [
            f"Return what belongs to the {what} $key in the table $table, and $other!r for everything else.",
            f"Which entry does the dictionary $table have for the {what} $key? Return it, or $other!r if there is "
            f"none.",
        ],
        "return $table!r.get($key, $other!r)",
        lambda: (s.pick(*table, *table, s.word()),),
        [*((key,) for key in table), ("",)],
        table=table,
        other=other,
    )


@family(1)
def strictly_in_order(s: Source) -> Draft:
    first, second = s.pick(("<", "<"), ("<=", "<="), (">", ">"))
    wording = {
        "<": "each larger than the one before",
        "<=": "each at least as large as the one before",
        ">": "each smaller than the one before",
    }[first]
    return draft(
        "in_order|are_ordered|three_steps",
        "a|x|first: int, b|y|second: int, c|z|third: int -> bool",
        [
            f"Return True if the numbers $a, $b and $c, in this order, are {wording}. Return False otherwise.",
            f"Look at $a, then $b, then $c, and return whether they are {wording}.",
        ],
        f"return $a {first} $b {second} $c",
        lambda: s.pick(
            tuple(sorted(s.ints(0, 9, 3, 3))),
            tuple(sorted(s.ints(0, 9, 3, 3), reverse=True)),
            tuple(s.ints(0, 9, 3, 3)),
        ),
        [(1, 2, 3), (3, 2, 1), (1, 1, 2), (2, 2, 2), (1, 3, 2)],
    )


@family(1)
def same_side(s: Source) -> Draft:
    n = s.number(-10, 40)
    return draft(
        "same_side|both_or_neither|agree_on_limit",
        "a|x|left: int, b|y|right: int -> bool",
        [
            "Return True if $a and $b are both at least $n or both less than $n, and False otherwise.",
            "Return whether $a and $b lie on the same side of the limit $n, which itself belongs to the upper side.",
        ],
        "return ($a >= $n) == ($b >= $n)",
        lambda: (s.number(n - 9, n + 9), s.number(n - 9, n + 9)),
        [(n, n + 5), (n - 1, n), (n, n - 1), (n - 2, n - 9)],
        n=n,
    )


@family(1)
def sum_in_circle(s: Source) -> Draft:
    m = s.number(2, 12)
    return draft(
        "parity_bit|rest_of_sum|sum_in_circle",
        "numbers|bits|steps: list[int] -> int",
        [
            "Return the remainder of the sum of $numbers when it is divided by $m. No number is negative.",
            "The fields of a round board are numbered from 0 to $last. A piece begins at 0 and goes forward by each "
            "number in $numbers. Return the field where it ends.",
        ],
        "return sum($numbers) % $m",
        lambda: (s.ints(0, 9),),
        [([],), ([m],), ([m - 1, 2],)],
        m=m,
        last=m - 1,
    )


@family(1)
def flipped_flags(s: Source) -> Draft:
    yes, no = s.pick(("yes", "no"), ("on", "off"), ("open", "shut"), ("1", "0"))
    return draft(
        "show_flags|flags_as_words|states_as_text",
        "flags|states|switches: list[bool] -> list[str]",
        [
            "Return a list with $yes!r for each True in $flags and $no!r for each False.",
            "Replace every True in $flags by $yes!r and every False by $no!r, and return the new list.",
        ],
        "return [$yes!r if flag else $no!r for flag in $flags]",
        lambda: (s.some(BOTH, 0, 6),),
        [([],), ([True],), ([False, True],)],
        yes=yes,
        no=no,
    )


@family(1)
def choose_by_flag(s: Source) -> Draft:
    return draft(
        "price_for_member|member_price|price_to_pay",
        "price|cost|amount: int, member|student|regular: bool -> int",
        [
            "Return $price, reduced by $n if $member is True.",
            "Customers for whom $member is True pay $n less than $price, all others pay $price. Return what is paid.",
        ],
        "return $price - $n if $member else $price",
        lambda: (s.number(20, 90), s.flag()),
        [(50, True), (50, False)],
        n=s.number(2, 15),
    )


@family(1)
def one_of_several(s: Source) -> Draft:
    options = s.pick(["yes", "y", "ok"], ["sat", "sun"], ["quit", "exit", "q"], ["jpg", "png", "gif"])
    return draft(
        "is_accepted|is_one_of|matches_any",
        "text|word|answer: str -> bool",
        [
            "Return True if $text, in small letters, is one of $options, and False otherwise. $text may contain "
            "capitals.",
            "Return whether $text is in the list $options when capital letters are read as small ones.",
        ],
        "return $text.lower() in $options!r",
        lambda: (s.pick(str.upper, str.title, str.lower)(s.pick(*options, "no", "mon", "stop", "txt")),),
        [("",), (options[0],), (options[-1].upper(),), (options[0] + "s",)],
        options=options,
    )


@family(1)
def outside_range(s: Source) -> Draft:
    low, high = s.number(-5, 10), s.number(15, 40)
    return draft(
        "is_outside|needs_attention|out_of_range",
        "x|value|degrees: int -> bool",
        [
            "Return True if $x is less than $low or greater than $high, and False otherwise.",
            "Values from $low to $high are normal. Return whether $x is not normal.",
        ],
        "return $x < $low or $x > $high",
        lambda: (s.number(low - 15, high + 15),),
        [(low,), (high,), (low - 1,), (high + 1,)],
        low=low,
        high=high,
    )


@family(1)
def divisible_by_one_only(s: Source) -> Draft:
    a, b = s.pick((2, 3), (3, 5), (2, 7), (4, 5), (3, 4))
    return draft(
        "divisible_by_one_only|special_multiple|fits_first_only",
        "n|number|x: int -> bool",
        [
            "Return True if $n is divisible by $a but not by $b, and False otherwise.",
            "Return whether dividing $n by $a leaves no remainder while dividing it by $b leaves one.",
        ],
        "return $n % $a == 0 and $n % $b != 0",
        lambda: (s.pick(a, b, 1) * s.number(0, 20),),
        [(0,), (a,), (b,), (a * b,)],
        a=a,
        b=b,
    )


@family(2)
def fizz_words(s: Source) -> Draft:
    a, b = s.pick((3, 4), (2, 5), (4, 7), (3, 8))
    x, y = s.pick(("tick", "tock"), ("ping", "pong"), ("left", "right"), ("snap", "clap"))
    return draft(
        "call_number|word_for_number|say_number",
        "n|number: int -> str",
        [
            "Return '$x' if $n is divisible by $a, else '$y' if it is divisible by $b, and otherwise $n as a text.",
            "In a game, players say '$x' for a multiple of $a, '$y' for any other multiple of $b, and else the number "
            "itself. Return what is said for $n, as a text.",
        ],
        """
        if $n % $a == 0:
            return "$x"
        if $n % $b == 0:
            return "$y"
        return str($n)
        """,
        lambda: (s.number(1, 60),),
        [(a * b,), (a,), (b,), (1,)],
        a=a,
        b=b,
        x=x,
        y=y,
    )


@family(1)
def grade_letters(s: Source) -> Draft:
    letters = s.pick("ABCDE", "abcde", "54321", "VWXYZ")
    step = s.pick(10, 20)
    return draft(
        "grade_letter|mark_for_points|letter_for_score",
        "points|score|n: int -> str",
        [
            "Divide $points, a number from 0 to $top, by $step and drop the remainder. Return the character of "
            "$letters!r at this index, or the last one if the index is too large.",
            "The grades are the characters of $letters!r: the first one for less than $step points, the next one for "
            "less than $twice and so on, and the last one for all higher numbers. Return the grade for $points.",
        ],
        "return $letters!r[min($points // $step, $last)]",
        lambda: (s.number(0, 5 * step),),
        [(0,), (step,), (step - 1,), (5 * step,)],
        letters=letters,
        step=step,
        twice=2 * step,
        top=5 * step,
        last=len(letters) - 1,
    )


@family(1)
def few_failures(s: Source) -> Draft:
    n = s.number(2, 4)
    return draft(
        "all_clear|nothing_set|no_problem",
        "flags|errors|alarms: list[bool] -> bool",
        [
            "Return True if fewer than $n of the values in $flags are True, and False otherwise.",
            "The list $flags tells for each machine whether it has failed. Everything goes on with less than $n "
            "failures. Return whether it does.",
        ],
        "return sum($flags) < $n",
        lambda: (s.some(BOTH, 0, 7),),
        [([],), ([True] * n,), ([True] * (n - 1),)],
        n=n,
    )
