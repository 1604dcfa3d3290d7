"""Thorns of a Cactus checkout: which folders are thorns, and their names (R1, R4, R6, R7, R8)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envs.etk.languages import hidden
from envs.task import TaskError

DECLARATIONS = ("interface", "schedule", "param")
"""Cactus' own build takes a folder as a thorn if it has these three .ccl files."""


@dataclass(frozen=True)
class Thorn:
    """name: "<arrangement>/<thorn>" (R1). folder: its location."""

    name: str
    folder: Path


@dataclass
class Thorns:
    """
    found: thorns in a fixed order (R8): by name within a checkout, or in the order of the thorn list.
    absent: names of the thorn list that no checkout has (R7).
    skipped: number of skipped folders by reason.
    """

    found: list[Thorn] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def find_thorns(
    checkouts: Sequence[Path], names: Sequence[str] | None = None, arrangement: str | None = None
) -> Thorns:
    """The thorns of some checkouts.

    Args:
        names: names of a thorn list (see `listed`); None for all thorns.
        arrangement: name for thorns at a checkout's top level (R1); None for the name of the checkout's folder.

    Raises:
        TaskError: a checkout is not a folder.
    """
    thorns, seen = Thorns(), set[str]()
    for checkout in checkouts:
        if not checkout.is_dir():
            raise TaskError(f"no such folder: {checkout}")
    roots = [Path(os.path.abspath(checkout)) for checkout in checkouts]
    if names is not None:
        candidates = _listed_folders(roots, names, thorns.absent)
    else:
        candidates = (thorn for root in roots for thorn in sorted(_all(root, arrangement, thorns.skipped), key=_order))
    for thorn in candidates:
        declared = _declared(thorn.folder)
        real = os.path.realpath(thorn.folder)
        if declared < len(DECLARATIONS):  # R4
            if declared or names is not None:
                thorns.skipped["folder with not all of interface.ccl, schedule.ccl, param.ccl"] += 1
        elif real in seen:  # R6: one real thorn, one name
            thorns.skipped["thorn that was found under another name"] += 1
        else:
            seen.add(real)
            thorns.found.append(thorn)
    return thorns


def listed(text: str) -> list[str]:
    """The names of a thorn list in order (R7): `#` starts a comment and `!` a directive. Names count if the latest
    directive is !CHECKOUT, or if the list has no directives."""
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    counts = not any(line.startswith("!") for line in lines)
    names: dict[str, None] = {}
    for line in lines:
        if line.startswith("!"):
            counts = line[1:].split("=", 1)[0].strip() == "CHECKOUT"
        elif counts and "/" in line:
            names[line.split()[0].strip("/")] = None
    return list(names)


def arrangements(checkout: Path) -> Path | None:
    """The folder of arrangements: the checkout itself, or in the checkout, or in its only Cactus folder."""
    if checkout.name == "arrangements":
        return checkout
    if (checkout / "arrangements").is_dir():
        return checkout / "arrangements"
    below = [folder for folder in checkout.glob("*/arrangements") if folder.is_dir()]
    return below[0] if len(below) == 1 else None


def _order(thorn: Thorn) -> tuple[str, str]:
    return thorn.name, str(thorn.folder)


def _declared(folder: Path) -> int:
    return sum((folder / f"{name}.ccl").is_file() for name in DECLARATIONS)


def _listed_folders(roots: Sequence[Path], names: Sequence[str], absent: list[str]) -> Iterator[Thorn]:
    """Listed thorns below `arrangements/`, with links followed, from the first checkout that has them (R6)."""
    bases = [arrangements(root) or root for root in roots]
    for name in names:
        folders = [base / name for base in bases if ".." not in Path(name).parts and (base / name).is_dir()]
        if folders:
            complete = [folder for folder in folders if _declared(folder) == len(DECLARATIONS)]
            yield Thorn("/".join(Path(name).parts[-2:]), (complete or folders)[0])
        else:
            absent.append(name)


def _all(checkout: Path, arrangement: str | None, skipped: Counter[str]) -> Iterator[Thorn]:
    base = arrangements(checkout)
    top = arrangement or checkout.name
    arranged = [] if base is None else list(_arranged(base, top))
    yield from arranged
    if base is None:
        yield from _walk(checkout, top, skipped)
    elif base.parent.parent == checkout:  # there may be thorns outside the Cactus folder
        known = {os.path.realpath(thorn.folder) for thorn in arranged}
        for thorn in _walk(checkout, top, skipped, but=base.parent):
            if os.path.realpath(thorn.folder) not in known:
                yield thorn


def _arranged(base: Path, top: str) -> Iterator[Thorn]:
    """Thorns in arrangements (R6): each link is followed once and gives the name."""
    for group in _folders(base):
        if _declared(group) == len(DECLARATIONS):
            yield Thorn(f"{top}/{group.name}", group)
            continue
        for folder in _folders(group):
            yield Thorn(f"{group.name}/{folder.name}", folder)


def _folders(base: Path) -> list[Path]:
    return sorted(path for path in base.iterdir() if not hidden(path.name) and path.is_dir())


def _walk(checkout: Path, top: str, skipped: Counter[str], but: Path | None = None) -> Iterator[Thorn]:
    """Thorns in any folder (R6): links are not followed, and neither the folders of a thorn nor the folder `but` are
    searched."""

    def unreadable(error: OSError) -> None:
        skipped["folder that cannot be read"] += 1

    for path, folders, files in os.walk(checkout, onerror=unreadable):
        folder = Path(path)
        if any(f"{name}.ccl" in files for name in DECLARATIONS):
            parent = top if folder.parent == checkout else folder.parent.name
            yield Thorn(f"{parent}/{folder.name}", folder)
            if _declared(folder) == len(DECLARATIONS):
                folders.clear()
        folders[:] = sorted(name for name in folders if not hidden(name) and folder / name != but)
