"""Where an error is in the original text, whatever was done to the text before it ran."""

from __future__ import annotations

import dataclasses
import textwrap

import pytest

from envs.roboeval.program import described

PLACES = {
    "a call": ('def task_program():\n    say("hi")\n    go_to("Nowhere")\n', 'go_to("Nowhere")'),
    "the innermost call": ("def task_program():\n    say(ask('', 'Tea?', ['cola']))\n", "ask('', 'Tea?', ['cola'])"),
    "in a helper": ("def f(x):\n    pick(x)\ndef task_program():\n    f('moon')\n", "pick('moon')"),
    "several lines": (
        "def task_program():\n    ask('',\n        'x',\n        [])\n",
        "ask('',\n        'x',\n        [])",
    ),
    "wide characters before it": ('def task_program():\n    x = "ÄÖÜ😀"; go_to("Mars" + x)\n', 'go_to("Mars" + x)'),
    "lower case that is longer": ('def task_program():\n    x = "İİİ"; y = "İ"; go_to(x)\n', "go_to(x)"),
    "after a sleep": ("def task_program():\n    time.sleep(1); time.sleep(2); pick('a')\n", "pick('a')"),
    "a name": ("def task_program():\n    say('a')\n    say(undefined)\n", "undefined"),
    "a method": ("def task_program():\n    say(get_all_rooms().nothing)\n", "get_all_rooms().nothing"),
    "other line ends": ("def task_program():\r\n    x = 1\r\n    place('a')\r\n", "place('a')"),
    "raised": ("def task_program():\n    if True:\n        raise ValueError('x')\n", "raise ValueError('x')"),
    "wrong arguments": ("def task_program():\n    is_in_room(object='x')\n", "is_in_room(object='x')"),
    "passed on": (
        "def task_program():\n    try:\n        pick('a')\n    except Exception as e:\n        raise e\n",
        "pick('a')",
    ),
    "an endless loop": ("def task_program():\n    n = 1\n    while n:\n        n += 1\n", "n"),
}


@pytest.mark.parametrize("mode", ["hardened", "compat"])
@pytest.mark.parametrize("name", PLACES)
def test_the_failing_expression(judged, name, mode):
    program, wanted = PLACES[name]
    if (name, mode) == ("passed on", "compat") or "f('moon')" in program:
        wanted = wanted.replace("pick('moon')", "pick(x)")
    results = judged(program, mode=mode)
    assert results.span is not None and program[results.span.start : results.span.end] == wanted
    assert dataclasses.asdict(results.span) == described(program, [results.span.start, results.span.end])
    lines = program.replace("\r\n", "\n").split("\n")
    assert lines[results.span.line - 1][results.span.column :].startswith(wanted.split("\n")[0])
    assert lines[results.span.end_line - 1][: results.span.end_column].endswith(wanted.split("\n")[-1])


@pytest.mark.parametrize("mode", ["hardened", "compat"])
def test_what_does_not_parse(judged, mode):
    program = textwrap.dedent(
        """
        def task_program():
            say("a"
            go_to("b")
        """
    )
    results = judged(program, mode=mode)
    assert results.verdict == "PythonError" and program[results.span.start] == "("
    indented = judged("def task_program():\n  say('a')\n    say('b')\n", mode=mode)
    assert indented.verdict == "PythonError" and indented.span.line == 3


def test_no_error_no_place(judged):
    assert judged("def task_program():\n    say('a')\n").span is None
    unsatisfied = judged("def task_program():\n    pass\n")
    assert unsatisfied.verdict == "CompletionError" and unsatisfied.span is None


def test_no_program_is_no_ordinary_python_error(judged):
    for program in ("", "def task_program():\n", "  \n"):
        for mode in ("hardened", "compat"):
            results = judged(program, mode=mode)
            assert results.verdict == "PythonError" and not results.extracted and results.note == "no program"
    assert judged("def task_program():\n    x\n").extracted
