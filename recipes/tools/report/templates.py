"""Fill the templates of this folder, which escape what they are given, except for the drawings of charts.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from recipes.cli.console import MINUS_SIGN, as_text, number
from recipes.records.jsonl import numeric


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
