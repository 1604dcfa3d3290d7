"""The digits of whole numbers, in base 10 and in others."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def digit_count_of_kind(s: Source) -> Draft:
    d = s.number(1, 9)
    return draft(
        "count_digit|digit_occurrences|how_often_digit",
        "n|number|value: int -> int",
        [
            "Return how many times the digit $d occurs in the number $n, which is not negative.",
            "Write the non-negative number $n as usual and count the digits $d in it. {Return|Give} the count.",
        ],
        "return str($n).count($digit!r)",
        lambda: (int(s.letters("0123" + str(d), 1, 6)),),
        [(0,), (d,), (int(f"{d}{d}1"),)],
        d=d,
        digit=str(d),
    )


@family(1)
def digits_as_list(s: Source) -> Draft:
    return draft(
        "digits_of|list_of_digits|digits_as_list",
        "n|number|code: int -> list[int]",
        [
            "Return a list of the digits of $n from right to left, so that the last digit comes first. $n is not "
            "negative, and 0 has one digit.",
            "Return the digits of the non-negative number $n as a list of numbers, beginning with the last digit.",
        ],
        "return [int(d) for d in reversed(str($n))]",
        lambda: (s.number(0, 10 ** s.number(1, 6)),),
        [(0,), (10,), (7,)],
    )


@family(1)
def digits_all_below(s: Source) -> Draft:
    d = s.number(3, 8)
    return draft(
        "digits_all_below|only_small_digits|is_valid_octal",
        "n|number: int -> bool",
        [
            "Return True if every digit of $n is smaller than $d, and False otherwise. $n is not negative.",
            "Return whether the non-negative number $n has no digit that is $d or larger.",
        ],
        "return all(int(digit) < $d for digit in str($n))",
        lambda: (int(s.letters(s.pick("01", "0123456789", "".join(map(str, range(d)))), 1, 5)),),
        [(0,), (d - 1,), (d,), (10 * d,)],
        d=d,
    )


@family(2)
def repeated_digit_sum(s: Source) -> Draft:
    return draft(
        "digital_root|repeated_digit_sum|sum_until_single",
        "n|number|value: int -> int",
        [
            "Replace $n by the sum of its digits until it has only one digit, and return that digit. $n is not "
            "negative.",
            "Add up the digits of the non-negative number $n, then the digits of the sum, and so on. Return the first "
            "result that is less than 10.",
        ],
        """
        while $n > 9:
            $n = sum(int(d) for d in str($n))
        return $n
        """,
        lambda: (s.number(0, 10 ** s.number(1, 6)),),
        [(0,), (9,), (10,), (99999,)],
    )


@family(2)
def digit_swap(s: Source) -> Draft:
    return draft(
        "swap_two_digits|exchange_digits|turn_number_around",
        "n|number: int -> int",
        [
            "The number $n has exactly two digits. Return the number with its two digits exchanged; 40 gives 4.",
            "Exchange the tens and the ones of $n, which lies between 10 and 99, and return the result. A zero in "
            "front is dropped.",
        ],
        """
        tens, ones = divmod($n, 10)
        return ones * 10 + tens
        """,
        lambda: (s.number(10, 99),),
        [(10,), (40,), (77,)],
    )


@family(2)
def divisions_until_zero(s: Source) -> Draft:
    b = s.number(2, 6)
    return draft(
        "divisions_until_zero|count_divisions|digits_needed",
        "n|number: int -> int",
        [
            "Return how often $n must be divided by $b, dropping the remainder each time, until it is 0. $n is not "
            "negative.",
            "The non-negative number $n is replaced by the whole part of $n divided by $b, again and again. Return "
            "after how many steps it becomes 0.",
        ],
        """
        count = 0
        while $n:
            $n //= $b
            count += 1
        return count
        """,
        lambda: (s.number(0, 10 ** s.number(1, 4)),),
        [(0,), (1,), (b,), (b * b - 1,)],
        b=b,
    )


@family(2)
def number_in_base(s: Source) -> Draft:
    base = s.number(3, 9)
    return draft(
        "digits_in_base|in_other_base|base_digits",
        "n|number: int -> list[int]",
        [
            "Return the digits of $n in base $b as a list, the last digit first. For 0 the list is empty, and $n is "
            "never negative.",
            "Divide the non-negative number $n by $b again and again until it is 0, and return the list of the "
            "remainders in the order in which they appear.",
        ],
        """
        digits = []
        while $n > 0:
            digits.append($n % $b)
            $n //= $b
        return digits
        """,
        lambda: (s.number(0, 400),),
        [(0,), (1,), (base,), (base**3 - 1,)],
        b=base,
    )


@family(2)
def value_of_digits(s: Source) -> Draft:
    base = s.pick(2, 3, 5, 8, 10, 100)
    return draft(
        "value_of_digits|number_from_digits|combine_digits",
        "digits|parts|figures: list[int] -> int",
        [
            "Begin with 0. For each number in $digits multiply the result by $b and add the number. Return the result.",
            "The list $digits holds the digits of a number in base $b, the most important one first. Return the "
            "number; an empty list gives 0.",
        ],
        """
        value = 0
        for digit in $digits:
            value = value * $b + digit
        return value
        """,
        lambda: (s.ints(0, min(base - 1, 20), 0, 6),),
        [([],), ([1],), ([1, 0, 1],)],
        b=base,
    )


@family(1)
def digit_from_right(s: Source) -> Draft:
    place, word = s.pick((1, "tens"), (2, "hundreds"), (3, "thousands"))
    return draft(
        "digit_at_place|place_digit|figure_at",
        "n|number|value: int -> int",
        [
            "Return the digit of $n at the place of the $word. It is 0 if $n is too small to have such a digit, and $n "
            "is not negative.",
            "Which digit stands at the $word place of the non-negative number $n? {Return it.|Return this digit.} "
            "Smaller numbers have a 0 there.",
        ],
        "return $n // $power % 10",
        lambda: (s.number(0, 10 ** s.number(2, 6)),),
        [(0,), (10**place,), (10**place - 1,), (98765,)],
        word=word,
        power=10**place,
    )


@family(3)
def check_digit(s: Source) -> Draft:
    return draft(
        "check_digit|control_digit|last_digit_of_code",
        "code|digits|number: str -> int",
        [
            "Multiply the digits of $code by 1, $w, 1, $w and so on, from left to right, and add up the products. "
            "Return the smallest number that must be added to the sum to make it a multiple of 10.",
            "Each digit of the text $code counts once if its index is even, and $w times if it is odd. Return the "
            "digit that makes the sum divisible by 10 when it is added.",
        ],
        """
        total = 0
        for i, digit in enumerate($code):
            total += int(digit) * (1 if i % 2 == 0 else $w)
        return -total % 10
        """,
        lambda: (s.letters("0123456789", 1, 7),),
        [("",), ("0",), ("55",)],
        w=s.pick(2, 3, 7),
    )


@family(2)
def without_last_digits(s: Source) -> Draft:
    d = s.pick(0, 5, 7, 9)
    return draft(
        "remove_trailing|strip_digit|cut_off_digits",
        "n|number: int -> int",
        [
            "As long as the last digit of $n is $d, remove it. Return the number that is left. $n is positive and has "
            "at least one other digit.",
            "Take away all digits $d from the end of the positive number $n and return the rest. Not all of its digits "
            "are $d.",
        ],
        """
        while $n % 10 == $d:
            $n //= 10
        return $n
        """,
        lambda: (int(str(s.pick(1, 2)) + s.letters(f"{d}4", 0, 5)),),
        [(10 + d,), (200 + 11 * d,), (1,) if d != 1 else (2,)],
        d=d,
    )


@family(2)
def digit_product_nonzero(s: Source) -> Draft:
    return draft(
        "product_of_digits|multiply_digits|digit_product",
        "n|number|value: int -> int",
        [
            "Return the product of all digits of $n that are not 0. $n is positive.",
            "Multiply the digits of the positive number $n with each other, without its zeros, and return the product.",
        ],
        """
        product = 1
        for digit in str($n):
            if digit != "0":
                product *= int(digit)
        return product
        """,
        lambda: (s.number(1, 10 ** s.number(1, 5)),),
        [(1,), (10,), (909,)],
    )
