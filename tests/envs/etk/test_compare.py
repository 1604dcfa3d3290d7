"""Scores of runs: each row of the specification's table of edge cases, and numbers worked out by hand."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from plotfile_writer import patches, write_plotfile

from envs.bleu import word_bleu as bleu
from envs.etk.build.compare import ApplicationError, Metric, Reference, similarity, skill
from envs.etk.build.outputs import Folder
from envs.etk.completion.__main__ import main
from envs.etk.completion.check import unsound
from envs.etk.completion.own_application import _row
from envs.etk.completion.scorer import CompletionScore

NAMES = ("plt00001", "plt00002")
Y, X = np.mgrid[0:8, 0:8] / 8.0
BASE = 1.0 + X * Y


def write_run(folder, fields, *, cells=(8, 8), size=4, times=(0.1, 0.2), first=1, **options):
    """Plotfiles plt0000`first`, ... with one density field each."""
    for number, (field, time) in enumerate(zip(fields, times, strict=True), first):
        made = [patches({"density": field, "energy": 2.0 * np.clip(field, -1e300, 1e300)}, size)]
        write_plotfile(folder / f"plt{number:05d}", made, cells, time=time, **options)


@pytest.fixture
def reference(tmp_path):
    """A run of two outputs and an initial one."""
    write_run(tmp_path / "ref", [BASE, 2.0 * BASE, 3.0 * BASE], times=(0.0, 0.1, 0.2), first=0)
    return tmp_path / "ref"


def scored(candidate, reference, **metric):
    return Reference(Folder(reference), Metric(**{"expect": NAMES, **metric})).score(Folder(candidate))


def test_the_same_run_is_perfect(reference):
    score = scored(reference, reference)
    assert (score.execution, score.header, score.density, score.skill, score.reasons) == (1.0, 1.0, 1.0, 1.0, ())
    assert score.baseline == pytest.approx(1 / 3)


def test_a_constant_factor(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, 2.7 * BASE])
    for norm in ("l1", "l2", "linf"):
        assert scored(tmp_path / "run", reference, norm=norm).density == pytest.approx(0.9)
        assert scored(tmp_path / "run", reference, norm=norm).skill == pytest.approx(1 - 0.3 / 2)
    assert scored(tmp_path / "run", reference, compare="mean").density == pytest.approx(0.95)
    assert scored(tmp_path / "run", reference, compare=["plt00001"]).density == 1.0
    assert scored(tmp_path / "run", reference, field="energy").density == pytest.approx(0.9)


def test_the_largest_difference_of_a_cell_is_told_beside_the_mean(tmp_path, reference):
    """One cell of 64 is a tenth too large: the mean hides it, the more so the more cells there are."""
    field = 3.0 * BASE
    field[2, 3] *= 1.1
    write_run(tmp_path / "run", [2.0 * BASE, field])
    score = scored(tmp_path / "run", reference)
    assert score.density > 0.99
    assert score.largest == pytest.approx(0.1 * field[2, 3] / 1.1 / (3.0 * BASE).max())
    assert scored(reference, reference).largest == 0


def test_a_fault_in_one_cell_of_a_million_is_not_right():
    """A mean over 1,024 x 1,024 cells has 1 - 2e-7 where one of them is a fifth off."""
    stages = dict.fromkeys(("compile", "execution", "header", "density", "skill"), 1.0)
    rest = {"left_out": 0.5, "baseline": 0.5, "exact": False, "line_count_match": True}
    wrong = CompletionScore(**stages, **rest, total=1 - 2e-7, largest=0.2)
    assert wrong.verdict == "fields"
    assert _row(wrong)["reasons"] == ["a cell of the field differs by 0.2 of its largest value"]
    rounded = dataclasses.replace(wrong, largest=1e-6)
    assert rounded.verdict == "pass" and not unsound(None, rounded, rounded)


@pytest.mark.parametrize(("values", "density"), [([1, 2, 3, 4], 1.0), ([1, 1, 2, 2, 3, 3, 4, 4], 0.0), ([2.5], 0.0)])
def test_a_field_of_another_shape_is_not_the_references(tmp_path, values, density):
    """Whatever shapes other arrays of the file have, and wherever they stand in it."""
    for name, arrays in (
        ("reference", {"x": np.arange(4.0), "u": np.array([1.0, 2.0, 3.0, 4.0])}),
        ("run", {"u": np.array(values, dtype=float), "other": np.zeros(7), "x": np.arange(4.0)}),
    ):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "u_1.npz", **arrays)
    score = scored(tmp_path / "run", tmp_path / "reference", expect=("u_1.npz",), format="numpy", field="u")
    assert score.density == density
    assert density or score.reasons == ("u_1.npz: a domain of another size or dimension",)


def test_doing_nothing_has_no_skill(tmp_path, reference):
    write_run(tmp_path / "run", [BASE, BASE])
    score = scored(tmp_path / "run", reference)
    assert score.skill == 0.0 and score.density == score.baseline > 0.3


def test_levels_that_do_not_refine_each_other_are_damage(tmp_path, reference):
    levels = [patches({"density": np.ones((n, n)), "energy": np.ones((n, n))}, n) for n in (8, 8)]
    write_run(tmp_path / "run", [2.0 * BASE], times=(0.1,))
    write_plotfile(tmp_path / "run" / "plt00002", levels, (8, 8), time=0.2)
    header = tmp_path / "run" / "plt00002" / "Header"
    header.write_text(header.read_text().replace("((0,0) (15,15) (0,0))", "((0,0) (11,11) (0,0))"))
    for strict in (True, False):
        score = scored(tmp_path / "run", reference, strict_finite=strict)
        assert (score.execution, score.density, score.skill) == (1.0, 0.0, 0.0)
        assert "12 cells do not refine 8" in score.reasons[0]


@pytest.mark.parametrize("cells", [16, 12])
def test_a_run_that_begins_finer_than_it_ends(tmp_path, cells):
    """Levels that vanish; where they do not divide, there is no state to compare with."""
    write_run(tmp_path / "ref", [2.0 * BASE, 3.0 * BASE])
    fine = np.ones((cells, cells))
    made = [patches({"density": fine, "energy": fine}, cells)]
    write_plotfile(tmp_path / "ref" / "plt00000", made, (cells, cells))
    score = scored(tmp_path / "ref", tmp_path / "ref")
    assert (score.density, score.skill) == (1.0, 1.0 if cells == 16 else None)
    assert (score.baseline is None) == (cells == 12)


def test_many_levels_are_no_damage(tmp_path, reference):
    """Four times finer, twice: the values are the same."""
    write_run(tmp_path / "run", [2.0 * BASE], times=(0.1,))
    fields = [(3.0 * BASE).repeat(n, 0).repeat(n, 1) for n in (1, 4, 16)]
    levels = [patches({"density": field, "energy": field}, 64) for field in fields]
    write_plotfile(tmp_path / "run" / "plt00002", levels, (8, 8), ratio=4, time=0.2)
    assert scored(tmp_path / "run", reference).density == 1.0


def test_the_initial_state_may_be_expected_as_well(reference):
    score = scored(reference, reference, expect=("plt00000", *NAMES))
    assert (score.execution, score.skill) == (1.0, 1.0) and score.baseline == pytest.approx(1 / 3)


def test_without_an_initial_plotfile_there_is_no_skill(tmp_path):
    write_run(tmp_path / "ref", [BASE, 2.0 * BASE])
    score = scored(tmp_path / "ref", tmp_path / "ref")
    assert (score.density, score.skill, score.baseline) == (1.0, None, None)


def test_a_missing_folder_fails_the_execution(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE], times=(0.1,))
    (tmp_path / "run" / "plt00002.old.1").mkdir()
    score = scored(tmp_path / "run", reference)
    assert (score.execution, score.header, score.density, score.skill) == (0.0, 0.0, 0.0, 0.0)
    assert score.reasons == ("no plt00002: plt00002/Header",)


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_an_unreadable_header_fails_the_execution(tmp_path, reference, content):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE])
    (tmp_path / "run" / "plt00001" / "Header").write_bytes(content)
    assert scored(tmp_path / "run", reference).execution == 0.0


def test_a_missing_field(tmp_path, reference):
    for number in (1, 2):
        write_plotfile(tmp_path / "run" / f"plt0000{number}", [patches({"energy": BASE}, 4)], (8, 8), time=number / 10)
    score = scored(tmp_path / "run", reference)
    assert (score.execution, score.density) == (1.0, 0.0) and 0 < score.header < 1
    assert score.reasons == ("plt00002 has no field 'density'",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(tmp_path, reference, value):
    bad = 3.0 * BASE
    bad[3, 3] = value
    write_run(tmp_path / "run", [2.0 * BASE, bad])
    strict, lax = scored(tmp_path / "run", reference), scored(tmp_path / "run", reference, strict_finite=False)
    assert (strict.execution, strict.header, strict.density) == (0.0, 0.0, 0.0)
    assert strict.reasons == ("density is not finite in plt00002",)
    assert (lax.execution, lax.header, lax.density, lax.skill) == (1.0, 1.0, 0.0, 0.0)


def test_cells_without_a_box_are_not_finite(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE])
    made = patches({"density": 3.0 * BASE, "energy": BASE}, 4)[:3]
    write_plotfile(tmp_path / "other" / "plt00002", [made], (8, 8), time=0.2)
    (tmp_path / "run" / "plt00001").rename(tmp_path / "other" / "plt00001")
    assert scored(tmp_path / "other", reference).execution == 0.0
    assert scored(tmp_path / "other", reference, strict_finite=False).density == 0.0


@pytest.mark.parametrize("value", [1e200, 1.7e308, -1.7e308])
def test_values_that_are_huge(tmp_path, reference, value):
    write_run(tmp_path / "run", [2.0 * BASE, np.full((8, 8), value)])
    for norm in ("l1", "l2", "linf"):
        score = scored(tmp_path / "run", reference, norm=norm)
        assert (score.execution, score.density, score.skill) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e306])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_scale_does_not_matter(norm, scale):
    a, r, start = 0.9 * BASE, BASE, 0.5 * BASE
    assert similarity(a * scale, r * scale, norm) == pytest.approx(similarity(a, r, norm), rel=1e-12)
    assert skill(a * scale, r * scale, start * scale, norm) == pytest.approx(skill(a, r, start, norm), rel=1e-12)


def test_a_reference_of_zeros(tmp_path):
    zero = np.zeros((8, 8))
    write_run(tmp_path / "ref", [zero, zero, zero], times=(0.0, 0.1, 0.2), first=0)
    write_run(tmp_path / "run", [zero, 1e-30 * BASE])
    same, other = scored(tmp_path / "ref", tmp_path / "ref"), scored(tmp_path / "run", tmp_path / "ref")
    assert (same.density, same.skill, other.density, other.skill) == (1.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("cells", [(8,), (8, 9), (16, 8), (16, 16), (8, 8, 8)])
def test_another_domain(tmp_path, reference, cells):
    write_run(tmp_path / "run", [np.ones(cells[::-1])] * 2, cells=cells)
    score = scored(tmp_path / "run", reference)
    assert (score.execution, score.density) == (1.0, 0.0)
    assert score.reasons == ("plt00002: a domain of another size or dimension",)


def test_other_boxes(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE], size=8)
    score = scored(tmp_path / "run", reference)
    assert score.density == 1.0 and score.skill == 1.0 and 0.0 < score.header < 1.0


def with_fine_level(folder, value, ratio=2):
    """Two plotfiles with a patch of `value` in the middle of a finer level."""
    for number in (1, 2):
        coarse = {"density": (number + 1.0) * BASE, "energy": BASE}
        fine = {name: np.full((4, 4), value) for name in coarse}
        low = (2 * ratio, 2 * ratio)
        levels = [patches(coarse, 4), patches(fine, 4, low)]
        write_plotfile(folder / f"plt0000{number}", levels, (8, 8), ratio=ratio, time=number / 10)


def test_other_levels(tmp_path, reference):
    with_fine_level(tmp_path / "fine", 5.0)
    coarse = (3.0 * BASE).repeat(2, 0).repeat(2, 1)
    fine = coarse.copy()
    fine[4:8, 4:8] = 5.0
    difference = np.abs(fine - coarse).sum()
    assert scored(tmp_path / "fine", reference).density == pytest.approx(1 - difference / coarse.sum())
    assert scored(reference, tmp_path / "fine").density == pytest.approx(1 - difference / fine.sum())
    with_fine_level(tmp_path / "third", 5.0, ratio=3)
    score = scored(tmp_path / "third", tmp_path / "fine")
    assert score.density == 0.0 and "levels that cannot be compared" in score.reasons[0]


@pytest.mark.parametrize("kind", ["<f4", ">f4", ">f8"])
def test_other_numbers(tmp_path, reference, kind):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE], kind=kind, ghosts=1)
    score = scored(tmp_path / "run", reference)
    assert score.density == pytest.approx(1.0, abs=1e-6) and score.header == 1.0


@pytest.mark.parametrize("file, change", [
    ("Cell_D_00000", lambda data: data[:-8]), ("Cell_D_00000", lambda data: b"X" + data),
    ("Cell_H", lambda data: data.replace(b"1\n1\n2\n", b"1\n1\n3\n", 1)), ("Cell_H", lambda data: b""),
])  # fmt: skip
def test_damaged_data(tmp_path, reference, file, change):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE])
    path = tmp_path / "run" / "plt00002" / "Level_0" / file
    path.write_bytes(change(path.read_bytes()))
    score = scored(tmp_path / "run", reference)
    assert (score.execution, score.header, score.density, len(score.reasons)) == (1.0, 1.0, 0.0, 1)


def test_a_header_without_end_is_cut(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, 3.0 * BASE])
    header = tmp_path / "run" / "plt00001" / "Header"
    header.write_text(header.read_text() + 1_000_000 * "a b c ")
    score = scored(tmp_path / "run", reference)
    assert score.density == 1.0 and 0.5 < score.header < 0.55  # the mean over two


def test_a_candidate_cannot_point_at_the_reference(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, BASE])
    header = tmp_path / "run" / "plt00002" / "Header"
    header.write_text(header.read_text().replace("Level_0/Cell", "../../ref/plt00002/Level_0/Cell"))
    assert scored(tmp_path / "run", reference).density == 0.0


def test_other_times(tmp_path, reference):
    write_run(tmp_path / "run", [2.0 * BASE, 2.5 * BASE], times=(0.1, 0.15))
    score = scored(tmp_path / "run", reference)
    assert score.time_mismatch and score.density == pytest.approx(2.5 / 3)
    assert score.equal_time == pytest.approx(1.0)  # the reference, half way between its two outputs
    assert score.reasons == ("other times than the reference's: plt00002",)
    late = scored(reference, tmp_path / "run")
    assert late.time_mismatch and late.equal_time == pytest.approx(1.0)
    write_run(tmp_path / "lost", [2.0 * BASE, 2.5 * BASE], times=(0.1, 0.0))
    assert scored(tmp_path / "lost", reference).equal_time is None
    write_run(tmp_path / "slow", [2.5 * BASE, 4.0 * BASE], times=(0.15, 0.3))  # without an initial plotfile
    assert scored(tmp_path / "slow", reference).equal_time == pytest.approx(1.0)


def spoil_field(folder):
    write_run(folder, [2.0 * BASE, np.full((8, 8), np.nan)])


def spoil_first(folder):
    write_run(folder, [np.full((8, 8), np.inf), 3.0 * BASE])


REFERENCE_DAMAGE = {
    "no folder": (lambda folder: None, "no result plt00001 of format=amrex"),
    "a folder less": (lambda folder: write_run(folder, [BASE], times=(0.1,)), "no result plt00002 of format=amrex"),
    "not finite": (spoil_field, "density of plt00002 is not finite"),
    "not finite, not compared": (spoil_first, "density of plt00001 is not finite"),
}


@pytest.mark.parametrize("what", REFERENCE_DAMAGE)
def test_a_damaged_reference_is_an_error(tmp_path, reference, what):
    damage, message = REFERENCE_DAMAGE[what]
    damage(tmp_path / "bad")
    for strict in (True, False):
        with pytest.raises(ApplicationError, match=message):
            scored(reference, tmp_path / "bad", strict_finite=strict)


def test_a_reference_without_the_field_is_an_error(reference):
    with pytest.raises(ApplicationError, match="plt00001 has no field 'velocity'"):
        scored(reference, reference, field="velocity")


@pytest.mark.parametrize("wrong", [
    {"norm": "l3"}, {"compare": "first"}, {"compare": ["plt00009"]}, {"compare": []}, {"expect": []},
    {"expect": "plt00001"}, {"expect": ["../plt00001"]}, {"weights": {"compile": -1.0}}, {"weights": {"density": 0.0}},
    {"weights": {"speed": 1.0}}, {"weights": {"density": math.nan}},
])  # fmt: skip
def test_wrong_metrics(wrong):
    with pytest.raises(ApplicationError):
        Metric(**{"expect": NAMES, **wrong})


def test_totals():
    assert Metric().total(compile=1.0) == 0.25
    assert Metric().total(compile=1.0, execution=1.0, header=0.873, density=0.948) == pytest.approx(0.955, abs=1e-3)
    assert Metric(weights={"density": 2.0, "compile": 1.0}).total(compile=1.0, density=0.4) == pytest.approx(0.6)


def test_bleu():
    words = [str(number) for number in range(42)]
    text = " ".join(words)
    assert bleu(text, text) == bleu("a b", "a  b\n") == 1.0
    assert bleu("", text) == bleu(text, "") == bleu(" ", " ") == 0.0
    words[20] = words[30] = "x"  # two words of 42: what a uniform grid shows of another time step
    by_hand = math.exp(math.fsum(map(math.log, (40 / 42, 37 / 41, 34 / 40, 31 / 39))) / 4)
    assert bleu(" ".join(words), text) == pytest.approx(by_hand) == pytest.approx(0.873, abs=5e-4)
    assert bleu("1 2 3 4 5", "1 2 3 4 5 6 7 8 9 10") == pytest.approx(math.exp(-1))  # brevity
    assert bleu("1 2 3 4 5 6", "1 2 3 9 9 9") == pytest.approx((3 / 6 * 2 / 5 * 1 / 4 * 0.1 / 3) ** 0.25)  # smoothing
    assert bleu("a a a a", "a b c d") == pytest.approx((1 / 4 * 0.1 / 3 * 0.1 / 2 * 0.1) ** 0.25)  # clipping


def test_command_line(tmp_path, reference, capsys):
    write_run(tmp_path / "run", [2.0 * BASE, 2.7 * BASE])
    (tmp_path / "nothing").mkdir()
    good = {"run_dir": str(tmp_path / "run"), "reference_dir": str(reference), "expect": NAMES, "field": "density"}
    rows = [
        {"id": 1, **good, "norm": "l1"},
        {"id": "two", **good, "run_dir": str(tmp_path / "nothing")},
        {"id": 3, **good, "reference_dir": str(tmp_path / "nothing")},
        {"id": 4, **good, "norm": "l7"},
        {"id": 5, "run_dir": "x"},
        {"id": 6, **good, "weights": {"density": 1.0}},
        {"id": 7, **good, "compile": 0},
        {"id": 8, **good, "expect": 5},
    ]
    lines = [json.dumps(row) for row in rows] + ["[]", "{", ""]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    assert main(["score", str(tmp_path / "rows.jsonl")]) == 0
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in results] == [1, "two", 3, 4, 5, 6, 7, 8, None, None]
    assert ["error" in row for row in results] == [False, False, True, True, True, False, False, True, True, True]
    assert {"execution", "header", "density", "skill", "total", "reasons"} <= set(results[0])
    assert results[0]["total"] == pytest.approx((1 + 1 + 1 + 0.9) / 4)
    assert results[1]["total"] == 0.25 and results[1]["execution"] == 0.0 and results[1]["reasons"]
    assert results[5]["total"] == pytest.approx(0.9) and results[6]["total"] == 0.0
    assert main(["score", str(tmp_path / "absent.jsonl")]) == 1
