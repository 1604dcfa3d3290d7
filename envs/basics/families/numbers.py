"""Whole numbers: digits, divisors, sequences and small number theory."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def multiples_in_range(s: Source) -> Draft:
    m = s.number(3, 12)
    return draft(
        "multiples_up_to|multiples_of|list_multiples",
        "limit|n|last: int -> list[int]",
        [
            "Return a list of all positive multiples of $m that are at most $limit, from the smallest to the largest.",
            "List the numbers $m, $twice, $thrice and so on, as long as they are not larger than $limit.",
        ],
        "return list(range($m, $limit + 1, $m))",
        lambda: (s.number(0, 8 * m),),
        [(0,), (m,), (m - 1,), (3 * m + 1,)],
        m=m,
        twice=2 * m,
        thrice=3 * m,
    )


@family(2)
def sum_of_multiples(s: Source) -> Draft:
    a, b = s.pick((3, 5), (2, 7), (4, 6), (3, 7), (5, 8))
    return draft(
        "sum_of_multiples|add_multiples|total_of_multiples",
        "n|limit|stop: int -> int",
        [
            "Return the sum of all positive numbers below $n that are divisible by $a or by $b. Numbers that both "
            "divide count once.",
            "Add up the whole numbers from 1 to $n - 1 that are multiples of $a, of $b or of both, and return the sum.",
        ],
        "return sum(i for i in range(1, $n) if i % $a == 0 or i % $b == 0)",
        lambda: (s.number(0, 60),),
        [(0,), (a,), (a + 1,), (a * b + 1,)],
        a=a,
        b=b,
    )


@family(2)
def is_power_of(s: Source) -> Draft:
    base = s.number(2, 7)
    return draft(
        "is_power_of|power_check|comes_from_multiplying",
        "n|number: int -> bool",
        [
            "Return True if $n is a power of $b, and False otherwise. The powers are 1, $b, $square and so on; $n is "
            "positive.",
            "Return whether the positive number $n can be divided by $b again and again until 1 is left.",
        ],
        """
        while $n % $b == 0:
            $n //= $b
        return $n == 1
        """,
        lambda: (s.pick(base ** s.number(0, 5), s.number(1, 100), base ** s.number(1, 4) * s.number(2, 4)),),
        [(1,), (base,), (2 * base + 1,), (base**3,)],
        b=base,
        square=base**2,
    )


@family(2)
def steps_to_small_number(s: Source) -> Draft:
    add = s.pick(1, 3, 5)
    limit = s.number(add + 3, 20)
    return draft(
        "steps_to_small|halve_or_grow|count_steps",
        "n|start|number: int -> int",
        [
            "If $n is even, halve it; if it is odd, add $add. Return how many of these steps are needed until $n is at "
            "most $limit.",
            "Repeat until the number $n is not larger than $limit: divide an even number by 2, increase an odd one by "
            "$add. Return the number of repetitions.",
        ],
        """
        steps = 0
        while $n > $limit:
            $n = $n // 2 if $n % 2 == 0 else $n + $add
            steps += 1
        return steps
        """,
        lambda: (s.number(1, 300),),
        [(limit,), (limit + 1,), (1,)],
        add=add,
        limit=limit,
    )


@family(2)
def common_divisors(s: Source) -> Draft:
    return draft(
        "common_divisors|shared_divisors|divide_both",
        "a|first|m: int, b|second|n: int -> list[int]",
        [
            "Return a list of all positive whole numbers that divide both $a and $b without a remainder, from the "
            "smallest to the largest. Both are positive.",
            "Find all common divisors of the positive numbers $a and $b and return them in ascending order.",
        ],
        "return [d for d in range(1, min($a, $b) + 1) if $a % d == 0 and $b % d == 0]",
        lambda: ((g := s.pick(1, 2, 4, 6)) * s.number(1, 10), g * s.number(1, 10)),
        [(1, 1), (6, 6), (8, 12), (7, 9)],
    )


@family(1)
def sum_of_proper_divisors(s: Source) -> Draft:
    word, test = s.pick(("larger than", ">"), ("smaller than", "<"))
    return draft(
        "compare_divisor_sum|divisor_sum_test|is_special",
        "n|number: int -> bool",
        [
            "Add up all positive divisors of $n that are smaller than $n itself. Return True if the sum is $word $n, "
            "and False otherwise. $n is positive.",
            "Return whether the sum of the divisors of the positive number $n, without $n, is $word $n.",
        ],
        "return sum(d for d in range(1, $n) if $n % d == 0) $test $n",
        lambda: (s.pick(s.number(1, 60), 12 * s.number(1, 6)),),
        [(1,), (6,), (12,), (7,)],
        word=word,
        test=test,
    )


@family(3)
def primes_in_list(s: Source) -> Draft:
    return draft(
        "count_primes_in|how_many_primes|primes_among",
        "numbers|values|items: list[int] -> int",
        [
            "Return how many numbers in the list $numbers are prime. A prime is larger than 1 and divisible only by 1 "
            "and itself.",
            "Count the prime numbers in $numbers; a number that occurs twice counts twice. Numbers below 2 are not "
            "prime.",
        ],
        """
        count = 0
        for n in $numbers:
            if n > 1 and all(n % d for d in range(2, n)):
                count += 1
        return count
        """,
        lambda: (s.ints(-2, 40),),
        [([],), ([2, 2, 3],), ([1, 0, -3],), ([4, 9, 25],)],
    )


@family(2)
def own_sequence(s: Source) -> Draft:
    first, second = s.number(0, 3), s.number(1, 5)
    return draft(
        "sequence_list|own_fibonacci|additive_sequence",
        "n|count|length: int -> list[int]",
        [
            "A sequence begins with $a and $b, and each further number is the sum of the two before it. Return a list "
            "of its first $n numbers; $n is at least 2.",
            "Begin with the list [$a, $b] and append the sum of the last two numbers until there are $n numbers. "
            "Return the list. $n is 2 or more.",
        ],
        """
        numbers = [$a, $b]
        while len(numbers) < $n:
            numbers.append(numbers[-1] + numbers[-2])
        return numbers
        """,
        lambda: (s.number(2, 10),),
        [(2,), (3,)],
        a=first,
        b=second,
    )


@family(1)
def arithmetic_progression(s: Source) -> Draft:
    return draft(
        "progression|equal_steps|steps_from",
        "start|first|begin: int, n|count|length: int -> list[int]",
        [
            "Return a list of $n numbers that begins with $start and where each next number is larger by $d.",
            "Count from $start in steps of $d and return the first $n numbers, including $start. For $n equal to 0 the "
            "list is empty.",
        ],
        "return [$start + $d * i for i in range($n)]",
        lambda: (s.number(-10, 20), s.number(0, 6)),
        [(5, 0), (0, 1), (-3, 4)],
        d=s.number(2, 9),
    )


@family(1)
def bounce_height(s: Source) -> Draft:
    factor = s.pick(0.5, 0.75, 0.8, 0.6)
    return draft(
        "bounce_height|height_after_bounces|shrunken_height",
        "height|start|distance: float, times|n|count: int -> float",
        [
            "A ball falls from $height. After each bounce it rises to $p percent of the height from which it fell. "
            "Return the height that it reaches after $times bounces.",
            "Multiply $height by $factor as many times as $times says, and return the result.",
        ],
        "return $height * $factor ** $times",
        lambda: (float(s.number(1, 40)), s.number(0, 4)),
        [(10.0, 0), (10.0, 1)],
        factor=factor,
        p=round(100 * factor),
    )


@family(1)
def nearest_multiple(s: Source) -> Draft:
    m = s.pick(4, 6, 10, 20, 50)
    return draft(
        "nearest_multiple|round_to_multiple|snap",
        "n|number|value: int -> int",
        [
            "Return the multiple of $m that is nearest to $n. If two are equally near, return the larger one. $n is "
            "not negative.",
            "Round the non-negative number $n to a multiple of $m, and upwards if it lies exactly between two of them.",
        ],
        "return ($n + $half) // $m * $m",
        lambda: (s.number(0, 8 * m),),
        [(0,), (m // 2,), (m // 2 - 1,), (m,)],
        m=m,
        half=m // 2,
    )


@family(2)
def sum_of_two_squares(s: Source) -> Draft:
    return draft(
        "is_sum_of_squares|two_squares|splits_into_squares",
        "n|number: int -> bool",
        [
            "Return True if $n is the sum of two square numbers, where 0 counts as a square number too. $n is not "
            "negative.",
            "Return whether there are whole numbers a and b, 0 or larger, with a * a + b * b equal to $n, which is not "
            "negative.",
        ],
        """
        for a in range($n + 1):
            for b in range(a + 1):
                if a * a + b * b == $n:
                    return True
        return False
        """,
        lambda: (s.number(0, 50),),
        [(0,), (1,), (2,), (3,), (25,)],
    )
