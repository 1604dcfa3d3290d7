"""One finding of the diagnosis, and the settings that remedies advise, each with its present value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recipes.records.jsonl import finite
from recipes.tools.diagnosis.history import Answer, History

Severity = Literal["serious", "warning", "note"]
RANK: dict[Severity, int] = {"serious": 0, "warning": 1, "note": 2}
KL_SETTING = {
    "grpo": ("recipe.trl.beta", 0.04),
    "dpo": ("recipe.trl.beta", 0.1),
    "ppo": ("recipe.trl.kl_coef", 0.02),
    "reinforce": ("recipe.trl.kl_coef", 0.02),
}
"""Each recipe's weight of the KL penalty, and a usual value; SFT has none."""


@dataclass(frozen=True)
class Finding:
    """
    name: the disease. severity: "serious" where training fails or its result misleads, "warning" where it wastes time
    or may come to fail, "note" otherwise. evidence: one sentence with numbers and steps. remedy: what to change, by
    configuration key. samples: answers to look at.
    """

    name: str
    severity: Severity
    evidence: str
    remedy: str
    samples: tuple[Answer, ...] = ()


def scaled(run: History, key: str, factor: float, otherwise: float) -> str:
    """`task.max_new_tokens=512 (now 256)`: a setting times `factor`, or `otherwise` where it is 0 or unset."""
    value = run.setting(key)
    if not finite(value) or value == 0:
        return f"{key}={otherwise:g}" + (" (now 0)" if value == 0 else "")
    new = round(value * factor) if isinstance(value, int) else float(f"{value * factor:.2g}")
    return f"{key}={new:g} (now {value:g})"


def present(run: History, key: str) -> str:
    """A setting's present value: `(now 0.5)`, or `(now null)`."""
    value = run.setting(key)
    return f"(now {'null' if value is None else value})"


def length_penalty(run: History) -> str:
    """A penalty for long answers: of the channel that pays for form, or of one that is added."""
    if run.form_channel:
        key = f"task.reward.{run.form_channel}.length_alpha"
        return f"{key}=0.02 {present(run, key)}"
    return "'+task.reward.length={_target_:rewards.form.Form,block:0,length_alpha:0.02,weight:1}'"


def lower_learning_rate(run: History) -> str:
    """A third of the learning rate: half of it often collapses too, only later."""
    return scaled(run, "recipe.trl.learning_rate", 1 / 3, 1e-4)


def stronger_kl(run: History) -> str:
    """Three times the KL penalty, or another estimator where its reward does not hold the policy (`kl_per_token`); a
    lower learning rate where the recipe has no such penalty."""
    if (name := run.setting("recipe.name")) not in KL_SETTING:
        return lower_learning_rate(run)
    if run.setting("recipe.trl.kl_estimator") == "k3" and run.setting("recipe.trl.kl_coef"):
        return f"recipe.trl.kl_estimator=k1 {present(run, 'recipe.trl.kl_estimator')}"
    key, usual = KL_SETTING[name]
    return scaled(run, key, 3, usual)


def smaller_updates(run: History) -> str:
    """The two settings that keep the policy near where it is: a lower learning rate, or a stronger KL penalty."""
    return " or ".join(dict.fromkeys((lower_learning_rate(run), stronger_kl(run))))
