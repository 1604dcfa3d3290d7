"""Prices, fees, plans and stores: rules with a condition or two."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(2)
def bulk_price(s: Source) -> Draft:
    many = s.pick(5, 10, 12, 20)
    off = s.pick(10, 20, 25, 50)
    return draft(
        "bulk_price|price_for_many|order_price",
        "count|pieces|number: int, price|each: float -> float",
        [
            "One piece costs $price. Orders of $many pieces or more get $off percent off the whole price. Return the "
            "price of $count pieces.",
            "Return $count times $price, reduced by $off percent if $count is at least $many.",
        ],
        """
        total = $count * $price
        if $count >= $many:
            total *= $factor
        return total
        """,
        lambda: (s.number(1, 2 * many), float(s.number(1, 12))),
        [(many, 2.0), (many - 1, 2.0), (many + 1, 4.0)],
        many=many,
        off=off,
        factor=(100 - off) / 100,
    )


@family(1)
def recipe_amount(s: Source) -> Draft:
    what = s.pick("flour", "rice", "sugar", "butter", "milk")
    return draft(
        "recipe_amount|scaled_amount|grams_for_guests",
        "amount|quantity|weight: float, guests|people: int -> float",
        [
            "A recipe for $n persons takes $amount of $what. Return how much is needed if there are $guests.",
            "The amount $amount of $what is enough for $n persons. {Return|Compute} the amount for a party whose "
            "number of persons is $guests.",
        ],
        "return $amount / $n * $guests",
        lambda: (float(s.number(5, 80) * 10), s.number(1, 12)),
        [(100.0, 1)],
        n=s.pick(2, 4, 5, 8),
        what=what,
    )


@family(1)
def parking_fee(s: Source) -> Draft:
    free = s.number(1, 4)
    return draft(
        "parking_fee|cost_of_parking|fee_after_free_hours",
        "hours|time: int -> int",
        [
            "Parking is free for the first $free hours. Every further hour costs $rate euros. Return the fee for "
            "$hours hours.",
            "A {boat|bike|locker} can be used for $free hours without paying, and each hour after that costs $rate "
            "dollars. Return the price of $hours hours.",
        ],
        "return max(0, $hours - $free) * $rate",
        lambda: (s.number(0, 12),),
        [(0,), (free,), (free + 1,)],
        free=free,
        rate=s.number(2, 6),
    )


@family(2)
def months_to_goal(s: Source) -> Draft:
    return draft(
        "months_to_goal|months_of_saving|how_long_to_save",
        "goal|target: int, saved|start: int, monthly|each_month: int -> int",
        [
            "Somebody has saved $saved dollars and adds $monthly dollars at the end of each month. Return after how "
            "many months there are at least $goal dollars, or 0 if there are enough already.",
            "Return how many times $monthly must be added to $saved until the sum is at least $goal. It is 0 if $saved "
            "is not less than $goal. $monthly is positive.",
        ],
        """
        months = 0
        while $saved < $goal:
            $saved += $monthly
            months += 1
        return months
        """,
        lambda: (s.number(20, 200), s.number(0, 90), s.number(5, 40)),
        [(100, 100, 10), (100, 99, 10), (100, 0, 10), (50, 80, 5)],
    )


@family(1)
def handshakes(s: Source) -> Draft:
    return draft(
        "handshakes|games_in_league|number_of_pairs",
        "n|count|size: int -> int",
        [
            "Everybody in a group of $n people shakes hands with everybody else once. Return the number of handshakes.",
            "In a {league|tournament} each of $n teams plays once against each other team. Return how many games there "
            "are.",
        ],
        "return $n * ($n - 1) // 2",
        lambda: (s.number(0, 40),),
        [(0,), (1,), (2,)],
    )


@family(1)
def profit_percent(s: Source) -> Draft:
    return draft(
        "profit_percent|gain_in_percent|percent_change",
        "cost|old|before: float, sale|new|after: float -> float",
        [
            "Something was bought for $cost and sold for $sale. Return the profit in percent of the buying price. A "
            "loss gives a negative number.",
            "Return by how many percent $sale is larger than $cost. The result is negative if it is smaller, and $cost "
            "is positive.",
        ],
        "return ($sale - $cost) / $cost * 100",
        lambda: (float(s.pick(10, 20, 25, 40, 50, 80)), float(s.number(5, 120))),
        [(20.0, 20.0), (50.0, 25.0)],
    )


@family(1)
def round_down_to(s: Source) -> Draft:
    return draft(
        "round_down_to|lower_multiple|floor_to_step",
        "n|number|x: int -> int",
        [
            "Return the largest multiple of $m that is not larger than $n. The number $n is not negative.",
            "Round $n down to {a multiple|the next lower multiple} of $m; a multiple stays as it is. $n is never below "
            "0.",
        ],
        "return $n - $n % $m",
        lambda: (s.number(0, 150),),
        [(0,), (1,)],
        m=s.number(4, 30),
    )


@family(1)
def team_points(s: Source) -> Draft:
    return draft(
        "team_points|league_points|points_of_team",
        "wins|won: int, draws|drawn: int -> int",
        [
            "A team gets $p points for each win and one point for each draw. Return the points of a team with $wins "
            "wins and $draws draws.",
            "Each victory counts $p points, each draw counts 1 point. {Compute|Return} the total for $wins victories "
            "and $draws draws.",
        ],
        "return $p * $wins + $draws",
        lambda: (s.number(0, 15), s.number(0, 15)),
        [(0, 0), (0, 4)],
        p=s.number(2, 5),
    )


@family(1)
def nearer_number(s: Source) -> Draft:
    return draft(
        "nearer_number|closer_guess|closest_of_two",
        "a|first: int, b|second: int -> int",
        [
            "Return the one of $a and $b that is nearer to $t. If both are equally near, return $a.",
            "Two players guess $a and $b, and the right number is $t. Return the better guess; if they are equally "
            "good, return the first one.",
        ],
        "return $a if abs($a - $t) <= abs($b - $t) else $b",
        lambda: (s.number(-20, 60), s.number(-20, 60)),
        [((t := s.number(5, 40)) - 3, t + 3), (t + 2, t - 2), (t + 9, t)],
        t=t,
    )


@family(1)
def middle_of_three(s: Source) -> Draft:
    return draft(
        "middle_of_three|middle_value|second_largest_of_three",
        "a|x: int, b|y: int, c|z: int -> int",
        [
            "Return the number that stands in the middle when $a, $b and $c are put in order.",
            "Return the one of the three numbers $a, $b and $c that is neither the smallest nor the largest. If two "
            "are equal, return that number.",
        ],
        "return sorted([$a, $b, $c])[1]",
        lambda: (s.number(-20, 20), s.number(-20, 20), s.number(-20, 20)),
        [(1, 1, 5), (4, 2, 2), (3, 3, 3)],
    )


@family(1)
def exactly_one_above(s: Source) -> Draft:
    limit = s.number(0, 50)
    return draft(
        "exactly_one_above|only_one_is_larger|one_passes",
        "a|first|left: int, b|second|right: int -> bool",
        [
            "Return True if exactly one of the numbers $a and $b is larger than $limit, and False otherwise.",
            "Return whether one of $a and $b is above $limit while the other one is not.",
        ],
        "return ($a > $limit) != ($b > $limit)",
        lambda: (s.number(limit - 9, limit + 9), s.number(limit - 9, limit + 9)),
        [(limit, limit + 1), (limit + 1, limit), (limit, limit)],
        limit=limit,
    )


@family(1)
def nearly_equal(s: Source) -> Draft:
    gap = s.number(2, 9)
    return draft(
        "nearly_equal|close_enough|within_tolerance",
        "a|first|measured: int, b|second|wanted: int -> bool",
        [
            "Return True if $a and $b differ by at most $gap, and False otherwise.",
            "Return whether the {distance|difference} between $a and $b is $gap or less.",
        ],
        "return abs($a - $b) <= $gap",
        lambda: (s.number(-15, 15), s.number(-15, 15)),
        [(5, 5 + gap), (5 + gap + 1, 5), (-2, -2 - gap)],
        gap=gap,
    )


@family(1)
def same_remainder(s: Source) -> Draft:
    return draft(
        "same_remainder|equal_remainders|same_rest",
        "a|x: int, b|y: int -> bool",
        [
            "Return True if $a and $b leave the same remainder when they are divided by $m, and False otherwise. Both "
            "are not negative.",
            "{Tell|Return} whether dividing $a by $m and dividing $b by $m gives equal remainders.",
        ],
        "return $a % $m == $b % $m",
        lambda: (s.number(0, 30), s.number(0, 30)),
        [(0, 2 * (m := s.number(2, 7))), (5, 5), (1, 1 + m), (0, 1)],
        m=m,
    )


@family(2)
def cheaper_plan(s: Source) -> Draft:
    base = s.number(10, 30)
    return draft(
        "cheaper_plan|better_offer|best_phone_plan",
        "minutes|hours|units: int -> str",
        [
            "Plan 'flat' costs $base dollars a month. Plan 'pay' costs $rate dollars for each of the $minutes that are "
            "used. Return the name of the cheaper plan; if they cost the same, return 'flat'.",
            "Using $minutes costs $rate each, or $base for any number. Return 'pay' if the first way is cheaper, else "
            "'flat'.",
        ],
        """
        if $minutes * $rate < $base:
            return "pay"
        return "flat"
        """,
        lambda: (s.number(0, 16),),
        [(0,), (base // (rate := s.number(2, 5)),), (base // rate + 1,)],
        base=base * 1,
        rate=rate,
    )


@family(1)
def stamp_price(s: Source) -> Draft:
    light, heavy = s.pick((20, 50), (50, 100), (100, 500), (250, 1000))
    first = s.number(1, 3)
    return draft(
        "stamp_price|postage|letter_price",
        "grams|weight: int -> int",
        [
            "A letter of up to $light grams costs $a dollars, a heavier one of up to $heavy grams costs $b dollars, "
            "and every other letter costs $c dollars. Return the price of a letter that weighs $grams grams.",
            "Return $a if $grams is at most $light, $b if it is more than that but at most $heavy, and $c if it is "
            "more than $heavy.",
        ],
        """
        if $grams <= $light:
            return $a
        elif $grams <= $heavy:
            return $b
        else:
            return $c
        """,
        lambda: (s.number(1, heavy + heavy // 2),),
        [(light,), (light + 1,), (heavy,), (heavy + 1,)],
        light=light,
        heavy=heavy,
        a=first,
        b=first + s.number(1, 3),
        c=first + s.number(4, 9),
    )


@family(1)
def loyalty_points(s: Source) -> Draft:
    step = s.pick(5, 10, 20)
    return draft(
        "loyalty_points|bonus_points|collected_points",
        "amounts|purchases|prices: list[int] -> int",
        [
            "A customer gets one point for every full $step dollars of each single purchase. Return the points for all "
            "purchases in $amounts.",
            "Divide each number in $amounts by $step, drop the remainder, and return the sum of the results. No number "
            "is negative.",
        ],
        "return sum(amount // $step for amount in $amounts)",
        lambda: (s.ints(0, 80),),
        [([],), ([step - 1, step, step + 1],)],
        step=step,
    )


@family(1)
def cheapest_shop(s: Source) -> Draft:
    thing = s.pick("lamp", "book", "bike", "radio")
    return draft(
        "cheapest_shop|shop_with_best_price|where_to_buy",
        "prices|offers|shops: dict[str, int] -> str",
        [
            "The dictionary $prices gives the price of a $thing in each shop. Return the name of the cheapest shop. "
            "All prices are different, and there is at least one shop.",
            "Return the key of the non-empty dictionary $prices that has the smallest value. The values are all "
            "different.",
        ],
        "return min($prices, key=$prices.get)",
        lambda: (dict(zip(s.names(1, 5), s.sample(range(5, 60), 5), strict=False)),),
        [({"Ann": 7},)],
        thing=thing,
    )


@family(3)
def coin_change_greedy(s: Source) -> Draft:
    coins = s.pick([50, 20, 10, 5, 1], [100, 25, 10, 1], [10, 5, 2, 1], [20, 10, 5, 1])
    return draft(
        "fewest_coins|count_coins|coins_for_amount",
        "amount|cents|total: int -> int",
        [
            "Pay $amount cents with coins of the values $coins: take the largest coin that fits again and again. "
            "Return how many coins you use.",
            "The coins are worth $coins cents. Always take as many of the most valuable coin as fit, then continue "
            "with the next one. Return the number of coins for $amount cents.",
        ],
        """
        count = 0
        for coin in $coins:
            count += $amount // coin
            $amount %= coin
        return count
        """,
        lambda: (s.number(0, 180),),
        [(0,), (1,), (99,)],
        coins=coins,
    )


@family(2)
def budget_left(s: Source) -> Draft:
    return draft(
        "budget_left|what_remains|money_after_shopping",
        "budget|money: int, prices|costs: list[int] -> int",
        [
            "Go through $prices in order and buy everything that can still be paid with what is left of $budget. "
            "Return the money that remains.",
            "You have $budget coins. For each price in $prices, in order, subtract it if you have enough coins, and "
            "skip it otherwise. Return how many coins are left.",
        ],
        """
        for price in $prices:
            if price <= $budget:
                $budget -= price
        return $budget
        """,
        lambda: (s.number(0, 40), s.ints(1, 20)),
        [(10, []), (10, [10]), (10, [11, 4, 7, 6])],
    )
