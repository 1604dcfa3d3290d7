"""Commands that take `key=value` arguments and start no run; an error is one line."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from recipes.cli.console import quiet_libraries
from recipes.cli.errors import UserError


def keys_of(schema: type) -> Callable[[Sequence[str]], Any]:
    """A function that reads arguments KEY=VALUE into a dataclass; it raises UserError for another argument.

    Values are YAML, but those of fields that are texts stand letter by letter (1e-4 stays 1e-4); null is None there.
    """

    keys = [field.name for field in fields(schema)]
    texts = {name for name, kind in get_type_hints(schema).items() if kind in (str, str | None)}

    def read(arguments: Sequence[str]) -> Any:
        for argument in arguments:
            key, equals, _ = argument.partition("=")
            if not equals and "run" in keys and Path(argument).exists():
                raise UserError(f"{argument!r} is not KEY=VALUE; did you mean run={argument}?")
            if not equals:
                raise UserError(f"{argument!r} is not KEY=VALUE; keys: {', '.join(keys)}")
            if key.partition(".")[0] not in keys:
                close = difflib.get_close_matches(key, keys, 2)
                meant = f"; did you mean {' or '.join(close)}?" if close else f"; keys: {', '.join(keys)}"
                raise UserError(f"there is no {key}{meant}")
        pairs = [(argument, *argument.partition("=")[::2]) for argument in arguments]
        cfg = values_of([argument for argument, key, _ in pairs if key not in texts])
        for key, text in ((key, text) for _, key, text in pairs if key in texts):
            cfg[key] = None if text == "null" else text
        return OmegaConf.merge(OmegaConf.structured(schema), cfg)

    return read


def values_of(arguments: Sequence[str]) -> DictConfig:
    """Arguments KEY=VALUE with YAML values. Raises UserError for a value that is none."""
    cfg: Any = OmegaConf.create()
    for argument in arguments:
        try:
            cfg = OmegaConf.merge(cfg, OmegaConf.from_dotlist([argument]))
        except YAMLError:
            quoted = argument.replace("=", '="', 1)
            raise UserError(f"{argument}: its value is no YAML; a text stands in quotes: '{quoted}\"'") from None
    return cfg


def small_command(read: Callable[[Sequence[str]], Any], about: str, work: Callable[[Any], int]) -> Callable[..., int]:
    """A `main(arguments=None)` that returns the exit status of `work(read(arguments))`, 2 for an error of the user, 130
    where Ctrl-C ended it.

    Without arguments, and with --help, it prints `about`.
    """

    def main(arguments: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if arguments is None else arguments)
        if not arguments or {"-h", "--help"} & set(arguments):
            print(about)
            return 0 if arguments else 2
        quiet_libraries()
        try:
            return work(read(arguments))
        except (UserError, OmegaConfBaseException, OSError, ValueError) as error:
            print("error: " + " ".join(str(error).split("\n")[0].split()), file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return 130

    return main
