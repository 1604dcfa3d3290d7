"""The commands that users run, one script each, and below them rooms that a script is made of.

A room may import rooms below it only: run, tools, evaluation, trainers, sampling, models, data, records, cli; all may
import rewards and envs (pyproject.toml, import-linter). recipes/ is the only place that imports TRL.
"""
