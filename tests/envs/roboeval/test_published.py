"""RoboEval's folder as it is published: read without running it, into the same rows as the folder of JSON files.

The comparison with the real folder needs the variable ROBOEVAL_PUBLISHED, which names the folder `benchmark` of
github.com/ut-amrl/codebotler, and ../shared/data/roboeval.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from envs.json_lines import read_json_lines
from envs.roboeval import Benchmark, World
from envs.roboeval.__main__ import main
from envs.roboeval.checks import TASKS
from envs.roboeval.published import containing, published_rows, task_folder
from envs.roboeval.task import RoboEval
from envs.task import TaskError

FORM = """import sys
sys.path.append('../..')
from benchmark.simulator import State
from misc.benchmark_utils import *

name = "{task}"

prompts = [
    "Our own text for {task}, "
    "in two parts.",
    'And another.'
]

{states}

def test0(trace_elements, VERBOSE = False) -> bool:
    raise SystemExit("a task file must not run")

open("{mark}", "w").write("a task file must not run")

tests = [
    {tests}
]
"""
STATE = """state{number} = State().addLocation("zarko's office").addLocation("hall {number}") \\
        .addLocation("start_loc").addAgent(".*", "zarko's office", [r".*", contain_words(["4", "pm"])]) \\
        .addAgent(r".*", "hall {number}", []).addObject("pen", "hall {number}").addObject("cup", "hall {number}") \\
        .addRobotLocation("start_loc")"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """The published form with worlds and prompts of our own; the second world of each task may time out."""
    (tmp_path / "tasks" / "open_world_knowledge").mkdir(parents=True)
    for task, (_, number) in TASKS.items():
        states = "\n\n".join(STATE.format(number=world) for world in range(number))
        tests = ",\n    ".join(
            f'{{"state" : state{world}, "test" : test0, "timeout": {world == 1}}}' for world in range(number)
        )
        text = FORM.format(task=task, states=states, tests=tests, mark=tmp_path / "ran")
        (tmp_path / "tasks" / f"{task}.py").write_text(text)
    (tmp_path / "tasks" / "open_world_knowledge" / "Other.py").write_text("not Python at all:")
    return tmp_path


def test_rows_are_those_of_the_json_files(folder):
    rows = published_rows(task_folder(folder, TASKS), TASKS)
    assert len(rows["prompts.jsonl"]) == 2 * len(TASKS) and len(rows["tests.jsonl"]) == 52
    assert rows["prompts.jsonl"][1] == {
        "id": "CountSavory_1",
        "task": "CountSavory",
        "prompt_index": 1,
        "prompt": "And another.",
    }
    assert rows["prompts.jsonl"][0]["prompt"] == "Our own text for CountSavory, in two parts."
    rooms = ["zarko's office", "hall 1", "start_loc"]
    objects = {"hall 1": ["pen", "cup"]}
    pattern = "^(?=.*4)(?=.*pm).*$"
    assert rows["tests.jsonl"][1] == {
        "task": "CountSavory",
        "test_index": 1,
        "timeout_expected": True,
        "state": {
            "robot_location": "start_loc",
            "locations": rooms,
            "objects": objects,
            "agents": {
                "zarko's office": [{"name": ".*", "answers": [".*", pattern]}],
                "hall 1": [{"name": ".*", "answers": []}],
            },
        },
    }
    people = {"zarko's office": [[".*", pattern]], "hall 1": [[]]}
    world = {"rooms": rooms, "robot_start": "start_loc", "objects": objects, "people": people, "may_timeout": True}
    assert rows["worlds.json"]["CountSavory"][1] == world
    assert containing(["a", "b c"]) == "^(?=.*a)(?=.*b c).*$"


def test_the_published_folder_is_a_benchmark_and_never_runs(folder):
    benchmark = Benchmark(folder)
    assert {task: len(worlds) for task, worlds in benchmark.worlds.items()} == {t: n for t, (_, n) in TASKS.items()}
    assert isinstance(benchmark.worlds["GetDrink"][0], World) and benchmark.worlds["GetDrink"][1].may_timeout
    problems = RoboEval(benchmark_dir=str(folder)).problems("test")
    assert len(problems) == 32 and problems[0].id == "roboeval/CountSavory_0"
    assert not (folder / "ran").exists()


def test_every_place_of_the_task_files_is_known(folder, tmp_path):
    expected = [prompt.id for prompt in Benchmark(folder).prompts()]
    assert [prompt.id for prompt in Benchmark(folder / "tasks").prompts()] == expected
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "benchmark").mkdir()
    (folder / "tasks").rename(repository / "benchmark" / "tasks")
    assert [prompt.id for prompt in Benchmark(repository).prompts()] == expected


PROGRAM = """def task_program():
    go_to("zarko's office")
    ask("", "Which do you have?", ["cheese", "bread"])
    go_to("start_loc")
    say("bread")
"""


def test_a_program_is_judged_in_the_published_worlds(folder, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    programs = {"right": PROGRAM, "wrong": PROGRAM.replace('go_to("start_loc")', 'go_to("moon")')}
    lines = [{"id": name, "task": "GrilledCheese", "program": program} for name, program in programs.items()]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["judge", str(rows), "--benchmark", str(folder), "--mode", "compat"]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["verdict"]) for row in results] == [("right", "Success"), ("wrong", "RobotExecutionError")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('.addAgent(".*"', '.addAgent("zarko"', "`addAgent` is not a call of State"),
        ("State()", "Status()", "is not a call that builds a State"),
        ("State()", "State(1)", "is not a call that builds a State"),
        ('"4"', "4", "is not a call that builds a State"),
        ('"pen"', '"p" + "en"', "line 16: `'p' + 'en'` is not data"),
        ("prompts = [", "prompts = [1,", "`prompts` must be a list of texts"),
        ("prompts = [", "texts = [", "assigns no `prompts`"),
        ("prompts = [", "prompts = prompts + [", "is not data"),
        ('"timeout"', '"late"', "needs `state` and `timeout`"),
        ('"timeout": False', '"timeout": test0', "`timeout` True or False"),
        ('"state" : state0', '"state" : test0', "`state` must be a State"),
        ('"state" : state0', '"state" : tests', "refers to itself"),
        ("prompts = [", "prompts = ][", "is not a Python file"),
        ("prompts = [", "prompts = \0[", "is not a Python file"),
        ("[r", "[(", "is not a Python file"),
    ],
)
def test_what_is_not_of_the_published_form_is_one_line_with_its_file(folder, old, new, message):
    path = folder / "tasks" / "CountSavory.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(TaskError) as raised:
        Benchmark(folder)
    printed = str(raised.value)
    assert str(path) in printed and message in printed and "\n" not in printed


def test_a_folder_that_is_not_whole_is_one_line(folder, tmp_path):
    (folder / "tasks" / "WeatherPoll.py").unlink()
    with pytest.raises(TaskError, match=r"WeatherPoll\.py cannot be read .* task\.benchmark_dir needs every task file"):
        Benchmark(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=r"task\.benchmark_dir .* takes a folder with RoboEval's own tasks/\*\.py"):
        Benchmark(tmp_path / "empty")
    text = (folder / "tasks" / "GetDrink.py").read_text()
    (folder / "tasks" / "WeatherPoll.py").write_text(text)
    with pytest.raises(TaskError, match="5 worlds are needed for WeatherPoll"):
        Benchmark(folder)


def test_the_real_folder_has_the_rows_of_the_json_files(benchmark_folder):
    named = os.environ.get("ROBOEVAL_PUBLISHED")
    if named is None:
        pytest.skip("ROBOEVAL_PUBLISHED does not name the folder `benchmark` of github.com/ut-amrl/codebotler")
    files = task_folder(Path(named), TASKS)
    assert files is not None, named
    rows = published_rows(files, TASKS)
    assert rows["prompts.jsonl"] == read_json_lines(benchmark_folder / "prompts.jsonl")
    worded = read_json_lines(benchmark_folder / "tests.jsonl")
    assert rows["tests.jsonl"] == [{key: row[key] for key in rows["tests.jsonl"][0]} for row in worded]
    assert rows["worlds.json"] == json.loads((benchmark_folder / "worlds.json").read_text())
    assert Benchmark(named).worlds == Benchmark(benchmark_folder).worlds
