"""Benchmarks and pictures are run by hand and seldom: each can at least be imported, with what it imports."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_a_script_can_be_imported(script, monkeypatch):
    name = f"bench_scripts_{script.stem}"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up there
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    spec.loader.exec_module(module)
