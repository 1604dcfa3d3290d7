"""Commands over a run directory: `key=value` arguments against a dataclass, what is wrong in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.support.console import quiet_libraries
from recipes.support.main import UserError


def small_command(schema: type, about: str, work: Callable[[Any], int]) -> Callable[..., int]:
    """`main(arguments=None) -> status`: 2 for the user's errors, else what `work` answers to the configuration."""

    def main(arguments: Sequence[str] | None = None) -> int:
        given = list(sys.argv[1:] if arguments is None else arguments)
        if not given or {"-h", "--help"} & set(given):
            print(about)
            return 0 if given else 2
        quiet_libraries()
        try:
            return work(OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.from_cli(given)))
        except (UserError, OmegaConfBaseException, OSError, ValueError) as error:
            print("error: " + " ".join(str(error).split("\n")[0].split()), file=sys.stderr)
            return 2

    return main
