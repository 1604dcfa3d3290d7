"""The commands that users run, one script each, and below them the folders with the parts of a script.

A folder may import only folders that come later here: run, tools, evaluation, trainers, sampling, models, data,
records, cli; all may import rewards and envs (pyproject.toml, import-linter). Only recipes/ imports TRL.
"""
