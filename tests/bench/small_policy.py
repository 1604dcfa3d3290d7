"""A random policy of some 300,000 weights that reads and writes robot programs: for ablations of many seeds.

    python tests/bench/small_policy.py runs/small --problems 24 --faults 0.25
    python recipes/sft.py task=roboeval task.env.train=runs/small/demonstrations.jsonl model.path=runs/small ...

Its tokenizer is byte-pair encoding learnt from the shortest of the robot's instructions and their programs. Its chat
template leaves the system message out: what that says is the same for every problem, and costs a small model most of
its time. Beside it lie instructions.jsonl, those problems, and demonstrations.jsonl, each with several programs in
which faults are planted: a policy trained on these knows each task and errs in the same few ways everywhere. Learning
by heart leaves none of that: what then fails is noise, which differs from problem to problem.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from envs.roboeval.extraction import DEFINITION
from envs.roboeval.task import MARK, RoboEval
from envs.task import Problem

SPECIAL = ["<pad>", "<eos>", "<answer>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<answer>"
    "{% elif m.role == 'assistant' %}{{ m.content }}<eos>{% endif %}{% endfor %}"
)
FAULTS: dict[str, tuple[str, str]] = {
    "a bracket is doubled": ("go_to(", "go_to(("),
    "an import is not used": (f"{DEFINITION}\n", f"{DEFINITION}\n    import os\n"),
    "a function does not exist": ("go_to(", "goto("),
    "a bracket stays open": (")\n", "\n"),
}
"""What is replaced by what. The syntax channel sees the first and the last, lint the second and the third; the
simulator all but the second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--faults", type=float, default=0.25, help="share of demonstrations that have each fault")
    parser.add_argument("--copies", type=int, default=16, help="demonstrations of a problem")
    parser.add_argument("--vocabulary", type=int, default=600)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()
    task, rng = RoboEval(examples=0), random.Random(0)
    problems = sorted(task.problems("train"), key=lambda p: len(p.reference or ""))[: args.problems]
    args.folder.mkdir(parents=True, exist_ok=True)
    write(args.folder / "instructions.jsonl", problems, 1, lambda program: program)
    write(args.folder / "demonstrations.jsonl", problems, args.copies, lambda p: faulty(p, args.faults, rng))
    texts = [text for p in problems for text in (f"{MARK} {p.question}", f"```python\n{p.reference}```")]
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
    longest = max(len(tokenizer(f"```python\n{p.reference}```")["input_ids"]) for p in problems)
    print(f"{args.folder}: {model.num_parameters():,} weights, {len(tokenizer)} tokens, answers up to {longest}")


def write(file: Path, problems: list[Problem], copies: int, change: Callable[[str], str]) -> None:
    """Rows with the columns of Robo-Instruct, `copies` of each problem with programs as `change` makes them."""
    rows = (
        {"text": f"{MARK} {p.question}\n{DEFINITION}", "program": change(p.reference or "")}
        for p in problems
        for _ in range(copies)
    )
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def faulty(program: str, share: float, rng: random.Random) -> str:
    """The program with each fault in that share of draws, independently, at one of the places where it can be."""
    for right, wrong in FAULTS.values():
        places = [m.start() for m in re.finditer(re.escape(right), program)]
        if places and rng.random() < share:
            at = rng.choice(places)
            program = program[:at] + wrong + program[at + len(right) :]
    return program


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
