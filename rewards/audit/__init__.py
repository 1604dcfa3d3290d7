"""What useless answers earn of a task's reward, beside honest wrong answers and references: `python -m rewards.audit`.

It may import envs and the rest of rewards; it must not import recipes.
"""
