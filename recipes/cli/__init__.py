"""What a command is made of before it does anything: its configuration, processes, messages, stopping, memory in use.

The lowest room of recipes/: imports none of the others, and torch only where that cannot be avoided.
"""
