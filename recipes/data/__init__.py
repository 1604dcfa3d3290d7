"""Between tasks and trainers: prompts and demonstrations as TRL takes them, their order, completions with offsets.

May import records and cli; loads no model.
"""
