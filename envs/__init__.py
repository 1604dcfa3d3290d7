"""Tasks: data, prompts, extraction of code, and the sandbox and simulators that run code.

Modules here may import each other without cycles; they must not import rewards or recipes.
"""
