"""The simulator channel: exact probabilities, the failing call charged, closed worlds judged, holes closed."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest
import yaml

from envs.roboeval.references import Reference
from envs.roboeval.task import RoboEval, program_of
from envs.task import Problem, TaskError
from rewards.attribution import attribute
from rewards.channel import ChannelResult, Completion
from rewards.lint import Lint, Linter
from rewards.robot import Simulator
from rewards.syntax import Syntax

PICK = "def task_program():\n    go_to('kitchen')\n    pick('mug')\n    go_to('lab')\n    place('{}')\n"
COIN = "def task_program():\n    if is_in_room('Ann'):\n        pick('Ann')\n        pick('Ann')\n    say('done')\n"
PROBLEM = Problem("t/open", "", data={"nouns": ["kitchen", "mug", "lab"], "actions": ["go_to", "pick", "place"]})
DATA = Path(__file__).parents[2] / "envs" / "roboeval" / "data"


def answer(code: str | None) -> Completion:
    text = "no program" if code is None else f"```python\n{code}```"
    edges = [*range(0, len(text), 3), len(text)]
    offsets = [*itertools.pairwise(edges), (len(text), len(text))]
    span = None if code is None else (10, 10 + len(code))
    return Completion(text, range(len(offsets)), offsets, span, closed=code is not None)


def graded(channel: Simulator, *codes: str | None, problem: Problem = PROBLEM) -> list[tuple[ChannelResult, list[str]]]:
    """Each result with the characters that lose by it."""
    answers = [answer(code) for code in codes]
    results = asyncio.run(channel.score([problem] * len(codes), answers))
    for completion, result in zip(answers, results, strict=True):
        assert sum(attribute(completion, result, channel.pays_outside_code)) == pytest.approx(result.score, abs=1e-9)
    return [
        (result, [completion.text[s.start : s.end] for s in result.spans if s.value < 0])
        for completion, result in zip(answers, results, strict=True)
    ]


def test_references_that_others_push_out_while_new_ones_are_made_are_kept(monkeypatch):
    async def made(sandbox, tasks):
        await asyncio.sleep(0.1 if tasks[0].instruction == "slow" else 0.01)
        return [Reference(task.instruction, False, frozenset(), [{}], []) for task in tasks]

    async def both():
        await channel._references(dict(enumerate(map(problem, "abc"))))
        slow = channel._references({0: problem("a"), 1: problem("slow")})
        return await asyncio.gather(slow, channel._references({0: problem("d")}))

    def problem(name):
        return Problem(name, name, reference=PICK)

    monkeypatch.setattr("rewards.robot.references", made)
    monkeypatch.setattr("rewards.robot.MOST_REFERENCES", 3)
    channel = Simulator(None)
    first, second = asyncio.run(both())
    assert [first[0].instruction, first[1].instruction, second[0].instruction] == ["a", "slow", "d"]
    assert len(channel.known) == 3


def test_the_failing_call_is_charged_with_its_probability(sandbox):
    right, wrong, none = graded(Simulator(sandbox), PICK.format("mug"), PICK.format("cup"), None)
    assert right[0].score == 1 and right[0].passed and right[1] == []
    assert wrong[0].score == 0 and not wrong[0].passed and wrong[1] == ["place('cup')"]
    assert wrong[0].verdict == "RobotPlaceError"
    assert none[0].score == 0 and none[0].verdict == "no program"
    [(coin, charged)] = graded(Simulator(sandbox, shaking="none"), COIN, problem=Problem("t/coin", ""))
    assert 0 < coin.score < 1 and charged and all("Ann" in text for text in charged)


def test_programs_that_do_nothing_earn_nothing_unless_the_guard_is_off(sandbox):
    idle = "def task_program():\n    pass\n"
    assert graded(Simulator(sandbox), idle)[0][0].verdict == "idle"
    assert graded(Simulator(sandbox), idle)[0][0].score == 0
    assert graded(Simulator(sandbox, guard=False), idle)[0][0].score == 0
    assert graded(Simulator(sandbox, guard=False, reward="runs"), idle)[0][0].score == 1  # as published


def test_what_ends_no_run_is_said(sandbox):
    """A program that never ends, or never passes, has a program."""
    endless = "def task_program():\n    while True:\n        pass\n"
    [(result, _)] = graded(Simulator(sandbox), endless)
    assert (result.score, result.verdict) == (0.0, "timeout")
    failing = "def task_program():\n    pick('')\n"
    [(result, _)] = graded(Simulator(sandbox, reward="runs", shaking="none", guard=False), failing)
    assert result.verdict not in ("no program", "ok") and result.score < 0


def test_a_program_that_fails_before_its_first_call_is_not_idle(sandbox):
    """With reward=runs it earns what every failing program does, and not more for failing early."""
    failing = {
        "def task_program(:\n    pass\n": "Python:SyntaxError",
        "def task_program():\n    walk()\n": "Python:NameError",
        "def task_program():\n    go_to('')\n": "RobotGoToError",
    }
    for reward, charge in (("behaviour", 0.0), ("runs", -0.1)):
        for (result, _), code in zip(graded(Simulator(sandbox, reward), *failing), failing, strict=True):
            assert result.verdict == failing[code]
            assert result.score == pytest.approx(charge * len(answer(code).token_ids))


@pytest.mark.parametrize("definition", ["def task_program() -> None:", "def task_program ():", "def  task_program():"])
def test_a_definition_line_may_be_annotated(definition, sandbox):
    [problem, *_] = RoboEval().problems("train")
    written = problem.reference.replace("def task_program():", definition)
    assert written != problem.reference and program_of(written) == written
    [(result, charged)] = graded(Simulator(sandbox), written, problem=problem)
    assert result.passed and result.score == 1 and charged == []


@pytest.mark.parametrize("style", ["chat", "completion"])
def test_all_channels_judge_the_program_that_runs(style, sandbox):
    """Without its definition line too, which the simulator then puts before it."""
    extraction = "fenced" if style == "chat" else "robo_instruct"
    [problem, *_] = RoboEval(style=style, extraction=extraction).problems("train")
    definition, body = problem.reference.split("\n", 1)
    for code in (f"{body}\n    return\n", problem.reference, problem.reference.replace("():", "() -> None:")):
        assert f"{problem.head(code)}{code}" in (code, f"{definition}\n{code}") and problem.head(body)
        [result] = asyncio.run(Syntax(sandbox).score([problem], [answer(code)]))
        assert result.score == 0
        assert graded(Simulator(sandbox), code, problem=problem)[0][0].passed


def test_a_program_that_calls_itself_runs_once(sandbox):
    """Every shipped reference, in training and in closed worlds."""
    task, channel = RoboEval(), Simulator(sandbox)
    problems = [*task.problems("train")[:20], *task.problems("test")]
    for ending in ("\n\ntask_program()\n", '\n\nif __name__ == "__main__":\n    task_program()\n'):
        answers = [answer(problem.reference.rstrip() + ending) for problem in problems]
        results = asyncio.run(channel.score(problems, answers))
        assert [problem.id for problem, r in zip(problems, results, strict=True) if not r or not r.passed] == []


@pytest.mark.parametrize("imports", ["import time", "from time import sleep", "import os, time"])
def test_nobody_sleeps_in_the_open_world(imports, sandbox):
    """Programs that share a process with others, and programs of their own process."""
    sleep = "sleep" if imports.startswith("from") else "time.sleep"
    code = f"{imports}\ndef task_program():\n    go_to('hall')\n    {sleep}(1000)\n    say('done')\n"
    [(result, _)] = graded(Simulator(sandbox), code, problem=Problem("t/hall", "Go to the hall and say done."))
    assert result.passed, result


def test_time_needs_no_import():
    """The prompt says that a program calls time.sleep."""
    spec = yaml.safe_load((Path(__file__).parents[2] / "conf/task/roboeval.yaml").read_text())["reward"]["lint"]
    used = answer("def task_program():\n    time.sleep(1)\n    say(get_current_location())\n")
    lint = Lint(spec["weights"], linter=Linter(builtins=spec["linter"]["builtins"]))
    [result] = asyncio.run(lint.score([PROBLEM], [used]))
    assert result and result.score == 0


def test_what_the_instruction_names_must_occur(sandbox):
    half = "def task_program():\n    go_to('kitchen')\n"
    [(result, _)] = graded(Simulator(sandbox), half)
    assert 0.15 < result.score < 0.5 and not result.passed
    [(whole, _)] = graded(Simulator(sandbox), PICK.format("mug"))
    assert whole.score == 1 and whole.passed


def test_the_works_own_reward(sandbox):
    channel = Simulator(sandbox, reward="runs", shaking="none", guard=False)
    right, wrong, none = graded(channel, PICK.format("mug"), PICK.format("cup"), None)
    assert right[0].score == 1 and "5 of 5" in right[0].note
    for completion, (result, _) in ((answer(PICK.format("cup")), wrong), (answer(None), none)):
        assert result.score == pytest.approx(-0.1 * len(completion.token_ids))
        assert attribute(completion, result, True)[0] == pytest.approx(-0.1, rel=0.3)  # the end has no character


def test_shipped_evaluation_tasks_are_judged_in_their_worlds(sandbox):
    task, rows = RoboEval(), [json.loads(line) for line in (DATA / "eval.jsonl").read_text().splitlines()]
    problems = {p.id: p for p in task.problems("test")}
    channel = Simulator(sandbox)
    asked = [(problems[f"roboeval/{r['id']}"], r["program"]) for r in rows]
    results = asyncio.run(channel.score([p for p, _ in asked], [answer(code) for _, code in asked]))
    assert [r.verdict for r in results] == ["Success"] * len(rows) and all(r.passed for r in results)
    assert all(r.detail["trace"] and r.detail["rooms"] for r in results)
    problem = asked[0][0]
    broken = asked[0][1].replace("\n    ", "\n    pick('a thing that is nowhere')\n    ", 1)
    [(result, charged)] = graded(channel, broken, problem=problem)
    assert result.verdict == "RobotExecutionError" and charged == ["pick('a thing that is nowhere')"]
    assert result.score == 0


PARAPHRASES = {
    "relay-2": (
        "I could not find Paulina.",
        "I cannot find Paulina.",
        "I was unable to find Paulina.",
        "Paulina is gone.",
    ),
    "fetch-1": (
        "The hydrant key is in neither place.",
        "I cannot find the hydrant key.",
        "The hydrant key is missing.",
    ),
    "deliver-1": ("The accordion is not in the dance hall.", "The accordion is missing from the dance hall."),
}


def test_a_report_of_absence_may_have_other_words(sandbox):
    rows = [json.loads(line) for line in (DATA / "eval.jsonl").read_text().splitlines()]
    programs, problems = {r["id"]: r["program"] for r in rows}, {p.id: p for p in RoboEval().problems("test")}
    asked = [
        (problems[f"roboeval/{name}"], programs[name].replace(own, other))
        for name, (own, *others) in PARAPHRASES.items()
        for other in others
        if own in programs[name]
    ]
    wrong = [(problems["roboeval/fetch-1"], programs["fetch-1"].replace("is in neither place", "is here"))]
    results = asyncio.run(
        Simulator(sandbox).score([p for p, _ in asked + wrong], [answer(c) for _, c in asked + wrong])
    )
    assert len(asked) == 6 and [r.passed for r in results] == [True] * 6 + [False]


def test_an_answer_that_continues_the_definition_is_judged_as_the_whole_program(sandbox):
    """What syntax and lint say of a body behind the given line, they say of the whole program."""
    with pytest.raises(TaskError, match=r"task\.env\.extraction=robo_instruct"):
        RoboEval(style="completion")
    task = RoboEval(style="completion", extraction="robo_instruct")
    faults = "\n    import os\n    for room in get_all_rooms():\n        go_to(rooms)\n"
    broken = "\n    go_to('kitchen'\n    say('hello')\n"
    problem = task.problems("train")[0]
    body = problem.reference.partition("def task_program():")[2]
    channels = {
        "syntax": Syntax(sandbox),
        "lint": Lint({"F": 0.25}, linter=Linter(builtins=("get_all_rooms", "go_to", "say"))),
    }
    for text in (body, faults, broken):
        code = task.extract(text)
        part = Completion(text, range(len(text)), [(i, i + 1) for i in range(len(text))], (code.start, code.end))
        whole = answer(f"def task_program():\n{part.code}")
        for channel in channels.values():
            [here], [there] = (asyncio.run(channel.score([problem], [each])) for each in (part, whole))
            assert (here.score, here.note.partition(" (")[0]) == (there.score, there.note.partition(" (")[0])
            charged = [
                [each.text[s.start : s.end] for s in result.spans if s.value < 0]
                for each, result in ((part, here), (whole, there))
            ]
            assert charged[0] == charged[1]
    assert asyncio.run(channels["syntax"].score([problem], [part]))[0].score == -1.0


def test_prompts_of_both_styles_and_their_answers():
    chat, completion = RoboEval(examples=2), RoboEval(style="completion", extraction="robo_instruct", examples=6)
    problem = chat.problems("train")[0]
    messages = chat.messages(problem)
    assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * 2, "user"]
    assert messages[-1]["content"] == f"# Instruction: {problem.question}"
    text = completion.messages(problem)
    assert text.endswith("\ndef task_program():") and text.count("# Instruction:") == 7
    body = "\n    say('hello')\n"
    assert not completion.complete(body) and completion.complete(body + "# Instruction: more")
    results = completion.extract(body + "# Instruction: more")
    assert (
        program_of((body + "# Instruction: more")[results.start : results.end]).rstrip()
        == f"def task_program():{body}".rstrip()
    )
    whole = "def task_program():\n    say('a')\n"
    assert program_of(whole) == whole and completion.extract("").__class__ is type(None)


@pytest.mark.parametrize("definition", ["def task_program():", "def task_program() -> None:", "def task_program ():"])
def test_rows_in_the_hubs_columns(definition, tmp_path, caplog):
    program = f"{definition}\n    say('hi')"
    rows = [{"text": f"stubs\n\n# Instruction: Say hi.\n{program}", "program": program}, {"text": "odd", "program": ""}]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [problem] = RoboEval(train=str(file)).problems("train")
    assert problem.question == "Say hi." and problem.reference == program
    assert "1 of 2 rows are left out; row 1: its `text` has no line `# Instruction: ...`" in caplog.text
    file.write_text(json.dumps(rows[1]) + "\n")
    with pytest.raises(TaskError, match="no row can be used; row 0: its `text` has no line"):
        RoboEval(train=str(file))
    file.write_text(json.dumps(rows[0] | {"program": "say('hi')"}) + "\n")
    with pytest.raises(TaskError, match=r"row 0: its `program` does not define task_program: \"say\('hi'\)\""):
        RoboEval(train=str(file))


def test_rows_may_lack_a_program_and_tell_what_is_needed(tmp_path):
    file = tmp_path / "rows.jsonl"
    row = {"text": "# Instruction: Fetch the mug.", "nouns": ["mug"], "actions": ["pick"], "ordered": True}
    file.write_text(json.dumps(row) + "\n")
    [problem] = RoboEval(train=str(file)).problems("train")
    assert problem.reference == "" and problem.data == {"nouns": ["mug"], "actions": ["pick"], "ordered": True}
    for wrong in ({"actions": ["fly"]}, {"nouns": [5]}, {"ordered": "yes"}):
        file.write_text(json.dumps(row | wrong) + "\n")
        with pytest.raises(TaskError, match=next(iter(wrong))):
            RoboEval(train=str(file))


def test_the_benchmark_is_for_evaluation_alone():
    folder = Path(__file__).parents[3] / "shared" / "data" / "roboeval"
    if not folder.exists():
        pytest.skip("../shared/data/roboeval is not here")
    task = RoboEval(benchmark_dir=str(folder))
    prompts = {problem.question for problem in task.problems("test")}
    assert len(prompts) == 80
    seen = [*task.problems("train"), *task.problems("validation")]
    assert seen and not prompts & {problem.question for problem in seen}
    shown = "".join(m["content"] for m in task.messages(seen[0])[:-1])
    assert not any(prompt in shown for prompt in prompts)
    assert not any("# Instruction" in row.reference for row in task.problems("test"))


def test_what_cannot_be_is_said_in_one_line(sandbox):
    for wrong in ({"style": "poem"}, {"extraction": "hope"}, {"examples": 9}, {"train": "/nowhere"}):
        with pytest.raises(TaskError):
            RoboEval(**wrong)
    with pytest.raises(TaskError, match="continues a program has no definition line"):
        RoboEval(style="completion", extraction="seed_paper")
    with pytest.raises(ValueError, match="set it to behaviour"):
        Simulator(sandbox, reward="luck")
    for wrong in ({"mode": "Compat"}, {"mode": None}, {"shaking": None}, {"shaking": "Tree"}):
        [(name, value)] = wrong.items()
        with pytest.raises(ValueError, match=f"simulator.{name}={value}: unknown; set it to "):
            Simulator(sandbox, **wrong)
