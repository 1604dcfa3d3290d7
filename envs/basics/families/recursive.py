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
            "plus $d. Return its term number $n.",
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
            "the depth of the deepest list in it.",
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
            "in the same order.",
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
            "it are in the list under its key 'children'.",
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
            "the $word number in the tree $tree.",
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
            "nodes of $tree without children, from left to right.",
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
            "of the same kind. Return the sum of all sizes in $folder, where each folder itself needs $k more.",
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
