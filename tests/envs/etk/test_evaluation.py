"""Stored evaluations are only used by the code that made them."""

from __future__ import annotations

import ast
from pathlib import Path

from envs.etk.build import evaluation, prepared_tree
from envs.etk.build.prepared_tree import SCORING_SOURCES
from envs.etk.completion import flow2d

ROOT = Path(__file__).parents[3]


def imported(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        f"{node.module}.{name.name}" if (ROOT / node.module.replace(".", "/")).is_dir() else node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("envs")
        for name in node.names
    }


def test_the_digest_covers_all_code_that_scores():
    assert Path(evaluation.__file__) in SCORING_SOURCES
    modules = {module for source in SCORING_SOURCES for module in imported(source)}
    files = {ROOT / f"{module.replace('.', '/')}.py" for module in modules if not module.startswith("envs.sandbox")}
    assert files - {ROOT / "envs" / "task.py"} <= set(SCORING_SOURCES)  # of envs.task they use the error class


def test_a_change_of_the_code_changes_the_digest(tmp_path, monkeypatch):
    before = prepared_tree._scoring_digest(flow2d())
    changed = tmp_path / "evaluation.py"
    changed.write_text(Path(evaluation.__file__).read_text() + "# changed\n")
    sources = [changed if path == Path(evaluation.__file__) else path for path in SCORING_SOURCES]
    monkeypatch.setattr(prepared_tree, "SCORING_SOURCES", sources)
    assert prepared_tree._scoring_digest(flow2d()) != before
