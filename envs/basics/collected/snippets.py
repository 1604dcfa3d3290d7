"""Functions of a folder of Markdown snippets: a description, a code block that defines one, and one that calls it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls, paragraph, parsed, read

BLOCK = re.compile(r"```(?:python|py)\n(.*?)```", re.DOTALL)
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def found(path: Path) -> Iterator[Found | Unusable]:
    """The functions of all .md files below a folder, in the order of their paths. Raises OSError."""
    for file in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
        text = FRONT.sub("", read(file))
        blocks = BLOCK.findall(text)
        tree = parsed(blocks[0]) if len(blocks) > 1 else None
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
        if not tree or len(functions) != 1:
            continue
        [node] = functions
        name = (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix("").as_posix()
        calls, asked = literal_calls(blocks[1], node.name), paragraph(text.split("```")[0])
        try:
            yield cut_out(f"snippets/{name}", tree, blocks[0], node, asked, calls)
        except Unusable as reason:
            yield reason
