"""The folders that no program sees, wherever they lie: this project, the data of its tasks, and installed packages.

Programs may read the system's folders and the standard library, and an interpreter's packages may lie below them, for
example in a container (/usr/local/lib/python3.11/site-packages) or with conda. A program that read the problems there
could print their answers.
"""

from __future__ import annotations

import glob
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OWN = ("envs", "rewards", "recipes", "conf", "launch", "tests")
"""The project's folders."""
SYSTEM = ("/bin", "/lib", "/lib64", "/usr")
"""Folders of the system that programs may read."""
NEEDED = {
    f"{top}{name}"
    for top in ("", "/usr", "/usr/local")
    for name in ("", "/bin", "/lib", "/lib64", "/share", "/include")
}
"""Folders of the system that cannot be hidden as a whole."""
PACKAGES = [
    f"{top}/lib*/{python}/{name}-packages"
    for top in ("/usr", "/usr/local")
    for python in ("python3*", "pypy3*")
    for name in ("site", "dist")
]
SOURCES = ("/usr/src", "/usr/local/src")
CACHES = """
HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_DATASETS_CACHE HF_ASSETS_CACHE HF_MODULES_CACHE TRANSFORMERS_CACHE
XDG_CACHE_HOME XDG_DATA_HOME TORCH_HOME CODEGRAIN_CACHE
"""
"""Variables that name folders of the hub's, the data sets' and this project's caches."""


def hidden_folders(readable: Iterable[str]) -> list[str]:
    """The real paths of all folders to hide that lie below one of the folders `readable` or below the system's."""
    tops = [os.path.realpath(folder) for folder in (*SYSTEM, *readable)]
    folders = {os.path.realpath(folder) for folder in _candidates() if folder and os.path.isdir(folder)}
    if str(ROOT) in folders & NEEDED:
        folders |= {str(ROOT / name) for name in OWN if (ROOT / name).is_dir()}
    kept = sorted(folder for folder in folders - NEEDED if any(folder.startswith(f"{top}/") for top in tops))
    return [folder for folder in kept if not any(folder.startswith(f"{other}/") for other in kept)]


def _candidates() -> Iterable[str]:
    library = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    library |= {os.path.realpath(os.path.dirname(os.__file__))}
    for folder in (*sys.path, os.getcwd()):
        real = os.path.realpath(folder)
        if real not in library and os.path.basename(real) != "lib-dynload":
            yield real
    yield str(ROOT)
    yield from (*site.getsitepackages(), site.getusersitepackages(), os.path.expanduser("~"))
    for folder in library:
        yield from (f"{folder}/site-packages", f"{folder}/dist-packages")
    for pattern in PACKAGES:
        yield from glob.glob(pattern)
    yield from SOURCES
    for name in CACHES.split():
        yield os.path.expanduser(os.environ.get(name, ""))
