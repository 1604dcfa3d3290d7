"""MBPP's validation and training problems: ids 511 to 600 and 601 to 974 (Austin et al. 2021, arXiv 2108.07732).

Its 500 test problems (11 to 510) and its examples for prompts are not among them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls
from envs.json_lines import json_lines

IDS = range(511, 975)


def found(path: Path) -> Iterator[Found]:
    """The functions of mbpp.jsonl(.gz) that its asserts call, where they need no other function. Raises OSError."""
    for _, row in json_lines(path):
        if isinstance(row, Exception) or row.get("task_id") not in IDS or row.get("test_setup_code"):
            continue
        source = row["code"].replace("\r\n", "\n").expandtabs(4)
        asserts = "\n".join(row["test_list"])
        try:
            tree = ast.parse(source)
            called = {node.id for node in ast.walk(ast.parse(asserts)) if isinstance(node, ast.Name)}
            nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in called]
            signature, solution = cut_out(tree, source, nodes[0])
        except (SyntaxError, IndexError, Unusable):
            continue
        calls = tuple(literal_calls(asserts, nodes[0].name))
        yield Found(f"mbpp/{row['task_id']}", nodes[0].name, signature, row["text"].strip(), solution, calls)
