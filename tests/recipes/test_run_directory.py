"""A run directory: one process at a time works in it, and what stands in the way is one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.lock import LOCK, hold, release
from recipes.cli.overrides import compose
from recipes.records.checkpoint_folders import broken_file
from recipes.records.directory import REMOVED, REPLACED, open_run_dir, remove_if_setup_fails
from tests.recipes.test_command_line import ROOT

OPENS = """
import sys
from recipes.cli import schema
from recipes.cli.overrides import compose
from recipes.records.directory import open_run_dir
schema.register()
open_run_dir(compose(["recipe=grpo", f"run.dir={sys.argv[1]}"]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _schemas():
    schema.register()


def settings(folder, *overrides: str):
    return compose(["recipe=grpo", f"run.dir={folder}", *overrides])


def test_a_directory_that_another_process_works_in_is_refused_until_that_ends(tmp_path):
    command = [sys.executable, "-c", OPENS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        config = (tmp_path / "config.yaml").read_text()
        for how in ("replace", "resume"):
            with pytest.raises(UserError, match=f"is in use by process {other.pid} on .*: wait until that has ended"):
                open_run_dir(settings(tmp_path, f"run.if_exists={how}"))
        assert (tmp_path / "config.yaml").read_text() == config
        other.kill()  # its lock goes with it, its file stays
    assert (tmp_path / LOCK).exists()
    open_run_dir(settings(tmp_path))
    open_run_dir(settings(tmp_path))  # the process that has it may open it again
    release(tmp_path)


def test_a_lock_whose_file_was_replaced_is_taken_anew(tmp_path, monkeypatch):
    hold(tmp_path)
    (tmp_path / LOCK).unlink()
    hold(tmp_path)
    assert f"process {os.getpid()} on" in (tmp_path / LOCK).read_text()
    release(tmp_path)
    (tmp_path / LOCK).write_text("process 1 on another-machine\n")
    monkeypatch.setattr("fcntl.lockf", refuse_lock)
    with pytest.raises(UserError, match=r"by process 1 on another-machine: .*; if that machine is gone, remove "):
        hold(tmp_path)


def refuse_lock(*_: object) -> None:
    raise BlockingIOError


def test_a_run_is_replaced_when_the_new_one_is_set_up_and_not_before(tmp_path):
    folder = tmp_path / "run"
    open_run_dir(settings(folder, "seed=1"))
    (folder / "final").mkdir()
    (folder / "final" / "model.safetensors").write_bytes(b"weights")

    def kept() -> bool:
        return "seed: 1\n" in (folder / "config.yaml").read_text() and (folder / "final").is_dir()

    again = settings(folder, "run.if_exists=replace", "seed=2")
    with pytest.raises(UserError, match="no sandbox"), remove_if_setup_fails(open_run_dir(again)):
        raise UserError("no sandbox")
    assert kept() and not (folder / REPLACED).exists()
    open_run_dir(again)  # and then a kill
    assert not kept()
    open_run_dir(settings(folder, "seed=1"))
    assert kept()
    with remove_if_setup_fails(open_run_dir(again)):
        pass
    assert not kept() and sorted(path.name for path in folder.iterdir()) == [LOCK, "config.yaml"]
    (folder / REMOVED).mkdir()  # a kill while the replaced run was being removed
    open_run_dir(settings(folder, "seed=2"))
    assert not (folder / REMOVED).exists()
    release(folder)


def test_what_a_run_needs_and_what_is_no_run_is_not_replaced(tmp_path, monkeypatch):
    run, other = tmp_path / "run", tmp_path / "thesis"
    open_run_dir(settings(run))
    (run / "final").mkdir()
    with pytest.raises(UserError, match=r"run\.if_exists=replace would remove adapter=.*final: set run\.name"):
        open_run_dir(settings(run, "run.if_exists=replace", f"adapter={run}/final"))
    monkeypatch.chdir(run)  # a word such as basics is no path, even there
    open_run_dir(settings(".", "run.if_exists=replace"))
    release(run)
    other.mkdir()
    (other / "config.yaml").write_text("title: mine\n")
    with pytest.raises(UserError, match=r"thesis is not the directory of a run; set run\.dir"):
        open_run_dir(settings(other, "run.if_exists=replace"))
    assert (other / "config.yaml").read_text() == "title: mine\n"


def test_a_replaced_directory_is_held_too(tmp_path):
    folder = tmp_path / "run"
    open_run_dir(settings(folder))
    open_run_dir(settings(folder, "run.if_exists=replace"))
    done = subprocess.run(
        [sys.executable, "-c", OPENS, str(folder)], cwd=ROOT, input="", text=True, capture_output=True
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
    with pytest.raises(UserError, match=r"run\.dir=.*run cannot be written \(Read-only file system\); set run\.dir"):
        open_run_dir(settings(tmp_path / "run"))


def test_a_broken_configuration_is_named(tmp_path):
    (tmp_path / "config.yaml").write_text("a: [1\n")
    with pytest.raises(UserError, match=r"config\.yaml cannot be read .*: set run\.if_exists=replace"):
        open_run_dir(settings(tmp_path))


@pytest.mark.parametrize("name", ["trainer_state.json", "adapter_model.safetensors", "optimizer.pt"])
def test_a_file_that_was_cut_is_found_without_reading_it_all(name, tmp_path):
    (tmp_path / "trainer_state.json").write_text('{"global_step": 3}')
    (tmp_path / "own.json").write_text('{"lines": 1}\n{"lines": 2}\n')  # of a kind that nothing here reads
    save_file({"weight": torch.ones(64, 64)}, tmp_path / "adapter_model.safetensors")
    torch.save({"state": torch.ones(64)}, tmp_path / "optimizer.pt")
    assert broken_file(tmp_path) is None
    whole = (tmp_path / name).read_bytes()
    for part in (b"", whole[:12], whole[:-1], b"version https://git-lfs.github.com/spec/v1\n"):
        (tmp_path / name).write_bytes(part)
        assert broken_file(tmp_path) == tmp_path / name, part[:20]


def test_a_replaced_run_takes_nothing_else_with_it(tmp_path):
    """Other runs below it and files of others stay: run.name= or run.dir=. may name a folder of both."""
    folder = tmp_path / "runs"
    for run in (folder, folder / "another"):
        with remove_if_setup_fails(open_run_dir(settings(run))):
            (run / "metrics.jsonl").write_text("{}\n")
            (run / "final").mkdir()
        release(run)
    (folder / "thesis.txt").write_text("mine")
    with remove_if_setup_fails(open_run_dir(settings(folder, "run.if_exists=replace"))):
        pass
    release(folder)
    assert not (folder / "metrics.jsonl").exists() and not (folder / "final").exists()
    assert (folder / "thesis.txt").read_text() == "mine"
    assert (folder / "another" / "metrics.jsonl").exists() and (folder / "another" / "final").exists()
    with pytest.raises(UserError, match=r"would remove adapter=.*final: set run\.name"):
        another = folder / "another"
        open_run_dir(settings(another, f"adapter={another / 'final'}", "run.if_exists=replace"))


def test_a_run_with_the_same_optimizer_under_another_name_resumes(tmp_path):
    given, config = ["recipe=sft", f"run.dir={tmp_path}"], tmp_path / "config.yaml"
    open_run_dir(compose(given))
    written = config.read_text()
    assert "adamw_torch_fused" in written
    config.write_text(written.replace("adamw_torch_fused", "adamw_torch"))
    with pytest.raises(UserError, match=r"hardware\.optimizer was adamw_torch, is sgd"):
        open_run_dir(compose([*given, "hardware.optimizer=sgd"]))
    open_run_dir(compose(given))
    release(tmp_path)


def test_another_process_does_not_refuse_what_the_first_has_just_made(tmp_path):
    folder = tmp_path / "run"
    open_run_dir(settings(folder, "run.if_exists=refuse"))
    open_run_dir(settings(folder, "run.if_exists=refuse"), is_main=False)
    with pytest.raises(UserError, match=r"run\.if_exists=refuse: .* exists"):
        open_run_dir(settings(folder, "run.if_exists=refuse"))
    release(folder)
