"""A program that tries to import what programs may import; envs/sandbox/import_probe.py runs it like any other program.

Standard input: JSON [names of modules, names of packages]. The last line of standard output: JSON {what: reason} of the
modules that cannot be imported and of the first file of each library that cannot be read.
"""

import importlib
import json
import os
import sys


def import_all(names):
    failed = {}
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


def unreadable(folder):
    """The first file below a folder that cannot be read, and why; None if there is none."""
    problems: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=problems.append):
        if parent == folder:
            folders[:] = [name for name in folders if name not in ("site-packages", "dist-packages", "test")]
        for name in files:
            if os.path.islink(os.path.join(parent, name)):  # Debian has one into /etc
                continue
            try:
                os.close(os.open(os.path.join(parent, name), os.O_RDONLY))
            except OSError as error:
                problems.append(error)
        if problems:
            return f"{problems[0].filename}: {problems[0].strerror}"
    return None


def main():
    modules, packages = json.loads(sys.stdin.read())
    failed = import_all([*modules, *packages])
    for name in ["os", *packages]:
        file = getattr(sys.modules.get(name), "__file__", None)
        reason = unreadable(os.path.dirname(file)) if file else None
        if reason:
            failed[f"the files of {name}"] = reason
    print()
    print(json.dumps(failed))


main()
