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
            "and "
            "in short words letters may be used twice.",
            "Join the beginning and the end of $word, $n letters each, and return the result. $word is not shorter "
            "than "
            "$n.",
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
            "return "
            "the new text.",
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
            "its "
            "end.",
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
            "to "
            "$last!r.",
            "Go forward by $n letters from the small letter $letter, which is not behind $last!r, and return the "
            "letter "
            "there.",
        ],
        "return chr(ord($letter) + $n)",
        lambda: (s.pick(*LETTERS[: 26 - n]),),
        [("a",), (last,)],
        n=n,
        last=last,
    )


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
            "inside "
            "stay.",
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
            "text "
            "stays empty.",
            "Write only the first character of $text as $word letter and return the result; nothing changes in an "
            "empty "
            "text.",
        ],
        "return $text[:1].$up() + $text[1:]",
        lambda: (s.mixed(1, 3),),
        [("",), ("a",), ("aBC",), ("Abc",)],
        up=up,
        word=word,
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
def second_half(s: Source) -> Draft:
    return draft(
        "from_middle|second_half|right_part",
        "text|word|code: str -> str",
        [
            "Return the second half of $text. If its length is odd, the character in the middle belongs to it.",
            "Return all characters of $text from the middle to the end; with an odd number of characters, the middle "
            "one "
            "is included.",
        ],
        "return $text[len($text) // 2 :]",
        lambda: (s.letters(LETTERS, 0, 9),),
        [("",), ("a",), ("abcd",), ("abcde",)],
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
            "on. "
            "All letters are small.",
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


@family(1)
def average_word_length(s: Source) -> Draft:
    return draft(
        "letters_per_word|mean_word_length|average_word",
        "text|sentence|title: str -> float",
        [
            "Return the average number of letters of the words in $text. Words are separated by single spaces, and "
            "there "
            "is at least one.",
            "Divide the number of all letters in $text by the number of its words, and return the result. Single "
            "spaces "
            "separate the words; nothing else but letters occurs, and $text is not empty.",
        ],
        """
        words = $text.split(" ")
        return sum(len(word) for word in words) / len(words)
        """,
        lambda: (s.sentence(1, 5),),
        [("a",), ("a bb",)],
    )
