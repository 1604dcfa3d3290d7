"""The first hour of recipes/README.md: its commands, channel and rows, with a tiny model and short answers in place."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from recipes.records.jsonl import read_jsonl
from tests import warm

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "recipes" / "README.md").read_text().split("## A first hour", 1)[1].split("\n## ", 1)[0]
SMALL = ("hardware.precision=fp32", "evaluation.samples=0", "evaluation.greedy=false", "task.also_evaluate=[]")


def command(recipe: str) -> list[str]:
    """The section's command of a recipe, as words."""
    line = next(line for line in SECTION.splitlines() if line.strip().startswith(f"python recipes/{recipe}.py"))
    return shlex.split(line)


def commands(recipe: str) -> list[list[str]]:
    return [shlex.split(s) for s in SECTION.splitlines() if s.strip().startswith(f"python recipes/{recipe}.py")]


def block(language: str) -> str:
    return textwrap.dedent(re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL).group(1))


def take(words: list[str], folder: Path, *more: str) -> subprocess.CompletedProcess:
    """Run a command of the section from `folder`, whose Python files can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
        return warm.run([sys.executable, ROOT / words[1], *words[2:], *more], cwd=folder, check=True)


def test_run_it(tmp_path):
    take(command("ppo"), tmp_path)
    (run,) = tmp_path.glob("runs/ppo/pacman/*")
    assert len(read_jsonl(run / "metrics.jsonl")) == 10 and (run / "report.html").exists()


def test_change_a_weight_and_add_a_channel(tiny_model, tmp_path):
    weight, channel, _ = commands("grpo")
    small = (f"model.path={tiny_model}", *SMALL, "task.max_new_tokens=24", "recipe.prompts_per_step=2")
    take(weight, tmp_path, *small, f"run.dir={tmp_path}/weight")
    row = read_jsonl(tmp_path / "weight" / "completions.jsonl")[0]
    assert row["weights"]["form"] == 0.3

    # a copy stands in for the repository: the file goes where the document says
    own = tmp_path / "own_channel.py"
    own.write_text(block("python"))
    words = [word.replace("rewards.comments.", "own_channel.") for word in channel]
    assert words != channel
    take(words, tmp_path, *small, f"run.dir={tmp_path}/channel")
    rows = read_jsonl(tmp_path / "channel" / "completions.jsonl")
    assert all("comments" in row["notes"]["comments"] for row in rows)


def test_the_channel_pays_comments_where_they_stand():
    import asyncio

    from rewards.channel import Completion

    space: dict = {}
    exec(block("python"), space)  # this repository's own text
    head, code = "# A heading\n```python\n", "# one\nx = 1  # not a line of its own\n    # two\n"
    text, span = f"{head}{code}```\n# the end", (len(head), len(head) + len(code))
    results, nothing = asyncio.run(
        space["Comments"]().score([None] * 2, [Completion(text, (), (), span), Completion("#", (), ())])
    )
    assert [text[s.start : s.end] for s in results.spans] == ["# one", "    # two"]
    assert results.score == pytest.approx(0.2) and results.note == "2 comments"
    assert nothing.score == 0 and nothing.spans == ()


def test_a_shell_takes_the_commands_as_they_stand():
    """Unquoted braces are split at commas."""
    shown = [line.strip() for line in SECTION.splitlines() if line.strip().startswith("python recipes/")]
    assert len(shown) == 6
    for line in shown:
        message = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True)
        assert message.stdout.splitlines() == shlex.split(line)


def test_add_a_task(tiny_model, tmp_path):
    (tmp_path / "mine.jsonl").write_text(block("json"))
    take(commands("grpo")[-1], tmp_path, f"model.path={tiny_model}", *SMALL, f"run.dir={tmp_path}/own")
    assert len(read_jsonl(tmp_path / "own" / "metrics.jsonl")) == 3
    message = take(command("check"), tmp_path).stdout
    assert "basics train: 1 of 1 problems are sound" in message and "basics test: 1 of 1 problems are sound" in message
