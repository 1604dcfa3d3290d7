"""The reader against plotfiles written here, against yt where it is installed, and against damaged files."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from plotfile_writer import patches, write_plotfile

from envs.etk.build.composite import Field, on_common_cells, uniform
from envs.etk.build.outputs import Folder, InMemory
from envs.etk.build.plotfile import Plotfile, PlotfileError
from envs.etk.completion.embedded import FLOW2D

CELLS = {1: (24,), 2: (16, 12), 3: (8, 6, 10)}
RNG = np.random.default_rng(7)


def fields(cells):
    return {name: RNG.normal(size=cells[::-1]) for name in ("density", "xmom", "rho_E")}


def at_finest(field: Field) -> np.ndarray:
    """The field over the whole domain at its finest level, (z, y, x)."""
    return uniform(field, field.finest_shape)


def read(folder, name="plt00001"):
    return Plotfile(Folder(folder), name)


@pytest.mark.parametrize("ghosts", [0, 2])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_one_level(tmp_path, dimension, kind, ghosts):
    cells = CELLS[dimension]
    values = fields(cells)
    low = (-3, 5, 100)[:dimension]
    write_plotfile(
        tmp_path / "plt00001", [patches(values, 5, low)], cells, low=low, kind=kind, ghosts=ghosts, files=3, time=0.125
    )
    plotfile = read(tmp_path)
    assert (plotfile.names, plotfile.time, plotfile.shape) == (["density", "xmom", "rho_E"], 0.125, cells)
    for name in values:
        results = at_finest(plotfile.field(name))
        assert results.dtype == np.float64
        np.testing.assert_array_equal(results, values[name].astype(kind).astype(np.float64))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_levels_are_composed_at_the_finest(tmp_path, dimension):
    cells = CELLS[dimension]
    coarse, fine = fields(cells), fields((4,) * dimension)
    low = (6,) * dimension
    write_plotfile(tmp_path / "plt00001", [patches(coarse, 4), patches(fine, 2, low)], cells)
    expected = coarse["xmom"]
    for axis in range(dimension):
        expected = expected.repeat(2, axis)
    expected[(slice(6, 10),) * dimension] = fine["xmom"]
    plotfile = read(tmp_path)
    assert (plotfile.shape, plotfile.finest_shape) == (cells, tuple(2 * count for count in cells))
    np.testing.assert_array_equal(at_finest(plotfile.field("xmom")), expected)


def test_three_levels_in_memory(tmp_path):
    levels = [patches(fields((8, 8)), 8), patches(fields((8, 4)), 4, (4, 4)), patches(fields((4, 4)), 4, (12, 8))]
    write_plotfile(tmp_path / "plt00001", levels, (8, 8))
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    results = at_finest(Plotfile(InMemory(files), "plt00001").field("density"))
    np.testing.assert_array_equal(results, at_finest(read(tmp_path).field("density")))
    np.testing.assert_array_equal(results[8:12, 12:16], levels[2][0].values["density"])


def test_cells_without_a_box_are_nan(tmp_path):
    values = fields((8, 8))
    write_plotfile(tmp_path / "plt00001", [patches(values, 4)[:3]], (8, 8))
    field = read(tmp_path).field("density")
    assert not field.finite
    results = at_finest(field)
    assert np.isnan(results).sum() == 16 and np.isnan(results[4:, 4:]).all()


def test_the_field_at_the_ends_of_the_component_list(tmp_path):
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    with pytest.raises(KeyError):
        read(tmp_path).field("pressure")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_other_versions_are_refused_clearly(tmp_path, version):
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8), version=version)
    with pytest.raises(
        PlotfileError, match=rf"version {version} of Cell_H is not read: write with vismf.headerversion=1"
    ):
        read(tmp_path).field("density")


DAMAGE = {
    "truncated data": ("Cell_D_00000", lambda data: data[:-1], "truncated"),
    "no data": ("Cell_D_00000", lambda data: b"", "no FAB at byte 0"),
    "another FAB line": ("Cell_D_00000", lambda data: data.replace(b"FAB ((8,", b"FAB ((9,", 1), "unknown format"),
    "mixed byte order": ("Cell_D_00000", lambda data: data.replace(b"8 7 6 5", b"5 6 7 8", 1), "unknown order"),
    "a count in a FAB": ("Cell_D_00000", lambda data: data.replace(b" 3\n", b" 4\n", 1), "does not hold"),
    "a box in a FAB": ("Cell_D_00000", lambda data: data.replace(b"((0,0) (3,3)", b"((0,0) (3,2)", 1), "does not hold"),
    "components": ("Cell_H", lambda data: data.replace(b"1\n1\n3\n", b"1\n1\n2\n", 1), "2 components, 3 in the Header"),
    "boxes": ("Cell_H", lambda data: data.replace(b"(4 0\n", b"(3 0\n", 1), "3 boxes, 4 in the Header"),
    "an offset": ("Cell_H", lambda data: data.replace(b"Cell_D_00000 0", b"Cell_D_00000 9", 1), "no FAB at byte 9"),
    "a huge offset": ("Cell_H", lambda data: data.replace(b"00 0\n", b"00 " + b"9" * 30 + b"\n", 1), None),
    "a box outside": ("Cell_H", lambda data: data.replace(b"((4,4) (7,7)", b"((5,5) (8,8)", 1), "outside its domain"),
    "boxes that overlap": ("Cell_H", lambda data: data.replace(b"((4,4) (7,7)", b"((0,0) (7,7)", 1), "overlap"),
    "a short index": ("Cell_H", lambda data: data[:40], None),
    "an index of noise": ("Cell_H", lambda data: bytes(range(256)), None),
    "a path that leads out": ("Cell_H", lambda data: data.replace(b"Cell_D", b"../../plt00002/Cell_D"), "leads out"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_data(tmp_path, what):
    file, change, message = DAMAGE[what]
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    path = tmp_path / "plt00001" / "Level_0" / file
    changed = change(path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    with pytest.raises(PlotfileError, match=message):
        read(tmp_path).field("density")


def test_missing_data(tmp_path):
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    (tmp_path / "plt00001" / "Level_0" / "Cell_D_00000").unlink()
    with pytest.raises(PlotfileError, match="no file plt00001/Level_0/Cell_D_00000"):
        read(tmp_path).field("density")
    with pytest.raises(FileNotFoundError):
        read(tmp_path, "plt00002")


@pytest.mark.parametrize("find, put", [
    ("HyperCLaw-V1.1", "NavierStokes"), ("\n3\ndensity", "\n999999999999\ndensity"), ("\n0\n0 0", "\n7\n0 0"),
    ("(7,7)", "(6,-1)"), ("(7,7)", "(7,7,7)"), ("Level_0/Cell", ""), ("0 4 0", "0 9999999999 0"),
    ("rho_E\n2", "rho_E\n4"),
])  # fmt: skip
def test_damaged_header(tmp_path, find, put):
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    header = tmp_path / "plt00001" / "Header"
    text = header.read_text()
    assert find in text
    header.write_text(text.replace(find, put, 1))
    with pytest.raises(PlotfileError):
        read(tmp_path).field("density")


def test_a_domain_that_no_memory_holds(tmp_path):
    write_plotfile(tmp_path / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    header = tmp_path / "plt00001" / "Header"
    header.write_text(header.read_text().replace("(7,7)", "(9999999,9999999)"))
    field = read(tmp_path).field("density")
    assert not field.finite
    with pytest.raises(ValueError, match="cells in no box"):
        on_common_cells(field)


def test_links_out_of_the_run_are_not_followed(tmp_path):
    write_plotfile(tmp_path / "reference" / "plt00001", [patches(fields((8, 8)), 4)], (8, 8))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plt00001").symlink_to(tmp_path / "reference" / "plt00001")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "run")


def through_yt(folder, levels: int):
    """The density that yt reads, at the finest of `levels` levels; x is the last axis."""
    yt = pytest.importorskip("yt", reason="the package yt is not here (pip install yt, or the extra science)")
    yt.set_log_level("error")
    data = yt.load(str(folder))
    cells = [int(count) * (2 ** (levels - 1) if axis < data.dimensionality else 1)
             for axis, count in enumerate(data.domain_dimensions)]  # fmt: skip
    grid = data.covering_grid(levels - 1, data.domain_left_edge, cells)
    return np.asarray(grid["boxlib", "density"]).transpose().squeeze(), float(data.current_time)


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("dimension", [2, 3])
def test_against_yt(tmp_path, dimension, levels, kind):
    cells = (8,) * dimension
    made = [patches(fields(cells), 4), patches(fields(cells), 4, (4,) * dimension)]
    made += [patches(fields(cells), 8, (12,) * dimension)]
    write_plotfile(tmp_path / "plt00001", made[:levels], cells, kind=kind, files=2, time=0.375)
    expected, time = through_yt(tmp_path / "plt00001", levels)
    ours = read(tmp_path)
    assert ours.time == time and expected.shape == ours.finest_shape[::-1]
    np.testing.assert_array_equal(expected, at_finest(ours.field("density")))


def test_the_embedded_simulations_output_against_yt(tmp_path):
    pytest.importorskip("yt", reason="the package yt is not here (pip install yt, or the extra science)")
    for program in ("g++", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    shutil.copytree(FLOW2D, tmp_path / "flow2d")
    subprocess.run(["make"], cwd=tmp_path / "flow2d", check=True, capture_output=True)
    subprocess.run(["./flow", "inputs"], cwd=tmp_path / "flow2d", check=True, capture_output=True)
    names = sorted(path.name for path in (tmp_path / "flow2d").glob("plt?????"))
    assert names == [f"plt{n:05}" for n in range(6)]
    for name in names:
        expected, time = through_yt(tmp_path / "flow2d" / name, 1)
        ours = read(tmp_path / "flow2d", name)
        assert ours.time == pytest.approx(time, abs=1e-15)
        np.testing.assert_array_equal(expected, at_finest(ours.field("density")))
