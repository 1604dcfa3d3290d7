"""Families of robot instructions: several wordings and one reference program, with slots for words.

A slot is "$name". In wordings it stands for what a person says ("the boat shed and the mill pond"), in programs for
Python source (["boat shed", "mill pond"]). In programs "@name" is the bare name, for use within a string. In wordings
"{a|b}" is one of its alternatives.

| slot | in a wording | in the program |
|---|---|---|
| $room1 ... $room4 | the boat shed | "boat shed" |
| $rooms, $rooms_or | two to four rooms, joined by "and" or "or" | a list of names |
| $thing1, $thing2 | flute; write "the" or "a" before it | "flute" |
| $things, $which_things | the flute and the rug; the flute or the rug | a list of names; the question which of them |
| $who1, $who2 | Omar, or: the baker | "Omar", "baker" |
| $people | Omar in the study and the baker in the bar | a list of (person, room) |
| $word, $word_s | cabin, cabins: part of the names of some rooms | "cabin" |
| $number | 3 to 6 | 3 |
| $ask1, $ask2 | the heating works | the question; its answer is yes or no |
| $question, $options | which colour they like; red or blue | the question; a list of answers |
| $first | red | the first of the answers |
| $count_of, $counted | how many eggs were laid; eggs | the question; "eggs" |
| $news1, $news2 | the paint is still wet | "The paint is still wet." |
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SUBJECTS = ("carrying", "looking", "asking", "telling")
SLOT = re.compile(r"[$@](\w+)")
CHOICE = re.compile(r"\{([^{}]*\|[^{}]*)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeioAEIO]|umb|hourg)")
SENTENCE = re.compile(r"(^|[.?!] )([a-z])")
POLITE = ("Please {}", "Robot, {}", "Here is your task: {}", "Could you do this? {}", "I need your help. {}")
SHARE_POLITE = 0.2


@dataclass(frozen=True)
class Family:
    """A kind of instruction. wordings: each complete. program: the body of task_program(), not indented. ordered:
    whether the order of places and things matters; None where the words of the instruction say it."""

    name: str
    wordings: Sequence[str]
    program: str
    ordered: bool | None = None


@dataclass(frozen=True)
class Words:
    """What a slot stands for: in a wording, in a program, and within a string of the program."""

    said: str
    code: str
    bare: str = ""


@cache
def families() -> tuple[Family, ...]:
    """All families, of the four files beside this one."""
    parts = [part for subject in SUBJECTS for part in read(subject).items()]
    return tuple(Family(name, part["wordings"], part["program"], part.get("ordered")) for name, part in parts)


@cache
def read(name: str) -> dict[str, Any]:
    """The content of one of the YAML files beside this one."""
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def instruction(family: Family, number: int) -> dict[str, Any]:
    """Instruction `number` of a family: id, family, text, program, ordered; the same on every machine."""
    source = random.Random(f"0/{family.name}/{number}")
    slots = Slots(source)
    wording = CHOICE.sub(
        lambda match: source.choice(match[1].split("|")), family.wordings[number % len(family.wordings)]
    )
    text = SLOT.sub(lambda match: slots.words(match[1]).said, wording)
    body = SLOT.sub(lambda match: slots.in_code(match[0]), family.program.strip())
    program = "def task_program():\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    name = f"{family.name}-{number}"
    said = _sentence(text, source)
    return {"id": name, "family": family.name, "text": said, "program": program, "ordered": family.ordered}


def _sentence(text: str, source: random.Random) -> str:
    """With "an" before vowels, with capitals, and sometimes with a polite beginning."""
    text = ARTICLE.sub(r"\1n ", " ".join(text.split()))
    text = SENTENCE.sub(lambda match: match[1] + match[2].upper(), text)
    if source.random() >= SHARE_POLITE:
        return text
    frame = source.choice(POLITE)
    if frame.endswith(("? {}", ". {}")):
        return frame.format(text)
    return frame.format(text[0].lower() + text[1:]) if text.split()[0] in read("vocabulary")["verbs"] else text


class Slots:
    """The words of one instruction, drawn when they are first asked for. None is drawn twice."""

    def __init__(self, source: random.Random):
        self.source, self.drawn = source, dict[str, Words]()
        self.decks: dict[str, list[Any]] = {}

    def words(self, name: str) -> Words:
        """What a slot stands for. Raises AttributeError for a slot that there is not."""
        if name not in self.drawn:
            kind = name.rstrip("0123456789").removesuffix("_or").removesuffix("_s")
            self.drawn.update(getattr(self, f"_{DRAWN_WITH.get(kind, kind)}")(name))
        return self.drawn[name]

    def in_code(self, slot: str) -> str:
        """The Python source of "$name" or "@name"."""
        words = self.words(slot[1:])
        return words.code if slot[0] == "$" else words.bare

    def _take(self, deck: str) -> Any:
        """An entry of a list of the vocabulary."""
        if deck not in self.decks:
            entries = read("vocabulary")[deck]
            self.decks[deck] = list(entries.items() if isinstance(entries, dict) else entries)
            self.source.shuffle(self.decks[deck])
        return self.decks[deck].pop()

    def _person(self) -> str:
        who: str = self._take("first_names" if self.source.random() < 0.6 else "roles")
        return who

    def _room(self, name: str) -> dict[str, Words]:
        room = self._take("rooms")
        return {name: Words(f"the {room}", _quoted(room), room)}

    def _thing(self, name: str) -> dict[str, Words]:
        thing = self._take("things")
        return {name: Words(thing, _quoted(thing), thing)}

    def _who(self, name: str) -> dict[str, Words]:
        who = self._person()
        return {name: Words(_spoken(who), _quoted(who), who)}

    def _rooms(self, name: str) -> dict[str, Words]:
        rooms = [self._take("rooms") for _ in range(self.source.choice((2, 3, 3, 4)))]
        said, code = [f"the {room}" for room in rooms], _list(rooms)
        return {"rooms": Words(_joined(said, "and"), code), "rooms_or": Words(_joined(said, "or"), code)}

    def _things(self, name: str) -> dict[str, Words]:
        things = [self._take("things") for _ in range(self.source.choice((2, 2, 3)))]
        said = [f"the {thing}" for thing in things]
        which = _joined(said, "or")
        return {
            "things": Words(_joined(said, "and"), _list(things)),
            "which_things": Words(which, _quoted(f"Do you want {which}?")),
        }

    def _people(self, name: str) -> dict[str, Words]:
        pairs = [(self._person(), self._take("rooms")) for _ in range(self.source.choice((2, 3, 3)))]
        code = "[" + ", ".join(f"({_quoted(who)}, {_quoted(room)})" for who, room in pairs) + "]"
        return {"people": Words(_joined([f"{_spoken(who)} in the {room}" for who, room in pairs], "and"), code)}

    def _word(self, name: str) -> dict[str, Words]:
        word = self._take("room_words")
        many = re.sub(r"([^aeo])y$", r"\1ies", word)
        many = many if many != word else f"{word}es" if word.endswith(("ch", "x", "s")) else f"{word}s"
        return {"word": Words(word, _quoted(word), word), "word_s": Words(many, _quoted(many), many)}

    def _number(self, name: str) -> dict[str, Words]:
        number = str(self.source.randint(3, 6))
        return {name: Words(number, number, number)}

    def _ask(self, name: str) -> dict[str, Words]:
        said, question = self._take("yes_or_no")
        return {name: Words(said, _quoted(question))}

    def _choice(self, name: str) -> dict[str, Words]:
        choice = self.source.choice(read("vocabulary")["choices"])
        options = self.source.sample(choice["options"], self.source.choice((2, 3)))
        return {
            "question": Words(choice["said"], _quoted(choice["question"])),
            "options": Words(_joined(options, "or"), _list(options)),
            "first": Words(options[0], _quoted(options[0])),
        }

    def _count(self, name: str) -> dict[str, Words]:
        count = self._take("numbers")
        counted = count["counted"]
        return {
            "count_of": Words(count["said"], _quoted(count["question"])),
            "counted": Words(counted, _quoted(counted), counted),
        }

    def _news(self, name: str) -> dict[str, Words]:
        news = self._take("news")
        spoken = news.replace("their ", "your ").replace(" them", " you")
        return {name: Words(news, _quoted(f"{spoken[0].upper()}{spoken[1:]}."))}


DRAWN_WITH = {
    "which_things": "things",
    "question": "choice",
    "options": "choice",
    "first": "choice",
    "count_of": "count",
    "counted": "count",
}


def _joined(names: Sequence[str], last: str) -> str:
    """ "a, b and c"."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _spoken(person: str) -> str:
    """A name, or "the baker"."""
    return person if person[0].isupper() else f"the {person}"
