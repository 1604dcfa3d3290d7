"""Extraction of the program from a model's answer: the rule of Robo-Instruct (Hu et al. 2025, arXiv 2405.20179), that
of the dense-rewards paper's evaluation, and the last fenced block."""

from __future__ import annotations

import re
from collections.abc import Callable

from envs.task import extract_fenced

DEFINITION = "def task_program():"
DEFINES = re.compile(r"^[ \t\f]*(?:async[ \t]+)?def[ \t]+task_program[ \t]*\([^\n]*", re.MULTILINE)
"""The definition line as programs may write it, such as `def task_program() -> None:`."""
FENCE = "```"
HEADER = "<|start_header_id|>assistant<|end_header_id|>"


def robo_instruct(answer: str) -> str:
    """Robo-Instruct's extraction. The result always begins with the definition line, which is added if it is missing.

    It ends before the first line without indentation, except the line directly after the definition; a helper function,
    a comment or a closing bracket without indentation ends it too.
    """
    text = answer
    if HEADER in text:
        text = text.replace(HEADER, "").strip()
    _, opened, after = text.partition(FENCE + "python")
    text = (after if opened else text).partition(FENCE)[0]
    line = DEFINITION + "\n"
    if line not in text:
        text = line + text
    lines = text[text.index(line) :].split("\n")
    for number, content in enumerate(lines[2:], 2):
        if content and not content[0].isspace():
            return "\n".join(lines[:number])
    return "\n".join(lines)


def seed_paper(answer: str) -> str:
    """The text from the first definition to the next fence or the end; empty if there is no definition."""
    start = answer.find(DEFINITION)
    return "" if start < 0 else answer[start:].partition(FENCE)[0]


def fenced(answer: str) -> str:
    """The last fenced block, with helper functions and imports; empty if there is none."""
    code = extract_fenced(answer)
    return "" if code is None else answer[code.start : code.end]


EXTRACTIONS: dict[str, Callable[[str], str]] = {
    "robo_instruct": robo_instruct,
    "seed_paper": seed_paper,
    "fenced": fenced,
}


def extracted(program: str) -> bool:
    """Whether there is a program: more than white space and the definition line."""
    return bool(program.replace(DEFINITION, "", 1).strip())
