"""Source trees of any size: they travel with every job, or stay where they are."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from pathlib import PurePosixPath

import pytest

from envs.etk.build import jobs, prepared_tree
from envs.etk.build.application import Application, Build, Run
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.build.evaluation import Evaluator, FileText
from envs.etk.build.prepared_tree import prepare
from envs.sandbox import LocalSandbox


@pytest.mark.cxx
@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_MIB"])
@pytest.mark.parametrize("tier", ["full", "landlock"])
def test_a_tree_that_is_too_large_to_travel_stays_where_it_is(tmp_path, monkeypatch, limit, tier):
    """With namespaces it is built in a layer of its own; without, one line says what to do."""
    app = tmp_path / "app"
    (app / ".git").mkdir(parents=True)
    (app / ".git" / "secret").write_text("int answer() { return 5; }\n")
    (app / "large.o").write_bytes(bytes(3 << 20))
    (app / "answer.c").write_text("int answer() { return 5; }\n")
    (app / "main.c").write_text('#include <stdio.h>\nint answer(); int main() { printf("1 %d\\n", answer()); }\n')
    make = "test -e main.o || gcc -c main.c; gcc -c answer.c && gcc -o run main.o answer.o"
    subprocess.run(["/bin/sh", "-c", make], cwd=app, check=True)
    (app / "run").write_text("the program of an earlier build")
    before = {path: path.stat().st_mtime_ns for path in app.rglob("*")}
    metric = Metric(expect=("out.txt",), field="2", format="text")
    made = Application("large", app, Build(make, artifact="run"), Run("./run > out.txt"), metric)
    monkeypatch.setattr(prepared_tree, limit, 2)
    sandbox = LocalSandbox(1, tier=tier)
    try:
        asyncio.run(sandbox.layers())
    except RuntimeError as error:
        pytest.skip(f"this machine does not allow it: {error}")

    async def run() -> list[float | None]:
        evaluator = Evaluator(made, sandbox, tmp_path / "cache")
        prepared = await evaluator.ready()
        bodies = ["return 5;", "return 4;", "return 4", 'return\n#include ".git/secret"\n;']
        texts = [FileText("answer.c", f"int answer() {{ {body} }}\n".encode()) for body in bodies]
        return [result and result.run and result.run.density for result in await evaluator.evaluate(prepared, texts)]

    if tier == "landlock":
        with pytest.raises(ApplicationError, match=r"^source_dir=\S+ is too large to be copied: .*namespaces.*strip -"):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == [1.0, pytest.approx(0.8), None, None]
    asyncio.run(sandbox.close())
    assert before == {path: path.stat().st_mtime_ns for path in app.rglob("*")}


@pytest.mark.parametrize("tier", ["landlock", "full"])
def test_a_tree_of_many_files_is_built_and_one_that_builds_too_many_says_so(tmp_path, monkeypatch, tier):
    (tmp_path / "tree").mkdir()
    for number in range(1500):
        (tmp_path / "tree" / f"{number}.h").touch()
    sandbox = LocalSandbox(1, tier=tier)
    try:
        asyncio.run(sandbox.layers())
    except RuntimeError as error:
        pytest.skip(f"this machine does not allow it: {error}")
    application = Application(
        "x", tmp_path / "tree", Build("touch prog", artifact="prog"), Run("touch out.txt"), Metric(expect=("out.txt",))
    )
    with pytest.raises(ApplicationError, match=r"out\.txt"):  # built and run, without an expected plotfile
        asyncio.run(prepare(application, sandbox, tmp_path / "cache"))
    copying = Build("mkdir new && for i in 1 2; do cp -r *.h new && mv new $i && mkdir new || exit 1; done")
    for module in (prepared_tree, jobs):
        monkeypatch.setattr(module, "MAX_FILES", 1600)
    with pytest.raises(ApplicationError, match=r"^x, unchanged: .*; its 1500 files and folders and .* too many .+$"):
        asyncio.run(prepare(dataclasses.replace(application, build=copying), sandbox, tmp_path / "cache"))
    asyncio.run(sandbox.close())


@pytest.mark.parametrize(
    ("settings", "hidden", "seen"),
    [
        (
            {"format": "text", "expect": ("out/heat_001.txt",)},
            ("heat_001.txt", "a/out/heat_001.txt"),
            ("heat_000.txt", "heat_001.txt/x", "input/heat_001.txt"),
        ),
        (
            {"format": "amrex", "expect": ("plt00001",)},
            ("plt00001/Header", "a/plt00001", "plt00001.old.17/Level_0/Cell_D"),
            ("plt00002/Header", "plt00001.txt"),
        ),
        (
            {"format": "cactus", "expect": ("TestLoop",)},
            ("TestLoop/x.xl", "arrangements/A/T/test/TestLoop/x.xl"),
            ("arrangements/Carpet/TestLoop/src/make.code.defn",),
        ),
    ],
    ids=["text", "amrex", "cactus"],
)
def test_a_build_does_not_see_the_results_of_earlier_runs(tmp_path, settings, hidden, seen):
    metric = Metric(field="x", **settings)
    made = Application("x", tmp_path, Build("make"), Run("./x", inputs=["input/*"]), metric)

    def result(name: str, file: str | None = "src/a.cpp") -> bool:
        return prepared_tree._is_result(made, file, PurePosixPath(name))

    assert all(map(result, hidden)) and not any(map(result, seen))
    assert not any(result(name, None) for name in hidden)  # the unchanged application is built with all files
    assert not result(f"{settings['expect'][0]}", f"{settings['expect'][0]}/src/a.cpp")


def test_folders_of_results_in_a_large_tree_are_hidden_whole(tmp_path, monkeypatch):
    """A job names what it does not see, and there is a limit on the length of its request."""
    for number in range(50):
        path = tmp_path / "app" / "plt00001" / "Level_0" / f"Cell_D_{number:05d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "app" / "a.cpp").touch()
    monkeypatch.setattr(prepared_tree, "MAX_FILES", 2)
    made = Application("x", tmp_path / "app", Build("make"), Run("./x"), Metric(expect=("plt00001",)))
    tree = prepared_tree._source(made)
    assert tree.tree("a.cpp").hidden == ("plt00001", "a.cpp") and "plt00001" not in tree.tree(None).hidden
