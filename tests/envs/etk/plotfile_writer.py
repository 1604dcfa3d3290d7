"""Writes AMReX plotfiles of any dimension, for tests of the reader."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FORMATS = {"f8": "(8, (64 11 52 0 1 12 0 1023))", "f4": "(8, (32 8 23 0 1 9 0 127))"}


@dataclass
class Patch:
    """Cells from `low` on (x first) and each component's values there, (z, y, x)."""

    low: tuple[int, ...]
    values: Mapping[str, np.ndarray]


def box_text(low: Sequence[int], shape: Sequence[int]) -> str:
    """`((0,0) (63,63) (0,0))`."""
    high = [start + cells - 1 for start, cells in zip(low, shape, strict=True)]
    return "(" + " ".join(f"({','.join(map(str, corner))})" for corner in (low, high, [0] * len(low))) + ")"


def patches(values: Mapping[str, np.ndarray], size: int, low: Sequence[int] | None = None) -> list[Patch]:
    """Arrays cut into patches of at most `size` cells a side; `low` is their first cell."""
    shape = next(iter(values.values())).shape[::-1]
    low = low or (0,) * len(shape)
    results = []
    for corner in itertools.product(*(range(0, cells, size) for cells in shape)):
        place = tuple(slice(start, start + size) for start in corner)[::-1]
        results.append(
            Patch(
                tuple(origin + start for origin, start in zip(low, corner, strict=True)),
                {name: array[place] for name, array in values.items()},
            )
        )
    return results


def write_plotfile(
    folder: Path,
    levels: Sequence[Sequence[Patch]],
    cells: Sequence[int],
    *,
    low: Sequence[int] | None = None,
    ratio: int = 2,
    time: float = 0.0,
    step: int = 0,
    kind: str = "<f8",
    ghosts: int = 0,
    files: int = 1,
    version: int = 1,
) -> None:
    """One plotfile of a domain of `cells` (x first) on level 0, with the same `ratio` between all levels."""
    dimension = len(cells)
    low = low or (0,) * dimension
    names = list(levels[0][0].values)
    scales = [ratio**level for level in range(len(levels))]
    domains = [box_text([s * start for start in low], [s * count for count in cells]) for s in scales]
    header = ["HyperCLaw-V1.1", str(len(names)), *names, str(dimension), f"{time:.17g}", str(len(levels) - 1)]
    header += ["0 " * dimension, "1 " * dimension, " ".join([str(ratio)] * (len(levels) - 1))]
    header += [" ".join(domains) + " ", f"{step} " * len(levels)]
    header += [" ".join(f"{1 / (s * count):.17g}" for count in cells) + " " for s in scales]
    header += ["0", "0"]
    for number, (level, scale) in enumerate(zip(levels, scales, strict=True)):
        header += [f"{number} {len(level)} {time:.17g}", str(step)]
        for patch in level:
            shape = next(iter(patch.values.values())).shape[::-1]
            for axis in range(dimension):
                start = patch.low[axis] - scale * low[axis]
                ends = [at / (scale * cells[axis]) for at in (start, start + shape[axis])]
                header.append(" ".join(f"{end:.17g}" for end in ends))
        header.append(f"Level_{number}/Cell")
        (folder / f"Level_{number}").mkdir(parents=True)
        write_level(folder / f"Level_{number}", level, names, kind, ghosts, files, version)
    (folder / "Header").write_text("\n".join(header) + "\n")


def write_level(
    folder: Path, level: Sequence[Patch], names: Sequence[str], kind: str, ghosts: int, files: int, version: int
) -> None:
    """Cell_H and the data files of one level; patches go to the files in turn."""
    shapes = [next(iter(patch.values.values())).shape[::-1] for patch in level]
    data = [bytearray() for _ in range(files)]
    places = []
    order = [*range(1, int(kind[2]) + 1)][:: -1 if kind[0] == "<" else 1]
    for number, (patch, shape) in enumerate(zip(level, shapes, strict=True)):
        file = number % files
        places.append(f"FabOnDisk: Cell_D_{file:05d} {len(data[file])}")
        grown = box_text([at - ghosts for at in patch.low], [cells + 2 * ghosts for cells in shape])
        descriptor = f"({FORMATS[kind[1:]]},({len(order)}, ({' '.join(map(str, order))})))"
        data[file] += f"FAB {descriptor}{grown} {len(names)}\n".encode()
        for name in names:
            data[file] += np.pad(patch.values[name], ghosts, constant_values=-7.0).astype(kind).tobytes()
    boxes = [box_text(patch.low, shape) for patch, shape in zip(level, shapes, strict=True)]
    index = [str(version), "1", str(len(names)), str(ghosts), f"({len(boxes)} 0", *boxes, ")", str(len(boxes)), *places]
    for pick in (np.min, np.max):
        index += ["", f"{len(boxes)},{len(names)}"]
        index += ["".join(f"{pick(patch.values[name]):.17e}," for name in names) for patch in level]
    (folder / "Cell_H").write_text("\n".join(index) + "\n")
    for number, content in enumerate(data):
        (folder / f"Cell_D_{number:05d}").write_bytes(content)
