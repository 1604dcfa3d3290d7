"""Functions of a folder of Python files whose docstrings have doctests."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls, paragraph

PARSER = doctest.DocTestParser()


def found(path: Path) -> Iterator[Found]:
    """The functions of all files below a folder, in the order of their paths. Raises OSError."""
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        source = file.read_text(encoding="utf-8", errors="replace")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                try:
                    signature, solution = cut_out(tree, source, node)
                    calls = _calls(text, node.name)
                except (Unusable, ValueError):  # doctests that are no doctests
                    continue
                name = file.relative_to(path).with_suffix("") if path.is_dir() else file.stem
                asked = paragraph(text.split(">>>")[0])
                yield Found(f"{path.name}/{name}/{node.name}", node.name, signature, asked, solution, calls)


def _calls(text: str, name: str) -> tuple[tuple, ...]:
    """Arguments of a docstring's calls of the function. Raises ValueError."""
    examples = PARSER.get_examples(text)
    return tuple(literal_calls("".join(example.source for example in examples if not example.exc_msg), name))
