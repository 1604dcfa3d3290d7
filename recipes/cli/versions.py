"""Which versions of TRL this project runs with; every recipe says so before anything loads."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from recipes.cli.errors import UserError

OLDEST, NEWEST = (1, 12), (1, 16)
LEFT_OUT = {(1, 15): "it cannot be imported without Triton"}
INSTALL = f"pip install 'trl>={OLDEST[0]}.{OLDEST[1]},!=1.15.*,<{NEWEST[0]}.{NEWEST[1] + 1}'"


def check_trl() -> None:
    """Raise UserError where TRL is missing, or of a version that was not tested."""
    try:
        installed = version("trl")
    except PackageNotFoundError:
        raise UserError(f"trl is not installed: {INSTALL}") from None
    release = Version(installed).release[:2]
    if release in LEFT_OUT:
        raise UserError(f"trl {installed} is installed, and {LEFT_OUT[release]}: {INSTALL}")
    if not OLDEST <= release <= NEWEST:
        raise UserError(
            f"trl {installed} is installed, and this project was tested with {OLDEST[0]}.{OLDEST[1]} to "
            f"{NEWEST[0]}.{NEWEST[1]}: {INSTALL}"
        )
