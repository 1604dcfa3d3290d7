"""Tells a running interpreter that folders of libraries have other paths now."""

import sys
from typing import Any


def relocate(moved: dict[str, str]) -> None:
    """Import from the new folders from now on. `moved` has the new path of each old folder."""
    old_first = sorted(moved, key=len, reverse=True)

    def new(path: Any) -> Any:
        if isinstance(path, str):
            for old in old_first:
                if path == old or path.startswith(old + "/"):
                    return moved[old] + path[len(old) :]
        return path

    sys.path[:] = [new(path) for path in sys.path]
    system: Any = sys  # typeshed does not know _stdlib_dir
    system._stdlib_dir = new(system._stdlib_dir)
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        for owner, names in (
            (module, ("__file__", "__cached__")),
            (spec, ("origin", "cached")),
            (getattr(spec, "loader", None), ("path",)),
        ):
            for name in names:
                if isinstance(path := getattr(owner, name, None), str) and new(path) != path:
                    setattr(owner, name, new(path))
        for folders in (getattr(module, "__path__", None), getattr(spec, "submodule_search_locations", None)):
            if isinstance(folders, list):
                folders[:] = [new(path) for path in folders]
    sys.path_importer_cache.clear()
