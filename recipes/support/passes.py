"""The passes of each recipe as the tracer runs them: what the trainers call, on ids that mean nothing.

Every function returns the peak of one pass for the whole depth of a network, in bytes by kind (tracing.py).
Completions have their greatest length throughout.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from accelerate.utils import convert_outputs_to_fp32
from peft import PeftModel
from transformers import DynamicCache
from trl import GRPOTrainer
from trl.trainer.sft_trainer import _CHUNKED_LM_HEAD_CHUNK_SIZE, _patch_chunked_ce_lm_head
from trl.trainer.utils import selective_log_softmax

from recipes.support.network import Network
from recipes.support.sampling import Decoding, _forward, draw
from recipes.support.tracing import MODE, Live, Peak, fake, peak_of
from recipes.trainers.forward import Rows, backbone_of, causal_lm, completion_logps, hidden_states
from recipes.trainers.packing import packed_logps
from recipes.trainers.value import ValueFunction
from rewards.judge import last_logits

CPU = torch.device("cpu")
JUDGE_WORDS = 128
"""Tokens that a judge reads beside the code: the question, fences, the chat form."""
kept = functools.lru_cache(256)


@dataclass(frozen=True)
class Batch:
    """Completions in one pass.

    rows: how many. group: how many share a prompt. prompt, completion: tokens. packing: longest row of a prompt and its
    completions, 0 for none. logits_at_once: tokens whose logits GRPO makes together, 0: of all.
    """

    rows: int
    group: int
    prompt: int
    completion: int
    packing: int = 0
    logits_at_once: int = 0

    @property
    def prompts(self) -> int:
        """Different prompts among the rows."""
        return -(-self.rows // self.group)

    def laid_out(self) -> Rows:
        """As PPO's forward pass takes them."""
        prompts = [[row // self.group] * self.prompt for row in range(self.rows)]
        return Rows(prompts, [[0] * self.completion] * self.rows, self.completion, CPU, self.packing)


def _autocast(dtype: torch.dtype | None) -> AbstractContextManager:
    return torch.autocast("cpu", dtype) if dtype else nullcontext()


def _wrapped(model: Any, dtype: torch.dtype | None) -> Any:
    """A model as accelerate prepares it: under autocast, its outputs in float32."""
    forward = model.forward

    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        with _autocast(dtype):
            return forward(*args, **kwargs)

    if dtype:
        model.forward = convert_outputs_to_fp32(under_autocast)
    return model


def _fake_ids(rows: int, tokens: int) -> torch.Tensor:
    with MODE:
        return torch.zeros(rows, tokens, dtype=torch.long)


# PPO and REINFORCE ------------------------------------------------------------------------------------------------


@kept
def ppo_update(network: Network, batch: Batch, autocast: torch.dtype | None, critic: bool, held: bool) -> Peak:
    """Forward and backward of a policy (`critic`: with the value head on it), or of a critic's own backbone.

    held: gradients of an earlier pass are there.
    """

    def run(model: Any, live: Live) -> None:
        if held:
            live.hold_gradients(model)
        rows, loss = batch.laid_out(), torch.zeros(())
        with _autocast(autocast):
            hidden = hidden_states(backbone_of(model) if network.head else model, rows)
            if network.head:
                head = causal_lm(model).get_output_embeddings()
                logps, _ = completion_logps(head, hidden, rows, 1.0, with_entropy=True)
                loss = loss + (logps * rows.mask).sum()
            if critic:
                with torch.device("meta"):
                    value = ValueFunction(hidden.shape[-1])
                loss = loss + fake(value)(hidden).square().sum()
        del hidden
        loss.backward()

    return peak_of(network, run)


@kept
def ppo_logps(network: Network, batch: Batch, autocast: torch.dtype | None) -> Peak:
    """Log-probabilities before the update."""

    @torch.no_grad()
    def run(model: Any, live: Live) -> None:
        rows = batch.laid_out()
        with _autocast(autocast):
            hidden = hidden_states(backbone_of(model) if network.head else model, rows)
            if network.head:
                completion_logps(causal_lm(model).get_output_embeddings(), hidden, rows, 1.0)

    return peak_of(network, run)


# TRL's trainers ---------------------------------------------------------------------------------------------------


@kept
def grpo_pass(network: Network, batch: Batch, autocast: torch.dtype | None, learns: bool, held: bool = False) -> Peak:
    """A micro-batch of GRPO: with gradients where it `learns`, else old or reference log-probabilities."""

    def run(model: Any, live: Live) -> None:
        if held:
            live.hold_gradients(model)
        with torch.set_grad_enabled(learns):
            logps = _grpo_logps(_wrapped(model, autocast), batch, learns)
        if learns:
            logps.sum().backward()

    return peak_of(network, run)


def _grpo_logps(model: Any, batch: Batch, learns: bool) -> torch.Tensor:
    width = batch.prompt + batch.completion
    if batch.prompt + batch.rows * batch.completion > batch.packing:
        ids = _fake_ids(batch.rows, width)
        own = SimpleNamespace(model_kwarg_keys={"logits_to_keep"}, temperature=1.0, _entropy_bonus_enabled=False)
        found = GRPOTrainer._get_per_token_logps_and_entropies(
            own, model, ids, torch.ones_like(ids), batch.completion, compute_entropy=learns
        )
        return found[0]
    ids = torch.zeros(batch.rows, width, dtype=torch.long)
    ids[:, : batch.prompt] = torch.arange(batch.rows)[:, None] // batch.group
    return packed_logps(model, ids, torch.ones_like(ids), batch.completion, 1.0, learns, batch.logits_at_once)[0]


@kept
def sft_update(network: Network, rows: int, tokens: int, answer: int, autocast: torch.dtype | None, held: bool) -> Peak:
    """Cross-entropy of `answer` tokens of each row, the output matrix in TRL's chunks."""

    def run(model: Any, live: Live) -> None:
        if held:
            live.hold_gradients(model)
        _patch_chunked_ce_lm_head(causal_lm(model), chunk_size=_CHUNKED_LM_HEAD_CHUNK_SIZE)
        ids = torch.zeros(rows, tokens, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        labels[:, -answer:] = 0
        out = _wrapped(model, autocast)(
            input_ids=ids, attention_mask=torch.ones_like(_fake_ids(rows, tokens)), labels=labels, use_cache=False
        )
        out.loss.backward()

    return peak_of(network, run)


@kept
def dpo_update(network: Network, rows: int, tokens: int, autocast: torch.dtype | None, held: bool) -> Peak:
    """The chosen and the rejected answer of `rows` pairs, policy and reference; logits of all tokens."""

    def run(model: Any, live: Live) -> None:
        if held:
            live.hold_gradients(model)
        ids, call = _fake_ids(2 * rows, tokens), _wrapped(model, autocast)
        asked = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        logits = call(**asked).logits[:, :-1]
        logps = selective_log_softmax(logits, ids[:, 1:]).sum(1)
        with torch.no_grad(), model.disable_adapter() if isinstance(model, PeftModel) else nullcontext():
            reference = call(**asked).logits[:, :-1]
            selective_log_softmax(reference, ids[:, 1:])
        logps.sum().backward()

    return peak_of(network, run)


# sampling and judging -----------------------------------------------------------------------------------------------


@kept
def sampled(network: Network, batch: Batch, autocast: torch.dtype | None, top_p: float, grouped: bool) -> Peak:
    """Reading the prompts, and the last token's step, when the key-value cache is longest."""
    decoding = Decoding(batch.completion, 1.0, top_p)

    @torch.no_grad()
    def run(model: Any, live: Live) -> None:
        model.eval()
        if grouped:
            causal_lm(model).set_attn_implementation("grouped_sdpa")
        ids, cache = _fake_ids(batch.prompts, batch.prompt), DynamicCache(config=model.config)
        with _autocast(autocast):
            logits = _forward(model, ids, torch.ones_like(ids), cache)
            cache.batch_repeat_interleave(batch.group)
            draw(logits.repeat_interleave(batch.group, 0), decoding)
            live.cut()
            tokens = batch.prompt + batch.completion - 1
            for layer in cache.layers:
                shape = (batch.prompts * batch.group, layer.keys.shape[1], tokens - 1, layer.keys.shape[3])
                layer.keys, layer.values = layer.keys.new_empty(shape), layer.values.new_empty(shape)
            ids = _fake_ids(batch.prompts * batch.group, tokens)
            draw(_forward(model, ids[:, -1:], torch.ones_like(ids), cache), decoding)

    return peak_of(network, run)


@kept
def judged(network: Network, rows: int, tokens: int, kept_tokens: int, replies: bool) -> Peak:
    """`rows` texts of `tokens` read by a judge, logits of the last `kept_tokens`; `replies`: it keeps a cache."""

    @torch.no_grad()
    def run(model: Any, live: Live) -> None:
        ids = _fake_ids(rows, tokens)
        cache = DynamicCache(config=model.config) if replies else None
        last_logits(model, ids, torch.ones_like(ids), cache, kept_tokens)[0].float().logsumexp(-1)

    return peak_of(network, run)
