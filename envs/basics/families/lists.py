"""Lists of numbers: choosing, combining and rearranging items."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def without_ends(s: Source) -> Draft:
    return draft(
        "without_ends|trim_list|inner_items",
        "items|values|numbers: list[int] -> list[int]",
        [
            "Return a list of all items of $items except the first $a and the last $b. If there are not enough items, "
            "the result is empty.",
            "Leave out $a items at the beginning and $b items at the end of $items, and return what remains between "
            "them.",
        ],
        "return $items[$a:-$b]",
        lambda: (s.ints(0, 20, 0, 9),),
        [([],), ([1, 2],), ([1, 2, 3, 4, 5, 6, 7, 8],)],
        a=s.number(2, 3),
        b=s.number(2, 3),
    )


@family(1)
def ends_sum(s: Source) -> Draft:
    return draft(
        "ends_sum|first_plus_last|add_ends",
        "numbers|values|items: list[int] -> int",
        [
            "Return the sum of the first and the last number of the non-empty list $numbers. If there is only one "
            "number, it counts twice.",
            "Add the last item of $numbers to its first item and return the sum. The list has at least one item.",
        ],
        "return $numbers[0] + $numbers[-1]",
        lambda: (s.ints(-9, 20, 1, 6),),
        [([4],), ([1, 5],)],
    )


@family(1)
def every_other_item(s: Source) -> Draft:
    start, word = s.pick((0, "first"), (1, "second"), (2, "third"))
    step = s.number(2, 4)
    return draft(
        "every_few|skip_items|picked_items",
        "items|values|queue: list -> list",
        [
            "Return a list with every item of $items whose index is $start, $next, $after and so on, in steps of "
            "$step.",
            "Begin with the $word item of $items and take it and then each item that is $step places further. Return "
            "them as a list.",
        ],
        "return $items[$start::$step]",
        lambda: (s.pick(s.ints(0, 30, 0, 9), s.words(0, 6)),),
        [([],), ([5],)],
        start=start,
        word=word,
        step=step,
        next=start + step,
        after=start + 2 * step,
    )


@family(1)
def move_first_to_end(s: Source) -> Draft:
    n = s.number(2, 3)
    return draft(
        "move_to_end|next_in_line|rotate_items",
        "items|queue|players: list -> list",
        [
            "Return a new list in which the first $n items of $items stand at the end, in the same order. There are at "
            "least $n items.",
            "Move the first $n items of $items behind all the others and return the new list. The list is never "
            "shorter than $n.",
        ],
        "return $items[$n:] + $items[:$n]",
        lambda: (s.pick(s.ints(0, 30, n, 8), s.words(n, 6)),),
        [(list(range(1, n + 1)),), (list(range(n + 1)),)],
        n=n,
    )


@family(1)
def neighbor_differences(s: Source) -> Draft:
    return draft(
        "differences|steps_between|changes",
        "numbers|values|heights: list[int] -> list[int]",
        [
            "Return a list of the differences between each number of $numbers and the number before it.",
            "Subtract every number in $numbers from the one that follows it and return the list of results. It has one "
            "item less than $numbers, and none if there are no numbers.",
        ],
        "return [b - a for a, b in zip($numbers, $numbers[1:])]",
        lambda: (s.ints(-5, 30, 0, 7),),
        [([],), ([3],), ([3, 3],), ([9, 4],)],
    )


@family(2)
def running_total(s: Source) -> Draft:
    return draft(
        "running_total|sums_so_far|level_after_each",
        "changes|amounts|numbers: list[int] -> list[int]",
        [
            "A {tank|account|counter} begins at $start. Return a list of its level after each of the changes in "
            "$changes.",
            "Add the numbers of $changes to $start one after the other and return the list of all sums on the way, "
            "without $start itself.",
        ],
        """
        level = $start
        levels = []
        for change in $changes:
            level += change
            levels.append(level)
        return levels
        """,
        lambda: (s.ints(-9, 12),),
        [([],), ([0],), ([5, -5],)],
        start=s.pick(0, 10, 50, 100),
    )


@family(1)
def largest_step(s: Source) -> Draft:
    return draft(
        "largest_jump|biggest_change|maximum_step",
        "numbers|values|readings: list[int] -> int",
        [
            "Return the largest difference, up or down, between two neighboring numbers of $numbers. The list has at "
            "least two numbers.",
            "Compare each number of $numbers with the next one and return the greatest distance between two of them. "
            "There are two or more numbers.",
        ],
        "return max(abs(a - b) for a, b in zip($numbers, $numbers[1:]))",
        lambda: (s.ints(-9, 30, 2, 7),),
        [([1, 1],), ([5, 1],), ([1, 5],)],
    )


@family(1)
def count_rises(s: Source) -> Draft:
    word, test = s.pick(("larger", ">"), ("smaller", "<"))
    return draft(
        "count_changes|days_with_change|times_moved",
        "numbers|prices|levels: list[int] -> int",
        [
            "Return how many numbers of $numbers are $word than the number right before them.",
            "Count the places in $numbers where a number is followed by a {really|strictly} $word one.",
        ],
        "return sum(b $test a for a, b in zip($numbers, $numbers[1:]))",
        lambda: (s.ints(0, 12, 0, 8),),
        [([],), ([1],), ([1, 2, 2, 1],), ([3, 2, 1],)],
        word=word,
        test=test,
    )


@family(2)
def local_peaks(s: Source) -> Draft:
    word, test = s.pick(("larger", ">"), ("smaller", "<"))
    return draft(
        "find_peaks|turning_points|special_places",
        "numbers|heights|values: list[int] -> list[int]",
        [
            "Return a list of the indices of all numbers in $numbers that are $word than both of their neighbors. The "
            "first and the last number have only one neighbor and do not count.",
            "A place inside the list $numbers is marked if its number is $word than the one before and the one after. "
            "Return the indices of all marked places in ascending order.",
        ],
        "return [i for i in range(1, len($numbers) - 1) if $numbers[i - 1] $test $numbers[i] $test2 $numbers[i + 1]]",
        lambda: (s.ints(0, 9, 0, 9),),
        [([],), ([1, 2],), ([1, 3, 1, 3, 1, 0, 2],), ([2, 2, 2],)],
        word=word,
        test="<" if test == ">" else ">",
        test2=test,
    )


@family(1)
def nth_in_order(s: Source) -> Draft:
    back, word = s.pick((True, "largest"), (False, "smallest"))
    n, nth = s.pick((2, "second"), (3, "third"))
    return draft(
        "nth_in_order|ranked_value|in_order",
        "numbers|scores|values: list[int] -> int",
        [
            "Return the $nth $word number in $numbers. Equal numbers count separately, and there are at least $n "
            "numbers.",
            "Sort $numbers and return the one at the $nth place, counted from the $word number. There are $n or more "
            "numbers.",
        ],
        "return sorted($numbers)[$place]",
        lambda: (s.ints(-9, 20, n, 7),),
        [(list(range(n)),), ([4, 4, 4],)],
        n=n,
        nth=nth,
        word=word,
        place=-n if back else n - 1,
    )


@family(1)
def sum_without_extremes(s: Source) -> Draft:
    return draft(
        "judges_score|sum_without_extremes|fair_total",
        "scores|marks|points: list[int] -> int",
        [
            "The judges give $scores. One lowest and one highest score do not count. Return the sum of the others. "
            "There are at least two scores.",
            "Return the sum of the numbers in $scores without the smallest and the largest one. If several are equal, "
            "only one of them is left out. The list has two or more numbers.",
        ],
        "return sum($scores) - min($scores) - max($scores)",
        lambda: (s.ints(0, 10, 2, 7),),
        [([3, 7],), ([5, 5, 5],), ([1, 2, 3],)],
    )


@family(2)
def average_above(s: Source) -> Draft:
    return draft(
        "above_average|better_than_mean|over_the_average",
        "numbers|scores|values: list[int] -> list[int]",
        [
            "Return a list of the numbers in $numbers that are larger than the average of all of them, in the same "
            "order. The list is not empty.",
            "Compute the average of the non-empty list $numbers and return the numbers above it, in their order.",
        ],
        """
        mean = sum($numbers) / len($numbers)
        return [n for n in $numbers if n > mean]
        """,
        lambda: (s.ints(0, 20, 1, 7),),
        [([4],), ([1, 3],), ([2, 2, 2],), ([1, 2, 3],)],
    )


@family(1)
def padded_list(s: Source) -> Draft:
    return draft(
        "padded_list|fill_up|extend_to",
        "items|values|row: list[int], size|n|length: int -> list[int]",
        [
            "Return a new list with the numbers of $items followed by as many times $fill as are needed to make it "
            "$size long. A longer list stays as it is.",
            "Append the number $fill to a copy of $items until it has $size items, and return it. If there are at "
            "least that many items, nothing is added.",
        ],
        "return $items + [$fill] * ($size - len($items))",
        lambda: (s.ints(1, 9, 0, 6), s.number(0, 8)),
        [([], 0), ([], 3), ([1, 2, 3], 2), ([1, 2], 2)],
        fill=s.pick(0, -1, 1, 99),
    )


@family(1)
def capped_values(s: Source) -> Draft:
    cap = s.number(5, 60)
    return draft(
        "limit_all|cap_values|cut_peaks",
        "numbers|values|signal: list[int] -> list[int]",
        [
            "Return a list of the numbers in $numbers, where each one that is larger than $cap is replaced by $cap.",
            "Limit every number of $numbers to at most $cap and return the new list.",
        ],
        "return [min(n, $cap) for n in $numbers]",
        lambda: (s.ints(cap - 10, cap + 10),),
        [([],), ([cap, cap + 1, cap - 1],)],
        cap=cap,
    )


@family(1)
def mirror_sums(s: Source) -> Draft:
    return draft(
        "mirror_sums|fold_list|outer_sums",
        "numbers|values|row: list[int] -> list[int]",
        [
            "Return a list of as many sums as $numbers has items: the first number plus the last one, the second plus "
            "the last but one, and so on.",
            "Add to each number of $numbers the number at the same place of the reversed list, and return the sums.",
        ],
        "return [a + b for a, b in zip($numbers, $numbers[::-1])]",
        lambda: (s.ints(-5, 12, 0, 6),),
        [([],), ([4],), ([1, 2],)],
    )


@family(1)
def doubled_items(s: Source) -> Draft:
    return draft(
        "repeat_items|duplicate_each|items_again",
        "items|values|cards: list -> list",
        [
            "Return a list in which each item of $items occurs $n times in a row.",
            "Write every item of $items $n times, one copy next to the other, and return the new list.",
        ],
        "return [item for item in $items for _ in range($n)]",
        lambda: (s.pick(s.ints(0, 9, 0, 4), s.words(0, 3)),),
        [([],), ([1],), ([2, 1],)],
        n=s.number(2, 4),
    )


@family(1)
def index_weighted_sum(s: Source) -> Draft:
    base = s.pick(0, 1, 10)
    return draft(
        "position_sum|weighted_by_place|checksum",
        "numbers|values|digits: list[int] -> int",
        [
            "Multiply each number of $numbers by its position, where the positions are $a, $b, $c and so on, and "
            "return the sum of the products.",
            "Return $a times the first number of $numbers plus $b times the second plus $c times the third and so on. "
            "An empty list gives 0.",
        ],
        "return sum(i * n for i, n in enumerate($numbers, $a))"
        if base
        else "return sum(i * n for i, n in enumerate($numbers))",
        lambda: (s.ints(-5, 12, 0, 6),),
        [([],), ([7],), ([1, 1],)],
        a=base,
        b=base + 1,
        c=base + 2,
    )


@family(1)
def most_frequent(s: Source) -> Draft:
    return draft(
        "most_frequent|winner_of_vote|favorite",
        "items|votes|answers: list[str] -> str",
        [
            "Return the item that occurs most often in the non-empty list $items. If several do, return the one that "
            "comes first in alphabetical order.",
            "Find out which text occurs most frequently in $items, which is not empty. Among equally frequent ones, "
            "return the first in alphabetical order.",
        ],
        "return max(sorted(set($items)), key=$items.count)",
        lambda: (s.some(["red", "blue", "green"], 1, 7),),
        [(["b", "a"],), (["x"],), (["b", "a", "b"],)],
    )


@family(1)
def items_with_count(s: Source) -> Draft:
    n, times = s.pick((2, "exactly twice"), (3, "exactly three times"))
    return draft(
        "items_with_count|seen_times|counted_items",
        "numbers|items|cards: list[int] -> list[int]",
        [
            "Return a sorted list of the numbers that occur $times in $numbers, each of them once.",
            "Which numbers stand $times in the list $numbers? Return them in ascending order and without repetition.",
        ],
        "return sorted(n for n in set($numbers) if $numbers.count(n) == $n)",
        lambda: (s.ints(0, 4, 0, 9),),
        [([],), ([1],), ([3, 3, 1, 1, 1, 2],)],
        n=n,
        times=times,
    )


@family(2)
def split_at_value(s: Source) -> Draft:
    limit = s.number(3, 40)
    return draft(
        "split_by_limit|two_groups|low_and_high",
        "numbers|values|ages: list[int] -> tuple[list[int], list[int]]",
        [
            "Return a tuple of two lists: the numbers of $numbers that are less than $limit, and the others. Both keep "
            "the order of $numbers.",
            "Divide $numbers into those below $limit and those that are $limit or more, and return both lists as a "
            "tuple.",
        ],
        """
        low = [n for n in $numbers if n < $limit]
        high = [n for n in $numbers if n >= $limit]
        return low, high
        """,
        lambda: (s.ints(limit - 9, limit + 9),),
        [([],), ([limit],), ([limit, limit - 1],)],
        limit=limit,
    )
