"""Cactus's test suites: a run's output beside stored data, within the tolerances of test.ccl."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from envs.etk.build.application import Application, Build, Run
from envs.etk.build.cactus_tests import TestSuite, Tolerances, _agree
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.build.evaluation import Evaluator, FileText
from envs.etk.build.outputs import Folder, InMemory

CCL = """
ABSTOL 1.e-7
RELTOL 1e-9 ^psi.*[.]xl$   # one variable
TEST fine
{
  ABSTOL 1e-3 phi
  NPROCS 2
}
RELTOL 1e-5 rho
"""
PHI = '"Time = 0.0\n0.0\t1.0\n0.5\t-2.0\n\n"Time = 0.1\n0.0 1.1\n'


@pytest.fixture
def stored(tmp_path) -> Path:
    for test in ("fine", "coarse"):
        (tmp_path / test).mkdir()
        (tmp_path / test / "phi.xl").write_text(PHI)
        (tmp_path / test / "psi.xl").write_text("# it value\n0 1.0d+00\n1 nan\n2 done 3\n")
        (tmp_path / test / "mesh.h5").write_bytes(b"\0")
    (tmp_path / "test.ccl").write_text(CCL)
    return tmp_path


def test_a_tests_own_tolerance_counts_before_the_thorns():
    read = Tolerances.of(CCL).get
    assert (read("ABSTOL", "fine", "phi.xl"), read("ABSTOL", "coarse", "phi.xl")) == (1e-3, 1e-7)
    assert (read("RELTOL", "fine", "psi_x.xl"), read("RELTOL", "fine", "x_psi.xl")) == (1e-9, 1e-12)
    assert read("RELTOL", "coarse", "rho.asc") == 1e-5 and Tolerances().get("ABSTOL", "a", "b") == 1e-12
    ccl = "ABSTOL 1e-8 ^rho.*\nABSTOL 1e-12\nRELTOL 1e-7 ^rho\nTEST a\n{\n  RELTOL 1e-5 RHO\n}\n"
    read = Tolerances.of(ccl).get  # whatever the order of lines, and whatever the case
    assert (read("ABSTOL", "a", "rho.x.asc"), read("RELTOL", "a", "rho.x.asc")) == (1e-8, 1e-5)
    assert read("ABSTOL", "a", "phi.x.asc") == 1e-12
    for wrong in ("ABSTOL tiny", "RELTOL 1e-3 ("):
        with pytest.raises(ApplicationError, match=r"test\.ccl: "):
            Tolerances.of(wrong)


def score(stored: Path, **changed: str):
    suite = TestSuite(Folder(stored), Metric(expect=("fine", "coarse"), format="cactus"))
    names = [f"{test}/{name}.xl" for test in ("fine", "coarse") for name in ("phi", "psi")]
    files = {name: (stored / name).read_bytes() for name in names}
    files |= {name.replace("_", "/", 1) + ".xl": text.encode() for name, text in changed.items()}
    return suite.score(InMemory({name: data for name, data in files.items() if data != b"absent"}))


@pytest.mark.parametrize(
    ("changed", "density"),
    [
        ({}, 1.0),
        ({"fine_phi": PHI.replace("-2.0", "-2.0005")}, 1.0),  # within ABSTOL of the test
        ({"fine_phi": PHI.replace("-2.0", "-2.002")}, 0.75),
        ({"coarse_phi": PHI.replace("-2.0", "-2.0005")}, 0.75),
        ({"fine_phi": PHI.replace('"Time = 0.0', "# other comment\n")}, 1.0),
        ({"fine_phi": PHI + "0.5 1.0\n"}, 0.75),
        ({"fine_phi": PHI.replace("1.1", "1.1 0")}, 0.75),
        ({"fine_phi": PHI.replace("1.1", "nan")}, 0.75),
        ({"fine_psi": "0 1\n1 NaN\n2 other 3\n"}, 1.0),
        ({"fine_psi": "0 1\n1 1\n2 done 3\n"}, 0.75),
        ({"fine_psi": "0 1\n1 inf\n2 done 3\n"}, 0.75),
        ({"fine_psi": "0 one\n1 nan\n2 done 3\n", "coarse_phi": "\0\xff"}, 0.5),
    ],
)
def test_files_agree_within_tolerances(stored, changed, density):
    result = score(stored, **changed)
    assert (result.execution, result.density) == (1.0, density) and len(result.reasons) == round(4 * (1 - density))


def test_infinities_have_a_sign():
    assert _agree(["-inf", "1"], ["-inf", "1"], 1e-12, 1e-12) and not _agree(["inf"], ["-inf"], 1e-12, 1e-12)


def test_a_missing_file_is_no_run_and_missing_data_is_named(stored):
    result = score(stored, fine_phi="absent")
    assert result.execution == 0.0 and result.reasons == ("no fine/phi.xl",)
    with pytest.raises(ApplicationError, match="no stored data of the test other"):
        TestSuite(Folder(stored), Metric(expect=("other",), format="cactus"))


PROGRAM = """
#include <stdio.h>
#include <sys/stat.h>
double speed(void);
int main(int count, char **names) {
  mkdir("fine", 0755);
  FILE *file = fopen("fine/phi.xl", "w");
  fprintf(file, "\\"Time = 0.0\\n0.0 %.12g\\n", speed());
  return fclose(file);
}
"""


@pytest.mark.cxx
def test_a_build_is_graded_by_a_thorns_tests(tmp_path, sandbox):
    app = tmp_path / "app"
    (app / "test" / "fine").mkdir(parents=True)
    for name, text in {
        "main.c": PROGRAM, "speed.c": "double speed(void)\n{\n  return 2.0;\n}\n", "test/fine.par": "",
        "test/fine/phi.xl": '"Time = 0.0\n0.0 2.0\n', "test/test.ccl": "RELTOL 1e-6\n",
    }.items():  # fmt: skip
        (app / name).write_text(text)
    run = Run("for par in *.par; do ./cactus_sim $par || exit 1; done", inputs=["test/*.par"])
    application = Application(
        "suite",
        app,
        Build("gcc -o cactus_sim *.c", artifact="cactus_sim"),
        run,
        Metric(expect=("fine",), format="cactus"),
        reference=str(app / "test"),
    )

    async def grade() -> list[float]:
        evaluator = Evaluator(application, sandbox, tmp_path / "cache")
        bodies = ["return 2.0;", "return 2.0000001;", "return 2.1;", "return 2.0"]
        texts = [FileText("speed.c", f"double speed(void)\n{{\n  {body}\n}}\n".encode()) for body in bodies]
        results = await evaluator.evaluate(await evaluator.ready(), texts)
        return [result.run.density if result and result.run else -1.0 for result in results]

    assert asyncio.run(grade()) == [1.0, 1.0, 0.0, -1.0]
