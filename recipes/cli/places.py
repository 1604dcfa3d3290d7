"""Whether files can be written where a command is told to, asked before it works."""

from __future__ import annotations

import os
from pathlib import Path

from recipes.cli.errors import UserError


def require_writable(setting: str, path: Path) -> None:
    """Raise UserError where no file or folder `path` can be made. setting: what names it, as "to=FOLDER"."""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if there.is_file() and there != path:
        raise UserError(f"{setting}: {there} is a file, not a folder; name another place")
    if not os.access(there, os.W_OK) or os.statvfs(there).f_flag & os.ST_RDONLY:
        raise UserError(f"{setting} cannot be written: {there} takes no files of yours; name another place")


def require_folder(setting: str, path: Path) -> None:
    """Raise UserError where a file `path` cannot be made, since it is a folder, or its folder is not there or takes
    none."""
    if path.is_dir():
        raise UserError(f"{setting} is a folder; name a file in it, such as {path / 'FILE'}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{setting}: there is no folder {path.parent}; make it, or name another file")
    require_writable(setting, path)
