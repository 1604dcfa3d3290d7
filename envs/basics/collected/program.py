"""Runs inside the sandbox: what a function of a collection answers, and which held-out tests it passes.

It reads {"source", "name", "calls": [arguments], "held_out": [...]} in JSON from standard input; a held-out problem has
an "id" and either "cases" ([arguments, result], see `restored`) or the source of a "check" with the "name" that it
calls. It prints {"answers": [[answer] or null], "passes": [id]}. Nothing here is trusted: the answers become
tests of the very function that gave them.
"""

import copy
import json
import signal
import sys

STEPS = {"call": 100_000, "check": 1_000_000}
"""Lines that one call, and one held-out check, may execute: the same on every machine, unlike a time."""
SECONDS = 5.0
"""CPU time after which a call is stopped whose lines are few and long."""
TOLERANCE = 1e-6


class TooLong(BaseException):
    """A call takes more than its lines, or its time."""


def stop(number, frame):
    raise TooLong


def counter(most):
    """A trace function that raises TooLong at line `most` + 1."""
    left = most

    def count(frame, event, argument):
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise TooLong
        return count

    return count


def timed(kind, call):
    """(whether a call ended well, its result)."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        sys.settrace(counter(STEPS[kind]))
        return True, call()
    except (Exception, TooLong):
        return False, None
    finally:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def answer(function, arguments):
    """[answer] where two calls give the same one and JSON keeps it; else None."""
    given = []
    for _ in range(2):
        fine, result = timed("call", lambda: function(*copy.deepcopy(arguments)))
        if not fine:
            return None
        given.append(result)
    try:
        text = json.dumps(given[0], allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return None
    same = type(given[0]) is type(given[1]) and given[0] == given[1] == json.loads(text)
    return [given[0]] if same else None


def close(result, expected):
    """Whether a result is what is expected, a list as good as a tuple and floats within TOLERANCE, at any depth."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(result, (list, tuple)) or len(result) != len(expected):
            return False
        return all(close(*pair) for pair in zip(result, expected, strict=True))
    if isinstance(expected, dict):
        if not isinstance(result, dict) or result.keys() != expected.keys():
            return False
        return all(close(result[key], each) for key, each in expected.items())
    if isinstance(result, float) or isinstance(expected, float):
        numbers = isinstance(result, (int, float)) and isinstance(expected, (int, float))
        return numbers and abs(result - expected) <= TOLERANCE
    return result == expected


def passes(function, held_out):
    """Whether a function passes the tests of a held-out problem."""
    if "check" in held_out:
        names = {held_out["name"]: function}

        def checked():
            exec(held_out["check"], names)
            if held_out["calls_check"]:
                names["check"](function)
            return True

        return timed("check", checked)[0]
    for arguments, expected in held_out["cases"]:
        fine, result = timed("call", lambda arguments=arguments: function(*copy.deepcopy(arguments)))
        if not fine or not close(result, expected):
            return False
    return True


def restored(value):
    """A tuple or a dictionary that stands in JSON as {"tuple": [...]} or {"dict": [[key, value]]}; another object."""
    if set(value) == {"tuple"}:
        return tuple(value["tuple"])
    return dict(value["dict"]) if set(value) == {"dict"} else value


def main():
    asked = json.load(sys.stdin, object_hook=restored)
    signal.signal(signal.SIGVTALRM, stop)
    space = {"__name__": "candidate"}
    exec(asked["source"], space)
    function = space[asked["name"]]
    answers = [answer(function, arguments) for arguments in asked["calls"]]
    passed = [each["id"] for each in asked["held_out"] if passes(function, each)]
    print(json.dumps({"answers": answers, "passes": passed}))


if __name__ == "__main__":
    main()
