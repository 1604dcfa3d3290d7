"""A folder of weights as one GGUF file, by llama.cpp's own converter where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from recipes.cli.errors import UserError

CONVERTER = "convert_hf_to_gguf.py"
OUT_TYPES = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}


def converter() -> Path:
    """llama.cpp's script: in the folder that LLAMA_CPP names, or on PATH. Raises UserError where it is in neither."""
    places = [Path(os.environ["LLAMA_CPP"]) / CONVERTER] if os.environ.get("LLAMA_CPP") else []
    if on_path := shutil.which(CONVERTER):
        places.append(Path(on_path))
    for place in places:
        if place.is_file():
            return place
    raise UserError(
        f"format=gguf needs llama.cpp's {CONVERTER}, which is not installed: clone llama.cpp, set LLAMA_CPP to its "
        "folder and install its requirements (sentencepiece), or leave format=safetensors"
    )


def write_gguf(script: Path, folder: Path, dtype: str) -> Path:
    """Convert the weights in `folder` to a file beside them. Raises UserError where the converter fails."""
    file = folder / f"{folder.name}-{dtype}.gguf"
    command = [sys.executable, str(script), str(folder), "--outfile", str(file), "--outtype", OUT_TYPES[dtype]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not file.exists():
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise UserError(
            f"format=gguf: {CONVERTER} failed: {lines[-1] if lines else 'no message'}; "
            f"the weights in {folder} are whole"
        )
    return file
