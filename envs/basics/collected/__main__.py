"""The command line of this package; see its docstring."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import envs.basics.collected as package
from envs.basics import Basics
from envs.basics.collected import doctests, instructions, mbpp, snippets
from envs.basics.collected.functions import Found
from envs.basics.collected.rows import Made, rows
from envs.sandbox import LocalSandbox
from envs.task import Problem, TaskError

KINDS: dict[str, Callable[[Path], Iterator[Found]]] = {
    "doctests": doctests.found,
    "instructions": instructions.found,
    "mbpp": mbpp.found,
    "snippets": snippets.found,
}
NAME = "envs.basics.collected"


async def _made(found: Sequence[Found], held_out: Sequence[Problem], most_chars: int, workers: int) -> Made:
    sandbox = LocalSandbox(workers)
    try:
        return await rows(found, held_out, sandbox, most_chars)
    finally:
        await sandbox.close()


def _held_out(humaneval: Path | None, mbpp: Path | None) -> list[Problem]:
    """The held-out problems of `basics`, and those of the files named. Raises TaskError."""
    problems = Basics(generated=1).problems("test")
    if humaneval:
        from envs.humaneval import HumanEval

        problems += HumanEval(path=str(humaneval), train_size=0).problems("test")
    if mbpp:
        from envs.mbpp import Mbpp

        problems += Mbpp(path=str(mbpp)).problems("test")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {NAME}", description=package.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS, help="the form of the collection")
    parser.add_argument("path", type=Path, help="its file or folder")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--humaneval", type=Path, help="HumanEval.jsonl(.gz): leave out what solves one of its problems"
    )
    parser.add_argument("--mbpp", type=Path, help="(sanitized-)mbpp.jsonl(.gz): leave out what solves a test problem")
    parser.add_argument("--most-chars", type=int, default=400, help="longest solution (400)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="programs at the same time")
    options = parser.parse_args(arguments)
    try:
        found = list(KINDS[options.kind](options.path))
        made = asyncio.run(
            _made(found, _held_out(options.humaneval, options.mbpp), options.most_chars, options.workers)
        )
        if made.rows:
            temporary = options.output.with_name(f".{options.output.name}.{os.getpid()}")
            temporary.write_text("".join(f"{json.dumps(row)}\n" for row in made.rows), encoding="utf-8")
            temporary.replace(options.output)
    except (OSError, ValueError, TaskError, RuntimeError) as error:
        print(f"{NAME}: {options.path}: {error}", file=sys.stderr)
        return 1
    for reason, count in made.left_out.most_common():
        print(f"left out {count}: {reason}")
    if not made.rows:
        print(f"{NAME}: {options.path} has no function that makes a problem", file=sys.stderr)
        return 1
    print(f"wrote {options.output}: {len(made.rows)} problems of {len(found)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
