"""Tasks and worlds: data, prompts, code extraction, running code. Nothing here knows a trainer or a weight."""
