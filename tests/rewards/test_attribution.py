"""Conservation of reward, and where tokens lie in the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.attribution import TokenBytes, at_the_end, attribute, code_tokens, evenly, locate
from rewards.channel import ChannelResult, Completion, Span


class Bytes:
    """A stand-in for TokenBytes: pieces given outright."""

    def __init__(self, pieces):
        self.pieces = pieces

    def __getitem__(self, token_id):
        return self.pieces[token_id]


def completion(text: str, cuts: list[int], code: tuple[int, int] | None) -> Completion:
    edges = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    offsets = [*list(itertools.pairwise(edges)), (len(text), len(text))]
    return Completion(text, list(range(len(offsets))), offsets, code)


@st.composite
def cases(draw):
    text = draw(st.text(min_size=1, max_size=60))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=12))
    code = draw(st.none() | st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted).map(tuple))
    place = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted)
    values = st.floats(-5, 5, allow_nan=False)
    spans = [Span(a, b, v) for (a, b), v in draw(st.lists(st.tuples(place, values), max_size=5))]
    return completion(text, cuts, code), spans, draw(values)


@given(cases(), st.booleans(), st.booleans())
def test_token_rewards_sum_to_the_score(case, pays_outside_code, spread):
    answer, spans, score = case
    result = ChannelResult(sum(s.value for s in spans), tuple(spans)) if spans else ChannelResult(score)
    dense = attribute(answer, result, pays_outside_code, spread)
    assert len(dense) == len(answer.token_ids)
    assert sum(dense) == pytest.approx(result.score, abs=1e-6)
    assert sum(at_the_end(answer, result.score)) == result.score
    alike = evenly(answer, result.score)
    assert sum(alike) == pytest.approx(result.score, abs=1e-9) and len(set(alike)) <= 1


@given(cases())
def test_a_span_belongs_to_the_tokens_that_overlap_it(case):
    answer, spans, value = case
    for span in spans:
        rewards = attribute(answer, ChannelResult(value, (Span(span.start, span.end, value),)), pays_outside_code=True)
        first, last = span.start, max(span.end, span.start + 1)
        inside = [t for t, (start, end) in enumerate(answer.offsets) if start < end and start < last and end > first]
        inside = inside if span.end > span.start + 1 else inside[:1]
        assert [t for t, reward in enumerate(rewards) if reward] == ((inside or [len(rewards) - 1]) if value else [])


def test_code_that_is_empty_has_no_token():
    answer = completion("```python\n```", [9, 10], (10, 10))
    assert code_tokens(answer) == [] and attribute(answer, ChannelResult(1.0))[-1] == 1.0


@given(cases())
def test_outside_the_code_nothing_but_the_last_token_is_paid(case):
    answer, spans, _ = case
    dense = attribute(answer, ChannelResult(sum(s.value for s in spans), tuple(spans)))
    allowed = {*code_tokens(answer), len(dense) - 1}
    assert all(r == 0 for t, r in enumerate(dense) if t not in allowed)


@given(cases())
def test_what_is_not_spread_lies_at_the_end_and_what_points_where_it_points(case):
    answer, spans, score = case
    assert attribute(answer, ChannelResult(score), spread=False) == at_the_end(answer, score)
    spans = [*spans, Span(0, 0, 0.0)]
    first, last = answer.code_span or (0, 0)
    whole = [s for s in spans if s.start <= first < last <= s.end]
    points = [s for s in spans if s not in whole]
    pointed = attribute(answer, ChannelResult(sum(s.value for s in spans), tuple(spans)), spread=False)
    located = attribute(answer, ChannelResult(sum(s.value for s in points), tuple(points)))
    rest = at_the_end(answer, sum(s.value for s in whole))
    assert pointed == pytest.approx([a + b for a, b in zip(located, rest, strict=True)], abs=1e-6)


@given(cases())
def test_a_span_pays_only_tokens_that_overlap_it(case):
    answer, spans, _ = case
    for span in spans:
        dense = attribute(answer, ChannelResult(span.value, (span,)), pays_outside_code=True)
        for (start, end), reward in list(zip(answer.offsets, dense, strict=True))[:-1]:
            assert reward == 0 or (start < max(span.end, span.start + 1) and end > span.start)


@given(st.text(max_size=40), st.data())
def test_offsets_cover_the_text_whatever_bytes_a_token_holds(text, data):
    raw = text.encode("utf-8", errors="replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    edges = [0, *cuts, len(raw)]
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)] + [b""]
    results, offsets = locate(range(len(pieces)), Bytes(pieces))
    assert results == raw.decode()
    for piece, (start, end) in zip(pieces, offsets, strict=True):
        assert piece.decode(errors="ignore") in results[start:end]
        assert start < end or not piece
        assert start == end or piece or end - start == 1  # an empty token within a character has that character
    for column in zip(*offsets, strict=True):
        assert list(column) == sorted(column)


def test_a_split_characters_flag_goes_to_the_token_with_its_first_byte():
    text, offsets = locate(range(4), Bytes([b"a\xf0\x9f", b"\x99", b"\x82", b"b"]))
    answer = Completion(text, list(range(4)), offsets, (0, len(text)))
    assert attribute(answer, ChannelResult(-1.0, (Span(1, 2, -1.0),))) == [-1, 0, 0, 0]
    assert attribute(answer, ChannelResult(-3.0, (Span(1, 3, -3.0),))) == pytest.approx([-0.75] * 4)


def test_an_empty_place_is_the_token_that_begins_there_or_the_end():
    answer = completion("abcd", [2], (0, 4))
    assert attribute(answer, ChannelResult(1.0, (Span(2, 2, 1.0),))) == [0, 1, 0]
    assert attribute(answer, ChannelResult(1.0, (Span(4, 4, 1.0),)), pays_outside_code=True) == [0, 0, 1]


def test_bytes_that_are_no_utf8_become_replacement_characters():
    text, offsets = locate([0, 1, 2], Bytes([b"a\xff", b"\xe2\x82", b"b"]))
    assert text == b"a\xff\xe2\x82b".decode(errors="replace")
    assert offsets[0] == (0, 2)


def test_offsets_agree_with_a_real_tokenizers_decoding(smollm2_tokenizer):
    table = TokenBytes(smollm2_tokenizer)
    text = "```python\ndef naïve(x):\n\treturn 'héllo 🙂' * x\n```"
    ids = [*smollm2_tokenizer(text, add_special_tokens=False).input_ids, smollm2_tokenizer.eos_token_id]
    results, offsets = locate(ids, table)
    assert results == text
    assert offsets[-1] == (len(text), len(text))
    assert "".join(results[a:b] for a, b in offsets).count("def") == 1


def test_what_form_takes_from_the_whole_answer_lies_on_all_tokens():
    """With and without a fence that is not closed; under `pointed` only what covers the code alone is at the end."""
    for span in (None, (2, 4)):
        answer = completion("abcd", [1, 2, 3], span)
        missing = ChannelResult(-1.0, (Span(0, 4, -1.0),))
        assert attribute(answer, missing, pays_outside_code=True, spread=False)[:-1] == pytest.approx([-0.25] * 4)
    paid = ChannelResult(1.0, (Span(2, 4, 1.0),))
    assert attribute(answer, paid, pays_outside_code=True, spread=False) == [0, 0, 0, 0, 1]
