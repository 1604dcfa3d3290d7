"""bf16 against fp32 in the matrix products and the attention of SmolLM2-135M on this CPU: which is better to take?

    OMP_NUM_THREADS=1 python tests/bench/bench_precision.py

All products of one forward pass, each as often as the model makes it: the seven of a layer in 30 layers, and the head
once, at the rows of an update and of a step of sampling. Then attention, forward and backward, of rows of several
lengths (recipes/models/attention.py). The last line is one JSON object.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

from recipes.cli.schema import native_precision

LAYERS = 30
SHAPES = {(576, 576): 2 * LAYERS, (576, 192): 2 * LAYERS, (576, 1536): 2 * LAYERS, (1536, 576): LAYERS, (576, 49152): 1}
"""(inner, outer) of a product and how many of them a forward pass makes: queries and outputs, keys and values, the two
products into the MLP, the one out of it, the head."""
ROWS = {"update": 2048, "sampling": 32}
TOKENS = (32, 64, 128, 192, 256, 384, 512, 1024)
HEADS, KEY_HEADS, WIDTH = 9, 3, 64
ROUNDS = 7


def seconds(product: Callable[[], torch.Tensor]) -> float:
    begun = time.perf_counter()
    product()
    return time.perf_counter() - begun


def main() -> None:
    result = {"native": native_precision(), "threads": torch.get_num_threads()}
    for name, rows in ROWS.items():
        taken = dict.fromkeys((torch.float32, torch.bfloat16), 0.0)
        for (inner, outer), count in SHAPES.items():
            for dtype in taken:  # the two in turn, so that other work on the machine meets both
                a, b = torch.randn(rows, inner, dtype=dtype), torch.randn(outer, inner, dtype=dtype)
                taken[dtype] += count * statistics.median(seconds(lambda a=a, b=b: linear(a, b)) for _ in range(ROUNDS))
        work = 2 * rows * sum(inner * outer * count for (inner, outer), count in SHAPES.items()) / 1e9
        wide, narrow = taken.values()
        print(f"{name:>8}: fp32 {work / wide:4.0f} GFLOP/s, bf16 {work / narrow:4.0f}")
        result[f"{name}_bf16_over_fp32"] = round(narrow / wide, 2)
    result["attention_bf16_over_fp32"] = {tokens: attention(tokens) for tokens in TOKENS}
    print(json.dumps(result))


def attention(tokens: int) -> float:
    """Time in bf16 over time in fp32 of one layer's attention, its backward pass included."""
    taken = {}
    for dtype in (torch.float32, torch.bfloat16):
        query, key, value = (
            torch.randn(1, heads, tokens, WIDTH, dtype=dtype, requires_grad=True)
            for heads in (HEADS, KEY_HEADS, KEY_HEADS)
        )

        def both_ways(q=query, k=key, v=value) -> torch.Tensor:
            out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            out.backward(torch.ones_like(out))
            return out

        seconds(both_ways)  # the first allocates
        taken[dtype] = statistics.median(seconds(both_ways) for _ in range(3 * ROUNDS))
    wide, narrow = taken.values()
    print(f"attention of {tokens:>4} tokens: fp32 {1e3 * wide:6.2f} ms, bf16 {1e3 * narrow:6.2f}")
    return round(narrow / wide, 2)


if __name__ == "__main__":
    main()
