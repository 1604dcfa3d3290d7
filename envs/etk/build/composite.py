"""Fields on refined meshes, compared level by level: memory is in proportion to the stored cells, not to the domain.

A field has boxes of cells on several levels, and where boxes of a finer level lie, their values count. Several fields
are brought onto common cells: each coarse cell that no field refines stays one cell, with the weight of its volume.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

MAX_EXTRA_CELLS = 16
"""Common cells for each stored cell: more than 1 only where boxes do not begin and end at coarse cells."""
MAX_INDEX = 1 << 62
Shape = tuple[int, ...]
"""Cells in each direction, x first."""


@dataclass(frozen=True)
class Patch:
    """Values (z, y, x), (y, x) or (x) of cells from `low` on, which counts from the domain's first cell, x first."""

    low: tuple[int, ...]
    values: np.ndarray

    @property
    def shape(self) -> Shape:
        return self.values.shape[::-1]


@dataclass(frozen=True)
class FieldLevel:
    """The patches of one level, whose domain has `shape` cells. A later patch covers an earlier one."""

    shape: Shape
    patches: tuple[Patch, ...]

    @property
    def cells(self) -> int:
        """Number of stored cells."""
        return sum(patch.values.size for patch in self.patches)


@dataclass(frozen=True)
class Field:
    """A field on levels, coarsest first, each of which refines the one before by whole numbers."""

    levels: tuple[FieldLevel, ...]

    @property
    def shape(self) -> Shape:
        """Cells of the whole domain at the coarsest level."""
        return self.levels[0].shape

    @property
    def finest_shape(self) -> Shape:
        """Cells of the whole domain at the finest level."""
        return self.levels[-1].shape

    @cached_property
    def cells(self) -> int:
        """Number of stored cells."""
        return sum(level.cells for level in self.levels)

    @cached_property
    def finite(self) -> bool:
        """Whether every cell of the coarsest level has a value, and all values are finite."""
        coarsest = self.levels[0]
        covered = coarsest.cells == math.prod(coarsest.shape)
        return covered and all(np.isfinite(patch.values).all() for level in self.levels for patch in level.patches)

    def middle_plane(self) -> Field:
        """Of a field in three dimensions, the plane in the middle of the last; other fields as they are."""
        if len(self.finest_shape) < 3:
            return self
        levels = []
        for level in self.levels:
            place = self.finest_shape[2] // 2 * level.shape[2] // self.finest_shape[2]
            inside = (patch for patch in level.patches if 0 <= place - patch.low[2] < patch.shape[2])
            patches = tuple(Patch(patch.low[:2], patch.values[place - patch.low[2]]) for patch in inside)
            levels.append(FieldLevel(level.shape[:2], patches))
        return Field(tuple(levels))


@dataclass(frozen=True)
class Leaves:
    """Cells of one level that no field refines: their flat indices in the level's domain, ascending, and each field's
    values there, (fields, cells)."""

    shape: Shape
    index: np.ndarray
    values: np.ndarray


def on_common_cells(*fields: Field) -> tuple[np.ndarray, list[np.ndarray]]:
    """Volumes of the common cells, in cells of the coarsest level, and each field's values there.

    Raises:
        ValueError: levels that do not refine each other, or a field that leaves cells without a value.
    """
    results = leaves(fields)
    whole = math.prod(results[0].shape)
    volumes = [np.full(level.index.size, whole / math.prod(level.shape)) for level in results]
    values = np.concatenate([level.values for level in results], axis=1)
    return np.concatenate(volumes), list(values)


def uniform(field: Field, shape: Shape) -> np.ndarray:
    """The field as one array (z, y, x) over the domain of the level with `shape` cells: finer values as their means,
    coarser ones repeated."""
    results = leaves([field])
    before = results[0].shape
    whole = np.full(math.prod(before), np.nan)
    for level in results:
        if math.prod(level.shape) <= math.prod(shape):
            whole = refined(whole.reshape(before[::-1]), level.shape).ravel()
            whole[level.index] = level.values[0]
            before = level.shape
        else:
            ratios = [fine // coarse for fine, coarse in zip(level.shape, shape, strict=True)]
            places = np.unravel_index(level.index, level.shape[::-1])
            parents = _flat([place // ratio for place, ratio in zip(places[::-1], ratios, strict=True)], shape)
            with np.errstate(over="ignore", invalid="ignore"):
                sums = np.bincount(parents, level.values[0] / math.prod(ratios), whole.size)
            inside = np.zeros(whole.size, dtype=bool)
            inside[parents] = True
            whole[inside] = np.where(np.isnan(whole[inside]), 0.0, whole[inside]) + sums[inside]
    return whole.reshape(shape[::-1])


def refined(array: np.ndarray, shape: Shape) -> np.ndarray:
    """An array (z, y, x) repeated to `shape` cells. Raises ValueError if a ratio is not a whole number."""
    for axis, ratio in enumerate(ratios_of(array.shape[::-1], shape)):
        array = array.repeat(ratio, array.ndim - 1 - axis)
    return array


def ratios_of(coarse: Shape, fine: Shape) -> list[int]:
    """How many cells of `fine` lie in one of `coarse`, in each direction. Raises ValueError if not a whole number."""
    ratios = []
    for few, many in zip(coarse, fine, strict=True):
        ratio, rest = divmod(many, few)
        if rest or ratio < 1:
            raise ValueError(f"{many} cells do not refine {few}")
        ratios.append(ratio)
    return ratios


def leaves(fields: Sequence[Field]) -> list[Leaves]:
    """The common cells of fields, level by level; see on_common_cells."""
    shapes = sorted(
        {level.shape for field in fields for level in field.levels}, key=lambda shape: (math.prod(shape), shape)
    )
    if math.prod(shapes[-1]) > MAX_INDEX:
        raise ValueError(f"{'x'.join(map(str, shapes[-1]))[:80]} cells are too many")
    most = MAX_EXTRA_CELLS * sum(field.cells for field in fields)
    if math.prod(shapes[0]) > most:
        raise ValueError("cells in no box")
    level = _Cells(shapes[0], np.arange(math.prod(shapes[0])), np.full((len(fields), math.prod(shapes[0])), np.nan))
    results = []
    for shape, finer in zip(shapes, [*shapes[1:], None], strict=True):
        for row, field in enumerate(fields):
            for patch in (patch for own in field.levels if own.shape == shape for patch in own.patches):
                level.write(row, patch)
        if finer is None:
            results.append(level.leaves(np.ones(level.index.size, dtype=bool)))
            break
        covered = np.zeros(level.index.size, dtype=bool)
        for own in (own for field in fields for own in field.levels if math.prod(own.shape) > math.prod(shape)):
            ratios = ratios_of(shape, own.shape)
            for patch in own.patches:
                covered[level.places(*_coarsened(patch, ratios))] = True
        results.append(level.leaves(~covered))
        ratios = ratios_of(shape, finer)
        if int(covered.sum()) * math.prod(ratios) > most:
            raise ValueError("boxes that do not lie on coarse cells")
        level = level.children(covered, finer, ratios)
    return results


def _coarsened(patch: Patch, ratios: Sequence[int]) -> tuple[list[int], list[int]]:
    """The first coarse cell of a patch, and its number of coarse cells in each direction."""
    low = [start // ratio for start, ratio in zip(patch.low, ratios, strict=True)]
    last = [(start + count - 1) // ratio for start, count, ratio in zip(patch.low, patch.shape, ratios, strict=True)]
    return low, [end - start + 1 for start, end in zip(low, last, strict=True)]


def _flat(places: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
    """Flat indices of cells, given in each direction, x first, in a domain of `shape` cells."""
    flat = places[-1]
    for place, count in zip(places[-2::-1], shape[-2::-1], strict=True):
        flat = flat * count + place
    return flat


@dataclass(frozen=True)
class _Cells:
    """Some cells of a level, or all: flat indices, ascending, and values (fields, cells)."""

    shape: Shape
    index: np.ndarray
    values: np.ndarray

    def places(self, low: Sequence[int], counts: Sequence[int]) -> np.ndarray:
        """Where the cells of a box stand in `index`, all of which it has: (z, y, x)."""
        ranges = [np.arange(start, start + count) for start, count in zip(low, counts, strict=True)]
        axes = [each.reshape((-1,) + (1,) * axis) for axis, each in enumerate(ranges)]
        flat = np.broadcast_to(_flat(axes, self.shape), tuple(counts)[::-1])
        return flat if self.index.size == math.prod(self.shape) else np.searchsorted(self.index, flat)

    def write(self, row: int, patch: Patch) -> None:
        self.values[row, self.places(patch.low, patch.shape)] = patch.values

    def leaves(self, kept: np.ndarray) -> Leaves:
        return Leaves(self.shape, self.index[kept], self.values[:, kept])

    def children(self, covered: np.ndarray, shape: Shape, ratios: Sequence[int]) -> _Cells:
        """The finer cells of the covered ones, with the values of these."""
        places = np.unravel_index(self.index[covered], self.shape[::-1])[::-1]
        count, dimension = int(covered.sum()), len(shape)
        axes = []
        for axis, (place, ratio) in enumerate(zip(places, ratios, strict=True)):
            within = np.arange(ratio).reshape((-1,) + (1,) * axis)
            axes.append(place.reshape((count,) + (1,) * dimension) * ratio + within)
        index = np.broadcast_to(_flat(axes, shape), (count, *ratios[::-1])).ravel()
        values = self.values[:, covered].repeat(math.prod(ratios), axis=1)
        order = np.argsort(index, kind="stable")
        return _Cells(shape, index[order], values[:, order])
