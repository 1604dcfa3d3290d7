"""What useless, nearly right and right programs earn from the robot's reward, over the shipped instructions.

    python tests/bench/robot_programs.py [--root OTHER/CHECKOUT]

Shares of full marks of the simulator channel with the settings of conf/task/roboeval.yaml: mean and maximum over the
instructions, and how many programs have full marks. A mutated reference may still be right: a line may be needless.
--root measures the reward of another checkout of this repository. The table is on standard output; the last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

Row = dict
COMMON = """
cup mug book key box bag chair table pen apple bottle letter parcel package phone laptop cable ladder bucket mop lamp
tool hammer wrench drill person man woman child dog cat leak light window door
"""
USELESS: dict[str, Callable[[Row], str]] = {
    "empty": lambda row: "",
    "`pass`": lambda row: body("pass"),
    "one `get_current_location()`": lambda row: body("get_current_location()"),
    '`go_to("x")`': lambda row: body('go_to("x")'),
    "`say(the instruction)`": lambda row: body(f"say({row['text']!r})"),
    'say(the instruction), `go_to("x")`, pick and place of "o"': lambda row: body(
        f'say({row["text"]!r})\ngo_to("x")\npick("o")\nplace("o")'
    ),
    "every function once": lambda row: body(
        'get_current_location()\nget_all_rooms()\nis_in_room("person")\ngo_to("kitchen")\n'
        'ask("person", "How are you?", ["yes", "no"])\nsay("hello")\npick("cup")\nplace("cup")'
    ),
    "goes to every room": lambda row: body("for room in get_all_rooms():\n    go_to(room)"),
    "goes to every room, says the instruction": lambda row: body(
        f"for room in get_all_rooms():\n    go_to(room)\n    say({row['text']!r})\n"
        f'go_to("start_loc")\nsay({row["text"]!r})'
    ),
    "goes to every room, asks and says the instruction": lambda row: body(
        "for room in get_all_rooms():\n    go_to(room)\n    try:\n"
        f'        ask("", {row["text"]!r}, ["yes", "no", "1", "2"])\n    except Exception:\n        pass\n'
        f"    say({row['text']!r})"
    ),
    "goes to every room, looks, asks, speaks": lambda row: body(
        'for room in get_all_rooms():\n    go_to(room)\n    if is_in_room("person"):\n        say("please leave")\n'
        '    try:\n        ask("", "Yes or no?", ["yes", "no"])\n    except Exception:\n        pass\n'
        'go_to("start_loc")\nsay("yes")\nsay("There is none.")'
    ),
    "looks for common things in every room and brings them": lambda row: body(
        f"for room in get_all_rooms():\n    go_to(room)\n    for thing in {COMMON!r}.split():\n"
        "        if is_in_room(thing):\n            try:\n                pick(thing)\n"
        "            except Exception:\n                continue\n"
        '            go_to("start_loc")\n            place(thing)\n            break'
    ),
    "takes every word of the instruction for a name": lambda row: body(
        f"{_names_in(row['text'])}for room in names:\n    try:\n        go_to(room)\n    except Exception:\n"
        "        continue\n    for thing in names:\n        if is_in_room(thing):\n            try:\n"
        "                pick(thing)\n            except Exception:\n                continue\n"
        '            go_to("start_loc")\n            place(thing)\n            break'
    ),
    "takes every word of the instruction for a name and tells what is there": lambda row: body(
        f"{_names_in(row['text'])}seen = []\nfor room in names:\n    try:\n        go_to(room)\n"
        "    except Exception:\n        continue\n    for thing in names:\n        if is_in_room(thing):\n"
        '            seen.append(thing)\n            break\ngo_to("start_loc")\n'
        'say("Yes, " + " and ".join(seen) if seen else "No, there is none.")'
    ),
    "says that there is nothing": lambda row: body('say("There is nothing.")'),
}
"""Programs that do not know their instruction, or only repeat it."""


def _names_in(text: str) -> str:
    """Lines that list the runs of one to three words of a text as `names`."""
    return (
        f"words = {text!r}.replace(',', '').replace('.', '').lower().split()\n"
        "names = [' '.join(words[n : n + size]) for size in (1, 2, 3) for n in range(len(words) - size + 1)]\n"
    )


def body(text: str) -> str:
    return "def task_program():\n" + textwrap.indent(text, "    ") + "\n"


# --- mutants ------------------------------------------------------------------------------------------------------


def without_a_line(program: str) -> Iterator[str]:
    """The program without each of its statements that is a call."""
    number = sum(_is_statement(node) for node in ast.walk(ast.parse(program)))
    for dropped in range(number):
        tree = ast.parse(program)
        [node for node in ast.walk(tree) if _is_statement(node)][dropped].value = ast.Constant(None)
        yield ast.unparse(tree)


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def swapped_room(program: str) -> Iterator[str]:
    """The program with one name of a place replaced by the next one, or by a place that does not exist."""
    names = [node.args[0].value for node in _calls(ast.parse(program), "go_to") if _is_text(node.args[0])]
    names = list(dict.fromkeys(names))
    for number, name in enumerate(names):
        tree = ast.parse(program)
        for node in _calls(tree, "go_to"):
            if _is_text(node.args[0]) and node.args[0].value == name:
                node.args[0].value = names[(number + 1) % len(names)] if len(names) > 1 else "side room"
        yield ast.unparse(tree)


def without_the_loop(program: str) -> Iterator[str]:
    """The program with each `for` cut to its first turn."""
    number = sum(isinstance(node, ast.For) for node in ast.walk(ast.parse(program)))
    for cut in range(number):
        tree = ast.parse(program)
        loop = [node for node in ast.walk(tree) if isinstance(node, ast.For)][cut]
        loop.iter = ast.parse(f"list({ast.unparse(loop.iter)})[:1]", mode="eval").body
        yield ast.unparse(tree)


def other_words(program: str) -> Iterator[str]:
    """The program that says "ready" in place of each of its messages."""
    number = len(_calls(ast.parse(program), "say"))
    for changed in range(number):
        tree = ast.parse(program)
        _calls(tree, "say")[changed].args[0] = ast.Constant("ready")
        yield ast.unparse(tree)


def _calls(tree: ast.AST, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


MUTANTS: dict[str, Callable[[str], Iterator[str]]] = {
    "a call dropped": without_a_line,
    "a place swapped": swapped_room,
    "a loop cut to one turn": without_the_loop,
    "a message replaced": other_words,
}


# --- measuring ----------------------------------------------------------------------------------------------------


def groups(rows: Sequence[Row]) -> dict[str, list[tuple[int, str]]]:
    """Kind of program: (number of the row, program)."""
    results = {name: [(n, made(row)) for n, row in enumerate(rows)] for name, made in USELESS.items()}
    results["another task's program"] = [(n, rows[(n + 7) % len(rows)]["program"]) for n in range(len(rows))]
    for name, mutants in MUTANTS.items():
        results[f"the reference, {name}"] = [
            (n, each) for n, row in enumerate(rows) for each in mutants(row["program"])
        ]
    results["the reference"] = [(n, row["program"]) for n, row in enumerate(rows)]
    return results


async def measured(rows: Sequence[Row], root: Path) -> dict[str, list[float]]:
    """Shares of full marks by kind of program."""
    from envs.roboeval.task import RoboEval
    from envs.sandbox import LocalSandbox
    from rewards.channel import Completion
    from rewards.robot import Simulator

    settings = yaml.safe_load((root / "conf/task/roboeval.yaml").read_text())["reward"]["simulator"]
    settings = {key: value for key, value in settings.items() if key not in ("_target_", "sandbox", "weight")}
    problems = RoboEval().problems("train")
    sandbox = LocalSandbox(2)
    channel, shares = Simulator(sandbox, **settings), {}
    try:
        for name, programs in groups(rows).items():
            answers = [Completion(code, (0,), ((0, len(code)),), (0, len(code))) for _, code in programs]
            results = await channel.score([problems[number] for number, _ in programs], answers)
            shares[name] = [result.score for result in results if result is not None]
            if len(shares[name]) < len(programs):
                print(f"{name}: {len(programs) - len(shares[name])} not graded", file=sys.stderr)
    finally:
        await sandbox.close()
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    root = parser.parse_args().root.resolve()
    sys.path.insert(0, str(root))
    lines = (root / "envs/roboeval/data/train.jsonl").read_text(encoding="utf-8").splitlines()
    shares = asyncio.run(measured([json.loads(line) for line in lines], root))
    print("| program | number | mean | maximum | full marks |\n|---|---|---|---|---|")
    for name, results in shares.items():
        full = sum(share > 0.999 for share in results)
        print(f"| {name} | {len(results)} | {statistics.mean(results):.1%} | {max(results):.1%} | {full} |")
    useless = [*USELESS, "another task's program"]
    print(json.dumps({"useless_best": max(max(shares[name]) for name in useless), "rows": len(lines)}))


if __name__ == "__main__":
    main()
