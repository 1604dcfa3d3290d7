"""A machine that the hub has no address on is told at once, and once."""

from __future__ import annotations

import socket
import time

import datasets
import huggingface_hub
import pytest
from transformers import AutoConfig

from envs.data import hub_rows, offline_where_unknown
from envs.local_models import model_source
from envs.task import TaskError

PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def asked(monkeypatch):
    """The hosts asked for, on a machine that is online as far as its libraries know and has no names."""
    hosts: list[str] = []

    def no_names(host: str, *_: object) -> None:
        hosts.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits {seconds} s for a hub that is not there"))
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    offline_where_unknown.cache_clear()
    yield hosts
    offline_where_unknown.cache_clear()


def test_a_model_of_the_hub_fails_at_once_where_there_is_none(asked):
    for _ in range(2):
        with pytest.raises(OSError, match="couldn't find"):
            AutoConfig.from_pretrained(model_source("somebody/some-model"))
    assert asked == ["huggingface.co"] and huggingface_hub.is_offline_mode()


@pytest.mark.parametrize("seed", [None, 0])
def test_so_do_rows_of_the_hub(asked, seed):
    with pytest.raises(TaskError, match=r"cannot load somebody/some-rows .* give a copy"):
        list(hub_rows("somebody/some-rows", None, "train", ["id"], seed=seed))
    assert asked == ["huggingface.co"]


def test_a_proxy_is_left_to_find_the_hub(asked, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert model_source("somebody/some-model") == "somebody/some-model"
    assert not asked and not huggingface_hub.is_offline_mode()


def test_a_folder_asks_nobody(asked, tmp_path):
    assert model_source(str(tmp_path)) == str(tmp_path) and not asked
