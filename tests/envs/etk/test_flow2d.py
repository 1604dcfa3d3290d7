"""The embedded simulation, built and run: what the specification expects of it, and how completions are kept apart."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import shutil
import subprocess
import tarfile

import pytest

from envs.etk.build.composite import uniform
from envs.etk.build.evaluation import Seconds
from envs.etk.build.outputs import Folder
from envs.etk.build.plotfile import Plotfile
from envs.etk.build.result_cache import FILE
from envs.etk.completion import (
    Application,
    ApplicationError,
    Case,
    CompletionScore,
    CompletionScorer,
    Metric,
    Request,
    flow2d,
    flow2d_cases,
)
from envs.etk.completion.cases import Gap
from envs.etk.completion.check import faults, measure
from envs.etk.completion.embedded import FLOW2D

pytestmark = pytest.mark.cxx

HLL = "flux[k] = (mean + fastest * slowest * jump) / width;"
HEUN = "state(i, j)[k] = 0.5 * (state(i, j)[k] + second(i, j)[k]);"
STEP = "return options.cfl * state.h / fastest;"
SET_DENSITY = "cell[Density] = gas.density;"
CHANGES = {
    # what: (file, line, lines masked, completion, execution, header, density)
    "original": ("hydro.cpp", HLL, 1, HLL, 1, 1.0, 1.0),
    "HLL dissipation * 0.9": ("hydro.cpp", HLL, 1, HLL.replace("fastest", "0.9 * fastest"), 1, 1.0, 0.998),
    "first order in time": ("hydro.cpp", HEUN, 1, "state(i, j)[k] = first(i, j)[k];", 1, 1.0, 0.990),
    "step doubled": ("hydro.cpp", STEP, 1, STEP.replace("options", "2.0 * options"), 1, 0.873, 0.997),
    "0.95 * density": ("init.cpp", SET_DENSITY, 1, SET_DENSITY.replace("gas", "0.95 * gas"), 1, 0.898, 0.948),
    "momentum lines removed": ("init.cpp", "cell[MomentumX] =", 2, "", 1, 0.873, 0.854),
    "final stage removed": ("hydro.cpp", HEUN, 1, "", 1, 0.898, 0.812),
    "flux returns zero": ("hydro.cpp", "flux[Density] = cell[MomentumX];", 4, "", 1, 0.898, 0.812),
    "final stage factor 0.49": ("hydro.cpp", HEUN, 1, HEUN.replace("0.5", "0.49"), 1, 1.0, 0.29),
    "initial data removed": ("init.cpp", SET_DENSITY, 4, "", 0, 0, 0),
    "negative density": ("init.cpp", SET_DENSITY, 1, "cell[Density] = -gas.density;", 0, 0, 0),
    "wrong sign in the HLL flux": ("hydro.cpp", HLL, 1, HLL.replace("+", "-"), 0, 0, 0),
    "step x 10": ("hydro.cpp", STEP, 1, STEP.replace("options", "10.0 * options"), 0, 0, 0),
    "out-of-range write": ("hydro.cpp", HEUN, 1, "state(i + 1000000, j)[k] = 1.0;", 0, 0, 0),
    "wild pointer": ("hydro.cpp", HEUN, 1, "*reinterpret_cast<double*>(8) = 1.0;", 0, 0, 0),
    "uncaught exception": ("hydro.cpp", HEUN, 1, "throw 1;", 0, 0, 0),
}
BROKEN = {
    "missing semicolon": ("hydro.cpp", HLL, 1, HLL[:-1]),
    "undeclared function": ("hydro.cpp", HLL, 1, "flux[k] = hllc(left, right);"),
    "no return": ("hydro.cpp", STEP, 1, ""),
}


def test_the_expected_behaviour(scoring):
    """The table of section 6: each change's scores, and the order of the damage."""
    requests = [(scoring.at(file, first, count), text) for file, first, count, text, *_ in CHANGES.values()]
    results = dict(zip(CHANGES, scoring.all(*requests), strict=True))
    for what, score in results.items():
        *_, execution, header, density = CHANGES[what]
        assert (what, score.compile, score.execution) == (what, 1.0, execution)
        assert (what, score.density) == (what, pytest.approx(density, abs=0.002))
        assert (what, score.header) == (what, pytest.approx(header, abs=0.001))
        assert score.total == pytest.approx((1 + execution + score.header + score.density) / 4)
    totals = [score.total for score in results.values()]
    assert totals == sorted(totals, reverse=True)
    assert results["original"].total == results["original"].skill == 1.0
    assert results["final stage removed"].skill == 0.0
    assert results["final stage removed"].density == pytest.approx(results["original"].baseline)
    for what in ("negative density", "step x 10"):
        assert "ended with status" in results[what].reasons[0]


def test_what_does_not_compile(scoring):
    requests = [(scoring.at(file, first, count), text) for file, first, count, text in BROKEN.values()]
    semicolon, undeclared, nothing = scoring.all(*requests)
    for score in (semicolon, undeclared, nothing):
        assert (score.compile, score.execution, score.header, score.density, score.total) == (0.0,) * 5
        assert score.reasons[0].startswith("build: fail")
    [error] = [message for message in undeclared.messages if message.severity == "error"]
    assert "hllc" in error.text and (error.line, error.column, error.offset) == (1, 11, 10)
    assert any(message.offset == len(HLL) - 1 for message in semicolon.messages)
    assert all(message.offset is None for message in nothing.messages)


def test_the_same_program_is_not_run_again(scoring):
    case = scoring.at("hydro.cpp", HLL)
    original = scoring.scorer.gap(case).original
    first, spaced = scoring.one(case, original), scoring.one(case, f"\n    {HLL}  // as it was\n")
    assert spaced.total == first.total == 1.0
    assert (first.exact, first.line_count_match) == (True, True)
    assert spaced.seconds.run == 0.0 < spaced.seconds.compile
    assert (spaced.exact, spaced.line_count_match) == (False, False)


def test_a_sample_of_the_cases_scores_as_expected(scoring):
    cases = flow2d_cases()[::26]
    assert len(cases) >= 3
    for case, scores in zip(cases, asyncio.run(measure(scoring.scorer, cases)), strict=True):
        assert faults(case, scores) == []


def test_a_program_without_end(scoring):
    quick = dataclasses.replace(flow2d(), run=dataclasses.replace(flow2d().run, timeout=2.0))
    scorer = CompletionScorer(quick, scoring.scorer.evaluator.sandbox, scoring.scorer.evaluator.cache)
    request = Request(scoring.at("hydro.cpp", HEUN), "for (volatile int forever = 1; forever;) {}")
    [score] = asyncio.run(scorer.score([request]))
    assert (score.total, score.execution) == (0.25, 0.0) and score.reasons[0].startswith(
        ("run: timeout", "run: killed")
    )


def test_builds_that_do_not_end_or_take_all_memory(scoring, tmp_path):
    """E4: the time limit ends what make has started; a header without end fills no more than a compiler may have."""
    short = dataclasses.replace(flow2d().build, timeout=8.0, memory_mib=1024)
    application = dataclasses.replace(flow2d(), build=short)
    scorer = CompletionScorer(application, scoring.scorer.evaluator.sandbox, scoring.scorer.evaluator.cache)
    endless = Request(scoring.at("Makefile", "@echo SUCCESS"), "\t@sleep 100; echo SUCCESS")
    hungry = Request(scoring.at("hydro.cpp", HEUN), '#include "/dev/zero"')
    slow, full = asyncio.run(scorer.score([endless, hungry]))
    assert (slow.total, full.total) == (0.0, 0.0)
    assert slow.reasons[0].startswith("build: timeout") and full.reasons[0].startswith("build: ")


def density_of(plotfile):
    field = plotfile.field("density")
    return uniform(field, field.finest_shape)


def test_mass_stays_and_optimisation_changes_nothing(tmp_path):
    """The check of section 6; what is built here is the simulation as it is."""
    for program in ("g++", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    densities = {}
    for level in ("-O0", "-O2"):
        folder = shutil.copytree(FLOW2D, tmp_path / level)
        flags = f"CXXFLAGS=-std=c++17 {level} -fwrapv -ffp-contract=off"
        subprocess.run(["make", "-C", folder, flags], check=True, capture_output=True)
        subprocess.run(["./flow", "inputs"], cwd=folder, check=True, capture_output=True)
        outputs = Folder(folder)
        densities[level] = [density_of(Plotfile(outputs, f"plt{n:05d}")) for n in range(6)]
    for plain, optimised in zip(densities["-O0"], densities["-O2"], strict=True):
        assert plain.tobytes() == optimised.tobytes()
        assert plain.sum() == pytest.approx(densities["-O0"][0].sum(), rel=1e-13)
    assert (densities["-O0"][0] != densities["-O0"][5]).any()


def test_the_private_copy_has_no_answer_in_it(scoring):
    """The prebuilt objects are there with their time stamps, but for those of the masked file."""
    prepared = asyncio.run(scoring.scorer.ready())
    job = prepared.build_job("x", "hydro.cpp", b"int nothing;")
    with tarfile.open(fileobj=io.BytesIO(job.files["tree.tar"])) as tree:
        times = {member.name: member.mtime for member in tree}
        assert all(b"fastest * slowest" not in tree.extractfile(name).read() for name in times)
    assert {"init.o", "main.o", "init.cpp", "flow.h", "Makefile"} <= set(times)
    assert not {"hydro.o", "hydro.cpp", "flow", "cases.jsonl"} & set(times)
    assert times["init.o"] >= times["init.cpp"]


def test_only_the_masked_file_is_compiled_and_the_source_stays(scoring):
    before = {path.name: path.stat().st_mtime_ns for path in FLOW2D.iterdir()}
    prepared = asyncio.run(scoring.scorer.ready())
    text = (FLOW2D / "init.cpp").read_bytes() + b"\n"
    job = prepared.build_job("x", "init.cpp", text)
    plan = dataclasses.replace(
        job, commands=(*job.commands[:2], ("/bin/sh", "-c", "cd tree && make -n | grep -c -e ' -c '"))
    )
    [outcome] = asyncio.run(scoring.scorer.evaluator.sandbox.run([plan]))
    assert outcome.stdout == "1\n"
    assert outcome.verdict == "pass"
    assert before == {path.name: path.stat().st_mtime_ns for path in FLOW2D.iterdir()}


class Counting:
    """A sandbox that keeps the jobs it was given, by kind of job."""

    def __init__(self, sandbox):
        self.sandbox, self.builds, self.runs = sandbox, [], []

    async def run(self, jobs, progress=None):
        for job in jobs:
            (self.builds if job.id.endswith("/build") else self.runs).append(job.id)
        return await self.sandbox.run(jobs, progress)

    async def describe(self):
        return await self.sandbox.describe()


def test_what_is_asked_for_at_the_same_time_is_built_and_run_once(scoring, tmp_path):
    """And the two that differ do not mix, though both are built at once."""
    sandbox = Counting(scoring.scorer.evaluator.sandbox)
    scorer = CompletionScorer(flow2d(), sandbox, tmp_path)
    case = scoring.at("hydro.cpp", HEUN)
    good, spaced, bad = Request(case, HEUN), Request(case, f"  {HEUN}"), Request(case, "return 1;")

    async def ask():
        return await asyncio.gather(scorer.score([good, bad]), scorer.score([good, spaced]), scorer.score([bad, good]))

    results = [[score.total for score in scores] for scores in asyncio.run(ask())]
    assert results == [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    # the source as it is, without the masked lines, and what was asked for
    assert (len(sandbox.builds), len(sandbox.runs)) == (1 + 1 + 3, 1 + 1 + 1)


def test_lines_without_which_the_program_never_ends_are_left_out_twice(scoring, tmp_path):
    """Not once for each answer: a timeout is tried once more, since the machine may have been busy."""
    quick = dataclasses.replace(flow2d(), run=dataclasses.replace(flow2d().run, timeout=1.0))
    sandbox = Counting(scoring.scorer.evaluator.sandbox)
    scorer = CompletionScorer(quick, sandbox, tmp_path)
    case = scoring.at("main.cpp", "time = last ? end")
    asyncio.run(scorer.ready())
    counts = []
    for _ in range(4):
        [score] = asyncio.run(scorer.score([Request(case, "time = end;")]))
        counts.append(len(sandbox.runs))
        assert score.left_out == 0
    assert counts[3] == counts[2] == counts[1] == counts[0] + 1


def test_an_edit_of_the_source_does_not_move_the_masked_lines(scoring, tmp_path):
    """Prompts and the built tree are of the source as it was."""
    shutil.copytree(flow2d().source_dir, tmp_path / "source")
    application = dataclasses.replace(flow2d(), source_dir=tmp_path / "source")
    scorer = CompletionScorer(application, scoring.scorer.evaluator.sandbox, tmp_path / "cache")
    case = scoring.at("hydro.cpp", HEUN)
    before = scorer.gap(case).original
    file = tmp_path / "source" / "hydro.cpp"
    file.write_text(f"// a new first line\n{file.read_text()}")
    assert scorer.gap(case).original == before
    assert Gap.of(case, tmp_path / "source").original != before


UNUSED = f"{HEUN}   int unused = 1;"


def test_what_was_scored_once_is_neither_built_nor_run_in_another_process(scoring, tmp_path):
    """Another scorer stands for it: nothing but the folder is common."""
    case = scoring.at("hydro.cpp", HEUN)
    below = dataclasses.replace(case, id="below", start=case.start - 1)
    above = scoring.scorer.gap(below).original.split("\n")[0]
    half, endless = HEUN.replace("0.5", "0.49"), "for (volatile int forever = 1; forever;) {}"
    texts = [HEUN, half, "return 1;", UNUSED, endless]
    quick = dataclasses.replace(flow2d(), run=dataclasses.replace(flow2d().run, timeout=2.0))

    def scored(application, *requests, keep=True):
        sandbox = Counting(scoring.scorer.evaluator.sandbox)
        scorer = CompletionScorer(application, sandbox, tmp_path, keep)
        return asyncio.run(scorer.score([Request(*request) for request in requests])), sandbox

    first, _ = scored(quick, *((case, text) for text in texts))
    again, sandbox = scored(quick, *((case, text) for text in texts))
    times = [dataclasses.replace(score, seconds=Seconds()) for score in first]
    assert [dataclasses.replace(score, seconds=Seconds()) for score in again] == times
    assert again[2].messages[0].offset == 7 and again[3].messages[0].severity == "warning"
    assert [score.seconds for score in again[:4]] == [Seconds()] * 4
    assert (len(sandbox.builds), len(sandbox.runs)) == (1, 1)  # a clock ended it: another day it may end by itself
    # the same file from another gap, and one that differs in a comment: known, with facts of their own
    (whole, spoken), sandbox = scored(quick, (below, f"{above}\n{half}"), (case, f"{half}  // Heun's, nearly"))
    assert len(sandbox.builds) == 1  # without the lines of the other gap
    assert whole.density == spoken.density == first[1].density
    assert whole.line_count_match and spoken.line_count_match and not spoken.exact
    # where the compiler warns, a place is told: that of another text is not taken for it
    (warned,), sandbox = scored(quick, (case, f"{HEUN} /**/ int unused = 1;"))
    assert len(sandbox.builds) == 1 and warned.messages[0].column == first[3].messages[0].column + 3
    # another metric, another program's limits, or none of it wanted
    weighted = dataclasses.replace(quick, metric=Metric(weights={"density": 1.0}))
    (score,), sandbox = scored(weighted, (case, half))
    assert sandbox.builds == [] and score.total == score.density == first[1].density
    (other,), sandbox = scored(dataclasses.replace(quick, metric=Metric(field="xmom")), (case, half))
    assert len(sandbox.builds) == len(sandbox.runs) == 2  # with what is asked for and without the masked lines
    assert other.density != first[1].density
    assert len(scored(quick, (case, half), keep=False)[1].builds) == 2


def test_outputs_that_nobody_foresaw_end_no_training(scoring, tmp_path, monkeypatch, caplog):
    scorer = CompletionScorer(flow2d(), scoring.scorer.evaluator.sandbox, tmp_path)
    prepared = asyncio.run(scorer.ready())

    def score(outputs):
        raise IndexError("list index out of range")

    monkeypatch.setattr(prepared.reference, "score", score)
    [results] = asyncio.run(scorer.score([Request(scoring.at("hydro.cpp", HEUN), HEUN)]))
    assert (results.compile, results.execution, results.total) == (1.0, 0.0, 0.25)
    assert "cannot be compared" in results.reasons[0] and "IndexError" in caplog.text


def test_a_failure_is_not_kept(scoring, tmp_path):
    class Failing(Counting):
        async def run(self, jobs, progress=None):
            return [dataclasses.replace(outcome, verdict="error") for outcome in await super().run(jobs, progress)]

    case = scoring.at("hydro.cpp", HEUN)
    asyncio.run(CompletionScorer(flow2d(), scoring.scorer.evaluator.sandbox, tmp_path).ready())
    failing = CompletionScorer(flow2d(), Failing(scoring.scorer.evaluator.sandbox), tmp_path)
    assert asyncio.run(failing.score([Request(case, HEUN)])) == [None]
    working = CompletionScorer(flow2d(), scoring.scorer.evaluator.sandbox, tmp_path)
    [score] = asyncio.run(working.score([Request(case, HEUN)]))
    assert score.total == 1.0 and score.seconds.compile > 0


def test_two_simultaneous_builds_do_not_mix(scoring, tmp_path):
    """Each in a sandbox's folder of its own, by scorers that share a cache which neither has filled before."""
    together = asyncio.Barrier(2)

    class Together(Counting):
        """Begins each job only when the other scorer has one as well."""

        async def run(self, jobs, progress=None):
            await together.wait()
            return await super().run(jobs, progress)

    case = scoring.at("hydro.cpp", HEUN)
    scorers = [CompletionScorer(flow2d(), Together(scoring.scorer.evaluator.sandbox), tmp_path) for _ in range(2)]

    async def ask():
        texts = HEUN.replace("0.5", "0.49"), ""
        return await asyncio.gather(
            *(scorer.score([Request(case, text)]) for scorer, text in zip(scorers, texts, strict=True))
        )

    [[half], [nothing]] = asyncio.run(asyncio.wait_for(ask(), 100))
    assert (half.density, nothing.density) == (pytest.approx(0.29, abs=0.002), pytest.approx(0.812, abs=0.002))
    assert half.header == 1.0 and len(list(tmp_path.glob("flow2d-*"))) == 1


def test_a_run_that_is_late_is_compared_at_equal_times(scoring):
    """The first output's time lies between the run's initial state and its own first output."""
    application = dataclasses.replace(flow2d(), metric=Metric(compare="mean"))
    scorer = CompletionScorer(application, scoring.scorer.evaluator.sandbox, scoring.scorer.evaluator.cache)
    case = scoring.at("main.cpp", "const double end = output * options.interval;")
    [late] = asyncio.run(scorer.score([Request(case, "const double end = 1.5 * output * options.interval;")]))
    assert late.time_mismatch and late.density < 0.9 and 0.95 < late.equal_time < 1.0


def test_a_sandbox_that_fails_gives_no_score(scoring):
    class Failing:
        """Says of each job that it could not be graded."""

        async def run(self, jobs, progress=None):
            real = await scoring.scorer.evaluator.sandbox.run(jobs)
            return [dataclasses.replace(outcome, verdict="error") for outcome in real]

    scorer = CompletionScorer(flow2d(), scoring.scorer.evaluator.sandbox, scoring.scorer.evaluator.cache, keep=False)
    asyncio.run(scorer.ready())
    scorer.evaluator.sandbox = Failing()
    request = Request(scoring.at("hydro.cpp", HEUN), "")
    assert asyncio.run(scorer.score([request, request])) == [None, None]
    scorer.evaluator.sandbox = scoring.scorer.evaluator.sandbox
    assert isinstance(asyncio.run(scorer.score([request]))[0], CompletionScore)


def test_a_tree_of_the_users_own(scoring, tmp_path):
    """Through plain configuration: a build log, a stored reference, another field, all plotfiles compared."""
    tree = tmp_path / "tree" / "source"
    shutil.copytree(FLOW2D, tree)
    config = {
        "name": "mine",
        "source_dir": tmp_path / "tree",
        "build": {
            "command": "make > build.log 2>&1",
            "cwd": "source",
            "log": "source/build.log",
            "success_regex": "SUCCESS",
            "artifact": "source/flow",
        },
        "run": {"command": "./flow inputs", "inputs": ["source/inputs"], "expect": ["plt00001", "plt00002"]},
        "field": "xmom",
        "norm": "l2",
        "compare": "mean",
    }
    scoring.one(scoring.at("hydro.cpp", HEUN), HEUN)
    reference = next(scoring.scorer.evaluator.cache.glob("flow2d-*/reference"))
    application = Application.from_config({**config, "reference": str(reference)})
    scorer = CompletionScorer(application, scoring.scorer.evaluator.sandbox, tmp_path / "cache")
    lines = (tree / "hydro.cpp").read_text().split("\n")
    [place] = [number for number, line in enumerate(lines) if line.strip() == HEUN]
    case = Case("x", "source/hydro.cpp", place, place + 1)
    good, bad, none = asyncio.run(scorer.score([Request(case, text) for text in (HEUN, "", "return 1;")]))
    assert good.total == 1.0 and bad.skill == 0.0 < bad.density < 1.0 and none.total == 0.0
    [error] = [message for message in none.messages if message.severity == "error"]
    assert error.offset == 7
    (tree / "init.cpp").write_text("int broken")
    with pytest.raises(ApplicationError, match="mine, unchanged: build: fail"):
        asyncio.run(CompletionScorer(application, scoring.scorer.evaluator.sandbox, tmp_path / "cache").ready())
    assert {path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()} == {"mine", FILE}
    assert len(list((tmp_path / "cache").glob("mine-*"))) == 1
