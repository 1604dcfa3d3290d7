"""AMReX plotfiles: the text header, and one field on all its levels. Needs numpy only.

Facts of the format: specification of the completion evaluation, section 5 (AMReX's `HyperCLaw-V1.1`, VisMF version 1).
A candidate's files are hostile: paths must stay inside the plotfile, a size in a file is used only after the bytes that
it announces have been read, and no byte is read for two boxes.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from envs.etk.build.composite import Field, FieldLevel, Patch, ratios_of
from envs.etk.build.outputs import Outputs

FORMAT = "HyperCLaw-V1.1"
MAX_LEVELS = 64
MAX_FAB_LINE = 4096
"""Longest first line of a FAB, in bytes."""
_INTEGERS = r"(-?\d+(?:,-?\d+)*)"
BOX = re.compile(rf"\(\({_INTEGERS}\) ?\({_INTEGERS}\) ?\({_INTEGERS}\)\)")
FAB = re.compile(rb"FAB \(\((\d+), \(([\d ]+)\)\),\((\d+), \(([\d ]+)\)\)\)(\(\([^a-zA-Z]*\)\)) (\d+)\n")
FLOATS = {8: "64 11 52 0 1 12 0 1023", 4: "32 8 23 0 1 9 0 127"}
"""Descriptions of the IEEE formats, by bytes of a number."""


class PlotfileError(ValueError):
    """A plotfile that cannot be read; the message says what is wrong and where."""


@dataclass(frozen=True)
class Box:
    """Cells from `low` to `high`, both included; each is (x), (x, y) or (x, y, z)."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, dimension: int) -> Box:
        """`((0,0) (63,63) (0,0))`. Raises PlotfileError."""
        match = BOX.fullmatch(text.strip())
        corners = [tuple(map(int, group.split(","))) for group in match.groups()] if match else []
        if not corners or {len(corner) for corner in corners} != {dimension} or any(corners[2]):
            raise PlotfileError(f"expected a box of cells in {dimension} dimensions, found {text.strip()[:80]!r}")
        box = cls(corners[0], corners[1])
        if min(box.shape) < 1:
            raise PlotfileError(f"an empty box: {text.strip()[:80]}")
        return box

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells in each direction, x first."""
        return tuple(high - low + 1 for low, high in zip(self.low, self.high, strict=True))

    def contains(self, other: Box) -> bool:
        """Whether all of `other` lies in this box."""
        lows = all(own <= inner for own, inner in zip(self.low, other.low, strict=True))
        return lows and all(own >= inner for own, inner in zip(self.high, other.high, strict=True))

    def slices(self, inner: Box) -> tuple[slice, ...]:
        """Slices of `inner` in an array over this box, whose last axis is x."""
        pairs = zip(self.low, inner.low, inner.high, strict=True)
        return tuple(slice(low - origin, high - origin + 1) for origin, low, high in pairs)[::-1]


@dataclass(frozen=True)
class Level:
    """One refinement level: its domain, its number of boxes, and the path of its data without the file endings."""

    domain: Box
    boxes: int
    path: str


class Plotfile:
    """One plotfile of a run.

    Attributes:
        names: names of the components. dimension: 1 to 3. time: physical time. levels: coarsest first.

    Raises:
        FileNotFoundError: there is no Header.
        PlotfileError: the Header is invalid.
    """

    def __init__(self, outputs: Outputs, name: str) -> None:
        self._outputs, self.name = outputs, name
        try:
            self._parse(iter(header_text(outputs, name).split("\n")))
        except (StopIteration, ValueError, IndexError, OverflowError) as error:
            reason = str(error) or "it ends too early"
            raise PlotfileError(f"{name}/Header: {reason}") from None

    def _parse(self, lines: Iterator[str]) -> None:
        if (kind := next(lines).strip()) != FORMAT:
            raise PlotfileError(f"expected {FORMAT}, found {kind[:40]!r}")
        self.names = [next(lines).strip() for _ in range(int(next(lines)))]
        self.dimension = int(next(lines))
        if self.dimension not in (1, 2, 3):
            raise PlotfileError(f"{self.dimension} dimensions")
        self.time = float(next(lines))
        finest = int(next(lines))
        if not 0 <= finest < MAX_LEVELS:
            raise PlotfileError(f"finest level {finest}")
        for _ in range(3):  # low corner, high corner, refinement ratios: the domains below give the same information
            next(lines)
        box_texts = [match.group() for match in BOX.finditer(next(lines))]
        if len(box_texts) != finest + 1:
            raise PlotfileError(f"{len(box_texts)} index boxes for {finest + 1} levels")
        domains = [Box.parse(text, self.dimension) for text in box_texts]
        for _ in range(1 + finest + 1 + 2):  # steps, cell sizes, coordinate system, boundary width
            next(lines)
        self.levels = [self._level(lines, domain) for domain in domains]

    def _level(self, lines: Iterator[str], domain: Box) -> Level:
        boxes = int(next(lines).split()[1])
        for _ in range(1 + boxes * self.dimension):  # the level's step, and the physical extents of its boxes
            next(lines)
        return Level(domain, boxes, next(lines).strip())

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of the whole domain at the coarsest level, x first."""
        return self.levels[0].domain.shape

    @property
    def finest_shape(self) -> tuple[int, ...]:
        """Cells of the whole domain at the finest level, x first."""
        return self.levels[-1].domain.shape

    def field(self, name: str) -> Field:
        """A component on all levels, float64; memory and time are in proportion to the files.

        Raises:
            KeyError: there is no such component.
            PlotfileError: damaged or missing data, or an unsupported version.
        """
        if name not in self.names:
            raise KeyError(name)
        levels: list[FieldLevel] = []
        self._claimed: Counter[str] = Counter()
        for level in self.levels:
            try:
                if levels:
                    ratios_of(levels[-1].shape, level.domain.shape)
                levels.append(FieldLevel(level.domain.shape, self._patches(level, self.names.index(name))))
            except FileNotFoundError as error:
                raise PlotfileError(f"{self.name}: no file {error}") from None
            except (StopIteration, ValueError, IndexError, OverflowError, OSError) as error:
                reason = str(error) or "Cell_H ends too early"
                raise PlotfileError(f"{self.name}/{level.path[:80]}: {reason}") from None
        return Field(tuple(levels))

    def _patches(self, level: Level, component: int) -> tuple[Patch, ...]:
        """The boxes of a level."""
        lines = iter(self._read(f"{level.path}_H").decode("ascii", "replace").split("\n"))
        if (version := int(next(lines))) != 1:
            raise PlotfileError(f"version {version} of Cell_H is not read: write with vismf.headerversion=1")
        next(lines)  # how the file was written
        components = int(next(lines))
        if components != len(self.names):
            raise PlotfileError(f"{components} components, {len(self.names)} in the Header")
        next(lines)  # number of ghost cells; each FAB states its own box
        count = int(next(lines).strip().lstrip("(").split()[0])
        if count != level.boxes:
            raise PlotfileError(f"{count} boxes, {level.boxes} in the Header")
        boxes = [Box.parse(next(lines), self.dimension) for _ in range(count)]
        if next(lines).strip() != ")" or int(next(lines)) != count:
            raise PlotfileError("the boxes and their data differ in number")
        if sum(math.prod(box.shape) for box in boxes) > math.prod(level.domain.shape):
            raise PlotfileError("boxes that overlap")  # otherwise a short file could take hours to read
        patches = []
        for box in boxes:
            mark, file, offset = next(lines).split()
            if mark != "FabOnDisk:" or int(offset) < 0:
                raise PlotfileError(f"expected FabOnDisk, found {mark[:40]}")
            if not level.domain.contains(box):
                raise PlotfileError("a box outside its domain")
            path = posixpath.join(posixpath.dirname(level.path), file)
            low = tuple(start - origin for start, origin in zip(box.low, level.domain.low, strict=True))
            patches.append(Patch(low, self._fab(path, int(offset), box, component)))
        return tuple(patches)

    def _fab(self, path: str, offset: int, box: Box, component: int) -> np.ndarray:
        """A component of one FAB, without its ghost cells."""
        header = FAB.match(self._read(path, offset, MAX_FAB_LINE))
        if header is None:
            raise PlotfileError(f"no FAB at byte {offset} of {path}")
        bits, order = header[2].decode(), [int(place) for place in header[4].split()]
        width = len(order)
        if FLOATS.get(width) != bits or int(header[3]) != width or int(header[1]) != len(bits.split()):
            raise PlotfileError(f"{path}: numbers of an unknown format")
        if order not in (sorted(order), sorted(order, reverse=True)) or {*order} != {*range(1, width + 1)}:
            raise PlotfileError(f"{path}: bytes in an unknown order")
        stored = Box.parse(header[5].decode(), self.dimension)
        if not stored.contains(box) or int(header[6]) != len(self.names):
            raise PlotfileError(f"{path}: the FAB at byte {offset} does not hold its box or its components")
        size = math.prod(stored.shape) * width
        start = offset + header.end()
        self._claim(path, header.end() + len(self.names) * size)
        data = self._read(path, start + component * size, size)
        if len(data) != size or not self._read(path, start + len(self.names) * size - 1, 1):
            raise PlotfileError(f"{path} is truncated")
        numbers = np.frombuffer(data, f"{'<' if order[0] == width else '>'}f{width}")
        return numbers.reshape(stored.shape[::-1])[stored.slices(box)].astype(np.float64)

    def _claim(self, path: str, size: int) -> None:
        """Count the bytes of a FAB. Raises PlotfileError if those of a file are more than it has: then some would be
        read for several boxes, and a small file could hold any number of cells."""
        whole = self._inside(path)
        self._claimed[whole] += size
        if self._claimed[whole] > self._outputs.size(whole):
            raise PlotfileError(f"{path} is truncated, or has boxes that overlap")

    def _read(self, path: str, start: int = 0, size: int = -1) -> bytes:
        """Bytes of a file of this plotfile. Raises PlotfileError for a path that leads out of it."""
        return self._outputs.read(self._inside(path), start, size)

    def _inside(self, path: str) -> str:
        whole = posixpath.normpath(f"{self.name}/{path}")
        if not whole.startswith(f"{posixpath.normpath(self.name)}/") or "\0" in whole:
            raise PlotfileError(f"the path {path[:80]!r} leads out of the plotfile")
        return whole


def header_text(outputs: Outputs, name: str) -> str:
    """A plotfile's Header. Raises FileNotFoundError, also if it is not text or is blank."""
    try:
        text = outputs.read(f"{name}/Header").decode("utf-8")
    except UnicodeDecodeError:
        raise FileNotFoundError(f"{name}/Header is not text") from None
    if not text.strip():
        raise FileNotFoundError(f"{name}/Header is empty")
    return text
