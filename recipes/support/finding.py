"""What the diagnosis says of a run, and how remedies name a configuration key with its present value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recipes.support.charts import finite
from recipes.support.history import Answer, History

Severity = Literal["serious", "warning", "note"]
RANK: dict[Severity, int] = {"serious": 0, "warning": 1, "note": 2}


@dataclass(frozen=True)
class Finding:
    """
    name: the disease. severity: "serious" where training fails or its result is not what it seems, "warning" where it
    wastes or may come to that, "note" otherwise. evidence: one sentence with numbers and steps. remedy: what to change,
    by configuration key. samples: answers to look at.
    """

    name: str
    severity: Severity
    evidence: str
    remedy: str
    samples: tuple[Answer, ...] = ()


def times(h: History, key: str, factor: float, otherwise: float) -> str:
    """`recipe.learning_rate=0.0001 (now 0.0003)`: a setting times `factor`, or `otherwise` where it is 0 or unset."""
    now = h.setting(key)
    if not finite(now) or now == 0:
        return f"{key}={otherwise:g}" + (" (now 0)" if now == 0 else "")
    new = round(now * factor) if isinstance(now, int) else float(f"{now * factor:.2g}")
    return f"{key}={new:g} (now {now:g})"


def now(h: History, key: str) -> str:
    """`(now 0.5)`, or `(now null)`."""
    value = h.setting(key)
    return f"(now {'null' if value is None else value})"


def slower(h: History) -> str:
    """A third of the learning rate: half of it often collapses too, only later."""
    return times(h, "recipe.learning_rate", 1 / 3, 1e-4)


def leash(h: History) -> str:
    """More of the KL penalty, under the name that the recipe gives it."""
    if h.setting("recipe.beta") is not None:
        return times(h, "recipe.beta", 3, 0.04)
    return times(h, "recipe.kl.coef", 3, 0.02)
