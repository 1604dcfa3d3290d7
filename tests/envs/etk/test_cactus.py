"""Real files of thorns, compiled by real compilers in the sandbox, in a small prepared tree."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from envs.etk.build.cactus_tree import MAX_FILES, CactusTree, Setup, Source
from envs.sandbox import LocalSandbox, Outcome
from envs.task import TaskError
from tests.envs.etk.cactus_tree import prepared_tree

pytestmark = pytest.mark.cxx
THORN = "NRPy/WaveToyNRPy"


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    return prepared_tree(tmp_path_factory.mktemp("trees") / "Cactus")


def source(tree: Path, file: str, thorn: str = THORN, **changes) -> Source:
    text = (tree / "arrangements" / thorn / "src" / file).read_text()
    language = {".c": "c", ".cxx": "c++", ".h": "c"}.get(Path(file).suffix, "make")
    return Source(thorn, file, language, changes.pop("text", text))


def checked(compiler: CactusTree, reference: Source, *texts: str):
    sources = [Source(reference.thorn, reference.file, reference.language, text) for text in texts]
    return asyncio.run(compiler.check(sources, [reference] * len(texts)))


def setup(tree: Path, **changes) -> Setup:
    return Setup(workdir=str(tree), **changes)


def test_real_files_compile_and_errors_are_named_at_their_lines(tree, sandbox, tmp_path):
    compiler = CactusTree(setup(tree), sandbox, tmp_path)
    names = sorted(path.name for path in (tree / "arrangements" / THORN / "src").glob("*.c"))
    files = [source(tree, name) for name in names]
    files += [source(tree, "WaveToyNRPyX_zero_rhss.cxx", "NRPy/WaveToyNRPyX")]
    assert len(files) == 9 and asyncio.run(compiler.usable(files)) == [True] * 9
    rhs = source(tree, "WaveToyNRPy_rhs_eval.c")
    wrong = rhs.text.replace("MulSIMD(wavespeed, wavespeed)", "MulSIMD(speed, wavespeed)")
    good, bad, empty = checked(compiler, rhs, rhs.text + "\n/* another */\n", wrong, "")
    assert good.ok and not empty.ok and not bad.ok
    [error] = [m for m in bad.messages if m.severity == "error"]
    assert "speed" in error.text and wrong[error.offset :].startswith("speed, wavespeed")


def test_the_flags_are_those_of_the_configuration(tree, sandbox, tmp_path):
    """Headers of bindings/include/THORN, of src/include, behind arrangements/ and src/include of the flesh;
    CCTK_FNAME; paths that were noted where the tree was configured."""
    moved = tmp_path / "moved" / "Cactus"
    shutil.copytree(tree, moved, symlinks=True)
    for place in (tree, moved):
        compiler = CactusTree(setup(place), sandbox, tmp_path / "cache")
        call, header = source(place, "call.c", "Own/Caller"), source(place, "include/own.h", "Own/Caller")
        assert asyncio.run(compiler.usable([call, header])) == [True, True]
        wrong, missing = checked(compiler, call, call.text.replace("sum = 0", "sum = ,"), ";\n")
        error = next(m for m in wrong.messages if m.severity == "error")
        assert call.text.split("\n")[error.line - 1] == "  CCTK_REAL sum = 0, half = OWN_HALF;"
        assert not missing.ok and "own_call, which it does not define" in missing.reason


def test_a_header_is_checked_through_a_source_that_includes_it(tree, sandbox, tmp_path):
    compiler = CactusTree(setup(tree), sandbox, tmp_path)
    header = source(tree, "include/own.h", "Own/Caller")
    good, bad, without = checked(
        compiler, header, header.text.replace("0.5", "0.25"), header.text.replace("0.5", "0.5 +"), "/* nothing */\n"
    )
    assert (good.ok, bad.ok, without.ok) == (True, False, False)
    assert not compiler.checks(source(tree, "make.code.defn")) and compiler.checks(header)


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

    class Folders:
        """Lists folders, and compiles nothing."""

        async def run(self, jobs, progress=None):
            assert all(job.id.startswith("folders/") for job in jobs)
            return await sandbox.run(jobs)

    assert asyncio.run(CactusTree(setup(tree), Folders(), tmp_path).usable(files)) == expected


def test_only_what_is_included_travels_and_nothing_of_the_answer(tree, sandbox, tmp_path):
    reference = source(tree, "WaveToyNRPy_rhs_eval.c")
    copy = tree / "src" / "include" / "WaveToyNRPy_rhs_eval.c"
    copy.write_text(reference.text)
    try:
        compiler = CactusTree(setup(tree), sandbox, tmp_path)
        made = '#include "../../../../configs/sim/build/WaveToyNRPy/WaveToyNRPy_rhs_eval.c"\n'
        behind = '#include "../../../../repos/nrpy/WaveToyNRPy/src/WaveToyNRPy_rhs_eval.c"\n'
        other = '#include "WaveToyNRPy_rhs_eval.c"\n'
        assert [each.ok for each in checked(compiler, reference, made, behind, other)] == [False] * 3
    finally:
        copy.unlink()
    [place] = compiler._folders
    wanted = compiler._needed([reference.text], reference.target, reference.target, place)
    assert {Path(name).name for name in wanted} == {
        "cctk.h", "cctk_Arguments.h", "cctk_Config.h", "cctk_Parameters.h", "cctk_Types.h", "simd_intrinsics.h"
    }  # fmt: skip
    assert "configs/sim/bindings/include/WaveToyNRPy/cctk_Arguments.h" in wanted


def test_the_whole_is_built_again_in_a_layer_of_its_own(tree, sandbox, tmp_path):
    compiler = CactusTree(setup(tree, mode="build"), sandbox, tmp_path)
    asyncio.run(compiler.ready())
    reference = source(tree, "WaveToyNRPy_zero_rhss.c")
    before = {path: os.stat(path).st_mtime_ns for path in tree.rglob("*") if path.is_file()}
    assert asyncio.run(compiler.usable([reference])) == [True]
    texts = [
        reference.text.replace("= 0.0", "= 1.0"),
        "int other;\n",
        reference.text.replace("0.0;", "0.0", 1),
        '#include "../../../../configs/sim/build/WaveToyNRPy/WaveToyNRPy_zero_rhss.c"\n',
        f'#include "{tree}/repos/nrpy/WaveToyNRPy/src/WaveToyNRPy_zero_rhss.c"\n',
    ]
    changed, gone, wrong, *copied = checked(compiler, reference, *texts)
    assert changed.defined == {"wavetoynrpy_zero_rhss"}
    assert changed.ok and not gone.ok and not wrong.ok  # a name that the program needs is missing; a syntax error
    assert not any(each.ok for each in copied)
    [error] = [m for m in wrong.messages if m.severity == "error"]
    assert texts[2].split("\n")[error.line - 1].endswith("= 0.0")
    assert before == {path: os.stat(path).st_mtime_ns for path in tree.rglob("*") if path.is_file()}


def test_without_namespaces_a_build_says_so_in_one_line(tree, tmp_path):
    landlocked = LocalSandbox(1, tier="landlock")
    try:
        with pytest.raises(
            TaskError, match=r"mode=build: .*needs namespaces: the sandbox's tier is landlock"
        ) as caught:
            asyncio.run(CactusTree(setup(tree, mode="build"), landlocked, tmp_path).ready())
        assert "\n" not in str(caught.value)
    finally:
        asyncio.run(landlocked.close())


def test_a_failure_of_the_sandbox_is_no_verdict(tree, tmp_path):
    class Broken:
        async def run(self, jobs, progress=None):
            return [Outcome(j.id, "error", 0, 1, 0.0, "worker lost") for j in jobs]

    reference = source(tree, "WaveToyNRPy_zero_rhss.c")
    compiler = CactusTree(setup(tree), Broken(), tmp_path)
    assert asyncio.run(compiler.usable([reference])) == [None]
    assert checked(compiler, reference, "int a;\n") == [None] and not list(tmp_path.iterdir())


def test_who_includes_the_whole_tree_gets_what_the_reference_does(tree, sandbox, tmp_path):
    many = tree / "src" / "include" / "many"
    many.mkdir()
    try:
        for number in range(MAX_FILES):
            (many / f"m{number}.h").write_text("")
        compiler = CactusTree(setup(tree), sandbox, tmp_path)
        reference = source(tree, "WaveToyNRPy_zero_rhss.c")
        greedy = "".join(f'#include "many/m{number}.h"\n' for number in range(MAX_FILES)) + reference.text
        assert [each.ok for each in checked(compiler, reference, greedy, reference.text)] == [False, True]
    finally:
        shutil.rmtree(many)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workdir": "/nowhere/Cactus"}, "workdir=/nowhere/Cactus: no such folder"),
        ({"mode": "link"}, "mode=link: unknown mode"),
        ({"timeout": 0}, "compile.timeout=0: must be a positive number"),
        ({}, "it has no configs/*/config-data/make.config.defn"),
        ({"configuration": "other"}, "configuration=other: the tree has sim"),
        ({"mode": "build"}, "no exe/cactus_sim in"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tmp_path, sandbox, settings, message):
    if "configuration" in settings or settings == {"mode": "build"}:
        (tmp_path / "configs/sim/config-data").mkdir(parents=True)
        (tmp_path / "configs/sim/config-data/make.config.defn").write_text("")
    with pytest.raises(TaskError, match=r"task\.reward\.compile") as caught:
        CactusTree(Setup(**({"workdir": str(tmp_path)} | settings)), sandbox, tmp_path)
    assert message in str(caught.value) and "\n" not in str(caught.value)
