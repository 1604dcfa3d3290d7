"""Applications unlike the examples: stale results, links, CMake, names with blanks, mistakes in their description."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from envs.etk.build import prepared_tree
from envs.etk.build.application import Application, Build, Run
from envs.etk.build.compare import ApplicationError, Metric
from envs.etk.build.compiler_messages import compiler_lines, compiler_messages
from envs.etk.build.evaluation import Evaluator, FileText, _compared
from envs.etk.build.formats import FORMATS, PlotfileError
from envs.etk.build.jobs import names_twice, program_of
from envs.etk.build.outputs import InMemory
from envs.etk.build.prepared_tree import Prepared
from envs.etk.completion.__main__ import main
from envs.etk.completion.cases import MARK, Case, Gap, piece_spans
from envs.etk.completion.own_application import read_application
from envs.etk.completion.proposals import candidates
from envs.etk.completion.scorer import CompletionScorer, Request, Scorers
from envs.etk.completion.task import EtkCompletion
from envs.sandbox import LocalSandbox, Outcome

EXAMPLES = Path(__file__).with_name("examples")
FACTOR = Case("factor", "step.cpp", 4, 5)


@pytest.fixture
def heat(tmp_path) -> Path:
    """A copy of the example's folder."""
    shutil.copytree(EXAMPLES / "heat", tmp_path / "heat")
    return tmp_path / "heat"


def application(folder: Path, inputs: tuple[str, ...] = (), **build) -> Application:
    build = {"command": "g++ -O2 -o heat.ex main.cpp step.cpp", "artifact": "heat.ex", **build}
    run = Run("./heat.ex", inputs, success_regex="finished")
    metric = Metric(expect=("heat_001.txt", "heat_002.txt"), format="text", field="u")
    return Application("heat", folder, Build(**build), run, metric)


def scores(made: Application, sandbox, cache: Path, *completions: str, case: Case = FACTOR) -> list[float]:
    scorer = CompletionScorer(made, sandbox, cache)
    cache.mkdir(exist_ok=True)
    return [score.total for score in asyncio.run(scorer.score([Request(case, text) for text in completions]))]


def run_once(folder: Path) -> None:
    """As a user does: results lie beside the sources."""
    subprocess.run(["/bin/sh", "-c", "g++ -O2 -o heat.ex main.cpp step.cpp && ./heat.ex"], cwd=folder, check=True)


@pytest.mark.cxx
@pytest.mark.parametrize("inputs", [("*.txt",), ("*",), ("params.txt", "heat_00?.txt")])
def test_a_pattern_of_inputs_gives_no_result_away(inputs, heat, sandbox, tmp_path):
    run_once(heat)
    (heat / "params.txt").write_text("1\n")
    early = '    std::puts("finished"); std::exit(0); double factor = 0;\n'
    (heat / "step.cpp").write_text("#include <cstdio>\n#include <cstdlib>\n" + (heat / "step.cpp").read_text())
    case = Case("factor", "step.cpp", 6, 7)
    made = application(heat, inputs)
    right, cheat = scores(made, sandbox, tmp_path / "cache", Gap.of(case, heat).original, early, case=case)
    assert right == 1.0 and cheat < 0.5


def test_what_is_named_as_an_input_is_one(heat):
    """A program that reads its last state, and a folder of inputs; a pattern takes no result."""
    files = {f"tree/{name}": b"" for name in ("heat.ex", "in/heat_001.txt", "heat_002.txt")}
    built = Outcome("x", "pass", 1, 1, 0.0, files=files)
    for inputs, names in (
        (("heat_002.txt",), {"heat.ex", "heat_002.txt"}),
        (("in/*",), {"heat.ex", "heat_001.txt"}),
        (("*.txt",), {"heat.ex"}),
    ):
        assert set(program_of(application(heat, inputs), built)) == names


def test_trees_without_a_masked_file_do_not_add_up(heat, monkeypatch):
    """Of many masked files of a large application each would keep a copy of it in memory."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted(heat.iterdir()):
            tar.add(path, path.name)
    prepared = Prepared(application(heat), archive.getvalue(), None, "digest")
    first = prepared.build_job("a", "main.cpp", b"int main() {}")
    prepared.build_job("b", "step.cpp", b"")
    assert list(prepared._trees) == ["main.cpp", "step.cpp"]
    monkeypatch.setattr(prepared_tree, "MOST_KEPT", len(prepared._trees["main.cpp"]))
    assert prepared.build_job("a", "main.cpp", b"int main() {}") == first and list(prepared._trees) == ["main.cpp"]
    assert prepared.build_job("b", "step.cpp", b"").files != first.files and list(prepared._trees) == ["step.cpp"]


def test_two_inputs_of_one_name_are_told(heat):
    """A run has one folder for all: one of the two would be lost."""
    files = {f"tree/{name}": b"" for name in ("heat.ex", "left/params.txt", "right/params.txt")}
    built = Outcome("x", "pass", 1, 1, 0.0, files=files)
    assert names_twice(application(heat, ("left/params.txt", "right/params.txt")), built) == ["params.txt"]


@pytest.mark.parametrize("name", ["u_1.npz", "u_1.npy"])
@pytest.mark.parametrize(
    "header",
    [b"{'descr': '<f8', 'fortran_order': False, 'shape': (10,", b"{[]: 1}", b"{'descr': 3}", b""],
)
def test_no_file_of_a_candidate_ends_the_training(name, header, tmp_path):
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("u.npy", bytes(range(256)) * 9)
    damaged = bytearray(stream.getvalue())
    damaged[40:60] = b"\xff" * 20
    data = member if name.endswith("npy") else bytes(damaged)

    class Reference:
        def score(self, outputs):
            FORMATS["numpy"].read(outputs, name)

        def failed(self, reason):
            return reason

    with pytest.raises(PlotfileError):
        Reference().score(InMemory({name: data}))
    assert "its outputs cannot be compared" in str(_compared(Reference(), InMemory({name: data})))


def test_errors_that_nobody_foresaw_are_damage(caplog):
    class Reference:
        def score(self, outputs):
            raise TypeError("unhashable")

        def failed(self, reason):
            return reason

    assert _compared(Reference(), InMemory({})) == "run: its outputs cannot be compared: unhashable"
    assert "TypeError" in caplog.text


@pytest.mark.cxx
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not here")
def test_a_folder_that_cmake_has_built_in_is_built_again(heat, sandbox, tmp_path):
    (heat / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(heat CXX)\nadd_executable(heat.ex main.cpp step.cpp)\n"
    )
    command = "cmake -S . -B build && cmake --build build"
    subprocess.run(["/bin/sh", "-c", f"{command} && cd build && ./heat.ex"], cwd=heat, check=True, capture_output=True)
    made = application(heat, command=command, artifact="build/heat.ex")
    original = Gap.of(FACTOR, heat).original
    right, wrong = scores(made, sandbox, tmp_path / "cache", original, original.replace("/", "*", 1))
    assert right == 1.0 and wrong < 1.0


@pytest.mark.cxx
def test_where_the_original_lines_do_not_build_nothing_is_trained_on(heat, sandbox, tmp_path):
    """What a build leaves out of a completion's copy, the preparation still has."""
    made = application(heat, discard=["heat.h"])
    task = EtkCompletion(str(_described(heat, tmp_path)), train_size=1)
    problem = task.problems("train")[0]
    wrong = dataclasses.replace(problem, data={**problem.data, "application": made})
    with pytest.raises(ApplicationError, match=r"^heat: with its own lines .* it does not build, .*heat\.h"):
        asyncio.run(Scorers(sandbox, str(tmp_path / "cache")).ready([wrong]))
    asyncio.run(Scorers(sandbox, str(tmp_path / "cache")).ready([problem]))


def _described(folder: Path, where: Path) -> Path:
    for name in ("heat.toml", "heat_cases.jsonl"):
        shutil.copy(EXAMPLES / name, where)
    return where / "heat.toml"


def test_other_sandboxes_have_other_results(heat, sandbox, tmp_path):
    """A tree that holds for one folder fails in another one: its 0 must not be that of a sandbox where it builds."""

    class Elsewhere:
        run = staticmethod(sandbox.run)

        async def describe(self):
            return "sandbox: landlock (rlimits)"

    async def digests() -> list[str]:
        evaluators = [Evaluator(application(heat), each, tmp_path / "cache") for each in (sandbox, Elsewhere())]
        return [(await evaluator.ready()).digest for evaluator in evaluators]

    (tmp_path / "cache").mkdir()
    here, there = asyncio.run(digests())
    assert here != there


@pytest.mark.parametrize(
    ("table", "values", "message"),
    [
        ("build", {"discard": "*.txt"}, r"build\.discard='\*\.txt': must be a list of texts"),
        ("build", {"writable": "src"}, r"build\.writable='src': must be a list"),
        ("run", {"inputs": "inputs"}, r"run\.inputs='inputs': must be a list"),
        ("run", {"inputs": [1]}, r"run\.inputs=\[1\]: must be a list"),
        ("top", {"toolchain": "make"}, r"application\.toolchain='make': must be a list"),
    ],
)
def test_a_text_is_no_list(table, values, message, heat):
    config = {"source_dir": heat, "build": {"command": "make"}, "run": {"command": "./x", "expect": ["a"]}}
    (config if table == "top" else config[table]).update(values)
    with pytest.raises(ApplicationError, match=message):
        Application.from_config(config)


@pytest.mark.parametrize("mark", [MARK, f"{MARK}\r", f"{MARK}  ", f"  {MARK}"])
def test_the_mark_between_places_may_have_blanks(mark, tmp_path):
    (tmp_path / "a.c").write_text("zero\none\ntwo\nthree\n")
    gap = Gap.of(Case("c", "a.c", 1, 2, more=((3, 4),)), tmp_path)
    completion = f"1\n{mark}\n3\n"
    assert [completion[a:b] for a, b in piece_spans(completion, 2)] == ["1\n", "3\n"]
    assert gap.filled(completion).decode().startswith("zero\n1\ntwo\n3\n")
    [message] = gap.messages("a.c:4:1: error: three", completion)
    assert completion[message.offset :] == "3\n" and message.line == 3


@pytest.mark.cxx
def test_a_masked_file_may_be_a_link_or_lie_behind_one(heat, sandbox, tmp_path):
    """The file that it leads to is replaced, so that nobody can include the original."""
    (heat / "common").mkdir()
    (heat / "step.cpp").rename(heat / "common" / "step_impl.cpp")
    (heat / "step.cpp").symlink_to("common/step_impl.cpp")
    (heat / "linked").symlink_to("common")
    made = application(heat, command="g++ -O2 -I. -o heat.ex main.cpp step.cpp")
    original = Gap.of(FACTOR, heat).original
    stolen = '}\n#define advance real_advance\n#include "common/step_impl.cpp"\nvoid f() { int dt, dx;\n' + original
    right, theft = scores(made, sandbox, tmp_path / "cache", original, stolen)
    assert right == 1.0 and theft == 0.0
    behind = Case("behind", "linked/step_impl.cpp", 4, 5)
    assert scores(made, sandbox, tmp_path / "cache", original, "int x = ;", case=behind) == [1.0, 0.0]
    (tmp_path / "outside.cpp").write_text("int a;\n" * 9)
    (heat / "outside.cpp").symlink_to(tmp_path / "outside.cpp")
    with pytest.raises(ApplicationError, match=r"outside\.cpp is a link that leads out of source_dir"):
        Gap.of(Case("outside", "outside.cpp", 1, 2), heat)


@pytest.mark.cxx
def test_inputs_and_programs_may_be_links(heat, sandbox, tmp_path):
    (heat / "conf").mkdir()
    (heat / "conf" / "inputs.1d").write_text("1\n")
    (heat / "inputs").symlink_to("conf/inputs.1d")
    command = "g++ -O2 -o heat-1.0 main.cpp step.cpp && ln -sf heat-1.0 heat.ex"
    made = application(heat, ("inputs",), command=command)
    assert scores(made, sandbox, tmp_path / "cache", Gap.of(FACTOR, heat).original) == [1.0]


def test_a_compiler_that_the_kernel_killed_is_no_result(heat):
    """Also where its output goes to a log."""
    made = dataclasses.replace(application(heat), build=Build("make > build.log 2>&1", log="build.log"))
    evaluator = Evaluator(made, LocalSandbox(1), heat, keep=False)
    log = b"g++: fatal error: Killed signal terminated program cc1plus\n"
    for files, stderr in (({"tree/build.log": log}, ""), ({}, "clang: error: unable to execute command: Killed\n")):
        outcome = Outcome("x", "fail", 0, 1, 0.0, note="command 3 ended with status 2", files=files, stderr=stderr)
        assert not evaluator._built(outcome).repeatable
    assert evaluator._built(dataclasses.replace(outcome, stderr="no")).repeatable


def test_gfortrans_messages_are_located():
    log = """step.f90:3:13:

    3 |     u(i) = v(i +
      |             1
Error: Syntax error in expression at (1)
step.f90:2:4-8:

    2 |   call foo(x, y)
      |       1  2
Warning: Rank mismatch at (1) and (2)
main.f90:1:1:

Fatal Error: Cannot open module file
a.c:1:2: error: plain
"""
    found = compiler_messages(log, "step.f90", ["one", "two", "three" * 9])
    assert [(m.severity, m.file, m.line, m.offset) for m in found] == [
        ("error", "step.f90", 3, 20),
        ("warning", "step.f90", 2, 7),
        ("error", "main.f90", 1, None),
        ("error", "a.c", 1, None),
    ]
    again = compiler_messages(compiler_lines(log), "step.f90", ["one", "two", "three" * 9])
    assert again == found
    assert compiler_lines("x:1:2:\nother\nError: not of this place\n") == ""


def test_two_slashes_are_no_comment_for_every_c_compiler():
    texts = [f"int f() {{ return 8 //* note */ {number}\n; }}\n".encode() for number in (2, 4)]
    assert [FileText("a.c", text).plain_key("x") for text in texts] == [None, None]
    same = [FileText("a.c", f"int a; /* {word} */\n".encode()).plain_key("x") for word in ("one", "two")]
    assert same[0] == same[1] is not None
    assert FileText("a.cpp", b"int a; // one\n").plain_key("x") == FileText("a.cpp", b"int a;\n").plain_key("x")


@pytest.mark.cxx
def test_a_folder_of_any_name_is_described(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "my app"
    shutil.copytree(EXAMPLES / "heat", folder)
    run_once(folder)
    monkeypatch.chdir(folder)
    assert main(["new", "."]) == 0
    made, _ = read_application(tmp_path / "my app.toml", with_cases=False)
    assert made.name == "my_app" and made.source_dir.resolve() == folder
    monkeypatch.chdir(tmp_path)
    cases = ["propose", "--application", "my app.toml", "--workers", "1", "--most", "2", "-o", "cases.jsonl"]
    assert main(cases) == 0
    text = (tmp_path / "my app.toml").read_text().replace('cases = "my app_cases.jsonl"', "")
    (tmp_path / "without.toml").write_text(text)
    task = EtkCompletion("without.toml", "cases.jsonl", train_size=0)
    assert len(task.problems("test")) == len((tmp_path / "cases.jsonl").read_text().splitlines())
    for option in (["--most", "0"], ["--lines", "0"], ["--workers", "-1"]):
        with pytest.raises(SystemExit):
            main([*cases, *option])
        assert "must be a whole number above 0" in capsys.readouterr().err


@pytest.mark.cxx
def test_file_names_that_are_no_utf8_do_not_matter(heat, sandbox, tmp_path):
    (heat / os.fsdecode(b"caf\xe9.dat")).write_text("x")
    assert scores(application(heat), sandbox, tmp_path / "cache", Gap.of(FACTOR, heat).original) == [1.0]


def test_what_the_command_line_proposes_is_not_a_link(heat):
    (heat / "again.cpp").symlink_to("step.cpp")
    assert {case.file for case in candidates(heat, 2)} == {"main.cpp", "step.cpp"}
