"""Texts as codes: digits, marks, runs and secret writing."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import LETTERS, Source


@family(1)
def padded_number(s: Source) -> Draft:
    digits = s.number(3, 6)
    return draft(
        "padded_number|with_leading_zeros|ticket_code",
        "n|number: int -> str",
        [
            "Return $n as a text of at least $digits digits, with zeros in front where they are needed. $n is not "
            "negative.",
            "Write the non-negative number $n with leading zeros, so that it has $digits digits. Longer numbers are "
            "written as usual.",
        ],
        "return str($n).zfill($digits)",
        lambda: (s.number(0, 10 ** s.number(1, digits + 1)),),
        [(0,), (10**digits,)],
        digits=digits,
    )


@family(1)
def hide_all_but_last(s: Source) -> Draft:
    return draft(
        "hide_number|mask_card|conceal",
        "number|code|text: str -> str",
        [
            "Return $number with all characters but the last $n replaced by $mark!r. A text of at most $n characters "
            "stays as it is.",
            "Show only the last $n characters of $number and write $mark!r for each one before them. Shorter texts are "
            "shown as a whole.",
        ],
        "return $mark!r * (len($number) - $n) + $number[-$n:]",
        lambda: (s.letters("0123456789", 0, 12),),
        [("",), ("1234",), ("12",)],
        n=s.number(2, 4),
        mark=s.pick("*", "x", "#", "."),
    )


@family(1)
def sum_of_digits_in_text(s: Source) -> Draft:
    return draft(
        "sum_of_digits_in_text|add_digits|digit_total",
        "text|code|label: str -> int",
        [
            "Return the sum of all digits that occur in $text. Each digit counts for itself, so 'a12' gives 3.",
            "Add up every digit in $text, skip all other characters, and return the sum.",
        ],
        "return sum(int(c) for c in $text if c.isdigit())",
        lambda: (s.letters("ab 0123456789", 0, 9),),
        [("",), ("abc",), ("a12",)],
    )


@family(1)
def shifted_digits(s: Source) -> Draft:
    return draft(
        "shift_digits|secret_pin|turn_dials",
        "pin|digits|code: str -> str",
        [
            "Add $n to each digit of $pin and keep only the last digit of each sum, so that after 9 comes 0. Return "
            "the new text.",
            "A lock has dials with the digits 0 to 9. Turn each dial of $pin forward by $n steps, where 0 follows 9, "
            "and return the new digits as a text.",
        ],
        'return "".join(str((int(d) + $n) % 10) for d in $pin)',
        lambda: (s.letters("0123456789", 1, 6),),
        [("",), ("9999",)],
        n=s.number(1, 9),
    )


@family(2)
def is_color_code(s: Source) -> Draft:
    n, mark = s.number(4, 7), s.pick("#", "A", "X", "@")
    return draft(
        "is_color_code|valid_code|is_well_formed",
        "code|text|label: str -> bool",
        [
            "A code is valid if it is $n characters long, begins with $mark!r, and all its other characters are "
            "digits. Return True if $code is valid and False otherwise.",
            "Return whether $code consists of $mark!r followed by exactly $less digits.",
        ],
        'return len($code) == $n and $code[0] == $mark!r and all(c in "0123456789" for c in $code[1:])',
        lambda: (
            s.pick(mark, mark, mark, "a") + s.letters("0123456789" + s.pick("", "", "x"), n - 1, n - s.pick(0, 1, 1)),
        ),
        [("",), (mark + "1" * (n - 1),), ("1" * n,), (mark + "1" * n,), (mark + "1" * (n - 2) + "z",)],
        n=n,
        less=n - 1,
        mark=mark,
    )


@family(2)
def longest_run_of(s: Source) -> Draft:
    mark = s.pick("a", "x", "1", "-")
    return draft(
        "longest_run|most_in_a_row|longest_streak",
        "text|record|line: str -> int",
        [
            "Return the length of the longest part of $text that consists only of the character $mark!r. It is 0 if "
            "there is none.",
            "How many times in a row does the character $mark!r occur at most in $text? Return that number.",
        ],
        """
        best = run = 0
        for c in $text:
            run = run + 1 if c == $mark!r else 0
            best = max(best, run)
        return best
        """,
        lambda: (s.letters(mark + mark + "b", 0, 12),),
        [("",), ("bbb",), (mark * 4,), (mark + "b" + mark * 2,)],
        mark=mark,
    )


@family(1)
def star_out(s: Source) -> Draft:
    group, kind = s.pick(
        ("aeiou", "a vowel (a, e, i, o, u)"), ("0123456789", "a digit"), (".,!?", "a punctuation mark")
    )
    return draft(
        "star_out|cover_up|blot_out",
        "text|message: str -> str",
        [
            "Return $text where every character that is $kind is replaced by $mark!r.",
            "Write $mark!r in the place of each character of $text that occurs in $group!r, and return the result.",
        ],
        'return "".join($mark!r if c in $group!r else c for c in $text)',
        lambda: (s.letters("abcdeio01 9.,!", 0, 12),),
        [("",), (group,)],
        group=group,
        kind=kind,
        mark=s.pick("*", "-", "_", "#"),
    )


@family(1)
def zipped_texts(s: Source) -> Draft:
    return draft(
        "zip_texts|interleave|shuffle_together",
        "a|first|top: str, b|second|bottom: str -> str",
        [
            "The texts $a and $b are equally long. Return the text that takes characters from them in turn, beginning "
            "with $a.",
            "Mix two texts of the same length: first the first character of $a, then the first one of $b, then the "
            "second one of $a and so on. Return the result.",
        ],
        'return "".join(x + y for x, y in zip($a, $b))',
        lambda: (s.letters(LETTERS, n := s.number(1, 6), n), s.letters(LETTERS, n, n)),
        [("", ""), ("a", "b")],
    )


@family(1)
def pieces_of_text(s: Source) -> Draft:
    return draft(
        "cut_in_pieces|split_by_length|slice_up",
        "text|code|digits: str -> list[str]",
        [
            "Cut $text into pieces of $n characters and return the list of pieces. The last one may be shorter.",
            "Return a list with the first $n characters of $text, then the next $n, and so on to the end. The last "
            "item may have fewer characters.",
        ],
        "return [$text[i : i + $n] for i in range(0, len($text), $n)]",
        lambda: (s.letters(LETTERS, 0, 13),),
        [("",), ("a",), ("abcdefghijkl",)],
        n=s.number(2, 4),
    )
