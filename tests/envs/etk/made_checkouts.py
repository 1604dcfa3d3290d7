"""Cactus checkouts made up for tests."""

from __future__ import annotations

from pathlib import Path

THORNLIST = """\
# CactusBase/Nowhere
!CRL_VERSION = 1.0
!DEFINE ROOT = Cactus
Early/Name
!TARGET   = $ROOT/arrangements
!URL      = https://example.invalid/$1/$2
!CHECKOUT = Sparse/Path
Carpet/Carpet   # the driver
#DISABLED CactusBase/Old
CactusBase/Boundary
  CactusBase/Absent
noslash
Carpet/Carpet
!TARGET = elsewhere
Not/Counted
"""


def thorn(folder: Path, sources: dict[str, str | bytes] | None = None, **declared: str) -> Path:
    """A thorn with these files below src, by default one; without `src` where it is empty."""
    folder.mkdir(parents=True)
    for name in ("interface", "schedule", "param"):
        (folder / f"{name}.ccl").write_text(declared.get(name, f"# {name} of {folder.name}\n"))
    if "configuration" in declared:
        (folder / "configuration.ccl").write_text(declared["configuration"])
    for name, text in ({"a.c": f"int {folder.name};\n"} if sources is None else sources).items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def names(rows) -> list[str]:
    return [f"{row['thorn_name']}/{row['src_filename']}" for row in rows]
