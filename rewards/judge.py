"""Judge: any causal language model says how well the code does what the problem's reference does.

Range 0 to 1, spread over the code. Three ways of asking:
- `likelihood` (default): how much the code as a draft raises the mean log-probability of the reference's tokens, as a
  share of what the reference itself as a draft raises it. The one that works with a small judge.
- `expected`: the expected digit, over the ten digit tokens at the answer's place, over 9.
- `number`: the first number of a short greedy reply, over 10, as the ETK work asked. An answer without a number on the
  scale makes the channel silent for that completion. Small judges say the same to everything.
Code-free answers are 0 and the model is not called. Same input, same score: answers are kept by their text. `detail`
has for each answer that was judged `judged`, what the judge said (none where it is silent), `invalid_rate`, 1 where it
is silent and else 0, and of the answers scored together `std` and `most_common`, the share of the commonest score.

    python -m rewards.judge calibrate [path=MODEL] [device=cuda] [precision=bf16]     rank correlation of each mode
"""

from __future__ import annotations

import asyncio
import logging
import re
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    StoppingCriteria,
    StoppingCriteriaList,
)

from envs.packaged import model_source
from envs.task import Problem
from rewards.channel import ChannelResult, Completion
from rewards.similarity import has_code

log = logging.getLogger("codegrain.judge")
MODES = ("likelihood", "expected", "number")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MARK = "Score:"
LIKE_MARK = re.compile(r"(?:\s*c\s)?[\W_]*score[\s*_`'\"]*:(?!:)", re.IGNORECASE)
"""The beginning of a line that says a score, in a comment or emphasised or not."""
LIKE_MARK_NOTE = re.compile(r"(?://|/\*|#).*?\bscore[\s*_`'\"]*:(?!:)", re.IGNORECASE)
"""The beginning of a comment that says a score anywhere."""
QUESTION = {
    "expected": "How well does the candidate do what the reference does? Answer with one digit from 0 (not at all) "
    "to 9 (the same).",
    "number": "How well does the candidate do what the reference does? Answer with a number from 0 (not at all) to 10 "
    "(the same).",
}
REPLY_TOKENS = 24
NUMBER = re.compile(r"[-\u2212]?(?:\d+(?:,\d+)*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
OUT_OF = re.compile(r"\s*/\s*(\d+)")
DECIDED = re.compile(r"\d[\d.,eE+-]*(?:[^\d\s.,eE+/-]|\s+[^\s/]|\s*/\s*(?:[^\d\s]|\d+\D))")
"""A number that no further token changes, with what it is out of, and the character behind it."""
UNFINISHED = re.compile(r"[-\u2212]?[\d.][\d.,eE+-]*\s*(?:/\s*\d*)?\Z")
WORTH_SHARING = 16
"""Tokens; fewer are read with each row."""
DEGENERATE = 0.01
"""Standard deviation of a batch's scores below which the judge says the same to everything."""
SCORES = 2
"""The fewest of which a spread can be told."""
Pair = tuple[str, str]


class Judge:
    """
    Args:
        path: the judge: hub name, local folder, or "package:NAME".
        mode: one of MODES.
        device, precision: where and in what it runs.
        load_in_4bit: NF4 weights (bitsandbytes).
        code_tokens: the most of code and of reference, each, that the judge reads.
        rows: pairs in one forward pass.

    Raises:
        ValueError: an unknown mode or precision, no CUDA, or a tokenizer in which digits are no single tokens.
        OSError: no such model.
    """

    judges_form = False

    def __init__(
        self,
        path: str,
        mode: str = "likelihood",
        device: str = "cpu",
        precision: str = "fp32",
        load_in_4bit: bool = False,
        code_tokens: int = 400,
        rows: int = 8,
    ):
        if mode not in MODES or precision not in DTYPES:
            raise ValueError(f"judge.mode={mode}, precision={precision}: of {', '.join(MODES)}; {', '.join(DTYPES)}")
        if code_tokens < 1 or rows < 1:
            raise ValueError(f"judge.code_tokens={code_tokens}, rows={rows}: 1 or more")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"judge.device={device}: there is no CUDA here; device=cpu")
        self.mode, self.code_tokens, self.rows = mode, code_tokens, rows
        source = model_source(path)
        self.tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
        how: dict[str, Any] = {"dtype": DTYPES[precision]}
        if load_in_4bit:
            how["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=DTYPES[precision]
            )
        self.model = AutoModelForCausalLM.from_pretrained(source, **how).eval().requires_grad_(False)
        if not load_in_4bit:
            self.model.to(device)
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        special = [re.escape(t.content) for t in self.tokenizer.added_tokens_decoder.values() if t.special]
        self._special = re.compile(f"(?={'|'.join(special) or '(?!)'}).", re.DOTALL)
        self._kept: dict[tuple[str, str, str], float | None] = {}
        self._gains: dict[str, tuple[float, float]] = {}
        if mode == "expected":
            digit_ids(self.tokenizer)

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises ValueError where a problem has no reference."""
        for problem in problems:
            if not problem.reference:
                raise ValueError(f"{problem.id} has no reference solution, which the judge compares with")
        results: list[ChannelResult | None] = [ChannelResult(0.0, note="no code")] * len(problems)
        asked = [i for i, (p, c) in enumerate(zip(problems, completions, strict=True)) if has_code(p, c.code)]
        pairs = [(completions[i].code or "", problems[i].reference) for i in asked]
        scores = await asyncio.to_thread(self.judge, pairs)
        together = self._watch(scores)
        for i, score in zip(asked, scores, strict=True):
            results[i] = _result(score, together)
        return results

    @torch.no_grad()
    def judge(self, pairs: Sequence[Pair]) -> list[float | None]:
        """Scores in [0, 1] of (candidate, reference) pairs; None for a reply without a number on the scale."""
        new = dict.fromkeys(p for p in pairs if p[0].strip() and (self.mode, *p) not in self._kept)
        ask = {"likelihood": self._likelihood, "expected": self._expected, "number": self._number}[self.mode]
        for batch in self._batches(list(new)):
            for pair, score in zip(batch, ask(batch), strict=True):
                self._kept[self.mode, *pair] = score
        return [self._kept[self.mode, *pair] if pair[0].strip() else 0.0 for pair in pairs]

    def _batches(self, pairs: Sequence[Pair]) -> list[list[Pair]]:
        """`rows` at a time, of like length; where the reference stands first, those of one reference together, since
        the model reads what they share once."""
        often = Counter(reference for _, reference in pairs if self.mode != "likelihood")
        groups: dict[str, list[Pair]] = {}
        for pair in sorted(pairs, key=lambda pair: (len("".join(pair)), pair)):
            groups.setdefault(pair[1] if often[pair[1]] > 1 else "", []).append(pair)
        return [group[i : i + self.rows] for group in groups.values() for i in range(0, len(group), self.rows)]

    def _watch(self, scores: Sequence[float | None]) -> dict[str, float]:
        """Spread and share of the commonest of a batch's scores; warns where they say nothing."""
        said = [score for score in scores if score is not None]
        if len(said) < len(scores):
            log.warning("judge/invalid_rate %.2f: replies without a number on the scale", 1 - len(said) / len(scores))
        if len(said) < SCORES:
            return {}
        std, [(value, times)] = statistics.pstdev(said), Counter(round(score, 3) for score in said).most_common(1)
        if std < DEGENERATE:
            hint = "answers that are all alike?" if self.mode == "likelihood" else "judge.mode=likelihood tells more"
            log.warning("judge/degenerate: %d scores of about %g, apart by %.3f: %s", len(said), value, std, hint)
        return {"std": std, "most_common": times / len(said)}

    # the three ways of asking ---------------------------------------------------------------------------------------

    def _likelihood(self, pairs: Sequence[Pair]) -> list[float | None]:
        references = sorted({reference for _, reference in pairs} - self._gains.keys())
        wanted = dict.fromkeys([*pairs, *((draft, r) for r in references for draft in ("", r))])
        found = dict(zip(wanted, self._log_probs(list(wanted)), strict=True))
        for reference in references:
            without = found["", reference]
            self._gains[reference] = (without, found[reference, reference] - without)
        scores: list[float | None] = []
        for pair in pairs:
            without, most = self._gains[pair[1]]
            scores.append(min(1.0, max(0.0, (found[pair] - without) / most)) if most > 0 else 0.0)
        return scores

    def _log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Mean log-probability of each reference's tokens after its draft, "" for none."""
        rows = []
        for draft, reference in pairs:
            before = f"Draft:\n{self._block(draft)}\n\n" if draft else ""
            code, fence = self._cut(reference), _fence(reference)
            ids = self._ids(f"{before}Reference:\n{fence}\n")
            rows.append((ids, self._ids(code)))
        found = [0.0] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
        for first in range(0, len(order), self.rows):
            batch = order[first : first + self.rows]
            keep = max(len(rows[i][1]) for i in batch) + 1
            for i, row in zip(batch, self._logits([rows[i][0] + rows[i][1] for i in batch], keep), strict=True):
                wanted = torch.tensor(rows[i][1], device=row.device)
                logits = row[-len(wanted) - 1 : -1].float()
                chosen = logits.gather(1, wanted[:, None]).squeeze(1)
                found[i] = (chosen - logits.logsumexp(-1)).mean().item()
        return found

    def _expected(self, pairs: Sequence[Pair]) -> list[float | None]:
        prompt_end, digits = digit_ids(self.tokenizer)
        logits = self._logits([self._ids(self._prompt(pair, prompt_end)) for pair in pairs], keep=1)[:, -1]
        chances = logits[:, digits].float().softmax(-1).cpu()
        return [(row * torch.arange(10)).sum().item() / 9 for row in chances]

    def _number(self, pairs: Sequence[Pair]) -> list[float | None]:
        rows = [self._ids(self._prompt(pair, MARK)) for pair in pairs]
        ids_BT, mask_BT, cache = self._begun(rows)
        out = self.model.generate(
            input_ids=ids_BT,
            attention_mask=mask_BT,
            past_key_values=cache,
            max_new_tokens=REPLY_TOKENS,
            do_sample=False,
            pad_token_id=self.tokenizer.pad_token_id,
            stopping_criteria=StoppingCriteriaList([_Decided(self.tokenizer, ids_BT.shape[1])]),
        )
        replies_BT = out[:, ids_BT.shape[1] :]
        replies = self.tokenizer.batch_decode(replies_BT, skip_special_tokens=True)
        if replies_BT.shape[1] < REPLY_TOKENS:  # all have ended
            return [parse_number(reply) for reply in replies]
        ends = {self.tokenizer.pad_token_id, self.tokenizer.eos_token_id}
        cut = [ends.isdisjoint(row) for row in replies_BT.tolist()]
        return [parse_number(UNFINISHED.sub("", reply) if c else reply) for reply, c in zip(replies, cut, strict=True)]

    # text to the model ----------------------------------------------------------------------------------------------

    def _prompt(self, pair: Pair, ending: str) -> str:
        candidate, reference = pair
        said = f"Reference:\n{self._block(reference)}\n\nCandidate:\n{self._block(candidate)}\n\n{QUESTION[self.mode]}"
        if self.tokenizer.chat_template is None:
            return f"{said}\n\n{ending}"
        messages = [{"role": "user", "content": said}]
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + ending

    def _block(self, code: str) -> str:
        """Code in a fence that nothing in it closes, without lines that look like the answer."""
        given = [line for line in self._cut(code).splitlines() if not LIKE_MARK.match(line)]
        said = [(line, LIKE_MARK_NOTE.split(line, maxsplit=1)[0]) for line in given]
        lines = [rest for line, rest in said if rest.strip() or rest == line]
        return "\n".join([_fence(code), *lines, _fence(code)])

    def _cut(self, code: str) -> str:
        """The code's first `code_tokens` tokens: the question after it must stay whole. What spells a special token
        gets a blank behind its first character, or it would end the user's turn."""
        code = self._special.sub(r"\g<0> ", code)
        places = self.tokenizer(code, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return code if len(places) <= self.code_tokens else code[: places[self.code_tokens][0]]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        padded = self.tokenizer.pad({"input_ids": [list(row) for row in rows]}, return_tensors="pt")
        return padded["input_ids"].to(self.model.device), padded["attention_mask"].to(self.model.device)

    def _logits(self, rows: Sequence[list[int]], keep: int) -> torch.Tensor:
        """(B, keep, vocabulary) of the last positions."""
        return last_logits(self.model, *self._begun(rows, keep), keep)

    def _begun(self, rows: Sequence[list[int]], keep: int = 1) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Ids and mask (B, T), padding after what the rows share and before what they do not; what they share, if that
        is worth it, as a cache of keys and values, read once. The last `keep` positions are never in it."""
        shared = min(_common(rows), min(map(len, rows)) - keep) if len(rows) > 1 else 0
        if shared < WORTH_SHARING:
            return *self._padded(rows), None
        prefix = torch.tensor([rows[0][:shared]], device=self.model.device)
        cache = self.model(input_ids=prefix, use_cache=True, logits_to_keep=1).past_key_values
        cache.batch_repeat_interleave(len(rows))
        ids_BT, mask_BT = self._padded([row[shared:] for row in rows])
        prefix = prefix.expand(len(rows), -1)
        return torch.cat([prefix, ids_BT], 1), torch.cat([torch.ones_like(prefix), mask_BT], 1), cache


class _Decided(StoppingCriteria):
    """A reply is read no further than its first number and what stands behind it (see parse_number)."""

    def __init__(self, tokenizer: Any, prompt_tokens: int):
        self.tokenizer, self.prompt_tokens = tokenizer, prompt_tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        replies = self.tokenizer.batch_decode(input_ids[:, self.prompt_tokens :], skip_special_tokens=True)
        return torch.tensor([bool(DECIDED.search(reply)) for reply in replies], device=input_ids.device)


def last_logits(model: Any, ids_BT: torch.Tensor, mask_BT: torch.Tensor, cache: Any, keep: int) -> torch.Tensor:
    """(B, keep, vocabulary) of the last positions; what `cache` holds of the ids is not read again."""
    read = cache.get_seq_length() if cache else 0
    positions = (mask_BT.cumsum(1) - 1).clamp(min=0)[:, read:]
    return model(
        input_ids=ids_BT[:, read:],
        attention_mask=mask_BT,
        position_ids=positions,
        past_key_values=cache,
        logits_to_keep=keep,
        use_cache=cache is not None,
    ).logits


def _result(score: float | None, together: dict[str, float]) -> ChannelResult:
    if score is None:
        detail = {"invalid_rate": 1.0, **together}
        return ChannelResult(0.0, note="the judge gave no number", silent=True, detail=detail)
    detail = {"judged": score, "invalid_rate": 0.0, **together}
    return ChannelResult(score, note=f"judge {score:.2f}", detail=detail)


def _common(rows: Sequence[list[int]]) -> int:
    """How many ids all rows begin with."""
    first, last = min(rows), max(rows)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _fence(code: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    return "`" * max(3, longest + 1)


def digit_ids(tokenizer: Any) -> tuple[str, list[int]]:
    """How the prompt must end, and the tokens of the digits 0 to 9 after it. Raises ValueError where there are none."""
    for ending in (f"{MARK} ", MARK):
        before = tokenizer(ending, add_special_tokens=False)["input_ids"]
        after = [tokenizer(f"{ending}{d}", add_special_tokens=False)["input_ids"] for d in range(10)]
        if all(ids[:-1] == before for ids in after) and len({ids[-1] for ids in after}) == 10:
            return ending, [ids[-1] for ids in after]
    raise ValueError("judge.mode=expected needs a tokenizer in which each digit is a token; use mode=likelihood")


def parse_number(reply: str) -> float | None:
    """The first number of a reply on the scale from 0 to 10, as a share; "8/10" is 8. None off the scale, out of
    anything else than 10, or for a %."""
    found = NUMBER.search(reply)
    if found is None or reply[found.end() :].lstrip().startswith("%"):
        return None
    out_of = OUT_OF.match(reply, found.end())
    if out_of and int(out_of[1]) != 10:
        return None
    value = float(found[0].replace(",", "").replace("\u2212", "-"))
    return value / 10 if 0 <= value <= 10 else None


if __name__ == "__main__":
    from rewards.calibration import main

    sys.exit(main())
