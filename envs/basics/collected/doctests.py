"""Functions of a folder of Python files that have docstrings; their doctests say what they may be called with."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Arguments, Found, Unusable, cut_out, literal_calls, paragraph, parsed, read

PARSER = doctest.DocTestParser()


def found(path: Path) -> Iterator[Found | Unusable]:
    """The functions of all files below a folder, in the order of their paths. Raises OSError."""
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        source = read(file)
        tree = parsed(source)
        if tree is None:
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                name = (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix("").as_posix()
                asked = paragraph(text.split(">>>")[0])
                try:
                    yield cut_out(f"doctests/{name}/{node.name}", tree, source, node, asked, _calls(text, node.name))
                except Unusable as reason:
                    yield reason


def _calls(text: str, name: str) -> list[Arguments]:
    """Arguments of a docstring's calls of the function, without those that raise. Raises Unusable."""
    try:
        examples = PARSER.get_examples(text)
    except ValueError:
        raise Unusable("its doctests cannot be read") from None
    return literal_calls("".join(example.source for example in examples if not example.exc_msg), name)
