"""Real files of thorns, compiled by real compilers in the sandbox, in a small prepared tree."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from envs.etk.build.cactus_tree import MAX_FILES, CactusTree, Setup, Source
from envs.sandbox import Outcome
from envs.task import TaskError
from tests.envs.etk.cactus_tree import prepared_tree

pytestmark = pytest.mark.cxx
INCLUDES = (
    "-I{folder} -Iarrangements/{thorn}/src -Iconfigs/sim/config-data -Iconfigs/sim/bindings/include -Isrc/include"
)
FLAGS = f"-fsyntax-only -DCCODE -DTHORN_IS_{{name}} -fdiagnostics-column-unit=byte {INCLUDES} {{target}}"
SYNTAX = {"c": f"gcc -std=gnu99 {FLAGS}", "c++": f"g++ {FLAGS}"}
THORN = "NRPy/WaveToyNRPy"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    return prepared_tree(tmp_path_factory.mktemp("Cactus"))


def source(tree: Path, file: str, thorn: str = THORN, **changes) -> Source:
    text = (tree / "arrangements" / thorn / "src" / file).read_text()
    language = {".c": "c", ".cxx": "c++", ".h": "c"}.get(Path(file).suffix, "make")
    return Source(thorn, file, language, changes.pop("text", text))


def checked(compiler: CactusTree, reference: Source, *texts: str):
    sources = [Source(reference.thorn, reference.file, reference.language, text) for text in texts]
    return asyncio.run(compiler.check(sources, [reference] * len(texts)))


def setup(tree: Path, **changes) -> Setup:
    return Setup(workdir=str(tree), **({"command": SYNTAX} | changes))


def test_real_files_compile_and_errors_are_named_at_their_lines(tree, sandbox, tmp_path):
    compiler = CactusTree(setup(tree), sandbox, tmp_path)
    names = sorted(path.name for path in (tree / "arrangements" / THORN / "src").glob("*.c"))
    files = [source(tree, name) for name in names]
    files += [source(tree, "WaveToyNRPyX_zero_rhss.cxx", "NRPy/WaveToyNRPyX")]
    assert len(files) == 9 and asyncio.run(compiler.usable(files)) == [True] * 9
    rhs = source(tree, "WaveToyNRPy_rhs_eval.c")
    wrong = rhs.text.replace("MulSIMD(wavespeed, wavespeed)", "MulSIMD(speed, wavespeed)")
    good, bad, empty = checked(compiler, rhs, rhs.text + "\n/* another */\n", wrong, "")
    assert good.ok and empty.ok and not bad.ok
    [error] = [m for m in bad.messages if m.severity == "error"]
    assert "speed" in error.text and wrong[error.offset :].startswith("speed, wavespeed")


def test_what_does_not_compile_here_is_not_used_and_that_is_remembered(tree, sandbox, tmp_path):
    files = [
        source(tree, "WaveToyNRPyX_rhs_eval.cxx", "NRPy/WaveToyNRPyX"),  # includes what this tree has not
        source(tree, "make.code.defn"),
        Source("NRPy/Nowhere", "a.c", "c", "int a;\n"),
        Source("NRPy/../../etc", "a.c", "c", "int a;\n"),
        source(tree, "WaveToyNRPy_zero_rhss.c"),
    ]
    expected = [False, False, False, False, True]
    assert asyncio.run(CactusTree(setup(tree), sandbox, tmp_path).usable(files)) == expected

    class Closed:
        async def run(self, jobs, progress=None):
            assert not jobs
            return []

    assert asyncio.run(CactusTree(setup(tree), Closed(), tmp_path).usable(files)) == expected


def test_only_what_is_included_travels_and_nothing_of_the_answer(tree, sandbox, tmp_path):
    reference = source(tree, "WaveToyNRPy_rhs_eval.c")
    copy = tree / "src" / "include" / "WaveToyNRPy_rhs_eval.c"
    copy.write_text(reference.text)
    try:
        compiler = CactusTree(setup(tree, files=["*"]), sandbox, tmp_path)
        hack = '#include "../configs/sim/build/WaveToyNRPy/WaveToyNRPy_rhs_eval.c"\n'
        other = '#include "WaveToyNRPy_rhs_eval.c"\n'
        [direct, by_name] = checked(compiler, reference, hack, other)
        assert not direct.ok and not by_name.ok
    finally:
        copy.unlink()
    compiler = CactusTree(setup(tree), sandbox, tmp_path)
    wanted = compiler._needed([reference.text], compiler.setup.target_of(reference))
    assert {Path(name).name for name in wanted} == {
        "cctk.h", "cctk_Arguments.h", "cctk_Config.h", "cctk_Parameters.h", "cctk_Types.h", "simd_intrinsics.h"
    }  # fmt: skip


def test_the_whole_is_built_again_from_a_private_copy(tree, sandbox, tmp_path):
    building = setup(
        tree, command="make sim", files=["*"], expect=["exe/cactus_sim"], success_regex="SUCCESS", timeout=60.0
    )
    compiler = CactusTree(building, sandbox, tmp_path)
    reference = source(tree, "WaveToyNRPy_zero_rhss.c")
    before = {path: os.stat(path).st_mtime_ns for path in tree.rglob("*") if path.is_file()}
    assert asyncio.run(compiler.usable([reference])) == [True]
    texts = reference.text.replace("= 0.0", "= 1.0"), "int other;\n", reference.text.replace("0.0;", "0.0", 1)
    changed, gone, wrong = checked(compiler, reference, *texts)
    assert changed.ok and not gone.ok and not wrong.ok  # a name that the program needs is missing; a syntax error
    [error] = [m for m in wrong.messages if m.severity == "error"]
    assert texts[2].split("\n")[error.line - 1].endswith("= 0.0")
    assert before == {path: os.stat(path).st_mtime_ns for path in tree.rglob("*") if path.is_file()}
    unmet = CactusTree(setup(tree, command="true", files=["*"], expect=["exe/cactus_sim"]), sandbox, tmp_path)
    assert "there is no exe/cactus_sim" in checked(unmet, reference, reference.text)[0].reason


def test_a_failure_of_the_sandbox_is_no_verdict(tree, tmp_path):
    class Broken:
        async def run(self, jobs, progress=None):
            return [Outcome(j.id, "error", 0, 1, 0.0, "worker lost") for j in jobs]

    reference = source(tree, "WaveToyNRPy_zero_rhss.c")
    compiler = CactusTree(setup(tree), Broken(), tmp_path)
    assert asyncio.run(compiler.usable([reference])) == [None]
    assert checked(compiler, reference, "int a;\n") == [None] and not list(tmp_path.iterdir())


def test_who_includes_the_whole_tree_gets_what_the_reference_does(tree, sandbox, tmp_path):
    many = tree / "many"
    many.mkdir()
    try:
        for number in range(MAX_FILES):
            (many / f"m{number}.h").write_text("")
        compiler = CactusTree(setup(tree), sandbox, tmp_path)
        reference = source(tree, "WaveToyNRPy_zero_rhss.c")
        greedy = "".join(f'#include "m{number}.h"\n' for number in range(MAX_FILES)) + reference.text
        assert [each.ok for each in checked(compiler, reference, greedy, reference.text)] == [False, True]
        with pytest.raises(TaskError, match="would travel with each check"):
            CactusTree(setup(tree, files=["*"]), sandbox, tmp_path)
    finally:
        shutil.rmtree(many)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workdir": "/nowhere/Cactus"}, "workdir=/nowhere/Cactus: no such folder"),
        ({"command": "no-such-compiler -c {target}"}, "needs no-such-compiler, which is not installed"),
        ({"command": {"c": ""}}, "needs a program"),
        ({"timeout": 0}, "limits must be positive"),
        ({"success_regex": "("}, "success_regex"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path, settings, message):
    with pytest.raises(TaskError, match=r"task\.reward\.compile") as caught:
        Setup(**({"workdir": str(tmp_path), "command": "true"} | settings))
    assert message in str(caught.value) and "\n" not in str(caught.value)
