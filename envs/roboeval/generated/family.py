"""How a family of robot instructions is written: several wordings and one reference program, with slots for words.

A slot is "$name". In wordings it stands for what a person says ("the boat shed and the mill pond"), in programs for
Python source (`["boat shed", "mill pond"]`). In programs "@name" is the bare name, to be used within a string. In
wordings "{a|b}" is one of its alternatives.

| slot | in a wording | in the program |
|---|---|---|
| $room1 ... $room4 | the boat shed | "boat shed" |
| $rooms, $rooms_or | two to four rooms, joined by "and", "or" | a list of names |
| $thing1 ... $thing3 | flute (write "the" or "a" before it) | "flute" |
| $things, $things_or | the flute, the rug and the kite; "or" | a list of names |
| $who1 ... $who3 | Omar, or: the baker | "Omar", "baker" |
| $people, $people_or | Omar in the study and the baker in the bar | a list of (person, room) |
| $word, $word_s | cabin, cabins: part of the names of some rooms | "cabin" |
| $number | 3 to 6 | 3 |
| $ask1, $ask2 | the heating works | the question, to which the answer is yes or no |
| $options, $question, $subject | red, blue or green; which colour they like; colour | options, question |
| $which_things | the flute or the rug | question, with $things as options |
| $count_of, $counted | how many eggs were laid; eggs | question, with numbers from 0 to 3 as options |
| $news1, $news2 | the paint is still wet | The paint is still wet. |
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from envs.roboeval.generated import vocabulary
from envs.roboeval.generated.vocabulary import listed

SLOT = re.compile(r"[$@](\w+)")
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO]|umb)")
POLITE = ("Please {}", "Robot, {}", "Here is your task: {}", "Could you do this? {}", "I need your help. {}")
VERBS = frozenset(
    "Ask Bring Carry Check Collect Count Fetch Find Get Go Look Move Put See Take Tell Visit Wait".split()
)
"""First words of instructions that can follow a polite word in lower case."""


@dataclass(frozen=True)
class Family:
    """A kind of instruction. wordings: each complete. program: the body of task_program(), not indented."""

    name: str
    wordings: Sequence[str]
    program: str


@dataclass(frozen=True)
class Words:
    """What a slot stands for: in the wording, in the program, and bare within a string of the program."""

    said: str
    code: str
    bare: str = ""


def join(names: Sequence[str], last: str) -> str:
    """ "a, b and c"."""
    return f" {last} ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def quoted(text: str) -> str:
    """Python source of a string, in double quotes."""
    return '"' + text + '"'


def row(family: Family, number: int, seed: int = 0) -> dict[str, str]:
    """Instruction `number` of a family: id, family, text and program; the same on every machine."""
    source = random.Random(f"{seed}/{family.name}/{number}")
    slots = Slots(source)
    wording = family.wordings[number % len(family.wordings)]
    text = CHOICE.sub(lambda match: source.choice(match[1].split("|")), wording)
    text = SLOT.sub(lambda match: slots[match[1]].said, text)
    body = SLOT.sub(lambda match: slots.in_code(match[0]), family.program.strip("\n"))
    program = "def task_program():\n" + "".join(f"    {line}\n" if line else "\n" for line in body.split("\n"))
    return {"id": f"{family.name}-{number}", "family": family.name, "text": _sentence(text, source), "program": program}


def _sentence(text: str, source: random.Random) -> str:
    """With articles, capitals, and sometimes a polite beginning."""
    text = ARTICLE.sub(r"\1n ", " ".join(text.split()))
    text = re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)
    if source.random() < 0.2:
        frame = source.choice(POLITE)
        if frame.endswith(("? {}", ". {}")):
            return frame.format(text)
        first = text.split()[0]
        return frame.format(text[0].lower() + text[1:] if first in VERBS else text) if first in VERBS else text
    return text


class Slots(Mapping[str, Words]):
    """Words of one instruction, drawn when they are first asked for; no room, thing or person is drawn twice."""

    def __init__(self, source: random.Random):
        self.source, self.drawn = source, dict[str, Words]()
        self.decks: dict[str, list[str]] = {}

    def __iter__(self) -> Iterable[str]:  # type: ignore[override]
        return iter(self.drawn)

    def __len__(self) -> int:
        return len(self.drawn)

    def __getitem__(self, name: str) -> Words:
        if name not in self.drawn:
            self.drawn.update(self._draw(name))
        return self.drawn[name]

    def in_code(self, slot: str) -> str:
        """The Python source of "$name" or "@name"."""
        words = self[slot[1:]]
        return words.code if slot[0] == "$" else words.bare

    def take(self, deck: str) -> str:
        """An entry of a list of the vocabulary that was not drawn before."""
        if deck not in self.decks:
            self.decks[deck] = listed(getattr(vocabulary, deck))
            self.source.shuffle(self.decks[deck])
        return self.decks[deck].pop()

    def _draw(self, name: str) -> dict[str, Words]:
        kind = re.sub(r"\d+$|_or$|_s$", "", name)
        draw: Callable[[str], dict[str, Words]] = getattr(self, f"_{KINDS.get(kind, kind)}")
        return draw(name)

    def _room(self, name: str) -> dict[str, Words]:
        room = self.take("ROOMS")
        return {name: Words(f"the {room}", quoted(room), room)}

    def _thing(self, name: str) -> dict[str, Words]:
        thing = self.take("THINGS")
        return {name: Words(thing, quoted(thing), thing)}

    def _who(self, name: str) -> dict[str, Words]:
        who = self._person()
        return {name: Words(_spoken(who), quoted(who), who)}

    def _person(self) -> str:
        return self.take("FIRST_NAMES" if self.source.random() < 0.6 else "ROLES")

    def _rooms(self, name: str) -> dict[str, Words]:
        return self._several("rooms", [self.take("ROOMS") for _ in range(self.source.choice((2, 3, 3, 4)))])

    def _things(self, name: str) -> dict[str, Words]:
        things = [self.take("THINGS") for _ in range(self.source.choice((2, 2, 3)))]
        return {**self._several("things", things), "which_things": _which(things)}

    def _several(self, name: str, names: list[str]) -> dict[str, Words]:
        code = "[" + ", ".join(map(quoted, names)) + "]"
        said = [f"the {each}" for each in names]
        return {name: Words(join(said, "and"), code), f"{name}_or": Words(join(said, "or"), code)}

    def _people(self, name: str) -> dict[str, Words]:
        pairs = [(self._person(), self.take("ROOMS")) for _ in range(self.source.choice((2, 3, 3)))]
        code = "[" + ", ".join(f"({quoted(who)}, {quoted(room)})" for who, room in pairs) + "]"
        said = [f"{_spoken(who)} in the {room}" for who, room in pairs]
        return {"people": Words(join(said, "and"), code), "people_or": Words(join(said, "or"), code)}

    def _word(self, name: str) -> dict[str, Words]:
        word = self.take("ROOM_WORDS")
        many = f"{word}es" if word.endswith(("ch", "x", "s")) else f"{word}s"
        return {"word": Words(word, quoted(word), word), "word_s": Words(many.replace("ys", "ies"), "", many)}

    def _number(self, name: str) -> dict[str, Words]:
        number = str(self.source.randint(3, 6))
        return {name: Words(number, number, number)}

    def _ask(self, name: str) -> dict[str, Words]:
        said, question = self.take("YES_OR_NO").split("=")
        return {name: Words(said, quoted(question), question)}

    def _choice(self, name: str) -> dict[str, Words]:
        subject, said, question, options = self.source.choice(vocabulary.CHOICES.strip().split("\n")).split("=")
        drawn = self.source.sample(options.split("|"), self.source.choice((2, 3)))
        code = "[" + ", ".join(map(quoted, drawn)) + "]"
        return {
            "subject": Words(subject, quoted(subject), subject),
            "question": Words(said, quoted(question), question),
            "options": Words(join(drawn, "or"), code),
        }

    def _count(self, name: str) -> dict[str, Words]:
        said, question, noun = self.take("NUMBERS").split("=")
        return {"count_of": Words(said, quoted(question)), "counted": Words(noun, quoted(noun), noun)}

    def _news(self, name: str) -> dict[str, Words]:
        news = self.take("MESSAGES")
        spoken = news[0].upper() + news[1:].replace("their ", "your ").replace(" them", " you") + "."
        if news.startswith("their "):
            spoken = "Your " + news.removeprefix("their ") + "."
        return {name: Words(news, quoted(spoken), spoken)}


KINDS = {
    "which_things": "things",
    "question": "choice",
    "options": "choice",
    "subject": "choice",
    "count_of": "count",
    "counted": "count",
}
"""Slots that are drawn with another one."""


def _spoken(person: str) -> str:
    """A name, or "the baker"."""
    return person if person[0].isupper() else f"the {person}"


def _which(things: Sequence[str]) -> Words:
    """The question which of some things a person wants."""
    said = join([f"the {thing}" for thing in things], "or")
    return Words(said, quoted(f"Do you want {said}?"))
