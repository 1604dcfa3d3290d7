"""A language model that judges code against its reference, and the measurement of how reliable the judge is.

It may import envs and the rest of rewards; it must not import recipes. Run as `python -m rewards.judge calibrate`.
"""

from rewards.judge.model import Judge

__all__ = ["Judge"]
