"""A run directory: one process at a time works in it, and what stands in the way is one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.records.checkpoint_folders import broken_file
from recipes.records.directory import open_run_dir
from recipes.records.lock import LOCK, hold, release
from tests.recipes.test_command_line import ROOT

HOLDS = """
import sys
from pathlib import Path
from recipes.records.lock import hold
hold(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _schemas():
    schema.register()


def settings(folder, *overrides: str):
    return compose(["recipe=grpo", f"run.dir={folder}", *overrides])


def test_a_directory_that_another_process_works_in_is_refused_until_that_ends(tmp_path):
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        (tmp_path / "config.yaml").write_text("a: 1\n")
        for how in ("replace", "resume"):
            with pytest.raises(UserError, match=f"is in use by process {other.pid} on .*: wait until that has ended"):
                hold(tmp_path)
            with pytest.raises(UserError, match="is in use by" if how == "replace" else "was made with other settings"):
                open_run_dir(settings(tmp_path, f"run.if_exists={how}"))
        assert (tmp_path / "config.yaml").read_text() == "a: 1\n"
        other.kill()  # its lock goes with it, its file stays
    assert (tmp_path / LOCK).exists()
    hold(tmp_path)
    hold(tmp_path)  # the process that has it may open it again
    release(tmp_path)


def test_a_replaced_directory_is_held_too(tmp_path):
    folder = tmp_path / "run"
    open_run_dir(settings(folder))
    open_run_dir(settings(folder, "run.if_exists=replace"))
    done = subprocess.run(
        [sys.executable, "-c", HOLDS, str(folder)], cwd=ROOT, input="", text=True, capture_output=True
    )
    assert "is in use by process" in done.stderr
    release(folder)


@pytest.mark.parametrize("name", ["", "file", "file/below"])
def test_a_place_that_can_be_no_folder_is_one_line(name, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"^run\.dir="):
        open_run_dir(settings(tmp_path / name if name else ""))
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_that_takes_nothing_is_one_line(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", str(tmp_path / "run"))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(UserError, match=r"run\.dir=.* cannot be written \(Read-only file system\); set run\.dir"):
        open_run_dir(settings(tmp_path / "run"))


def test_a_broken_configuration_is_named(tmp_path):
    (tmp_path / "config.yaml").write_text("a: [1\n")
    with pytest.raises(UserError, match=r"config\.yaml cannot be read .*: set run\.if_exists=replace"):
        open_run_dir(settings(tmp_path))


@pytest.mark.parametrize("name", ["trainer_state.json", "adapter_model.safetensors", "optimizer.pt"])
def test_a_file_that_was_cut_is_found_without_reading_it_all(name, tmp_path):
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3}')
    (tmp_path / "README.md").write_text("")
    save_file({"weight": torch.ones(64, 64)}, tmp_path / "adapter_model.safetensors")
    torch.save({"state": torch.ones(64)}, tmp_path / "optimizer.pt")
    assert broken_file(tmp_path) is None
    for size in (0, 12, (tmp_path / name).stat().st_size - 1):
        with (tmp_path / name).open("r+b") as file:
            file.truncate(size)
        assert broken_file(tmp_path) == tmp_path / name
        if name == "adapter_model.safetensors":
            save_file({"weight": torch.ones(64, 64)}, tmp_path / name)
