"""Pairs and points: lists of tuples, coordinates and ranges."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def swapped_pairs(s: Source) -> Draft:
    return draft(
        "swap_pairs|turn_pairs|exchange_in_pairs",
        "pairs|points|edges: list[tuple[int, int]] -> list[tuple[int, int]]",
        [
            "Return a list of the tuples in $pairs with the two items of each one exchanged.",
            "Each item of $pairs is a tuple of two numbers. Return the list of these tuples with their order turned "
            "around.",
        ],
        "return [(b, a) for a, b in $pairs]",
        lambda: (s.pairs(),),
        [([],), ([(1, 1)],), ([(1, 2)],)],
    )


@family(1)
def pair_products(s: Source) -> Draft:
    shape, what = s.pick(
        ("rectangle", "width and height"), ("box of coins", "number and value"), ("purchase", "count and price")
    )
    return draft(
        "total_of_products|sum_of_areas|sum_of_pair_products",
        "pairs|items|sizes: list[tuple[int, int]] -> int",
        [
            "Each tuple in $pairs stands for a $shape and holds its $what. Multiply the two numbers of each tuple and "
            "return the sum of the products.",
            "Return the sum of a times b for all tuples (a, b) in $pairs. An empty list gives 0.",
        ],
        "return sum(a * b for a, b in $pairs)",
        lambda: (s.pairs(0, 12),),
        [([],), ([(3, 4)],), ([(0, 5), (1, 1)],)],
        shape=shape,
        what=what,
    )


@family(1)
def steps_on_grid(s: Source) -> Draft:
    return draft(
        "grid_distance|city_blocks|steps_between_points",
        "a|start|here: tuple[int, int], b|goal|there: tuple[int, int] -> int",
        [
            "The tuples $a and $b are points of a grid. Return how many steps lead from $a to $b if a step goes one "
            "unit to the left, right, up or down.",
            "Return the distance of the points $a and $b along the axes: the difference of their first coordinates "
            "plus the difference of their second ones, both without sign.",
        ],
        "return abs($a[0] - $b[0]) + abs($a[1] - $b[1])",
        lambda: ((s.number(-9, 9), s.number(-9, 9)), (s.number(-9, 9), s.number(-9, 9))),
        [((0, 0), (0, 0)), ((1, 5), (4, 1)), ((4, 1), (1, 5))],
    )


@family(1)
def point_in_box(s: Source) -> Draft:
    w, h = s.number(4, 12), s.number(3, 9)
    return draft(
        "is_on_board|inside_field|point_in_box",
        "x|column|left: int, y|row|top: int -> bool",
        [
            "A field has the columns 0 to $last_x and the rows 0 to $last_y. Return True if the place in column $x and "
            "row $y lies on it, and False otherwise.",
            "Return whether $x is at least 0 and less than $w, and $y at least 0 and less than $h.",
        ],
        "return 0 <= $x < $w and 0 <= $y < $h",
        lambda: (s.number(-3, w + 2), s.number(-3, h + 2)),
        [(0, 0), (w, 0), (0, h), (w - 1, h - 1), (-1, 1), (1, -1)],
        w=w,
        h=h,
        last_x=w - 1,
        last_y=h - 1,
    )


@family(1)
def shifted_points(s: Source) -> Draft:
    return draft(
        "move_points|shift_all|translate_points",
        "points|dots|corners: list[tuple[int, int]] -> list[tuple[int, int]]",
        [
            "Move every point (x, y) in $points by $dx to the right and by $dy upwards, and return the list of new "
            "points. Right means larger x, up means larger y.",
            "Add $dx to the first and $dy to the second number of each tuple in $points, and return the new tuples.",
        ],
        "return [(x + $dx, y + $dy) for x, y in $points]",
        lambda: (s.pairs(-9, 9),),
        [([],), ([(0, 0)],)],
        dx=s.number(1, 9),
        dy=s.number(1, 9),
    )


@family(2)
def bounding_box(s: Source) -> Draft:
    return draft(
        "bounding_box|smallest_frame|frame_of_points",
        "points|dots|trees: list[tuple[int, int]] -> tuple[int, int, int, int]",
        [
            "Return the smallest x, the smallest y, the largest x and the largest y of the points (x, y) in $points, "
            "as a tuple of four numbers. There is at least one point.",
            "Find the rectangle around all points in the non-empty list $points of tuples (x, y), and return it as the "
            "tuple (lowest x, lowest y, highest x, highest y).",
        ],
        """
        xs = [x for x, y in $points]
        ys = [y for x, y in $points]
        return min(xs), min(ys), max(xs), max(ys)
        """,
        lambda: (s.pairs(-9, 20, 1, 5),),
        [([(2, 3)],), ([(1, 9), (5, 2)],)],
    )


@family(2)
def walk_end(s: Source) -> Draft:
    up, down, left, right = tuple(s.pick("UDLR", "NSWE", "^v<>", "udlr"))
    return draft(
        "end_of_walk|final_position|follow_path",
        "moves|path|steps: str -> tuple[int, int]",
        [
            "A robot begins at (0, 0). Each character of $moves is a step: '$up' adds 1 to y, '$down' subtracts 1 from "
            "y, '$right' adds 1 to x and '$left' subtracts 1 from x. Return the final position as a tuple (x, y).",
            "Count in $moves how often '$right' occurs minus how often '$left' occurs, and how often '$up' occurs "
            "minus how often '$down' occurs. Return both numbers as a tuple.",
        ],
        """
        x = $moves.count("$right") - $moves.count("$left")
        y = $moves.count("$up") - $moves.count("$down")
        return x, y
        """,
        lambda: (s.letters(up + down + left + right, 0, 8),),
        [("",), (up,), (down,), (left,), (right,)],
        up=up,
        down=down,
        left=left,
        right=right,
    )


@family(1)
def name_with_extreme(s: Source) -> Draft:
    extreme, word, field = s.pick(("max", "largest", "size"), ("min", "smallest", "price"), ("max", "highest", "score"))
    return draft(
        "name_with_extreme|best_entry|pick_by_number",
        "entries|people|offers: list[tuple[str, int]] -> str",
        [
            "Each tuple in $entries holds a name and a $field. Return the name with the $word $field. If several have "
            "it, return the one that stands first in the list, which is not empty.",
            "Find the tuple (name, $field) in the non-empty list $entries whose $field is $word, the first one if "
            "there are several, and return its name.",
        ],
        "return $extreme($entries, key=lambda entry: entry[1])[0]",
        lambda: (s.entries(1, 9, 1, 5),),
        [([("Ann", 3)],), ([("Ben", 4), ("Ann", 4), ("Kim", 1)],), ([("Ann", 2), ("Ben", 1), ("Kim", 1)],)],
        extreme=extreme,
        word=word,
        field=field,
    )


@family(1)
def interval_lengths(s: Source) -> Draft:
    return draft(
        "longest_interval|length_of_longest|widest_range",
        "intervals|shifts|ranges: list[tuple[int, int]] -> int",
        [
            "Each tuple in $intervals is the start and the end of an interval. Return the length of the longest one, "
            "which is end minus start, or 0 if there is none.",
            "Return the largest difference b - a of all tuples (a, b) in $intervals, and 0 for an empty list. a is "
            "never larger than b.",
        ],
        "return max((end - start for start, end in $intervals), default=0)",
        lambda: ([(a, a + s.number(0, 9)) for a in s.ints(0, 20, 0, 5)],),
        [([],), ([(4, 4)],), ([(1, 3), (2, 9)],)],
    )


@family(1)
def covers_number(s: Source) -> Draft:
    return draft(
        "count_covering|open_at|how_many_contain",
        "intervals|shops|visits: list[tuple[int, int]], x|hour|moment: int -> int",
        [
            "Each tuple in $intervals gives an opening hour and a closing hour. Return how many of them are open at "
            "$x: not before the opening hour and before the closing hour.",
            "Return how many tuples (a, b) of $intervals have a less than or equal to $x and b greater than $x.",
        ],
        "return sum(start <= $x < end for start, end in $intervals)",
        lambda: ([(a, a + s.number(1, 9)) for a in s.ints(0, 12, 0, 5)], s.number(0, 18)),
        [([], 3), ([(3, 5)], 3), ([(3, 5)], 5), ([(3, 5), (4, 6)], 4)],
    )


@family(3)
def merged_intervals(s: Source) -> Draft:
    return draft(
        "merge_intervals|join_ranges|combine_shifts",
        "intervals|ranges|shifts: list[tuple[int, int]] -> list[list[int]]",
        [
            "Join all intervals in $intervals that overlap or touch each other. Return the resulting intervals as "
            "lists [start, end], sorted by their start.",
            "The tuples in $intervals are ranges from a start to an end. Return the ranges that are covered, as a "
            "sorted list of lists of two numbers; ranges that share at least one point become one.",
        ],
        """
        merged = []
        for start, end in sorted($intervals):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return merged
        """,
        lambda: ([(a, a + s.number(0, 5)) for a in s.ints(0, 18, 0, 5)],),
        [([],), ([(1, 3), (3, 5)],), ([(4, 5), (1, 2)],), ([(1, 9), (2, 3)],)],
    )


@family(1)
def ranges_overlap(s: Source) -> Draft:
    return draft(
        "ranges_overlap|have_common_time|meetings_clash",
        "a|first: tuple[int, int], b|second: tuple[int, int] -> bool",
        [
            "Two meetings are given as tuples of start and end. Return True if $a and $b overlap, and False otherwise. "
            "A meeting that begins when the other one ends does not overlap with it.",
            "Return whether each of the intervals $a and $b, tuples of a start and an end, begins before the other one "
            "ends.",
        ],
        "return $a[0] < $b[1] and $b[0] < $a[1]",
        lambda: ((x := s.number(0, 9), x + s.number(1, 5)), (y := s.number(0, 9), y + s.number(1, 5))),
        [((1, 3), (3, 5)), ((3, 5), (1, 3)), ((1, 9), (2, 3)), ((1, 4), (3, 6))],
    )


@family(1)
def free_gaps(s: Source) -> Draft:
    return draft(
        "gaps_between|breaks|free_times",
        "meetings|lessons|trips: list[tuple[int, int]] -> list[int]",
        [
            "The tuples in $meetings are start and end times, in order and without overlaps. Return a list of the "
            "lengths of the breaks between each meeting and the next one.",
            "Subtract the second number of each tuple in $meetings from the first number of the tuple after it. Return "
            "the list of differences, which is empty if there are fewer than two tuples.",
        ],
        "return [after[0] - before[1] for before, after in zip($meetings, $meetings[1:])]",
        lambda: ([(10 * i + s.number(0, 4), 10 * i + s.number(5, 10)) for i in range(s.number(0, 5))],),
        [([],), ([(1, 2)],), ([(1, 2), (2, 3), (5, 6)],)],
    )


@family(1)
def dominoes_fit(s: Source) -> Draft:
    return draft(
        "dominoes_fit|is_connected_path|links_match",
        "stones|pieces|roads: list[tuple[int, int]] -> bool",
        [
            "Each tuple in $stones is a domino. Return True if in the given order the second number of each domino is "
            "equal to the first number of the next one. One domino or none always fits.",
            "Return whether every tuple of $stones, except the last, ends with the number with which the tuple after "
            "it begins.",
        ],
        "return all(a[1] == b[0] for a, b in zip($stones, $stones[1:]))",
        lambda: (s.pick(s.pairs(1, 2, 0, 3), [(1, 2), (2, 2), (2, 3), (3, 1)][: s.number(0, 4)]),),
        [([],), ([(1, 2)],), ([(1, 2), (2, 1)],), ([(1, 2), (1, 2)],)],
    )


@family(1)
def unzipped(s: Source) -> Draft:
    return draft(
        "separate_pairs|unzip|two_columns",
        "pairs|entries|rows: list[tuple[str, int]] -> tuple[list[str], list[int]]",
        [
            "Each tuple in $pairs holds a name and a number. Return a tuple of two lists: all names and all numbers, "
            "in the order of $pairs.",
            "Take the list $pairs of tuples apart: return the list of their first items and the list of their second "
            "items, together in a tuple.",
        ],
        "return [a for a, b in $pairs], [b for a, b in $pairs]",
        lambda: (s.entries(),),
        [([],), ([("Ann", 1)],)],
    )


@family(2)
def lowest_terms(s: Source) -> Draft:
    return draft(
        "simplify_fraction|reduced_ratio|shorten_fraction",
        "a|top|width: int, b|bottom|height: int -> tuple[int, int]",
        [
            "Divide the positive numbers $a and $b by their greatest common divisor and return both results as a "
            "tuple.",
            "Return the fraction of $a and $b in lowest terms, as a tuple of its numerator and its denominator. Both "
            "numbers are positive.",
        ],
        """
        divisor = math.gcd($a, $b)
        return $a // divisor, $b // divisor
        """,
        lambda: ((g := s.number(1, 8)) * s.number(1, 9), g * s.number(1, 9)),
        [(1, 1), (4, 8), (9, 3), (7, 5)],
    )


@family(3)
def nearest_point(s: Source) -> Draft:
    a = s.number(1, 5)
    b = s.number(1, 5)
    return draft(
        "nearest_point|closest_shop|next_station",
        "points|shops|stations: list[tuple[int, int]] -> tuple[int, int]",
        [
            "Return the point (x, y) in $points that is nearest to ($a, $b) in a straight line. If several are equally "
            "near, return the first of them. The list is not empty.",
            "You stand at ($a, $b). Return the tuple in the non-empty list $points with the smallest straight distance "
            "to you, and the earliest one if there are several.",
        ],
        "return min($points, key=lambda p: (p[0] - $a) ** 2 + (p[1] - $b) ** 2)",
        lambda: (s.pairs(-9, 12, 1, 5),),
        [([(0, 0)],), ([(a + 1, b), (a, b + 1)],), ([(a + 3, b), (a + 2, b + 2)],)],
        a=a,
        b=b,
    )


@family(2)
def pairs_with_sum(s: Source) -> Draft:
    n = s.number(4, 9)
    return draft(
        "pairs_with_sum|partners|find_partners",
        "numbers|values|cards: list[int] -> int",
        [
            "Return how many pairs of numbers at different positions of $numbers have the sum $n. Each pair counts "
            "once, whichever of its numbers comes first.",
            "Count in how many ways you can choose two positions in the list $numbers whose numbers add up to $n.",
        ],
        """
        count = 0
        for i, a in enumerate($numbers):
            count += $numbers[i + 1 :].count($n - a)
        return count
        """,
        lambda: (s.ints(0, n, 0, 7),),
        [([],), ([n // 2],), ([n // 2, n - n // 2, n // 2],)],
        n=n,
    )
