"""Where a text stops being the beginning of a C or C++ file, as far as brackets, literals and conditionals tell.

A grammar is no judge here: macros make most real files of a thorn broken to a parser (specification, section 3.3). What
is left is definite: a closing bracket without its opening one, a literal that its line's end leaves open, `#else` or
`#endif` without `#if`. At `#if` the stack of open brackets is kept, at `#else` and `#elif` it is taken up again, after
`#endif` those of all branches are possible, and the kept one where there is no `#else`; an error is what none of them
survives. A condition that comes again holds again: after two `#ifdef A`, the first of which opens a block that the
second closes, none is open. `#if 0` is not looked into, and a branch with an `#error` is not possible.
Continued lines are joined first. Macros of the file whose bodies do not balance count where they are used.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

JOIN = re.compile(r"\\[ \t]*\r?\n")
"""Compilers forgive blanks before the line's end."""
TOKEN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<note>//[^\n]*)
  | (?P<comment>/\*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\()
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<name>[^\W\d]\w*)
  | (?P<quote>["'])
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<hash>\#)
  | (?P<blank>[^\S\n]+)
  | (?P<other>[^\s\w"'(\[{)\]}\#/]+|/)
    """,
    re.VERBOSE,
)
LITERAL = {quote: re.compile(rf"(?:\\.|[^\\\n{quote}])*") for quote in "\"'"}
OPENING = {")": "(", "]": "[", "}": "{"}
NEVER, ALWAYS = ("0", "false"), ("1", "true")

DEFINED = re.compile(r"defined \( (\w+) \)")
NOT_DEFINED = re.compile(r"! (defined \w+)")
MOST = 16
"""States that are followed at once."""
Facts = frozenset[tuple[str, bool]]
"""Conditions, and whether they hold."""
State = tuple[int, Facts]
"""A stack, and under what it is possible."""


class Judged(NamedTuple):
    """first: index of the first character after which no file is possible, None where the whole text is a beginning.
    whole: whether the text is a file as it stands."""

    first: int | None
    whole: bool


NOTHING = 0
"""The stack without a bracket."""


class _Stacks:
    """Stacks of brackets as numbers, the same number for the same stack."""

    def __init__(self) -> None:
        self._nodes = [("", NOTHING)]  # the innermost bracket and the stack around it
        self._known: dict[tuple[str, int], int] = {}

    def after(self, stack: int, bracket: str) -> int | None:
        """The stack once the bracket has come; None where it closes nothing."""
        if bracket in OPENING:
            innermost, around = self._nodes[stack]
            return around if innermost == OPENING[bracket] else None
        node = bracket, stack
        if node not in self._known:
            self._known[node] = len(self._nodes)
            self._nodes.append(node)
        return self._known[node]


@dataclass
class _Conditional:
    """An open #if. before: the states before it. left: those of them in which no branch was taken yet. after: those
    behind its branches. skipped: the branch, with all that is in it. refused: it has an #error."""

    before: list[State]
    left: list[State]
    skipped: bool = False
    after: list[State] = field(default_factory=list)
    had_else: bool = False
    refused: bool = False


@dataclass
class _Directive:
    """A line that begins with #. words: its tokens, the directive's name first. brackets: those among them."""

    words: list[str] = field(default_factory=list)
    brackets: list[str] = field(default_factory=list)


def judge_c(text: str) -> Judged:
    """A C or C++ file, or the beginning of one. R"( begins a raw literal in both: no C has it otherwise."""
    joined, places = _joined(text)
    reader = _Reader(joined)
    reader.read()
    if reader.illegal is None:
        return Judged(None, reader.whole)
    return Judged(reader.illegal + _removed(places, reader.illegal), False)


class _Reader:
    """One pass over a text. illegal: where it ended early. states: the possible ones, of the latest branch first."""

    def __init__(self, text: str):
        self.text = text
        self.illegal: int | None = None
        self.open_at_end = False  # a comment or a literal
        self.states: list[State] = [(NOTHING, frozenset())]
        self.nodes = _Stacks()
        self.conditionals: list[_Conditional] = []
        self.macros: dict[str, list[str]] = {}
        self.directive: _Directive | None = None
        self.line_start = True

    @property
    def whole(self) -> bool:
        some = any(stack == NOTHING for stack, _ in self.states)
        return some and not self.conditionals and not self.open_at_end

    @property
    def skipped(self) -> bool:
        return bool(self.conditionals) and self.conditionals[-1].skipped

    def read(self) -> None:
        position = 0
        while position < len(self.text) and self.illegal is None:
            found = TOKEN.match(self.text, position)
            assert found is not None  # some group takes any character
            kind = str(found.lastgroup if found.lastgroup != "mark" else "raw")
            position = self._take(kind, found, position)
        if self.directive is not None:
            self._end_directive(len(self.text))

    def _take(self, kind: str, found: re.Match[str], start: int) -> int:
        """Read one token and return where the next begins."""
        end = found.end()
        if kind == "newline":
            if self.directive is not None:
                self._end_directive(start)
            self.line_start = True
            return end
        if kind == "comment":
            return self._until("*/", end)
        if kind == "raw":
            self.line_start = False
            return self._until(f'){found["mark"]}"', end)
        if kind == "quote":
            self.line_start = False
            end = self._literal(found.group(), end)
            if self.directive is not None:
                self.directive.words.append(self.text[start:end])
            return end
        if kind == "hash" and self.line_start and self.directive is None:
            self.directive = _Directive()
        elif self.directive is not None:
            self._in_directive(kind, found.group(), start)
        elif not self.skipped:
            if kind in ("open", "close"):
                self._bracket(found.group(), start)
            elif kind == "name" and found.group() in self.macros:
                self._use(self.macros[found.group()])
        if kind not in ("blank", "note"):
            self.line_start = False
        return end

    def _until(self, closing: str, start: int) -> int:
        end = self.text.find(closing, start)
        if end < 0:
            self.open_at_end = True
            return len(self.text)
        return end + len(closing)

    def _literal(self, quote: str, start: int) -> int:
        found = LITERAL[quote].match(self.text, start)
        assert found is not None  # it may match nothing
        end = found.end()
        if self.text.startswith(quote, end):
            return end + 1
        if not self.text.startswith("\n", end):  # the text ends, perhaps with a backslash
            self.open_at_end = True
            return len(self.text)
        if self.directive is None and not self.skipped:  # preprocessors let it pass in those
            self.illegal = end
        return end

    def _bracket(self, bracket: str, place: int) -> None:
        after = [(self.nodes.after(stack, bracket), facts) for stack, facts in self.states]
        viable = [(stack, facts) for stack, facts in after if stack is not None]
        if viable:
            self.states = viable
        else:
            self.illegal = place

    def _use(self, brackets: list[str]) -> None:
        """A macro that does not balance. One that does not fit may be defined otherwise elsewhere."""
        states = self.states
        for bracket in brackets:
            self._bracket(bracket, 0)
        if self.illegal is not None:
            self.states, self.illegal = states, None

    # directives -----------------------------------------------------------------------------------------------------

    def _in_directive(self, kind: str, token: str, start: int) -> None:
        directive = self.directive
        assert directive is not None
        if kind in ("name", "number"):
            directive.words.append(token)
            if len(directive.words) == 1 and token in ("else", "elif", "elifdef", "elifndef", "endif"):
                last = self.conditionals[-1] if self.conditionals else None
                if last is None or (last.had_else and token != "endif"):
                    self.illegal = start + len(token) - 1
        elif kind in ("open", "close"):
            directive.brackets.append(token)
            directive.words.append(token)
        elif kind == "other" and directive.words:
            directive.words.append(token)

    def _end_directive(self, place: int) -> None:
        directive, self.directive = self.directive, None
        assert directive is not None
        if self.illegal is not None or not directive.words:
            return
        name, *rest = directive.words
        if name in ("if", "ifdef", "ifndef"):
            self.conditionals.append(_Conditional(self.states, [] if self.skipped else self.states))
            self._enter_branch(name, rest)
        elif name in ("else", "elif", "elifdef", "elifndef"):
            self._leave_branch()
            self.conditionals[-1].had_else = name == "else"
            self._enter_branch(name, rest)
        elif name == "endif":
            self._leave_branch()
            last = self.conditionals.pop()
            self.states = _merged(last.after + last.left)[:MOST] or last.before
        elif name == "error" and self.conditionals:
            self.conditionals[-1].refused = True
        elif name == "undef" and rest and not self.skipped:
            self._forget(rest[0])
            self.macros.pop(rest[0], None)
        elif name == "define" and rest and not self.skipped:
            self._forget(rest[0])
            if _balanced(directive.brackets):
                self.macros.pop(rest[0], None)
            else:
                self.macros[rest[0]] = directive.brackets

    def _leave_branch(self) -> None:
        last = self.conditionals[-1]
        if not last.skipped and not last.refused:
            last.after = self.states + last.after
        last.refused = False

    def _enter_branch(self, name: str, rest: list[str]) -> None:
        """Go on in the states in which the branch is taken; what is left are the others."""
        last = self.conditionals[-1]
        if name == "else" or rest in ([word] for word in ALWAYS):
            taken, last.left = last.left, []
        elif rest in ([word] for word in NEVER):
            taken = []
        else:
            said = ["defined", *rest[:1]] if name.endswith("def") else rest
            condition = DEFINED.sub(r"defined \1", " ".join(said))
            holds = not name.endswith("ndef")
            if found := NOT_DEFINED.fullmatch(condition):
                condition, holds = found[1], False
            taken, last.left = (_where(last.left, condition, value) for value in (holds, not holds))
        last.skipped = not taken
        self.states = taken or last.before

    def _forget(self, name: str) -> None:
        """A macro changes: what is known of conditions with it holds no longer."""
        self.states = [
            (stack, frozenset(fact for fact in facts if name not in fact[0].split())) for stack, facts in self.states
        ]


def _where(states: list[State], condition: str, holds: bool) -> list[State]:
    """The states that allow it, with it."""
    return [(stack, facts | {(condition, holds)}) for stack, facts in states if (condition, not holds) not in facts]


def _merged(states: list[State]) -> list[State]:
    """Each stack once, under what all that have it know: less is known then, and nothing possible is lost."""
    found: dict[int, Facts] = {}
    for stack, facts in states:
        found[stack] = found.get(stack, facts) & facts
    return list(found.items())


def _balanced(brackets: list[str]) -> bool:
    nodes, stack = _Stacks(), NOTHING
    for bracket in brackets:
        after = nodes.after(stack, bracket)
        if after is None:
            return False
        stack = after
    return stack == NOTHING


CCL = re.compile(r"#[^\n]*|\"(?:\\.|[^\\\"])*(?P<end>\"?)|=\s*'[^']*(?P<tag_end>'?)|(?P<brace>[{}])", re.DOTALL)


def judge_ccl(text: str) -> Judged:
    """A declaration file of Cactus: braces and literals, which may go on over lines. Ranges as (0:*] close freely."""
    depth, open_literal = 0, False
    for found in CCL.finditer(text):
        open_literal = "" in (found["end"], found["tag_end"])
        if found["brace"]:
            depth += 1 if found["brace"] == "{" else -1
        if depth < 0:
            return Judged(found.start(), False)
    return Judged(None, depth == 0 and not open_literal)


def _joined(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with continued lines joined; where, in the joined text, and how many characters are gone by then."""
    places, gone, parts, position = [], 0, [], 0
    for found in JOIN.finditer(text):
        parts.append(text[position : found.start()])
        gone += found.end() - found.start()
        places.append((found.end() - gone, gone))
        position = found.end()
    return "".join([*parts, text[position:]]), places


def _removed(places: list[tuple[int, int]], index: int) -> int:
    """How many characters were taken out before the character at `index` of the joined text."""
    before = bisect_right(places, index, key=lambda place: place[0])
    return places[before - 1][1] if before else 0
