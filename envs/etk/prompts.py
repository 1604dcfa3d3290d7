"""The prompt of the ETK study.

It asks for one source file of a thorn and shows the thorn's declarations and its other files. The prompt ends in an
open fenced block, so that the answer begins with code.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from envs.etk.context import MAX_CHARS_PER_TOKEN, Files, Room, cut, fenced, parted, useful_first
from envs.etk.languages import BESIDE_SOURCES
from envs.etk.rows import SourceFile
from envs.task import Prompted, TaskError

STYLES = ("chat_template", "literal")
ORDERS = ("useful", "row")
MORE = "...more..."
DECLARED = ("interface", "schedule", "param", "configuration")
PLACEHOLDERS = ("file", "thorn", "language", *DECLARED, "context")


@dataclass(frozen=True)
class Prompt:
    """The form of the prompt; the defaults are those of the ETK study.

    Args:
        style: "chat_template" (messages; the open block begins the assistant's message), or "literal": one text with
            the marks <|system|>, <|user|>, <|assistant|>, which are not special tokens, as in the ETK study.
        context_limit, ccl_limit: limits of the thorn's other files together, and of each declaration file. Published:
            10000 and 1000 characters; 1000 and 100 for training on a card of 16 GB.
        count_tokens: counts the tokens of a text; the limits are then in tokens. None: limits in characters.
        context_order: "useful": headers and make.code.defn, then files by length, each cut to its share, every block
            closed. "row": the row's order, cut at the limit as published, so that the last block stays open.
        own_language: True asks for the file's own language; False asks for "C/C++" in all cases, as published.
        template: a file with the user's message, in the literal style with the whole prompt, whose placeholders are
            $file, $thorn, $language, $interface, $schedule, $param, $configuration and $context ($$ is a dollar sign).
            None: the text of this module. Limits, order and language apply to what the placeholders stand for.

    Raises:
        TaskError: an unknown style or order, a negative limit, or a template that cannot be read or names something
            else.
    """

    style: str = "chat_template"
    context_limit: int = 10_000
    ccl_limit: int = 1_000
    count_tokens: Callable[[str], int] | None = None
    context_order: str = "row"
    own_language: bool = False
    template: str | None = None
    _room: Room = field(init=False, repr=False, compare=False)
    _shown: Callable[[str], str] = field(init=False, repr=False, compare=False)
    _text: string.Template | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value, known in (("style", self.style, STYLES), ("context_order", self.context_order, ORDERS)):
            if value not in known:
                raise TaskError(f"task.env.{name}={value}: one of {', '.join(known)}")
        for name, limit in (("context_limit", self.context_limit), ("ccl_limit", self.ccl_limit)):
            if not isinstance(limit, int) or limit < 0:
                raise TaskError(f"task.env.{name}={limit}: must be a whole number, 0 or more")
        object.__setattr__(self, "_text", None if self.template is None else _template(self.template))
        object.__setattr__(self, "_room", Room(self.context_limit, self.count_tokens or len))
        # a thorn's declarations occur in each of its rows
        object.__setattr__(self, "_shown", functools.lru_cache(64)(self._cut_declaration))

    @property
    def context_chars(self) -> int:
        """Number of characters of a row's context that the prompt can use."""
        if self.context_order == "useful":
            return 0
        return self.context_limit * (1 if self.count_tokens is None else MAX_CHARS_PER_TOKEN)

    def question(self, file: SourceFile) -> str:
        """The user's message; in the literal style the whole text."""
        if self._text is not None:
            return self._text.substitute(self._placeholders(file))
        if self.style == "chat_template":
            return self._request(file)
        request, opening = self._request(file), self._opening(file)
        return f"<|system|>\n{self._system()}\n<|user|>\n{request}\n<|assistant|>\n{opening}"

    def visible(self, file: SourceFile) -> Files:
        """Names and texts of the thorn's other files, as far as the prompt shows them."""
        if self.context_order == "row":
            return parted(cut(file.context, self.context_limit, self._room.count))
        return [(piece.name, piece.text) for piece in self._room.chosen(useful_first(file.files))]

    def messages(self, file: SourceFile, question: str) -> Prompted:
        """The conversation with `question`, whose last message begins the answer; or the literal text."""
        if self.style == "literal":
            return question
        return [
            {"role": "system", "content": self._system()},
            {"role": "user", "content": question},
            {"role": "assistant", "content": self._opening(file)},
        ]

    def _system(self) -> str:
        known = "C, C++ and Fortran" if self.own_language else "C/C++"
        return f"You are an expert {known} developer who writes thorns for the Einstein Toolkit."

    def _request(self, file: SourceFile) -> str:
        language = self._spoken(file)
        parts = [
            f"Create the {language} file `{file.name}` in the thorn `{file.thorn}`.",
            f"Thorn information:\n- Name: {file.thorn}\n- Target file: {file.name}",
            *(f"{name.capitalize()} ({name}.ccl):\n{fenced(self._shown(getattr(file, name)))}" for name in DECLARED),
            f"Related code context:\n{self._context(file)}",
            f"Write the complete source of `{file.name}`, and nothing else.",
        ]
        return "\n\n".join(parts)

    def _placeholders(self, file: SourceFile) -> dict[str, str]:
        """What a template's placeholders stand for."""
        return {
            "file": file.name,
            "thorn": file.thorn,
            "language": self._spoken(file),
            **{name: self._shown(getattr(file, name)) for name in DECLARED},
            "context": self._context(file),
        }

    def _spoken(self, file: SourceFile) -> str:
        beside = file.language in BESIDE_SOURCES.values()
        return file.language.spoken if self.own_language or beside else "C/C++"

    def _opening(self, file: SourceFile) -> str:
        return f"Here is the code for {file.name}:\n```{file.language.tag if self.own_language else ''}\n"

    def _cut_declaration(self, text: str) -> str:
        if self._room.count(text) <= self.ccl_limit:
            return text
        return cut(text, self.ccl_limit, self._room.count) + MORE

    def _context(self, file: SourceFile) -> str:
        if self.context_order == "row":
            return f"```\n{cut(file.context, self.context_limit, self._room.count)}\n```"
        shown = self._room.fitted(useful_first(file.files))
        return shown.rstrip("\n") or "(none)"


def _template(path: str) -> string.Template:
    """The text of a file with placeholders. Raises TaskError where it cannot be read or names something unknown."""
    try:
        text = string.Template(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"task.env.template={path}: cannot be read ({error}); name a text file") from None
    if not text.is_valid():
        raise TaskError(f"task.env.template={path}: a $ begins no placeholder; write $$ for a dollar sign")
    if unknown := sorted(set(text.get_identifiers()) - set(PLACEHOLDERS)):
        raise TaskError(
            f"task.env.template={path}: ${unknown[0]} is no placeholder; there are $" + ", $".join(PLACEHOLDERS)
        )
    return text
