"""Results in other formats than AMReX's: text tables and NumPy files are compared as plotfiles are."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from envs.etk.build import formats
from envs.etk.build.compare import ApplicationError, Metric, Reference
from envs.etk.build.formats import numpy_arrays, text_table
from envs.etk.build.outputs import InMemory
from envs.etk.build.plotfile import PlotfileError

CACTUS = """# 1D ASCII output created by CarpetIOASCII
# column format: 1:it\t2:tl 3:rl 4:c 5:ml\t6:ix 7:iy 8:iz\t9:time\t10:x 11:y 12:z\t13:data
0\t0 0 0 0\t0 0 0\t0.5\t0 0 0\t1.5
0\t0 0 0 0\t1 0 0\t0.5\t1 0 0\t2.5

"""
XGRAPH = '"Label = x\n"Time = 0.25\n0.0 1.0\n0.5 1.0D+01\n'
CSV = "step,time,energy\n0,0.0,1.5\n1,0.5,2.5\n"
GNUPLOT = "# x y u\n0 0 1\n1 0 2\n\n0 1 3\n1 1 4\n\n0 2 5\n1 2 6\n"


def table(text: str | bytes):
    return text_table(InMemory({"out.txt": text if isinstance(text, bytes) else text.encode()}), "out.txt")


@pytest.mark.parametrize(
    ("text", "field", "values", "when"),
    [
        (CACTUS, "data", [1.5, 2.5], 0.5),
        (CACTUS, "13", [1.5, 2.5], 0.5),
        (XGRAPH, "2", [1.0, 10.0], 0.25),
        (CSV, "energy", [1.5, 2.5], 0.5),
        ("1;2\n3;4\n", "2", [2.0, 4.0], 0.0),
        ("0.5 1.25-101\n1.0 .5+100\n", "2", [1.25e-101, 5e99], 0.0),
        (GNUPLOT, "u", [[1, 2], [3, 4], [5, 6]], 0.0),
    ],
    ids=["Cactus", "Cactus by number", "xgraph", "CSV", "semicolons", "Fortran's long exponents", "gnuplot"],
)
def test_a_column_is_read_by_name_or_number(text, field, values, when):
    results = table(text)
    assert results.time == when
    np.testing.assert_array_equal(results.field(field).levels[0].patches[0].values, values)


def test_values_that_are_not_finite_are_seen():
    assert not table("1\nnan\n").field("1").finite and not table("1\n-inf\n").field("1").finite


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no row of numbers"),
        ("no numbers at all\n", "no row of numbers"),
        ("1 2\n3\n", "line 2 has 1 numbers, the rows before it 2"),
        ("1,,3\n4,5,6\n", "line 1 has an empty cell: '1,,3'"),
        ("1 2\nend of the run\n", "line 2 is no row of numbers: 'end of the run'"),
        (b"\x00\xff\xfe", "no row of numbers"),
        ("1 2\n1 ٣\n", "line 2 is no row of numbers"),
        ("1 2\n1 2024-101\n", "line 2 is no row of numbers"),
    ],
)
def test_a_damaged_table_says_where(text, message):
    with pytest.raises(PlotfileError, match=message):
        table(text)


def test_a_hostile_table_is_refused_in_time(monkeypatch):
    """Each took minutes or gigabytes: digits that match in many ways, a header without end, rows without end."""
    monkeypatch.setattr(formats, "MAX_NUMBERS", 200_000)
    for text, message in (
        ("1" * 1_000_000 + "x\n", "no row of numbers"),
        ("# " + "x" * 1000 + "\n", "no row of numbers"),
        ("1\n" * 200_001, "more than 200,000 numbers"),
    ):
        with pytest.raises(PlotfileError, match=message):
            table(text if len(text) > 5000 else text * 20_000)


def test_a_time_that_is_no_number_is_none():
    assert table("# time 1.2.3 of the run\n1\n").time == 1.2 and table("# time of day\n1\n").time == 0.0


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def arrays(name: str, data: bytes):
    return numpy_arrays(InMemory({name: data}), name)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i4", "|b1"])
def test_an_array_is_read_in_every_order_and_type(order, dtype):
    values = np.asarray(np.arange(12).reshape(3, 4) % 2, dtype=dtype, order=order)
    results = arrays("u.npy", npy(values))
    assert results.field("values").shape == (4, 3) and results.names == ["values"]
    np.testing.assert_array_equal(results.field("values").levels[0].patches[0].values, values.astype(float))


def test_arrays_of_an_archive_have_names_and_a_time():
    results = arrays("u.npz", npz(u=np.ones((2, 2, 3, 4)), v=np.zeros(5), time=np.array(0.75)))
    assert results.names == ["u", "v"] and results.time == 0.75
    assert results.field("u").finest_shape == (4, 3, 4)


BIG = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(118)
OBJECT = npy(np.array([{"a": 1}], dtype=object))


def bomb() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for number in range(5):
            file.writestr(f"{number}.npy", b"\0" * (1 << 28))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("u.npy", BIG, "bytes for an array"),
        ("u.npy", b"not numpy", "no .npy file"),
        ("u.npy", OBJECT, "bytes for an array"),
        ("u.npy", npy(np.zeros(3))[:-1], "bytes for an array"),
        ("u.npy", npy(np.zeros(0)), "bytes for an array"),
        ("u.npy", npy(np.zeros(3, dtype=complex)), "no real numbers"),
        ("u.npz", b"PK\x03\x04 damaged", "no .npz file"),
        ("u.npz", npz(u=np.zeros(3))[:-30], "no .npz file"),
        ("u.npz", npz(time=np.array(1.0)), "no array"),
    ],
)
def test_a_damaged_or_hostile_array_is_refused(name, data, message):
    with pytest.raises(PlotfileError, match=message):
        arrays(name, data)


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked():
    with pytest.raises(PlotfileError, match="more than 1 GiB"):
        arrays("u.npz", bomb())


HEAT = {f"heat_{n:03d}.txt": f"# x u\n0 {n}\n1 {2 * n + 1}\n".encode() for n in range(3)}
METRIC = Metric(expect=("heat_001.txt", "heat_002.txt"), format="text", field="u")


def test_a_run_with_tables_is_scored_as_one_with_plotfiles():
    reference = Reference(InMemory(HEAT), METRIC)
    assert reference.initial == "heat_000.txt" and reference.baseline == pytest.approx(1 - 6 / 7)
    same = reference.score(InMemory(HEAT))
    assert (same.execution, same.header, same.density, same.skill) == (1.0, 1.0, 1.0, 1.0) and not same.reasons
    half = reference.score(InMemory(HEAT | {"heat_002.txt": b"# x u\n0 1\n1 3\n"}))
    assert half.density == pytest.approx(1 - 3 / 7) and half.skill == pytest.approx(0.5)
    damaged = reference.score(InMemory(HEAT | {"heat_002.txt": b"# x u\n0 1\n"}))
    assert damaged.density == 0 and "another size" in damaged.reasons[0]
    assert reference.score(InMemory({"heat_001.txt": b"1 1\n"})).execution == 0
    frozen = reference.score(InMemory(dict.fromkeys(HEAT, HEAT["heat_000.txt"])))
    assert frozen.skill == 0.0


def test_a_name_without_a_number_has_no_initial_state():
    reference = Reference(InMemory({"out/u.npy": npy(np.ones(3))}), Metric(("out/u.npy",), "numpy", "values"))
    assert reference.initial == "" and reference.baseline is None
    assert reference.score(InMemory({"out/u.npy": npy(np.ones(3))})).density == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "hdf5"}, "format='hdf5': must be one of amrex, text, numpy"),
        ({"expect": ["../out.txt"]}, "a path inside the run"),
        ({"expect": ["/out.txt"]}, "a path inside the run"),
        ({"field": "rho"}, "has no field 'rho'; it has 1, 2, x, u"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(settings, message):
    with pytest.raises(ApplicationError, match=message):
        Reference(InMemory(HEAT), Metric(**{"expect": ("heat_001.txt",), "format": "text", "field": "u"} | settings))
