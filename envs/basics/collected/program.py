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

SECONDS = {"call": 0.5, "check": 3.0}
"""CPU time of one call, and of one held-out check."""
MOST_TOO_LONG, AFTERWARDS = 4, 0.05
"""So often a call may take too long; then calls have less time, since it does not end on what it is not made for."""
TOLERANCE = 1e-6


too_long: list[str] = []
"""The calls that took too long."""


class TooLong(BaseException):
    """A call takes more than its time."""


def stop(number, frame):
    raise TooLong


def timed(kind, call):
    """(whether a call ended well, its result)."""
    try:
        hurried = kind == "call" and too_long.count(kind) >= MOST_TOO_LONG
        signal.setitimer(signal.ITIMER_VIRTUAL, AFTERWARDS if hurried else SECONDS[kind])
        return True, call()
    except TooLong:
        too_long.append(kind)
        return False, None
    except Exception:
        return False, None
    finally:
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
