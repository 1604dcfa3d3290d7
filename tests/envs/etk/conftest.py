"""The embedded simulation, prepared once for all tests that build it, and a Cactus checkout."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.etk.completion import Case, CompletionScore, CompletionScorer, Request, flow2d
from envs.sandbox import LocalSandbox
from tests.envs.etk.made_checkouts import thorn


class Scoring:
    """Scores single completions of flow2d."""

    def __init__(self, scorer: CompletionScorer) -> None:
        self.scorer = scorer

    def at(self, file: str, first: str, count: int = 1) -> Case:
        """A case of the `count` lines from the one that begins with `first` on, blanks aside."""
        lines = (self.scorer.application.source_dir / file).read_text().split("\n")
        [start] = [number for number, line in enumerate(lines) if line.strip().startswith(first)]
        return Case(f"{file}:{start + 1}", file, start, start + count)

    def all(self, *requests: tuple[Case, str]) -> list[CompletionScore]:
        """Scores in order; fails where the sandbox did."""
        results = asyncio.run(self.scorer.score([Request(*request) for request in requests]))
        return [score for score in results if score is not None or pytest.fail("the sandbox failed")]

    def one(self, case: Case, completion: str) -> CompletionScore:
        return self.all((case, completion))[0]


@pytest.fixture(scope="session")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoring]:
    """flow2d in a sandbox of two workers."""
    for program in ("g++", "make"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    sandbox = LocalSandbox(2)
    yield Scoring(CompletionScorer(flow2d(), sandbox, tmp_path_factory.mktemp("cache")))
    asyncio.run(sandbox.close())


@pytest.fixture
def linked(tmp_path) -> Path:
    """A standard checkout: repositories in lower case, arrangements of links with the real names."""
    repos, links = tmp_path / "Cactus" / "repos", tmp_path / "Cactus" / "arrangements"
    thorn(repos / "cactusbase" / "Boundary")
    thorn(repos / "cactusbase" / "IOUtil")
    thorn(repos / "carpet" / "Carpet")
    for name in ("CactusBase/Boundary", "CactusBase/IOUtil"):
        (links / name).parent.mkdir(parents=True, exist_ok=True)
        (links / name).symlink_to(repos / "cactusbase" / name.split("/")[1])
    (links / "Carpet").symlink_to(repos / "carpet")  # a whole arrangement by one link
    (links / "Again").mkdir()
    (links / "Again" / "Boundary").symlink_to(repos / "cactusbase" / "Boundary")
    return tmp_path / "Cactus"
