"""What came of builds is kept in one file for all processes, under texts that give one program."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envs.etk.build import result_cache
from envs.etk.build.result_cache import FILE, ResultCache, without_comments
from envs.etk.completion.embedded import FLOW2D

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
from pathlib import Path
from envs.etk.build.result_cache import ResultCache
folder, name = Path(sys.argv[1]), sys.argv[2]
for n in range(20):
    ResultCache(folder).put({f"{name}-{n}-{m}": [name, n, m] for m in range(10)})
"""


def test_several_processes_write_one_file(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in "ab"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    keys = {f"{name}-{n}-{m}": [name, n, m] for name in "ab" for n in range(20) for m in range(10)}
    store = ResultCache(tmp_path)
    assert store.get([*keys, "unknown"]) == keys and store.get([]) == {}
    store.put({"a-0-0": "another", "c": None})
    assert store.get(["a-0-0", "c"]) == {"a-0-0": ["a", 0, 0], "c": None}


def test_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(result_cache, "MAX_ENTRIES", 10)
    store = ResultCache(tmp_path)
    for n in range(30):
        store.put({str(n): n})
    assert store.get([str(n) for n in range(30)]) == {str(n): n for n in range(20, 30)}


@pytest.mark.parametrize("damage", [b"no database" * 500, b""])
def test_a_damaged_file_costs_a_warning(tmp_path, caplog, damage):
    store = ResultCache(tmp_path)
    store.put({"a": 1})
    store.path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert store.get(["a"]) == {}
        store.put({"b": 2})
    assert store.get(["b"]) == ({} if damage else {"b": 2})
    assert [FILE in record.message for record in caplog.records] == ([True] if damage else [])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("int a; // one\nint b; /* two */\n", "int a;\nint b;\n"),
        ("int a; /* one\n two */\nint b;", "int a;\n\nint b;"),
        ('s = "// none"; c = \'"\'; d = "/*"; // one', 's = "// none"; c = \'"\'; d = "/*";'),
        ("f(1'000, L'\"', 0x1p+2, 1.5e-3) // don't", "f(1'000, L'\"', 0x1p+2, 1.5e-3)"),
        ("f(a /* first */, b)", "f(a  , b)"),
        ('s = "it \\\n// goes on"; // one', 's = "it \\\n// goes on";'),
        ("int a; /* never closed // one", "int a; /* never closed"),
        ("x = 1; \t\r\f", "x = 1;"),
        ("x = 1;\u00a0\nx = 2;\u3000", "x = 1;\u00a0\nx = 2;\u3000"),  # an error to a compiler
        # not sure
        ("int a; // it goes \\\n on", None),
        ("int a; /\\\n/ one", None),
        ('s = R"(// none)";', None),
        ("#include <a//b.h>", None),
        ("/* moved */ int a;", None),
        ("/* moved\n */ int a;", None),
        ("int a; // /* within", None),
        ("int a; // ä", None),
        ("case 1: f(); // falls through", None),
        ("auto here = std::source_location::current(); // one", None),
    ],
)
def test_comments_are_left_out_where_that_changes_nothing(text, plain):
    assert without_comments(text) == plain


@pytest.mark.cxx
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not here")
@pytest.mark.parametrize("name", ["init.cpp", "hydro.cpp", "main.cpp", "plotfile.cpp"])
def test_without_its_comments_a_file_gives_the_same_object(tmp_path, name):
    text = (FLOW2D / name).read_text()
    plain = without_comments(text)
    assert plain is not None and len(plain) < len(text)
    objects = []
    for version in (text, plain):
        (tmp_path / name).write_text(version)
        command = ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", "-c", name, "-o", "made.o", f"-I{FLOW2D}"]
        subprocess.run(command, cwd=tmp_path, check=True)
        objects.append((tmp_path / "made.o").read_bytes())
    assert objects[0] == objects[1]
