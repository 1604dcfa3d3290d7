"""One line on a text: a slice, a check, a count or a new text."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import LETTERS, Source


@family(1)
def name_and_age(s: Source) -> Draft:
    a, b = s.pick((" is ", " years old"), (": ", " points"), (" has ", " coins"), (" lives at number ", ""))
    return draft(
        "describe|make_sentence|text_about",
        "name|who|person: str, n|number|count: int -> str",
        [
            "Return a text made of $name, '$a', $n and '$b', for example '$shown'.",
            "Write the text '$shown' with $name in the place of 'Kim' and $n in the place of 5.",
        ],
        'return f"{$name}$a{$n}$b"',
        lambda: (s.name(), s.number(0, 90)),
        [("Al", 0), ("", 1)],
        a=a,
        b=b,
        shown=f"Kim{a}5{b}",
    )


@family(1)
def first_and_last_letter(s: Source) -> Draft:
    n = s.number(2, 3)
    return draft(
        "outer_letters|shorten_word|first_and_last",
        "word|text|name: str -> str",
        [
            "Return the first $n letters of $word followed by its last $n letters. The word has at least $n letters, "
            "and in short words letters may be used twice.",
            "Join the beginning and the end of $word, $n letters each, and return the result. $word is not shorter "
            "than $n.",
        ],
        "return $word[:$n] + $word[-$n:]",
        lambda: (s.word(),),
        [("abcdef",), ("abc",)],
        n=n,
    )


@family(1)
def replace_character_at(s: Source) -> Draft:
    mark = s.pick("-", "*", "_", "?")
    return draft(
        "cover_letter|hide_at|replace_at",
        "text|word|name: str, i|index|place: int -> str",
        [
            "Return $text with the character at index $i replaced by $mark!r. There is such a character, and $i is not "
            "negative.",
            "Write $mark!r in the place of the character that stands at position $i of $text, counted from 0, and "
            "return the new text.",
        ],
        "return $text[:$i] + $mark!r + $text[$i + 1 :]",
        lambda: ((w := s.word()), s.number(0, len(w) - 1)),
        [("a", 0), ("ab", 1), ("aaa", 1)],
        mark=mark,
    )


@family(1)
def insert_text_at(s: Source) -> Draft:
    return draft(
        "insert_text|with_gap|put_inside",
        "text|code|word: str -> str",
        [
            "Return $text with $mark!r inserted after its first $n characters. If $text is shorter, $mark!r comes at "
            "its end.",
            "Cut $text behind the character number $n, counted from 1, and return both parts with $mark!r between "
            "them.",
        ],
        "return $text[:$n] + $mark!r + $text[$n:]",
        lambda: (s.letters(LETTERS, 0, 7),),
        [("",), ("a",), ("abcdef",)],
        n=s.number(1, 4),
        mark=s.pick("-", " ", "/", "...", ":"),
    )


@family(1)
def next_letter(s: Source) -> Draft:
    n = s.number(1, 4)
    last = LETTERS[25 - n]
    return draft(
        "later_letter|move_letter|letter_after",
        "letter|c|char: str -> str",
        [
            "Return the letter that comes $n places after $letter in the alphabet. $letter is a small letter from 'a' "
            "to $last!r.",
            "Go forward by $n letters from the small letter $letter, which is not behind $last!r, and return the "
            "letter there.",
        ],
        "return chr(ord($letter) + $n)",
        lambda: (s.pick(*LETTERS[: 26 - n]),),
        [("a",), (last,)],
        n=n,
        last=last,
    )


@family(1)
def nth_line(s: Source) -> Draft:
    i = s.number(0, 2)
    return draft(
        "line_at|get_line|nth_line",
        "text|poem|page: str -> str",
        [
            "The lines of $text are separated by newline characters. Return the $nth line. There are enough lines.",
            "Split $text at its newline characters and return the part with index $i, which exists.",
        ],
        'return $text.split("\\n")[$i]',
        lambda: ("\n".join(s.sentence(1, 2) for _ in range(s.number(i + 1, i + 2))),),
        [("\n".join("abcd"),)],
        i=i,
        nth=("first", "second", "third")[i],
    )


@family(1)
def initials_with_points(s: Source) -> Draft:
    mark = s.pick(". ", "/", "-", "_")
    return draft(
        "initials|short_name|monogram",
        "first|given|a: str, last|family|b: str -> str",
        [
            "Return the first letter of $first, then $mark!r, then all of $last. Neither is empty.",
            "Shorten a name: keep only the first letter of $first and put $mark!r between it and $last. Both are not "
            "empty.",
        ],
        "return $first[0] + $mark!r + $last",
        lambda: (s.name(), s.word().title()),
        [("A", "B")],
        mark=mark,
    )


@family(1)
def repeated_with_separator(s: Source) -> Draft:
    return draft(
        "repeat_with|say_often|echo_word",
        "word|text|call: str, n|times|count: int -> str",
        [
            "Return $word written $n times with $sep!r between each two of them. For $n equal to 0 the result is "
            "empty.",
            "Repeat $word so that it occurs $n times, separated by $sep!r, and return the text.",
        ],
        "return $sep!r.join([$word] * $n)",
        lambda: (s.word(), s.number(0, 5)),
        [("a", 0), ("a", 1), ("ab", 2)],
        sep=s.pick(" ", "-", ", ", "!"),
    )


@family(1)
def stripped_marks(s: Source) -> Draft:
    mark = s.pick("*", "-", "#", "=", ".")
    return draft(
        "strip_marks|inner_text|remove_frame",
        "text|line|title: str -> str",
        [
            "Remove all characters $mark!r from the beginning and from the end of $text and return the rest. Those "
            "inside stay.",
            "Return $text without any $mark!r at its two ends, however many there are.",
        ],
        "return $text.strip($mark!r)",
        lambda: (mark * s.number(0, 3) + s.word() + s.pick("", mark + "x") + mark * s.number(0, 3),),
        [("",), (mark * 3,), (f"a{mark}b",)],
        mark=mark,
    )


@family(1)
def first_letter_big(s: Source) -> Draft:
    up, word = s.pick(("upper", "a capital"), ("lower", "a small"))
    return draft(
        "change_first_letter|fix_first_letter|adjust_start",
        "text|sentence|title: str -> str",
        [
            "Return $text with its first letter changed to $word letter and all others left as they are. The empty "
            "text stays empty.",
            "Write only the first character of $text as $word letter and return the result; nothing changes in an "
            "empty text.",
        ],
        "return $text[:1].$up() + $text[1:]",
        lambda: (s.mixed(1, 3),),
        [("",), ("a",), ("aBC",), ("Abc",)],
        up=up,
        word=word,
    )


@family(1)
def second_half(s: Source) -> Draft:
    return draft(
        "from_middle|second_half|right_part",
        "text|word|code: str -> str",
        [
            "Return the second half of $text. If its length is odd, the character in the middle belongs to it.",
            "Return all characters of $text from the middle to the end; with an odd number of characters, the middle "
            "one is included.",
        ],
        "return $text[len($text) // 2 :]",
        lambda: (s.letters(LETTERS, 0, 9),),
        [("",), ("a",), ("abcd",), ("abcde",)],
    )


@family(1)
def cut_at_first_mark(s: Source) -> Draft:
    mark = s.pick("=", ":", "@", "/", "-")
    return draft(
        "both_sides|cut_at_first|split_once",
        "text|entry|line: str -> tuple[str, str]",
        [
            "Return a tuple of the part of $text before the first $mark!r and the part behind it. $mark!r occurs at "
            "least once.",
            "Cut $text at the first $mark!r, which it contains, and return the two pieces without it as a tuple.",
        ],
        """
        i = $text.index($mark!r)
        return $text[:i], $text[i + 1 :]
        """,
        lambda: (mark.join(s.words(2, 3)),),
        [(mark,), (f"a{mark}",), (f"a{mark}b{mark}c",)],
        mark=mark,
    )


@family(1)
def letter_numbers(s: Source) -> Draft:
    one = s.pick(0, 1, 10, 11)
    return draft(
        "letter_numbers|places_in_alphabet|as_numbers",
        "word|text|name: str -> list[int]",
        [
            "Return a list with the place in the alphabet of each letter of $word: $one for 'a', $two for 'b' and so "
            "on. All letters are small.",
            "Replace every small letter of $word by its number, where 'a' is $one and each letter is one more than the "
            "letter before, and return the list of numbers.",
        ],
        "return [ord(c) - $shift for c in $word]",
        lambda: (s.word(),),
        [("",), ("a",), ("abz",)],
        one=one,
        two=one + 1,
        shift=97 - one,
    )
