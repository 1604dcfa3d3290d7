"""What a problem's text says of the answers that count as right: how close a number must be, whether capital letters
and the order count, and whether several answers are right."""

from __future__ import annotations

import re

SMALLEST_EXPONENT = 15
"""Of a tolerance; a double has no more digits."""
_POWER = r"(?:10\s*(?:\^|\*\*|<sup>)?\s*\{?\s*[-−–]\s*\{?\s*(\d+)|1e-(\d+)|0\.(0*)1\b)"
_ERROR = r"(?:absolute|relative)[^.\n]{0,40}\b(?:errors?|difference|deviation)|precision|accuracy|within|accepted|error"
_TOLERANCE = re.compile(rf"\b(?:{_ERROR})\b[^.\n]{{0,60}}?{_POWER}", re.I)
_OF_THE_INPUT = re.compile(r"\binput\b(?!.*\b(?:answers?|outputs?|print|errors?)\b)", re.I | re.DOTALL)
_ASKS = r"(?<!not )(?<!n't )\b(?:print|output|return|report|find|give|construct|reconstruct)\s+"
_RIGHT = "(?:valid|possible|correct|such|suitable|optimal)"
_SEVERAL = re.compile(
    rf"{_ASKS}(?:any|either)\b(?=\s*(?:[.,;:)\n]|$|one\b|of (?:them|these|those)\b|(?:of the )?{_RIGHT}\b))"
    # "output any string of length n", "print any array of integers that is sorted", "find any path, or report that"
    rf"|{_ASKS}any\b(?!\s+(?:number|other)\b)(?:\s+[^.,;:\s]+){{1,6}}?\s+(?:that|which|such|satisf\w+|of length)\b"
    r"|\bany\s+(?:valid|correct|possible|suitable)\s+(?:answer|solution|output)\s+(?:is|will be|would be)\s+accepted\b"
    rf"|{_ASKS}any\b(?!\s+number\b)[^.;:\n]{{1,60}}, or (?:report|print|output|say|determine|tell)\b"
    r"|\b(?:multiple|several|many|more than one)\b[^.\n]{0,40}\b(?:answers?|solutions?)\b[^.\n]{0,60}"
    r"\b(?:any|arbitrary|(?:print|output) one of (?:them|these))\b"
    r"|\b(?:print|output)\b[^.\n]{0,60}\bin (?:any|(?:an )?arbitrary) order\b"
    r"|\b(?:print|output)\b[^.\n]{0,120}\bany suitable\b",
    re.I,
)
_UNORDERED = re.compile(
    r"\breturn\b[^.\n]*\bin any (?:arbitrary )?order\b"
    r"|\border of (?:the |your )?(?:outputs?|answers?|results?)\b[^.\n]*\b(?:does not|doesn't|do not|don't) matter",
    re.I,
)
_ANY_CASE = re.compile(
    r"\b(?:you|may|can)\b[^.\n]{0,80}\b(?:print|output)(?:ed)?\b[^.\n]{0,80}\bin any (?:case|register)\b"
    # CodeChef: "You may print each character of the string in uppercase or lowercase (for example, ...)"
    r"|\b(?:may|can)\b(?! not\b)[^.\n]{0,80}\b(?:print|output)(?:ed)?\b[^.\n]{0,80}"
    r"\bin (?:either )?(?:upper|lower)[- ]?(?:case)? or (?:in )?(?:upper|lower)[- ]?case\b"
    r"|\b(?:print|outputs?|answers?|checker)\b[^.\n]{0,80}\bcase[- ]?insensitive",
    re.I,
)


def tolerance_of(text: str) -> float | None:
    """The absolute or relative error that a statement allows ("does not exceed 10^{-6}", "within 10-5 of the actual
    answer"), the largest if it names several; None if it names none."""
    found = []
    for match in _TOLERANCE.finditer(text):
        sentence = re.split(r"[.!?]\s|\n", text[: match.start()])[-1]
        if _OF_THE_INPUT.search(sentence + match[0]):
            continue
        power, exponent, zeros = match.groups()
        places = int(power or exponent) if power or exponent else len(zeros) + 1
        if 0 < places <= SMALLEST_EXPONENT:
            found.append(10.0**-places)
    return max(found, default=None)


def in_any_order(text: str) -> bool:
    """Whether a function may return the items of its list in any order."""
    return _UNORDERED.search(text) is not None


def in_any_case(text: str) -> bool:
    """Whether a program may print capital letters as small ones and the other way round ("in any case (upper or
    lower)", "in any register", "case-insensitive")."""
    return _ANY_CASE.search(text) is not None


def several_answers(text: str) -> bool:
    """Whether a statement takes any of several answers ("print any of them"), of which tests know one."""
    return _SEVERAL.search(text) is not None
