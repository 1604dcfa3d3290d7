"""Words and sentences: splitting, joining, choosing and counting words."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


@family(1)
def acronym(s: Source) -> Draft:
    return draft(
        "acronym|first_letters|abbreviation",
        "text|phrase|title: str -> str",
        [
            "Return the first letters of all words in $text as capital letters, without anything between them.",
            "Build the abbreviation of $text: the first letter of each word, in upper case. Words are separated by "
            "spaces.",
        ],
        'return "".join(word[0].upper() for word in $text.split())',
        lambda: (s.sentence(1, 5),),
        [("",), ("sun",)],
    )


@family(1)
def single_spaces(s: Source) -> Draft:
    made = s.pick(("single spaces", " "), ("commas", ","), ("dashes", "-"), ("underscores", "_"))
    return draft(
        "single_spaces|tidy_spaces|normalize_spaces",
        "text|line|sentence: str -> str",
        [
            "Return $text with its words separated by $mark, and without spaces at the beginning or end. Words may be "
            "separated by several spaces in $text.",
            "Take the words of $text, however many spaces stand around them, and return them joined by $mark.",
        ],
        "return $sep!r.join($text.split())",
        lambda: (" " * s.number(0, 2) + s.pick(" ", "  ", "   ").join(s.words(1, 4)) + " " * s.number(0, 2),),
        [("",), ("   ",), ("one",)],
        mark=made[0],
        sep=made[1],
    )


@family(1)
def longest_word_length(s: Source) -> Draft:
    return draft(
        "longest_word_length|length_of_longest_word|widest_word",
        "text|sentence|line: str -> int",
        [
            "Return the number of letters of the longest word in $text, or 0 if there is no word. Words are separated "
            "by spaces.",
            "How long is the longest word of $text? Return its length; an empty text gives 0.",
        ],
        "return max((len(word) for word in $text.split()), default=0)",
        lambda: (s.sentence(1, 5),),
        [("",), ("a bb",)],
    )


@family(1)
def words_backwards(s: Source) -> Draft:
    return draft(
        "words_backwards|reverse_each_word|mirror_words",
        "text|sentence|line: str -> str",
        [
            "Return $text with each word written backwards. The words keep their order and are separated by single "
            "spaces.",
            "Reverse the letters of every word in $text, but leave the words in their places. Words are separated by "
            "one space each.",
        ],
        'return " ".join(word[::-1] for word in $text.split())',
        lambda: (s.sentence(1, 4),),
        [("",), ("ab",)],
    )


@family(1)
def words_beginning_with(s: Source) -> Draft:
    return draft(
        "words_beginning_with|count_words_with|how_many_begin",
        "text|sentence: str, letter|start: str -> int",
        [
            "Return how many words of $text begin with $letter. Words are separated by spaces.",
            "Split $text at the spaces and count the words whose first letter is $letter.",
        ],
        "return sum(word.startswith($letter) for word in $text.split())",
        lambda: (" ".join(s.some(["bee", "bed", "cat", "cup", "ant", "arc", "fox"], 0, 6)), s.pick("b", "c", "a")),
        [("", "a"), ("bob", "b")],
    )


@family(1)
def count_sentences(s: Source) -> Draft:
    one, two = s.pick((".", "!"), ("?", "!"), (".", "?"), (",", ";"))
    return draft(
        "count_marks|number_of_marks|marks_in_text",
        "text|letter|story: str -> int",
        [
            "Return how many times one of the characters $one!r and $two!r occurs in $text.",
            "Count both $one!r and $two!r in $text and return the total.",
        ],
        "return $text.count($one!r) + $text.count($two!r)",
        lambda: (s.letters("ab .!?,;" + one + two, 0, 12),),
        [("",), (one,), (two + two,)],
        one=one,
        two=two,
    )


@family(1)
def differing_places(s: Source) -> Draft:
    return draft(
        "differing_places|mismatches|count_typos",
        "a|first|typed: str, b|second|wanted: str -> int",
        [
            "The texts $a and $b have the same length. Return at how many positions their characters differ.",
            "Compare two equally long texts $a and $b character by character and return the number of differences.",
        ],
        "return sum(x != y for x, y in zip($a, $b))",
        lambda: (s.letters("ab", n := s.number(1, 7), n), s.letters("ab", n, n)),
        [("", ""), ("abc", "abc"), ("a", "b")],
    )


@family(1)
def file_extension(s: Source) -> Draft:
    mark = s.pick(".", "/", "-", ":", "_")
    return draft(
        "file_extension|part_after_last|ending_of_name",
        "name|path|text: str -> str",
        [
            "Return the part of $name after its last $mark!r. The character occurs at least once.",
            "The text $name contains $mark!r one or more times. Return what stands behind the last one.",
        ],
        "return $name.split($mark!r)[-1]",
        lambda: (mark.join(s.words(2, 4)),),
        [(mark,), ("a" + mark,), ("x" + mark + "y" + mark + "z",)],
        mark=mark,
    )


@family(2)
def middle_word(s: Source) -> Draft:
    return draft(
        "middle_word|word_in_the_middle|central_word",
        "text|sentence|line: str -> str",
        [
            "The text $text has an odd number of words, separated by spaces. Return the one in the middle.",
            "Split $text into its words, of which there is an odd number, and return the central one.",
        ],
        """
        words = $text.split()
        return words[len(words) // 2]
        """,
        lambda: (" ".join(s.words(n := s.pick(1, 3, 5, 7), n)),),
        [("one",), ("a b c",)],
    )


@family(2)
def swap_first_last_word(s: Source) -> Draft:
    return draft(
        "swap_outer_words|exchange_words|outer_words_swapped",
        "text|sentence|line: str -> str",
        [
            "Return $text with its first and last word exchanged. It has at least two words, separated by single "
            "spaces.",
            "Let the first and the last word of $text change places and return the new text. There are two or more "
            "words, with one space between them.",
        ],
        """
        words = $text.split(" ")
        words[0], words[-1] = words[-1], words[0]
        return " ".join(words)
        """,
        lambda: (s.sentence(2, 6),),
        [("a b",), ("a b c",)],
    )


@family(2)
def count_each_word(s: Source) -> Draft:
    return draft(
        "word_counts|count_each_word|word_frequencies",
        "text|sentence|lyrics: str -> dict[str, int]",
        [
            "Return a dictionary that gives for each word of $text how often it occurs. Words are separated by spaces, "
            "and capital and small letters are not distinguished: all keys are in small letters.",
            "Count the words of $text in lower case and return a dictionary of words and their numbers.",
        ],
        """
        counts = {}
        for word in $text.lower().split():
            counts[word] = counts.get(word, 0) + 1
        return counts
        """,
        lambda: (" ".join(s.some(["Sun", "sun", "moon", "Moon", "star", "sky"], 0, 6)),),
        [("",), ("a A a",)],
    )


@family(3)
def longest_words(s: Source) -> Draft:
    least, word = s.pick((False, "longest"), (True, "shortest"))
    return draft(
        "extreme_words|record_words|words_of_extreme_length",
        "text|sentence|line: str -> list[str]",
        [
            "Return a list of the $word words of $text, in the order of the text. Several words may be equally long, "
            "and words are separated by spaces.",
            "Find the length of the $word word in $text and return a list of all words with that length, from left to "
            "right.",
        ],
        """
        words = $text.split()
        size = $extreme((len(w) for w in words), default=0)
        return [w for w in words if len(w) == size]
        """,
        lambda: (s.sentence(1, 6),),
        [("",), ("aa bb c",)],
        word=word,
        extreme="min" if least else "max",
    )
