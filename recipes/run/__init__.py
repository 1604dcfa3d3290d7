"""The stages of a run around its trainer: check settings, build the parts, evaluate, train, report; replay of a run.

May import every room of recipes/; no room imports it, the scripts do.
"""
