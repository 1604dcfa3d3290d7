"""Recursion: nested lists, trees, and values defined by smaller ones."""

from __future__ import annotations

from typing import Any

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


def _nested(s: Source, depth: int = 2) -> list[Any]:
    return [s.number(0, 9) if depth == 0 or s.random() < 0.6 else _nested(s, depth - 1) for _ in range(s.number(0, 4))]


def _tree(s: Source, depth: int = 3) -> dict[str, Any]:
    children = [_tree(s, depth - 1) for _ in range(s.number(0, 2))] if depth > 1 else []
    return {"value": s.number(0, 9), "children": children}


@family(2)
def recursive_sequence(s: Source) -> Draft:
    return draft(
        "term|sequence_term|value_of_term",
        "n|k|index: int -> int",
        [
            "A sequence is defined by recursion: term 0 is $a, and each further term is $m times the term before it "
            "plus "
            "$d. Return its term number $n.",
            "Use recursion on $n: for 0 the result is $a, and for a larger number it is $m times the result for the "
            "number before, plus $d. Return the result.",
        ],
        """
        if $n == 0:
            return $a
        return $m * $f($n - 1) + $d
        """,
        lambda: (s.number(0, 10),),
        [(0,), (1,), (2,)],
        a=s.number(1, 6),
        m=s.number(2, 3),
        d=s.number(1, 5),
    )


@family(2)
def three_step_sequence(s: Source) -> Draft:
    a, b = s.number(0, 4), s.number(1, 5)
    op = s.pick("-", "+ 2 *", "* 2 -")
    said = {
        "-": "the value before it minus",
        "+ 2 *": "the value before it plus twice",
        "* 2 -": "twice the value before it minus",
    }[op]
    return draft(
        "next_values|two_back|double_recursion",
        "n|i|place: int -> int",
        [
            f"The value of $f is $a for 0 and $b for 1. For larger numbers it is {said} the value two before it. "
            f"Return "
            f"the value for $n, with recursion.",
            f"Use recursion to compute a sequence with the first values $a and $b (for 0 and 1), where each further "
            f"one "
            f"is {said} the one before that. Return the one for $n.",
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
            "$steps "
            "steps can be climbed. For 0 steps there is one way.",
            "In how many ways is $steps a sum of ones and $big-s, if the order matters? Return that number; 0 has one "
            "way.",
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


@family(2)
def nested_sum(s: Source) -> Draft:
    k = s.number(1, 5)
    return draft(
        "nested_sum|deep_total|sum_all_levels",
        "items|box|nested: list -> int",
        [
            "The list $items contains numbers and lists, which may contain numbers and lists again. Return the sum of "
            "all numbers that are larger than $k, at any depth.",
            "Add up every number above $k in $items and in the lists inside it, however deep they are, and return the "
            "sum.",
        ],
        """
        total = 0
        for item in $items:
            if isinstance(item, list):
                total += $f(item)
            elif item > $k:
                total += item
        return total
        """,
        lambda: (_nested(s),),
        [([],), ([[[9]]],), ([k, [k + 1]],)],
        k=k,
    )


@family(1)
def nesting_depth(s: Source) -> Draft:
    return draft(
        "nesting_depth|depth_of|deepest_level",
        "items|box|nested: list -> int",
        [
            "Return how deep the list $items is nested: 1 for a list without lists in it, and otherwise 1 more than "
            "the "
            "depth of the deepest list in it.",
            "A list of depth 1 contains no lists. Any other list is one deeper than the deepest of the lists that it "
            "contains. Return the depth of $items.",
        ],
        "return 1 + max(($f(x) for x in $items if isinstance(x, list)), default=0)",
        lambda: (_nested(s, 3),),
        [([],), ([1, [2]],), ([[], [[]]],)],
    )


@family(2)
def flatten_fully(s: Source) -> Draft:
    return draft(
        "flatten|all_numbers|unpack_all",
        "items|box|nested: list -> list[int]",
        [
            "Return one list with all numbers that occur in $items or in lists inside it at any depth, from left to "
            "right.",
            "The list $items may contain lists, which may contain lists too. Return its numbers without this nesting, "
            "in "
            "the same order.",
        ],
        """
        result = []
        for item in $items:
            if isinstance(item, list):
                result.extend($f(item))
            else:
                result.append(item)
        return result
        """,
        lambda: (_nested(s),),
        [([],), ([[[]], 3],), ([1, [2, [3]], 4],)],
    )


@family(1)
def tree_count(s: Source) -> Draft:
    return draft(
        "count_nodes|people_in_tree|size_of_tree",
        "tree|node|person: dict -> int",
        [
            "A node of a tree is a dictionary with a number under 'value' and a list of nodes under 'children'. Return "
            "how many nodes $tree consists of, itself included.",
            "Return 1 plus the number of nodes below $tree. Every node is a dictionary, and the nodes directly below "
            "it "
            "are in the list under its key 'children'.",
        ],
        'return 1 + sum($f(child) for child in $tree["children"])',
        lambda: (_tree(s),),
        [({"value": 1, "children": []},)],
    )


@family(1)
def tree_largest(s: Source) -> Draft:
    extreme, word = s.pick(("max", "largest"), ("min", "smallest"))
    return draft(
        "extreme_in_tree|tree_record|search_tree",
        "tree|node|root: dict -> int",
        [
            "A node is a dictionary with a number under 'value' and a list of further nodes under 'children'. Return "
            "the "
            "$word number in the tree $tree.",
            "Return the $word of all values in $tree, a dictionary with the keys 'value' (a number) and 'children' (a "
            "list of such dictionaries).",
        ],
        'return $extreme([$tree["value"]] + [$f(child) for child in $tree["children"]])',
        lambda: (_tree(s),),
        [({"value": 4, "children": []},)],
        extreme=extreme,
        word=word,
    )


@family(2)
def leaves_of_tree(s: Source) -> Draft:
    return draft(
        "leaf_values|ends_of_branches|collect_leaves",
        "tree|node|root: dict -> list[int]",
        [
            "A node is a dictionary with the keys 'value' and 'children', a list of nodes. Return the values of all "
            "nodes "
            "of $tree without children, from left to right.",
            "Return a list of the numbers under 'value' in those nodes of $tree whose list 'children' is empty, in the "
            "order in which they stand in $tree.",
        ],
        """
        if not $tree["children"]:
            return [$tree["value"]]
        return [leaf for child in $tree["children"] for leaf in $f(child)]
        """,
        lambda: (_tree(s),),
        [({"value": 4, "children": []},)],
    )


@family(3)
def split_in_middle(s: Source) -> Draft:
    sep = s.pick("-", ".", "|", "")
    return draft(
        "fold_text|binary_split|split_in_middle",
        "text|word|line: str -> str",
        [
            "If $text has at most $n characters, return it. Otherwise cut it in the middle, where the second half may "
            "be "
            "longer by one, treat both halves in the same way, and return '(', the first result, $sep!r, the second "
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


@family(1)
def recursive_reverse(s: Source) -> Draft:
    return draft(
        "reverse_deep|mirror_nested|turn_all_around",
        "items|box|nested: list -> list",
        [
            "Return $items in the opposite order, where every list inside it is turned around in the same way.",
            "Reverse the list $items, the lists in it, the lists in those and so on, and return the new list.",
        ],
        "return [$f(x) if isinstance(x, list) else x for x in reversed($items)]",
        lambda: (_nested(s),),
        [([],), ([1, 2],), ([1, [2, 3]],)],
    )


@family(2)
def count_digits_at_least(s: Source) -> Draft:
    k = s.number(3, 8)
    return draft(
        "count_large_digits|large_digits|digits_at_least",
        "n|number: int -> int",
        [
            "Use recursion to return how many digits of $n are at least $k. $n is not negative, and 0 has the single "
            "digit 0.",
            "Count the digits of the non-negative number $n that are $k or larger, with recursion on $n // 10.",
        ],
        """
        if $n < 10:
            return int($n >= $k)
        return $f($n // 10) + int($n % 10 >= $k)
        """,
        lambda: (s.number(0, 10 ** s.number(1, 6)),),
        [(0,), (k,), (10 * k,), (k - 1,)],
        k=k,
    )


@family(3)
def choices_of_letters(s: Source) -> Draft:
    letters = s.pick("ab", "xy", "01", "HT")
    return draft(
        "all_words|possible_codes|list_all_texts",
        "n|length: int -> list[str]",
        [
            "Return a list of all texts of length $n that can be made from the characters of $letters!r without two "
            "equal "
            "characters next to each other, in alphabetical order. For 0 there is only the empty text.",
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
            "as "
            "often as needed.",
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
            "used "
            "any number of times and the order does not matter. The values are positive and different.",
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
            "up, "
            "the rest of the other one follows.",
            "Mix $a and $b: the first item of $a, the first of $b, the second of $a and so on; what is left of the "
            "longer "
            "list comes at the end.",
        ],
        """
        if not $a:
            return $b
        return [$a[0]] + $f($b, $a[1:])
        """,
        lambda: (s.ints(0, 9, 0, 5), s.ints(10, 19, 0, 5)),
        [([], []), ([1], []), ([], [1]), ([1, 2, 3], [9])],
    )


@family(2)
def folder_sizes(s: Source) -> Draft:
    def folder(depth: int) -> dict[str, Any]:
        names = s.few(["a", "b", "docs", "img", "new", "old"], 0, 3)
        return {n: folder(depth - 1) if depth and s.flag() else s.number(1, 20) for n in names}

    return draft(
        "folder_size|disk_usage|total_size",
        "folder|files|content: dict -> int",
        [
            "A folder is a dictionary of names. Its values are the sizes of files or, for folders in it, dictionaries "
            "of "
            "the same kind. Return the sum of all sizes in $folder, where each folder itself needs $k more.",
            "Return the space that $folder takes: $k for itself, the numbers among its values, and the space of the "
            "dictionaries among its values, which are folders too.",
        ],
        """
        size = $k
        for item in $folder.values():
            size += $f(item) if isinstance(item, dict) else item
        return size
        """,
        lambda: (folder(2),),
        [({},), ({"a": {}},), ({"a": 5, "b": {"c": 1}},)],
        k=s.number(1, 4),
    )
