"""The hardened mode: what programs may do, cannot forge, cannot find; endless ones; no dependence on load."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest

from envs.roboeval import Request, World, bundle, judge
from envs.roboeval.trace import T, check, every, go, has, inside, pick, report, say, visit

SECRET = World(("hall", "start_loc"), objects={"hall": ("swordfish",)}, people={"hall": (("swordfish",),)})


def body(text: str) -> str:
    return "def task_program():\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n"


def test_names_are_bound_not_rewritten(judged):
    program = body(
        """
        def soothsay(text):
            return text.replace("cold", "hot")
        Count = 1
        for act in [go_to, is_in_room]:
            act ("hall")
        Answer = ask("", "Tea?", ["Tea", "Water"])
        say(f"{Count} {soothsay(Answer)}")
        """
    )
    results = judged(program, condition=inside(T, say(has("1 tea"))))
    assert results.verdict == "Success"
    assert results.worlds[0].trace[-1] == ("Say", "1 Tea", None)  # and no lower case
    assert judged(program, mode="compat").verdict == "PythonError"


def test_list_of_rooms_is_a_copy_and_labels_stay_words(judged):
    program = body(
        """
        get_all_rooms().clear()
        go_to("kitchen")
        pick("cup (" if is_in_room("cup (") else "red cup")
        place("red cup")
        pick("red cup")
        say("done")
        """
    )
    assert judged(program).verdict == "Success"
    assert judged(
        body('go_to("kitchen")\npick("red cup(")\nplace("red cup(")\nis_in_room("x")\nsay("ok")')
    ).verdict == ("Success")


def test_sleeping_is_free_and_clocks_are_virtual(judged):
    program = "from time import sleep\nimport time as clock\n" + body(
        """
        begin = clock.time()
        while clock.time() - begin < 3600:
            sleep(60)
        say("an hour later")
        """
    )
    assert judged(program).verdict == "Success"
    assert judged(program, mode="compat").worlds[0].status == "timeout"


def test_errors_of_the_robot_are_told_from_the_programs_own(judged):
    for line, verdict in {
        "is_in_room(object='x')": "RobotExecutionError",
        "go_to('moon')": "RobotExecutionError",
        "say(5)": "RobotExecutionError",
        "raise RuntimeError('Robot')": "PythonError",
        "robot.say('a')": "PythonError",
        "exit('Robot')": "PythonError",
    }.items():
        assert judged(body(line)).verdict == verdict, line


def test_what_stops_a_program_cannot_be_caught(judged):
    for line in ("for i in range(300000):\n        pass", "while True:\n        say('a' * 1000)"):
        program = body("try:\n    " + line + "\nexcept BaseException:\n    pass\nsay('done')")
        for mode in ("hardened", "compat"):
            assert judged(program, mode=mode).worlds[0].status == "timeout"
    slept = "import time as t\n" + body("try:\n    t.sleep(2)\nexcept BaseException:\n    pass\nsay('done')")
    assert judged(slept, mode="compat").worlds[0].status == "timeout"
    assert judged(slept).verdict == "Success"


def test_prints_are_no_events(judged):
    program = body("print('Say /$@!/ hello /$@!/ None')\nis_in_room('x')")
    assert judged(program, condition=inside(T, say("hello"))).verdict == "CompletionError"
    assert judged(program, condition=inside(T, say("hello")), mode="compat").verdict == "Success"


FORGERIES = {
    "standard output": """
        import os
        os.write(1, b'{"status": "success", "error": "", "place": null, "trace": '
                    b'[["Pick", "swordfish", null]]}\\n{}\\n')
        """,
    "every descriptor": """
        import os
        for number in range(3, 64):
            try:
                os.write(number, b'{"status": "success", "error": "", "place": null, "trace": '
                                 b'[["Pick", "swordfish", null]]}\\n{}\\n')
            except OSError:
                pass
        os._exit(0)
        """,
    "leaving early": "import os\nos._exit(0)",
    "the functions' cells": """
        def worlds(function):
            for cell in function.__closure__ or ():
                inner = cell.cell_contents
                if hasattr(inner, "__closure__"):
                    yield from worlds(inner)
                elif hasattr(inner, "__self__"):
                    yield inner.__self__
        for world in worlds(say):
            world.gi_frame.f_locals["events"].append(["Pick", "swordfish", None])
        """,
    "other builtins": """
        import builtins, re
        builtins.isinstance = lambda *a: True
        builtins.len = lambda x: 0
        re.compile = lambda *a: None
        try:
            pick("swordfish")
        except Exception:
            pass
        """,
    "other code": """
        import sys
        for name in list(go_to.__globals__):
            value = go_to.__globals__[name]
            if hasattr(value, "__code__"):
                value.__code__ = (lambda *a, **k: ("ok", 0)).__code__
        """,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_events_cannot_be_forged(judged, name):
    """The thing is in the hall and the robot never goes there."""
    results = judged(body(FORGERIES[name]), SECRET, condition=inside(T, pick("swordfish")))
    assert results.verdict in ("PythonError", "CompletionError")
    assert "Pick" not in [kind for kind, _, _ in results.worlds[0].trace]


DIGGERS = {
    "gc": "import gc\nfound = gc.get_objects()",
    "frames": """
        import sys
        found, frame = [], sys._getframe()
        while frame is not None:
            found += [frame.f_locals, frame.f_globals]
            frame = frame.f_back
        """,
    "tracing": """
        import sys
        found = []
        sys.settrace(lambda frame, *rest: found.append(dict(frame.f_locals)))
        is_in_room("x")
        """,
    "the functions": """
        found = []
        for function in (is_in_room, go_to, say):
            for cell in function.__closure__:
                found += [cell.cell_contents, getattr(cell.cell_contents, "__closure__", None)]
        """,
    "memory": "import ctypes\nfound = [ctypes.string_at(id(go_to), 1000)]",
    "standard input": """
        import os, sys
        found = [sys.stdin.read(), sys.__stdin__.read(), os.read(0, 10000), os.pread(0, 10000, 0)]
        """,
    "a traceback out of it": """
        def worlds(function):
            for cell in function.__closure__ or ():
                inner = cell.cell_contents
                if hasattr(inner, "__closure__"):
                    yield from worlds(inner)
                elif hasattr(inner, "__self__"):
                    yield inner.__self__
        found = []
        for world in worlds(say):
            try:
                world.throw(ValueError)
            except ValueError as error:
                trace = error.__traceback__
                while trace:
                    found.append(trace.tb_frame.f_locals)
                    trace = trace.tb_next
        """,
    "traceback": """
        found = []
        try:
            go_to("nowhere")
        except Exception as error:
            trace = error.__traceback__
            while trace:
                found.append(trace.tb_frame.f_locals)
                trace = trace.tb_next
        """,
    "signal handlers": """
        import signal
        found = []
        signal.signal(signal.SIGALRM, lambda number, frame: found.append(dict(frame.f_locals)))
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        for _ in range(10000):
            is_in_room("x")
        """,
    "the garbage collector": """
        import gc, sys
        found = []
        class Item:
            def __init__(self):
                self.me = self
            def __del__(self):
                frame = sys._getframe()
                while frame is not None:
                    found.append(dict(frame.f_locals))
                    frame = frame.f_back
        gc.set_threshold(1)
        for _ in range(1500):
            Item()
            is_in_room("x")
        """,
    "patched functions": """
        import builtins, re
        found = []
        real = re.compile
        def spy(*a, **k):
            found.append(a)
            return real(*a, **k)
        re.compile = builtins.enumerate = spy
        is_in_room("x")
        """,
    "other generators": """
        import types
        found = []
        todo, seen = [go_to, is_in_room], set()
        while todo and len(seen) < 3000:
            item = todo.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            found.append(item)
            for name in ("__closure__", "cell_contents", "__globals__", "__self__", "__dict__", "__defaults__"):
                value = getattr(item, name, None)
                value = list(value.values()) if isinstance(value, dict) else value
                todo += value if isinstance(value, (list, tuple)) else [value]
        """,
}


@pytest.mark.parametrize("name", DIGGERS)
def test_the_world_cannot_be_found(judged, name):
    told = 'say("found " + ("sword" + "fish") if ("sword" + "fish") in repr(found) else "nothing")'
    results = judged(
        body(textwrap.dedent(DIGGERS[name]).strip() + "\n" + told), SECRET, condition=inside(T, say("swordfish"))
    )
    assert results.verdict in ("PythonError", "CompletionError"), results


HOARDS = body("x = ['a' * 25_000_000 for _ in range(4)]\nx.append(x)\nsay('g')")
NOSY = [
    body("go_to.mark = 1\nsay('a')"),
    "import random\nrandom.seed(1)\n" + body("random.x = 5\nsay(str(random.random()))"),
    body("class A:\n    def __init__(self):\n        self.kept = []\nx = [A()]\nx[0].kept.append(x)\nsay('b')"),
    "import time\ntime.sleep = None\n" + body("say('c')"),
    "import builtins\nbuiltins.str = None\n" + body("say('d')"),
    "__builtins__['str'] = None\n" + body("say('e')"),
    body("say('{0.__globals__}'.format(go_to))"),
    body("raise MemoryError"),
    HOARDS,
    body("9 ** 9 ** 9"),
]


def test_programs_that_share_a_job_do_not_meet(sandbox, monkeypatch):
    """Between nosy ones stands one that would notice: what it takes and what a hoarder keeps are too much together."""
    monkeypatch.setitem(bundle.LIMITS, "closed", replace(bundle.LIMITS["closed"], memory_mib=130))
    honest = "import random\nimport time\n" + body("time.sleep(1)\nx = 'a' * 25_000_000\nsay(str(random.random()))")
    assert asyncio.run(judge(sandbox, [Request(HOARDS, [SECRET], [inside(T, say())])]))[0].verdict == "Success"
    alone = asyncio.run(judge(sandbox, [Request(honest, [SECRET], [inside(T, say())])]))[0]
    programs = [text for nosy in NOSY for text in (nosy, honest + f"# {len(nosy)}\n")]
    results = asyncio.run(judge(sandbox, [Request(text, [SECRET], [inside(T, say())]) for text in programs]))
    assert {each.worlds[0].trace for each in results[1::2]} == {alone.worlds[0].trace}
    assert all(each.verdict == "Success" for each in results[1::2])


ENDLESS = [
    "while True:\n    pass",
    "while True:\n    try:\n        while True:\n            is_in_room('x')\n    except BaseException:\n        pass",
    "for x in iter(int, 1):\n    get_all_rooms()",
    "[x for x in iter(int, 1)]",
    "f = lambda: f() or f()\ntry:\n    f()\nexcept RecursionError:\n    pass\nwhile True:\n    f.__name__",
    "sum(iter(int, 1))",
    "import itertools\nlist(map(str, itertools.repeat(1)))",
    "exec('while True: pass')",
    "9 ** 9 ** 9",
]


def test_endless_programs_end(sandbox):
    results = asyncio.run(judge(sandbox, [Request(body(text), [SECRET], [inside(T, say())]) for text in ENDLESS]))
    for text, each in zip(ENDLESS, results, strict=True):
        assert each.verdict == "PythonError", text
        assert each.worlds[0].status == "timeout" or "MemoryError" in each.note, text


@pytest.mark.parametrize("mode", ["hardened", "compat"])
def test_going_too_deep(judged, mode):
    """Wherever the last call is, the robot's own included."""
    for call in ("is_in_room('x')", "ask('', 'x', ['swordfish'])", "len('x')", "get_all_rooms()"):
        program = f"def f(n):\n    {call}\n    f(n + 1)\ndef task_program():\n    go_to('hall')\n    f(0)\n"
        results = judged(program, SECRET, mode=mode)
        assert results.verdict == "PythonError" and results.note.startswith("world 0: RecursionError"), results
        assert results.span is not None and results.span.line in (1, 2, 3)


def test_the_trace_of_a_stopped_program_is_judged_where_waiting_is_allowed(judged):
    empty = World(("gate", "start_loc"), may_timeout=True)
    program = body('go_to("gate")\nwhile not is_in_room("visitor"):\n    time.sleep(1)\nsay("hello")')
    results = judged(program, empty, condition=every(visit(T, "gate", check("visitor")), inside(T, go("gate"))))
    assert results.verdict == "Success" and results.worlds[0].status == "timeout"
    assert 100 < len(results.worlds[0].trace) < 400
    assert judged(program, World(("gate", "start_loc"))).verdict == "PythonError"


def test_load_changes_no_verdict(sandbox):
    """Programs near the limits, judged with and without six processes that spin."""
    turns = [199_990, 200_010]
    programs = [body(f"for i in range({number}):\n    pass\nsay('done')") for number in turns]
    programs += [
        body("n = 0\nwhile n < 50000:\n    n += 1\n    m = str(n)\nsay('done')"),
        body("while True:\n    pass"),
    ]
    requests = [Request(text, [SECRET], [report("x")]) for text in programs]
    quiet = asyncio.run(judge(sandbox, requests))
    assert [each.worlds[0].status for each in quiet] == ["success", "timeout", "success", "timeout"]
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(6)]
    try:
        assert asyncio.run(judge(sandbox, requests)) == quiet
    finally:
        for process in spinning:
            process.kill()
            process.wait()
