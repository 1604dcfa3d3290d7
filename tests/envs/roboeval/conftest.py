"""One sandbox for all tests of this folder, judging in one line, and the originals' answers where they are at hand."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envs.roboeval import Judgement, Request, World, judge
from envs.roboeval.trace import T, inside, say
from envs.sandbox import LocalSandbox

SHARED = Path(__file__).parents[4] / "shared" / "data"
SMALL = World(
    ("kitchen", "hall", "start_loc"),
    objects={"kitchen": ("red cup", "plate")},
    people={"hall": (("tea", "yes"),)},
)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[LocalSandbox]:
    box = LocalSandbox(2)
    yield box
    asyncio.run(box.close())


@pytest.fixture
def judged(sandbox) -> Callable[..., Judgement]:
    """The judgement of one program in worlds of our own (one small one), by a condition each."""

    def run(program: str, *worlds: World, condition: dict | None = None, mode: str = "hardened") -> Judgement:
        chosen = worlds or (SMALL,)
        wanted = condition or inside(T, say())
        [results] = asyncio.run(judge(sandbox, [Request(program, chosen, [wanted] * len(chosen), mode)]))
        return results

    return run


@pytest.fixture(scope="session")
def benchmark_folder() -> Path:
    folder = SHARED / "roboeval"
    if not folder.is_dir():
        pytest.skip("../shared/data/roboeval is not here")
    return folder


@pytest.fixture(scope="session")
def oracle() -> list[dict]:
    """The originals' verdicts of programs in the benchmark's worlds, which its licence keeps out of this repository."""
    path = SHARED / "roboeval_oracle" / "oracle.jsonl.gz"
    if not path.is_file():
        pytest.skip("../shared/data/roboeval_oracle is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
