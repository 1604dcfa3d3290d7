"""The compile channel on real thorns: references get 1, errors cost their lines, what cannot be checked is silent."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from envs.etk.task import Etk
from envs.task import TaskError
from recipes.cli.schema import as_dict
from rewards.attribution import attribute
from rewards.channel import Completion
from rewards.compilation import Compilation
from tests.envs.etk.cactus_tree import prepared_tree
from tests.recipes.test_configs import compose

pytestmark = pytest.mark.cxx


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    return prepared_tree(tmp_path_factory.mktemp("trees") / "Cactus")


def channel(sandbox, tree: Path, cache: Path, mode: str = "syntax") -> Compilation:
    """As conf/task/etk.yaml has it."""
    spec = as_dict(compose("task=etk").task.reward)["compile"]
    assert spec.pop("enabled") is False and spec.pop("sandbox") and spec.pop("_target_").endswith(".Compilation")
    del spec["weight"]
    return Compilation(sandbox, **(spec | {"workdir": str(tree), "mode": mode, "cache": str(cache)}))


def problems() -> dict:
    task = Etk()
    return {p.id.removeprefix("etk/NRPy/"): p for side in ("train", "test") for p in task.problems(side)}


def answer(code: str) -> Completion:
    offsets = [(results.start(), results.end()) for results in re.finditer(r"\s*\S+|\s+$", code)]
    return Completion(code, range(len(offsets)), offsets, (0, len(code)))


def score(compiles: Compilation, problem, *codes: str):
    return asyncio.run(compiles.score([problem] * len(codes), [answer(code) for code in codes]))


def test_references_compile_and_an_error_costs_the_line_that_the_compiler_names(tree, sandbox, tmp_path):
    matches = problems()
    compiles = channel(sandbox, tree, tmp_path)
    every = list(matches.values())
    results = asyncio.run(compiles.score(every, [answer(p.reference) for p in every]))
    judged = {name for name, result in zip(matches, results, strict=True) if not result.silent}
    assert all(r.score == 1 and r.verdict == "compiles" for r in results if not r.silent)
    assert {Path(name).suffix for name in judged} == {".c", ".cxx", ".h"} and len(judged) >= 10
    assert not any("make.code" in name for name in judged)
    problem = matches["WaveToyNRPy/WaveToyNRPy_rhs_eval.c"]
    line = "  const REAL_SIMD_ARRAY invdxx0 = ConstSIMD(NOSIMDinvdxx0);"
    wrong = problem.reference.replace(line, line.replace("NOSIMDinvdxx0", "nothing"))
    [result] = score(compiles, problem, wrong)
    assert result.score == 0 and "nothing" in result.note and result.detail == {"compiles": 0.0}
    [charged] = [wrong[s.start : s.end] for s in result.spans if s.value < 0]
    assert charged == line.replace("NOSIMDinvdxx0", "nothing").strip()
    rewards = attribute(answer(wrong), result)
    assert sum(rewards) == pytest.approx(0) and min(rewards) < 0 < max(rewards)


def test_code_without_a_token_earns_nothing_and_an_open_end_costs_the_last_line(tree, sandbox, tmp_path):
    compiles = channel(sandbox, tree, tmp_path)
    problem = problems()["WaveToyNRPy/WaveToyNRPy_zero_rhss.c"]
    empty, comment, cut = score(compiles, problem, "", "/* all of it */\n", "int f(void) {\n  return 0;\n\n\n")
    assert [r.score for r in (empty, comment, cut)] == [0, 0, 0]
    assert [r.verdict for r in (empty, comment, cut)] == ["no code", "no code", "does not compile"]
    assert [cut.spans[1].start, cut.spans[1].end] == [16, 25]


def test_a_file_without_what_its_thorn_needs_scores_nothing(tree, sandbox, tmp_path):
    """8: a semicolon or a lone include compiled, and scored 1."""
    compiles = channel(sandbox, tree, tmp_path)
    problem = problems()["WaveToyNRPy/WaveToyNRPy_zero_rhss.c"]
    static = problem.reference.replace("void WaveToyNRPy_zero_rhss(", "static void WaveToyNRPy_zero_rhss(")
    empty = '#include "cctk.h"\n#include "cctk_Arguments.h"\nvoid WaveToyNRPy_zero_rhss(CCTK_ARGUMENTS) {}\n'
    useless = [";\n", '#include "cctk.h"\n', "int other;\n", static]
    *others, attempt, right = score(compiles, problem, *useless, empty, problem.reference)
    assert [each.score for each in others] == [0, 0, 0, 0]
    assert "wavetoynrpy_zero_rhss, which it does not define" in others[0].note and others[0].spans == ()
    assert (attempt.score, right.score) == (1, 1)


def test_what_is_not_there_is_said_in_one_line(tmp_path, sandbox):
    with pytest.raises(TaskError, match=r"workdir=None: no such folder; give a configured and built Cactus tree"):
        Compilation(sandbox, None)
    with pytest.raises(TaskError, match=r"mode=link: .*syntax or build"):
        Compilation(sandbox, str(tmp_path), mode="link")


def test_a_tree_without_the_files_is_found_before_anything_is_checked(tree, sandbox, tmp_path, caplog):
    asked = list(problems().values())
    asyncio.run(channel(sandbox, tree, tmp_path).ready(asked))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    empty = tmp_path / "empty"
    shutil.copytree(tree / "configs/sim/config-data", empty / "configs/sim/config-data")
    with pytest.raises(TaskError, match=r"compile: no arrangements/NRPy/\S+ in .*empty, and no other"):
        asyncio.run(channel(sandbox, empty, tmp_path).ready(asked))
    shutil.copytree(tree / "arrangements", empty / "arrangements", symlinks=False)
    with caplog.at_level("WARNING"):
        asyncio.run(channel(sandbox, empty, tmp_path).ready(asked))
    [warned] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "none of the first 4 references compiles in this tree: " in warned.getMessage()
