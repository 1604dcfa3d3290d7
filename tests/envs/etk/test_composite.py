"""Fields on refined meshes: the same scores as on one fine array, in memory and time of the stored cells."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from plotfile_writer import patches, write_plotfile

from envs.etk.build.compare import Metric, Reference, similarity, skill
from envs.etk.build.composite import Field, FieldLevel, Patch, on_common_cells, refined, uniform
from envs.etk.build.outputs import Folder
from envs.etk.build.picture import drawn, numbers, packed, small
from envs.etk.build.plotfile import Plotfile, PlotfileError

NORMS = ("l1", "l2", "linf")
METRIC = Metric(expect=("plt00001",))


def random_field(rng, base, ratios, aligned=True):
    """A field with some boxes on each level, later ones over earlier ones, and the same on one array of the finest."""
    shape = base
    levels = [FieldLevel(base, (Patch((0,) * len(base), 1 + rng.random(base[::-1])),))]
    for ratio in ratios:
        shape = tuple(count * ratio for count in shape)
        boxes = []
        for _ in range(rng.integers(1, 4)):
            unit = ratio if aligned else 1
            low = [unit * int(rng.integers(0, count // unit)) for count in shape]
            size = [
                unit * int(rng.integers(1, (count - start) // unit + 1))
                for start, count in zip(low, shape, strict=True)
            ]
            boxes.append(Patch(tuple(low), 1 + rng.random(tuple(size)[::-1])))
        levels.append(FieldLevel(shape, tuple(boxes)))
    whole = np.full((1,) * len(base), np.nan)
    for level in levels:
        whole = refined(whole, level.shape)
        for patch in level.patches:
            place = tuple(slice(at, at + count) for at, count in zip(patch.low, patch.shape, strict=True))[::-1]
            whole[place] = patch.values
    return Field(tuple(levels)), whole


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("base", [(5,), (4, 6), (3, 4, 2)])
@pytest.mark.parametrize("ratios", [((), (2,)), ((2, 2), (2,)), ((4,), (2, 2)), ((2, 2), (2, 4)), ((3,), ())])
def test_scores_equal_those_of_one_fine_array(base, ratios, aligned):
    rng = np.random.default_rng(math.prod(base) + sum(map(sum, ratios)))
    for _ in range(5):
        (one, dense_one), (other, dense_other) = (random_field(rng, base, each, aligned) for each in ratios)
        finest = max(one.finest_shape, other.finest_shape)
        dense = [refined(each, finest) for each in (dense_one, dense_other)]
        volumes, (a, r) = on_common_cells(one, other)
        assert volumes.sum() == pytest.approx(math.prod(base))
        for norm in NORMS:
            assert similarity(a, r, norm, volumes) == pytest.approx(similarity(*dense, norm), rel=1e-12)
            start = 0.5 * r
            ours = skill(a, r, start, norm, volumes)
            assert ours == pytest.approx(skill(*dense, 0.5 * dense[1], norm), rel=1e-12)
        np.testing.assert_array_equal(uniform(one, one.finest_shape), dense_one)
        factors = [many // few for many, few in zip(dense_one.shape, base[::-1], strict=True)]
        coarse = dense_one.reshape([*itertools.chain(*zip(base[::-1], factors, strict=True))])
        means = coarse.mean(axis=tuple(range(1, 2 * len(base), 2)))
        np.testing.assert_allclose(uniform(one, base), means, rtol=1e-12)


def test_a_picture_of_a_refined_field_is_that_of_its_finest_array():
    rng = np.random.default_rng(3)
    field, dense = random_field(rng, (40, 30), (2, 2))
    assert drawn(field, field.finest_shape) == packed(small(dense, field.finest_shape))
    cube, dense = random_field(rng, (6, 4, 8), (2,))
    shown = numbers(drawn(cube, cube.finest_shape))
    np.testing.assert_allclose(shown, dense[dense.shape[0] // 2], rtol=1e-3)


def nested(levels, cells=64, value=1.0):
    """A square of half the width in the middle, refined again and again: as many cells on each level."""
    made, low = [], 0
    for level in range(levels):
        made.append(FieldLevel((cells << level,) * 2, (Patch((low, low), np.full((cells, cells), value + level)),)))
        low = 2 * low + cells // 2
    return Field(tuple(made))


def test_memory_is_in_proportion_to_the_stored_cells_at_any_level():
    """26.4: one array at level 20 would have 10^15 cells."""
    peaks = {}
    for levels in (5, 20):
        one, other = nested(levels), nested(levels, value=1.5)
        tracemalloc.start()
        volumes, (a, r) = on_common_cells(one, other)
        assert 0.5 < similarity(a, r, "l1", volumes) < 1
        assert drawn(one, (64, 64))
        peaks[levels] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert a.size < 2 * one.cells
    assert peaks[20] < 6 * peaks[5] and peaks[20] < 64 << 20


def empty_plotfile(folder: Path, levels=64, cells=4096):
    """Headers alone: every level has the whole domain and no box."""
    box = f"((0,0) ({cells - 1},{cells - 1}) (0,0))"
    lines = ["HyperCLaw-V1.1", "1", "density", "2", "0.1", str(levels - 1), "0 0", "1 1", "1 " * (levels - 1)]
    lines += [f"{box} " * levels, "0 " * levels, *["1 1"] * levels, "0", "0"]
    for level in range(levels):
        lines += [f"{level} 0 0.1", "0", f"Level_{level}/Cell"]
        (folder / f"Level_{level}").mkdir(parents=True)
        (folder / f"Level_{level}" / "Cell_H").write_text("1\n1\n1\n0\n(0 0\n)\n0\n")
    (folder / "Header").write_text("\n".join(lines) + "\n")


def test_an_empty_plotfile_of_64_levels_costs_nothing(tmp_path):
    """14: 84 KB on the disk took 26 s and an array of 4096 x 4096 for each level."""
    write_plotfile(tmp_path / "ref" / "plt00001", [patches({"density": np.ones((8, 8))}, 4)], (8, 8), time=0.1)
    empty_plotfile(tmp_path / "run" / "plt00001")
    reference = Reference(Folder(tmp_path / "ref"), METRIC)
    tracemalloc.start()
    score = reference.score(Folder(tmp_path / "run"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert score.execution == 0.0 and score.reasons == ("density is not finite in plt00001",)
    assert peak < 4 << 20


def test_bytes_of_the_disk_count_once(tmp_path):
    """14: boxes that share one FAB, or levels that share one folder, would hold more cells than the disk has bytes."""
    made = patches({"density": np.ones((64, 64))}, 64)
    write_plotfile(tmp_path / "plt00001", [made], (64, 64))
    index = tmp_path / "plt00001" / "Level_0" / "Cell_H"
    header = tmp_path / "plt00001" / "Header"
    text = index.read_text()
    cell = [f"(({i},0) ({i},0) (0,0))" for i in range(8)]
    text = text.replace("(1 0\n((0,0) (63,63) (0,0))\n)\n1\n", "(8 0\n" + "\n".join(cell) + "\n)\n8\n")
    index.write_text(text.replace("FabOnDisk: Cell_D_00000 0\n", "FabOnDisk: Cell_D_00000 0\n" * 8))
    lines = header.read_text().replace("\n0 1 0\n", "\n0 8 0\n").split("\n")
    at = next(n for n, line in enumerate(lines) if line == "0 8 0") + 2
    header.write_text("\n".join([*lines[:at], *lines[at : at + 2] * 8, *lines[at + 2 :]]))
    with pytest.raises(PlotfileError, match="overlap"):
        Plotfile(Folder(tmp_path), "plt00001").field("density")


def test_a_tiny_box_on_a_level_of_a_huge_ratio_is_refused():
    whole = FieldLevel((8, 8), (Patch((0, 0), np.ones((8, 8))),))
    tiny = FieldLevel((8 << 24, 8 << 24), (Patch((5, 5), np.ones((1, 1))),))
    with pytest.raises(ValueError, match="do not lie on coarse cells"):
        on_common_cells(Field((whole, tiny)))
    beyond = FieldLevel((8 << 40, 8 << 40), (Patch((5, 5), np.ones((1, 1))),))
    with pytest.raises(ValueError, match="too many"):
        on_common_cells(Field((whole, beyond)))
