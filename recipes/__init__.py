"""The commands that users run, one script each, and below them the folders with the parts of a script.

A folder may import only folders that come later here: run, tools, evaluation, trainers, sampling, models, data,
records, cli; all may import rewards and envs (pyproject.toml, import-linter). Only recipes/ imports TRL.
"""

import sys
from importlib.util import find_spec

if find_spec("hydra") is None or find_spec("torch") is None:  # the system's Python, before .venv is activated
    sys.exit(f"error: {sys.executable} lacks this project's packages: run make install, then source .venv/bin/activate")
