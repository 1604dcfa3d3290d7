"""No program sees this project, the data of its tasks or other packages, wherever they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from interpreters import SITES, VERSION, plain

from envs.sandbox import LocalSandbox
from envs.sandbox.hidden import hidden_folders
from envs.sandbox.worker.landlock import without

ROOT = Path(__file__).parents[3]
MARK = "ProblemsToHide"
GRADE = """
import asyncio, json, os, sys
from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, run_sync

paths, mark = json.loads(sys.argv[1])
code = '''
import os
def f(paths, mark):
    seen = []
    for path in paths:
        for look in (open, os.listdir):
            try:
                if look is open or look(path): look(path); seen.append(path)
            except OSError: pass
    for parent, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if parent != "/" or name != "proc"]
        seen += [f"{parent}/{name}" for name in (*folders, *names) if mark in name]
    import json, email, numpy.linalg
    return seen
'''
limits = Limits(wall_s=60, cpu_s=40)
script = "; ".join(f"cat {path}" for path in paths) + f"; find / -name '*{mark}*' -not -path '/proc/*'; true"
answers = {}
for tier in ("full", "landlock"):
    box = LocalSandbox(1, limits, tier=tier, packages=["numpy"])
    jobs = [Job("program", "function", code, "f", (FunctionCase((paths, mark), []),)),
            Job("command", "command", commands=(("/bin/sh", "-c", script),))]
    try:
        program, command = run_sync(box, jobs)
        answers[tier] = [program.verdict, program.note, command.verdict, command.note, command.stdout]
    except RuntimeError as error:
        answers[tier] = str(error)
    asyncio.run(box.close())
print(json.dumps([os.path.realpath(sys.modules["envs"].__path__[0]), os.path.dirname(os.__file__), answers]))
"""
"""Prints where the project and the standard library are, and what a program and a build saw in each tier."""


def project(folder: Path) -> list[str]:
    """A copy of the project's code, with marked problems; returns what must not be seen."""
    shutil.copytree(ROOT / "envs", folder / "envs", ignore=shutil.ignore_patterns("__pycache__"))
    problems = folder / "envs" / "basics" / "problems" / f"{MARK}.jsonl"
    problems.write_text('{"answer": 42}\n')
    (folder / MARK).mkdir()
    (folder / MARK / "data.json").write_text("{}")
    return [str(problems), f"{folder}/{MARK}/data.json", f"{folder}/envs/sandbox/verdict.py", str(folder)]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory) -> Path:
    """An interpreter with the project, numpy and the caches among its own packages."""
    folder = tmp_path_factory.mktemp("whole")
    for path in (folder, *folder.parents[:1]):
        path.chmod(0o755)
    plain(folder)
    packages = folder / "lib" / VERSION / "site-packages"
    project(packages)
    (packages / "others.pth").write_text("")
    return folder


def grade(python: str, paths: list[str], first: str = "true", **variables: str) -> None:
    """Grade with an interpreter after a line of shell in a mount namespace of its own."""
    if os.getuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare")
    words = [python, "-c", GRADE, json.dumps([paths, MARK])]
    command = ["unshare", "--mount", "/bin/sh", "-c", f'{first}; exec "$@"', "visibility", *words]
    done = subprocess.run(
        command, cwd="/", env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"no mounts of one's own here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr[-4000:]
    _, _, answers = json.loads(done.stdout)
    assert any(isinstance(answer, list) for answer in answers.values()), answers
    for tier, answer in answers.items():
        if isinstance(answer, list):
            assert answer == ["pass", "", "pass", "", ""], tier


def below(folder: str) -> list[str]:
    packages = f"{folder}/lib/{VERSION}/site-packages"
    names = (f"envs/basics/problems/{MARK}.jsonl", f"{MARK}/data.json", "envs/sandbox/verdict.py", "")
    return [f"{packages}/{name}" for name in names] + [f"/python/0/{VERSION}/site-packages/{name}" for name in names]


@pytest.mark.parametrize("place", ["its own folder", "below /usr"])
def test_a_project_in_the_interpreters_own_packages_is_not_seen(interpreter, place):
    """As in a container's Python, or with conda."""
    folder, first = (str(interpreter), "true") if place == "its own folder" else ("/usr/local/games", "")
    first = first or f"mount --bind {interpreter} {folder}"
    if not os.path.isdir(folder):
        pytest.skip(f"there is no {folder} here to mount on")
    libraries = {"LD_LIBRARY_PATH": f"{folder}/lib", "PYTHONPATH": os.pathsep.join(SITES), "PYTHONHOME": folder}
    grade(f"{folder}/bin/{VERSION}", below(folder), first, **libraries)


@pytest.mark.parametrize("how", ["checkout", "editable"])
def test_a_checkout_and_the_caches_below_usr_are_not_seen(tmp_path, how):
    for path in ("/usr/local/games", "/usr/local/etc"):
        if not os.path.isdir(path):
            pytest.skip(f"there is no {path} here to mount on")
    paths = [path.replace(str(tmp_path), "/usr/local/games") for path in project(tmp_path)]
    hub = tmp_path / "hub" / f"{MARK}.parquet"
    hub.parent.mkdir()
    hub.write_text("x")
    first = f"mount --bind {tmp_path} /usr/local/games; mount --bind {hub.parent} /usr/local/etc"
    cache = "HF_HOME" if how == "checkout" else "CODEGRAIN_CACHE"
    variables = {"PYTHONPATH": "/usr/local/games", cache: "/usr/local/etc"}
    if how == "editable":
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "project.pth").write_text("/usr/local/games\n")
        variables["PYTHONPATH"] = ""
        first += "; export PYTHONSTARTUP="
        start = "import site; site.addsitedir('/usr/local/games/site')"
        (tmp_path / "site" / "sitecustomize.py").write_text(start)
        variables["PYTHONPATH"] = "/usr/local/games/site"
    grade(sys.executable, [*paths, f"/usr/local/etc/{MARK}.parquet"], first, **variables)


def test_the_project_and_its_packages_are_hidden_where_they_are_now():
    [real] = {str(ROOT.resolve())}
    assert real in hidden_folders([str(ROOT.parent)])
    assert hidden_folders(["/usr"]) == hidden_folders([]) and "/usr" not in hidden_folders([])
    for folder in hidden_folders([]):
        assert folder.startswith("/usr/") and os.path.isdir(folder)


def test_paths_without_a_hidden_folder(tmp_path):
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "a" / "link").symlink_to("/etc")
    top = str(tmp_path.resolve())
    assert sorted(without(top, [f"{top}/a/b"])) == [f"{top}/a/d", f"{top}/a/file", f"{top}/e"]
    assert without(top, ["/elsewhere"]) == [top] and without(f"{top}/a/b/c", [f"{top}/a/b"]) == []


def test_what_lies_beside_a_package_is_not_seen(grade_both=None):
    import asyncio

    from envs.sandbox import FunctionCase, Job, run_sync

    code = "import os, numpy\ndef f():\n    here = os.path.dirname(os.path.dirname(numpy.__file__))\n"
    code += "    return sorted(name for name in os.listdir(here) if not name.startswith('numpy'))\n"
    for tier in ("full", "landlock"):
        box = LocalSandbox(1, tier=tier, packages=["numpy"])
        try:
            [outcome] = run_sync(box, [Job("beside", "function", code, "f", (FunctionCase((), []),))])
        except RuntimeError:
            continue
        finally:
            asyncio.run(box.close())
        assert (outcome.verdict, outcome.note) == ("pass", ""), tier
