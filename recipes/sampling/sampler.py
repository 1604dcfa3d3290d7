"""How a trainer samples: its policy or a copy that samples faster, with this project's loop or transformers' own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from recipes.sampling import vllm_weights
from recipes.sampling.conversation import Cached, Conversation, Reread, keeps_cache
from recipes.sampling.generate import Complete, Decoding, Ended, cut, sample
from recipes.sampling.policy_copy import SamplingCopy, require_mergeable
from recipes.sampling.vllm import ServerSampler


@dataclass
class Sampler:
    """
    Args:
        decoding: how tokens are drawn.
        eos_ids, pad_id: what ends a completion, what fills a row.
        complete: says of sampled ids that nothing further is needed; None waits for an end-of-sequence token.
        copy_dtype: sample from a merged copy of the policy in this dtype; None samples from the policy itself.
        stock: use transformers' `generate`, for architectures whose cache this project's loop does not know. Slower;
            draws what TRL's own trainers draw from the same random state, as far as `complete` lets it.
        autocast: makes the context to run the policy in.
    """

    decoding: Decoding
    eos_ids: Sequence[int]
    pad_id: int
    complete: Complete | None = None
    copy_dtype: torch.dtype | None = None
    stock: bool = False
    autocast: Callable[[], AbstractContextManager] = nullcontext
    _copy: SamplingCopy | None = field(default=None, repr=False)

    def __call__(
        self,
        policy: Any,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        generator: torch.Generator | None = None,
        ended: Ended | None = None,
        begun: Sequence[Sequence[int]] | None = None,
    ) -> list[list[int]]:
        """`num_samples` completions of each prompt, prompt-major. `generator` and `ended`, as of `sample`, are not for
        `stock`. `begun`: ids at each prompt's end that are the beginning of its answer, as of `sample`."""
        with self._ready(policy) as model:
            arguments = (model, prompts, num_samples, self.decoding, self.eos_ids, self.pad_id, self.complete)
            if self.stock:
                return generate(*arguments, begun)
            return sample(*arguments, generator, ended, begun)

    @contextmanager
    def conversation(self, policy: Any, generator: torch.Generator | None = None) -> Iterator[Conversation]:
        """Conversations with the policy as it is."""
        with self._ready(policy) as model:
            how = (self.decoding, self.eos_ids, self.pad_id, self.complete)
            if self.stock:
                yield Reread(lambda prompts, n, ended: _tell(generate(model, prompts, n, *how), ended))
            elif keeps_cache(model):
                yield Cached(model, *how, generator)
            else:
                yield Reread(lambda prompts, n, ended: sample(model, prompts, n, *how, generator, ended))

    @contextmanager
    def _ready(self, policy: Any) -> Iterator[PreTrainedModel]:
        """The model to sample from, in evaluation mode."""
        if self.copy_dtype is not None:
            self._copy = self._copy or SamplingCopy(policy, self.copy_dtype)
            yield self._copy.sync(policy)
            return
        model = policy.get_base_model() if isinstance(policy, PeftModel) else policy
        training, attention = policy.training, model.config._attn_implementation
        policy.eval()
        if attention in ("sdpa", "repeated_sdpa", "packed_sdpa") and not self.stock:
            model.set_attn_implementation("grouped_sdpa")
        try:
            with self.autocast():
                yield policy
        finally:
            policy.train(training)
            model.set_attn_implementation(attention)


def sampler_of(
    trainer: Any,
    tokenizer: Any,
    decoding: Decoding,
    eos_ids: Sequence[int],
    complete: Complete | None = None,
    server: str | None = None,
    **how: Any,
) -> Sampler | ServerSampler:
    """A trainer's sampler: of the vLLM server at `server`, else of the policy at hand (`how`: as Sampler). Raises
    UserError for adapters that cannot be merged where that is asked for."""
    if server is not None or how.get("copy_dtype") is not None:
        require_mergeable(trainer.policy)
    if server is None:
        return Sampler(decoding, eos_ids, tokenizer.pad_token_id, complete, **how)
    weights = vllm_weights.weights_for_server(trainer.policy, trainer.accelerator, tokenizer, server)
    return ServerSampler(server, decoding, eos_ids, weights, lambda: trainer.state.global_step, complete)


@torch.no_grad()
def generate(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    num_samples: int,
    decoding: Decoding,
    eos_ids: Sequence[int],
    pad_id: int,
    complete: Complete | None = None,
    begun: Sequence[Sequence[int]] | None = None,
) -> list[list[int]]:
    """`sample` by transformers' own `generate`."""
    repeated = [p for p in prompts for _ in range(num_samples)]
    begins = [list(ids) for ids in begun or [[]] * len(prompts) for _ in range(num_samples)]
    width = max(map(len, repeated))
    ids = torch.zeros(len(repeated), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(repeated):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    greedy = decoding.temperature == 0
    drawn = {} if greedy else {"temperature": decoding.temperature + 1e-7, "top_p": decoding.top_p, "top_k": 0}
    config = GenerationConfig(
        max_new_tokens=decoding.max_new_tokens,
        do_sample=not greedy,
        eos_token_id=list(eos_ids) or None,
        pad_token_id=pad_id,
        **drawn,
    )
    # what `config` leaves open would be taken from the model's own (a repetition penalty, say)
    holders = [model, model.get_base_model()] if isinstance(model, PeftModel) else [model]
    own_configs = [holder.generation_config for holder in holders]
    try:
        for holder in holders:
            holder.generation_config = config
        stops = StoppingCriteriaList([_Complete(complete, begins, width)] if complete else [])
        given = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
        out = model.generate(**given, stopping_criteria=stops)
    finally:
        for holder, own_config in zip(holders, own_configs, strict=True):
            holder.generation_config = own_config
    room = [max(1, decoding.max_new_tokens - len(ids)) for ids in begins]
    answers = [row[:most] for row, most in zip(out[:, width:].tolist(), room, strict=True)]
    return [cut(ids, [], eos_ids, complete, first)[0] for ids, first in zip(answers, begins, strict=True)]


class _Complete(StoppingCriteria):
    """Ends the rows whose answer is complete. begun: what began each answer; width: tokens of the longest prompt."""

    def __init__(self, complete: Complete, begun: Sequence[Sequence[int]], width: int):
        self._complete, self._begun, self._width = complete, begun, width

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Which rows of (B, T) end here, (B,) of bool."""
        answers = zip(self._begun, input_ids[:, self._width :].tolist(), strict=True)
        ended = [self._complete([*first, *ids]) for first, ids in answers]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)


def _tell(completions: list[list[int]], ended: Ended) -> None:
    for place, ids in enumerate(completions):
        ended(place, ids, [])
