"""Commands that take `key=value` arguments and start no run; what is wrong is said in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from recipes.support.console import quiet_libraries
from recipes.support.main import UserError


def keys_of(schema: type) -> Callable[[Sequence[str]], Any]:
    """A reader of the arguments that are keys of a dataclass."""

    def read(given: Sequence[str]) -> Any:
        for argument in given:
            if "=" not in argument:
                keys = ", ".join(field.name for field in fields(schema))
                raise UserError(f"{argument!r} is no key=value; keys: {keys}")
        return OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.from_cli(list(given)))

    return read


def small_command(read: Callable[[Sequence[str]], Any], about: str, work: Callable[[Any], int]) -> Callable[..., int]:
    """`main(arguments=None) -> status`: 2 for the user's errors, else what `work` answers to what `read` has read."""

    def main(arguments: Sequence[str] | None = None) -> int:
        given = list(sys.argv[1:] if arguments is None else arguments)
        if not given or {"-h", "--help"} & set(given):
            print(about)
            return 0 if given else 2
        quiet_libraries()
        try:
            return work(read(given))
        except (UserError, OmegaConfBaseException, OSError, ValueError) as error:
            print("error: " + " ".join(str(error).split("\n")[0].split()), file=sys.stderr)
            return 2

    return main
