"""Generated instructions: their programs are right and can be written from the text; held-out families stay apart."""

from __future__ import annotations

import ast
import asyncio
import json
import re

import pytest

from envs.roboeval.generated import COMPOSED, HELD_OUT, STRUCTURES, composed, families, instruction, rows
from envs.roboeval.task import DATA, RoboEval
from envs.task import Problem, TaskError
from rewards.channel import Completion
from rewards.robot import Simulator

NAMED = re.compile(r'(?:go_to|pick|place|is_in_room)\("([^"]+)"\)|\("([^"]+)", "([^"]+)"\)|ask\("([^"]+)"')
ROBOT = {"get_current_location", "get_all_rooms", "is_in_room", "go_to", "ask", "say", "pick", "place"}


@pytest.fixture(scope="module")
def one_each() -> list[dict[str, str]]:
    """An instruction of each family, held-out ones too, of different wordings."""
    return [instruction(family, number % 5) for number, family in enumerate(families())]


@pytest.fixture(scope="module")
def of_clauses() -> list[dict[str, str]]:
    """Some instructions of each structure that is composed of parts."""
    return [instruction(composed(structure, number), number) for structure in STRUCTURES for number in range(40)]


class WithoutNames(ast.NodeTransformer):
    """Leaves of a program the calls of the robot and the structure: no names, texts, numbers or lists, so that rounds
    through two rooms and through four are the same."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return node if node.id in ROBOT else ast.Name("name", node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0)

    visit_JoinedStr = visit_List = visit_Dict = visit_Constant

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return ast.Constant(0) if isinstance(node.ctx, ast.Load) else node


def shape(program: str) -> str:
    return ast.dump(WithoutNames().visit(ast.parse(program)))


def answer(program: str) -> Completion:
    return Completion(program, (0,), ((0, len(program)),), (0, len(program)))


def test_wordings_and_programs_are_filled_in(of_clauses):
    for family in families():
        assert len(family.wordings) >= 2 and len(set(family.wordings)) == len(family.wordings)
    several = [instruction(family, number) for family in families() for number in range(2 * len(family.wordings))]
    for made in several + of_clauses:
        ast.parse(made["program"])
        assert not re.search(r"[$@{}|<>]", made["text"]), made["text"]
        assert not re.search(r"[$@<>]", made["program"]), made["program"]
        assert made["text"][0].isupper() and made["text"][-1] in ".?"
        assert not re.search(r"\ba [aeio]", made["text"], re.IGNORECASE), made["text"]


def test_a_program_copies_its_names_from_the_instruction(of_clauses):
    for made in [instruction(family, number) for family in families() for number in range(4)] + of_clauses:
        names = {name for match in NAMED.finditer(made["program"]) for name in match.groups() if name}
        names -= {"person"}  # anybody
        assert all(name in made["text"] for name in names), made


def test_the_same_instruction_every_time_and_hardly_one_twice():
    made = list(rows(20))
    assert made == list(rows(20)) and made[:3] == list(rows(3))[:3]
    assert len({row["text"] for row in made}) > 0.99 * len(made)
    assert len({row["id"] for row in made}) == len(made)


def test_references_have_full_marks_and_other_programs_do_not(sandbox, one_each, of_clauses):
    made = one_each + of_clauses[::4]
    problems = [Problem(row["id"], row["text"], reference=row["program"]) for row in made]
    channel, programs = Simulator(sandbox), [row["program"] for row in made]

    def scores(given: list[str]) -> list[float]:
        results = asyncio.run(channel.score(problems, [answer(program) for program in given]))
        return [result.score if result else -1.0 for result in results]

    assert scores(programs) == pytest.approx([1.0] * len(problems))
    assert max(scores(programs[1:] + programs[:1])) < 0.5


def test_clauses_are_put_together_in_many_ways(of_clauses):
    shapes = {structure: set[str]() for structure in STRUCTURES}
    for row in of_clauses:
        shapes[row["family"]].add(shape(row["program"]))
    assert {structure: len(each) > 12 for structure, each in shapes.items()} == dict.fromkeys(STRUCTURES, True)


def test_no_shipped_evaluation_task_has_the_structure_of_a_training_program():
    trained = {shape(row["program"]) for row in rows(10)}
    tasks = {shape(json.loads(line)["program"]) for line in (DATA / "eval.jsonl").read_text().splitlines()}
    assert len(tasks) == 20 and len(trained) > 300
    assert not trained & tasks


def test_four_held_out_families_have_a_structure_of_their_own(one_each):
    """The others share theirs with a family or with composed instructions (tests/bench/results/robot_programs.md)."""
    assert {family.name for family in families()} >= HELD_OUT
    trained = {shape(row["program"]) for row in rows(10)}
    of_their_own = {
        row["family"] for row in one_each if row["family"] in HELD_OUT and shape(row["program"]) not in trained
    }
    assert of_their_own >= {"hand_over", "bring_me_what_is_chosen", "what_is_there", "anywhere"}


def test_the_task_trains_on_them_and_validates_on_held_out_families():
    shipped, task = RoboEval(), RoboEval(generated=2)
    made = [p for p in task.problems("train") if p.family]
    assert len(task.problems("train")) == len(shipped.problems("train")) + len(made)
    assert len(made) == 2 * (len(families()) - len(HELD_OUT) + COMPOSED * len(STRUCTURES))
    assert {p.family for p in task.problems("validation")} == HELD_OUT and not {p.family for p in made} & HELD_OUT
    assert shipped.problems("validation") == [] and task.problems("test") == shipped.problems("test")


def test_a_negative_number_is_refused():
    with pytest.raises(TaskError, match=r"task\.env\.generated=-1: must be 0 or more"):
        RoboEval(generated=-1)
