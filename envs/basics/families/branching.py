"""Recursion with several calls: ways, choices, halves and folders."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(2)
def three_step_sequence(s: Source) -> Draft:
    a, b = s.number(0, 4), s.number(1, 5)
    op = s.pick("-", "+ 2 *", "* 2 -")
    wording = {
        "-": "the value before it minus",
        "+ 2 *": "the value before it plus twice",
        "* 2 -": "twice the value before it minus",
    }[op]
    return draft(
        "next_values|two_back|double_recursion",
        "n|i|place: int -> int",
        [
            f"The value of $f is $a for 0 and $b for 1. For larger numbers it is {wording} the value two before it. "
            f"Return the value for $n, with recursion.",
            f"Use recursion to compute a sequence with the first values $a and $b (for 0 and 1), where each further "
            f"one is {wording} the one before that. Return the one for $n.",
        ],
        f"""
        if $n < 2:
            return $b if $n else $a
        return $f($n - 1) {op} $f($n - 2)
        """,
        lambda: (s.number(0, 11),),
        [(0,), (1,), (2,), (3,)],
        a=a,
        b=b,
    )


@family(2)
def ways_to_climb(s: Source) -> Draft:
    big = s.number(2, 5)
    return draft(
        "ways_to_climb|count_ways|number_of_walks",
        "steps|n|stairs: int -> int",
        [
            "Somebody climbs a stair with 1 step or with $big steps at a time. Return in how many different orders "
            "$steps steps can be climbed. For 0 steps there is one way.",
            "In how many ways can $steps be written as a sum in which each number is 1 or $big, if the order matters? "
            "Return that number; 0 has one way.",
        ],
        """
        if $steps < $big:
            return 1
        return $f($steps - 1) + $f($steps - $big)
        """,
        lambda: (s.number(0, 12),),
        [(0,), (1,), (big,), (big + 1,)],
        big=big,
    )


@family(3)
def split_in_middle(s: Source) -> Draft:
    sep = s.pick("-", ".", "|", "")
    return draft(
        "fold_text|binary_split|split_in_middle",
        "text|word|line: str -> str",
        [
            "If $text has at most $n characters, return it. Otherwise cut it in the middle, where the second half may "
            "be longer by one, treat both halves in the same way, and return '(', the first result, $sep!r, the second "
            "result and ')'.",
            "Use recursion: a text of up to $n characters stays as it is; a longer one becomes '(' + left + $sep!r + "
            "right + ')', where left and right are the results for its first half (rounded down) and for the rest.",
        ],
        """
        if len($text) <= $n:
            return $text
        half = len($text) // 2
        return "(" + $f($text[:half]) + $sep!r + $f($text[half:]) + ")"
        """,
        lambda: (s.letters("abcdef", 0, 9),),
        [("",), ("ab",), ("abcdefg",)],
        n=s.number(1, 3),
        sep=sep,
    )


@family(3)
def choices_of_letters(s: Source) -> Draft:
    letters = s.pick("ab", "xy", "01", "HT")
    return draft(
        "all_words|possible_codes|list_all_texts",
        "n|length: int -> list[str]",
        [
            "Return a list of all texts of length $n that can be made from the characters of $letters!r without two "
            "equal characters next to each other, in alphabetical order. For 0 there is only the empty text.",
            "List all texts with $n characters from $letters!r in which no character stands directly behind the same "
            "character. Sort them; for $n equal to 0 return [''].",
        ],
        """
        if $n == 0:
            return [""]
        return sorted(t + c for t in $f($n - 1) for c in $letters!r if not t.endswith(c))
        """,
        lambda: (s.number(0, 8),),
        [(0,), (1,), (2,), (3,)],
        letters="".join(sorted(letters)),
    )


@family(2)
def reach_by_doubling(s: Source) -> Draft:
    add = s.number(3, 9)
    m = s.number(2, 4)
    return draft(
        "can_reach|reachable|is_possible",
        "target|n|goal: int -> bool",
        [
            "Begin with 1. In each step you may multiply by $m or add $add. Return True if $target can be reached, and "
            "False otherwise.",
            "Return whether $target is 1, or can be made from 1 by multiplying by $m and adding $add in any order and "
            "as often as needed.",
        ],
        """
        if $target <= 1:
            return $target == 1
        return $f($target - $add) or ($target % $m == 0 and $f($target // $m))
        """,
        lambda: (s.number(0, 60),),
        [(0,), (1,), (1 + add,), (m,), (2,)],
        m=m,
        add=add,
    )


@family(3)
def sums_of_parts(s: Source) -> Draft:
    return draft(
        "count_partitions|ways_to_pay|number_of_sums",
        "total|amount|n: int, parts|coins|values: list[int] -> int",
        [
            "Return in how many ways $total can be paid with coins of the values in $parts, where each value can be "
            "used any number of times and the order does not matter. The values are positive and different.",
            "How many selections of numbers from $parts, each as often as you like, have the sum $total? Return that "
            "number. No number in $parts is repeated or smaller than 1.",
        ],
        """
        if $total == 0:
            return 1
        if $total < 0 or not $parts:
            return 0
        return $f($total - $parts[0], $parts) + $f($total, $parts[1:])
        """,
        lambda: (s.number(0, 16), s.few([1, 2, 3, 5, 7], 0, 3)),
        [(0, []), (0, [1]), (4, []), (4, [1, 2]), (3, [2])],
    )


@family(2)
def take_in_turns(s: Source) -> Draft:
    return draft(
        "take_in_turns|alternate_lists|merge_alternately",
        "a|first|left: list, b|second|right: list -> list",
        [
            "Return a list that takes items from $a and $b in turn, beginning with $a. When one of the lists is used "
            "up, the rest of the other one follows.",
            "Mix $a and $b: the first item of $a, the first of $b, the second of $a and so on; what is left of the "
            "longer list comes at the end.",
        ],
        """
        if not $a:
            return $b
        return [$a[0]] + $f($b, $a[1:])
        """,
        lambda: (s.ints(0, 9, 0, 5), s.ints(10, 19, 0, 5)),
        [([], []), ([1], []), ([], [1]), ([1, 2, 3], [9])],
    )
