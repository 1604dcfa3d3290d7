"""Functions of Exercism's Python track: instructions, an example solution, and tests that say how it is called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Arguments, Found, Unusable, cut_out, literal_calls, parsed, read

LONGEST = 299
"""Characters of a description; whole paragraphs are taken as long as they fit."""
NO_SENTENCE = re.compile(r"^\s*([#>|~`*-]|\d+\.|for example|examples?:|\[[^\]]+\]:)", re.I)
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?")


def found(path: Path) -> Iterator[Found | Unusable]:
    """The functions that the exercises below a folder ask for, in the order of the exercises. Raises OSError."""
    for meta in sorted(path.rglob(".meta/example.py")):
        exercise = meta.parent.parent
        source, tests = read(meta), parsed("\n".join(read(file) for file in sorted(exercise.glob("*_test.py"))))
        tree = parsed(source)
        instructions = exercise / ".docs" / "instructions.md"
        if tree is None or tests is None or not instructions.is_file():
            continue
        asked = description(read(instructions))
        names = {alias.name for node in ast.walk(tests) if isinstance(node, ast.ImportFrom) for alias in node.names}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in names:
                try:
                    calls = _calls(tests, node.name)
                    yield cut_out(f"exercism/{exercise.name}/{node.name}", tree, source, node, asked, calls)
                except Unusable as reason:
                    yield reason


def description(instructions: str) -> str:
    """The first paragraphs of instructions in Markdown, in one line: up to a list, a table, code or an example."""
    taken = ""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^#.*$", "", instructions, flags=re.MULTILINE).strip()):
        text = re.sub(r"\s+", " ", LINK.sub(r"\1", paragraph)).strip()
        if NO_SENTENCE.match(paragraph) or text.endswith(":") or len(taken) + len(text) >= LONGEST:
            break
        taken = f"{taken} {text}".strip()
    return taken


def _calls(tests: ast.Module, name: str) -> list[Arguments]:
    """Arguments of the calls of a function in the methods of test cases."""
    methods = [node for node in ast.walk(tests) if isinstance(node, ast.FunctionDef)]
    calls: dict[str, Arguments] = {}
    for method in methods:
        for call in literal_calls("\n".join(map(ast.unparse, method.body)), name):
            calls.setdefault(repr(call), call)
    return list(calls.values())
