"""Small formats: reading and writing fields, lists, codes and settings."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def parse_settings(s: Source) -> Draft:
    outer, inner = s.pick((";", "="), (",", ":"), ("&", "="), ("|", ":"))
    return draft(
        "parse_settings|read_options|parse_pairs",
        "text|line|query: str -> dict[str, str]",
        [
            "The text $text consists of parts separated by $outer!r, and each part is a name, $inner!r and a value. "
            "Return a dictionary of names and values, all as texts. There is at least one part.",
            "Cut $text at each $outer!r, and each piece at its only $inner!r. Return a dictionary that gives for what "
            "stands in front of $inner!r what stands behind it.",
        ],
        "return dict(part.split($inner!r) for part in $text.split($outer!r))",
        lambda: (
            outer.join(f"{w}{inner}{s.number(0, 99)}" for w in s.few(["a", "size", "x", "y", "color", "mode"], 1, 4)),
        ),
        [(f"a{inner}",), (f"a{inner}1{outer}b{inner}on",)],
        outer=outer,
        inner=inner,
    )


@family(1)
def sum_of_listed(s: Source) -> Draft:
    sep = s.pick("+", ",", ";", " ")
    return draft(
        "sum_of_listed|add_up_text|evaluate_sum",
        "text|line|formula: str -> int",
        [
            "The text $text holds whole numbers with $sep!r between them. Return their sum. There is at least one "
            "number.",
            "Read the numbers in $text, which are separated by $sep!r, and return their total. $text is not empty.",
        ],
        "return sum(int(part) for part in $text.split($sep!r))",
        lambda: (sep.join(str(s.number(0, 40)) for _ in range(s.number(1, 5))),),
        [("7",), (f"1{sep}2",)],
        sep=sep,
    )


@family(2)
def page_ranges(s: Source) -> Draft:
    dash = s.pick("-", "..", ":", " to ")
    return draft(
        "expand_range|pages_in_range|range_from_text",
        "text|pages|span: str -> list[int]",
        [
            "The text $text has the form '$shown_form', such as '$shown'. Return the list of the numbers from the "
            "first to the last, both included.",
            "Split $text at $dash!r into two numbers and return a list of all numbers from the first one up to and "
            "including the second one.",
        ],
        """
        first, last = $text.split($dash!r)
        return list(range(int(first), int(last) + 1))
        """,
        lambda: (f"{(a := s.number(0, 30))}{dash}{a + s.number(0, 5)}",),
        [(f"3{dash}3",), (f"9{dash}11",)],
        dash=dash,
        shown=f"4{dash}7",
        shown_form=f"first{dash}last",
    )


@family(3)
def expand_runs(s: Source) -> Draft:
    return draft(
        "expand_runs|unpack|decode_lengths",
        "text|code|packed: str -> str",
        [
            "The text $text consists of pairs of a letter and a digit. Return the text in which each letter is "
            "repeated as many times as the digit behind it says: 'a3b1' gives 'aaab'.",
            "Decode $text: every second character is a digit that tells how often the character in front of it is "
            "written. Return the decoded text; 'x2y0z1' becomes 'xxz'.",
        ],
        """
        result = ""
        for i in range(0, len($text), 2):
            result += $text[i] * int($text[i + 1])
        return result
        """,
        lambda: ("".join(s.pick(*"abcxyz") + str(s.number(0, 5)) for _ in range(s.number(0, 4))),),
        [("",), ("a1",), ("a0b2",)],
    )


@family(2)
def price_from_text(s: Source) -> Draft:
    unit, word = s.pick(("$$", "dollars"), ("EUR ", "euros"), ("GBP ", "pounds"))
    unit = unit.replace("$$", "$")
    return draft(
        "price_in_cents|read_price|cents_from_text",
        "text|price|label: str -> int",
        [
            "The text $text is a price in $word such as $shown!r, always with two digits behind the point. Return it "
            "in cents.",
            "A label reads $unit!r, then whole $word, a point and two digits. Return the number of cents that $text "
            "stands for.",
        ],
        """
        whole, cents = $text[$skip:].split(".")
        return int(whole) * 100 + int(cents)
        """,
        lambda: (f"{unit}{s.number(0, 99)}.{s.number(0, 99):02d}",),
        [(f"{unit}0.05",), (f"{unit}10.00",)],
        word=word,
        unit=unit,
        skip=len(unit),
        shown=f"{unit}12.50",
    )


@family(1)
def strip_comment(s: Source) -> Draft:
    mark = s.pick("#", "//", "--", ";")
    return draft(
        "strip_comment|code_without_comment|before_comment",
        "line|text|code: str -> str",
        [
            "In $line a comment begins with $mark!r and goes on to the end. Return $line without its comment and "
            "without spaces at both ends. There may be no comment.",
            "Return the part of $line before the first $mark!r, or the whole line if it has none, without spaces "
            "around it.",
        ],
        "return $line.split($mark!r)[0].strip()",
        lambda: (s.pick("", "  ") + s.sentence(1, 2) + s.pick("", "  ", f" {mark} " + s.word(), f"{mark}x {mark} y"),),
        [("",), (f"{mark} only",), ("a = 1",)],
        mark=mark,
    )


@family(1)
def numbers_in_text(s: Source) -> Draft:
    return draft(
        "numbers_in_text|extract_numbers|find_numbers",
        "text|line|sentence: str -> list[int]",
        [
            "Return a list of all words in $text that consist only of digits, as numbers, from left to right. Words "
            "are separated by spaces.",
            "Which of the words in $text are whole numbers without a sign? Return them as a list of int, in their "
            "order.",
        ],
        "return [int(word) for word in $text.split() if word.isdigit()]",
        lambda: (
            " ".join(s.pick(s.word(), str(s.number(0, 99)), "a" + str(s.number(1, 9))) for _ in range(s.number(0, 6))),
        ),
        [("",), ("7",), ("a1 b",), ("12 apples and 3 pears",)],
    )


@family(1)
def csv_column(s: Source) -> Draft:
    sep = s.pick(",", ";", "|", ":")
    return draft(
        "column_of_lines|nth_field|fields_of_lines",
        "lines|rows|records: list[str] -> list[str]",
        [
            "Each text in $lines consists of fields with $sep!r between them. Return a list of the fields with index "
            "$i, one per line. Every line has more than $i fields.",
            "Split each line of $lines at $sep!r and return the list of the items at index $i.",
        ],
        "return [line.split($sep!r)[$i] for line in $lines]",
        lambda: ([sep.join(s.words(3, 4)) for _ in range(s.number(0, 3))],),
        [([],), ([f"a{sep}b{sep}c"],)],
        sep=sep,
        i=s.number(0, 2),
    )


@family(2)
def version_newer(s: Source) -> Draft:
    return draft(
        "is_newer|newer_version|needs_update",
        "new|a|offered: str, old|b|installed: str -> bool",
        [
            "Versions are texts such as '2.10.1'. Compare the numbers from left to right and return True if $new is "
            "newer than $old, and False otherwise. Both have three numbers.",
            "Return whether the version $new is greater than $old. Each consists of three numbers with points between "
            "them, and the first number that differs decides.",
        ],
        """
        def key(version):
            return [int(part) for part in version.split(".")]

        return key($new) > key($old)
        """,
        lambda: tuple(".".join(str(s.pick(1, 2, 9, 10)) for _ in range(3)) for _ in range(2)),
        [("1.0.0", "1.0.0"), ("1.10.0", "1.9.0"), ("1.9.9", "2.0.0")],
    )


@family(1)
def levels_of_path(s: Source) -> Draft:
    sep = s.pick("/", "\\", ".", ">")
    return draft(
        "folder_depth|count_levels|nesting_of_path",
        "path|place|address: str -> int",
        [
            "Return how many folders are named in $path, a text with names separated by $sep!r. Empty parts do not "
            "count.",
            "Split $path at $sep!r and return the number of parts that are not empty.",
        ],
        "return len([part for part in $path.split($sep!r) if part])",
        lambda: (sep * s.number(0, 2) + sep.join(s.words(0, 4)) + sep * s.number(0, 1),),
        [("",), (sep,), (f"a{sep}{sep}b",)],
        sep=sep,
    )


@family(3)
def parse_command(s: Source) -> Draft:
    add, sub = s.pick(("add", "take"), ("plus", "minus"), ("up", "down"), ("in", "out"))
    return draft(
        "run_commands|follow_orders|execute_lines",
        "lines|commands|orders: list[str] -> int",
        [
            "A counter begins at $start. Each text in $lines is '$add' or '$sub', a space and a number, and adds the "
            "number to the counter or subtracts it. Return the counter at the end.",
            "Begin with $start and carry out the orders in $lines: '$add 3' increases the value by 3, '$sub 3' "
            "decreases it by 3, and so on. Return the final value.",
        ],
        """
        value = $start
        for line in $lines:
            word, number = line.split()
            if word == "$add":
                value += int(number)
            else:
                value -= int(number)
        return value
        """,
        lambda: ([f"{s.pick(add, sub)} {s.number(0, 20)}" for _ in range(s.number(0, 5))],),
        [([],), ([f"{add} 5"],), ([f"{sub} 5"],)],
        add=add,
        sub=sub,
        start=s.pick(0, 10, 100),
    )
