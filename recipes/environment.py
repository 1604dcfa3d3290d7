"""A task with its episodes as a package for verifiers, which other trainers and evaluations load.

    python recipes/environment.py task=basics episode=repair to=FOLDER
    python recipes/environment.py task=humaneval episode=repair episode.turns=3 to=FOLDER name=my-environment

Takes the overrides of any recipe; what it uses of them are `task`, `sandbox` and `episode`. The package has the task's
prompts, replies and rewards by importing this project, and needs verifiers 0.4 where it is used, not here. `name` is
the package's name; without it, the task's and the episode's.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli import schema
from recipes.cli.arguments import small_command
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose, key_of

OWN = ("to", "name")
"""Keys of this command; the others are a recipe's."""


def read(arguments: Sequence[str]) -> tuple[Any, dict[str, str], str]:
    """The configuration, this command's own keys, and the command. Raises UserError."""
    schema.register()
    own = dict(argument.split("=", 1) for argument in arguments if key_of(argument) in OWN)
    rest = [argument for argument in arguments if key_of(argument) not in OWN]
    if not own.get("to"):
        raise UserError("to=FOLDER is missing: the folder to write")
    command = shlex.join(["python", "recipes/environment.py", *arguments])
    return compose(["recipe=eval", *rest]), own, command


def make(request: tuple[Any, dict[str, str], str]) -> int:
    """Write the package. Raises UserError where the task or the folder does not allow it."""
    from recipes.cli.places import require_writable
    from recipes.cli.schema import as_dict
    from recipes.records.directory import appears_whole
    from recipes.run.build import build_episode, build_task
    from recipes.tools.export.verifiers_package.write import check_name, check_prompts, write_package
    from rewards.build import made

    cfg, own, command = request
    folder = Path(own["to"]).expanduser()
    if folder.exists():
        raise UserError(f"to={own['to']} exists: name another folder, or remove it")
    require_writable(f"to={own['to']}", Path(own["to"]))
    if cfg.episode is None:
        raise UserError("episode=null: an environment of several turns is made; set episode=repair")
    if cfg.task.drop_invalid or cfg.task.pass_rates:
        key = "task.drop_invalid=true" if cfg.task.drop_invalid else f"task.pass_rates={cfg.task.pass_rates}"
        raise UserError(f"{key}: an environment gives all problems of the task; leave it out")
    name = own.get("name") or f"{cfg.task.name}-{cfg.episode.name}".replace("_", "-")
    check_name(name)
    check_prompts(build_task(cfg, "train"), cfg.task.name)
    build_episode(cfg, made(cfg.sandbox))  # raises for settings that it refuses
    settings = {key: as_dict(cfg[key]) for key in ("task", "sandbox", "episode")}
    with appears_whole(folder) as staging:
        write_package(staging, name, settings, command)
    log.info("wrote %s: pip install -e %s", folder, shlex.quote(str(folder)))
    return 0


main = small_command(read, __doc__, make)

if __name__ == "__main__":
    sys.exit(main())
