"""The prompt of a case (specification, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from envs.etk.completion.cases import Gap
from envs.etk.languages import CXX, language_of
from envs.task import Message

SYSTEM = (
    "You are an expert {} developer. You know physics and numerical methods, and your code is correct and efficient."
)
SPOKEN = {"c": "C", "c++": "C++", "fortran": "Fortran", "make": "make"}


@dataclass(frozen=True)
class Prompt:
    """The prompt of one case. `prefill` begins the completion, inside an open code block."""

    system: str
    user: str
    prefill: str

    @property
    def messages(self) -> list[Message]:
        """Messages for a chat template, without the assistant's message, which begins with `prefill`."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    @property
    def literal(self) -> str:
        """One text with the roles' marks as plain text, for models without a chat template."""
        return f"<|system|>\n{self.system}\n<|user|>\n{self.user}\n<|assistant|>\n{self.prefill}"


def prompt(gap: Gap, budget: int = 12000) -> Prompt:
    """The prompt that asks to fill a gap. It shows the lines nearest to the gap, in at most `budget` characters."""
    language = language_of(gap.case.file) or CXX
    fence = f"```{language.tag}\n"
    before, after = nearest(gap.before, gap.after, budget)
    count = gap.case.count
    lines = "line" if count == 1 else "lines"
    user = (
        f"Complete the {count} missing {lines} in the file `{gap.case.file}`.\n\n"
        "## Code context\n\n"
        f"The code before the missing {lines}:\n{fence}{_block(before)}```\n\n"
        f"The code after the missing {lines}:\n{fence}{_block(after)}```\n\n"
        f"Write only the {count} missing {lines}, in the style of the code around them and compatible with its "
        "framework. Do not repeat the code around them."
    )
    lead = "Here is the missing line" if count == 1 else f"Here are the {count} missing lines"
    return Prompt(SYSTEM.format(SPOKEN[language.name]), user, f"{lead}:\n{fence}")


def _block(lines: tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)


def nearest(before: tuple[str, ...], after: tuple[str, ...], budget: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """As many whole lines next to the gap as fit into `budget` characters, including line ends.

    Lines are taken from both sides in turn; when one side ends, the other side gets the rest.
    """
    above, below = list(reversed(before)), list(after)
    kept: tuple[list[str], list[str]] = ([], [])
    open_sides = [0, 1]
    while open_sides:
        side = open_sides.pop(0)
        rest = (above, below)[side]
        if rest and len(rest[0]) + 1 <= budget:
            budget -= len(rest[0]) + 1
            kept[side].append(rest.pop(0))
            open_sides.append(side)
    return tuple(reversed(kept[0])), tuple(kept[1])
