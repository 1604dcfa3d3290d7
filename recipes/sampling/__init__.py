"""Drawing completions from a policy, a copy of it or a vLLM server, and grading them while others are sampled.

May import models, data, records and cli; must not import trainers, and knows no loss.
"""
