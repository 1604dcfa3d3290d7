"""Writing values as text: rows, labels, bars and tags."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def table_row(s: Source) -> Draft:
    marks = s.pick(("| ", " | ", " |"), ("[", "; ", "]"), ("<", "/", ">"), ("(", " & ", ")"))
    return draft(
        "table_row|format_row|line_of_table",
        "cells|values|fields: list -> str",
        [
            "Return the items of $cells as one line: $a!r in front, $b!r between each two of them, and $c!r at the "
            "end. Items that are not texts are written as str does.",
            "Write a row of a table: begin with $a!r, join the items of $cells, converted to texts, with $b!r, and end "
            "with $c!r.",
        ],
        "return $a!r + $b!r.join(str(cell) for cell in $cells) + $c!r",
        lambda: (s.pick(s.ints(0, 99, 0, 4), s.words(0, 3)),),
        [([],), ([1],), (["x", 2],)],
        a=marks[0],
        b=marks[1],
        c=marks[2],
    )


@family(2)
def last_name_first(s: Source) -> Draft:
    return draft(
        "last_name_first|catalog_name|sortable_name",
        "name|person|author: str -> str",
        [
            "The text $name is a first name and a last name with a space between them. Return the last name, $sep!r "
            "and the first name.",
            "Turn 'Ada Stone' into 'Stone${s}Ada': return the two parts of $name in the opposite order, with $sep!r "
            "between them.".replace("${s}", sep := s.pick(", ", "_", "/", "; ")),
        ],
        """
        first, last = $name.split()
        return last + $sep!r + first
        """,
        lambda: (f"{s.name()} {s.word().title()}",),
        [("A B",)],
        sep=sep,
    )


@family(1)
def user_name(s: Source) -> Draft:
    n = s.number(3, 6)
    return draft(
        "make_user_name|login_name|short_id",
        "first|given: str, last|family: str -> str",
        [
            "Return a user name in small letters: the first letter of $first followed by the first $n letters of "
            "$last, or all of $last if it is shorter.",
            "Join the first character of $first and up to $n characters from the beginning of $last, and return the "
            "result in lower case. $first is not empty.",
        ],
        "return ($first[0] + $last[:$n]).lower()",
        lambda: (s.name(), s.word().title()),
        [("Bo", "Li"), ("ANNA", "WINTERBERG"), ("C", "")],
        n=n,
    )


@family(1)
def tag_text(s: Source) -> Draft:
    o, c = s.pick(("<", ">"), ("[", "]"), ("{", "}"))
    return draft(
        "wrap_in_tag|tagged|with_markup",
        "tag|name|label: str, text|content|body: str -> str",
        [
            f"Return $text between an opening and a closing mark: the name $tag in '{o}{c}' before it, and the name "
            f"with a '/' in front, also in '{o}{c}', after it.",
            f"Return '{o}', $tag, '{c}', then $text, then '{o}/', $tag and '{c}', all joined into one text.",
        ],
        'return f"{o}{$tag}{c}{$text}{o}/{$tag}{c}"'.replace("{o}", "{{" if o == "{" else o).replace(
            "{c}", "}}" if c == "}" else c
        ),
        lambda: (s.pick("b", "i", "p", "h1", "note"), s.word()),
        [("b", ""), ("p", "a b")],
    )


@family(2)
def phone_number(s: Source) -> Draft:
    a, b = s.pick((3, 6), (2, 5), (3, 5), (4, 6))
    return draft(
        "format_phone|split_number|phone_text",
        "digits|number|text: str -> str",
        [
            f"The text $digits has at least {b + 1} digits. Return it with a $sep!r after the first {a} and another "
            f"one after the first {b} digits.",
            f"Write a phone number: the first {a} digits of $digits, $sep!r, the next {b - a}, $sep!r again, and the "
            f"rest. There are more than {b} digits.",
        ],
        f"return $digits[:{a}] + $sep!r + $digits[{a}:{b}] + $sep!r + $digits[{b}:]",
        lambda: (s.letters("0123456789", b + 1, 11),),
        [("1234567890",)],
        sep=s.pick("-", " ", "/", "."),
    )


@family(2)
def signed_text(s: Source) -> Draft:
    plus, zero = s.pick(("+", "0"), ("+", "="), ("up ", "same"), ("won ", "even"))
    minus = {"+": "-", "up ": "down ", "won ": "lost "}[plus]
    return draft(
        "signed_text|show_change|describe_change",
        "change|n|difference: int -> str",
        [
            "Return $plus!r followed by $change if it is positive, $minus!r followed by its absolute value if it is "
            "negative, and $zero!r if it is 0.",
            "Write $change with a word or sign: $plus!r before a positive number, $minus!r before a negative one, "
            "whose own sign is left out, and just $zero!r for 0.",
        ],
        """
        if $change == 0:
            return $zero!r
        return ($plus!r if $change > 0 else $minus!r) + str(abs($change))
        """,
        lambda: (s.number(-40, 40),),
        [(0,), (1,), (-1,)],
        plus=plus,
        minus=minus,
        zero=zero,
    )


@family(2)
def progress_bar(s: Source) -> Draft:
    full, empty = s.pick(("#", "."), ("=", " "), ("*", "-"), ("X", "_"))
    n = s.pick(5, 8, 10)
    return draft(
        "progress_bar|draw_bar|show_progress",
        "done|finished|value: int, total|all_steps|maximum: int -> str",
        [
            "Draw a bar of $n characters: return as many $full!r as the whole part of $n times $done divided by "
            "$total, and fill up with $empty!r. $done is not larger than $total.",
            "The number of all steps is $total, and $done tells how many are finished. Return a text of length $n that "
            "begins with $n * $done // $total characters $full!r and goes on with $empty!r.",
        ],
        """
        filled = $n * $done // $total
        return $full!r * filled + $empty!r * ($n - filled)
        """,
        lambda: (s.number(0, t), t) if (t := s.number(1, 20)) else (0, 1),
        [(0, 4), (4, 4), (1, 3)],
        n=n,
        full=full,
        empty=empty,
    )


@family(1)
def bar_chart(s: Source) -> Draft:
    mark = s.pick("*", "#", "=", "o")
    sep = s.pick(": ", " ", " | ")
    return draft(
        "bar_chart|draw_rows|text_chart",
        "counts|votes|table: dict[str, int] -> list[str]",
        [
            "Return a list with one text for each entry of $counts: its key, $sep!r, and as many $mark!r as its value "
            "says. Keep the order of the dictionary.",
            "Draw a chart of $counts as a list of texts. For a key with value 3 the text is the key followed by "
            "$shown!r.",
        ],
        "return [name + $sep!r + $mark!r * n for name, n in $counts.items()]",
        lambda: (s.stock(0, 6, 0, 4),),
        [({},), ({"fig": 0},), ({"fig": 2, "date": 1},)],
        mark=mark,
        sep=sep,
        shown=sep + mark * 3,
    )


@family(1)
def quoted_items(s: Source) -> Draft:
    q = s.pick("'", '"', "*", "_")
    return draft(
        "quote_all|quoted_list|in_quotes",
        "words|items|titles: list[str] -> str",
        [
            "Put every item of $words between two characters $q!r, and return them in one text, separated by ', '.",
            "Return the items of $words, each with $q!r in front and behind, joined by a comma and a space.",
        ],
        'return ", ".join($q!r + word + $q!r for word in $words)',
        lambda: (s.words(0, 4),),
        [([],), (["a"],), (["a", ""],)],
        q=q,
    )
