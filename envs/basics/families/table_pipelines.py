"""Two steps on entries of a name and a number, kept in a dictionary, in tuples or in a list of dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.basics.families.draft import Draft, add, draft
from envs.basics.families.number_pipelines import Step
from envs.basics.families.source import Source

FIELDS = ["height", "size", "price", "weight", "score"]
CHOOSE = [
    Step("above", "$value > $k", "a $field of more than $k", "the $field is greater than $k", "above"),
    Step("steps", "$value % $m == 0", "a $field that is divisible by $m", "$m divides the $field", "round"),
    Step(
        "initial",
        '$name[0] in "$early"',
        "a name that begins with one of the letters '$early'",
        "the name begins with a letter of '$early'",
        "early",
    ),
    Step("short", "len($name) <= $n", "a name of at most $n letters", "the name has $n letters or less", "short"),
    Step(
        "range",
        "$low <= $value <= $k",
        "a $field from $low to $k, both included",
        "the $field lies between $low and $k, both included",
        "middle",
    ),
    Step(
        "letter",
        '"$letter" in $name.lower() or $value == $k',
        "an '$letter', capital or small, in the name, or a $field of exactly $k",
        "'$letter' or its capital occurs in the name or the $field is $k",
        "marked",
    ),
]
COMBINE = [
    Step(
        "names", "return sorted($name for $entry in $entries if $test)", "the names, in alphabetical order", "", "names"
    ),
    Step(
        "total",
        "return sum($value for $entry in $entries if $test)",
        "the sum of the numbers called $field",
        "",
        "total",
    ),
    Step(
        "table",
        "return {$name: $value * $c for $entry in $entries if $test}",
        "a dictionary that maps each name to $c times the $field",
        "",
        "table",
    ),
    Step(
        "labels",
        'return [$name + "$sep" + str($value) for $entry in $entries if $test]',
        "a list of texts such as '$shown': the name, '$sep' and the $field, in the given order",
        "",
        "labels",
    ),
    Step(
        "best",
        "return max(($value for $entry in $entries if $test), default=$none)",
        "the largest $field, or $none if there is none",
        "",
        "largest",
    ),
    Step(
        "gap",
        "return sum($k - $value for $entry in $entries if $test)",
        "the sum of the differences that remain when each $field is subtracted from $k",
        "",
        "gap",
    ),
]
RESULTS = ["list[str]", "int", "dict[str, int]", "list[str]", "int", "int"]
KINDS = [
    (
        "dict[str, int]",
        "$entries.items()",
        "name, value",
        "name",
        "value",
        "The dictionary $entries maps names to a $field each.",
    ),
    (
        "list[tuple[str, int]]",
        "$entries",
        "name, value",
        "name",
        "value",
        "The list $entries contains tuples of a name and a $field.",
    ),
    (
        "list[dict]",
        "$entries",
        "entry",
        'entry["name"]',
        'entry["$field"]',
        "Each item of $entries is a dictionary with the keys 'name' and '$field'.",
    ),
]
TEXTS = [
    "$kind Look only at entries with $long_test and return $result.",
    "{Return|Find} $result, but only for those where $short_test. $kind",
    "Which entries are there with $long_test? $kind For these, return $result.",
    "Return $result. Entries count if $short_test, and no others do. $kind",
    "$kind Ignore all but those with $long_test, then return $result.",
    "$kind Take an entry if $short_test. Return $result, using only the entries that you took.",
]
"""A family uses three of them; those with a step in common use different ones."""


def _family(choose: Step, combine: Step, result: str, kind: int, first: int) -> Callable[[Source], Draft]:
    annotation, iterated, entry, name, value, wording = KINDS[kind]

    def made(s: Source, field: str) -> Any:
        people = s.names(0, 5)
        numbers = [s.number(0, 30) for _ in people]
        if kind == 0:
            return dict(zip(people, numbers, strict=True))
        pairs = list(zip(people, numbers, strict=True))
        return pairs if kind == 1 else [{"name": a, field: b} for a, b in pairs]

    def edge(pairs: list[tuple[str, int]], field: str) -> Any:
        return dict(pairs) if kind == 0 else pairs if kind == 1 else [{"name": a, field: b} for a, b in pairs]

    def code(text: str) -> str:
        text = text.replace("$entry in $entries", f"{entry} in {iterated}")
        return text.replace("$name", name).replace("$value", value)

    def make(s: Source) -> Draft:
        field, k, sep = s.pick(*FIELDS), s.number(8, 20), s.pick(": ", "=", " - ", "/")
        none = s.pick("0", "-1", "None") if combine.name == "best" else "0"
        fill = [
            text.replace("$kind", wording).replace("$long_test", choose.long).replace("$short_test", choose.short)
            for text in (TEXTS + TEXTS)[first : first + 3]
        ]
        test = code(choose.code)
        two = ["Ann", "Ben"] if choose.name != "short" else ["Al", "Ed"]
        return draft(
            f"{combine.word}_of_{choose.word}|{choose.word}_{combine.word}|{combine.name}_where_{choose.word}",
            f"entries|people|rows|data: {annotation} -> {result}",
            [text.replace("$result", combine.long) for text in fill],
            code(combine.code).replace("$test", test),
            lambda: (made(s, field),),
            [(edge([], field),), (edge([(two[0], k), (two[1], k + 1), ("Wolfgang", k - 1), ("Iva", 12)], field),)],
            field=field,
            k=k,
            low=k - 6,
            m=s.pick(2, 3, 4, 5),
            n=s.number(3, 4),
            c=s.number(2, 9),
            early=s.pick("ABCDEF", "ABCDEFGH", "NOPRSTUVWZ"),
            letter=s.pick("a", "e", "i", "n"),
            sep=sep,
            shown=f"Ann{sep}7",
            none=none,
        )

    make.__module__ = __name__
    return make


for _i, _choose in enumerate(CHOOSE):
    for _j, _combine in enumerate(COMBINE):
        _kind = (_i + _j) % 3
        add(
            f"entries_{_choose.name}_{_combine.name}_{['table', 'tuples', 'records'][_kind]}",
            3 if _kind == 2 else 2,
            _family(_choose, _combine, RESULTS[_j], _kind, (_i + _j) % len(TEXTS)),
        )
