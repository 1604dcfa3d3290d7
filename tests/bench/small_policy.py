"""A random policy of half a million weights that reads and writes one task's language: for ablations of many seeds.

    python tests/bench/small_policy.py roboeval runs/small/roboeval
    python recipes/sft.py task=roboeval model.path=runs/small/roboeval model.lora_rank=0 run.name=small ...

Its tokenizer is byte-pair encoding learnt from the training problems and their references. Its chat template leaves the
system message out: what that says is the same for every problem, and costs a small model most of its time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from recipes.support import config
from recipes.support.build import build_task
from recipes.support.overrides import compose
from recipes.support.stages import demonstrations

SPECIAL = ["<pad>", "<eos>", "<answer>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<answer>"
    "{% elif m.role == 'assistant' %}{{ m.content }}<eos>{% endif %}{% endfor %}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vocabulary", type=int, default=800)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    config.register()
    task = build_task(compose(["recipe=sft", f"task={args.task}"]))
    rows = demonstrations(task)
    texts = [m["content"] for row in rows for m in [*row["prompt"], *row["completion"]] if m["role"] != "system"]
    tokenizer = learnt(texts, args.vocabulary)
    torch.manual_seed(0)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(shape)
    model.save_pretrained(args.folder)
    tokenizer.save_pretrained(args.folder)
    tokens = sum(len(tokenizer(text)["input_ids"]) for text in texts) / len(rows)
    print(f"{args.folder}: {model.num_parameters():,} weights, {len(tokenizer)} tokens, {tokens:.0f} a problem")


def learnt(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-pair encoding of `texts`."""
    raw = Tokenizer(BPE())
    raw.pre_tokenizer, raw.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = BpeTrainer(vocab_size=size, special_tokens=SPECIAL, initial_alphabet=ByteLevel.alphabet())
    raw.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        padding_side="left",
        chat_template=TEMPLATE,
    )


if __name__ == "__main__":
    main()
