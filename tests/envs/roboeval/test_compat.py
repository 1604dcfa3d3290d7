"""Compat mode: what the original does to texts, output and time, as far as the recorded programs do not show it."""

from __future__ import annotations

import pytest

from envs.roboeval import World
from envs.roboeval.closed_world import OUTPUT
from envs.roboeval.extraction import fenced, seed_paper
from envs.roboeval.rewriting import rewritten
from envs.roboeval.trace import T, ask, count, every, inside, no, say

TEXTS = {
    'say("Hi" + \'Hi\')  # "A" b': 'robot.say("hi" + \'Hi\')  # "a" b',
    'x = "A\nB" + "C"': 'x = "A\nB" + "C"',
    "def task_program():\n    task_program( )": "def task_program(robot):\n    task_program( )",
    "text.replace(a); soothsay(b); go_to (c)": "text.rerobot.place(a); soothrobot.say(b); go_to (c)",
    "robot.pick(a)": "robot.robot.pick(a)",
    "time.sleep(f(g(1)))": "time.sleep((f(g(1))) * 0)",
    "time.sleep(f(g(h(1))))": "time.sleep(f(g(h(1))))",
}


@pytest.mark.parametrize("text", TEXTS)
def test_rewriting(text):
    assert rewritten(text).text == TEXTS[text]


def test_every_place_leads_back():
    text = 'say("ÀB"); time.sleep(2); pick("X")  # "İ" say(y)'
    results = rewritten(text)
    for word in ("pick", "; time", "y)"):
        assert text[results.original(results.text.index(word)) :].startswith(word)
    start = results.text.index("time.sleep")
    end = results.text.index("* 0)") + 4
    assert text[results.original(start) : results.original(end, end=True)] == "time.sleep(2)"


def program(*lines: str) -> str:
    return "def task_program():\n" + "".join(f"    {line}\n" for line in lines)


def test_output_is_the_trace(judged):
    glued = program("print('x', end='')", "say('a')", "say('b')")
    results = judged(glued, mode="compat", condition=every(no(inside(T, say("a"))), inside(T, say("b"))))
    assert results.verdict == "Success" and results.worlds[0].trace[0][0] == "xSay"
    cut = program("say('a')", "say('line\\nbreak')", "say('b')")
    assert [event[1] for event in judged(cut, mode="compat").worlds[0].trace] == ["a"]
    after = program("say('a')", "import sys", "sys.stderr.write('x')", "print('end')")
    assert judged(after, mode="compat").verdict == "Success"
    assert judged(program("say('\\ud800')"), mode="compat").verdict == "PythonError"


def test_too_much_output_is_a_timeout(judged):
    line = len("Say /$@!/ /$@!/ None\n") + 1
    fits = (OUTPUT - 100) // (line + 100)
    assert judged(program(f"for _ in range({fits}):", "    say('a' * 100)"), mode="compat").verdict == "Success"
    results = judged(program(f"for _ in range({fits + 10}):", "    say('a' * 100)"), mode="compat")
    assert results.worlds[0].status == "timeout"


def test_how_a_program_ends(judged):
    ends = {
        "exit()": "Success",
        "import sys; sys.exit(0)": "Success",
        "exit(3)": "PythonError",
        "raise SystemExit('Robot is tired')": "RobotExecutionError",
        "raise ValueError('a Robot')": "RobotExecutionError",
        'raise ValueError("a Robot")': "PythonError",
        "go_to()": "RobotExecutionError",
        "go_to(place='x')": "RobotExecutionError",
        "import sys; sys.stderr.write('Robot'); sys.exit(1)": "RobotExecutionError",
        "import antigravity2": "PythonError",
        "input()": "PythonError",
    }
    for line, verdict in ends.items():
        assert judged(program("say('a')", line), mode="compat").verdict == verdict, line


def test_answers(judged):
    world = World(("start_loc",), people={"start_loc": (("water", "te+a"), (".*",))})
    asked = program(
        "a = ask('', 'x', ['no water', 'water'])",
        "b = ask('', 'some tea?', ['no', 'yes please'])",
        "c = ask('', 'beer?', ['not now', 'yes'])",
        "d = ask('', 'beer?', ['one', 'two'])",
        "say(' '.join([a, b, c, d]))",
    )
    for mode in ("compat", "hardened"):
        results = judged(asked, world, mode=mode, condition=inside(T, say("^no water yes please not now one$")))
        assert results.verdict == "Success", results
    silent = World(("start_loc",), people={"start_loc": ((),)})
    for line in ("ask('', 'x', ['a'])", "ask('', 'x', ('a',))", "ask(None, 'x', ['a'])", "ask('', 'x', [])"):
        assert judged(program("say('a')", line), silent).verdict == "RobotExecutionError"


def test_the_order_of_worlds_decides_between_errors(judged):
    there = World(("start_loc",), objects={"start_loc": ("cup",)})
    empty = World(("start_loc",))
    text = program("if is_in_room('cup'):", "    undefined", "else:", "    pick('cup')")
    assert judged(text, there, empty).verdict == "PythonError"
    assert judged(text, empty, there).verdict == "RobotExecutionError"
    later = program("if is_in_room('cup'):", "    pick('cup')", "    pick('cup')")
    assert judged(later, empty, there, condition=count(T, ask(), 1)).verdict == "RobotExecutionError"


def test_other_extractions():
    answer = "Well:\n```python\nimport x\n\ndef task_program():\n    pass\n```\nSo."
    assert seed_paper(answer) == "def task_program():\n    pass\n" and seed_paper("no program") == ""
    assert fenced(answer) == "import x\n\ndef task_program():\n    pass\n" and fenced("none") == ""
