"""Three steps on a list of words: choose some, change each, bring the results together (see number_pipelines)."""

from __future__ import annotations

from collections.abc import Callable

from envs.basics.families.draft import Draft, add, draft
from envs.basics.families.number_pipelines import Step
from envs.basics.families.source import WORDS, Source

CHOOSE = [
    Step("longer", "len(w) > $n", "have more than $n letters", "with more than $n letters", "long"),
    Step("starting", 'w[0] == "$letter"', "begin with '$letter'", "beginning with '$letter'", "starting"),
    Step("containing", '"$letter" in w', "contain the letter '$letter'", "that contain '$letter'", "with_letter"),
    Step("not_ending", 'not w.endswith("$letter")', "do not end with '$letter'", "not ending with '$letter'", "other"),
    Step("even_length", "len(w) % 2 == 0", "have an even number of letters", "of even length", "even"),
    Step("early", 'w < "$half"', "come before '$half' in the alphabet", "that are smaller than '$half'", "early"),
    Step(
        "short_with",
        "$vowel!r in w and len(w) < $size",
        "contain $vowel!r and have fewer than $size letters",
        "with an $vowel!r and less than $size letters",
        "short",
    ),
]
CHANGE = [
    Step("upper", "w.upper()", "Write each of them in capital letters", "w in capital letters", "capitals"),
    Step("reversed", "w[::-1]", "Turn each of them around", "w read backwards", "backwards"),
    Step("cut", "w[:$n]", "Shorten each of them to its first $n letters", "the first $n letters of w", "stems"),
    Step("suffix", 'w + "$end"', "Add '$end' to the end of each of them", "w with '$end' added", "extended"),
    Step(
        "exchange",
        'w.replace("$letter", "$mark")',
        "Replace every '$letter' in them by '$mark'",
        "w with '$mark' for each '$letter'",
        "replaced",
    ),
    Step(
        "rotate",
        "w[1:] + w[0]",
        "Move the first letter of each of them to its end",
        "w with its first letter moved to the end",
        "rotated",
    ),
    Step(
        "ends",
        "w[0] + w[-1]",
        "Keep only the first and the last letter of each of them",
        "the first and the last letter of w, as one text,",
        "ends",
    ),
]
COMBINE = [
    Step(
        "joined",
        'return "$sep".join($each)',
        "the results joined with '$sep'",
        "one text, joined with '$sep', of",
        "join",
    ),
    Step("list", "return [$each]", "the results as a list, in their order", "a list of", "list_of"),
    Step("sorted", "return sorted($each)", "the results as a list from a to z", "a sorted list of", "sorted"),
    Step(
        "distinct",
        "return len({$each})",
        "how many different results there are",
        "the number of different values of",
        "distinct",
    ),
    Step(
        "longest",
        'return max(($each), key=len, default="")',
        "the longest result, which is the first one if several are equally long, or '' if there is none",
        "the longest (the first of several, '' without any) of",
        "longest",
    ),
    Step(
        "table",
        "return {w: $each}",
        "a dictionary that maps each of these words to its result",
        "a dictionary that maps w to",
        "table_of",
    ),
    Step(
        "last",
        'results = [$each]\nreturn results[-1] if results else ""',
        "the last result, or '' if there is none",
        "the last (or '' without any) of",
        "last",
    ),
]
RESULTS = ["str", "list[str]", "list[str]", "int", "str", "dict[str, str]", "str"]
TEXTS = [
    "Choose the words in $words that $long_test. $long_value. {Return|Then return|Finally, return} $long_result.",
    "Return $short_result $short_value for all words w in $words $short_test.",
    "In the list $words, only those words count that $long_test. $long_value, and return $long_result.",
    "Look at the words $short_test in the list $words. For each such word w take $short_value. Return $long_result.",
]


def _family(choose: Step, change: Step, combine: Step, result: str) -> Callable[[Source], Draft]:
    steps = (choose, change, combine)

    def text(template: str) -> str:
        for place, step in zip(("test", "value", "result"), steps, strict=True):
            template = template.replace(f"$long_{place}", step.long).replace(f"$short_{place}", step.short)
        return template

    def make(s: Source) -> Draft:
        letter, vowel, n = s.pick("b", "t", "e", "n", "l", "o"), s.pick("a", "e", "o"), s.number(2, 4)
        fitting = [w for w in WORDS if letter in w or vowel in w]
        names = [
            f"{combine.word}_{change.word}",
            f"{choose.word}_words_{combine.name}",
            f"{change.word}_of_{choose.word}",
        ]
        loop = combine.name == "list" and s.flag()
        return draft(
            "|".join(names),
            f"words|names|items|tokens: list[str] -> {result}",
            [text(template) for template in TEXTS],
            f"result = []\nfor w in $words:\n    if {choose.code}:\n        result.append({change.code})\nreturn result"
            if loop
            else combine.code.replace("$each", f"{change.code} for w in $words if {choose.code}"),
            lambda: (s.some(fitting, 0, 4) + s.words(0, 2),),
            [
                ([],),
                ([letter + vowel],),
                (["b" * n + letter, "a" * (n + 1), letter + "a" * n, vowel + letter + vowel],),
            ],
            n=n,
            size=s.number(4, 6),
            letter=letter,
            vowel=vowel,
            half=s.pick("f", "k", "m", "p"),
            end=s.pick("s", "er", "ly", "!", "1"),
            mark=s.pick("*", "_", "x", "-"),
            sep=s.pick(" ", "-", ", ", "/", "+"),
        )

    make.__module__ = __name__
    return make


for _i, _choose in enumerate(CHOOSE):
    for _j, _change in enumerate(CHANGE):
        _k = (_i + 2 * _j) % len(COMBINE)
        _combine = COMBINE[_k]
        add(
            f"words_{_choose.name}_{_change.name}_{_combine.name}",
            3 if _combine.name in ("longest", "table", "last") else 2,
            _family(_choose, _change, _combine, RESULTS[_k]),
        )
