"""Tasks and worlds: data, prompts, code extraction, graders' needs, running code. Nothing here knows a reward weight."""
