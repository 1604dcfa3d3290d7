"""Attribution over tokenizers of three kinds, on ids as a policy draws them: any ids, not the text's own encoding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rewards.attribution import TokenBytes, attribute, code_tokens, locate
from rewards.channel import ChannelResult, Completion, Span

CORPUS = [
    "def f(x):\n    return x + 1\n",
    "naïve façade, größe, Ελληνικά, русский текст, עברית, العربية",
    "日本語のコメント # 漢字とかな\n한국어 텍스트, ไทย, हिन्दी",
    "emoji 🙂🚀 and 👩‍👩‍👧 families\n\tfor i in range(10):\n        print(f'{i!r}')\n",
]
SPECIAL = ["<pad>", "<eos>"]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer


def sentencepiece() -> Tokenizer:
    """As Llama 2: pieces with ▁ for a blank, unknown characters as bytes."""
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    known = sorted(
        {c for text in CORPUS[:2] for c in text.replace(" ", "▁") if c not in "\n\t"} | {"▁def", "▁return", "ing"}
    )
    vocabulary = {piece: n for n, piece in enumerate([*SPECIAL, "<unk>", *pieces, *known])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def characters() -> Tokenizer:
    known = sorted({c for text in CORPUS for c in text})
    tokenizer = Tokenizer(models.BPE({piece: n for n, piece in enumerate([*SPECIAL, *known])}, []))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


KINDS = {}
for make in (byte_level, sentencepiece, characters):
    found = PreTrainedTokenizerFast(tokenizer_object=make(), pad_token="<pad>", eos_token="<eos>")
    KINDS[make.__name__] = found, TokenBytes(found)


def completions(kind: str):
    """Completions of random ids, of which some lie in the code."""
    tokenizer, table = KINDS[kind]

    @st.composite
    def drawn(draw):
        ids = draw(st.lists(st.integers(0, len(tokenizer) - 1), min_size=1, max_size=40))
        text, offsets = locate(ids, table)
        edge = st.integers(0, len(text))
        code = draw(st.none() | st.tuples(edge, edge).map(sorted).map(tuple))
        spans = draw(st.lists(st.tuples(st.tuples(edge, edge).map(sorted), st.floats(-5, 5)), max_size=5))
        return ids, Completion(text, ids, offsets, code), [Span(a, b, v) for (a, b), v in spans]

    return drawn()


def test_a_letter_of_a_language_does_not_make_a_vocabulary_byte_level():
    tokenizer = sentencepiece()
    tokenizer = Tokenizer(
        models.BPE(
            {**tokenizer.get_vocab(), "Ġ": len(tokenizer.get_vocab())}, [], unk_token="<unk>", byte_fallback=True
        )
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    ids = wrapped.convert_tokens_to_ids(["▁def", "▁", "Ġ", "<0x0A>"])
    assert locate(ids, TokenBytes(wrapped))[0] == " def Ġ\n"


def test_added_tokens_have_the_text_that_the_tokenizer_decodes():
    """Gemma's runs of blanks are added tokens, and a special token need not have a name (Llama 3's second end)."""
    wrapped = PreTrainedTokenizerFast(tokenizer_object=sentencepiece(), pad_token="<pad>", eos_token="<eos>")
    wrapped.add_tokens([AddedToken("▁▁▁▁", normalized=False), AddedToken("<end_of_text>", special=True)])
    ids = wrapped.convert_tokens_to_ids(["d", "<0x0A>", "▁▁▁▁", "d", "<end_of_text>"])
    text, offsets = locate(ids, TokenBytes(wrapped))
    assert text == wrapped.decode(ids, skip_special_tokens=True) == "d\n    d"
    assert offsets == [(0, 1), (1, 2), (2, 6), (6, 7), (7, 7)]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_rewards_are_conserved_and_stay_in_their_spans(kind, data):
    ids, completion, spans = data.draw(completions(kind))
    # a special token that stands within a character has this character
    special = [t for t, i in enumerate(ids) if i < len(SPECIAL) and len(set(completion.offsets[t])) == 1]
    total = sum(span.value for span in spans)
    for pays_outside_code in (True, False):
        rewards = attribute(completion, ChannelResult(total, tuple(spans)), pays_outside_code)
        assert sum(rewards) == pytest.approx(total, abs=1e-6)
        assert all(rewards[t] == 0 for t in special if t != len(ids) - 1)  # the last one takes what has no token
    for span in spans:
        rewards = attribute(completion, ChannelResult(span.value, (span,)), pays_outside_code=True)
        for (start, end), reward in list(zip(completion.offsets, rewards, strict=True))[:-1]:
            assert reward == 0 or (start < max(span.end, span.start + 1) and end > span.start)
    uniform = attribute(completion, ChannelResult(1.0))
    code = code_tokens(completion)
    assert sum(uniform) == pytest.approx(1.0)
    assert all(r == 0 for t, r in enumerate(uniform) if t not in code and t != len(ids) - 1)
    assert not set(code) & set(special)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_text_is_what_the_tokenizer_itself_decodes(kind, data):
    tokenizer, table = KINDS[kind]
    ids = data.draw(st.lists(st.integers(len(SPECIAL), len(tokenizer) - 1), max_size=30))
    if kind == "sentencepiece":  # its own decoder replaces each byte of a broken run, and <unk> has no text
        ids = [i for i in ids if not tokenizer.convert_ids_to_tokens(i).startswith("<")]
    text, offsets = locate(ids, table)
    assert text == tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    assert [offsets[0][0], offsets[-1][1]] == [0, len(text)] if ids else text == ""


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(alphabet=st.sampled_from(sorted({c for text in CORPUS for c in text})), max_size=40))
@settings(max_examples=100, deadline=None)
def test_texts_in_many_scripts_come_back_with_their_characters_covered(kind, text):
    tokenizer, table = KINDS[kind]
    ids = tokenizer(text, add_special_tokens=False).input_ids
    results, offsets = locate(ids, table)
    assert results == text
    covered = {place for start, end in offsets for place in range(start, end)}
    assert covered == set(range(len(text)))
