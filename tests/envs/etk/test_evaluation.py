"""Stored evaluations are only used by the code that made them."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from types import SimpleNamespace

from envs.etk.build import evaluation, prepared_tree
from envs.etk.build.evaluation import Evaluator, FileText
from envs.etk.build.prepared_tree import SCORING_SOURCES
from envs.etk.completion import flow2d
from envs.sandbox import Job, Outcome

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


def test_what_was_killed_once_is_built_again(tmp_path):
    """A build that had no memory beside others' may be right; a compiler's refusal stays one."""

    class KilledOnce:
        calls = 0

        async def run(self, jobs):
            self.calls += 1
            verdict = "killed" if self.calls == 1 else "fail"
            return [Outcome(job.id, verdict, 0, 1, 0.1, note=verdict, stderr="a.cpp:1:1: error: x") for job in jobs]

    sandbox = KilledOnce()
    prepared = SimpleNamespace(digest="d", build_job=lambda name, file, data: Job(name, "command"))
    evaluator = Evaluator(flow2d(), sandbox, tmp_path)

    async def failures() -> list[str]:
        text = FileText("hydro.cpp", b"x")
        return [(await evaluator.evaluate(prepared, [text]))[0].build_failure for _ in range(3)]

    killed, failed, again = asyncio.run(failures())
    assert killed.startswith("build: killed") and failed == again and not failed.startswith("build: killed")
    assert sandbox.calls == 2
