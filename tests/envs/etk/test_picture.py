"""Pictures of fields: the numbers of a known array, in one to three dimensions and at any resolution."""

from __future__ import annotations

import json

import numpy as np
import pytest
from plotfile_writer import patches, write_plotfile

from envs.etk.build.compare import Metric, Reference
from envs.etk.build.composite import Field, FieldLevel, Patch
from envs.etk.build.evaluation import Evaluation
from envs.etk.build.outputs import Folder
from envs.etk.build.picture import MOST_CELLS, drawn, numbers, packed, small

METRIC = Metric(expect=("plt00001",))


def written(folder, field, cells=None, time=0.1):
    """A run of one output; `cells` are those of level 0, which has all of the field."""
    cells = cells or field.shape[::-1]
    write_plotfile(folder / "plt00001", [patches({"density": field}, max(cells))], cells, time=time)
    return Folder(folder)


def test_blocks_have_their_means_and_equal_sides():
    field = np.arange(130.0 * 4).reshape(4, 130)
    shrunk = small(field, (130, 4))  # blocks of 3 cells each way, the last of each axis smaller
    assert shrunk.shape == (2, 44)
    assert shrunk[0, 0] == field[:3, :3].mean() and shrunk[1, 1] == field[3:, 3:6].mean()
    assert shrunk[0, -1] == field[:3, 129:].mean()
    assert np.array_equal(small(field[:, :MOST_CELLS], (MOST_CELLS, 4)), field[:, :MOST_CELLS])


def test_one_and_three_dimensions():
    line = np.arange(128.0)
    assert small(line, (128,)).tolist() == [[2 * n + 0.5 for n in range(64)]]
    cube = np.arange(5 * 6 * 7.0).reshape(5, 6, 7)
    field = Field((FieldLevel((7, 6, 5), (Patch((0, 0, 0), cube),)),))
    assert np.array_equal(numbers(drawn(field, (7, 6, 5))), cube[2])


@pytest.mark.parametrize("times", [2, 5])
def test_another_resolution_gives_the_same_cells(times):
    field = np.random.default_rng(0).normal(size=(30, 100))
    finer = field.repeat(times, 0).repeat(times, 1)
    assert small(finer, (100, 30)) == pytest.approx(small(field, (100, 30)))


def test_a_coarser_field_repeats_its_values():
    assert small(np.array([[1.0, 2.0]]), (4, 2)).tolist() == [[1, 1, 2, 2], [1, 1, 2, 2]]


def test_numbers_have_four_digits():
    field = np.array([[1 / 3, -1e-9 / 7], [12345.6, 0.0]])
    assert numbers(packed(field)) == [[0.3333, -1.429e-10], [12350.0, 0.0]]
    assert packed(np.array([[1.0, np.nan]])) == packed(np.array([[np.inf]])) == ""


@pytest.mark.parametrize("shape", [(100,), (12, 10), (6, 8, 10)])
def test_a_run_has_its_own_numbers_beside_the_references(tmp_path, shape):
    expected = 1.0 + np.random.default_rng(1).random(shape)
    results = expected.copy()
    results[tuple(n // 2 for n in shape)] = 5.0
    reference = Reference(written(tmp_path / "reference", expected), METRIC)
    score = reference.score(written(tmp_path / "run", results, time=0.2))
    shown = reference.picture
    assert (shown.field, shown.plotfile, shown.time, shown.cells) == ("density", "plt00001", 0.1, shape[::-1])
    assert shown.result == ""
    difference = np.array(numbers(score.picture)) - np.array(numbers(shown.reference))
    assert np.count_nonzero(difference) == 1 and difference.max() > 1
    assert reference.score(Folder(tmp_path / "reference")).picture == shown.reference


def test_what_cannot_be_compared_has_no_picture(tmp_path):
    field = np.ones((4, 4))
    reference = Reference(written(tmp_path / "reference", field), METRIC)
    assert reference.score(Folder(tmp_path)).picture == reference.failed("run: timeout").picture == ""
    assert reference.score(written(tmp_path / "other", np.ones((4, 6)))).picture == ""
    assert reference.score(written(tmp_path / "wrong", field * np.nan)).picture == ""


def test_a_stored_evaluation_keeps_its_picture(tmp_path):
    reference = Reference(written(tmp_path, np.ones((4, 4))), METRIC)
    made = Evaluation(None, "", reference.score(Folder(tmp_path)))
    assert made.run.picture and Evaluation.from_row(json.loads(json.dumps(made.row()))) == made
