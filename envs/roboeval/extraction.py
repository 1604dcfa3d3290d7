"""The program in a model's answer: the rules of Robo-Instruct (Hu et al. 2025, arXiv 2405.20179), of the dense-rewards
paper's evaluation, and of the last fenced block."""

from __future__ import annotations

from collections.abc import Callable

from envs.task import extract_fenced

DEFINITION = "def task_program():"
FENCE = "```"
HEADER = "<|start_header_id|>assistant<|end_header_id|>"


def robo_instruct(answer: str) -> str:
    """Robo-Instruct's extraction: always a text that begins with the definition line, which it adds where missing.

    The text ends before the first later line with something in its first column, the line after the definition
    excepted: a helper function, a comment or a closing bracket at the margin ends it too.
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
    """From the first definition to the next fence or the end; empty where there is no definition."""
    start = answer.find(DEFINITION)
    return "" if start < 0 else answer[start:].partition(FENCE)[0]


def fenced(answer: str) -> str:
    """The last fenced block, empty where there is none; helper functions and imports stay."""
    found = extract_fenced(answer)
    return "" if found is None else answer[found.start : found.end]


EXTRACTIONS: dict[str, Callable[[str], str]] = {
    "robo_instruct": robo_instruct,
    "seed_paper": seed_paper,
    "fenced": fenced,
}


def extracted(program: str) -> bool:
    """Whether there is a program at all: more than white space and the definition line."""
    return bool(program.replace(DEFINITION, "", 1).strip())
