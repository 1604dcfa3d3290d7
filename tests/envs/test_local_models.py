"""The model that a package contains is converted whole or not at all, by one process at a time."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers

from envs import local_models
from envs.local_models import packaged_model


class Model:
    """What stands for the loaded and the converted model; `then` is called when a part of the files is written."""

    config = SimpleNamespace(to_dict=lambda: {"model_type": "llama"})

    def __init__(self, then):
        self.then = then

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def save_pretrained(self, folder):
        Path(folder).mkdir()
        (Path(folder) / "model.safetensors").touch()
        self.then()
        (Path(folder) / "config.json").touch()


@pytest.fixture
def converting(monkeypatch, tmp_path):
    """A function that converts a made-up model, and calls its argument in the middle; the cache is `tmp_path`."""
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path))
    monkeypatch.setattr(local_models, "package_gguf", lambda package: Path("made-up.gguf"))
    monkeypatch.setattr(
        transformers.AutoTokenizer,
        "from_pretrained",
        lambda *_, **__: SimpleNamespace(save_pretrained=lambda folder: None),
    )

    def convert(then=lambda: None):
        for name in ("from_pretrained", "from_config"):
            monkeypatch.setattr(transformers.AutoModelForCausalLM, name, lambda *_, **__: Model(then))
        return packaged_model("made")

    return convert


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.is_dir())


def test_a_conversion_that_is_interrupted_leaves_no_folder(converting, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        converting(interrupt)
    assert folders(tmp_path) == []
    assert converting() == tmp_path / "made-made-up" and folders(tmp_path) == ["made-made-up"]


def test_what_a_killed_conversion_left_is_removed_by_the_next(converting, tmp_path):
    for name in (".made-made-up.4711", ".made-made-up-2.4711", ".other.4711"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    converting()
    assert folders(tmp_path) == [".made-made-up-2.4711", ".other.4711", "made-made-up"]


def test_a_second_process_waits_for_the_first(converting, tmp_path):
    """The test holds the lock, as another process does while it converts."""
    done: list[Path] = []
    with (tmp_path / ".made-made-up.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = tmp_path / ".made-made-up.1"
        other.mkdir()
        waiting = threading.Thread(target=lambda: done.append(converting(lambda: pytest.fail("converted twice"))))
        waiting.start()
        waiting.join(0.5)
        assert not done and other.is_dir()
        (other / "config.json").touch()
        other.rename(tmp_path / "made-made-up")
    waiting.join(60)
    assert done == [tmp_path / "made-made-up"] and folders(tmp_path) == ["made-made-up"]
