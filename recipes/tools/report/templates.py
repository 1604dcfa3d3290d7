"""Fill the templates of this folder, which escape what they are given, except for the drawings of charts.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from recipes.cli.console import MINUS_SIGN, number
from recipes.records.jsonl import numeric

CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
"""The HTML parser would drop or mangle control characters in a completion: their pictures are shown instead."""


def as_text(value: Any) -> str:
    """A value of completions.jsonl as text to show, control characters as their pictures."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r\n", "\n").translate(CONTROL_PICTURES)


def render(template: str, **values: Any) -> str:
    """The template of that name, filled."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    # select_autoescape would go by the ending, which is .j2 here.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    points = lambda value: f"{value:+.1f}".replace("-", MINUS_SIGN)  # noqa: E731
    environment.filters |= {"number": number, "text": as_text, "points": points}
    environment.tests["numeric"] = numeric
    return environment
