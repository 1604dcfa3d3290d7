"""Programs can import the standard library and the packages wherever the interpreter is, and read nothing beside it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interpreters import SITES, VERSION, Environment, linked_venv, plain, venv

from envs.sandbox import libraries

ROOT = Path(__file__).parents[3]
NOBODY = 65534
MODULES = ["__future__", "colorsys", "sqlite3", "email", "email.mime.text", "xml.etree.ElementTree", "tomllib"]
MODULES += ["encodings.cp1252", "importlib.metadata", "numpy", "numpy.linalg"]
GRADE = """
import asyncio, json, os, sys
from envs.sandbox import FunctionCase, Job, Limits, LocalSandbox, StdioCase, run_sync

modules, packages, secrets = json.loads(sys.argv[1])
look = '''
import os
def f(paths):
    seen = []
    for path in paths:
        for look in (open, os.listdir):
            try: look(path); seen.append(path)
            except OSError: pass
    return seen
'''
limits = Limits(wall_s=20, cpu_s=10)
answers = {}
for tier in ("full", "landlock"):
    box = LocalSandbox(1, limits, tier=tier, packages=packages)
    jobs = []
    for name in modules:
        code = f"import {name}\\ndef f(): return 1"
        jobs.append(Job(f"function {name}", "function", code, "f", (FunctionCase((), 1),)))
        jobs.append(Job(f"stdio {name}", "stdio", f"import {name}\\nprint(1)", cases=(StdioCase("", "1"),)))
        test = f"import {name}\\nassert f() == 1"
        jobs.append(Job(f"test {name}", "check", "def f(): return 1", "f", check_src=test))
    jobs.append(Job("secrets", "function", look, "f", (FunctionCase((secrets,), []),)))
    try:
        answers[tier] = {o.id: o.note for o in run_sync(box, jobs) if o.verdict != "pass"}
    except RuntimeError as error:
        answers[tier] = str(error)
    asyncio.run(box.close())
print(json.dumps(answers))
"""
"""Prints, for each tier, the jobs that did not pass, or why the tier is refused."""


def system(folder: Path) -> Environment:
    """The system's own interpreter, if it has this version."""
    python = f"/usr/bin/{VERSION}"
    if not os.path.exists(python) or os.path.realpath(sys.base_prefix) == "/usr":
        pytest.skip(f"there is no other interpreter {python} here")
    return Environment(python, folder, {"PYTHONPATH": os.pathsep.join(SITES)})


SETUPS: dict[str, tuple[Callable[[Path], Environment], str]] = {
    "venv below /tmp": (venv, "below"),
    "copied venv in a path with spaces": (lambda folder: venv(folder, "--copies"), "copied with spaces"),
    "linked packages": (linked_venv, "linked"),
    "no venv": (plain, "plain and whole"),
    "system": (system, "system"),
}


SLOW = pytest.mark.slow  # an ordinary user, below, has each of them


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Path]]:
    """Makes folders of mode 755 below /tmp; above them is one of mode 700."""
    top = Path(tempfile.mkdtemp(prefix="environment-", dir="/tmp"))

    def make(name: str) -> Path:
        (top / name).mkdir()
        (top / name).chmod(0o755)
        return top / name

    yield make
    shutil.rmtree(top)


def graded(environment: Environment, run: Callable[..., str], modules: list[str], packages: list[str]) -> dict:
    secret = environment.folder / "secret.txt"
    secret.write_text("secret")
    secrets = [str(secret), str(environment.folder), str(environment.folder.parent), str(ROOT), os.path.expanduser("~")]
    wanted = json.dumps([modules, packages, secrets])
    return json.loads(run(GRADE, wanted, python=environment.python, variables=environment.variables))


def as_caller(source: str, *arguments: str, python: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [python, "-c", source, *arguments], cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def all_pass(answers: dict) -> None:
    """Every job passed in every tier that the machine itself does not refuse."""
    for tier, answer in list(answers.items()):
        if isinstance(answer, str) and any(cause in answer for cause in ("unshare", "uid_map", "mount", "Landlock is")):
            del answers[tier]
    assert all(answer == {} for answer in answers.values()), answers
    if not answers:
        pytest.skip("this machine allows no tier")


@pytest.mark.parametrize(
    "setup", [name if name in ("venv below /tmp", "system") else pytest.param(name, marks=SLOW) for name in SETUPS]
)
def test_the_callers_programs_import_everything(place, setup):
    make, name = SETUPS[setup]
    all_pass(graded(make(place(name)), as_caller, MODULES, ["numpy"]))


@pytest.mark.parametrize("setup", SETUPS)
def test_an_ordinary_users_programs_import_everything(place, as_ordinary_user, setup):
    if os.getuid() != 0:
        pytest.skip("this user is an ordinary one: the test above covers it")
    make, name = SETUPS[setup]
    environment = make(place(name))
    os.chown(environment.folder.parent, NOBODY, NOBODY)
    all_pass(graded(environment, as_ordinary_user, MODULES, ["numpy"]))


def test_files_of_mode_600_are_read_too(place):
    """As installed with the umask 077."""
    environment = plain(place("closed"))
    for parent, _, files in os.walk(environment.folder):
        os.chmod(parent, 0o700)
        for name in files:
            os.chmod(f"{parent}/{name}", 0o700 if os.access(f"{parent}/{name}", os.X_OK) else 0o600)
    all_pass(graded(environment, as_caller, MODULES, ["numpy"]))


def test_a_module_that_this_interpreter_does_not_have_is_no_reason_to_refuse(place):
    """As tkinter, where its libraries were missing when the interpreter was built."""
    environment = plain(place("built without"))
    [extension] = (environment.folder / "lib" / VERSION / "lib-dynload").glob("_sqlite3.*")
    extension.unlink()
    all_pass(graded(environment, as_caller, [name for name in MODULES if name != "sqlite3"], ["numpy"]))


def test_links_out_of_a_package_are_followed(place):
    """As some installers link each file to their store."""
    environment = venv(place("store"))
    packages, store = environment.folder / "env" / "lib" / VERSION / "site-packages", environment.folder / "files"
    (packages / "stored").mkdir()
    store.mkdir()
    for name in ("__init__", "part"):
        (store / name).write_text("value = 1\n")
        (packages / "stored" / f"{name}.py").symlink_to(store / name)
    all_pass(graded(environment, as_caller, ["stored", "stored.part"], ["stored"]))


def test_a_package_whose_shared_library_lies_elsewhere(place):
    """Programs may not read that library, so the server loads it for them."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    environment = venv(place("elsewhere"))
    package = environment.folder / "env" / "lib" / VERSION / "site-packages" / "needy"
    package.mkdir()
    shared = environment.folder / "libneeded.so"
    source = "int needed(void) { return 1; }\n"
    subprocess.run(["gcc", "-shared", "-o", str(shared), "-x", "c", "-"], input=source, text=True, check=True)
    (package / "__init__.py").write_text(f"import ctypes\nassert ctypes.CDLL({str(shared)!r}).needed() == 1\n")
    all_pass(graded(environment, as_caller, ["needy", "colorsys"], ["needy"]))


def test_a_package_that_needs_another_one(place):
    environment = venv(place("needs"))
    packages = environment.folder / "env" / "lib" / VERSION / "site-packages"
    for name, text in (("outer", "import inner\n"), ("inner", "")):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(text)
    all_pass(graded(environment, as_caller, ["outer"], ["outer"]))


def test_a_tier_in_which_a_package_cannot_be_imported_is_refused(place):
    environment = venv(place("refused"))
    package = environment.folder / "env" / "lib" / VERSION / "site-packages" / "broken"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('no such processor')\n")
    for tier, answer in graded(environment, as_caller, [], ["broken"]).items():
        assert f"{tier}: programs cannot import broken (ImportError: no such processor)" in answer, answer


def test_the_systems_interpreter_is_not_copied(place):
    source = "from envs.sandbox.libraries import readable\nprint(readable('landlock', ()), readable('full', ()))"
    environment = system(place("system"))
    message = as_caller(source, python=environment.python, variables=environment.variables)
    assert message.count("home=None") == 2, message


def test_copies_of_processes_that_were_killed_are_deleted(tmp_path):
    for name in ("old", "locked", "young"):
        (tmp_path / f"{libraries.PREFIX}{name}" / "home").mkdir(parents=True)
        if name != "young":
            os.utime(tmp_path / f"{libraries.PREFIX}{name}", (0, 0))
    lock = os.open(tmp_path / f"{libraries.PREFIX}locked", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    libraries._sweep(str(tmp_path))
    os.close(lock)
    assert sorted(path.name.removeprefix(libraries.PREFIX) for path in tmp_path.iterdir()) == ["locked", "young"]


@pytest.mark.parametrize("name", [pytest.param("below", marks=SLOW), "with two spaces"])
def test_doctor_names_the_tier_of_run(place, tmp_path, name):
    environment = venv(place(name))
    row = {"id": 1, "kind": "function", "entry_point": "f", "cases": [{"args": [], "expected": 1}]}
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(json.dumps({**row, "code": f"import {m}\ndef f(): return 1"}) + "\n" for m in MODULES))
    command = [environment.python, "-m", "envs.sandbox"]
    doctor, run = (
        subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True)
        for words in (["doctor"], ["run", str(jobs), "--workers", "1"])
    )
    tier = json.loads(doctor.stdout.splitlines()[-1])["tier"]
    if tier is None:
        pytest.skip(f"this machine allows no tier: {doctor.stdout}")
    assert f"sandbox: {tier} (" in run.stderr, run.stderr
    assert [json.loads(line)["verdict"] for line in run.stdout.splitlines()] == ["pass"] * len(MODULES)
