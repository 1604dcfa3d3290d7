"""Builds and runs source code in the sandbox, and compares what a run writes with a reference run.

It may import envs.sandbox, envs.task, envs.bleu and envs.etk.languages; it must not import envs.etk.completion.
"""
