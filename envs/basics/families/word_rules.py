"""Rules of words: endings, plurals, secret languages and chains."""

from __future__ import annotations

from envs.basics.families.draft import Draft, draft, family
from envs.basics.families.source import Source


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
            "other word the first letter moves to the end and $con!r is added. Return the secret form of $word, which "
            "has only small letters.",
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
def letter_values(s: Source) -> Draft:
    one = s.pick(1, 2, 5, 10)
    return draft(
        "word_value|letter_sum|score_of_word",
        "word|name|text: str -> int",
        [
            "The letter 'a' is worth $one, 'b' is worth $two, 'c' is worth $three, and so on. Return the sum of the "
            "values of the letters in $word, which has only small letters.",
            "Give each small letter a value, beginning with $one for 'a' and growing by 1 from letter to letter. "
            "Return the sum of the values of all letters of $word.",
        ],
        'return sum(ord(c) - ord("a") + $one for c in $word)',
        lambda: (s.word(),),
        [("",), ("a",), ("abc",)],
        one=one,
        two=one + 1,
        three=one + 2,
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
            "than $n characters gives False.",
            "Return whether $text begins and ends with the same $n characters. If it is shorter than $n, the answer is "
            "False.",
        ],
        "return len($text) >= $n and $text[:$n] == $text[-$n:]",
        lambda: ((part := s.letters("ab", n, n)) + s.letters("abc", 0, 3) + s.pick(part, s.letters("ab", n, n)),),
        [("",), ("abcde"[:n],), ("a" * (n - 1),), ("b" * n + "a",)],
        n=n,
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
            "them, as in '4 $one$plural'.",
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
            "returned alone; there is at least one.",
            "Write the non-empty list $names as people do: with ', ' between the items and ' $and ' in front of the "
            "last of them. If there is one item, return it.",
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
