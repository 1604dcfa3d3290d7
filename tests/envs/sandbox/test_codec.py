"""The encoding between a program and its judge."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest

from envs.sandbox.comparison import as_json, lines_of, same, same_items, same_output
from envs.sandbox.worker.codec import Unsupported, decode, make_encoder, parse

ENCODE = make_encoder(1 << 20)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        1 << 53,
        -(1 << 53),
        1 << 70,
        0.1,
        -0.0,
        1e-320,
        math.inf,
        "\ud800\0é",
        b"\0",
        2 - 3j,
        [],
        (),
        set(),
        frozenset(),
        int,
        [type(None), dict],
        {},
        {(1, "a"): [{"b": {1, 2}}]},
        [[[[]]]],
        Decimal("-1.50"),
        Fraction(-1, 3),
        range(-1, 1 << 60, 7),
        bytearray(b"a"),
    ],
    ids=repr,
)
def test_round_trip_is_exact(value):
    text = ENCODE(value)
    assert text.isascii() and "\n" not in text
    back = decode(json.loads(text))
    assert type(back) is type(value) and repr(back) == repr(value)


def test_subclasses_become_their_base():
    pair = namedtuple("pair", "a b")
    for value, base in (
        (Counter("aab"), dict),
        (OrderedDict(a=1), dict),
        (defaultdict(int, a=1), dict),
        (pair(1, 2), tuple),
    ):
        assert type(decode(json.loads(ENCODE(value)))) is base


@pytest.mark.parametrize(
    "value",
    [object(), iter([]), {}.keys(), print, Exception, ...],
    ids=lambda v: type(v).__name__,
)
def test_other_types_are_refused(value):
    with pytest.raises(Unsupported):
        ENCODE([value])


def test_size_and_depth_are_bounded():
    small = make_encoder(100)
    cycle: list = []
    cycle += [cycle, cycle]
    for value in ("a" * 101, [0] * 101, 1 << 1000, b"a" * 101, cycle, {i: i for i in range(60)}):
        with pytest.raises(Unsupported):
            small(value)
    deep: list = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(Unsupported):
        ENCODE(deep)
    for text in ("[" * 10**6, '{"a":' * 10**5, "[" * 300 + "]" * 300):
        with pytest.raises(ValueError):
            parse(text)
    assert parse(json.dumps(["[" * 1000, '"' * 500, "\\"])) == ["[" * 1000, '"' * 500, "\\"]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"l": 1},
        [],
        [1],
        ["q"],
        ["l", {}],
        ["i", 1],
        ["i"],
        ["i", "xyz"],
        ["f", "word"],
        ["s", ["l"]],
        ["d", 1],
        ["d", ["l"], 1],
        ["c", 1],
        ["c", "a", "b"],
        ["b", "zz"],
        ["if", "1"],
        ["m", "x"],
        ["q", "1", "0"],
        ["q", "1"],
        ["r", "1"],
        ["a", "int64", ["l", 2], ["l", 1]],
        ["a", "int64", ["l", -1], ["l"]],
        ["h", 0],
        ["k", 0],
        ["", "1"],
    ],
    ids=repr,
)
def test_what_the_encoder_never_writes_is_refused(node):
    with pytest.raises(ValueError):
        decode(node)


def test_same_handles_mixed_kinds():
    kinds = [None, 1, "1", b"1", [1], (1,), {1}, {1: 1}, 1.5, 2j]
    for left in kinds:
        for right in kinds:
            assert same(left, right) is (left is right), (left, right)


def test_lines_of():
    assert lines_of(" a \r\nb\t\n\n \n") == ["a", "b"] == lines_of("\n\na\nb")
    assert lines_of("") == lines_of("\n\n") == [""]
    assert lines_of("a\n\nb") == ["a", "", "b"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("1.50 2", "1.5 2.0\n"),
        ("YES\n1e2\n", "YES\n100"),
        ("-0", "0"),
        ("3  4\r\n", "3 4"),
        ("1" + "0" * 5000, "1E+5000"),
        ("nan inf", "nan inf"),
        ("  x\ny", "\nx  \ny\n"),
    ],
)
def test_outputs_that_are_the_same(output, expected):
    assert same_output(output, expected) and same_output(expected, output)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("1\n2", "1 2"),
        ("1", "1\n2"),
        ("1\n\n2", "1\n2"),
        ("", "0"),
        ("0.1", "0.10000000000000000001"),
        ("a  b", "a b"),
        ("nan 1", "nan 1.0"),
        ("sNaN", "1"),
        ("1e99999999999999999999999", "1"),
        ("YES", "Yes"),
        ("3 x", "3.0 x"),
        ("1 1", "1"),
        ("0110", "110"),
        ("00", "0"),
        ("1_000", "1000"),
        ("+5", "5"),
        ("١٢", "12"),
        ("Infinity", "inf"),
    ],
)
def test_outputs_that_differ(output, expected):
    assert not same_output(output, expected) and not same_output(expected, output)


@pytest.mark.parametrize(
    ("output", "expected", "same"),
    [
        ("3.16227766016", "3.162277660", True),
        ("Case 1: 0.5", "Case 1: 0.50001", True),
        ("1000000.5", "1000050.5", True),
        ("1000000.5", "1000500.5", False),
        ("1000001", "1000000", False),
        ("1000001", "1000000.0", True),
        ("0.5 yes", "0.5 Yes", False),
        ("0.5", "0.501", False),
        ("inf", "1.0", False),
        ("1e999", "1E+999", True),
        ("5", "1e999", False),
        ("nan", "1.0", False),
        ("-0.00001", "0.0", True),
    ],
)
def test_outputs_with_a_tolerance(output, expected, same):
    """Absolute or relative, of numbers of which one is no integer; words beside them are compared as text."""
    assert same_output(output, expected, tol=1e-4) is same


def test_lists_in_any_order():
    assert same_items([3, [1, 2], "a", 3], [[1, 2], 3, 3, "a"]) and same_items([], [])
    assert not same_items([3, 3, 1], [3, 1, 1]) and not same_items([1], [1, 1]) and not same_items((1, 2), [2, 1])
    assert same_items([math.nan, 1.0], [1.0, math.nan], 1e-6) and not same_items([math.nan, 1.0], [1.0, 1.0], 1e-6)
    assert same_items([3, 0.1 + 0.2], [0.3, 3], 1e-6) and not same_items([3, 0.1 + 0.2], [0.3, 3])
    assert same_items([{"a": [1]}, {"b": {2}}], [{"b": {2}}, {"a": [1]}]) and not same_items([{"a": 1}], [{"a": 2}])


def test_as_json_knows_no_tuples_and_only_text_as_keys():
    assert as_json([(1, (2,)), {3: (4,), "a": {5}}, None]) == [[1, [2]], {"3": [4], "a": {5}}, None]
