"""One line on a list that checks or counts."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def total_of_first(s: Source) -> Draft:
    return draft(
        "total_of_first|sum_of_first|first_days_total",
        "numbers|sales|values: list[int], n|count|days: int -> int",
        [
            "Return $start plus the sum of the first $n numbers of $numbers. If there are fewer, add all of them.",
            "Somebody has $start coins and gets the number in $numbers day by day. Return how many coins there are "
            "after $n days, or at the end if the list is shorter.",
        ],
        "return $start + sum($numbers[:$n])",
        lambda: (s.ints(0, 12), s.number(0, 6)),
        [([], 3), ([4, 5], 0), ([1, 2, 3], 2)],
        start=s.number(5, 60),
    )


@family(1)
def all_within(s: Source) -> Draft:
    low, high = s.number(-5, 5), s.number(10, 30)
    return draft(
        "all_in_range|all_valid|readings_ok",
        "numbers|readings|ages: list[int] -> bool",
        [
            "Return True if every number in $numbers is at least $low and at most $high, and False otherwise. An empty "
            "list gives True.",
            "Return whether all of $numbers lie between $low and $high, both included.",
        ],
        "return all($low <= n <= $high for n in $numbers)",
        lambda: (s.pick(s.ints(low, high, 0, 5), s.ints(low - 3, high + 3, 0, 5)),),
        [([],), ([low, high],), ([low - 1],), ([high + 1],)],
        low=low,
        high=high,
    )


@family(1)
def first_or_default(s: Source) -> Draft:
    place, word = s.pick((0, "first"), (-1, "last"))
    none = s.pick("-1", "0", "None", "100")
    return draft(
        "item_or_default|safe_item|item_if_any",
        "items|queue|numbers: list[int] -> int",
        [
            "Return the $word item of $items, or $none if the list is empty.",
            "Return $none for an empty list and otherwise the $word item of $items.",
        ],
        "return $items[$place] if $items else $none",
        lambda: (s.ints(0, 30, 0, 4),),
        [([],), ([4],), ([4, 5],)],
        place=place,
        word=word,
        none=none,
    )


@family(1)
def longer_list(s: Source) -> Draft:
    return draft(
        "length_difference|how_much_longer|missing_places",
        "a|first|left: list, b|second|right: list -> int",
        [
            "Return how many more items the longer one of the lists $a and $b has than the shorter one.",
            "The lists $a and $b may have different lengths. Return the difference of the lengths, which is never "
            "negative.",
        ],
        "return abs(len($a) - len($b))",
        lambda: (s.ints(0, 9, 0, 7), s.words(0, 6)),
        [([], []), ([1], []), ([], ["a", "b"])],
    )


@family(1)
def count_of_type(s: Source) -> Draft:
    kind, word = s.pick(("str", "texts"), ("int", "whole numbers"), ("list", "lists"))
    return draft(
        "count_type|number_of_kind|items_of_type",
        "items|things|values: list -> int",
        [
            "The list $items contains texts, whole numbers and lists. Return how many of its items are $word.",
            "Count the items of $items that are of the type $kind. No other types than str, int and list occur.",
        ],
        "return sum(isinstance(x, $kind) for x in $items)",
        lambda: ([s.pick(s.word(), s.number(0, 9), []) for _ in range(s.number(0, 6))],),
        [([],), (["a", 1, [2]],), (["1"],)],
        kind=kind,
        word=word,
    )


@family(1)
def closed_tour(s: Source) -> Draft:
    return draft(
        "same_at_both_ends|closed_loop|begins_as_it_ends",
        "items|path|stations: list[str] -> bool",
        [
            "Return True if $items has at least two items and the first one is equal to the last one. Return False "
            "otherwise.",
            "A tour is closed if it has two or more stations and ends where it began. Return whether the tour $items "
            "is closed.",
        ],
        "return len($items) > 1 and $items[0] == $items[-1]",
        lambda: (s.some(["A", "B", "C"], 0, 5),),
        [([],), (["A"],), (["A", "A"],), (["A", "B"],)],
    )


@family(1)
def sum_of_small_numbers(s: Source) -> Draft:
    n = s.number(-3, 15)
    return draft(
        "sum_below|total_of_small|sum_of_small",
        "numbers|results|days: list[int] -> int",
        [
            "Return the sum of the numbers in $numbers that are less than $n. It is 0 if there are none.",
            "Only numbers below $n count. Add up those of $numbers and return the sum.",
        ],
        "return sum(x for x in $numbers if x < $n)",
        lambda: (s.ints(n - 10, n + 8),),
        [([],), ([n],), ([n - 1, n + 1],)],
        n=n,
    )


@family(1)
def alternating_signs(s: Source) -> Draft:
    return draft(
        "odd_minus_even_places|alternate_sum|places_difference",
        "numbers|values|row: list[int] -> int",
        [
            "Return the sum of the numbers of $numbers at the indices 0, 2, 4 and so on, minus the sum of all others.",
            "Add the first number of $numbers, subtract the second, add the third and so on. Return the result, which "
            "is 0 for an empty list.",
        ],
        "return sum($numbers[::2]) - sum($numbers[1::2])",
        lambda: (s.ints(0, 12),),
        [([],), ([4],), ([4, 6],)],
    )
