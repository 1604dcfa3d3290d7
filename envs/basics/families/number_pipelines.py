"""Three steps on a list of numbers: choose some, change each, bring the results together.

A family is one combination of the three kinds of step. Of all combinations, those of a Latin square are used, so that
two families have at most one step in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envs.basics.families.draft import Draft, add, draft
from envs.basics.families.source import Source


@dataclass(frozen=True)
class Step:
    """name: part of the family's name. code: of "x" or, for the last step, of "$each", which stands for the results.
    long, short: the step in words. word: part of the function's name."""

    name: str
    code: str
    long: str
    short: str
    word: str = ""


CHOOSE = [
    Step("multiples", "x % $k == 0", "divisible by $k", "divisible by $k", "multiples"),
    Step("above", "x > $k", "larger than $k", "above $k", "large"),
    Step("between", "$k <= x <= $top", "at least $k and at most $top", "from $k to $top", "middle"),
    Step("outside", "x < $k or x > $top", "outside of the range $k to $top", "outside of $k to $top", "outer"),
    Step("other", "x != $k", "different from $k", "not equal to $k", "other"),
    Step("allowed", "x not in $banned!r", "absent from the list $banned", "outside of $banned", "allowed"),
    Step(
        "small_square",
        "x * x < $bound",
        "so small that their square is below $bound",
        "with a square under $bound",
        "small",
    ),
    Step("digit", '"$k" in str(x)', "written with at least one digit $k", "that contain the digit $k", "marked"),
]
CHANGE = [
    Step("plus", "x + $c", "Add $c to each of them", "x + $c", "raised"),
    Step("times", "x * $c", "Multiply each of them by $c", "$c times x", "scaled"),
    Step("square", "x ** 2", "Square each of them", "the square of x", "squares"),
    Step(
        "minus_from",
        "$c - x",
        "Replace each of them by what remains when it is taken away from $c",
        "$c - x",
        "rests",
    ),
    Step(
        "quotient",
        "x // $c",
        "Divide each of them by $c and round down",
        "x divided by $c and rounded down",
        "quotients",
    ),
    Step(
        "remainder",
        "x % $c",
        "Take the remainder of each of them when divided by $c",
        "the remainder of x divided by $c",
        "remainders",
    ),
    Step(
        "distance",
        "abs(x - $c)",
        "Find out how far away from $c each of them lies",
        "the distance between x and $c",
        "distances",
    ),
    Step("capped", "min(x, $c)", "Replace those above $c by $c", "the smaller one of x and $c", "capped"),
]
COMBINE = [
    Step("sum", "return sum($each)", "the sum of the results", "the sum of", "sum_of"),
    Step(
        "largest",
        "return max(($each), default=0)",
        "the largest result, or 0 if there is none",
        "the largest (or 0 without any) of",
        "largest_of",
    ),
    Step("list", "return [$each]", "the list of the results, in their order", "a list of", "list_of"),
    Step(
        "descending",
        "return sorted(($each), reverse=True)",
        "the results as a list in descending order",
        "a list, sorted from large to small, of",
        "sorted",
    ),
    Step(
        "distinct",
        "return len({$each})",
        "how many different results there are",
        "the number of different values of",
        "distinct",
    ),
    Step(
        "joined",
        'return "$sep".join(str(y) for y in [$each])',
        "the results as one text, with '$sep' between them",
        "a text, with '$sep' between the numbers, of",
        "text_of",
    ),
    Step(
        "mean",
        "results = [$each]\nreturn sum(results) / len(results) if results else 0.0",
        "the average of the results, or 0.0 if there are none",
        "the average (or 0.0 without any) of",
        "average_of",
    ),
    Step(
        "last",
        "results = [$each]\nreturn results[-1] if results else None",
        "the last result, or None if there is none",
        "the last one (or None without any) of",
        "last_of",
    ),
]
RESULTS = ["int", "int", "list[int]", "list[int]", "int", "str", "float", "int | None"]
LOOPS = {
    "sum": "total = 0\nfor x in $numbers:\n    if $test:\n        total += $value\nreturn total",
    "list": "result = []\nfor x in $numbers:\n    if $test:\n        result.append($value)\nreturn result",
    "largest": "best = 0\nfor x in $numbers:\n    if $test:\n        best = max(best, $value)\nreturn best",
}
TEXTS = [
    "Take the numbers in $numbers that are $long_test. $long_value. Return $long_result.",
    "Return $short_result $short_value for all numbers x in $numbers $short_test.",
    "Go through $numbers and skip all numbers that are not $long_test. $long_value, and return $long_result.",
    "The list $numbers holds numbers that are not negative. For each x of those $short_test, compute $short_value. "
    "Return $long_result.",
    "Return $long_result, where a result is $short_value for a number x of $numbers, and x must be $long_test.",
    "Delete from a copy of $numbers whatever is not $long_test, and use the numbers that stay. $long_value. Return "
    "$long_result.",
    "Some x of $numbers are $long_test, and only they matter. Write down $short_value for each one and return "
    "$long_result.",
]
"""A family uses two of them; those with the last step in common begin with different ones."""


def _body(choose: Step, change: Step, combine: Step, loop: bool) -> str:
    starts_too_high = combine.name == "largest" and change.name == "minus_from"  # the loop begins with 0
    if loop and combine.name in LOOPS and not starts_too_high:
        return LOOPS[combine.name].replace("$test", choose.code).replace("$value", change.code)
    return combine.code.replace("$each", f"{change.code} for x in $numbers if {choose.code}")


def _filled(text: str, steps: tuple[Step, Step, Step]) -> str:
    for place, step in zip(("test", "value", "result"), steps, strict=True):
        short = step.short
        if place == "test" and not short.startswith(("that", "with", "from", "outside", "below", "above")):
            short = f"that are {short}"
        text = text.replace(f"$long_{place}", step.long).replace(f"$short_{place}", short)
    return text.replace(". Return", ". {Return|Then return|Finally, return}") if text.startswith("Take") else text


def _family(choose: Step, change: Step, combine: Step, result: str, first: int) -> Callable[[Source], Draft]:
    def make(s: Source) -> Draft:
        k, c = s.number(3, 9), s.number(2, 9)
        if change.name in ("quotient", "remainder"):
            c = s.number(2, 4)
        elif change.name in ("capped", "distance"):
            c = k - 1 if choose.name == "small_square" else k + 2
        elif change.name == "minus_from":
            c = s.number(10, 30)
        banned = s.sample(range(1, 13), 3)
        names = [
            f"{combine.word}_{change.word}",
            f"{choose.word}_numbers_{combine.name}",
            f"{change.word}_of_{choose.word}",
        ]
        return draft(
            "|".join(names),
            f"numbers|values|data|amounts: list[int] -> {result}",
            [_filled(text, (choose, change, combine)) for text in (TEXTS + TEXTS)[first : first + 2]],
            _body(choose, change, combine, s.random() < 0.35),
            lambda: (s.ints(0, 3 * k if choose.name != "digit" else 60, 0, 7),),
            [([],), ([k],), ([0, k - 1, k + 1],), ([k, 2 * k, k + 4, k + 5],)],
            k=k,
            top=k + 4,
            bound=k * k,
            banned=banned,
            c=c,
            sep=s.pick("-", ",", "+", " ", "/"),
        )

    make.__module__ = __name__
    return make


LEFT_OUT = {
    ("multiples", "times"),
    ("outside", "times"),
    ("other", "minus_from"),
    ("digit", "square"),
    ("allowed", "plus"),
}
"""Combinations whose texts would be too near to those of others."""

for _i, _choose in enumerate(CHOOSE):
    for _j, _change in enumerate(CHANGE):
        if (_choose.name, _change.name) in LEFT_OUT:
            continue
        _k = (_i + _j) % len(COMBINE)
        _combine = COMBINE[_k]
        add(
            f"numbers_{_choose.name}_{_change.name}_{_combine.name}",
            3 if _combine.name in ("mean", "last", "joined") else 2,
            _family(_choose, _change, _combine, RESULTS[_k], (2 * _i + 3 * _j) % len(TEXTS)),
        )
