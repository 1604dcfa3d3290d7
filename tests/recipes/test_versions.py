"""The range of TRL's versions: one in pyproject.toml, in the check and in the message."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from recipes.cli import versions
from recipes.cli.errors import UserError

ROOT = Path(__file__).parents[2]


def test_the_range_is_that_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (trl,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "trl")
    oldest, newest = versions.OLDEST, versions.NEWEST
    for major, minor in [(0, 29), (1, 11), *((1, n) for n in range(12, 19)), (2, 0)]:
        taken = oldest <= (major, minor) <= newest and (major, minor) not in versions.LEFT_OUT
        assert (f"{major}.{minor}.0" in trl.specifier) == taken, (major, minor)
    assert Requirement(versions.INSTALL.removeprefix("pip install ").strip("'")).specifier == trl.specifier


@pytest.mark.parametrize(
    "installed, message",
    [
        ("1.11.0", r"trl 1\.11\.0 is installed, and this project was tested with 1\.12 to 1\.16: pip install 'trl>="),
        ("1.17.1", r"tested with 1\.12 to 1\.16"),
        ("1.15.0", r"without Triton: pip install"),
        (None, r"trl is not installed: pip install"),
        ("1.12.0", None),
        ("1.16.3", None),
    ],
)
def test_another_version_is_one_line(installed, message, monkeypatch):
    def version(name):
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(versions, "version", version)
    if message is None:
        versions.check_trl()
    else:
        with pytest.raises(UserError, match=message) as refused:
            versions.check_trl()
        assert "\n" not in str(refused.value)
