"""One line on a text that checks or counts."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def equal_without_marks(s: Source) -> Draft:
    mark, word = s.pick((" ", "spaces"), ("-", "dashes"), (".", "points"), ("_", "underscores"))
    return draft(
        "same_without_marks|equal_codes|match_loosely",
        "a|first|x: str, b|second|y: str -> bool",
        [
            "Return True if $a and $b are equal when all $word are left out of both, and False otherwise.",
            "Remove every $mark!r from $a and from $b and return whether the results are the same.",
        ],
        'return $a.replace($mark!r, "") == $b.replace($mark!r, "")',
        lambda: (s.letters("a" + mark, 0, 4), s.letters("a" + mark, 0, 4)),
        [("", ""), ("ab", f"a{mark}b"), (mark, ""), ("a", "b")],
        mark=mark,
        word=word,
    )


@family(1)
def enough_words(s: Source) -> Draft:
    n = s.number(2, 5)
    word, test = s.pick(("at least", ">="), ("at most", "<="), ("exactly", "=="))
    return draft(
        "has_enough_words|check_word_number|right_length",
        "text|title|answer: str -> bool",
        [
            "Return True if $text consists of $word $n words, which are separated by spaces, and False otherwise.",
            "Return whether the number of words in $text is $word $n. Words are separated by spaces.",
        ],
        "return len($text.split()) $test $n",
        lambda: (s.sentence(1, 2 * n),),
        [("",), (" ".join("abcdefgh"[:n]),), (" ".join("abcdefgh"[: n - 1]),), (" ".join("abcdefgh"[: n + 1]),)],
        n=n,
        word=word,
        test=test,
    )


@family(1)
def ends_with_any(s: Source) -> Draft:
    a, b = s.pick((".jpg", ".png"), ("ing", "ed"), ("!", "?"), (".com", ".org"))
    return draft(
        "has_known_ending|ends_with_any|is_right_kind",
        "name|text|word: str -> bool",
        [
            "Return True if $name ends with '$a' or with '$b', and False otherwise.",
            "Return whether '$a' or '$b' is the end of $name.",
        ],
        'return $name.endswith(("$a", "$b"))',
        lambda: (s.word() + s.pick(a, b, "", ".txt"),),
        [("",), (a,), (b,), (a + "x",)],
        a=a,
        b=b,
    )


@family(1)
def longer_text(s: Source) -> Draft:
    word, test = s.pick(("longer", ">="), ("shorter", "<="))
    return draft(
        "choose_by_length|pick_text|better_title",
        "a|first|x: str, b|second|y: str -> str",
        [
            "Return the $word one of the texts $a and $b. If they are equally long, return $a.",
            "Compare the lengths of $a and $b and return the $word text, or $a if there is no difference.",
        ],
        "return $a if len($a) $test len($b) else $b",
        lambda: (s.word(), s.word()),
        [("ab", "cd"), ("a", ""), ("", "b")],
        word=word,
        test=test,
    )


@family(1)
def number_length(s: Source) -> Draft:
    k = s.number(2, 5)
    return draft(
        "number_of_digits_is|has_digits|is_long_number",
        "n|number|code: int -> bool",
        [
            "Return True if $n has exactly $k digits, and False otherwise. $n is not negative, and 0 has one digit.",
            "Return whether the non-negative number $n is written with $k digits.",
        ],
        "return len(str($n)) == $k",
        lambda: (s.number(0, 10 ** s.number(1, k + 1) - 1),),
        [(0,), (10 ** (k - 1),), (10**k,), (10**k - 1,)],
        k=k,
    )


@family(1)
def count_ignoring_case(s: Source) -> Draft:
    letter = s.pick("a", "e", "s", "t", "n")
    return draft(
        "count_both_cases|count_letter|letter_frequency",
        "text|line|name: str -> int",
        [
            "Return how many times the letter '$letter' occurs in $text, as a small or as a capital letter.",
            "Count '$letter' and '$big' in $text and return the total number.",
        ],
        'return $text.lower().count("$letter")',
        lambda: (s.letters(letter + letter.upper() + "xy", 0, 9),),
        [("",), (letter + letter.upper(),), ("xyz",)],
        letter=letter,
        big=letter.upper(),
    )


@family(1)
def comes_before(s: Source) -> Draft:
    a, b = s.pick(("(", ")"), ("a", "b"), ("<", ">"), ("x", "y"))
    return draft(
        "comes_before|order_of_marks|marks_in_order",
        "text|line|code: str -> bool",
        [
            "Both $a!r and $b!r occur in $text. Return True if the first $a!r stands before the first $b!r, and False "
            "otherwise.",
            "Return whether $a!r is found earlier than $b!r in $text, which contains both of them.",
        ],
        "return $text.find($a!r) < $text.find($b!r)",
        lambda: (s.pick(a + b, b + a, "k" + b + a, "k" + a + "k" + b) + s.letters(a + b + "k", 0, 4),),
        [(a + b,), (b + a,)],
        a=a,
        b=b,
    )


@family(1)
def either_prefix(s: Source) -> Draft:
    return draft(
        "one_begins_other|share_start|is_prefix_of_other",
        "a|first|x: str, b|second|y: str -> bool",
        [
            "Return True if $a begins with $b or $b begins with $a, and False otherwise.",
            "Return whether one of the texts $a and $b is the beginning of the other one. Equal texts count too.",
        ],
        "return $a.startswith($b) or $b.startswith($a)",
        lambda: (s.letters("ab", 0, 3), s.letters("ab", 0, 3)),
        [("", "a"), ("abc", "ab"), ("ab", "abc"), ("ab", "b")],
    )


@family(1)
def answer_is_yes(s: Source) -> Draft:
    yes = s.pick("yes", "ok", "true", "stop", "quit")
    return draft(
        "is_answer|means_it|understood",
        "text|answer|entry: str -> bool",
        [
            "Return True if $text is the word '$yes', where spaces around it and the difference of capital and small "
            "letters do not matter. Return False otherwise.",
            "Remove the spaces at both ends of $text, change it to small letters, and return whether the result is "
            "'$yes'.",
        ],
        'return $text.strip().lower() == "$yes"',
        lambda: (s.pick("", " ", "  ") + s.pick(yes, yes.upper(), yes.title(), "no", yes + "!") + s.pick("", " "),),
        [("",), (yes,), (f" {yes.upper()} ",), (yes[:-1],)],
        yes=yes,
    )


@family(1)
def average_word_length(s: Source) -> Draft:
    return draft(
        "letters_per_word|mean_word_length|average_word",
        "text|sentence|title: str -> float",
        [
            "Return the average number of letters of the words in $text. Words are separated by single spaces, and "
            "there is at least one.",
            "Divide the number of all letters in $text by the number of its words, and return the result. Single "
            "spaces separate the words; nothing else but letters occurs, and $text is not empty.",
        ],
        """
        words = $text.split(" ")
        return sum(len(word) for word in words) / len(words)
        """,
        lambda: (s.sentence(1, 5),),
        [("a",), ("a bb",)],
    )
