"""A randomly initialised model whose tokens are single characters: for tasks so small that nothing need be known."""

from __future__ import annotations

from typing import Any

from huggingface_hub.errors import StrictDataclassError
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>")


def vocabulary_of(alphabet: str) -> dict[str, int]:
    """Token ids: the special ones, then the characters."""
    return {token: i for i, token in enumerate([*SPECIAL, *dict.fromkeys(alphabet)])}


def scratch_config(alphabet: str, **shape: Any) -> LlamaConfig:
    """The configuration of such a model; `shape` goes to LlamaConfig. Raises ValueError for a shape that it refuses."""
    tokens = {"vocab_size": len(vocabulary_of(alphabet)), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    try:
        return LlamaConfig(**{"tie_word_embeddings": False, **tokens, **shape})
    except StrictDataclassError as error:
        raise ValueError(str(error).splitlines()[-1].strip().split(": ", 1)[-1]) from None


def scratch_model(alphabet: str, **shape: Any) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Model and tokenizer over the characters of `alphabet`; `shape` goes to LlamaConfig. Uses torch's random state."""
    vocabulary = vocabulary_of(alphabet)
    raw = Tokenizer(WordLevel(vocabulary))
    raw.pre_tokenizer = Split(Regex("[\\s\\S]"), "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        padding_side="left",
        chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",
    )
    return LlamaForCausalLM(scratch_config(alphabet, **shape)), tokenizer
