"""Sorting and ranking: orders by one or several keys, positions and medals."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def sorted_by_distance(s: Source) -> Draft:
    t = s.number(2, 30)
    return draft(
        "sort_by_distance|nearest_first|order_by_closeness",
        "numbers|values|guesses: list[int] -> list[int]",
        [
            "Return the numbers of $numbers sorted by their distance from $t, the nearest first. Of two equally near "
            "numbers the smaller one comes first.",
            "Sort $numbers so that those closest to $t stand in front; if two are equally close, put the smaller one "
            "first. Return the new list.",
        ],
        "return sorted($numbers, key=lambda n: (abs(n - $t), n))",
        lambda: (s.ints(t - 9, t + 9),),
        [([],), ([t + 1, t - 1, t],)],
        t=t,
    )


@family(1)
def by_length_then_alphabet(s: Source) -> Draft:
    sign, order = s.pick(("", "shortest"), ("-", "longest"))
    return draft(
        "sort_words|order_by_length|arrange_words",
        "words|names|labels: list[str] -> list[str]",
        [
            "Return the items of $words sorted by length, the $order first. Words of the same length are in "
            "alphabetical order.",
            "Sort $words: the $order ones come first, and equally long ones stand from a to z. Return the new list.",
        ],
        f"return sorted($words, key=lambda w: ({sign}len(w), w))",
        lambda: (s.words(0, 6),),
        [([],), (["bb", "a", "aa"],)],
        order=order,
    )


@family(1)
def by_last_digit(s: Source) -> Draft:
    m = s.pick(10, 100, 3, 4, 5)
    return draft(
        "sort_by_rest|order_by_remainder|arrange_by_last_digit",
        "numbers|values|codes: list[int] -> list[int]",
        [
            "Return the numbers of $numbers sorted from the largest to the smallest remainder when divided by $m. "
            "Numbers with equal remainders keep their order. No number is negative.",
            "Sort the non-negative numbers in $numbers by n % $m in descending order, so that equal ones stay in their "
            "order, and return the new list.",
        ],
        "return sorted($numbers, key=lambda n: n % $m, reverse=True)",
        lambda: (s.ints(0, 5 * m),),
        [([],), ([m, 0, m + 1, 1],)],
        m=m,
    )


@family(2)
def evens_before_odds(s: Source) -> Draft:
    first, second, test = s.pick(("even", "odd", "=="), ("odd", "even", "!="))
    return draft(
        "evens_and_odds|parity_first|two_blocks",
        "numbers|values|items: list[int] -> list[int]",
        [
            "Return a list with all $first numbers of $numbers in ascending order, followed by all $second ones in "
            "ascending order.",
            "Sort $numbers so that the $first numbers come before the $second ones and each of the two parts is in "
            "ascending order. Return the new list.",
        ],
        """
        front = sorted(n for n in $numbers if n % 2 $test 0)
        back = sorted(n for n in $numbers if not n % 2 $test 0)
        return front + back
        """,
        lambda: (s.ints(-5, 20),),
        [([],), ([2, 1],), ([3, 4, 1, 2],)],
        first=first,
        second=second,
        test=test,
    )


@family(1)
def sorted_by_count(s: Source) -> Draft:
    return draft(
        "sort_by_frequency|most_common_first|rank_answers",
        "answers|items|colors: list[str] -> list[str]",
        [
            "Return the different items of $answers, the most frequent one first. Equally frequent items are in "
            "alphabetical order.",
            "List each text of $answers once, ordered by how often it occurs, beginning with the most frequent. "
            "Equally frequent ones stand from a to z.",
        ],
        "return sorted(set($answers), key=lambda a: (-$answers.count(a), a))",
        lambda: (s.some(["red", "blue", "gold", "pink"], 0, 8),),
        [([],), (["b", "a"],), (["b", "a", "b", "c", "c", "c"],)],
    )


@family(1)
def rank_of_score(s: Source) -> Draft:
    return draft(
        "rank_of|place_in_race|position_of_score",
        "scores|results|points: list[int], own|mine|score: int -> int",
        [
            "Return the rank of the score $own: 1 plus how many numbers of $scores are larger than it.",
            "Everybody else's results are in $scores. Return the place of somebody with the result $own, where the "
            "largest number wins and equal results share a place.",
        ],
        "return 1 + sum(x > $own for x in $scores)",
        lambda: (s.ints(0, 20), s.number(0, 20)),
        [([], 5), ([5], 5), ([6, 4, 6], 5)],
    )


@family(3)
def all_ranks(s: Source) -> Draft:
    return draft(
        "all_ranks|places|ranking",
        "times|seconds|durations: list[int] -> list[int]",
        [
            "Return a list with the place of each runner, in the order of $times: the shortest time has place 1, equal "
            "times share a place, and the place after them is skipped.",
            "For each number in $times, give 1 plus how many numbers of the list are smaller than it. Return the list "
            "of results.",
        ],
        "return [1 + sum(other < time for other in $times) for time in $times]",
        lambda: (s.ints(50, 58, 0, 6),),
        [([],), ([9],), ([9, 9, 8, 10],)],
    )


@family(1)
def top_names(s: Source) -> Draft:
    n = s.number(2, 3)
    return draft(
        "top_names|best_players|winners",
        "scores|points|votes: dict[str, int] -> list[str]",
        [
            "Return the names of the $n best people in $scores, the one with the most points first. If there are fewer "
            "people, return all. Nobody has as many points as another one.",
            "Sort the keys of $scores by their values in descending order and return the first $n keys. All values are "
            "different.",
        ],
        "return sorted($scores, key=$scores.get, reverse=True)[:$n]",
        lambda: (dict(zip(s.names(0, 5), s.sample(range(40), 5), strict=False)),),
        [({},), ({"Ann": 1},), ({"Ann": 1, "Bob": 3, "Cora": 2, "Dan": 4},)],
        n=n,
    )


@family(1)
def sum_of_largest(s: Source) -> Draft:
    rev, word = s.pick((", reverse=True", "largest"), ("", "smallest"))
    return draft(
        "sum_of_best|total_of_few|add_extremes",
        "numbers|scores|jumps: list[int] -> int",
        [
            "Return the sum of the $n $word numbers in $numbers. If there are not more than $n, return the sum of all.",
            "Only the $n $word results in $numbers count. Return their sum; with fewer results all of them count.",
        ],
        f"return sum(sorted($numbers{rev})[:$n])",
        lambda: (s.ints(0, 20, 0, 7),),
        [([],), ([5],), (list(range(1, 8)),), ([7, 6, 5, 4, 3, 2, 1],)],
        n=s.number(2, 4),
        word=word,
    )


@family(2)
def middle_two_sum(s: Source) -> Draft:
    return draft(
        "spread_of_middle|middle_two_sum|central_values",
        "numbers|values|sizes: list[int] -> int",
        [
            "The list $numbers has an even number of items, at least two. Sort it and return the sum of the two "
            "numbers in the middle.",
            "Put $numbers in order and add the two central numbers. Their number is even and not zero. Return the sum.",
        ],
        """
        ordered = sorted($numbers)
        half = len(ordered) // 2
        return ordered[half - 1] + ordered[half]
        """,
        lambda: (s.ints(-9, 20, n := s.pick(2, 4, 6), n),),
        [([3, 1],), ([9, 1, 5, 2],)],
    )


@family(2)
def insert_sorted(s: Source) -> Draft:
    return draft(
        "insert_sorted|put_in_place|add_in_order",
        "numbers|row|heights: list[int], new|value|n: int -> list[int]",
        [
            "The list $numbers is sorted in ascending order. Return a new sorted list that also contains $new.",
            "Insert $new into the ascending list $numbers so that it stays in order, and return the new list. $numbers "
            "itself does not change.",
        ],
        """
        smaller = [x for x in $numbers if x <= $new]
        larger = [x for x in $numbers if x > $new]
        return smaller + [$new] + larger
        """,
        lambda: (sorted(s.ints(0, 20)), s.number(0, 20)),
        [([], 4), ([1, 3], 2), ([1, 3], 3), ([5], 9), ([5], 1)],
    )


@family(1)
def is_strictly_ordered(s: Source) -> Draft:
    word, test = s.pick(("ascending", "<"), ("descending", ">"))
    return draft(
        "is_strictly_ordered|always_changes|keeps_direction",
        "numbers|levels|years: list[int] -> bool",
        [
            "Return True if $numbers are in strictly $word order, so that no two neighbors are equal, and False "
            "otherwise. A list of fewer than two numbers gives True.",
            "Return whether every number of $numbers is {really|strictly} $more than the one before it.",
        ],
        "return all(a $test b for a, b in zip($numbers, $numbers[1:]))",
        lambda: (s.pick(s.ints(0, 5, 0, 3), sorted(s.ints(0, 30, 1, 5)), sorted(s.ints(0, 30, 1, 5), reverse=True)),),
        [([],), ([1],), ([1, 1],), ([1, 2],), ([2, 1],)],
        word=word,
        test=test,
        more="larger" if test == "<" else "smaller",
    )


@family(3)
def one_bubble_pass(s: Source) -> Draft:
    return draft(
        "one_bubble_pass|bubble_once|single_pass",
        "numbers|values|cards: list[int] -> list[int]",
        [
            "Go through a copy of $numbers once from left to right and exchange each number with the next one if it is "
            "larger than that. Return the copy after this one pass.",
            "Do one pass of bubble sort: compare each number with its right neighbor, from left to right, and swap "
            "them if the left one is larger. Return the new list.",
        ],
        """
        result = list($numbers)
        for i in range(len(result) - 1):
            if result[i] > result[i + 1]:
                result[i], result[i + 1] = result[i + 1], result[i]
        return result
        """,
        lambda: (s.ints(0, 12),),
        [([],), ([2, 1],), ([3, 2, 1],), ([1, 2],)],
    )


@family(3)
def growing_pairs(s: Source) -> Draft:
    return draft(
        "pairs_in_order|growing_pairs|count_growing",
        "numbers|values|prices: list[int] -> int",
        [
            "Return how many pairs of positions i and j there are with i before j and the number at i smaller than the "
            "number at j by at least $gap.",
            "Count the ways to choose two numbers of $numbers such that the later one is larger by $gap or more, and "
            "return the count.",
        ],
        """
        count = 0
        for j, later in enumerate($numbers):
            count += sum(later - earlier >= $gap for earlier in $numbers[:j])
        return count
        """,
        lambda: (s.ints(0, 12),),
        [([],), ([1, 1 + (gap := s.number(2, 5)), 2 * gap],), ([gap, 0],)],
        gap=gap,
    )


@family(1)
def sort_numeric_texts(s: Source) -> Draft:
    return draft(
        "sort_as_numbers|numeric_order|order_versions",
        "texts|items|labels: list[str] -> list[str]",
        [
            "The texts in $texts are whole numbers, such as '12'. Return them sorted by their value, the smallest "
            "first, and still as texts.",
            "Sort the list $texts, which contains numbers written as texts, by the size of the numbers. Return a list "
            "of texts.",
        ],
        "return sorted($texts, key=int)",
        lambda: ([str(n) for n in s.few(range(0, 130, 3), 0, 6)],),
        [([],), (["10", "9"],), (["100", "20", "3"],)],
    )


@family(1)
def sorted_ignoring_case(s: Source) -> Draft:
    return draft(
        "sort_ignoring_case|dictionary_order|phone_book",
        "names|words|entries: list[str] -> list[str]",
        [
            "Return $names in alphabetical order without regard to capital and small letters. No two of them are equal "
            "when the case is ignored.",
            "Sort the texts of $names from a to z as if all letters were small, and return them unchanged otherwise.",
        ],
        "return sorted($names, key=str.lower)",
        lambda: (
            [
                s.pick(str.title, str.lower, str.upper)(w)
                for w in s.few(["ant", "bee", "cat", "dog", "egg", "fox"], 0, 6)
            ],
        ),
        [([],), (["b", "A"],), (["Bee", "ant", "CAT"],)],
    )


@family(1)
def sort_by_own_order(s: Source) -> Draft:
    sizes = s.pick(["S", "M", "L"], ["low", "mid", "high"], ["bronze", "silver", "gold"], ["cold", "warm", "hot"])
    return draft(
        "sort_by_own_order|order_by_size|custom_sort",
        "items|tags|labels: list[str] -> list[str]",
        [
            "Sort the items of $items in the order $order, and return the new list. Nothing else occurs in it.",
            "All items of $items come from the list $order. Return them sorted by their place in that list.",
        ],
        "return sorted($items, key=$order!r.index)",
        lambda: (s.some(sizes, 0, 6),),
        [([],), (sizes[::-1],)],
        order=sizes,
    )


@family(1)
def index_of_largest(s: Source) -> Draft:
    extreme, word = s.pick(("max", "largest"), ("min", "smallest"))
    return draft(
        "index_of_extreme|where_is_record|day_of_record",
        "numbers|temperatures|sales: list[int] -> int",
        [
            "Return the index of the $word number in the non-empty list $numbers. If it occurs several times, return "
            "the first index.",
            "At which position of $numbers does its $word number stand first? Return the position, counted from 0; the "
            "list is not empty.",
        ],
        "return $numbers.index($extreme($numbers))",
        lambda: (s.ints(-9, 9, 1, 7),),
        [([4],), ([1, 3, 1, 3],), ([3, 1, 3, 1],)],
        extreme=extreme,
        word=word,
    )
