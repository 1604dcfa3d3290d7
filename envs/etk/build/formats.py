"""Results of a run in the formats that are compared: AMReX plotfiles, text tables, NumPy files.

A result has a header (text that is compared word by word), a time, names of fields, and each field as float64 values.
A candidate's files are hostile: a size that a file announces is used only after the bytes are known to be there, and
what is not numbers is a PlotfileError that says where.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from tokenize import TokenError
from typing import Protocol

import numpy as np

from envs.etk.build.composite import Field, FieldLevel, Patch
from envs.etk.build.outputs import Outputs
from envs.etk.build.plotfile import Plotfile, PlotfileError, header_text

MAX_TEXT = 32 << 20
"""Longest text table, in bytes."""
MAX_NUMBERS = 2_000_000
"""Numbers of a text table: each takes some hundred bytes while it is read."""
MAX_ARRAY = 1 << 30
"""Largest array of a NumPy file, in bytes."""
EMPTY_CELL = re.compile(r"^[\d.+-][^#%!\"]*,\s*,")
"""Of a row of numbers."""
HEADER_LINES, HEADER_WIDTH = 100, 400
"""Of a table's lines without numbers the last ones, so many characters of each, are its header."""
COMMENT = '#%!;"'
# each digit can match in two ways at most: a candidate's long line must not take quadratic time
DECIMAL = r"[+-]?(?:(?:\d+\.\d*|\.\d+)[+-]\d{3}(?![\d.])|(?:\d+(?:\.\d*)?|\.\d+)(?:[eEdD][+-]?\d+)?)"
"""The first form is Fortran's for an exponent of three digits, 1.0-101."""
NUMBER = re.compile(rf"{DECIMAL}|[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
TIME = re.compile(rf"\btime\b[\s=:]*({DECIMAL})", re.ASCII | re.IGNORECASE)


class Result(Protocol):
    """One output of a run.

    names: of its fields. time: physical time, 0 if the file has none.
    """

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def time(self) -> float: ...

    def field(self, name: str) -> Field:
        """Raises KeyError without such a field, PlotfileError if it cannot be read."""
        ...


class Arrays:
    """A result whose fields are arrays of one shape each, (x), (y, x) or (z, y, x)."""

    def __init__(self, arrays: dict[str, np.ndarray], time: float) -> None:
        self.arrays, self.time = arrays, time
        self.names = list(arrays)

    def field(self, name: str) -> Field:
        values = self.arrays[name]
        return Field((FieldLevel(values.shape[::-1], (Patch((0,) * values.ndim, values),)),))


def text_table(outputs: Outputs, name: str) -> Arrays:
    """Rows of numbers in columns, between blanks, commas or semicolons: Cactus's .asc and .xl, gnuplot's data, CSV.

    Lines that begin with one of COMMENT are comments, and so are lines before the first row that are no numbers. Where
    the last of these has a word for each column, the words are the columns' names ("9:time" is "time"); a column is
    also known by its number, from 1. Blocks of equally many rows between blank lines are the rows (y) of a plane. The
    time is the last value of a column called time or t, else that of the last comment that names one.
    """
    header, blocks = _table(outputs, name)
    rows = np.array([row for block in blocks for row in block], dtype=np.float64)
    words = [re.sub(r"^\d+:", "", word.strip("\"'")) for word in re.split(r"[\s,;]+", _last_line(header)) if word]
    columns = {str(number + 1): rows[:, number] for number in range(rows.shape[1])}
    if len(words) == rows.shape[1]:
        columns |= dict(zip(words, columns.values(), strict=False))
    if len({len(block) for block in blocks}) == 1 and len(blocks) > 1:
        columns = {key: values.reshape(len(blocks), -1) for key, values in columns.items()}
    timed = next((columns[key] for key in ("time", "t") if key in columns), None)
    times = TIME.findall(header)
    time = float(timed.flat[-1]) if timed is not None else number(times[-1]) if times else 0.0
    return Arrays(columns, time)


def _table(outputs: Outputs, name: str) -> tuple[str, list[list[list[float]]]]:
    """The header and the blocks of rows. Raises FileNotFoundError, PlotfileError."""
    blocks: list[list[list[float]]] = []
    header: deque[str] = deque(maxlen=HEADER_LINES)
    columns, numbers, open_block = 0, 0, False
    for place, line in enumerate(_lines(outputs, name), 1):
        text = line.strip()
        if not text:
            open_block = False
            continue
        if EMPTY_CELL.search(text):
            raise PlotfileError(f"{name}: line {place} has an empty cell: {text[:60]!r}")
        words = [word for word in re.split(r"[\s,;]+", text) if word]
        row = [number(word) for word in words] if all(map(NUMBER.fullmatch, words)) else None
        if row is None:
            if text[0] not in COMMENT and blocks:
                raise PlotfileError(f"{name}: line {place} is no row of numbers: {text[:60]!r}")
            header.append(text[:HEADER_WIDTH])
            continue
        if columns and len(row) != columns:
            raise PlotfileError(f"{name}: line {place} has {len(row)} numbers, the rows before it {columns}")
        columns, numbers = len(row), numbers + len(row)
        if numbers > MAX_NUMBERS:
            raise PlotfileError(f"{name}: more than {MAX_NUMBERS:,} numbers: write fewer rows, or .npy")
        if not open_block:
            blocks.append([])
            open_block = True
        blocks[-1].append(row)
    if not blocks:
        raise PlotfileError(f"{name}: no row of numbers")
    return "".join(f"{line}\n" for line in header), blocks


def _lines(outputs: Outputs, name: str) -> Iterator[str]:
    if (size := outputs.size(name)) > MAX_TEXT:
        raise PlotfileError(f"{name}: {size >> 20} MiB of text, {MAX_TEXT >> 20} are read: write fewer rows, or .npy")
    return io.StringIO(outputs.read(name).decode("utf-8-sig", "replace"))


def number(word: str) -> float:
    """A number, with Fortran's exponents too: 1.0D+00, and 1.0-101, which has no room for its letter."""
    return float(re.sub(r"[dD](?=[+-]?\d)|(?<=[\d.])(?=[+-]\d{3}$)", "e", word))


def _last_line(header: str) -> str:
    lines = [line.lstrip(COMMENT).strip() for line in header.splitlines()]
    return next((line.partition("column format:")[2] or line for line in reversed(lines) if line), "")


def text_header(outputs: Outputs, name: str) -> str:
    """Comments and titles of a table, and the number of its columns. Raises FileNotFoundError; a file that is no table
    has a header that says so."""
    try:
        header, blocks = _table(outputs, name)
    except PlotfileError:
        return "no table"
    return f"{header}{len(blocks[0][0])} columns"


def numpy_arrays(outputs: Outputs, name: str) -> Arrays:
    """The array of a .npy file, called `values`, or the arrays of a .npz file by name; `time` or `t` is its time.

    An array of more than three dimensions is taken as many planes one behind the other.
    """
    arrays = {}
    for key, (dtype, shape, read) in _numpy_members(outputs, name).items():
        if dtype.kind not in "fiub":
            raise PlotfileError(f"{name}: {key} holds {dtype}, no real numbers")
        values = np.frombuffer(read(), dtype).astype(np.float64)
        order = shape if len(shape) <= 3 else (math.prod(shape[:-2]), *shape[-2:])
        arrays[key] = values.reshape(order or (1,))
    times = [arrays.pop(key) for key in ("time", "t") if key in arrays and arrays[key].size == 1]
    if not any(values.size for values in arrays.values()):
        raise PlotfileError(f"{name}: no array")
    return Arrays(arrays, float(times[0].flat[0]) if times else 0.0)


Member = tuple[np.dtype, tuple[int, ...], Callable[[], bytes]]
"""An array's type, its shape, and what reads its bytes in C order."""


def _numpy_members(outputs: Outputs, name: str) -> dict[str, Member]:
    """The arrays of a file by name. Raises FileNotFoundError, PlotfileError."""
    if not name.endswith(".npz"):
        return {"values": _member(name, outputs.read(name))}
    try:
        with zipfile.ZipFile(io.BytesIO(outputs.read(name))) as file:
            if sum(info.file_size for info in file.infolist()) > MAX_ARRAY:
                raise PlotfileError(f"{name}: more than {MAX_ARRAY >> 30} GiB of arrays")
            return {
                info.filename.removesuffix(".npy"): _member(f"{name}/{info.filename}"[:200], file.read(info))
                for info in file.infolist()
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        NotImplementedError,
        RuntimeError,
        OSError,
        EOFError,
    ) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise PlotfileError(f"{name}: no .npz file: {error}") from None


def _member(place: str, data: bytes) -> Member:
    """One .npy file. Its array is as large as the bytes that are there."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except (ValueError, TypeError, KeyError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        raise PlotfileError(f"{place}: no .npy file: {str(error)[:100]}") from None
    size, start = math.prod(shape) * dtype.itemsize, stream.tell()
    if min(shape, default=1) < 1 or dtype.hasobject or len(data) - start != size:
        raise PlotfileError(f"{place}: {len(data) - start} bytes for an array {shape} of {dtype}")

    def in_c_order() -> bytes:
        values = np.frombuffer(data, dtype, offset=start)
        return values.reshape(shape, order="F").tobytes() if fortran else values.tobytes()

    return dtype, shape, in_c_order


def numpy_header(outputs: Outputs, name: str) -> str:
    """Names, types and shapes of a file's arrays. Raises FileNotFoundError; of a damaged file the header says so."""
    try:
        members = _numpy_members(outputs, name)
    except PlotfileError:
        return "no arrays"
    return "\n".join(f"{key} {dtype} {' '.join(map(str, shape))}" for key, (dtype, shape, _) in members.items())


def unread(outputs: Outputs, name: str) -> Arrays:
    """A file that a program of the user's compares (own_comparison.py). Raises PlotfileError."""
    raise PlotfileError(f"{name}: format=files is for a comparison.command")


@dataclass(frozen=True)
class Format:
    """How results are read. files: patterns of an output's files behind its name, "" for the file itself."""

    read: Callable[[Outputs, str], Result]
    header: Callable[[Outputs, str], str]
    files: tuple[str, ...] = ("",)


FORMATS = {
    "amrex": Format(Plotfile, header_text, ("/Header", "/Level_*/*")),
    "text": Format(text_table, text_header),
    "numpy": Format(numpy_arrays, numpy_header),
    "cactus": Format(unread, lambda outputs, name: "", ("/*",)),
    "files": Format(unread, lambda outputs, name: ""),
}
