"""A wheel has everything under one import name, codegrain, since packages called rewards and envs exist on the index.

In the repository the folders are imported by their plain names, its root first on sys.path. Into a wheel they go as
codegrain.recipes, codegrain.rewards, codegrain.envs, with conf/ and launch/ beside them; imports, `_target_`s
and an episode's `kind` are rewritten on the way.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

NAME = "codegrain"
FOLDERS = ("recipes", "rewards", "envs")
IMPORT = re.compile(rf"^(\s*(?:from|import) )(?=(?:{'|'.join(FOLDERS)})\b)", re.MULTILINE)
TARGET = re.compile(rf"((?:_target_|kind): ?)(?=(?:{'|'.join(FOLDERS)})\.)")
ROOT_FIRST = re.compile(r"^sys\.path\.insert\(0, str\(Path\(__file__\)\.parents\[1\]\)\)\n", re.MULTILINE)


class UnderOneName(build_py):
    """Rewrites what it has copied; an editable install is left alone."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        root = Path(self.build_lib) / NAME
        (root / "setup.py").unlink()
        (root / "__init__.py").write_text('"""Reinforcement learning for code models; `codegrain --help`."""\n')
        for file in [*root.rglob("*.py"), *root.rglob("*.yaml")]:
            text = ROOT_FIRST.sub("", file.read_text())
            file.write_text(TARGET.sub(rf"\g<1>{NAME}.", IMPORT.sub(rf"\g<1>{NAME}.", text)))


setup(
    packages=[NAME, *(f"{NAME}.{package}" for package in find_packages(include=[f"{f}*" for f in FOLDERS]))],
    package_dir={NAME: "."},
    package_data={
        NAME: ["conf/**/*.yaml", "launch/*"],
        f"{NAME}.envs.etk.completion": ["flow2d/*"],
        f"{NAME}.envs.basics.composed": ["*.yaml"],
        f"{NAME}.envs.roboeval.generated": ["*.yaml"],
        **{f"{NAME}.{folder}": ["**/*.jsonl", "**/*.json", "**/*.j2"] for folder in FOLDERS},
    },
    cmdclass={"build_py": UnderOneName},
)
