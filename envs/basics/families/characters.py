"""Texts as sequences of characters: slices, repetition, counting and replacing."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import LETTERS, Source


@family(1)
def stutter_first(s: Source) -> Draft:
    return draft(
        "stutter|repeat_first_letter|stammer",
        "word|text: str -> str",
        [
            "Return $word with its first letter written $n times. The word is not empty.",
            "Write the first character of the non-empty text $word $n times, then the rest of it once, and return the "
            "result.",
        ],
        "return $word[0] * $n + $word[1:]",
        lambda: (s.word(),),
        [("x",)],
        n=s.number(2, 5),
    )


@family(2)
def swap_end_letters(s: Source) -> Draft:
    return draft(
        "swap_ends|exchange_first_and_last|swap_first_and_last_character",
        "text|word: str -> str",
        [
            "Return $text with its first and last characters exchanged. A text with fewer than two characters stays "
            "the same.",
            "Swap the first and the last character of $text and return the new text; if there are less than two "
            "characters, return $text unchanged.",
        ],
        """
        if len($text) < 2:
            return $text
        return $text[-1] + $text[1:-1] + $text[0]
        """,
        lambda: (s.word(),),
        [("",), ("q",), ("ab",)],
    )


@family(1)
def every_nth_character(s: Source) -> Draft:
    ordinal = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}
    n = s.number(2, 5)
    return draft(
        "every_nth|thin_out|some_characters",
        "text|message: str -> str",
        [
            "Return every $nth character of $text, beginning with the first one.",
            "Return the characters of $text at the indices 0, $n, $m and so on.",
        ],
        "return $text[::$n]",
        lambda: (s.sentence(1, 3),),
        [("",), ("a",)],
        n=n,
        m=2 * n,
        nth=ordinal[n],
    )


@family(1)
def frame_with_marks(s: Source) -> Draft:
    return draft(
        "frame_text|decorate|with_marks",
        "text|title: str, n|count: int -> str",
        [
            "Return $text with $n characters $mark!r in front of it and as many behind it.",
            "Put the mark $mark!r $n times before and $n times after $text, and return the result.",
        ],
        "return $mark!r * $n + $text + $mark!r * $n",
        lambda: (s.word(), s.number(0, 5)),
        [("hi", 0), ("", 2)],
        mark=s.pick("*", "-", "#", "=", "~"),
    )


@family(1)
def filled_line(s: Source) -> Draft:
    return draft(
        "pad_right|fill_line|dotted",
        "text|label: str -> str",
        [
            "Return $text followed by as many characters $mark!r as are needed to make it $width characters long. A "
            "longer text stays as it is.",
            "Fill $text up to a length of $width by adding $mark!r at the end. Return $text itself if it is at least "
            "that long.",
        ],
        "return $text.ljust($width, $mark!r)",
        lambda: (s.letters(LETTERS, 0, 14),),
        [("",), ("abcdefghijklmnop",)],
        width=s.number(6, 12),
        mark=s.pick(".", "_", "-", "*"),
    )


@family(1)
def equal_neighbors(s: Source) -> Draft:
    return draft(
        "equal_neighbors|double_letters|count_doubles",
        "text|word: str -> int",
        [
            "Return at how many places of $text a character is followed by the same character.",
            "Count the positions where two neighboring characters of $text are equal. {For example, 'aaa' has two.|In "
            "'aaa' there are two such places.}",
        ],
        "return sum(a == b for a, b in zip($text, $text[1:]))",
        lambda: (s.letters(s.pick("ab", "abc", "xyz"), 0, 9),),
        [("",), ("k",), ("aaa",)],
    )


@family(1)
def first_half(s: Source) -> Draft:
    return draft(
        "first_half|front_half|left_part",
        "text|word|line: str -> str",
        [
            "Return the first half of $text. If its length is odd, leave out the character in the middle.",
            "Return the beginning of $text up to its middle. With an odd number of characters the middle one does not "
            "belong to it.",
            "Cut $text in the middle and return the left part, which is the shorter one if the length is odd.",
        ],
        "return $text[: len($text) // 2]",
        lambda: (s.letters(LETTERS, 0, 9),),
        [("",), ("a",), ("abcd",), ("abcde",)],
    )


@family(2)
def swapped_halves(s: Source) -> Draft:
    return draft(
        "swap_halves|second_half_first|exchange_halves",
        "text|word|code: str -> str",
        [
            "Return $text with its first and second half exchanged. If the length is odd, the character in the middle "
            "belongs to the second half.",
            "Cut $text into two halves, where the second may be longer by one character, and return the second half "
            "followed by the first.",
        ],
        """
        middle = len($text) // 2
        return $text[middle:] + $text[:middle]
        """,
        lambda: (s.letters(LETTERS, 0, 9),),
        [("",), ("a",), ("abcde",)],
    )


@family(1)
def count_kind_of_character(s: Source) -> Draft:
    test, kind = s.pick(("isupper", "capital letters"), ("islower", "small letters"), ("isdigit", "digits"))
    return draft(
        "count_such|how_many_of_kind|tally_characters",
        "text|line|password: str -> int",
        [
            "Return how many $kind there are in $text.",
            "Count the characters of $text that are $kind {and return the number.|and return how many there are.}",
        ],
        "return sum(c.$test() for c in $text)" if s.flag() else "return len([c for c in $text if c.$test()])",
        lambda: (s.letters("abcXYZ 0129!", 0, 10),),
        [("",), ("aB1",)],
        kind=kind,
        test=test,
    )


@family(1)
def only_letters_and_spaces(s: Source) -> Draft:
    return draft(
        "remove_symbols|clean_text|drop_punctuation",
        "text|line|sentence: str -> str",
        [
            "Return $text without all characters that are neither letters nor spaces.",
            "Keep the letters and the spaces of $text, drop everything else, and return what is left.",
        ],
        'return "".join(c for c in $text if c.isalpha() or c == " ")',
        lambda: (s.letters("abCd  ,.!?12", 0, 12),),
        [("",), ("a, b!",), ("...",)],
    )


@family(1)
def places_of_letter(s: Source) -> Draft:
    return draft(
        "places_of_letter|all_indices|positions_of",
        "text|word: str, letter|c: str -> list[int]",
        [
            "Return a list of all indices at which the character $letter occurs in $text, counted from 0.",
            "Find every position of $letter in $text and return the positions as a list, from left to right. The first "
            "position is 0.",
        ],
        "return [i for i, x in enumerate($text) if x == $letter]",
        lambda: (s.letters("abc", 0, 9), s.pick("a", "b", "c")),
        [("", "a"), ("bcb", "a")],
    )


@family(1)
def mark_after_each_letter(s: Source) -> Draft:
    return draft(
        "spread_out|separate_letters|spell",
        "word|text|name: str -> str",
        [
            "Return the characters of $word with $mark!r after each of them, also after the last one.",
            "Spell $word: {return|give back} its characters, every one of them followed by $mark!r.",
        ],
        'return "".join(c + $mark!r for c in $word)',
        lambda: (s.word(),),
        [("",), ("a",)],
        mark=s.pick("-", ".", " ", "_", ":"),
    )


@family(1)
def sorted_letters(s: Source) -> Draft:
    return draft(
        "letters_used|alphabet_of|distinct_letters",
        "word|text|name: str -> str",
        [
            "Return the different letters of $word in alphabetical order, as one text. Each letter occurs once in it.",
            "Which letters does $word contain? Return a text of them without repetition, sorted from a to z. All "
            "letters are small.",
        ],
        'return "".join(sorted(set($word)))',
        lambda: (s.word(),),
        [("",), ("aaa",), ("banana",)],
    )


@family(1)
def repeated_letters(s: Source) -> Draft:
    return draft(
        "repeat_letters|stretch_word|each_letter_again",
        "word|text: str, n|times: int -> str",
        [
            "Return $word with every character written $n times in a row.",
            "Stretch $word: replace each character by $n copies of it, and return the result.",
        ],
        'return "".join(c * $n for c in $word)',
        lambda: (s.letters(LETTERS, 0, 6), s.number(0, 4)),
        [("", 3), ("ab", 0), ("xyz", 1)],
    )
