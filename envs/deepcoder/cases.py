"""The `tests` column of DeepCoder's rows, in one typed form.

The column has one of these shapes; it and its items may also be JSON strings:
- a list of {input, output, testtype, metadata}, where `testtype` is stdin (stdin_stdout) or functional; a function's
  arguments are one JSON value in each line, its result is one JSON value, its name is in `metadata` (LiveCodeBench);
- the same with `type` (stdin_stdout, function_call) and `fn_name`, arguments and result as lists (PrimeIntellect);
- {inputs, outputs, fn_name}, without `fn_name` for programs (TACO, APPS);
- a single {input, output, ...}, or a list without types: functions if a name is known, otherwise programs.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.sandbox import FunctionCase, StdioCase
from envs.sandbox.worker.codec import Unsupported, make_encoder

PROGRAM = {"stdin", "stdin_stdout", "stdio", "standard_input"}
FUNCTION = {"functional", "function_call", "function", "call_based"}


class BadTests(ValueError):
    """Tests that cannot be used; the message is the reason, equal for all rows with the same defect."""


@dataclass(frozen=True)
class Cases:
    """A problem's tests; `entry_point` is None for programs."""

    entry_point: str | None
    cases: tuple[FunctionCase | StdioCase, ...]


def normalise(tests: Any, metadata: Any = None, starter_code: str = "") -> Cases:
    """The column `tests` as cases; `metadata` (a mapping or its JSON) and the starter code may name the function.

    Raises BadTests.
    """
    items = _items(_decoded(tests))
    if not items:
        raise BadTests("no tests")
    known = _name_of(_mapping(metadata)) or _name_in(starter_code)
    names = {_entry_point(test, known) for test in items}
    if len(names) > 1:
        raise BadTests("tests of several functions, or of both kinds")
    name = names.pop()
    cases = _program_cases(items) if name is None else _function_cases(items, _returns_list(name, starter_code))
    return Cases(name, cases)


def _decoded(value: Any) -> Any:
    """A value from JSON or, in some rows, Python notation, decoded as often as it was encoded."""
    for _ in range(3):
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if not isinstance(value, str):
            return value
        value = _value(value, "tests are not JSON")
    return value


def _value(text: str, reason: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise BadTests(reason) from error


def _items(tests: Any) -> list[Mapping[str, Any]]:
    """For each test a mapping with `input` and `output`."""
    if isinstance(tests, Mapping) and "inputs" in tests:
        inputs, outputs = _list(tests["inputs"]), _list(tests.get("outputs"))
        if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
            raise BadTests("inputs and outputs do not match")
        common = {key: value for key, value in tests.items() if key not in ("inputs", "outputs")}
        return [{**common, "input": left, "output": right} for left, right in zip(inputs, outputs, strict=True)]
    if isinstance(tests, Mapping):
        tests = [tests] if tests else []
    if not isinstance(tests, Sequence) or isinstance(tests, str):
        raise BadTests("no tests" if tests is None else "tests of an unknown shape")
    items = [_decoded(test) if isinstance(test, str) else test for test in tests]
    if not all(isinstance(test, Mapping) for test in items):
        raise BadTests("tests of an unknown shape")
    if not all("input" in test and "output" in test for test in items):
        raise BadTests("a test lacks its input or output")
    return items


def _list(value: Any) -> Any:
    """A list, which may be encoded as JSON; a single text becomes a list of one."""
    if isinstance(value, str):
        value = _decoded(value) if value.lstrip().startswith("[") else [value]
    return value


def _entry_point(test: Mapping[str, Any], known: str) -> str | None:
    """The function that a test calls, None if it runs a program."""
    kind = str(test.get("testtype") or test.get("type") or "").lower()
    if kind in PROGRAM:
        return None
    own = _name_of(test) or _name_of(_mapping(test.get("metadata")))
    if kind and kind not in FUNCTION:
        raise BadTests("an unknown type of test")
    name = own or known
    if kind and not name:
        raise BadTests("no name of the function")
    if name and not name.isidentifier():
        raise BadTests("a function's name is not an identifier")
    return name or None


def _mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _name_of(fields: Mapping[str, Any]) -> str:
    return str(fields.get("fn_name") or fields.get("func_name") or "").strip()


def _name_in(starter_code: str) -> str:
    """The last method of `class Solution` in a starter code; empty for other code, which may be a program's."""
    if "class Solution" not in starter_code:
        return ""
    names = [line.split("def ", 1)[1].split("(")[0].strip() for line in starter_code.splitlines() if "def " in line]
    return names[-1] if names else ""


def _program_cases(tests: Sequence[Mapping[str, Any]]) -> tuple[StdioCase, ...]:
    inputs = ["" if test["input"] is None else _text(test["input"]) for test in tests]
    cases = tuple(StdioCase(given, _text(test["output"])) for given, test in zip(inputs, tests, strict=True))
    if not any(case.stdout.strip() for case in cases):
        raise BadTests("tests expect nothing")
    return cases


def _text(value: Any) -> str:
    """A text, which may be given as a list of its lines."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if not isinstance(value, str | int | float):
        raise BadTests("a program's input or output is not text")
    return str(value)


def _returns_list(name: str, starter_code: str) -> bool:
    """Whether the header of a function says that it returns a list."""
    header = rf"\bdef\s+{re.escape(name)}\s*\(.*\)\s*->\s*[\"']?(?:typing\.)?list\b"
    return re.search(header, starter_code, re.IGNORECASE) is not None


def _function_cases(tests: Sequence[Mapping[str, Any]], returns_list: bool) -> tuple[FunctionCase, ...]:
    expected = _results([test["output"] for test in tests], [test["input"] for test in tests], returns_list)
    if all(value is None for value in expected):
        raise BadTests("tests expect nothing")
    cases = []
    for test, value in zip(tests, expected, strict=True):
        inputs = test["input"]
        if isinstance(inputs, Mapping):
            cases.append(FunctionCase((), value, dict(inputs)))
        elif isinstance(inputs, str):
            lines = inputs.strip().split("\n") if inputs.strip() else []
            cases.append(FunctionCase(tuple(_value(line, "arguments are not JSON") for line in lines), value))
        else:
            arguments = inputs if isinstance(inputs, list) else [inputs]
            cases.append(FunctionCase(tuple(map(_integer_keys, arguments)), value))
    encode = make_encoder(1 << 26)
    try:
        for case in cases:
            encode([case.args, case.kwargs, case.expected])
    except Unsupported as error:
        raise BadTests("values too deep or too large to send") from error
    return tuple(cases)


def _results(outputs: list[Any], inputs: list[Any], returns_list: bool = False) -> list[Any]:
    """The expected results. If outputs and inputs are all text, the outputs are JSON; otherwise they are values, and if
    each value is alone in a list (APPS, TACO), these lists are removed, unless the function returns a list and no list
    is in them."""
    if all(isinstance(output, str) for output in outputs) and all(isinstance(text, str) for text in inputs):
        return [_value(output, "a result is not JSON") for output in outputs]
    if all(isinstance(output, list) and len(output) == 1 for output in outputs):
        inner = [output[0] for output in outputs]
        return inner if not returns_list or any(isinstance(value, list) for value in inner) else outputs
    return outputs


def _integer_keys(argument: Any) -> Any:
    """An argument with integer keys restored: JSON has none, and the readers of these datasets restore them too."""
    if not isinstance(argument, dict) or not argument:
        return argument
    integers = all(isinstance(key, str) and key.lstrip("-").isdecimal() for key in argument)
    return {int(key): value for key, value in argument.items()} if integers else argument
