"""A random policy of some 300,000 weights that reads and writes short programs: for ablations of many seeds.

    python tests/bench/small_policy.py runs/ablation/roboeval --task roboeval --problems 16 --faults 0.3
    python tests/bench/small_policy.py runs/ablation/errands --task errands --faults 0.15
    python tests/bench/run_ablation.py roboeval        with the runs that it is made for

Its tokenizer is byte-pair encoding learnt from the task's shortest problems and their programs. Its chat template
leaves the system message out: what that says is the same for every problem, and costs a small model most of its time.
Beside it lie instructions.jsonl, those problems, and demonstrations.jsonl, each with many programs in which faults are
planted: a policy trained on these knows each task and errs in the same few ways everywhere. Learning by heart leaves
none of that: what then fails is noise, which differs from problem to problem.

errands are robot instructions of several clauses, with three acts and more; a fault is another name or message in a
call, drawn for each call by itself. With --in-turn 2 each asks for two of these, one after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from envs.basics import PROBLEMS, Basics
from envs.roboeval.extraction import DEFINITION
from envs.roboeval.generated import COMPOSED, STRUCTURES, composed, instruction
from envs.roboeval.task import MARK, RoboEval
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl

Row = dict[str, Any]
LINES = 5  # of a function, at least: in one of two there is not much to tell apart
SPECIAL = ["<pad>", "<eos>", "<answer>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<answer>"
    "{% elif m.role == 'assistant' %}{{ m.content }}<eos>{% endif %}{% endfor %}"
)
ACT, ACTS, LONGEST = re.compile(r"\b(?:say|ask|pick|place)\("), 3, 420
"""Of an errand's program: what counts as an act, how many there are at least, and its characters at most."""
START = "    start = get_current_location()\n"
CALL = re.compile(r'\b(go_to|say|pick|place|is_in_room)\("([^"]*)"\)')
KINDS = {"pick": "thing", "place": "thing", "is_in_room": "thing"}
Faults = dict[str, tuple[str, str]]
ROBOT_FAULTS: Faults = {
    "a bracket is doubled": (r"go_to\(", "go_to(("),
    "an import is not used": (rf"\A{re.escape(DEFINITION)}\n", f"{DEFINITION}\n    import os\n"),
    "a function does not exist": (r"go_to\(", "goto("),
    "a bracket stays open": (r"\)\n", "\n"),
}
"""Patterns and what takes their place. Syntax sees the first and the last, lint the second and the third; the simulator
all but the second."""
FUNCTION_FAULTS: Faults = {
    "a bracket is doubled": (r"\(", "(("),
    "an import is not used": (r"\A(def .*:\n)", r"\1    import os\n"),
    "the result is lost": (r"\breturn ", "result = "),
    "the result is negated": (r"\breturn ", "return not "),
}
"""Syntax sees the first, lint the second and the third, dataflow the third; tests all but the second, and alone the
last."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", choices=list(ROWS), required=True)
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument(
        "--faults", type=float, default=0.3, help="share of demonstrations (of errands: of calls) that have each fault"
    )
    parser.add_argument("--in-turn", type=int, default=1, help="of errands: how many of them an instruction asks for")
    parser.add_argument("--copies", type=int, default=64, help="demonstrations of a problem")
    parser.add_argument("--vocabulary", type=int, default=600)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()
    rng = random.Random(0)
    if args.in_turn > 1 and args.task != "errands":
        parser.error("--in-turn is for --task errands")
    more = {"in_turn": args.in_turn} if args.task == "errands" else {}
    rows, texts = ROWS[args.task](args.problems, **more)
    key = "solution" if args.task == "basics" else "program"
    args.folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(args.folder / "instructions.jsonl", rows)
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
    copies = [(row, number) for row in rows for number in range(args.copies)]
    names = names_of(rows) if args.task == "errands" else {}

    def spoilt(program: str) -> str:
        if args.task == "errands":
            return with_other_names(program, names, args.faults, rng)
        return faulty(program, FUNCTION_FAULTS if args.task == "basics" else ROBOT_FAULTS, args.faults, rng)

    demonstrations = (demonstration(row, number, key, spoilt(row[key])) for row, number in copies)
    # last: run_ablation.py takes this file to mean that all of them are there
    write_jsonl(args.folder / "demonstrations.jsonl", demonstrations)
    longest = max(len(tokenizer(f"```python\n{row[key]}```")["input_ids"]) for row in rows)
    print(f"{args.folder}: {model.num_parameters():,} weights, {len(tokenizer)} tokens, answers up to {longest}")


def robot_rows(count: int) -> tuple[list[Row], list[str]]:
    """The robot's shortest training instructions with the columns of Robo-Instruct, and all that a policy reads or
    writes of them."""
    problems = sorted(RoboEval(examples=0).problems("train"), key=lambda p: len(p.reference or ""))[:count]
    rows = [{"text": f"{MARK} {p.question}\n{DEFINITION}", "program": p.reference} for p in problems]
    return rows, [text for p in problems for text in (f"{MARK} {p.question}", f"```python\n{p.reference}```")]


def function_rows(count: int) -> tuple[list[Row], list[str]]:
    """The same of basics: its shortest of a few lines and one more, since a split holds out at least one."""
    rows = {f"basics/{row['name']}": row for file in sorted(PROBLEMS.glob("*.jsonl")) for row in read_jsonl(file)}
    problems = [p for p in Basics().problems("train") if (p.reference or "").count("\n") >= LINES]
    problems = sorted(problems, key=lambda p: len(p.reference or ""))[: count + 1]
    chosen = [rows[p.id] | {"family": p.id} for p in problems]
    return chosen, [text for p in problems for text in (p.question, f"```python\n{p.reference}```")]


def errand_rows(count: int, in_turn: int = 1) -> tuple[list[Row], list[str]]:
    """The same of generated instructions of several clauses: of each structure the shortest with three acts. Each row
    asks for `in_turn` of them."""
    rows: list[Row] = []
    for structure in STRUCTURES:
        made = [instruction(composed(structure, n), n) for n in range(40 * COMPOSED, 40 * COMPOSED + 100)]
        long = [row for row in made if len(ACT.findall(row["program"])) >= ACTS and len(row["program"]) < LONGEST]
        rows += sorted(long, key=lambda row: len(row["program"]))[: in_turn * count // len(STRUCTURES)]
    asked_for = len(rows) // in_turn
    rows = [one_after_another(rows[i::asked_for]) for i in range(asked_for)]
    asked = [
        {"text": f"{MARK} {row['text']}\n{DEFINITION}", "program": row["program"], "ordered": bool(row["ordered"])}
        for row in rows
    ]
    return asked, [text for r in rows for text in (f"{MARK} {r['text']}", f"```python\n{r['program']}```")]


ROWS: dict[str, Callable[..., tuple[list[Row], list[str]]]] = {
    "roboeval": robot_rows,
    "basics": function_rows,
    "errands": errand_rows,
}


def one_after_another(rows: list[Row]) -> Row:
    """An instruction that asks for several in turn. Each that comes back to its start means where the first began."""
    bodies = [row["program"].removeprefix(f"{DEFINITION}\n") for row in rows]
    start = START if any(START in body for body in bodies) else ""
    program = f"{DEFINITION}\n{start}" + "".join(body.replace(START, "") for body in bodies)
    text = " After that: ".join(row["text"] for row in rows)
    return {"text": text, "program": program, "ordered": all(row["ordered"] for row in rows)}


def names_of(rows: list[Row]) -> dict[str, list[str]]:
    """What calls of each function are given in the programs."""
    names: dict[str, set[str]] = {}
    for function, name in (found for row in rows for found in CALL.findall(row["program"])):
        names.setdefault(KINDS.get(function, function), set()).add(name)
    return {kind: sorted(found) for kind, found in names.items()}


def with_other_names(program: str, names: dict[str, list[str]], share: float, rng: random.Random) -> str:
    """The program with another name or message in that share of its calls."""

    def other(call: re.Match[str]) -> str:
        function, name = call.groups()
        if rng.random() >= share:
            return call[0]
        return f'{function}("{rng.choice([each for each in names[KINDS.get(function, function)] if each != name])}")'

    return CALL.sub(other, program)


def demonstration(row: Row, number: int, key: str, program: str) -> Row:
    """A row with another program, under an id of its own where rows are named."""
    named = {"id": f"basics/{row['name']}/{number}"} if "name" in row else {}
    return row | named | {key: program}


def write_jsonl(file: Path, rows: Iterable[Row]) -> None:
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))


def faulty(program: str, faults: Faults, share: float, rng: random.Random) -> str:
    """The program with each fault in that share of draws, independently, at one of the places where it can be."""
    for right, wrong in faults.values():
        places = list(re.finditer(right, program))
        if places and rng.random() < share:
            place = rng.choice(places)
            program = program[: place.start()] + place.expand(wrong) + program[place.end() :]
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
