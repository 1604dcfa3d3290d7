"""BLEU without the n-grams that most training files share."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from envs.bleu import ORDERS, bleu, common
from envs.etk.task import Etk
from envs.task import Problem, TaskError
from rewards.audit.answers import useless_answers
from rewards.similarity import Similarity
from tests.rewards.test_channels import block

HEAD = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
FILES = [f"{HEAD}int {name}(int x) {{ return x * {number}; }}\n" for number, name in enumerate(("a", "b", "c", "d"), 2)]
THORN = Problem(
    "etk/x",
    "?",
    reference=f"{HEAD}void wave(double *phi, double dt) {{ phi[0] += dt; }}\n",
    language="c",
    data={"file": "wave.c", "corpus": [(text, "c", "f.c") for text in FILES]},
)


def graded(channel: Similarity, *codes: str):
    return asyncio.run(channel.score([THORN] * len(codes), [block(code) for code in codes]))


def grams(text: str) -> set[tuple[str, ...]]:
    tokens = text.split()
    return {tuple(tokens[i : i + order]) for order in ORDERS for i in range(len(tokens) - order + 1)}


def test_common_ngrams_are_those_of_the_most_texts_and_of_two_at_least():
    texts = ["a b c", "a b d", "a e f"]
    split = [text.split() for text in texts]
    assert common(split, 1) == {("a",)}
    assert common(split, 3) == {("a",), ("a", "b"), ("b",)} == common(split, 100)
    repeated = [["z"] * 50, ["a"], ["a"]]
    assert common(repeated, 100) == {("a",)}  # once in each text, however often it stands there


def test_ignored_ngrams_count_on_neither_side():
    ignored = frozenset(grams("# include x"))
    reference = ["#", "include", "x", "p", "q", "r", "s"]
    assert bleu(reference, reference, ignored).score == 1.0
    assert bleu(["p", "q", "r", "s"], reference, ignored).score < 1.0  # n-grams that cross the border are missing
    nothing = bleu(["#", "include", "x", "#", "include", "x"], reference, ignored)
    assert nothing.score == 0.0 and not any(nothing.matches)
    # a reference of ignored n-grams alone is compared as ever
    assert bleu(reference, ["#", "include", "x"], ignored).score == bleu(reference, ["#", "include", "x"]).score


def test_one_rare_ngram_among_ignored_ones_earns_little():
    ignored = frozenset(grams("a b c d a b c d"))
    reference = list("abcdefghijkl")
    rare, half = bleu(list("abcdabcdabce"), reference, ignored), bleu(list("abcdefghabcd"), reference, ignored)
    assert 0 < rare.score < 0.01 < 0.2 < half.score < 1


def test_an_include_list_earns_bleu_and_nothing_without_common_ngrams():
    plain, without = Similarity(budget=24), Similarity(budget=24, common=500)
    right = THORN.reference
    [p_list, p_right], [w_list, w_right] = graded(plain, HEAD, right), graded(without, HEAD, right)
    assert p_list.score > 0.5 and p_right.score == pytest.approx(1.0)
    assert w_list.score == 0.0 and w_list.spans == () and w_right.score == pytest.approx(1.0)
    assert w_list.detail["bleu"] == p_list.score and w_list.detail["bleu_without_common"] == 0.0
    assert w_right.spans[0].start > HEAD.index("string")  # where n-grams with the file's own code begin
    assert sum(span.value for span in w_right.spans) == pytest.approx(1.0)


def test_a_task_without_training_files_is_told():
    other = Problem("t/x", "?", reference="x", language="c")
    with pytest.raises(ValueError, match=r"similarity\.common=50 counts n-grams .* and t/x has none"):
        asyncio.run(Similarity(common=50).ready([other]))
    with pytest.raises(ValueError, match=r"similarity\.common=-1: it must be 0 or more"):
        Similarity(common=-1)


def test_thorns_bring_their_training_files_alone():
    try:
        task = Etk(source="nrpy")
    except TaskError as error:
        pytest.skip(str(error))
    held_out = task.problems("test")
    train = {problem.reference for problem in task.problems("train")}
    for problem in itertools.chain(held_out, task.problems("train")):
        assert {text for text, _, _ in problem.data["corpus"]} == train
    names = [name for name, _ in useless_answers(task, held_out[0], "")]
    assert "the include lines of most files" in names
    assert held_out[0].data["useless"]["the include lines of most files"].startswith("#include")
