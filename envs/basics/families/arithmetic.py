"""Amounts, prices and scores: one or two steps of arithmetic."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def coins_value(s: Source) -> Draft:
    big, small = s.pick((25, 5), (10, 2), (50, 20), (100, 10))
    return draft(
        "coins_value|value_of_coins|money_in_purse",
        "big|large|heavy: int, small|light: int -> int",
        [
            "A purse holds $big coins of $b cents and $small coins of $c cents. Return the value of all coins in "
            "cents.",
            "Coins of two kinds are worth $b cents and $c cents each. Given how many there are of the first kind, "
            "$big, and of the second kind, $small, {return|compute} their value in cents.",
        ],
        "return $big * $b + $small * $c",
        lambda: (s.number(0, 12), s.number(0, 12)),
        [(0, 0), (3, 0)],
        b=big,
        c=small,
    )


@family(1)
def seats_left(s: Source) -> Draft:
    return draft(
        "seats_left|free_seats|empty_places",
        "per_row|row_size|seats: int, sold|taken: int -> int",
        [
            "A hall has $rows rows with $per_row seats each. {Return|Compute} how many seats are free after $sold "
            "tickets were sold. There are never more tickets than seats.",
            "There are $rows rows of $per_row chairs in a room, and $sold chairs are occupied. Return the number of "
            "chairs that are still free.",
        ],
        "return $rows * $per_row - $sold",
        lambda: (s.number(3, 20), s.number(0, 18)),
        [(10, 0)],
        rows=s.number(6, 30),
    )


@family(1)
def entry_price(s: Source) -> Draft:
    cheap = s.number(2, 7)
    age = s.pick(6, 12, 14, 16, 18)
    return draft(
        "entry_price|ticket_price|price_for_age|museum_price",
        "age|years: int -> int",
        [
            "A ticket for the {zoo|museum|pool} costs $cheap euros for visitors younger than $limit and $full euros "
            "for everybody else. Return the price for a visitor of the given $age.",
            "Return $cheap if $age is less than $limit, and $full otherwise.",
            "Visitors under $limit pay $cheap dollars, all others pay $full dollars. {Find|Return} what somebody pays "
            "whose age is $age.",
        ],
        "return $cheap if $age < $limit else $full",
        lambda: (s.number(1, 2 * age),),
        [(age,), (age - 1,), (age + 1,)],
        cheap=cheap,
        full=cheap + s.number(2, 9),
        limit=age,
    )


@family(1)
def taxi_fare(s: Source) -> Draft:
    return draft(
        "taxi_fare|ride_cost|cab_price",
        "km|distance|way: int -> int",
        [
            "A taxi ride costs $base dollars plus $rate dollars for each kilometer. Return the price of a ride of $km "
            "kilometers.",
            "The driver asks for $base euros at the start and $rate euros per kilometer. {Return|Compute} the fare for "
            "a distance of $km kilometers.",
        ],
        "return $base + $rate * $km",
        lambda: (s.number(1, 40),),
        [(0,), (1,)],
        base=s.number(3, 9),
        rate=s.number(2, 6),
    )


@family(1)
def change_from_payment(s: Source) -> Draft:
    thing = s.pick("pencils", "stamps", "cookies", "postcards", "balloons")
    return draft(
        "change_from_payment|money_back|change_due",
        "paid|given: int, count|number|amount: int -> int",
        [
            "One of the $thing costs $price cents. A customer buys $count of them and pays with $paid cents. Return "
            "the change, which is never negative.",
            "Somebody hands over $paid cents for $count $thing at $price cents each. Return how many cents they get "
            "back. The money is always enough.",
        ],
        "return $paid - $count * $price",
        lambda: (s.number(8, 20) * 100, s.number(0, 12)),
        [(500, 0)],
        price=s.number(11, 60),
        thing=thing,
    )


@family(1)
def boxes_needed(s: Source) -> Draft:
    size = s.number(3, 24)
    return draft(
        "boxes_needed|crates_required|count_of_boxes",
        "n|number|count: int -> int",
        [
            "One box holds $size bottles. Return how many boxes are needed if there are $n bottles. The last box may "
            "be only partly full.",
            "{Return|Compute} the smallest number of boxes for $size pieces each that can hold $n pieces.",
        ],
        "return -(-$n // $size)",
        lambda: (s.number(0, 6 * size),),
        [(0,), (size,), (size + 1,), (1,)],
        size=size,
    )


@family(1)
def shared_equally(s: Source) -> Draft:
    return draft(
        "shared_equally|share_and_rest|deal_out",
        "cards|total|number: int -> tuple[int, int]",
        [
            "There are $n {players|children}, and each gets the same number of sweets, as many as possible. Given the "
            "number of sweets, $cards, return a tuple of how many each one gets and how many remain.",
            "Divide $cards by $n and return a tuple of the whole quotient and the remainder. $cards is not negative.",
        ],
        "return ($cards // $n, $cards % $n)",
        lambda: (s.number(0, 60),),
        [(0,)],
        n=s.number(3, 9),
    )


@family(2)
def total_with_shipping(s: Source) -> Draft:
    free = s.pick(30, 50, 80, 100)
    return draft(
        "total_with_shipping|order_total|price_with_delivery",
        "total|amount|value: int -> int",
        [
            "An order costs $fee euros of shipping, but orders of at least $free euros are shipped for free. Return "
            "what a customer pays in all for an order worth $total euros.",
            "Return $total if it is at least $free, and otherwise $total plus a delivery fee of $fee.",
        ],
        """
        if $total >= $free:
            return $total
        return $total + $fee
        """,
        lambda: (s.number(1, 2 * free),),
        [(free,), (free - 1,)],
        fee=s.number(3, 9),
        free=free,
    )


@family(1)
def sale_price(s: Source) -> Draft:
    return draft(
        "sale_price|reduced_price|price_after_discount",
        "price|cost: float, percent|discount: float -> float",
        [
            "Return the price that remains when $price is reduced by a discount. The discount is $percent, in percent.",
            "A shop takes something off every price: $percent is this reduction in percent, and $price is the old "
            "price of an article. {Return|Compute} its new price.",
        ],
        "return $price * (1 - $percent / 100)",
        lambda: (float(s.number(1, 30) * 10), float(s.number(0, 20) * 5)),
        [(40.0, 0.0), (80.0, 100.0)],
    )


@family(1)
def average_speed(s: Source) -> Draft:
    return draft(
        "average_speed|speed_per_hour|km_per_hour",
        "km|distance: float, minutes|time: float -> float",
        [
            "A {train|runner|boat} travels $km kilometers in $minutes minutes. Return its average speed in kilometers "
            "per hour.",
            "Return the speed in kilometers per hour of somebody who needs $minutes minutes for $km kilometers.",
        ],
        "return $km / ($minutes / 60)",
        lambda: (float(s.number(1, 90)), float(s.pick(10, 15, 20, 30, 45, 60, 90, 120))),
        [(0.0, 30.0)],
    )


@family(1)
def paint_cans(s: Source) -> Draft:
    area = s.pick(8, 10, 12, 15)
    return draft(
        "paint_cans|cans_of_paint|tins_to_buy",
        "width|length: float, height|depth: float -> int",
        [
            "One can of paint covers $area square meters. Return how many whole cans have to be bought for a wall that "
            "is $width meters wide and $height meters high.",
            "A floor of $width by $height meters is painted, and one can is enough for $area square meters. Return the "
            "number of cans to buy, as a whole number.",
        ],
        "return math.ceil($width * $height / $area)",
        lambda: (s.halves(1, 12), s.halves(1, 8)),
        [(float(area), 1.0), (0.0, 3.0)],
        area=area,
    )


@family(1)
def weekly_pay(s: Source) -> Draft:
    full = s.pick(35, 38, 40)
    return draft(
        "weekly_pay|wage_of_week|pay_with_overtime",
        "hours|worked: int, wage|rate: float -> float",
        [
            "A worker gets $wage dollars for each of the first $full hours of a week and $more times as much for every "
            "hour after that. Return the pay for $hours hours.",
            "Up to $full hours are paid with $wage euros each; each further hour is paid $more times as much. "
            "{Compute|Return} the pay for a week with $hours hours of work.",
        ],
        "return min($hours, $full) * $wage + max($hours - $full, 0) * $wage * $more",
        lambda: (s.number(full - 20, full + 20), float(s.number(8, 30))),
        [(full, 10.0), (full + 1, 10.0), (0, 20.0)],
        full=full,
        more=s.pick(1.5, 2, 1.25),
    )


@family(1)
def bill_per_person(s: Source) -> Draft:
    tip = s.pick(5, 10, 15, 20)
    return draft(
        "bill_per_person|split_the_bill|share_of_bill",
        "bill|total: float, people|guests: int -> float",
        [
            "Some friends add a tip of $tip percent to a bill and share the result equally. Return what each one pays "
            "if the bill was $bill and there are $people of them.",
            "Increase $bill by $tip percent, divide it by $people and return the result.",
        ],
        "return $bill * $factor / $people",
        lambda: (float(s.number(10, 200)), s.number(1, 8)),
        [(50.0, 1)],
        tip=tip,
        factor=1 + tip / 100,
    )


@family(2)
def balance_after_years(s: Source) -> Draft:
    percent = s.pick(2, 4, 5, 10)
    return draft(
        "balance_after_years|savings_later|grown_amount",
        "amount|start|balance: float, years|times: int -> float",
        [
            "An account grows by $p percent every year, and $fee dollars are taken off at the end of each year. Return "
            "what becomes of $amount dollars after $years years.",
            "Repeat $years times: add $p percent to $amount, then subtract $fee. Return the {result|final amount}.",
        ],
        """
        for _ in range($years):
            $amount = $amount * $factor - $fee
        return $amount
        """,
        lambda: (float(s.number(50, 500)), s.number(0, 5)),
        [(100.0, 0), (100.0, 1)],
        p=percent,
        factor=1 + percent / 100,
        fee=s.number(1, 9),
    )


@family(1)
def course_grade(s: Source) -> Draft:
    weight = s.pick(60, 70, 75, 80)
    return draft(
        "course_grade|final_mark|weighted_grade",
        "exam|test: float, project|homework: float -> float",
        [
            "The final grade counts $exam with $a percent and $project with $b percent. Return the final grade.",
            "Return the weighted average of the marks $exam and $project, where the first has a weight of $a percent "
            "and the second one of $b percent.",
        ],
        "return ($exam * $a + $project * $b) / 100",
        lambda: (float(s.number(0, 100)), float(s.number(0, 100))),
        [(100.0, 100.0), (50.0, 0.0)],
        a=weight,
        b=100 - weight,
    )


@family(2)
def weather_word(s: Source) -> Draft:
    low, high = s.number(0, 12), s.number(18, 28)
    words = s.pick(("cold", "mild", "hot"), ("coat", "jacket", "shirt"), ("low", "normal", "high"))
    return draft(
        "weather_word|describe_temperature|temperature_class",
        "degrees|temperature: int -> str",
        [
            "Return '$a' if $degrees is below $low, '$c' if it is above $high, and '$b' otherwise.",
            "A temperature under $low is called '$a', one over $high is called '$c', and everything in between, both "
            "limits included, is called '$b'. Return the word for $degrees.",
        ],
        """
        if $degrees < $low:
            return "$a"
        if $degrees > $high:
            return "$c"
        return "$b"
        """,
        lambda: (s.number(low - 8, high + 8),),
        [(low,), (high,), (low - 1,), (high + 1,)],
        low=low,
        high=high,
        a=words[0],
        b=words[1],
        c=words[2],
    )
