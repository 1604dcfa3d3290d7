"""MBPP's validation and training problems: ids 511 to 600 and 601 to 974 (Austin et al. 2021, arXiv 2108.07732).

Its 500 test problems (11 to 510) and its examples for prompts are not among them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from envs.basics.collected.functions import Found, Unusable, cut_out, literal_calls, parsed
from envs.json_lines import Row, json_lines

IDS = range(511, 975)


def _has_fields(row: Row) -> bool:
    return isinstance(row.get("code"), str) and isinstance(row.get("test_list"), list) and "task_id" in row


def found(path: Path) -> Iterator[Found | Unusable]:
    """The functions of mbpp.jsonl(.gz) that its asserts call. Raises OSError, ValueError."""
    for _, row in json_lines(path):
        if isinstance(row, Exception) or not _has_fields(row):
            raise ValueError("a line is no object with `task_id`, `text`, `code` and `test_list`")
        if row["task_id"] not in IDS or row.get("test_setup_code"):
            continue
        source, asserts = row["code"].replace("\r\n", "\n"), "\n".join(map(str, row["test_list"]))
        tree, tests = parsed(source), parsed(asserts)
        called = {node.id for node in ast.walk(tests) if isinstance(node, ast.Name)} if tests else set()
        nodes = [n for n in (tree.body if tree else ()) if isinstance(n, ast.FunctionDef) and n.name in called]
        if not tree or not nodes:
            yield Unusable("its asserts call none of its functions")
            continue
        asked, calls = str(row.get("text") or row.get("prompt") or "").strip(), literal_calls(asserts, nodes[0].name)
        try:
            yield cut_out(f"mbpp/{row['task_id']}", tree, source, nodes[0], asked, calls)
        except Unusable as reason:
            yield reason
