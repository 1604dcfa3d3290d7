"""Interpreters of several kinds for tests, each in a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITES = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
INSTALLED = os.path.dirname(importlib.util.find_spec("numpy").submodule_search_locations[0])


@dataclass
class Environment:
    """An interpreter with numpy, and the folder that holds it alone."""

    python: str
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)


def venv(folder: Path, *options: str) -> Environment:
    """A virtual environment with numpy in its own folder, and the rest of this environment by a .pth file."""
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", *options, str(folder / "env")], check=True)
    packages = folder / "env" / "lib" / VERSION / "site-packages"
    give_numpy(packages)
    (packages / "others.pth").write_text("\n".join(SITES))
    return Environment(str(folder / "env" / "bin" / "python"), folder)


def linked_venv(folder: Path) -> Environment:
    """The same with links to the packages, as some installers make."""
    environment = venv(folder)
    packages = folder / "env" / "lib" / VERSION / "site-packages"
    shutil.rmtree(packages / "numpy")
    shutil.rmtree(packages / "numpy.libs", ignore_errors=True)
    for name in ("numpy", "numpy.libs"):
        if os.path.isdir(f"{INSTALLED}/{name}"):
            (packages / name).symlink_to(f"{INSTALLED}/{name}")
    return environment


def plain(folder: Path) -> Environment:
    """A whole interpreter of its own, without a virtual environment."""
    base, library = Path(sys.base_prefix), Path(os.__file__).parent
    (folder / "bin").mkdir()
    shutil.copy2(os.path.realpath(sys._base_executable), folder / "bin" / VERSION)
    (folder / "lib").mkdir()
    for shared in base.glob("lib/libpython*.so*"):
        shutil.copy2(shared, folder / "lib", follow_symlinks=True)
    left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "config-*")
    shutil.copytree(library, folder / "lib" / VERSION, ignore=left_out, symlinks=True)
    give_numpy(folder / "lib" / VERSION / "site-packages")
    variables = {"LD_LIBRARY_PATH": str(folder / "lib"), "PYTHONPATH": os.pathsep.join(SITES)}
    return Environment(str(folder / "bin" / VERSION), folder, variables)


def give_numpy(packages: Path) -> None:
    for name in ("numpy", "numpy.libs"):
        if os.path.isdir(f"{INSTALLED}/{name}"):
            shutil.copytree(f"{INSTALLED}/{name}", packages / name, ignore=shutil.ignore_patterns("tests"))
