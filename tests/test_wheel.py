"""A wheel installs under one import name, beside packages called rewards and envs."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DECOY = "raise ImportError('another package of this name')"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The unpacked wheel, with packages of other people beside it."""
    source, folder = tmp_path_factory.mktemp("source") / "repository", tmp_path_factory.mktemp("site")
    left = shutil.ignore_patterns(".git", ".venv", "runs", "outputs", "tests", "__pycache__", "*.egg-info", ".*_cache")
    shutil.copytree(ROOT, source, ignore=left)
    for name in ("runs", "tests/bench/results"):  # what a user's repository has beside
        (source / name).mkdir(parents=True)
        (source / name / "completions.jsonl").write_text("{}\n")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, folder, source], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    for name in ("rewards", "envs", "recipes"):
        (folder / f"{name}.py").write_text(DECOY)
    return folder


def run(folder: Path, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """A program that sees the wheel and this environment's libraries, and nothing of the repository."""
    path = [str(folder), *site.getsitepackages()]
    start = f"import sys; sys.path[:0] = {path!r}\n{program}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_everything_lies_under_one_name(installed):
    names = {path.name for path in installed.iterdir() if path.is_dir()}
    assert {n for n in names if not n.endswith(".dist-info")} == {"codegrain"}
    inside = {path.name for path in (installed / "codegrain").iterdir()}
    assert inside == {"__init__.py", "recipes", "rewards", "envs", "conf", "launch"}
    for file in (installed / "codegrain").rglob("*.py"):
        assert not [x for x in file.read_text().splitlines() if x.strip().startswith(("from rewards", "from envs."))]


IMPORT_AND_TRAIN = """
import importlib
for name in open("modules.txt"):
    importlib.import_module(name.strip())
from codegrain.recipes.cli.wheel import main
main()
"""


def test_every_module_imports_beside_packages_of_the_same_names_and_a_recipe_trains(installed, tmp_path, tiny_model):
    modules = sorted(
        ".".join(file.relative_to(installed).with_suffix("").parts)
        for part in ("recipes", "rewards", "envs")
        for file in (installed / "codegrain" / part).rglob("*.py")
        if file.stem != "__main__"
        and "worker" not in file.parts
        # the source of another package, which needs verifiers
        and file.parts[-2:] != ("verifiers_package", "environment.py")
    )
    (tmp_path / "modules.txt").write_text("\n".join(modules))
    small = [f"model.path={tiny_model}", "hardware.precision=fp32", "+debug=fast", "task.also_evaluate=[]"]
    small += ["evaluation.samples=0", "evaluation.greedy=false", "recipe.prompts_per_step=4"]
    small += ["recipe.trl.num_generations=2"]
    done = run(installed, IMPORT_AND_TRAIN, "grpo", *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-1500:]
    assert list((tmp_path / "runs" / "grpo").rglob("report.html"))
    program = "from codegrain.recipes.cli.wheel import main; main()"
    assert run(installed, program, "no-such-recipe", cwd=tmp_path).returncode == 2


def test_a_wheel_names_its_own_commands(installed, tmp_path):
    program = "from codegrain.recipes.cli.console import started_as\nprint(started_as('look'))"
    assert run(installed, program, cwd=tmp_path).stdout.strip() == "codegrain look"


@pytest.mark.parametrize(("module", "made"), [("roboeval.generated", "list(rows(1))"), ("basics.composed", "rows(60)")])
def test_what_is_made_from_yaml_comes_with_the_wheel(installed, tmp_path, module, made):
    program = f"from codegrain.envs.{module} import *\nprint(len({made}))"
    done = run(installed, program, cwd=tmp_path)
    assert int(done.stdout) > 50, done.stderr[-1500:]
