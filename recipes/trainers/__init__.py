"""Subclasses of TRL's trainers and their arithmetic: advantages, log-probabilities, losses, optimizer steps, metrics.

May import sampling, models, data, records and cli; must not import run, tools or evaluation. Reads no configuration: a
trainer takes the values that it needs.
"""
