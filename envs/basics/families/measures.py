"""Lengths, areas, angles and other measures: short formulas."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def wasted_area(s: Source) -> Draft:
    return draft(
        "wasted_area|paper_left_over|area_around_circle",
        "side|width|a: float -> float",
        [
            "The largest possible circle is cut out of a square with the side $side. Return the area that is left "
            "over. Use math.pi.",
            "Return the area of a square with side $side minus the area of the circle that touches all its sides, "
            "computed with math.pi.",
        ],
        "return $side ** 2 - math.pi * ($side / 2) ** 2",
        lambda: (s.halves(0, 20),),
        [(0.0,), (2.0,)],
    )


@family(1)
def tiles_on_floor(s: Source) -> Draft:
    t = s.number(5, 12)
    return draft(
        "whole_tiles|tiles_on_floor|stickers_on_sheet",
        "width|w|columns: int, height|h|rows: int -> int",
        [
            "Square tiles with a side of $t centimeters are laid in straight rows on a floor of $width by $height "
            "centimeters. Return how many whole tiles fit.",
            "Return how often $t fits into $width, times how often it fits into $height; only whole numbers count.",
        ],
        "return ($width // $t) * ($height // $t)",
        lambda: (s.number(0, 90), s.number(0, 90)),
        [(t, t), (t - 1, 50), (2 * t, 3 * t)],
        t=t,
    )


@family(1)
def feet_and_inches(s: Source) -> Draft:
    n, c, big, small, unit = s.pick(
        (12, 2.54, "feet", "inches", "centimeters"),
        (16, 28.35, "pounds", "ounces", "grams"),
        (8, 0.5, "gallons", "pints", "liters"),
    )
    return draft(
        "convert_units|old_units|metric_value",
        "big|large|a: int, small|rest|b: int -> float",
        [
            "One of the $big_name is $n $small_name, and one of the $small_name is $c $unit. Return how many $unit are "
            "$big of the $big_name and $small of the $small_name.",
            "Convert a measure into $unit: it consists of the number $big of $big_name, each of $n $small_name, and "
            "the number $small of $small_name, each of $c $unit.",
        ],
        "return ($big * $n + $small) * $c",
        lambda: (s.number(0, 12), s.number(0, n - 1)),
        [(0, 0), (1, 0), (0, 1)],
        big_name=big,
        small_name=small,
        n=n,
        c=c,
        unit=unit,
    )


@family(1)
def slope_of_line(s: Source) -> Draft:
    return draft(
        "slope|steepness|rate_of_change",
        "p|a|first: tuple[int, int], q|b|second: tuple[int, int] -> float",
        [
            "Return the slope of the line through the points $p and $q: the difference of their y values divided by "
            "the difference of their x values. Points are tuples (x, y) with different x.",
            "A road leads from the point $p to the point $q, both tuples (x, y). Return by how much y grows for each "
            "unit of x. The two x are not equal.",
        ],
        "return ($q[1] - $p[1]) / ($q[0] - $p[0])",
        lambda: ((s.number(-9, 0), s.number(-9, 9)), (s.number(1, 9), s.number(-9, 9))),
        [((0, 0), (1, 1)), ((0, 5), (4, 5)), ((2, 1), (0, 5))],
    )


@family(1)
def point_between(s: Source) -> Draft:
    return draft(
        "center_of|halfway_point|middle_of_segment",
        "a|p|start: tuple[int, int], b|q|end: tuple[int, int] -> tuple[float, float]",
        [
            "Return the point in the middle between the points $a and $b as a tuple (x, y). Both are tuples of the "
            "same form.",
            "Two people stand at $a and $b, given as tuples (x, y), and meet halfway. Return the place as a tuple.",
        ],
        "return ($a[0] + $b[0]) / 2, ($a[1] + $b[1]) / 2",
        lambda: ((s.number(-9, 9), s.number(-9, 9)), (s.number(-9, 9), s.number(-9, 9))),
        [((0, 0), (0, 0)), ((0, 2), (4, 8)), ((1, 0), (2, 0))],
    )


@family(1)
def area_equals_perimeter(s: Source) -> Draft:
    word, test = s.pick(("larger than", ">"), ("equal to", "=="), ("smaller than", "<"))
    return draft(
        "compare_area|area_and_border|rectangle_test",
        "a|width|length: int, b|height|depth: int -> bool",
        [
            "Return True if the area of a rectangle with the sides $a and $b is, as a number, $word its perimeter.",
            "A rectangle has the sides $a and $b. Return whether the number of its area is $word the number of the "
            "length of its border.",
        ],
        "return $a * $b $test 2 * ($a + $b)",
        lambda: (s.number(1, 9), s.number(1, 9)),
        [(4, 4), (3, 6), (1, 9), (9, 9)],
        word=word,
        test=test,
    )


@family(1)
def fits_in_frame(s: Source) -> Draft:
    w, h = s.number(5, 9), s.number(10, 20)
    return draft(
        "fits_in_frame|picture_fits|card_fits_envelope",
        "a|width|x: int, b|height|y: int -> bool",
        [
            "A frame is $w wide and $h high. Return True if a picture of the size $a by $b fits into it, where it may "
            "be turned by 90 degrees, and False otherwise.",
            "Return whether a card with the sides $a and $b goes into an envelope of $w by $h, either way round. Equal "
            "lengths fit.",
        ],
        "return min($a, $b) <= $w and max($a, $b) <= $h",
        lambda: (s.number(1, h + 4), s.number(1, h + 4)),
        [(w, h), (h, w), (w + 1, h), (h, h), (w, h + 1)],
        w=w,
        h=h,
    )


@family(1)
def fourth_angle(s: Source) -> Draft:
    return draft(
        "fourth_angle|last_angle|missing_part",
        "a|first|x: int, b|second|y: int, c|third|z: int -> int",
        [
            "The four parts of a whole add up to $n. Three of them are $a, $b and $c. Return the fourth one.",
            "Return what is missing from $a, $b and $c together to $n.",
        ],
        "return $n - $a - $b - $c",
        lambda: (s.number(20, 90), s.number(20, 90), s.number(20, 90)),
        [(90, 90, 90), (0, 0, 0)],
        n=s.pick(360, 1000, 500, 300),
    )


@family(1)
def seconds_of_day(s: Source) -> Draft:
    a, b, names = s.pick(
        (3600, 60, "hours, minutes and seconds"),
        (144, 12, "gross, dozens and single eggs"),
        (1760, 3, "old miles, fields and steps"),
    )
    return draft(
        "in_smallest_unit|total_of_units|count_smallest",
        "large|x|first: int, middle|y|second: int, small|z|third: int -> int",
        [
            f"Something is measured in {names}. One of the first unit is $a and one of the second is $b of the third "
            "unit. Return how many of the third unit are $large, $middle and $small together.",
            f"Given numbers of {names}, $large, $middle and $small, return $a times the first plus $b times the second "
            "plus the third.",
        ],
        "return $large * $a + $middle * $b + $small",
        lambda: (s.number(0, 5), s.number(0, 11), s.number(0, 11)),
        [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)],
        a=a,
        b=b,
    )


@family(1)
def between_two_values(s: Source) -> Draft:
    p = s.pick(10, 20, 25, 40, 75, 80)
    return draft(
        "blend|value_on_way|interpolate",
        "a|start|low: float, b|end|high: float -> float",
        [
            "Return the number that lies $p percent of the way from $a to $b.",
            "Somebody has gone $p percent of the way from the position $a to the position $b. Return where they are.",
        ],
        "return $a + ($b - $a) * $t",
        lambda: (float(s.number(-10, 20)), float(s.number(-10, 20))),
        [(0.0, 10.0), (3.0, 3.0), (10.0, 0.0)],
        p=p,
        t=p / 100,
    )


@family(1)
def folded_paper(s: Source) -> Draft:
    return draft(
        "stack_height|folded_thickness|height_of_pile",
        "times|folds|n: int -> int",
        [
            "A sheet is $t units thick, and each folding makes the pile $m times as thick. Return its thickness after "
            "$times foldings.",
            "Return $t multiplied by $m as many times as $times says.",
        ],
        "return $t * $m ** $times",
        lambda: (s.number(0, 9),),
        [(0,), (1,), (3,)],
        t=s.number(2, 9),
        m=s.number(2, 3),
    )


@family(1)
def price_after_free_pieces(s: Source) -> Draft:
    k = s.number(1, 4)
    return draft(
        "price_of_pieces|cost_after_free|to_pay",
        "n|count|pieces: int -> int",
        [
            "The first $k of $n pieces are free, and each of the others costs $c cents. Return the price of all. There "
            "are at least $k pieces.",
            "Return $c times the number that is by $k smaller than $n. $n is never smaller than $k.",
        ],
        "return ($n - $k) * $c",
        lambda: (s.number(k, 40),),
        [(k,), (k + 1,)],
        k=k,
        c=s.pick(180, 25, 30, 15),
    )


@family(1)
def clock_hands(s: Source) -> Draft:
    return draft(
        "hour_hand_angle|angle_of_hand|hand_position",
        "hour|h: int, minute|m: int -> float",
        [
            "Return the angle in degrees of the hour hand of a clock from the top, clockwise, at $hour hours and "
            "$minute minutes. It moves 30 degrees in an hour, and the result is less than 360.",
            "The short hand of a clock points up at 0 and at 12 o'clock and turns evenly, by half a degree each "
            "minute. Return its angle, from 0 to below 360, at the time $hour and $minute.",
        ],
        "return (30 * $hour + $minute / 2) % 360",
        lambda: (s.number(0, 23), s.number(0, 59)),
        [(0, 0), (12, 0), (3, 30), (23, 59)],
    )


@family(1)
def rows_in_pyramid(s: Source) -> Draft:
    first, more = s.number(3, 9), s.number(1, 4)
    return draft(
        "seats_in_rows|total_seats|cans_in_pile",
        "rows|n|count: int -> int",
        [
            "The first row of a theater has $a seats, and each further row has $d more than the row before it. Return "
            "the number of seats in $rows rows.",
            "Return the sum of the first $rows numbers of the sequence $a, $b, $c and so on, which grows by $d each "
            "time.",
        ],
        "return sum($a + $d * i for i in range($rows))",
        lambda: (s.number(0, 20),),
        [(0,), (1,), (2,)],
        a=first,
        b=first + more,
        c=first + 2 * more,
        d=more,
    )


@family(1)
def fuel_cost(s: Source) -> Draft:
    return draft(
        "fuel_cost|trip_cost|price_of_trip",
        "km|distance|way: float, price|per_liter|cost: float -> float",
        [
            "A car needs $l liters of fuel for 100 kilometers. Return what the fuel for $km kilometers costs if a "
            "liter costs $price.",
            "Return the cost of driving $km kilometers with $l liters per 100 kilometers, at $price for each liter.",
        ],
        "return $km / 100 * $l * $price",
        lambda: (float(s.number(0, 60) * 10), s.halves(1, 3)),
        [(100.0, 1.0), (0.0, 2.0)],
        l=s.number(4, 12),
    )


@family(1)
def reached_level(s: Source) -> Draft:
    limits = sorted(s.sample(range(5, 60), 2))
    return draft(
        "level_number|reached_level|class_of_value",
        "points|value|x: int -> int",
        [
            "Level 1 begins at $a points and level 2 at $b points; below $a the level is 0. Return the level that "
            "belongs to $points.",
            "Return how many of the two limits $a and $b are reached by $points, that is, are not larger than it.",
        ],
        "return ($points >= $a) + ($points >= $b)",
        lambda: (s.number(0, 70),),
        [(limits[0],), (limits[1],), (limits[0] - 1,), (limits[1] - 1,)],
        a=limits[0],
        b=limits[1],
    )
