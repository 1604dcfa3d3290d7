"""Problems put together anew for each number: phrases that each compute something, inside one another.

A family of envs/basics/families has one structure, of which constants and names are drawn. Here the structure is drawn
too: up to four of 325 phrases (phrases.yaml), told in one sentence, in steps or as a choice between two values. So
a policy has to read which parts an answer needs. Problem k is the same on every machine; nothing is stored.
"""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import keyword
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from envs.basics import families
from envs.basics.composed.arguments import arguments
from envs.basics.composed.phrase import (
    VALUES,
    NoSuchPhrase,
    Parameter,
    Phrase,
    drawn,
    expression,
    filled,
    repeats,
    said,
)
from envs.basics.composed.readings import other_readings
from envs.basics.families.draft import Draft, Family
from envs.basics.families.mutants import defined
from envs.basics.families.source import Source
from envs.sandbox import FunctionCase
from envs.task import Problem

__all__ = ["row", "rows", "solves_any"]
SIZES = (1, 2, 2, 2, 2, 3, 3, 3, 4, 4)
"""How many phrases a problem has, each as likely as the others."""
ROOTS = ("text", "text", "words", "words", "numbers", "numbers", "number", "number", "number", "flag", "flag", "table")
STEPS, CHOICES = 0.5, 0.12
"""How many problems of two phrases are told in steps (longer ones are), and how many are a choice of two values."""
POOL, LARGE = 40, 10_000
LONGEST_ANSWER, LONGEST_BODY, LONGEST_TEXT = 120, 150, 300
NAMES = {
    "text": ["text|line|title|sentence", "other|ending|suffix|second", "third|note|center|tail"],
    "words": ["words|names|tokens|tags", "known|allowed|wanted|chosen", "further|spare|added|new"],
    "numbers": ["numbers|values|scores|data", "more|others|weights|prices", "extra|rest|limits|costs"],
    "number": ["number|n|size|start", "limit|k|step|bound", "top|m|high|stop"],
    "table": ["table|stock|points|ages", "updates|changes|additions|counts", "old|past|base|first"],
}
"""Names of the first, second and third parameter of a kind."""
TYPES = {"text": "str", "words": "list[str]", "numbers": "list[int]", "number": "int", "table": "dict[str, int]"}
RETURNED = {**TYPES, "flag": "bool"}
PRONOUNS = {
    "text": ["the result", "that text"],
    "words": ["these words"],
    "numbers": ["these numbers"],
    "number": ["that number", "the result"],
    "table": ["that dictionary"],
}
VARIABLES = {"text": "changed", "words": "picked", "numbers": "result", "number": "amount", "table": "entries"}
APART = (({"signed", "negative"}, {"digits"}), ({"cased"}, {"alphabetical"}))
"""Marks of phrases that do not stand in one problem."""
TAKEN = {*dir(builtins), *keyword.kwlist, *VARIABLES.values()}
TAKEN |= {name for each in NAMES.values() for names in each for name in names.split("|")}
"""Names that no function may have."""
Function = Callable[..., Any]


def rows(count: int) -> list[dict[str, Any]]:
    """The first `count` problems, some five milliseconds each; of several with the same text the first."""
    made: dict[str, dict[str, Any]] = {}
    for each in map(row, range(count)):
        made.setdefault(each["description"], each)
    return list(made.values())


def row(number: int) -> dict[str, Any]:
    """Problem `number`, with the fields of the hand-written problems and its id."""
    attempt = 0
    while True:
        source = Source(f"composed:{number}:{attempt}")
        attempt += 1
        try:
            chosen = families.row(_family(source), number)
        except NoSuchPhrase:
            continue
        if len(chosen["description"]) <= LONGEST_TEXT:
            return {**chosen, "id": f"basics/composed/{number}", "topic": "composed", "family": f"composed/{number}"}


def solves_any(problem: Problem, others: Iterable[Problem]) -> bool:
    """Whether the reference of a composed problem passes the tests of one of the others. Left out are tests with large
    numbers, since a list or a text would be made of so many items."""
    function = defined(compile(problem.reference, "<composed>", "exec"), str(problem.entry_point))
    for other in others:
        cases = [case for case in other.cases if isinstance(case, FunctionCase) and not _large(case)]
        if cases and all(_same(function, case.args, case.expected) for case in cases):
            return True
    return False


def _large(case: FunctionCase) -> bool:
    return any(isinstance(value, int) and abs(value) > LARGE for value in case.args)


def _family(source: Source) -> Family:
    """One problem, as a family of which nothing else is drawn. Raises NoSuchPhrase."""
    known: list[Parameter] = []
    kind, size = source.pick(*ROOTS), source.pick(*SIZES)
    if kind not in ("flag", "table") and size > 2 and source.random() < CHOICES:
        text, body, parts = _choice(source, kind, size, known)
    else:
        root = drawn(source, kind, size, known)
        chain = _chain(root) if size > 2 or source.random() < STEPS else []
        text, body = _told(source, root, chain)
        parts = [root]
    used = [phrase for part in (*parts[1:], *parts[:1]) for phrase in part.walk()]
    marks = {mark for phrase in used for mark in phrase.marks}
    if not known or len(body) > LONGEST_BODY or any(one & marks and other & marks for one, other in APART):
        raise NoSuchPhrase
    pool = _pool(source, known, body, parts)
    turns = itertools.cycle(args for args, _ in pool)
    draft = Draft(
        names=_names([phrase.key for phrase in used]),
        signature=", ".join(f"{NAMES[p.kind][p.place]}: {TYPES[p.kind]}" for p in known)
        + f" -> {_returned(kind, [answer for _, answer in pool])}",
        texts=[_renamed(text, known)],
        body=_renamed(body, known),
        arguments=lambda: next(turns),
        edges=[],
        values={},
    )
    return Family("composed", min(3, size), lambda _: draft)


def _returned(kind: str, answers: Sequence[Any]) -> str:
    """The type of the result; some numbers are no whole ones."""
    numbers = [number for answer in answers for number in (answer if isinstance(answer, list) else [answer])]
    return RETURNED[kind].replace("int", "float" if any(isinstance(each, float) for each in numbers) else "int")


def _names(used: Sequence[str]) -> str:
    """Names of the function, after the phrases in it."""
    root, *others = dict.fromkeys(used)
    forms = [root, *(f"{root}_{each}" for each in others[:2]), f"get_{root}", f"find_{root}"]
    return "|".join(form for form in forms if form not in TAKEN)


def _renamed(text: str, known: Sequence[Parameter]) -> str:
    """The first name of each parameter in place of its kind and place, which is what a draft takes."""
    first = {each.name: NAMES[each.kind][each.place].split("|")[0] for each in known}
    return re.sub(r"\$(\w+)", lambda match: f"${first[match[1]]}", text)


def _chain(root: Phrase) -> list[Phrase]:
    """The phrases inside `root` that can be told before it, from the inside."""
    chain: list[Phrase] = []
    phrase = root
    while inner := [each for each in phrase.inner if each.kind in VALUES]:
        phrase = inner[0]
        chain.insert(0, phrase)
    return chain


def _told(source: Source, root: Phrase, chain: Sequence[Phrase]) -> tuple[str, str]:
    """(description, body) of a problem with one result. chain: what is told as a step of its own."""
    pronouns: dict[Phrase, str] = {}
    variables: dict[Phrase, str] = {}
    sentences: list[str] = []
    lines: list[str] = []
    assigned = source.flag() or any(repeats(phrase) for phrase in (*chain, root))
    for step in chain:
        forms = step.entry.get("do")
        if forms:
            sentence = filled(source.pick(*forms), step, source, pronouns)
        else:
            sentence = f"{source.pick('Take', 'Find')} {said(step, source, pronouns)}"
        before = source.pick("", "Then ", "Next, ") if sentences else source.pick("", "", "First, ")
        sentences.append(f"{before}{sentence[0].lower() if before else sentence[0]}{sentence[1:]}.")
        pronouns[step] = source.pick(*PRONOUNS[step.kind])
        if assigned:
            lines.append(f"{VARIABLES[step.kind]} = {_code(expression(step, variables))}")
            variables[step] = VARIABLES[step.kind]
    final = said(root, source, pronouns)
    if root.kind == "flag":
        forms = [f"Return True if {final}, and False otherwise.", f"Return whether {final}.", f"Check whether {final}."]
    elif sentences:
        forms = [f"Return {final}.", f"Then return {final}.", f"Finally, return {final}."]
    else:
        forms = [f"Return {final}.", f"Return {final}.", f"{'Compute' if root.kind == 'number' else 'Return'} {final}."]
    lines.append(f"return {_code(expression(root, variables))}")
    return " ".join([*sentences, source.pick(*forms)]), "\n".join(lines)


def _choice(source: Source, kind: str, size: int, known: list[Parameter]) -> tuple[str, str, list[Phrase]]:
    """(description, body, parts) of a problem that asks for one of two values."""
    test = drawn(source, "flag", 1, known)
    values = [drawn(source, kind, 1, known), drawn(source, kind, size - 2, known)]
    if source.flag():
        values.reverse()
    clause, then, other = (said(part, source, {}) for part in (test, *values))
    if any(word in value for value in (then, other) for word in (" if ", "otherwise")):
        raise NoSuchPhrase
    text = source.pick(
        f"If {clause}, return {then}. Otherwise, return {other}.",
        f"If {clause}, the result is {then}; if not, it is {other}.",
    )
    condition, yes, no = (_code(expression(part, {})) for part in (test, *values))
    body = source.pick(
        f"if {condition}:\n    return {yes}\nreturn {no}",
        f"if {condition}:\n    return {yes}\nelse:\n    return {no}",
        f"return {yes} if {condition} else {no}",
    )
    return text, body, [test, *values]


def _code(node: ast.expr) -> str:
    """An expression with "$" before the names of parameters, and double quotes."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id.rstrip("0123456789") in VALUES:
            each.id = f"DOLLAR_{each.id}"
    text = _plain_calls(ast.unparse(node))
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.STRING and '"' not in token.string:
            text = text[: token.start[1]] + token.string.replace("'", '"') + text[token.end[1] :]
    return text.replace("DOLLAR_", "$")


def _plain_calls(code: str) -> str:
    """`sum(x for x in y)` for `sum((x for x in y))`, as ast.unparse has it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            first, last = node.args[0].col_offset, node.args[0].end_col_offset
            if last and code[first - 1] == code[first] == "(" and not node.keywords:
                return _plain_calls(code[:first] + code[first + 1 : last - 1] + code[last:])
    return code


def _pool(
    source: Source, known: Sequence[Parameter], body: str, parts: Sequence[Phrase]
) -> list[tuple[tuple[Any, ...], Any]]:
    """Arguments and answers of the tests. Raises NoSuchPhrase where the problem is no good one: few arguments have an
    answer, answers are long or nearly all the same, or a phrase changes nothing. Arguments on which others may read the
    text in another way are left out."""
    function = _function(known, body)
    marks = {mark for part in parts for phrase in part.walk() for mark in phrase.marks}
    others = other_readings(_program(known, body), "f", marks)
    pool: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for args in arguments(source, known, parts):
        try:
            answer = function(*args)
        except Exception:
            continue
        if not all(_same(other, args, answer) for other in others):
            continue
        pool.setdefault(repr(args), (args, answer))
        if len(pool) == POOL:
            break
    texts = [repr(answer) for _, answer in pool.values()]
    if len(pool) < POOL // 2 or max(map(len, texts)) > LONGEST_ANSWER:
        raise NoSuchPhrase
    most = max(texts.count(text) for text in set(texts))
    if most > 0.7 * len(texts):
        raise NoSuchPhrase
    cases = list(pool.values())
    if any(all(_same(other, *case) for case in cases) for other in _without(parts, known)):
        raise NoSuchPhrase
    if not all(_matters(function, cases, place) for place in range(len(known))):
        raise NoSuchPhrase
    return cases


def _matters(function: Function, cases: Sequence[tuple[tuple[Any, ...], Any]], place: int) -> bool:
    """Whether the answer of some test is another one with the argument of the next test at this place."""
    following = [*cases[1:], cases[0]]
    changed = [
        (*args[:place], other[place], *args[place + 1 :])
        for (args, _), (other, _) in zip(cases, following, strict=True)
    ]
    return not all(_same(function, args, answer) for args, (_, answer) in zip(changed, cases, strict=True))


def _function(known: Sequence[Parameter], body: str) -> Function:
    return defined(compile(_program(known, body), "<composed>", "exec"), "f")


def _program(known: Sequence[Parameter], body: str) -> str:
    lines = body.replace("$", "").replace("\n", "\n    ")
    signature = ", ".join(parameter.name for parameter in known)
    return f"def f({signature}):\n    {lines}\n"


def _without(parts: Sequence[Phrase], known: Sequence[Parameter]) -> Iterator[Function]:
    """Programs that are simpler than the problem: one of its two values, or a phrase left out for what it is about."""
    if len(parts) > 1:
        simpler = [expression(part, {}) for part in parts[1:]]
    else:
        root = parts[0]
        simpler = [expression(root, {each: part}) for each in root.walk() for part in each.parts(each.kind)]
    for node in simpler:
        yield _function(known, f"return {_code(node)}")


def _same(function: Function, args: tuple[Any, ...], answer: Any) -> bool:
    try:
        return bool(function(*args) == answer)
    except Exception:
        return False
