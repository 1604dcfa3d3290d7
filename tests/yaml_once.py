"""Each text of YAML is parsed once in a process: tests compose over a thousand configurations of the same forty files,
and parsing took a fifth of that time."""

from __future__ import annotations

import functools
import io
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader


@functools.cache
def _parsed(text: str) -> Any:
    return yaml.load(text, Loader=get_yaml_loader())


def parse_each_text_once() -> None:
    """Let OmegaConf.load keep what it has parsed. OmegaConf copies it into nodes of its own and leaves it as it is."""
    plain = OmegaConf.load

    def load(file: Any) -> Any:
        if not isinstance(file, io.TextIOBase):
            return plain(file)
        text = file.read()
        value = _parsed(text)
        return OmegaConf.create(value) if isinstance(value, dict | list) else plain(io.StringIO(text))

    OmegaConf.load = staticmethod(load)
