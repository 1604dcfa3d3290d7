"""What an instruction puts in order is done in it, and messages are said where and when the reference says them."""

from __future__ import annotations

import ast
import asyncio
import itertools

import pytest

from envs.roboeval.generated import rows
from envs.roboeval.order import stated_pairs
from envs.task import Problem
from rewards.robot import Simulator
from tests.envs.roboeval.test_behaviour import PROBLEMS, body, completion


@pytest.fixture(scope="module")
def passes(sandbox):
    """Whether each program has full marks on its problem."""

    def run(pairs):
        results = asyncio.run(Simulator(sandbox).score([p for p, _ in pairs], [completion(code) for _, code in pairs]))
        return [result.passed for result in results]

    return run


@pytest.mark.parametrize(
    ("instruction", "pairs"),
    [
        ("Say in the old mill and then in the barn that it rains.", {("old mill", "barn")}),
        ("Carry the cup from the barn to the den. After that take the hat in the old mill to me.",
         {("barn", "old mill"), ("den", "old mill")}),
        ("Carry the cup from the barn to the den, then the hat from the den to the old mill.", {("barn", "old mill")}),
        ("Go to the barn and the old mill, one after the other. Then tell me what you saw.", set()),
        ("Say in the barn and in the old mill that it rains.", set()),
        ("Ask Ann in the barn; there may be nobody: then go on.", set()),
    ],
)  # fmt: skip
def test_then_puts_places_in_order(instruction, pairs):
    assert stated_pairs(instruction, ["old mill", "barn", "den", "start_loc", "!"]) == pairs


def test_programs_that_swap_a_stated_order_do_not_pass(passes):
    then = [row for row in rows(12) if " and then in the " in row["text"] and not row["ordered"]]
    after = [row for row in rows(40) if row["family"] == "two_errands" and "After that" in row["text"]]
    assert len(then) > 15 and len(after) > 5
    pairs = []
    for row in then:
        tree = ast.parse(row["program"])
        next(node for node in ast.walk(tree) if _is_pair_to_announce(node, row["text"])).elts.reverse()
        pairs.append((problem(row), ast.unparse(tree)))
    for row in after:
        head, *lines = row["program"].splitlines()
        middle = len(lines) // 2
        pairs.append((problem(row), "\n".join([head, *lines[middle:], *lines[:middle], ""])))
    assert passes([(problem(row), row["program"]) for row in then + after]) == [True] * len(pairs)
    assert passes(pairs) == [False] * len(pairs)


def test_without_a_stated_order_a_program_may_choose(passes):
    row = next(row for row in rows(4) if row["family"] == "two_errands" and "After that" not in row["text"])
    head, *lines = row["program"].splitlines()
    middle = len(lines) // 2
    assert passes([(problem(row), "\n".join([head, *lines[middle:], *lines[:middle], ""]))]) == [True]


def test_exchanged_messages_do_not_pass(passes):
    shipped = [(each, each.reference) for each in PROBLEMS.values()]
    generated = [(problem(row), row["program"]) for row in itertools.chain(rows(2), rows(4, held_out=True))]
    pairs = [(task, code) for task, program in shipped + generated if (code := exchanged(program)) is not None]
    assert len(pairs) > 40
    wrong = [(task.id, code) for (task, code), passed in zip(pairs, passes(pairs), strict=True) if passed]
    assert wrong == []


def test_a_message_that_denies_the_answer_does_not_pass(passes):
    gardener = PROBLEMS["inspect-04"].reference
    yes, no = "The tall ladder may be put away.", "The tall ladder has to stay in the orchard."
    swapped = gardener.replace(yes, "The gardener says no").replace(no, "The gardener says yes")
    gone = gardener.replace(yes, "?").replace("The tall ladder is gone.", yes).replace("?", "The tall ladder is gone.")
    assert passes([(PROBLEMS["inspect-04"], swapped), (PROBLEMS["inspect-04"], gone)]) == [False, False]


def test_a_name_beside_a_negation_is_no_claim(passes):
    code = body(
        """
        start = get_current_location()
        go_to("seminar hall")
        seen = [name for name in ("projector", "lectern") if is_in_room(name)]
        go_to(start)
        if len(seen) == 1:
            say(f"The {seen[0]} is not there but the {'lectern' if seen == ['projector'] else 'projector'} is.")
        else:
            say("Yes, both." if seen else "No, none of them.")
        """
    )
    right = code.replace(" is not there but", " is there but").replace(" is.", " is not.")
    assert passes([(PROBLEMS["inspect-02"], code), (PROBLEMS["inspect-02"], right)]) == [False, True]


def problem(row):
    data = {"ordered": True} if row["ordered"] else {}
    return Problem(id=row["id"], question=row["text"], reference=row["program"], data=data)


def _is_pair_to_announce(node, text):
    if not isinstance(node, ast.List) or len(node.elts) != 2:
        return False
    first, second = (getattr(each, "value", "") for each in node.elts)
    return f"in the {first} and then in the {second}" in text


def exchanged(program):
    """A program with the messages of the two branches of an `if` exchanged; None if no `if` has one in each."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.orelse:
            a, b = _messages(node.body), _messages(node.orelse)
            if len(a) == len(b) == 1 and a[0].value != b[0].value:
                a[0].value, b[0].value = b[0].value, a[0].value
                return ast.unparse(tree)
    return None


def _messages(block):
    calls = [node for line in block for node in ast.walk(line) if isinstance(node, ast.Call)]
    said = [call.args[0] for call in calls if getattr(call.func, "id", "") == "say"]
    said += [line.value for line in block if isinstance(line, ast.Assign)]
    return [each for each in said if isinstance(each, ast.Constant) and isinstance(each.value, str)]
