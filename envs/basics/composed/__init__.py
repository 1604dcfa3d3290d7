"""Problems put together anew for each number: phrases that each compute something, inside one another.

A family of envs/basics/families has one structure, of which constants and names are drawn. Here the structure is drawn
too: up to four of 329 phrases (phrases.yaml), told in one sentence, in steps or as a choice between two values. So
a policy has to read which parts an answer needs. Problem k is the same on every machine; nothing is stored.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import io
import itertools
import keyword
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from envs.basics import families
from envs.basics.composed.arguments import arguments
from envs.basics.composed.phrase import (
    VALUES,
    NoSuchPhrase,
    Parameter,
    Part,
    Phrase,
    drawn,
    expression,
    filled,
    repeats,
    said,
)
from envs.basics.families.draft import Draft, Family
from envs.basics.families.mutants import defined
from envs.basics.families.source import Source
from envs.sandbox import FunctionCase
from envs.task import Problem

__all__ = ["composed", "row", "solves"]
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
    "words": ["these words", "the result"],
    "numbers": ["these numbers", "the result"],
    "number": ["that number", "the result"],
    "table": ["that dictionary"],
}
VARIABLES = {"text": "changed", "words": "picked", "numbers": "result", "number": "amount", "table": "entries"}
TAKEN = {*dir(builtins), *keyword.kwlist, *VARIABLES.values()}
TAKEN |= {name for each in NAMES.values() for names in each for name in names.split("|")}
"""Names that no function may have."""
Function = Callable[..., Any]


def composed(count: int) -> Iterator[dict[str, Any]]:
    """The first `count` problems."""
    return map(row, range(count))


def row(number: int) -> dict[str, Any]:
    """Problem `number`, with the fields of the hand-written problems and its id."""
    for attempt in itertools.count():
        source = Source(f"composed:{number}:{attempt}")
        try:
            made = _family(source)
        except NoSuchPhrase:
            continue
        chosen = families.row(made, number)
        if len(chosen["description"]) <= LONGEST_TEXT:
            return {**chosen, "id": f"basics/composed/{number}", "topic": "composed", "family": f"composed/{number}"}
    raise AssertionError("unreachable")


def solves(problem: Problem, other: Problem) -> bool:
    """Whether the reference of a composed problem passes the tests of another problem."""
    function = _reference(problem.reference, problem.entry_point)
    cases = [case for case in other.cases if isinstance(case, FunctionCase)]
    if function.__code__.co_argcount != len(cases[0].args) or any(map(_large, cases)):
        return False
    return all(_same(function, copy.deepcopy(case.args), case.expected) for case in cases)


@functools.lru_cache(maxsize=1)
def _reference(code: str, name: str) -> Function:
    return defined(compile(code, "<composed>", "exec"), name)


def _large(case: FunctionCase) -> bool:
    """Whether a test has a number that a list or a text is not to be made of."""
    return any(isinstance(value, int) and abs(value) > LARGE for value in case.args)


def _family(source: Source) -> Family:
    """One problem, as a family of which nothing else is drawn. Raises NoSuchPhrase."""
    known: list[Parameter] = []
    kind, size = source.pick(*ROOTS), source.pick(*SIZES)
    if kind not in ("flag", "table") and size > 1 and source.random() < CHOICES:
        text, body, parts = _choice(source, kind, size, known)
    else:
        root = drawn(source, kind, size, known)
        chain = _chain(root) if size > 2 or source.random() < STEPS else []
        text, body = _told(source, root, chain)
        parts = [root]
    if not known or len(body) > LONGEST_BODY:
        raise NoSuchPhrase
    pool = _pool(source, known, body, parts)
    used = [phrase.key for part in parts for phrase in part.walk()]
    turns = itertools.cycle(args for args, _ in pool)
    draft = Draft(
        names=_names(used),
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
    for parameter in sorted(known, key=lambda each: -len(each.name)):
        first = NAMES[parameter.kind][parameter.place].split("|")[0]
        text = text.replace(f"${parameter.name}", f"$\0{first}")
    return text.replace("\0", "")


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
    values: list[Part] = [drawn(source, kind, 1, known)]
    values.append(drawn(source, kind, max(1, size - 2), known))
    if source.flag():
        values.reverse()
    clause, then, other = (said(part, source, {}) for part in (test, *values))
    text = source.pick(
        f"If {clause}, return {then}. Otherwise, return {other}.",
        f"Return {then} if {clause}, and {other} otherwise.",
        f"If {clause}, the result is {then}; if not, it is {other}.",
    )
    condition, yes, no = (_code(expression(part, {})) for part in (test, *values))
    body = source.pick(
        f"if {condition}:\n    return {yes}\nreturn {no}",
        f"if {condition}:\n    return {yes}\nelse:\n    return {no}",
        f"return {yes} if {condition} else {no}",
    )
    return text, body, [test, *values]  # type: ignore[list-item]


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
    answer, answers are long or nearly all the same, or a phrase changes nothing."""
    function = _function(known, body)
    pool: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for args in arguments(source, known, parts):
        try:
            answer = function(*args)
        except Exception:
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
    for other in _without(parts, known, body):
        if all(_same(other, *case) for case in pool.values()):
            raise NoSuchPhrase
    return list(pool.values())


def _function(known: Sequence[Parameter], body: str) -> Function:
    lines = body.replace("$", "").replace("\n", "\n    ")
    signature = ", ".join(parameter.name for parameter in known)
    return defined(compile(f"def f({signature}):\n    {lines}\n", "<composed>", "exec"), "f")


def _without(parts: Sequence[Phrase], known: Sequence[Parameter], body: str) -> Iterator[Function]:
    """Programs that are simpler than the problem: one of its two values, or a phrase left out for what it is about."""
    simpler = [expression(part, {}) for part in parts[1:]]
    if len(parts) == 1:
        [root] = parts
        simpler = [_changed(root, phrase, part) for phrase in root.walk() for part in phrase.within(phrase.kind)]
    for node in simpler:
        yield _function(known, f"return {_code(node)}")


def _changed(root: Phrase, phrase: Phrase, part: Part) -> ast.expr:
    """The expression of `root` with `part` in place of `phrase`."""
    return expression(root if root is not phrase else part, {phrase: part})


def _same(function: Function, args: tuple[Any, ...], answer: Any) -> bool:
    try:
        return bool(function(*args) == answer)
    except Exception:
        return False
