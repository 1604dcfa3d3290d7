"""What README.md says can be done can be done: its commands compose, and its table of methods names what is there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from recipes import doctor, look, table
from tests import warm
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SMALL = {"look": look.LookConfig, "doctor": doctor.DoctorConfig, "table": table.TableConfig}


def commands() -> list[str]:
    """Every command that starts a recipe, launchers before it included."""
    quoted = re.findall(r"`([^`\n]*recipes/\w+\.py[^`\n]*)`", README)
    shown = re.findall(r"^ {4}(.*recipes/\w+\.py.*?)(?: +#.*)?$", README, re.MULTILINE)
    return sorted({c for c in quoted + shown if " recipes/" in c})


@pytest.mark.parametrize("command", commands())
def test_a_command_composes(command):
    launcher, recipe, rest = re.fullmatch(r"(.*?)recipes/(\w+)\.py(.*)", command).groups()
    assert (ROOT / "recipes" / f"{recipe}.py").exists()
    assert all((ROOT / word).exists() for word in launcher.split() if word.startswith("launch/"))
    overrides = [word for word in shlex.split(rest) if "=" in word]
    if recipe in SMALL:
        OmegaConf.merge(OmegaConf.structured(SMALL[recipe]), OmegaConf.from_dotlist(overrides))
        return
    if "-m" in shlex.split(rest):
        overrides = [word.split(",")[0] for word in overrides]
    needed = ["recipe.pairs=x"] if recipe == "dpo" and not any("recipe.pairs" in o for o in overrides) else []
    cfg = compose(*overrides, *needed, recipe=recipe)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


def quick() -> list[str]:
    """Those that train nothing and need no run; the first hour's are test_newcomer.py's."""
    return [c for c in commands() if re.search(r"recipes/(plan|check)\.py", c) and "mine.jsonl" not in c]


@pytest.mark.parametrize("command", quick())
def test_a_command_that_ends_within_a_minute_runs(command, tmp_path):
    _, script, *overrides = shlex.split(command)
    done = warm.run([sys.executable, ROOT / script, *overrides], cwd=tmp_path, check=True)
    assert re.search(r"^fits: |problems are sound$", done.stdout, re.MULTILINE), done.stdout


def methods() -> list[list[str]]:
    section = README.split("## Methods", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "`tests/" in line]


@pytest.mark.parametrize("row", methods(), ids=lambda row: row[0])
def test_a_method_is_where_the_table_says(row):
    file, name = re.fullmatch(r"`(\S+)` `(\w+)`", row[2]).groups()
    assert re.search(rf"^ *(?:def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE)
    assert "def test_" in (ROOT / row[3].strip("`")).read_text()
