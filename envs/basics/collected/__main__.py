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
from envs.basics.collected.functions import Found, Unusable
from envs.basics.collected.rows import Made, rows
from envs.humaneval import HumanEval
from envs.mbpp import Mbpp
from envs.sandbox import LocalSandbox
from envs.task import Problem, TaskError

KINDS: dict[str, Callable[[Path], Iterator[Found | Unusable]]] = {
    "doctests": doctests.found,
    "instructions": instructions.found,
    "mbpp": mbpp.found,
    "snippets": snippets.found,
}
NAME = "envs.basics.collected"


class Wrong(ValueError):
    """An argument that cannot be used; the message names it."""


def collection(text: str) -> tuple[str, Path]:
    """KIND=PATH. Raises argparse.ArgumentTypeError."""
    kind, _, path = text.partition("=")
    if kind not in KINDS or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=PATH with a kind of {', '.join(KINDS)}")
    return kind, Path(path)


def _found(collections: Sequence[tuple[str, Path]]) -> list[Found | Unusable]:
    """The functions of all collections. Raises Wrong."""
    functions: list[Found | Unusable] = []
    for kind, path in collections:
        try:
            if not path.exists():
                raise OSError("there is no such file or folder")
            functions += KINDS[kind](path)
        except (OSError, ValueError) as error:
            raise Wrong(f"{kind}={path}: {error}") from None
    return functions


def _held_out(options: argparse.Namespace) -> list[Problem]:
    """The held-out problems of `basics`, and those of the files named. Raises Wrong."""
    problems: list[Problem] = []
    tasks: dict[str, Callable[[], Basics | HumanEval | Mbpp]] = {
        f"--split-seed={options.split_seed} --validation={options.validation}": lambda: Basics(
            generated=1, split_seed=options.split_seed, validation=options.validation
        )
    }
    if options.humaneval:
        tasks[f"--humaneval={options.humaneval}"] = lambda: HumanEval(path=str(options.humaneval), train_size=0)
    if options.mbpp:
        tasks[f"--mbpp={options.mbpp}"] = lambda: Mbpp(path=str(options.mbpp))
    for option, task in tasks.items():
        try:
            made = task()
            problems += [*made.problems("test"), *(made.problems("validation") if isinstance(made, Basics) else [])]
        except (TaskError, OSError, ValueError, OverflowError) as error:
            raise Wrong(f"{option}: {error}") from None
        except KeyError as error:
            raise Wrong(f"{option}: a row has no {error}") from None
    return problems


async def _made(found: Sequence[Found | Unusable], held_out: Sequence[Problem], options: argparse.Namespace) -> Made:
    sandbox = LocalSandbox(options.workers)
    try:
        return await rows(found, held_out, sandbox, options.longest)
    finally:
        await sandbox.close()


def _write(path: Path, made: Made) -> None:
    """Write the rows to a temporary file, then rename it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text("".join(f"{json.dumps(row)}\n" for row in made.rows), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m {NAME}", description=package.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="+", type=collection, metavar="KIND=PATH", help=", ".join(KINDS))
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .jsonl file that is written")
    parser.add_argument("--humaneval", type=Path, help="HumanEval.jsonl(.gz): leave out what solves its problems")
    parser.add_argument("--mbpp", type=Path, help="(sanitized-)mbpp.jsonl(.gz): leave out what solves a test problem")
    parser.add_argument("--split-seed", type=int, default=0, help="task.env.split_seed of the training (0)")
    parser.add_argument("--validation", type=float, default=0.0, help="task.env.validation of the training (0)")
    parser.add_argument("--longest", type=int, default=400, help="characters of the longest solution (400)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="programs at the same time")
    options = parser.parse_args(arguments)
    try:
        if options.workers < 1:
            raise Wrong(f"--workers={options.workers}: must be at least 1")
        if options.output.is_dir() or not options.output.absolute().parent.is_dir():
            raise Wrong(f"--output={options.output}: must be a file in a folder that exists")
        found = _found(options.collections)
        made = asyncio.run(_made(found, _held_out(options), options))
        for reason, count in made.left_out.most_common():
            print(f"left out {count}: {reason}")
        if not made.rows:
            raise Wrong("the collections have no function that makes a problem")
        _write(options.output, made)
    except (Wrong, OSError, RuntimeError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    print(f"wrote {options.output}: {len(made.rows)} problems of {len(found)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
