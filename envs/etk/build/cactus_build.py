"""Builds of a whole Cactus configuration with one file replaced, in a sandbox that has the tree (sandbox.Tree)."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path, PurePosixPath

from envs.etk.build.cactus_files import Files
from envs.etk.build.jobs import TREE, in_folder
from envs.etk.build.mounted_tree import VERSION_CONTROL
from envs.sandbox import Job, Limits, Tree
from envs.task import TaskError


class BuildJobs:
    """The jobs of a tree. Raises TaskError for a tree that has never been built."""

    def __init__(self, files: Files):
        self.files = files
        self.name, self.folder = files.configuration.name, files.configuration.folder
        self.root = os.path.realpath(files.root)
        self.program = f"exe/cactus_{self.name}"
        if not files.path(self.program).is_file():
            raise TaskError(
                f"task.reward.compile.mode=build: no {self.program} in {files.root}; build the tree once with "
                f"`make {self.name}`"
            )
        self._versions = tuple(sorted(self._version_control()))
        self._copies = functools.lru_cache(1024)(self._find_copies)

    def _version_control(self) -> set[str]:
        """The folders of version control at the top and in the repositories."""
        tops = [Path(self.root), *Path(self.root).glob("repos/*")]
        found = (top / name for top in tops for name in VERSION_CONTROL)
        return {os.path.relpath(path, self.root) for path in found if os.path.lexists(path)}

    def trial(self) -> Job:
        """A job that passes where the sandbox can give it the tree."""
        tree = Tree(self.root, (self.folder,))
        commands = (("/bin/sh", "-c", f"test -d {TREE}/{self.folder} && touch {TREE}/{self.folder}/.tried"),)
        return Job("tree", "command", tree=tree, commands=commands)

    def job(self, target: str, text: str, reference: str, limits: Limits) -> Job:
        """The job that builds the configuration with `text` in the file `target`."""
        real = self._real(target)
        writable = (self.folder, "exe", os.path.dirname(real))
        hidden = {self.program, real, *self._made_of(target), *self._copies(real, reference), *self._versions}
        build = f"make {self.name} PROMPT=no && test -f {self.program}"
        return Job(
            "",
            "command",
            tree=Tree(self.root, writable, tuple(sorted(hidden))),
            files={f"{TREE}/{real}": text.encode()},
            commands=(in_folder(TREE, ("/bin/sh", "-c", build)),),
            limits=limits,
        )

    def _real(self, target: str) -> str:
        """The path of the file behind the links of arrangements/."""
        return os.path.relpath(os.path.realpath(self.files.path(target)), self.root)

    def _made_of(self, target: str) -> list[str]:
        """What an earlier build made of the file and the archive that has it, so that none gives it away or is used
        again."""
        thorn = PurePosixPath(target).parts[2]
        made = self.files.object_of(target, "/".join(PurePosixPath(target).parts[:4]))
        folder, stem = os.path.split(made.removesuffix(".o"))
        kept = {f"{stem}.o", f"{stem}.d", stem}
        kept |= {f"{PurePosixPath(stem).stem}{suffix}" for suffix in (".f", ".f90", ".cc", ".c")}
        files = [f"{folder}/{name}" for name in kept]
        return [name for name in (*files, f"{self.folder}/lib/libthorn_{thorn}.a") if self.files.path(name).exists()]

    def _find_copies(self, real: str, reference: str) -> list[str]:
        """Files of the tree with the name and the text of the reference."""
        name, data = os.path.basename(real), reference.encode()
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [each for each in folders if each not in VERSION_CONTROL]
            path = os.path.join(folder, name)
            if name in files and os.path.getsize(path) == len(data):
                with open(path, "rb") as file:
                    if file.read() == data:
                        found.append(os.path.relpath(path, self.root))
        return found

    def state(self) -> bytes:
        """A digest that changes with every build of the configuration."""
        hasher = hashlib.sha256()
        for folder in ("config-data", "lib"):
            for path in sorted(self.files.path(f"{self.folder}/{folder}").glob("*")):
                status = path.stat()
                hasher.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
        return hasher.digest()
