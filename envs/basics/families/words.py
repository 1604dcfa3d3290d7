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
            "by "
            "spaces.",
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
            "one "
            "space each.",
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
def capitalize_long_words(s: Source) -> Draft:
    return draft(
        "capitalize_long_words|headline|big_words",
        "text|title|line: str -> str",
        [
            "Return $text with the first letter of each word of more than $n letters changed to a capital. Other words "
            "stay the same. Words are separated by single spaces.",
            "Write a headline: capitalize the words of $text that are longer than $n letters, leave the others as they "
            "are, and return the words joined by spaces. All letters of $text are small.",
        ],
        'return " ".join(w.capitalize() if len(w) > $n else w for w in $text.split())',
        lambda: (s.sentence(1, 5),),
        [("",), ("a of the sand river",)],
        n=s.number(2, 4),
    )


@family(2)
def pig_latin(s: Source) -> Draft:
    return draft(
        "secret_word|play_latin|move_first_letter",
        "word|text: str -> str",
        [
            "In a secret language, a word that begins with a vowel (a, e, i, o, u) gets the ending $vow!r. In any "
            "other "
            "word the first letter moves to the end and $con!r is added. Return the secret form of $word, which has "
            "only "
            "small letters.",
            "If $word begins with one of the letters a, e, i, o and u, return it with $vow!r added. Otherwise move its "
            "first letter to its end, add $con!r and return the result. The word is not empty.",
        ],
        """
        if $word[0] in "aeiou":
            return $word + $vow!r
        return $word[1:] + $word[0] + $con!r
        """,
        lambda: (s.word(),),
        [("a",), ("x",), ("egg",)],
        vow=s.pick("way", "yay", "hay"),
        con=s.pick("ay", "ey", "oy"),
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
def letter_values(s: Source) -> Draft:
    one = s.pick(1, 2, 5, 10)
    return draft(
        "word_value|letter_sum|score_of_word",
        "word|name|text: str -> int",
        [
            "The letter 'a' is worth $one, 'b' is worth $two, 'c' is worth $three, and so on. Return the sum of the "
            "values of the letters in $word, which has only small letters.",
            "Give each small letter a value, beginning with $one for 'a' and growing by 1 from letter to letter. "
            "Return "
            "the sum of the values of all letters of $word.",
        ],
        'return sum(ord(c) - ord("a") + $one for c in $word)',
        lambda: (s.word(),),
        [("",), ("a",), ("abc",)],
        one=one,
        two=one + 1,
        three=one + 2,
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


@family(1)
def is_titled(s: Source) -> Draft:
    how = s.pick("title", "upper", "lower")
    return draft(
        "has_right_case|is_in_style|case_is_fine",
        "text|line|name: str -> bool",
        [
            "A text is fine if text.$how() leaves it unchanged. Return whether $text is fine.",
            "Return True if $text is equal to what its method $how returns, and False otherwise.",
        ],
        "return $text == $text.$how()",
        lambda: (s.mixed(1, 2),),
        [("",), ("Sun Moon",), ("SUN",), ("sun",)],
        how=how,
    )


@family(1)
def same_start_and_end(s: Source) -> Draft:
    n = s.number(2, 3)
    return draft(
        "same_start_and_end|ends_like_it_begins|bordered",
        "text|word: str -> bool",
        [
            "Return True if the first $n characters of $text are equal to its last $n characters. A text with fewer "
            "than "
            "$n characters gives False.",
            "Return whether $text begins and ends with the same $n characters. If it is shorter than $n, the answer is "
            "False.",
        ],
        "return len($text) >= $n and $text[:$n] == $text[-$n:]",
        lambda: ((part := s.letters("ab", n, n)) + s.letters("abc", 0, 3) + s.pick(part, s.letters("ab", n, n)),),
        [("",), ("abcde"[:n],), ("a" * (n - 1),), ("b" * n + "a",)],
        n=n,
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
            "and "
            "words are separated by spaces.",
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


@family(1)
def plural_form(s: Source) -> Draft:
    end = s.pick("s", "x", "z", "o")
    return draft(
        "simple_plural|plural_of|make_plural",
        "noun|word: str -> str",
        [
            "Return the plural of $noun by these rules: a word that ends with $end!r gets 'es', any other word gets "
            "'s'.",
            "Add 'es' to $noun if its last letter is $end!r, and 's' otherwise. The word is not empty.",
        ],
        'return $noun + ("es" if $noun.endswith($end!r) else "s")',
        lambda: (s.pick(s.word(), s.word() + end),),
        [(end,), ("a" + end,), (end + "a",)],
        end=end,
    )


@family(2)
def counted_noun(s: Source) -> Draft:
    return draft(
        "counted_noun|number_with_noun|how_many_text",
        "n|count|number: int -> str",
        [
            "Return the text '1 $one' if $n is 1, and otherwise $n and the word '$one$plural' with a space between "
            "them, "
            "as in '4 $one$plural'.",
            "Say how many there are: return $n, a space and the word '$one', with '$plural' added to it unless $n is "
            "1.",
        ],
        """
        if $n == 1:
            return "1 $one"
        return f"{$n} $one$plural"
        """,
        lambda: (s.number(2, 60),),
        [(0,), (1,), (2,)],
        one=s.pick("apple", "day", "dog", "coin", "page"),
        plural="s",
    )


@family(2)
def listed_in_words(s: Source) -> Draft:
    return draft(
        "list_in_words|join_with_last|enumerate_names",
        "names|words|items: list[str] -> str",
        [
            "Return the items of $names joined by ', ', but with ' $and ' before the last one. A single item is "
            "returned "
            "alone; there is at least one.",
            "Write the non-empty list $names as people do: with ', ' between the items and ' $and ' in front of the "
            "last "
            "of them. If there is one item, return it.",
        ],
        """
        if len($names) == 1:
            return $names[0]
        return ", ".join($names[:-1]) + " $and " + $names[-1]
        """,
        lambda: (s.names(1, 5),),
        [(["Ann"],), (["Ann", "Bob"],)],
        **{"and": s.pick("and", "or", "but also")},
    )


@family(1)
def without_stop_words(s: Source) -> Draft:
    small = s.pick(["a", "the", "of"], ["is", "am", "are"], ["to", "in", "on"], ["and", "or", "but"])
    return draft(
        "without_small_words|drop_words|important_words",
        "text|sentence|title: str -> str",
        [
            "Return $text without the words $small. The other words keep their order and are separated by single "
            "spaces.",
            "Remove every word of $text that is in the list $small, and return the remaining words joined by spaces.",
        ],
        'return " ".join(w for w in $text.split() if w not in $small!r)',
        lambda: (" ".join(s.some(["sun", "moon", "tree", *small], 0, 7)),),
        [("",), (small[0],)],
        small=small,
    )


@family(2)
def word_chain(s: Source) -> Draft:
    return draft(
        "is_word_chain|words_link|chain_holds",
        "words|items: list[str] -> bool",
        [
            "Words form a chain if each one begins with the last letter of the word before it. Return True if $words "
            "form a chain. A list of fewer than two words is one. No word is empty.",
            "Return whether every word in the list $words, except the first, starts with the letter that ends the word "
            "before. No word is empty.",
        ],
        "return all(a[-1] == b[0] for a, b in zip($words, $words[1:]))",
        lambda: (
            s.pick(s.some(["tea", "ant", "top", "pet", "tap", "at"], 0, 4), ["egg", "gum", "map"][: s.number(1, 3)]),
        ),
        [([],), (["sun"],), (["tea", "art", "toe"],), (["tea", "bat"],)],
    )
