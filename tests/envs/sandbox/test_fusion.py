"""Sandbox Fusion as a backend, against a stand-in for its server: no sample is lost or graded wrongly."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, repeat
from pathlib import Path

import pytest
from fusion_server import FAULTS, FusionServer

from envs.sandbox import FunctionCase, FusionSandbox, Job, Limits, LocalSandbox, StdioCase, run_sync
from envs.sandbox.worker import remote

QUICK = Limits(wall_s=10.0, cpu_s=4.0, most_wall_s=30.0)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalSandbox]:
    box = LocalSandbox(2, QUICK)
    try:
        [outcome] = run_sync(box, [Job("a", "command", commands=(("python3", "-c", "import zlib"),))])
    except RuntimeError as error:
        pytest.skip(f"nothing can be confined here: {error}")
    if outcome.verdict != "pass":
        pytest.skip(f"no python3 within the sandbox: {outcome.note}")
    yield box
    asyncio.run(box.close())


@pytest.fixture(scope="module")
def running(local) -> Iterator[FusionServer]:
    with FusionServer(local) as server:
        yield server


@pytest.fixture
def server(running) -> FusionServer:
    running.plan([])
    running.requests.clear()
    running.most = 0
    return running


@pytest.fixture
def fusion(server) -> Iterator[FusionSandbox]:
    box = FusionSandbox(server.url, 2, QUICK, tries=6, backoff_s=0.01)
    yield box
    asyncio.run(box.close())


def doubles(number: int, right: bool = True) -> Job:
    factor = 2 if right else 3
    if number % 2:
        case = StdioCase(f"{number}\n", f"{2 * number}\n")
        return Job(f"{number}", "stdio", f"print(int(input()) * {factor})", cases=(case,))
    return Job(f"{number}", "function", f"def f(x): return x * {factor}", "f", (FunctionCase((number,), 2 * number),))


def mixed(count: int) -> tuple[list[Job], list[str]]:
    """Jobs, every third of them wrong, and their verdicts."""
    right = [number % 3 > 0 for number in range(count)]
    return [doubles(n + 1, ok) for n, ok in enumerate(right)], ["pass" if ok else "fail" for ok in right]


def function(code: str, *cases: tuple, **fields) -> Job:
    return Job("f", "function", code, "f", tuple(FunctionCase(*case) for case in cases), **fields)


def script(code: str, *cases: tuple[str, str], **fields) -> Job:
    return Job("s", "stdio", code, cases=tuple(StdioCase(*case) for case in cases), **fields)


SLOW = "import time\ndef f(x):\n    time.sleep(x)\n    return x"
JOBS = [
    function("def f(x): return x * 2\nprint('noise')", ((1,), 2), ((2,), 5), ((3,), 6)),
    function("class Solution:\n    def f(self, x): return (x, {1: x})", (("é\ud800",), ["é\ud800", {"1": "é\ud800"}])),
    function(
        "class Solution:\n    def f(self, x): return (x, {1: x})",
        (("é\ud800",), ["é\ud800", {"1": "é\ud800"}]),
        as_json=True,
    ),
    function("import os\ndef f(x): os._exit(0)", ((1,), 1)),
    function("def f(:", ((1,), 1)),
    function("def f(x): return 1 / x", ((0,), 1), ((1,), 1.0)),
    function("def f(x): return bytearray(1 << 34)", ((0,), 1)),
    function("import ctypes\ndef f(x): ctypes.string_at(0)", ((0,), 1)),
    function(SLOW, ((0,), 0), ((100,), 100), ((0,), 0), limits=Limits(wall_s=1.5, most_wall_s=5.0)),
    function(SLOW, *[((1.0,), 1.0)] * 3, limits=Limits(wall_s=1.8, most_wall_s=9.0, each_case=True)),
    function("def f(x):\n    while True: pass", ((1,), 1), limits=Limits(cpu_s=1, wall_s=30)),
    script("n = input()\nprint(n, '1.0 ')", ("x", "x 1"), ("y\n", "y 1\n"), ("z", "z 2")),
    script("print(sum(map(int, open(0))))", ("1\n2\n", "3"), ("4", "4.0")),
    script(
        "import io, os\nr = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(int(r()) * 2)", ("4\n", "8")
    ),
    script(
        "import threading\nthreading.stack_size(1 << 28)\nt = threading.Thread(target=print, args=(5,))\nt.start()",
        ("", "5"),
    ),
    script("print(1)\nimport sys; sys.exit(3)", ("", "1")),
    script("import os\nos.write(1, b'1'); os._exit(0)", ("", "1")),
    script("import time; time.sleep(100)", ("", "1"), ("", "1"), limits=Limits(wall_s=0.5, most_wall_s=5.0)),
    script("while True: print('x' * 100000)", ("", "x"), limits=Limits(output_kib=64)),
    Job("c", "check", "def f(x): return x", "f", check_src="def check(c):\n    assert c([1]) == [1]"),
    Job("c", "check", "def f(x): return 1", "f", check_src="def check(c):\n    assert c(1) == 1\n    assert c(2) == 2"),
    Job("c", "check", "import sys; sys.exit(0)", "f", check_src="def check(c):\n    assert c(1) == 1"),
    Job("c", "check", "def f(x): return h(x)", "f", check_src="assert f(1) == h(1)", setup="def h(x): return x + 1"),
    Job("p", "program", "import sys\nprint(input())\nprint('no', file=sys.stderr)\nsys.exit(2)", stdin="héllo\n"),
    Job("e", "function", "def f(): pass", None, (FunctionCase((), None),)),
]


def test_verdicts_are_those_of_the_local_sandbox(fusion, local):
    same = ("id", "verdict", "passed", "total", "note", "cases", "stdout", "stderr", "exit_status")
    here, there = ([[getattr(o, name) for name in same] for o in run_sync(box, JOBS)] for box in (local, fusion))
    assert there == here
    assert {row[1] for row in here} == {"pass", "fail", "timeout", "killed", "error"}


def test_order_progress_and_bounded_concurrency(fusion, server):
    jobs, verdicts = mixed(8)
    seen: list[int] = []
    outcomes = asyncio.run(fusion.run(jobs, seen.append))
    assert [o.id for o in outcomes] == [job.id for job in jobs] and [o.verdict for o in outcomes] == verdicts
    assert seen == list(range(1, 9)) and server.most == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_another_try_and_no_grade(fusion, server, fault):
    server.plan([fault, None, fault])
    jobs, verdicts = mixed(2)
    assert [o.verdict for o in run_sync(fusion, jobs)] == verdicts
    assert len(server.requests) == 2 + 2


def test_every_second_request_fails(server):
    fusion, rng = FusionSandbox(server.url, 2, QUICK, tries=12, backoff_s=0.01), random.Random(0)
    server.plan(rng.choice([*FAULTS, *[None] * len(FAULTS)]) for _ in range(200))
    jobs, verdicts = mixed(12)
    outcomes = run_sync(fusion, jobs)
    ungraded = sum(not outcome.graded for outcome in outcomes)
    assert [(o.verdict, v) for o, v in zip(outcomes, verdicts, strict=True) if o.graded and o.verdict != v] == []
    assert ungraded <= 1  # twelve tries, each failing half of the time
    asyncio.run(fusion.close())


@pytest.mark.parametrize("fault", ["500", "malformed", "SandboxError", "lost"])
def test_a_server_that_only_fails_grades_nothing(server, fault):
    box = FusionSandbox(server.url, 2, QUICK, tries=2, backoff_s=0.01)
    server.plan(repeat(fault))
    [outcome] = run_sync(box, [doubles(2, right=False)])
    assert (outcome.verdict, outcome.graded, outcome.passed) == ("error", False, 0)
    assert outcome.note and len(server.requests) == 2
    asyncio.run(box.close())


def test_an_answer_that_does_not_come_is_asked_for_again(server):
    box = FusionSandbox(server.url, 2, Limits(wall_s=2.0, most_wall_s=3.0), tries=3, backoff_s=0.01, patience_s=0.5)
    server.plan(["slow"])
    assert [o.verdict for o in run_sync(box, [doubles(1)])] == ["pass"]
    server.plan(repeat("slow"))
    [outcome] = run_sync(box, [replace(doubles(1, right=False), limits=Limits(wall_s=0.1, most_wall_s=0.1))])
    assert (outcome.verdict, outcome.graded) == ("error", False) and "no answer within" in outcome.note
    asyncio.run(box.close())


def test_a_restart_of_the_server_loses_nothing(server):
    box = FusionSandbox(server.url, 2, QUICK, tries=10, backoff_s=0.05)
    jobs, verdicts = mixed(8)

    async def scenario():
        task = asyncio.create_task(box.run(jobs))
        while len(server.requests) < 3:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        return await task

    assert [o.verdict for o in asyncio.run(scenario())] == verdicts
    asyncio.run(box.close())


def test_no_server_is_said_in_one_line_and_grades_nothing(server):
    server.stop()
    try:
        box = FusionSandbox(server.url, tries=2, backoff_s=0.01)
        with pytest.raises(RuntimeError, match=r"no Sandbox Fusion server at .*launch/sandbox_fusion.sh") as error:
            asyncio.run(box.describe())
        assert "\n" not in str(error.value)
        assert [o.verdict for o in run_sync(box, [doubles(1)])] == ["error"]
        asyncio.run(box.close())
    finally:
        server.start()


def test_describe_names_the_server(fusion, server):
    assert re.match(rf"sandbox: Sandbox Fusion at {server.url} \(Python 3\.\d+", asyncio.run(fusion.describe()))
    server.plan(["not an object"] * 2)
    with pytest.raises(RuntimeError, match="not a Sandbox Fusion server"):
        asyncio.run(fusion.describe())
    for url in ("localhost:8080", ""):
        with pytest.raises(ValueError, match="http://HOST:PORT"):
            FusionSandbox(url)
    assert FusionSandbox("http://h:1/run_code/").url == "http://h:1"


def test_the_request_holds_no_expected_value(fusion, server):
    jobs = [
        script("print(1)", ("given-one", "hidden-one")),
        function("def f(x): return x", (("given-two",), "hidden-two")),
        Job("c", "check", "def f(x): return x", "f", check_src="assert f('given-three') == 'hidden-three'"),
    ]
    run_sync(fusion, jobs)
    early, late = "", ""
    for request in server.requests:
        assert set(request) == {"language", "code", "stdin", "run_timeout", "fetch_files"}
        assert request["code"] == server.requests[0]["code"]
        first, *others, nonce = parts_of(request["stdin"])
        assert request["fetch_files"] == [nonce]
        early += repr(remote.unpack(first, 1 << 30))
        late += repr([remote.unpack(part, 1 << 30) for part in others])
        assert nonce not in early
    assert "given-two" in early and "given-one" in late and "given-one" not in early
    assert "hidden-" not in early and "hidden-one" not in late and "hidden-two" not in late
    assert "given-three" in late and "given-three" not in early


def parts_of(stdin: str) -> list[str]:
    parts = []
    while stdin:
        size, _, rest = stdin.partition("\n")
        parts.append(rest[: int(size)])
        stdin = rest[int(size) :]
    return parts


LOOK_AROUND = r"""
import gc, os, re, socket, sys
found = []
def seen(thing):
    found.extend(re.findall(r"\b[0-9a-f]{32}\b", thing if isinstance(thing, str) else repr(thing)))
def attempt(what):
    try: found.append(f"did {what}: {eval(what)}")
    except OSError: pass
frame = sys._getframe().f_back
while frame is not None:
    seen(frame.f_locals)
    frame = frame.f_back
for thing in gc.get_objects():
    if type(thing) in (dict, list, tuple):
        seen(thing)
with open("/dev/stdin") as file:
    found.append("input " + file.read())
driver = os.getppid()
for name in ("mem", "environ", "maps", "fd/64", "fd/65", "cwd/main.py"):
    attempt(f"open('/proc/{driver}/{name}', 'rb').read(9)")
for attempted in (
    "os.listdir('..')", "open(sys.argv[0])", "open('../x', 'w')", f"os.listdir('/proc/{driver}/fd')",
    f"os.kill({driver}, 0)", "os.fork()", "socket.socket()", "os.execv('/bin/true', ['true'])",
):
    attempt(attempted)
print("\n".join(found))
"""


def test_a_candidate_finds_neither_nonce_nor_driver_nor_other_inputs(fusion, server):
    [outcome] = run_sync(fusion, [Job("p", "program", LOOK_AROUND, stdin="mine")])
    [nonce] = server.requests[-1]["fetch_files"]
    assert outcome.verdict == "pass" and "input mine" in outcome.stdout, outcome
    assert nonce not in outcome.stdout and "did " not in outcome.stdout
    nosy = "import gc\nwords = [repr(thing) for thing in gc.get_objects() if type(thing) in (list, tuple, dict)]\n"
    nosy += "print(any('-'.join(['second', 'input']) in word for word in words))"
    assert run_sync(fusion, [script(nosy, ("1", "False"), ("second-input", "False"))])[0].verdict == "pass"


def test_a_candidate_does_not_speak_for_the_driver(fusion):
    spoof = "import os\nfor n in range(3, 256):\n    try: os.write(n, b'x')\n    except OSError: pass\nprint(input())"
    assert run_sync(fusion, [script(spoof, ("1", "1"), ("2", "3"))])[0].cases == (True, False)


def test_each_program_has_a_folder_of_its_own(fusion):
    code = "import os, tempfile\nprint(os.listdir('.'))\ntempfile.mkstemp()\nopen('left', 'w').close()"
    [outcome] = run_sync(fusion, [script(code, ("", "[]"), ("", "[]"))])
    assert outcome.verdict == "pass"


def test_a_driver_that_cannot_do_its_work_grades_nothing(server):
    """No room for its processes, say, is no program's fault."""
    box = FusionSandbox(server.url, 2, QUICK, tries=2, backoff_s=0.01)
    box._sources["program"] = "raise OSError('no room')"
    [outcome] = run_sync(box, [doubles(2)])
    assert (outcome.verdict, outcome.graded) == ("error", False) and "no room" in outcome.note
    server.plan(["short input"] * 2)
    [outcome] = run_sync(FusionSandbox(server.url, 2, QUICK, tries=2, backoff_s=0.01), [doubles(1)])
    assert (outcome.verdict, outcome.graded) == ("error", False)
    asyncio.run(box.close())


def test_long_outputs_come_as_a_file(fusion, server):
    code = "import random\nr = random.Random(1)\nfor _ in range(60000): print(r.randrange(10**9))"
    rng = random.Random(1)
    expected = "\n".join(str(rng.randrange(10**9)) for _ in range(60000))
    [right, wrong] = run_sync(fusion, [script(code, ("", expected)), script(code, ("", expected + "\n1"))])
    assert (right.verdict, wrong.verdict) == ("pass", "fail")


def test_many_cases_are_several_requests(fusion, server):
    cases = [(f"{n}\n", f"{n}\n") for n in range(35)]
    [outcome] = run_sync(fusion, [script("print(input())", *cases, ("7", "8"))])
    assert (outcome.verdict, outcome.passed, outcome.total, len(server.requests)) == ("fail", 35, 36, 3)


def test_cancelling_and_closing(server):
    box = FusionSandbox(server.url, 2, QUICK, tries=2)
    server.plan(cycle(["slow"]))

    async def cancel() -> None:
        task = asyncio.create_task(box.run([doubles(n) for n in range(4)]))
        while server.now < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancel(), 30))
    server.plan([])
    assert run_sync(box, [doubles(1)])[0].verdict == "pass"  # the two places are free again
    assert box._session_thread is not None
    thread = box._session_thread._thread
    assert thread.is_alive()
    asyncio.run(box.close())
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        run_sync(box, [doubles(1)])


def test_several_loops_and_threads_share_the_places(fusion, server):
    results: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: results.extend(o.verdict for o in run_sync(fusion, [doubles(n) for n in range(4)]))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["pass"] * 12 and server.most == 2


def test_jobs_that_it_cannot_run_are_not_graded(fusion):
    [outcome] = run_sync(fusion, [Job("x", "command", commands=(("/bin/true",),))])
    assert (outcome.verdict, outcome.note) == ("error", "sandbox=fusion runs no command jobs: use sandbox=local")


def test_the_launcher_says_in_one_line_what_is_missing(tmp_path):
    script = Path(__file__).parents[3] / "launch" / "sandbox_fusion.sh"
    (tmp_path / "dirname").symlink_to(shutil.which("dirname") or "/usr/bin/dirname")
    bash = shutil.which("bash") or "/bin/bash"

    def said() -> str:
        done = subprocess.run([bash, script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stdout + done.stderr

    assert said() == "sandbox_fusion: docker is not installed: install it, or use sandbox=local\n"
    docker = tmp_path / "docker"
    docker.write_text(f"#!{bash}\nexit 1\n")
    docker.chmod(0o755)
    assert said() == "sandbox_fusion: the Docker daemon does not answer: start it, or use sandbox=local\n"


def test_packing():
    header, pieces = {"a": [1, "é"]}, [b"", b"\n\x00", b"x" * 1000]
    text = remote.pack(header, pieces)
    assert remote.unpack(text, 1 << 20) == ({"a": [1, "é"]}, pieces)
    for broken, most in ((text[:-8], 1 << 20), (text, 100), ("x", 100), ("", 100), (remote.pack({}, [])[::-1], 100)):
        with pytest.raises(ValueError):
            remote.unpack(broken, most)
