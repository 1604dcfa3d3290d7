"""One line on a list: a slice, a check, a sum or a new list."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def last_ones_reversed(s: Source) -> Draft:
    n = s.number(2, 4)
    return draft(
        "latest_first|newest_items|last_in_reverse",
        "items|log|visits: list -> list",
        [
            "Return the last $n items of $items, the very last one first. If there are fewer items, return all of them "
            "in the opposite order.",
            "Turn $items around and return the first $n items of the result, or all if there are not so many.",
        ],
        "return $items[::-1][:$n]",
        lambda: (s.pick(s.ints(0, 30, 0, 8), s.words(0, 5)),),
        [([],), ([1],), (list(range(1, n + 2)),)],
        n=n,
    )


@family(1)
def without_position(s: Source) -> Draft:
    return draft(
        "remove_at|without_index|drop_position",
        "items|values|queue: list[int], i|index|place: int -> list[int]",
        [
            "Return a new list with all items of $items except the one at index $i. The index exists and is not "
            "negative.",
            "Leave out the item at position $i, counted from 0, and return the others in their order. There is such an "
            "item.",
        ],
        "return $items[:$i] + $items[$i + 1 :]",
        lambda: ((x := s.ints(0, 30, 1, 6)), s.number(0, len(x) - 1)),
        [([5], 0), ([1, 2], 1), ([3, 3, 3], 1)],
    )


@family(1)
def insert_in_middle(s: Source) -> Draft:
    return draft(
        "insert_at|add_at_position|squeeze_in",
        "items|row|line: list[int], i|index|place: int -> list[int]",
        [
            "Return a new list in which the number $new stands at index $i, with all items of $items around it in "
            "their order. $i is at least 0 and at most the length of $items.",
            "Put $new in front of the item at index $i of a copy of $items, or at the end if $i is the length. Return "
            "the copy.",
        ],
        "return $items[:$i] + [$new] + $items[$i:]",
        lambda: ((x := s.ints(0, 30, 0, 6)), s.number(0, len(x))),
        [([], 0), ([5], 0), ([5], 1)],
        new=s.number(0, 99),
    )


@family(1)
def multiples_list(s: Source) -> Draft:
    k = s.number(3, 8)
    return draft(
        "first_multiples|row_of_table|multiples_of_number",
        "n|number|x: int -> list[int]",
        [
            "Return a list of the first $k multiples of $n: $n itself, 2 * $n and so on.",
            "Return the row of $n in a multiplication table, from 1 times $n to $k times $n, as a list.",
        ],
        "return [$n * i for i in range(1, $end)]",
        lambda: (s.number(-9, 20),),
        [(0,), (1,)],
        k=k,
        end=k + 1,
    )


@family(1)
def list_of_powers(s: Source) -> Draft:
    p, word = s.pick((2, "squares"), (3, "cubes"), (4, "fourth powers"))
    return draft(
        "list_of_powers|powers_up_to|make_powers",
        "n|count|last: int -> list[int]",
        [
            "Return a list of the $word of the numbers from 1 to $n. For $n equal to 0 the list is empty.",
            "List i ** $p for each whole number i, beginning with 1 and ending with $n, which is not negative.",
        ],
        "return [i ** $p for i in range(1, $n + 1)]",
        lambda: (s.number(0, 9),),
        [(0,), (1,), (3,)],
        p=p,
        word=word,
    )


@family(1)
def countdown_text(s: Source) -> Draft:
    return draft(
        "countdown_text|count_down|announce",
        "n|start|seconds: int -> str",
        [
            "Return the numbers from $n down to 1 in one text, with ' ' between them, followed by ' $end'. $n is at "
            "least 1.",
            "Write a countdown from the positive number $n to 1, with spaces between the numbers, and after it a space "
            "and '$end'.",
        ],
        'return " ".join(str(i) for i in range($n, 0, -1)) + " $end"',
        lambda: (s.number(1, 12),),
        [(1,), (2,)],
        end=s.pick("go", "stop", "fire", "now"),
    )


@family(1)
def replaced_values(s: Source) -> Draft:
    old = s.number(0, 9)
    return draft(
        "replace_all|exchange_value|swap_value",
        "items|numbers|cells: list[int] -> list[int]",
        [
            "Return a new list in which each $old of $items is replaced by $new.",
            "Write $new in the place of every number $old in a copy of $items, and return the copy.",
        ],
        "return [$new if x == $old else x for x in $items]",
        lambda: (s.ints(old - 1, old + 2),),
        [([],), ([old],), ([old, old + 1, old],)],
        old=old,
        new=s.number(20, 99),
    )


@family(1)
def number_and_square(s: Source) -> Draft:
    code, wording = s.pick(
        ("x * x", "its square"), ("-x", "its negative"), ("x + 1", "the next number"), ("x / 2", "its half")
    )
    return draft(
        "pair_with_result|value_table|two_each",
        "numbers|values|inputs: list[int] -> list[tuple]",
        [
            f"Return a list with a tuple for each number of $numbers: the number and {wording}.",
            f"Make a table: for every number in $numbers, a tuple of the number itself and {wording}. Return the list "
            "of tuples.",
        ],
        f"return [(x, {code}) for x in $numbers]",
        lambda: (s.ints(-9, 12, 0, 5),),
        [([],), ([3],), ([0, 1],)],
    )


@family(1)
def joined_by_item(s: Source) -> Draft:
    return draft(
        "join_lists|link_lists|put_between",
        "a|first|left: list[int], b|second|right: list[int] -> list[int]",
        [
            "Return a list of the items of $b, then the number $mid, then the items of $a.",
            "Put $a behind $b, with the single number $mid between the two, and return the new list.",
        ],
        "return $b + [$mid] + $a",
        lambda: (s.ints(1, 9, 0, 4), s.ints(1, 9, 0, 4)),
        [([], []), ([1], []), ([1], [2, 3])],
        mid=s.pick(0, -1, 100),
    )


@family(1)
def shifted_right(s: Source) -> Draft:
    return draft(
        "shift_right|move_along|enter_from_left",
        "items|row|belt: list[int] -> list[int]",
        [
            "Return a list of the same length in which every item of $items has moved one place to the right. The last "
            "one falls out, and $new comes in at the left. The list is not empty.",
            "Put $new in front of the non-empty list $items and drop its last item. Return the result as a new list.",
        ],
        "return [$new] + $items[:-1]",
        lambda: (s.ints(1, 9, 1, 6),),
        [([5],), ([1, 2],)],
        new=s.pick(0, -1, 7, 10),
    )


@family(1)
def list_in_two_halves(s: Source) -> Draft:
    return draft(
        "split_in_half|two_halves|deal_in_two",
        "items|cards|players: list -> tuple[list, list]",
        [
            "Return a tuple of the first and the second half of $items. With an odd number of items the first half has "
            "one more.",
            "Cut the list $items into two parts and return both in a tuple. The parts are equally long, or the first "
            "one is longer by one item.",
        ],
        """
        half = (len($items) + 1) // 2
        return $items[:half], $items[half:]
        """,
        lambda: (s.pick(s.ints(0, 9, 0, 7), s.words(0, 5)),),
        [([],), ([1],), ([1, 2],), ([1, 2, 3],)],
    )


@family(1)
def scaled_to_largest(s: Source) -> Draft:
    return draft(
        "share_of_largest|relative_to_maximum|scale_down",
        "numbers|heights|amounts: list[int] -> list[float]",
        [
            "Divide each number of $numbers by the largest one and return the list of results. All numbers are "
            "positive.",
            "Return a list in which every number of $numbers is written as a fraction of their maximum. No number is 0 "
            "or negative, and there may be none.",
        ],
        "return [n / max($numbers) for n in $numbers]",
        lambda: (s.ints(1, 20, 0, 5),),
        [([],), ([5],), ([1, 2, 4],)],
    )


@family(1)
def numbered_items(s: Source) -> Draft:
    first = s.pick(1, 0, 10, 100)
    return draft(
        "number_items|enumerated|list_with_numbers",
        "items|tasks|names: list[str] -> list[str]",
        [
            "Return a list of the items of $items with their numbers in front: '$first$sep' and the first item, "
            "'$second$sep' and the second item, and so on.",
            "Put the number of each item and $sep!r before it, counting from $first, and return the new list of texts.",
        ],
        'return [f"{i}$sep{item}" for i, item in enumerate($items, $first)]',
        lambda: (s.words(0, 4),),
        [([],), (["a"],), (["b", "c"],)],
        first=first,
        second=first + 1,
        sep=s.pick(". ", ") ", ": ", "-"),
    )


@family(1)
def numbers_as_text(s: Source) -> Draft:
    return draft(
        "digits_to_number|join_to_number|read_digits",
        "digits|parts|blocks: list[int] -> int",
        [
            "Write the numbers of $digits one behind the other and return the result as a number. The list is not "
            "empty, and no number is negative.",
            "Return the whole number whose digits are those of the non-negative numbers in $digits, in the same order. "
            "There is at least one number.",
        ],
        'return int("".join(str(d) for d in $digits))',
        lambda: (s.ints(0, 12, 1, 5),),
        [([0],), ([0, 7],), ([12, 3],)],
    )
