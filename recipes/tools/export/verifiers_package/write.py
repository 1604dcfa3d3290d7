"""Writes the package: a taskset, an environment and a harness for verifiers, with this project's rewards and replies.

Made for verifiers 0.4, whose loader takes classes from a module's `__all__`. The package does not contain the project:
it imports it, from the folder that it was made in or, made by an installed wheel, from that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from envs.task import Task
from recipes.cli.errors import UserError
from recipes.records.directory import write_text

MODULE = Path(__file__).parent / "environment.py"
ROOT = Path(__file__).parents[4]
VERIFIERS = ">=0.4,<0.5"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def check_name(name: str) -> None:
    """Raise UserError unless `name` can name a package."""
    if not NAME.fullmatch(name):
        raise UserError(f"name={name}: a package's name has small letters, digits and single hyphens, as basics-repair")


def check_prompts(task: Task, name: str) -> None:
    """Raise UserError for a task whose prompts a chat endpoint cannot be asked."""
    prompt = task.messages(task.problems("train")[0])
    if isinstance(prompt, str) or prompt[-1]["role"] != "user":
        raise UserError(
            f"task={name}: its prompts begin the answer themselves, which a chat endpoint does not continue; choose a "
            "task whose prompts end with the user's message, such as basics"
        )


def write_package(folder: Path, name: str, settings: dict[str, Any], command: str) -> None:
    """Write the package to an empty folder.

    Args:
        name: the package's name, with hyphens; its module has underscores.
        settings: `task`, `sandbox` and `episode` of a composed configuration.
        command: what was typed, for README.md.
    """
    wheel = not __name__.startswith("recipes.")
    facts = {
        "name": name,
        "module": name.replace("-", "_"),
        "task": settings["task"]["name"],
        "turns": settings["episode"]["turns"],
        "project": "" if wheel else str(ROOT),
        "verifiers": VERIFIERS,
        "command": command,
    }
    templates = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    module = folder / facts["module"]
    module.mkdir()
    for file, template in (
        (folder / "pyproject.toml", "pyproject.toml.j2"),
        (folder / "README.md", "README.md.j2"),
        (module / "__init__.py", "init.py.j2"),
    ):
        write_text(file, templates.get_template(template).render(facts))
    write_text(module / "environment.py", MODULE.read_text(encoding="utf-8"))
    write_text(module / "settings.json", json.dumps(settings, indent=1) + "\n")
