"""From characters to tokens: where each sampled token lies in the text, and how a span's reward is shared by tokens.

Offsets are computed from the sampled ids: each token's bytes are added up, then bytes are mapped to characters.
Encoding the text again would give other tokens for about a third of the samples drawn at temperature 1.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from rewards.channel import ChannelResult, Completion, Span


@dataclass(frozen=True)
class Part:
    """What one part of an answer earned, and the indices of its tokens."""

    reward: float
    tokens: frozenset[int]


def special_ids(tokenizer: Any) -> set[int]:
    """Ids without a text, as `decode(skip_special_tokens=True)` leaves them out: some have no name, such as the second
    end token of Llama 3."""
    return {*tokenizer.all_special_ids, *(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)}


class TokenBytes:
    """The bytes of each token id: byte-level BPE, sentencepiece with byte fallback, or plain characters."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._special = special_ids(tokenizer)
        self._added = {i: str(token) for i, token in tokenizer.added_tokens_decoder.items()}
        learnt = tokenizer.get_vocab().keys() - set(self._added.values())
        # the alphabet of byte-level BPE has no ▁, and a sentencepiece vocabulary may have the letter Ġ
        self._sentencepiece = any("▁" in token for token in learnt)
        self._byte_level = not self._sentencepiece and any("Ġ" in token for token in learnt)
        self._cache: dict[int, bytes] = {}

    def __getitem__(self, token_id: int) -> bytes:
        cached = self._cache.get(token_id)
        if cached is None:
            cached = self._cache[token_id] = self._bytes(token_id)
        return cached

    def _bytes(self, token_id: int) -> bytes:
        if token_id in self._special:
            return b""
        if token_id in self._added:
            text = self._added[token_id]  # Gemma's runs of blanks are such tokens
            return (text.replace("▁", " ") if self._sentencepiece else text).encode()
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        if token is None:  # padded vocabulary rows have no token
            return b""
        if self._byte_level:
            return bytes(_BYTE_OF_CHAR[c] for c in token)
        if self._sentencepiece:
            if len(token) == 6 and token.startswith("<0x"):
                return bytes([int(token[3:5], 16)])
            return token.replace("▁", " ").encode()
        return token.encode()


def _gpt2_byte_alphabet() -> dict[str, int]:
    """GPT-2's reversible map from printable characters to bytes (openai/gpt-2, encoder.py, `bytes_to_unicode`)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(b): b for b in printable}
    for rank, byte in enumerate(b for b in range(256) if b not in set(printable)):
        alphabet[chr(256 + rank)] = byte
    return alphabet


_BYTE_OF_CHAR = _gpt2_byte_alphabet()


def locate(token_ids: Sequence[int], token_bytes: TokenBytes) -> tuple[str, list[tuple[int, int]]]:
    """The text of a completion and the characters (start, end) of each of its T tokens.

    Tokens that share a character (a UTF-8 character split over byte-level tokens) overlap on it. Bytes that are not
    UTF-8 become U+FFFD, as in the tokenizer's own decoding.

    Example: three tokens with the bytes `caf` C3, A9 and `!` (C3 A9 is "é") give the text "café!" and the offsets
    (0, 4), (3, 4) and (4, 5). Both tokens of "é" have its character, number 3.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text: list[str] = []
    length = end = 0
    byte_chars: list[tuple[int, int]] = []  # for each byte of the stream, the characters (start, end) it may belong to
    pending = 0
    pieces = [token_bytes[i] for i in token_ids]
    stream = b"".join(pieces)
    for position in range(len(stream)):
        out = decoder.decode(stream[position : position + 1], final=position + 1 == len(stream))
        pending += 1
        if out:
            unread = len(decoder.getstate()[0])  # this byte may begin the next character
            broken = len(out) - 1 if not unread and len(out) > 1 else len(out)
            # of several characters the last is this byte's, and those before stand for bytes that are no UTF-8
            byte_chars.extend([(length, length + broken)] * (pending - unread - (broken < len(out))))
            byte_chars.extend([(length + broken, length + len(out))] * (broken < len(out)))
            pending = unread
            text.append(out)
            length += len(out)
    offsets = []
    start = 0
    for piece in pieces:
        if piece:
            covered = byte_chars[start : start + len(piece)]
            offsets.append((covered[0][0], covered[-1][1]))
        elif start < len(byte_chars) and byte_chars[start][0] < end:  # within a character
            offsets.append(byte_chars[start])
        else:
            here = byte_chars[start][0] if start < len(byte_chars) else length
            offsets.append((here, here))
        end = offsets[-1][1]
        start += len(piece)
    return "".join(text), offsets


def code_tokens(completion: Completion) -> list[int]:
    """Indices of the tokens that overlap the extracted code (C in CONTRIBUTING.md, Dense rewards)."""
    start, end = completion.code_span or (0, 0)
    return _overlapping(completion, start, end) if end > start else []


def tokens_within_code(completion: Completion) -> list[int]:
    """Indices of the tokens all of whose characters belong to the extracted code: not a newline with the fence."""
    start, end = completion.code_span or (0, 0)
    return [t for t, (s, e) in enumerate(completion.offsets) if start <= s < e <= end]


def _overlapping(completion: Completion, start: int, end: int) -> list[int]:
    """Indices of the tokens with characters in [start, end); an empty span stands for the character at `start`.

    A single character belongs to one token, the one with its first byte, even if it is split over several byte-level
    tokens.
    """
    offsets = completion.offsets  # neither starts nor ends ever decrease
    first = bisect_right(offsets, start, key=itemgetter(1))
    behind = bisect_left(offsets, max(end, start + 1), key=itemgetter(0))
    tokens = [t for t in range(first, behind) if offsets[t][0] < offsets[t][1]]
    return tokens if end > start + 1 else tokens[:1]


def attribute(
    completion: Completion, result: ChannelResult, pays_outside_code: bool = False, spread: bool = True
) -> list[float]:
    """Token rewards of one channel, T numbers that sum to the channel's score.

    Each span is shared equally by the tokens that overlap it; only code tokens count unless `pays_outside_code`.
    Rewards without a location are spread over the code tokens, and a reward without any token falls on the last token.
    With `spread` false, rewards without a location and spans that cover all the code also fall on the last token, so
    that a token's return holds only rewards paid at it or later.
    """
    rewards = [0.0] * len(completion.token_ids)
    if not rewards:
        return rewards
    code = code_tokens(completion)
    if not result.spans:
        _share(rewards, code if spread else [], result.score)
        return rewards
    for tokens, value in spans_on_tokens(completion, result.spans, pays_outside_code, spread):
        _share(rewards, tokens, value)
    return rewards


def spans_on_tokens(
    completion: Completion, spans: Sequence[Span], pays_outside_code: bool = False, spread: bool = True
) -> list[tuple[list[int], float]]:
    """(indices, reward) for each span: the tokens that share the reward; no indices mean the last token. Arguments as
    in `attribute`."""
    allowed = None if pays_outside_code else set(code_tokens(completion))
    placed = []
    for span in spans:
        unlocated = not spread and _covers(span, completion, pays_outside_code)
        tokens = [] if unlocated else _overlapping(completion, span.start, span.end)
        placed.append((tokens if allowed is None else [t for t in tokens if t in allowed], span.value))
    return placed


def parts_on_tokens(completion: Completion, result: ChannelResult, pays_outside_code: bool) -> dict[str, Part]:
    """The parts that the channel's spans name, with the tokens of these spans, before weighting."""
    parts: dict[str, Part] = {}
    last = len(completion.token_ids) - 1
    named = [span for span in result.spans if span.part] if last >= 0 else []
    for span, (tokens, value) in zip(named, spans_on_tokens(completion, named, pays_outside_code), strict=True):
        part = parts.get(span.part, Part(0.0, frozenset()))
        parts[span.part] = Part(part.reward + value, part.tokens.union(tokens or [last]))
    return parts


def _covers(span: Span, completion: Completion, pays_outside_code: bool) -> bool:
    """Whether a span covers the whole code, and so does not locate its reward. With `pays_outside_code` it must equal
    the code's span, since a longer one means the whole answer: a missing block, its length."""
    whole = completion.code_span
    if whole is None or whole[0] == whole[1]:
        return False
    return (span.start, span.end) == whole if pays_outside_code else span.start <= whole[0] and whole[1] <= span.end


def _share(rewards: list[float], tokens: Sequence[int], value: float) -> None:
    for t in tokens:
        rewards[t] += value / len(tokens)
    if not tokens:
        rewards[-1] += value


def at_the_end(completion: Completion, score: float) -> list[float]:
    """Sparse placement: the whole score on the last token, which is the end of sequence if it was drawn."""
    return [0.0] * (len(completion.token_ids) - 1) + [score] if completion.token_ids else []


def evenly(completion: Completion, score: float) -> list[float]:
    """Uniform placement: the score in equal parts on all tokens."""
    rewards = [0.0] * len(completion.token_ids)
    if rewards:
        _share(rewards, range(len(rewards)), score)
    return rewards
