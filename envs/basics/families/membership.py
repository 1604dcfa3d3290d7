"""Sets and membership: what two collections share, what is missing, what is different."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import LETTERS, NAMES, Source


@family(1)
def only_in_one(s: Source) -> Draft:
    symbol, what = s.pick(
        ("^", "in exactly one of them"), ("|", "in at least one of them"), ("-", "in $a but not in $b")
    )
    return draft(
        "combine_lists|compare_groups|guests_in_lists",
        "a|first|left: list[str], b|second|right: list[str] -> list[str]",
        [
            f"Compare the lists $a and $b: return the items that are {what}, each once and in alphabetical order.",
            f"Return a sorted list without repetition of the names that occur {what}, where the lists are $a and $b.",
        ],
        f"return sorted(set($a) {symbol} set($b))",
        lambda: (s.some(NAMES[:6], 0, 4), s.some(NAMES[:6], 0, 4)),
        [([], []), (["Ann"], ["Ann"]), (["Ben", "Ann"], ["Cora"]), ([], ["Dan", "Dan"])],
    )


@family(1)
def missing_numbers(s: Source) -> Draft:
    a = s.number(0, 5)
    b = a + s.number(4, 8)
    return draft(
        "missing_numbers|lost_tickets|free_numbers",
        "numbers|taken|present: list[int] -> list[int]",
        [
            "Return a list of the numbers from $a to $b, both included, that do not occur in $numbers, in ascending "
            "order.",
            "Lockers have the numbers $a to $b, and those in $numbers are in use. Return the free ones in ascending "
            "order.",
        ],
        "return [n for n in range($a, $end) if n not in $numbers]",
        lambda: (s.ints(a, b, 0, 8),),
        [([],), ([a, b],), (list(range(a, b + 1)),)],
        a=a,
        b=b,
        end=b + 1,
    )


@family(1)
def all_different(s: Source) -> Draft:
    return draft(
        "all_different|no_repeats|is_unique",
        "items|names|words: list[str] -> bool",
        [
            "Names that differ only in their capitals count as the same name. Return True if every name in $items "
            "occurs once, and False otherwise.",
            "Return whether all texts in $items stay different after they are written in small letters.",
        ],
        "return len({item.lower() for item in $items}) == len($items)",
        lambda: (s.some(["Ann", "ann", "Ben", "ben", "Cora", "dan", "EVA", "flo"], 0, 4),),
        [([],), (["a", "A"],), (["a", "b"],)],
    )


@family(1)
def uses_only(s: Source) -> Draft:
    allowed = s.pick("aeiou", "abcdef", "ACGT", "01", "IVX", "+-*/")
    return draft(
        "uses_only|made_of|is_made_from",
        "text|word|code: str -> bool",
        [
            "Return True if every character of $text is one of $allowed!r, and False otherwise. The empty text gives "
            "True.",
            "Return whether $text contains no characters but those in $allowed!r.",
        ],
        "return set($text) <= set($allowed!r)",
        lambda: (s.letters(allowed + s.pick("", "", "z"), 0, 6),),
        [("",), (allowed,), (allowed[0] + "z",)],
        allowed=allowed,
    )


@family(1)
def contains_all(s: Source) -> Draft:
    return draft(
        "contains_all|has_every|is_complete",
        "items|bag|deck: list[str], needed|wanted|list_of_needs: list[str] -> bool",
        [
            "Return True if each item of $needed also occurs in $items, and False otherwise. How often does not "
            "matter.",
            "Everything in $needed has to be packed. Return whether $items contains all of it; one of each is enough.",
        ],
        "return all(item in $items for item in $needed)",
        lambda: (s.some(["map", "pen", "cup", "hat"], 0, 5), s.some(["map", "pen", "cup", "hat"], 0, 3)),
        [([], []), ([], ["map"]), (["map"], ["map", "map"])],
    )


@family(1)
def common_letters(s: Source) -> Draft:
    return draft(
        "common_letters|shared_letters|letters_in_both",
        "a|first|left: str, b|second|right: str -> str",
        [
            "Return the letters of $a that also occur in $b, in the order of $a and as often as in $a.",
            "Remove all letters from $a that do not occur in $b, and return what is left.",
        ],
        'return "".join(c for c in $a if c in $b)',
        lambda: (s.word(), s.word()),
        [("", "abc"), ("abc", ""), ("banana", "an")],
    )


@family(1)
def is_pangram_of(s: Source) -> Draft:
    part = s.pick("aeiou", "abcde", "xyz", "0123", "rgb")
    return draft(
        "has_all_of|contains_each|covers",
        "text|word|line: str -> bool",
        [
            "Return True if each of the characters in $part!r occurs in $text, and False otherwise.",
            "Return whether $text contains every character of $part!r at least once.",
        ],
        "return all(c in $text for c in $part!r)",
        lambda: (s.letters(part + s.pick("", "k"), 0, 14),),
        [("",), (part,), (part[1:],)],
        part=part,
    )


@family(2)
def first_missing(s: Source) -> Draft:
    start = s.number(0, 10)
    return draft(
        "first_free_number|smallest_unused|next_number",
        "used|taken|numbers: list[int] -> int",
        [
            "Return the smallest whole number that is at least $n and does not occur in $used.",
            "Tickets are numbered from $n upwards, and the numbers in $used are taken. Return the lowest number that "
            "is free.",
        ],
        """
        n = $n
        while n in $used:
            n += 1
        return n
        """,
        lambda: (s.ints(start, start + 5, 0, 8),),
        [([],), ([start],), ([start + 1],), ([start + 1, start],)],
        n=start,
    )


@family(2)
def invited_and_came(s: Source) -> Draft:
    return draft(
        "guest_report|attendance|compare_attendance",
        "invited|expected: list[str], came|present: list[str] -> tuple[int, int]",
        [
            "Return a tuple of two numbers: how many people in $invited did not come, and how many people came without "
            "being in $invited. No name is listed twice in $invited or in $came.",
            "Count the names of $invited that are missing in $came, and those of $came that are missing in $invited. "
            "Return both counts as a tuple. Each list holds different names.",
        ],
        """
        absent = sum(name not in $came for name in $invited)
        extra = sum(name not in $invited for name in $came)
        return absent, extra
        """,
        lambda: (s.few(NAMES[:8], 0, 5), s.few(NAMES[:8], 0, 5)),
        [([], []), (["Ann"], []), ([], ["Ann", "Ben"]), (["Ann"], ["Ann"])],
    )


@family(1)
def distinct_ends(s: Source) -> Draft:
    part, what = s.pick(("word[0]", "first letters"), ("word[-1]", "last letters"), ("len(word)", "lengths"))
    return draft(
        "count_distinct|how_many_kinds|variety",
        "words|names|items: list[str] -> int",
        [
            "Return how many different $what the words in $words have. No word is empty.",
            "Look at the $what of all words in $words and return how many different ones there are. Each word has at "
            "least one letter.",
        ],
        "return len({$part for word in $words})",
        lambda: (s.words(0, 7),),
        [([],), (["ant", "art"],)],
        part=part,
        what=what,
    )


@family(3)
def in_all_lists(s: Source) -> Draft:
    return draft(
        "in_all_lists|shared_by_all|common_to_each",
        "lists|groups|hands: list[list[int]] -> list[int]",
        [
            "Return a sorted list, without repetition, of the numbers that occur in every list of $lists. There is at "
            "least one list.",
            "Which numbers are in all lists of the non-empty list $lists? Return them in ascending order, each once.",
        ],
        """
        common = set($lists[0])
        for numbers in $lists[1:]:
            common &= set(numbers)
        return sorted(common)
        """,
        lambda: ([s.ints(0, 5, 1, 7) for _ in range(s.number(1, 3))],),
        [([[2, 1, 2]],), ([[1], []],), ([[3, 1], [1, 3]],)],
    )


@family(1)
def majority_item(s: Source) -> Draft:
    return draft(
        "has_majority|absolute_majority|clear_winner",
        "votes|answers|ballots: list[str], name|option|party: str -> bool",
        [
            "Return True if more than half of the items in $votes are equal to $name, and False otherwise.",
            "Return whether $name has an absolute majority in the list $votes: more than half of all votes.",
        ],
        "return $votes.count($name) * 2 > len($votes)",
        lambda: (s.some(["red", "blue"], 0, 7), s.pick("red", "blue")),
        [([], "red"), (["red", "blue"], "red"), (["red", "red", "blue"], "red")],
    )


@family(1)
def duplicates_removed_from_end(s: Source) -> Draft:
    return draft(
        "keep_last_of_each|latest_only|last_occurrences",
        "items|events|log: list[str] -> list[str]",
        [
            "Return $items without repetition, where of equal items only the last one is kept. The kept ones stay in "
            "their order.",
            "Remove each item of $items that occurs again later in the list, and return the rest in the same order.",
        ],
        "return [x for i, x in enumerate($items) if x not in $items[i + 1 :]]",
        lambda: (s.some(["on", "off", "up", "down"], 0, 7),),
        [([],), (["on", "on"],), (["on", "off", "on"],)],
    )


@family(2)
def consecutive_numbers(s: Source) -> Draft:
    d = s.number(1, 4)
    return draft(
        "is_street|are_consecutive|without_gap",
        "numbers|cards|dice: list[int] -> bool",
        [
            "Return True if the numbers in $numbers, put in order, follow each other in steps of $d without a gap or a "
            "repetition, and False otherwise. The list is not empty.",
            "Return whether the non-empty list $numbers consists, in any order, of a number and the next ones in steps "
            "of $d, each exactly once.",
        ],
        """
        ordered = sorted($numbers)
        return all(b - a == $d for a, b in zip(ordered, ordered[1:]))
        """,
        lambda: (
            s.pick(s.ints(1, 6, 1, 3), s.sample([3, 3 + d, 3 + 2 * d, 3 + 3 * d], 4), [2 + d, 2], [5, 5 - d, 5 + d]),
        ),
        [([4],), ([1 + d, 1],), ([2, 2],), ([1, 1 + 2 * d],)],
        d=d,
    )


@family(1)
def letters_not_used(s: Source) -> Draft:
    last = s.number(5, 12)
    alphabet = LETTERS[:last]
    return draft(
        "unused_letters|letters_left|never_typed",
        "text|word|guessed: str -> str",
        [
            "Return the letters of $alphabet!r that do not occur in $text, in alphabetical order.",
            "Which letters from 'a' to $z!r are missing in $text? Return them as one text, in the order of the "
            "alphabet.",
        ],
        'return "".join(c for c in $alphabet!r if c not in $text)',
        lambda: (s.letters(alphabet, 0, 8),),
        [("",), (alphabet,), ("aa",)],
        alphabet=alphabet,
        z=alphabet[-1],
    )


@family(1)
def set_sizes_ratio(s: Source) -> Draft:
    return draft(
        "similarity|overlap_share|agreement",
        "a|first|left: list[int], b|second|right: list[int] -> float",
        [
            "Divide the number of different numbers that occur in both $a and $b by the number of different numbers "
            "that occur in at least one of them, and return the quotient. At least one list is not empty.",
            "Return the share of common numbers: those in both $a and $b compared to those in $a or $b, each counted "
            "once. The lists are not both empty.",
        ],
        "return len(set($a) & set($b)) / len(set($a) | set($b))",
        lambda: (s.ints(0, 7, 1, 6), s.ints(0, 7, 0, 6)),
        [([1], [1]), ([1], []), ([1, 1, 2], [2, 3])],
    )
