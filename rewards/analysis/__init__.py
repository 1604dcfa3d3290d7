"""Analysers that channels use: grammars, data flow, coverage, tokens of code, division of tests.

They may import envs; they must not import a channel. Some run inside the sandbox as program text and import no file.
"""
