"""A field small enough to be kept beside a score: what a report draws of a run and of its reference."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass

import numpy as np

from envs.etk.build.composite import Field, uniform

MOST_CELLS = 64
"""Of a picture, along each axis."""
MOST_PLANE = 1 << 18
"""Cells of the plane from which a picture is made; finer values count with their means."""
DIGITS = 4
"""Significant digits of its numbers."""


@dataclass(frozen=True)
class FieldPicture:
    """The compared field of a run and of its reference, in the same cells.

    field, plotfile, time: what is compared; the time is the reference's. cells: of the reference at its finest level, x
    first; of three dimensions the picture shows the middle of the last. reference, result: as `packed` returns them;
    `result` is empty before a run.
    """

    field: str
    plotfile: str
    time: float
    cells: tuple[int, ...]
    reference: str
    result: str = ""


def drawn(field: Field, cells: tuple[int, ...]) -> str:
    """A field as `packed` has it, in the blocks of `small`; empty if it is not finite.

    Raises ValueError if its levels do not fit together.
    """
    if not field.finite:
        return ""
    plane = field.middle_plane()
    shapes = [level.shape for level in plane.levels]
    fine_enough = [shape for shape in shapes if math.prod(shape) <= MOST_PLANE] or shapes[:1]
    return packed(small(uniform(plane, fine_enough[-1]), cells))


def small(values: np.ndarray, cells: tuple[int, ...]) -> np.ndarray:
    """A field (y, x) or (x) as an array (y, x) of at most MOST_CELLS each way: means over square blocks.

    Args:
        values: the field at any resolution.
        cells: the reference's, x first, which define the blocks. Fields of several resolutions thus give pictures of
            one shape; a field that is coarser than a block repeats its values.
    """
    values = values.reshape(-1, values.shape[-1])
    drawn = (*cells[:2], 1)[:2]
    block = -(-max(drawn) // MOST_CELLS)
    for axis, count in enumerate(drawn[::-1]):
        starts = np.arange(0, count, block) * values.shape[axis] // count
        sizes = np.maximum(1, np.diff(starts, append=values.shape[axis]))
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.add.reduceat(values, starts, axis) / np.expand_dims(sizes, 1 - axis)
    return values


def packed(values: np.ndarray) -> str:
    """An array (y, x) as a short text; empty if a value is not finite."""
    if not np.isfinite(values).all():
        return ""
    lines = [" ".join(f"{value:.{DIGITS}g}" for value in line) for line in values.tolist()]
    return base64.b64encode(zlib.compress("\n".join(lines).encode())).decode()


def numbers(text: str) -> list[list[float]]:
    """The rows of the array that was packed, rounded; row 0 is at the bottom."""
    lines = zlib.decompress(base64.b64decode(text)).decode().split("\n")
    return [[float(value) for value in line.split()] for line in lines]
