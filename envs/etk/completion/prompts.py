"""The prompt of a case (specification, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from envs.etk.completion.cases import MARK, Gap
from envs.etk.languages import CXX, language_of
from envs.task import Message

SYSTEM = (
    "You are an expert {} developer. You know physics and numerical methods, and your code is correct and efficient."
)
SPOKEN = {"c": "C", "c++": "C++", "fortran": "Fortran", "make": "make", "ccl": "Cactus", "par": "Cactus"}


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
    """The prompt that asks to fill a gap. It shows the lines nearest to the gap, in at most `budget` characters; of a
    gap with several places also all lines between them."""
    language = language_of(gap.case.file) or CXX
    fence = f"```{language.tag}\n"
    count = gap.case.count
    lines = "line" if count == 1 else "lines"
    shown = _around(gap, fence, budget, lines) if len(gap.masked) == 1 else _with_places(gap, fence, budget)
    several = "" if len(gap.masked) == 1 else f" Between the lines of two places write a line with only `{MARK}`."
    user = (
        f"Complete the {count} missing {lines} in the file `{gap.case.file}`.\n\n## Code context\n\n{shown}"
        f"Write only the {count} missing {lines}, in the style of the code around them and compatible with its "
        f"framework. Do not repeat the code around them.{several}"
    )
    lead = "Here is the missing line" if count == 1 else f"Here are the {count} missing lines"
    return Prompt(SYSTEM.format(SPOKEN[language.name]), user, f"{lead}:\n{fence}")


def _around(gap: Gap, fence: str, budget: int, lines: str) -> str:
    before, after = nearest(gap.kept[0], gap.kept[-1], budget)
    return (
        f"The code before the missing {lines}:\n{fence}{_block(before)}```\n\n"
        f"The code after the missing {lines}:\n{fence}{_block(after)}```\n\n"
    )


def _with_places(gap: Gap, fence: str, budget: int) -> str:
    between = sum(len(line) + 1 for kept in gap.kept[1:-1] for line in kept)
    before, after = nearest(gap.kept[0], gap.kept[-1], max(0, budget - between))
    text = _block(before)
    for number, (masked, kept) in enumerate(zip(gap.masked, (*gap.kept[1:-1], after), strict=True), 1):
        text += f"<place {number}: {len(masked)} missing {'line' if len(masked) == 1 else 'lines'}>\n{_block(kept)}"
    return f"The code around the missing lines:\n{fence}{text}```\n\n"


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
