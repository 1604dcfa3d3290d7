"""Full weights of a trained policy: LoRA merged, 4-bit bases dequantised, greedy answers compared before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, open_dict
from peft import PeftModel
from peft.tuners.lora import LoraLayer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from recipes.cli.errors import UserError
from recipes.cli.schema import native_precision
from recipes.models.load import DTYPES, adapter_folder, carries_adapter, load_policy
from recipes.sampling.generate import Decoding, end_ids, sample

OF_QUANTIZED = ("quantization_config", "_pre_quantization_dtype", "dtype", "_name_or_path")
"""Fields of a loaded model's configuration that do not belong to the weights written here."""
ROUNDING = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""By how much, as a share of the largest logit, two computations of the same weights may differ."""
ROUNDING_4_BIT = 5e-3
"""The same, at least, for 4-bit weights on a CPU with instructions for bf16, which multiplies them in bf16, whatever
the other weights are (0.002 was seen)."""


MERGED = (0.5, 1.5)
"""What `Comparison.merged` may be: in bf16 a right merge was 0.77, since rounding differs too."""


@dataclass(frozen=True)
class Comparison:
    """Of `prompts` greedy answers: how many are equal, how many part at a tie that rounding decides, and of the others
    the largest difference of two logits where they part, as a share of the largest logit.

    merged: how much of what the adapter does to the logits is in the merged model: 1 up to rounding, 0 where the
        adapter is missing. 1 without an adapter, and where it does less than rounding.
    """

    prompts: int
    equal: int
    ties: int
    apart: float
    merged: float = 1.0

    @property
    def same(self) -> bool:
        return self.alike and self.whole

    @property
    def alike(self) -> bool:
        """Whether all answers are equal, up to ties."""
        return self.equal + self.ties == self.prompts

    @property
    def whole(self) -> bool:
        """Whether the adapter is in the merged weights, once."""
        return MERGED[0] < self.merged < MERGED[1]

    @property
    def text(self) -> str:
        tied = f", {self.ties} part where two tokens are equally likely but for rounding" if self.ties else ""
        return f"{self.equal} of {self.prompts} greedy answers equal those before the merge{tied}"


@dataclass(frozen=True)
class Kept:
    """What is kept of the change that training made.

    share: of the change of each weight (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", arXiv
        2109.01903, equation 1).
    rank: where all weights were trained, singular directions of the change of each matrix, the largest ones (as
        Gargiulo et al. 2024, "Task Singular Vectors", arXiv 2412.00081, section 3); embeddings are as before training.
        None: all. A LoRA adapter has its own rank.
    """

    share: float = 1.0
    rank: int | None = None


WHOLE = Kept()


@torch.no_grad()
def kept_change(policy: Any, model: DictConfig, hardware: DictConfig, kept: Kept) -> Any:
    """The policy, changed in place: the weights that its training began with, and of their change what is kept.

    Of a policy with LoRA the start is the model without its adapter. model, hardware: as of `load_policy`; they name
    the start.
    """
    share, rank = kept.share, kept.rank
    if kept == WHOLE or (share == 1.0 and isinstance(policy, PeftModel)):
        return policy
    if isinstance(policy, PeftModel):
        for module in policy.modules():
            if isinstance(module, LoraLayer):
                for name in module.active_adapters:
                    module.lora_B[name].weight.mul_(share)
        return policy
    start = dict(load_policy(model, hardware, None)[0].named_parameters())
    embeddings = {
        id(e.weight) for e in (policy.get_input_embeddings(), policy.get_output_embeddings()) if e is not None
    }
    for name, parameter in policy.named_parameters():
        before = start[name].to(parameter.device)
        if rank is None:
            parameter.lerp_(before, 1 - share)
        elif id(parameter) in embeddings:
            parameter.copy_(before)
        else:
            change = parameter.float() - before.float()
            change = largest_directions(change, rank) if change.ndim > 1 else change
            parameter.copy_(before.float() + share * change)
    return policy


def largest_directions(matrix: torch.Tensor, rank: int) -> torch.Tensor:
    """The matrix (..., m, n) of this rank that is nearest to one of the same shape (Eckart and Young 1936)."""
    left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
    return (left[..., :rank] * sizes[..., None, :rank]) @ right[..., :rank, :]


def full_weights(
    model: DictConfig, hardware: DictConfig, adapter: str, dtype: torch.dtype, kept: Kept = WHOLE
) -> PreTrainedModel:
    """The policy that `load_policy` gives for these arguments, as a plain model in `dtype`, with what is
    `kept` of its training's change.

    A LoRA is added in float32 and the sum is rounded once, as in the copy that trainings sample from. A base that was
    trained on in 4 bits is dequantised first, so that the adapter meets the weights that it was trained on.
    """
    if not carries_adapter(adapter):
        policy = load_policy(model, hardware, adapter)[0]
        return kept_change(policy, model, hardware, kept).to(dtype).eval()
    frozen = model.copy()
    with open_dict(frozen):
        frozen.lora_rank = frozen.lora_rank or 1  # the base alone is loaded, in the precision of a frozen one
    base = load_policy(frozen, hardware, None)[0]
    if hardware.load_in_4bit:
        base = base.dequantize(DTYPES[hardware.precision])
    adapted = PeftModel.from_pretrained(base.float(), adapter_folder(adapter))
    merged: Any = kept_change(adapted, model, hardware, kept).merge_and_unload()
    config = {name: value for name, value in merged.config.to_dict().items() if name not in OF_QUANTIZED}
    # a model that was loaded in 4 bits refuses save_pretrained, so the weights move to one that was not
    plain = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=dtype)
    plain.load_state_dict({name: value.to(dtype) for name, value in merged.state_dict().items()})
    plain.generation_config = merged.generation_config
    return plain.eval()


@torch.no_grad()
def averaged_runs(
    runs: Sequence[tuple[DictConfig, DictConfig, str]], share: float, rank: int | None = None
) -> PreTrainedModel:
    """`share` of the first run's weights, and 1 - `share` of the others', which have equal weight, in float32 (Wortsman
    et al. 2022, "Model soups", arXiv 2203.05482, a uniform soup for 1 / number of runs). A run: the arguments of
    `full_weights`; two at a time are in memory. rank: see `Kept`.

    Raises:
        UserError: the runs are not of one architecture.
    """
    first, *others = runs
    average, weight = full_weights(*first, torch.float32, Kept(rank=rank)), share
    own = {name: parameter.shape for name, parameter in average.named_parameters()}
    for run in others:
        other = dict(full_weights(*run, torch.float32, Kept(rank=rank)).named_parameters())
        if own != {name: parameter.shape for name, parameter in other.items()}:
            raise UserError("other=: its model has other weights than run=, so that there is no average of both")
        weight += (each := (1 - share) / len(others))
        for name, parameter in average.named_parameters():
            parameter.lerp_(other[name].to(parameter.device), each / weight)
    return average


def write_weights(policy: PreTrainedModel, tokenizer: Any, folder: Path) -> None:
    """Safetensors, configuration, generation configuration with all end tokens, tokenizer and chat template."""
    ends = end_ids(tokenizer, policy)
    policy.generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]
    policy.generation_config.pad_token_id = tokenizer.pad_token_id
    policy.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def greedy(policy: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
    """Token ids of each prompt's greedy answer, at most `tokens` long."""
    return sample(policy, prompts, 1, Decoding(tokens, 0.0), end_ids(tokenizer, policy), tokenizer.pad_token_id)


def compare(before: Any, after: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], tokens: int) -> Comparison:
    """The greedy answers of two models to the same prompts. Where they part, rounding may have decided a tie."""
    allowed = max(map(_rounding, (before, after)))
    answers = [greedy(policy, tokenizer, prompts, tokens) for policy in (before, after)]
    equal = ties = 0
    apart = 0.0
    for prompt, first, second in zip(prompts, *answers, strict=True):
        if first == second:
            equal += 1
            continue
        difference = max(_preference(p, prompt, first, second) for p in (before, after))
        if difference <= allowed:
            ties += 1
        else:
            apart = max(apart, difference)
    return Comparison(len(prompts), equal, ties, apart, _merged(before, after, prompts, answers[0], allowed))


@torch.no_grad()
def _merged(
    before: Any, after: Any, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], allowed: float
) -> float:
    """`Comparison.merged`: the change of the logits from the model without its adapter to the merged one, projected on
    the change that the adapter makes, over all tokens of prompts and answers.

    1 where that change is too small to be told from rounding, of which `allowed` is the most, as a share of the largest
    logit: its mean was a fifth of that in bf16.
    """
    if not isinstance(before, PeftModel):
        return 1.0
    along = own = mean = largest = 0.0
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]], device=before.device)
        with before.disable_adapter():
            start = before(input_ids=ids).logits.float()
        change = before(input_ids=ids).logits.float() - start
        along += ((after(input_ids=ids).logits.float() - start) * change).sum().item()
        own += change.square().sum().item()
        mean += change.abs().mean().item() / len(prompts)
        largest = max(largest, start.abs().max().item())
    return along / own if mean > largest * allowed / 3 else 1.0


def _rounding(policy: Any) -> float:
    """What rounding may change, as a share of the largest logit."""
    four_bit = any(type(module).__name__ == "Linear4bit" for module in policy.modules())
    by_cpu_in_bf16 = policy.device.type == "cpu" and native_precision() == "bf16"
    return max(ROUNDING[next(policy.parameters()).dtype], ROUNDING_4_BIT if four_bit and by_cpu_in_bf16 else 0.0)


@torch.no_grad()
def _preference(policy: Any, prompt: Sequence[int], first: Sequence[int], second: Sequence[int]) -> float:
    """How far apart a policy's logits of the two tokens are where two answers part, as a share of the largest logit."""
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if at is None:  # one is the beginning of the other
        return float("inf")
    ids = torch.tensor([[*prompt, *first[:at]]], device=policy.device)
    logits = policy(input_ids=ids).logits[0, -1].float()
    return float((logits[first[at]] - logits[second[at]]).abs() / logits.abs().max())
