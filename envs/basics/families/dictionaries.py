"""Dictionaries: looking up, counting, grouping, merging and inverting."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import FRUITS, Source


@family(1)
def shopping_total(s: Source) -> Draft:
    return draft(
        "shopping_total|cost_of_basket|price_of_all",
        "prices|menu: dict[str, int], basket|order: list[str] -> int",
        [
            "The dictionary $prices gives the price of each article. Return the sum of the prices of all articles in "
            "the list $basket. An article that is listed twice counts twice.",
            "Look up every item of $basket in $prices and return the sum of what you find. All items are keys of "
            "$prices.",
        ],
        "return sum($prices[item] for item in $basket)",
        lambda: ((p := s.stock(1, 9, 1, 5)), s.some(list(p), 0, 5)),
        [({"fig": 3}, []), ({"fig": 3, "kiwi": 1}, ["fig", "fig"])],
    )


@family(1)
def keys_with_value(s: Source) -> Draft:
    return draft(
        "keys_with_value|who_has|find_keys",
        "table|scores|ages: dict[str, int], value|n|number: int -> list[str]",
        [
            "Return a list of the keys of $table whose value is equal to $value, in alphabetical order.",
            "Which keys of the dictionary $table have the value $value? Return them as a sorted list.",
        ],
        "return sorted(k for k, v in $table.items() if v == $value)",
        lambda: (s.table(1, 4), s.number(1, 4)),
        [({}, 1), ({"Zoe": 2, "Ann": 2, "Bob": 1}, 2)],
    )


@family(1)
def without_keys(s: Source) -> Draft:
    return draft(
        "without_keys|remove_keys|drop_entries",
        "table|stock|data: dict[str, int], names|keys|unwanted: list[str] -> dict[str, int]",
        [
            "Return a new dictionary with the entries of $table whose keys are not in the list $names.",
            "Copy the dictionary $table without the keys that are listed in $names. Some of these may be missing in "
            "it.",
        ],
        "return {k: v for k, v in $table.items() if k not in $names}",
        lambda: (s.stock(), s.few(FRUITS, 0, 6)),
        [({}, ["fig"]), ({"fig": 1}, []), ({"fig": 1, "kiwi": 2}, ["fig", "pear"])],
    )


@family(1)
def inverted_table(s: Source) -> Draft:
    return draft(
        "swap_keys_and_values|invert|reverse_lookup",
        "table|codes|rooms: dict[str, int] -> dict[int, str]",
        [
            "Return a dictionary in which keys and values of $table have changed places. No value occurs twice.",
            "All values of $table are different. Return a new dictionary that gives for each value its key.",
        ],
        "return {v: k for k, v in $table.items()}",
        lambda: (dict(zip(s.names(0, 5), s.sample(range(50), 5), strict=False)),),
        [({},), ({"Ann": 1},)],
    )


@family(2)
def merged_counts(s: Source) -> Draft:
    return draft(
        "merge_counts|add_tables|combined_stock",
        "first|a|left: dict[str, int], second|b|right: dict[str, int] -> dict[str, int]",
        [
            "Return a dictionary with all keys of $first and $second. A key that occurs in both gets the sum of its "
            "two values.",
            "Two shops have the stocks $first and $second. Return the stock of both together: add the numbers of equal "
            "articles and keep all the others.",
        ],
        """
        result = dict($first)
        for key, value in $second.items():
            result[key] = result.get(key, 0) + value
        return result
        """,
        lambda: (s.stock(0, 9, 0, 4), s.stock(0, 9, 0, 4)),
        [({}, {}), ({"fig": 1}, {"fig": 2}), ({"fig": 1}, {"kiwi": 2}), ({}, {"fig": 0})],
    )


@family(2)
def grouped_by_length(s: Source) -> Draft:
    key, what = s.pick(("len(word)", "its length"), ("word[0]", "its first letter"), ("word[-1]", "its last letter"))
    return draft(
        "group_words|words_by_key|sort_into_groups",
        "words|names|items: list[str] -> dict",
        [
            "Group $words: return a dictionary that gives for {every word|each word}, under $what as the key, the list "
            "of all words with that key in the order of $words. No word is empty.",
            "Put each word of $words into a list, where the lists are the values of a dictionary and the key of a word "
            "is $what. Return the dictionary. No word is empty.",
        ],
        """
        groups = {}
        for word in $words:
            groups.setdefault($key, []).append(word)
        return groups
        """,
        lambda: (s.some(["ant", "bee", "bear", "cat", "cow", "owl", "apple", "egg"], 0, 6),),
        [([],), (["bee", "bear", "bee"],)],
        key=key,
        what=what,
    )


@family(2)
def best_result_of_each(s: Source) -> Draft:
    word, test = s.pick(("highest", ">"), ("lowest", "<"))
    return draft(
        "best_results|record_of_each|personal_best",
        "results|games|entries: list[tuple[str, int]] -> dict[str, int]",
        [
            "Each item of $results is a tuple of a name and a score. Return a dictionary that gives for each name its "
            "$word score.",
            "Go through the pairs of name and number in $results and return a dictionary with the $word number of "
            "every name.",
        ],
        """
        best = {}
        for name, score in $results:
            if name not in best or score $test best[name]:
                best[name] = score
        return best
        """,
        lambda: (s.entries(0, 20, 0, 6),),
        [([],), ([("Ann", 3), ("Ann", 5), ("Bob", 1), ("Ann", 1)],), ([("Ann", 0)],)],
        word=word,
        test=test,
    )


@family(2)
def sum_per_name(s: Source) -> Draft:
    return draft(
        "total_per_name|sum_by_person|collect_points",
        "entries|payments|points: list[tuple[str, int]] -> dict[str, int]",
        [
            "Each item of $entries is a tuple of a name and an amount. Return a dictionary that gives for each name "
            "the sum of its amounts.",
            "Add up the numbers in the pairs of $entries separately for every name, and return a dictionary of the "
            "sums.",
        ],
        """
        totals = {}
        for name, amount in $entries:
            totals[name] = totals.get(name, 0) + amount
        return totals
        """,
        lambda: (s.entries(-5, 20, 0, 6),),
        [([],), ([("Ann", 3), ("Ann", -3)],)],
    )


@family(1)
def low_stock(s: Source) -> Draft:
    n = s.number(3, 10)
    return draft(
        "what_to_order|shopping_list|missing_amounts",
        "stock|shelf|pantry: dict[str, int] -> dict[str, int]",
        [
            "There should be $n pieces of each article. Return a dictionary of the articles of which $stock has fewer, "
            "with the number of pieces that are missing.",
            "For every key of $stock with a value below $n, the result has the same key with $n minus that value. "
            "Return the result, which has no other keys.",
        ],
        "return {k: $n - v for k, v in $stock.items() if v < $n}",
        lambda: (s.stock(0, 12),),
        [({},), ({"fig": n, "kiwi": n - 1, "plum": 0},)],
        n=n,
    )


@family(1)
def count_values_above(s: Source) -> Draft:
    word, test = s.pick(("at least", ">="), ("at most", "<="), ("more than", ">"), ("less than", "<"))
    n = s.number(5, 12)
    return draft(
        "count_values|how_many_passed|entries_in_range",
        "table|scores|results: dict[str, int] -> int",
        [
            "Return how many values of the dictionary $table are $word $n.",
            "The dictionary $table gives everybody's points. Return how many people have $word $n points.",
        ],
        "return sum(v $test $n for v in $table.values())",
        lambda: (s.table(0, 2 * n),),
        [({},), ({"Ann": n, "Bob": n + 1, "Cora": n - 1},)],
        n=n,
        word=word,
        test=test,
    )


@family(1)
def nested_lookup(s: Source) -> Draft:
    what, unknown = s.pick(("phone", "none"), ("city", "unknown"), ("team", "no team"), ("color", "?"))
    return draft(
        "look_up_field|detail_of|read_entry",
        "people|book|data: dict[str, dict[str, str]], name|who|key: str -> str",
        [
            "The values of $people are dictionaries too. Return what stands under '$what' in the dictionary of $name. "
            "If $name is no key of $people, or its dictionary has no '$what', return $unknown!r.",
            "Look up $name in $people, and '$what' in the dictionary that you find there. Return the result, or "
            "$unknown!r if one of the two keys is missing.",
        ],
        "return $people.get($name, {}).get($what!r, $unknown!r)",
        lambda: (
            {
                n: ({what: s.word()} if s.random() < 0.7 else {"age": s.word()})
                for n in s.few(["Ann", "Ben", "Kim"], 1, 3)
            },
            s.pick("Ann", "Ben", "Kim"),
        ),
        [({}, "Ann"), ({"Ann": {}}, "Ann"), ({"Ann": {what: "sun"}}, "Ann")],
        what=what,
        unknown=unknown,
    )


@family(1)
def changed_keys(s: Source) -> Draft:
    return draft(
        "changed_keys|what_changed|updated_entries",
        "old|before: dict[str, int], new|after: dict[str, int] -> list[str]",
        [
            "Return a sorted list of the keys that occur both in $old and in $new, but with different values.",
            "Compare two versions of a table. Return the keys that are in $old and in $new and whose values differ, in "
            "alphabetical order.",
        ],
        "return sorted(k for k in $old if k in $new and $old[k] != $new[k])",
        lambda: (
            {k: s.number(1, 2) for k in s.few(FRUITS[:5], 0, 5)},
            {k: s.number(1, 2) for k in s.few(FRUITS[:5], 0, 5)},
        ),
        [({}, {}), ({"fig": 1}, {}), ({"fig": 1, "date": 2}, {"fig": 2, "date": 3})],
    )


@family(1)
def enough_letters(s: Source) -> Draft:
    return draft(
        "can_write|enough_letters|word_from_tiles",
        "word|text: str, tiles|letters: str -> bool",
        [
            "Each letter of $tiles can be used once. Return True if $word can be put together from them, and False "
            "otherwise.",
            "Return whether no letter occurs more often in $word than in $tiles.",
        ],
        "return all($word.count(c) <= $tiles.count(c) for c in $word)",
        lambda: (s.letters("abcd", 0, 4), s.letters("abcd", 0, 8)),
        [("", ""), ("aa", "a"), ("ab", "ba"), ("abc", "cab")],
    )


@family(1)
def translated_words(s: Source) -> Draft:
    return draft(
        "translate|replace_words|use_dictionary",
        "text|sentence: str, table|dictionary: dict[str, str] -> str",
        [
            "Replace each word of $text that is a key of $table by its value, and leave the other words as they are. "
            "Words are separated by single spaces. Return the new text.",
            "Translate $text word by word with the dictionary $table; words that it does not have stay the same. "
            "Return the words joined by single spaces.",
        ],
        'return " ".join($table.get(word, word) for word in $text.split())',
        lambda: (
            " ".join(s.some(["cat", "dog", "sun", "tea"], 0, 5)),
            {k: s.pick("ba", "lo", "mi") for k in s.few(["cat", "dog", "sun", "tea"], 0, 3)},
        ),
        [("", {}), ("cat", {"cat": "mi"}), ("cat dog", {"dog": "cat"})],
    )


@family(1)
def graded_scores(s: Source) -> Draft:
    n = s.number(40, 70)
    good, bad = s.pick(("pass", "fail"), ("in", "out"), ("yes", "no"), ("big", "small"))
    return draft(
        "grade_everyone|label_entries|decide_for_all",
        "scores|points|table: dict[str, int] -> dict[str, str]",
        [
            "Return a dictionary with the keys of $scores, where the value is $good!r if the score is at least $n, and "
            "$bad!r otherwise.",
            "Replace every number in the dictionary $scores by $good!r or, if it is less than $n, by $bad!r. Return "
            "the result as a new dictionary.",
        ],
        "return {k: $good!r if v >= $n else $bad!r for k, v in $scores.items()}",
        lambda: (s.table(n - 20, n + 20),),
        [({},), ({"Ann": n, "Bob": n - 1},)],
        n=n,
        good=good,
        bad=bad,
    )


@family(1)
def subtract_used(s: Source) -> Draft:
    return draft(
        "subtract_used|after_cooking|use_up",
        "stock|pantry: dict[str, int], used|recipe: dict[str, int] -> dict[str, int]",
        [
            "Return what is left of $stock when the numbers in $used are taken away. Every key of $used is a key of "
            "$stock, and nothing becomes negative. All keys of $stock are kept.",
            "Subtract the value of each key in $used from the value of that key in $stock, and return a dictionary "
            "with all keys of $stock.",
        ],
        "return {k: v - $used.get(k, 0) for k, v in $stock.items()}",
        lambda: ((p := s.stock(3, 12)), {k: s.number(0, 3) for k in p if s.flag()}),
        [({}, {}), ({"fig": 3}, {}), ({"fig": 3, "kiwi": 4}, {"fig": 3})],
    )


@family(3)
def first_repeated(s: Source) -> Draft:
    return draft(
        "first_repeated|first_duplicate|seen_before",
        "items|visitors|words: list[str] -> str",
        [
            "Return the first item of $items that has already occurred before it in the list. If there is none, return "
            "the text $none!r.",
            "Go through $items from left to right and return the first one that you see for the second time, or "
            "$none!r if all are different.",
        ],
        """
        seen = set()
        for item in $items:
            if item in seen:
                return item
            seen.add(item)
        return $none!r
        """,
        lambda: (s.some(["red", "blue", "gold", "pink", "gray"], 0, 6),),
        [([],), (["red"],), (["red", "blue", "blue", "red"],)],
        none=s.pick("", "none", "-"),
    )


@family(1)
def table_as_lines(s: Source) -> Draft:
    sep = s.pick(": ", "=", " - ", " x ")
    return draft(
        "as_text_lines|show_table|report_lines",
        "table|scores|stock: dict[str, int] -> list[str]",
        [
            "Return a list with a text such as '$shown' for each key of $table and its value, in alphabetical order of "
            "the keys.",
            "For every key of $table, sorted from a to z, write the key, then $sep!r, then its value. Return the list "
            "of these texts.",
        ],
        'return [f"{k}$sep{$table[k]}" for k in sorted($table)]',
        lambda: (s.stock(0, 30),),
        [({},), ({"plum": 2, "fig": 10},)],
        sep=sep,
        shown=f"fig{sep}4",
    )


@family(1)
def key_of_longest(s: Source) -> Draft:
    extreme, word = s.pick(("max", "longest"), ("min", "shortest"))
    return draft(
        "key_of_extreme_list|group_by_size|special_group",
        "groups|classes|shelves: dict[str, list] -> str",
        [
            "The values of $groups are lists, which all have different lengths. Return the key of the $word one. There "
            "is at least one key.",
            "Return the key of $groups under which the $word list is stored. No two lists are equally long, and "
            "$groups is not empty.",
        ],
        "return $extreme($groups, key=lambda k: len($groups[k]))",
        lambda: ({n: s.ints(1, 9, size, size) for n, size in zip(s.names(1, 4), s.sample(range(6), 4), strict=False)},),
        [({"Ann": []},), ({"Ann": [1], "Bob": []},)],
        extreme=extreme,
        word=word,
    )
