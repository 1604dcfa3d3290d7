"""Functions of a folder of Markdown snippets: a description, a code block that defines one, and one that calls it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls, paragraph

BLOCK = re.compile(r"```(?:python|py)\n(.*?)```", re.DOTALL)
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def found(path: Path) -> Iterator[Found]:
    """The functions of all .md files below a folder, in the order of their paths. Raises OSError."""
    for file in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
        text = FRONT.sub("", file.read_text(encoding="utf-8", errors="replace"))
        blocks = [block.expandtabs(4) for block in BLOCK.findall(text)]
        if len(blocks) < 2:
            continue
        try:
            tree = ast.parse(blocks[0])
        except (SyntaxError, ValueError):
            continue
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        if len(functions) != 1:
            continue
        node = functions[0]
        try:
            signature, solution = cut_out(tree, blocks[0], node)
        except Unusable:
            continue
        calls = literal_calls(blocks[1], node.name)
        asked = paragraph(text.split("```")[0])
        yield Found(f"{path.name}/{file.stem}", node.name, signature, asked, solution, tuple(calls))
