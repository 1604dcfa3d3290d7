"""Whether a text can be read in another way on some arguments: with several that are equally long, high or frequent, of
which it does not say which counts; or with capital letters, which it does not put before or after small ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Set
from typing import Any

Function = Callable[..., Any]


def other_readings(source: str, name: str, marks: Set[str]) -> list[Function]:
    """The function of a program as others would write it, where the marks of its phrases (phrases.yaml) say that its
    text leaves something open."""
    found = []
    if "unequal" in marks:
        found.append(_defined(source, name, {each.__name__: _from_the_end(each) for each in (sorted, min, max)}))
    if "alphabetical" in marks:
        program = ast.unparse(_Before().visit(ast.parse(source)))
        changed = {each.__name__: _ignoring_case(each) for each in (sorted, min, max)}
        found.append(_defined(program, name, {**changed, "comes_before": _comes_before}))
    return found


def _defined(program: str, name: str, space: dict[str, Any]) -> Function:
    exec(compile(program, "<composed>", "exec"), space)
    function: Function = space[name]
    return function


def _from_the_end(function: Function) -> Function:
    """`sorted`, `min` or `max` which, of those with one key, take the last first."""

    def taken(values: Any, *others: Any, **settings: Any) -> Any:
        return function([*values][::-1] if "key" in settings else values, *others, **settings)

    return taken


def _ignoring_case(function: Function) -> Function:
    """`sorted`, `min` or `max` of texts in the order of a dictionary."""

    def taken(values: Any, *others: Any, **settings: Any) -> Any:
        if others or "key" in settings or not isinstance(values, Iterable):
            return function(values, *others, **settings)
        known = [*values]
        texts = bool(known) and all(isinstance(value, str) for value in known)
        return function(known, **settings, **({"key": _folded} if texts else {}))

    return taken


def _folded(text: str) -> tuple[str, str]:
    return text.lower(), text


def _comes_before(a: Any, b: Any) -> bool:
    return _folded(a) < _folded(b) if isinstance(a, str) and isinstance(b, str) else bool(a < b)


class _Before(ast.NodeTransformer):
    """Writes comes_before(a, b) for a < b."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Lt):
            return node
        return ast.Call(ast.Name("comes_before"), [node.left, *node.comparators], [])
