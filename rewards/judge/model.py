"""Judge: a causal language model scores how well the code does what the problem's reference does.

The score lies in [0, 1] and is spread over the code. There are three modes:
- `likelihood` (default): by how much the code as a draft raises the mean log-probability of the reference's tokens,
  relative to the reference itself as a draft. The only mode that works with a small judge.
- `expected`: the expected digit under the probabilities of the ten digit tokens, divided by 9.
- `number`: the first number of a short greedy reply, divided by 10, as in the ETK study. A reply without a number on
  the scale leaves the channel silent for that completion. Small judges reply the same to every completion.
A completion without code scores 0 without a call of the model. Scores are cached by text, so equal inputs have equal
scores. `detail` has `judged`, the score (absent if the model's reply had none). For completions that the model saw it
also has `invalid_rate`, 1 if the reply had no score and else 0; and for those that were scored together `std`, the
standard deviation of their scores, and `most_common`, the share of the most frequent score.

    python -m rewards.judge calibrate [path=MODEL] [device=cuda] [precision=bf16]     rank correlation of each mode
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import statistics
import threading
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

from envs.local_models import model_source
from envs.task import Problem
from rewards.analysis.code_tokens import has_code
from rewards.channel import ChannelResult, Completion, require_references

log = logging.getLogger("codegrain.judge")
MODES = ("likelihood", "expected", "number")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MARK = "Score:"
LIKE_MARK = re.compile(r"(?:\s*c\s)?[\W_]*score[\s*_`'\"]*:(?!:)", re.IGNORECASE)
"""The beginning of a line that states a score, perhaps commented or emphasised."""
COMMENT = re.compile(r"//|/\*|#|!")
STATES = re.compile(r"\bscore[\s*_`'\"]*:(?!:)", re.IGNORECASE)
"""What a comment that states a score has anywhere."""
QUESTION = {
    "expected": "How well does the candidate do what the reference does? Answer with one digit from 0 (not at all) "
    "to 9 (the same).",
    "number": "How well does the candidate do what the reference does? Answer with a number from 0 (not at all) to 10 "
    "(the same).",
}
REPLY_TOKENS = 24
NUMBER = re.compile(r"(?<![\w.+])[-\u2212]?(?:\d+(?:,\d+)*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
SCALE = re.compile(r"(?<![\w.])0\s*(?:-|\u2013|to)\s*10(?![\w.])|(?<!\d)(?<!\d\s)\bout of 10\b", re.IGNORECASE)
"""The scale, named before the number: "from 0 to 10", "Out of 10, ..."."""
OUT_OF = re.compile(r"\s*(?:/|\b(?:out\s+)?of\b)\s*(\d+(?:\.\d+)?)", re.ASCII)
UNFINISHED = re.compile(
    r"[-\u2212]?[\d.][\d.,eE+-]*(?:\s*|\s*/\s*[\d.]*|\s+o(?:f|u(?:t(?:\s+(?:of?)?)?)?)?\s*[\d.]*)\Z", re.ASCII
)
"""A number at the end that a further token may change, perhaps with the scale after it: "8", "8 /", "8 out of 1"."""
MIN_SHARED_TOKENS = 16
"""A shorter common prefix is read again with each row."""
DEGENERATE_STD = 0.01
"""Standard deviation of a batch's scores below which the judge does not distinguish completions."""
MIN_SCORES = 2
"""The fewest scores that have a spread."""
Pair = tuple[str, str]


class Judge:
    """
    Args:
        path: the judge's model: hub name, local folder, or "package:NAME".
        mode: one of MODES.
        device: "cpu" or "cuda".
        precision: one of DTYPES.
        load_in_4bit: use NF4 weights (bitsandbytes).
        code_tokens: length in tokens to which code and reference are cut, each.
        rows: number of pairs in one forward pass.

    Raises:
        ValueError: an unknown mode or precision, no CUDA, or a tokenizer in which digits are not single tokens.
        OSError: the model does not exist.
    """

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
            raise ValueError(
                f"judge.mode={mode}, judge.precision={precision}: mode must be one of {', '.join(MODES)}, "
                f"precision one of {', '.join(DTYPES)}"
            )
        if code_tokens < 1 or rows < 1:
            raise ValueError(f"judge.code_tokens={code_tokens}, judge.rows={rows}: both must be 1 or more")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(f"judge.device={device}: there is no CUDA device; set judge.device=cpu")
        self.mode, self.code_tokens, self.rows = mode, code_tokens, rows
        source = model_source(path)
        self.tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
        options: dict[str, Any] = {"dtype": DTYPES[precision]}
        if load_in_4bit:
            options["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=DTYPES[precision]
            )
        self.model = AutoModelForCausalLM.from_pretrained(source, **options).eval().requires_grad_(False)
        if not load_in_4bit:
            self.model.to(device)
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        begins = self.tokenizer("")["input_ids"][:1]  # a sentence's beginning, without which such models are at a loss
        self._begin = begins if begins == [self.tokenizer.bos_token_id] else []
        special = [re.escape(t.content) for t in self.tokenizer.added_tokens_decoder.values() if t.special]
        self._special = re.compile(f"(?={'|'.join(special) or '(?!)'}).", re.DOTALL)
        self._scores: dict[tuple[str, str, str], float | None] = {}
        self._one_at_a_time = threading.Lock()
        self._gains: dict[str, tuple[float, float]] = {}
        if mode == "expected":
            digit_ids(self.tokenizer)

    async def ready(self, problems: Sequence[Problem]) -> None:
        """Raises ValueError if a problem has no reference."""
        require_references(problems, "judge")

    async def score(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[ChannelResult | None]:
        """Raises RuntimeError where the judge's log-probabilities are no numbers."""
        require_references(problems, "judge")
        without_code = ChannelResult(0.0, note="no code", detail={"judged": 0.0})
        results: list[ChannelResult | None] = [without_code] * len(problems)
        judged = [i for i, (p, c) in enumerate(zip(problems, completions, strict=True)) if has_code(p, c.code)]
        pairs = [(completions[i].code or "", problems[i].reference) for i in judged]
        scores = await asyncio.to_thread(self.judge, pairs)
        spread = self._spread(scores)
        for i, score in zip(judged, scores, strict=True):
            results[i] = _result(score, spread)
        return results

    @torch.no_grad()
    def judge(self, pairs: Sequence[Pair]) -> list[float | None]:
        """Scores in [0, 1] of (candidate, reference) pairs; None for a reply without a number on the scale."""
        scores_of = {"likelihood": self._likelihood, "expected": self._expected, "number": self._number}[self.mode]
        with self._one_at_a_time:  # answers of a group may come in several calls, and a text has one score
            new = dict.fromkeys(p for p in pairs if p[0].strip() and (self.mode, *p) not in self._scores)
            for batch in self._batches(list(new)):
                for pair, score in zip(batch, scores_of(batch), strict=True):
                    self._scores[self.mode, *pair] = score
        return [self._scores[self.mode, *pair] if pair[0].strip() else 0.0 for pair in pairs]

    def _batches(self, pairs: Sequence[Pair]) -> list[list[Pair]]:
        """Batches of `rows` pairs of similar length. If the prompt begins with the reference, pairs of one reference
        are together, so that the model reads their common prefix once."""
        frequency = Counter(reference for _, reference in pairs if self.mode != "likelihood")
        groups: dict[str, list[Pair]] = {}
        for pair in sorted(pairs, key=lambda pair: (len("".join(pair)), pair)):
            groups.setdefault(pair[1] if frequency[pair[1]] > 1 else "", []).append(pair)
        return [group[i : i + self.rows] for group in groups.values() for i in range(0, len(group), self.rows)]

    def _spread(self, scores: Sequence[float | None]) -> dict[str, float]:
        """Standard deviation of a batch's scores and share of the most frequent one; warns if they hardly differ."""
        valid = [score for score in scores if score is not None]
        if len(valid) < len(scores):
            log.warning("judge/invalid_rate %.2f: replies without a number on the scale", 1 - len(valid) / len(scores))
        if len(valid) < MIN_SCORES:
            return {}
        std, [(value, times)] = statistics.pstdev(valid), Counter(round(score, 3) for score in valid).most_common(1)
        if std < DEGENERATE_STD:
            hint = "are all completions alike?" if self.mode == "likelihood" else "judge.mode=likelihood tells more"
            log.warning(
                "judge/degenerate: %d scores of about %g, standard deviation %.3f: %s", len(valid), value, std, hint
            )
        return {"std": std, "most_common": times / len(valid)}

    # the three modes ------------------------------------------------------------------------------------------------

    def _likelihood(self, pairs: Sequence[Pair]) -> list[float | None]:
        references = sorted({reference for _, reference in pairs} - self._gains.keys())
        needed = dict.fromkeys([*pairs, *((draft, r) for r in references for draft in ("", r))])
        log_probs = dict(zip(needed, self._log_probs(list(needed)), strict=True))
        if not all(map(math.isfinite, log_probs.values())):
            raise RuntimeError("judge: its log-probabilities are no numbers; set judge.precision=fp32 or bf16")
        for reference in references:
            without_draft = log_probs["", reference]
            self._gains[reference] = (without_draft, log_probs[reference, reference] - without_draft)
        scores: list[float | None] = []
        for pair in pairs:
            without_draft, largest_gain = self._gains[pair[1]]
            gain = log_probs[pair] - without_draft
            scores.append(min(1.0, max(0.0, gain / largest_gain)) if largest_gain > 0 else 0.0)
        return scores

    def _log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Mean log-probability of each reference's tokens after a draft; "" is no draft."""
        rows = []
        for draft, reference in pairs:
            before = f"Draft:\n{self._block(draft)}\n\n" if draft else ""
            code, fence = self._cut(reference), _fence(reference)
            ids = self._begun(f"{before}Reference:\n{fence}\n")
            rows.append((ids, self._ids(code)))
        means = [0.0] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
        for first in range(0, len(order), self.rows):
            batch = order[first : first + self.rows]
            keep = max(len(rows[i][1]) for i in batch) + 1
            for i, row in zip(batch, self._logits([rows[i][0] + rows[i][1] for i in batch], keep), strict=True):
                target_ids = torch.tensor(rows[i][1], device=row.device)
                logits = row[-len(target_ids) - 1 : -1].float()
                chosen = logits.gather(1, target_ids[:, None]).squeeze(1)
                means[i] = (chosen - logits.logsumexp(-1)).mean().item()
        return means

    def _expected(self, pairs: Sequence[Pair]) -> list[float | None]:
        prompt_end, digits = digit_ids(self.tokenizer)
        logits = self._logits([self._begun(self._prompt(pair, prompt_end)) for pair in pairs], keep=1)[:, -1]
        probabilities = logits[:, digits].float().softmax(-1).cpu()
        return [(row * torch.arange(10)).sum().item() / 9 for row in probabilities]

    def _number(self, pairs: Sequence[Pair]) -> list[float | None]:
        rows = [self._begun(self._prompt(pair, MARK)) for pair in pairs]
        ids_BT, mask_BT, cache = self._with_prefix(rows)
        out = self.model.generate(
            input_ids=ids_BT,
            attention_mask=mask_BT,
            past_key_values=cache,
            max_new_tokens=REPLY_TOKENS,
            do_sample=False,
            pad_token_id=self.tokenizer.pad_token_id,
            stopping_criteria=StoppingCriteriaList([_NumberComplete(self.tokenizer, ids_BT.shape[1])]),
        )
        replies_BT = out[:, ids_BT.shape[1] :]
        replies = self.tokenizer.batch_decode(replies_BT, skip_special_tokens=True)
        if replies_BT.shape[1] < REPLY_TOKENS:  # all replies have ended
            return [parse_number(reply) for reply in replies]
        ends = {self.tokenizer.pad_token_id, self.tokenizer.eos_token_id}
        cut = [ends.isdisjoint(row) for row in replies_BT.tolist()]
        return [parse_number(UNFINISHED.sub("", reply) if c else reply) for reply, c in zip(replies, cut, strict=True)]

    # the model's input ----------------------------------------------------------------------------------------------

    def _prompt(self, pair: Pair, ending: str) -> str:
        candidate, reference = pair
        blocks = f"Reference:\n{self._block(reference)}\n\nCandidate:\n{self._block(candidate)}"
        request = f"{blocks}\n\n{QUESTION[self.mode]}"
        if self.tokenizer.chat_template is None:
            return f"{request}\n\n{ending}"
        messages = [{"role": "user", "content": request}]
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + ending

    def _block(self, code: str) -> str:
        """Code in a fence that the code cannot close, without lines and comments that look like the judge's answer."""
        lines = [line for line in self._cut(code).splitlines() if not LIKE_MARK.match(line)]
        split = [(line, _without_score(line)) for line in lines]
        lines = [rest for line, rest in split if rest.strip() or rest == line]
        return "\n".join([_fence(code), *lines, _fence(code)])

    def _cut(self, code: str) -> str:
        """The code's first `code_tokens` tokens, so that the question after it is not cut. Text that spells a special
        token gets a blank after its first character; otherwise it would end the user's turn."""
        code = self._special.sub(r"\g<0> ", code)
        offsets = self.tokenizer(code, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return code if len(offsets) <= self.code_tokens else code[: offsets[self.code_tokens][0]]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _begun(self, text: str) -> list[int]:
        """The ids of a whole input: as the tokenizer begins one, unless a chat template has done so."""
        ids = self._ids(text)
        return ids if ids[: len(self._begin)] == self._begin else [*self._begin, *ids]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        padded = self.tokenizer.pad({"input_ids": [list(row) for row in rows]}, return_tensors="pt")
        return padded["input_ids"].to(self.model.device), padded["attention_mask"].to(self.model.device)

    def _logits(self, rows: Sequence[list[int]], keep: int) -> torch.Tensor:
        """Logits (B, keep, vocabulary) of the last `keep` positions."""
        return last_logits(self.model, *self._with_prefix(rows, keep), keep)

    def _with_prefix(self, rows: Sequence[list[int]], keep: int = 1) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Ids and mask (B, T) of the rows, and the keys and values of their common prefix, which the model reads once.

        Padding stands between the prefix and the rest. The cache is None if the prefix is shorter than
        MIN_SHARED_TOKENS; the last `keep` positions are never in it.
        """
        shared = min(_common_length(rows), min(map(len, rows)) - keep) if len(rows) > 1 else 0
        if shared < MIN_SHARED_TOKENS:
            return *self._padded(rows), None
        prefix = torch.tensor([rows[0][:shared]], device=self.model.device)
        cache = self.model(input_ids=prefix, use_cache=True, logits_to_keep=1).past_key_values
        cache.batch_repeat_interleave(len(rows))
        ids_BT, mask_BT = self._padded([row[shared:] for row in rows])
        prefix = prefix.expand(len(rows), -1)
        return torch.cat([prefix, ids_BT], 1), torch.cat([torch.ones_like(prefix), mask_BT], 1), cache


def _without_score(line: str) -> str:
    """The line up to a comment that states a score."""
    comment = COMMENT.search(line)
    return line[: comment.start()] if comment and STATES.search(line, comment.end()) else line


class _NumberComplete(StoppingCriteria):
    """Stops a reply when its first number and the character that ends it are there (see parse_number)."""

    def __init__(self, tokenizer: Any, prompt_tokens: int):
        self.tokenizer, self.prompt_tokens = tokenizer, prompt_tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        replies = self.tokenizer.batch_decode(input_ids[:, self.prompt_tokens :], skip_special_tokens=True)
        complete = [bool(NUMBER.search(reply)) and not UNFINISHED.search(reply) for reply in replies]
        return torch.tensor(complete, device=input_ids.device)


def last_logits(model: Any, ids_BT: torch.Tensor, mask_BT: torch.Tensor, cache: Any, keep: int) -> torch.Tensor:
    """Logits (B, keep, vocabulary) of the last `keep` positions; ids in `cache` are not read again."""
    cached = cache.get_seq_length() if cache else 0
    positions = (mask_BT.cumsum(1) - 1).clamp(min=0)[:, cached:]
    return model(
        input_ids=ids_BT[:, cached:],
        attention_mask=mask_BT,
        position_ids=positions,
        past_key_values=cache,
        logits_to_keep=keep,
        use_cache=cache is not None,
    ).logits


def _result(score: float | None, spread: dict[str, float]) -> ChannelResult:
    if score is None:
        detail = {"invalid_rate": 1.0, **spread}
        return ChannelResult(0.0, note="the judge's reply has no number", silent=True, detail=detail)
    detail = {"judged": score, "invalid_rate": 0.0, **spread}
    return ChannelResult(score, note=f"judge {score:.2f}", detail=detail)


def _common_length(rows: Sequence[list[int]]) -> int:
    """Length of the longest common prefix of the rows."""
    first, last = min(rows), max(rows)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _fence(code: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    return "`" * max(3, longest + 1)


def digit_ids(tokenizer: Any) -> tuple[str, list[int]]:
    """How the prompt must end, and the ids of the digits 0 to 9 after it. Raises ValueError if a digit has no token."""
    for ending in (f"{MARK} ", MARK):
        before = tokenizer(ending, add_special_tokens=False)["input_ids"]
        after = [tokenizer(f"{ending}{d}", add_special_tokens=False)["input_ids"] for d in range(10)]
        if all(ids[:-1] == before for ids in after) and len({ids[-1] for ids in after}) == 10:
            return ending, [ids[-1] for ids in after]
    raise ValueError("judge.mode=expected: the tokenizer has no token for each digit; use judge.mode=likelihood")


def parse_number(reply: str) -> float | None:
    """The first number of a reply on the scale from 0 to 10, divided by 10; "8/10" and "8 out of 10" count as 8.
    Digits within a word, and the scale itself, are no number.

    None if the number is off the scale, is out of another number than 10, or is a percentage.
    """
    reply = SCALE.sub("", reply)
    number = NUMBER.search(reply)
    if number is None or reply[number.end() :].lstrip().lower().startswith(("%", "percent")):
        return None
    denominator = OUT_OF.match(reply, number.end())
    if denominator and float(denominator[1]) != 10:
        return None
    value = float(number[0].replace(",", "").replace("\u2212", "-"))
    return value / 10 if 0 <= value <= 10 else None
