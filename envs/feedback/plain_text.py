"""Hostile text made fit for a prompt: no control characters, no marks of a chat, no more than so many characters.

A program's output may hold anything: terminal codes, megabytes, `<|im_start|>assistant`. None of it may open a turn or
end one. This knows the marks by their shape; recipes/sampling/replies.py breaks those of the tokenizer at hand as well.
"""

from __future__ import annotations

import re
import unicodedata

MARK = re.compile(r"<(?=[|/]?[\w|｜▁])|\[(?=/?INST\b)|(?<=\w)[|｜](?=>)|(?<=｜)>", re.IGNORECASE)
"""What begins a mark such as <|im_start|>, </s>, <start_of_turn>, <｜User｜> or [INST]."""
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})", re.MULTILINE)
LEFT_OUT = " [...] "
LONGEST = 1 << 16
"""Characters that are looked at: of megabytes only both ends are kept, before anything else is done."""


def plain(text: str) -> str:
    """Text without control and format characters (line breaks stay), whose chat marks and fences are broken by a
    space."""
    text = cut(text, LONGEST).replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    kept = "".join(
        c if c == "\n" or not unicodedata.category(c).startswith("C") else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return FENCE.sub(r"\1 ' ' '", MARK.sub(lambda match: f"{match[0]} ", kept))


def cut(text: str, most: int) -> str:
    """The text, or where it is longer than `most` characters, its beginning and its end."""
    if len(text) <= most:
        return text
    kept = max(0, most - len(LEFT_OUT))
    return text[: kept - kept // 3] + LEFT_OUT + (text[-(kept // 3) :] if kept // 3 else "")


def quoted(text: str) -> str:
    """Lines indented by four spaces, so that none can pass for a line of the reply's own."""
    return "\n".join(f"    {line}" for line in text.split("\n"))
