"""What is wrong with a training run, from its records: findings, worst first, or the numbers that show its health."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from recipes.support import diseases_grading, diseases_hacking, diseases_held_out, diseases_learning
from recipes.support.finding import RANK, Finding
from recipes.support.history import STEPS_LEAST, History, brief, mean, percent, span, values

AT_ONCE = (diseases_learning.not_finite, diseases_grading.ungraded, diseases_hacking.gaming)
"""What needs no trend, and so no number of steps; the last has a sequential test of its own."""
TREND = (*diseases_learning.RULES[1:], *diseases_held_out.RULES, *diseases_grading.RULES)
SYMPTOMS: dict[str, Collection[str]] = {
    "loss not finite": (
        "loss exploding",
        "collapse",
        "reward falling",
        "reward flat at 0",
        "format falling",
        "answers cut",
        "degenerate groups",
        "entropy collapse",
        "KL running away",
        "held-out pass@1 fell",
    ),
    "collapse": ("reward falling", "reward flat at 0", "entropy collapse", "degenerate groups", "held-out pass@1 fell"),
    "reward flat at 0": ("entropy collapse", "degenerate groups", "critic does not settle"),
    "reward flat at 1": ("entropy collapse", "degenerate groups", "critic does not settle"),
    "reward falling": ("held-out pass@1 fell",),
    "format falling": ("reward falling", "held-out pass@1 fell"),
    "answers cut": ("reward falling", "held-out pass@1 fell"),
    "tests gamed": ("reward hacking", "held-out pass@1 fell"),
    "reward hacking": ("held-out pass@1 fell",),
}
"""What follows from a serious finding of that name and is not said beside it."""

Status = Literal["serious", "warning", "healthy", "too short"]


@dataclass(frozen=True)
class Diagnosis:
    """findings: worst first. signs: what the numbers say of a run's progress, one phrase each. steps: how many."""

    findings: tuple[Finding, ...]
    signs: tuple[str, ...]
    steps: int

    @property
    def status(self) -> Status:
        grades = {finding.severity for finding in self.findings}
        if "serious" in grades:
            return "serious"
        if self.steps < STEPS_LEAST:
            return "too short"
        return "warning" if "warning" in grades else "healthy"

    @property
    def lines(self) -> list[str]:
        """One line a finding, or one that says how the run is."""
        said = [f"{f.severity}: {f.name}: {f.evidence} {f.remedy}" for f in self.findings]
        return said or [self.headline]

    @property
    def headline(self) -> str:
        """One line: how the run is."""
        grave = sum(finding.severity == "serious" for finding in self.findings)
        mild = sum(finding.severity == "warning" for finding in self.findings)
        counted = ((grave, "serious finding"), (mild, "warning"))
        counts = [f"{number} {what}{'s' * (number != 1)}" for number, what in counted if number]
        said = {
            "serious": f"Something is wrong: {' and '.join(counts)}",
            "warning": f"Nothing serious, {' and '.join(counts)}",
            "healthy": "Healthy",
            "too short": "Too short to tell",
        }[self.status]
        return f"{said}. {_sentence(self.signs) if self.status in ('healthy', 'warning') else ''}".rstrip()


def _sentence(signs: Collection[str]) -> str:
    joined = "; ".join(signs)
    return joined[:1].upper() + joined[1:] + "." if joined else ""


def diagnose(h: History) -> Diagnosis:
    """All findings of a run."""
    rules = AT_ONCE if len(h.rows) < STEPS_LEAST else (*AT_ONCE, *TREND)
    found = {finding.name: finding for rule in rules if (finding := rule(h))}
    for name, follow in SYMPTOMS.items():
        if name in found and found[name].severity == "serious":
            found = {other: finding for other, finding in found.items() if other not in follow}
    ordered = sorted(found.values(), key=lambda finding: RANK[finding.severity])
    if len(h.rows) < STEPS_LEAST:
        steps = f"{len(h.rows)} step{'s' * (len(h.rows) != 1)}" if h.rows else "No step"
        said = f"{steps} recorded; trends are judged from {STEPS_LEAST} on."
        ordered.append(
            Finding(
                "too short to tell", "note", said, f"Repeat the command with recipe.max_steps={STEPS_LEAST} or more."
            )
        )
    return Diagnosis(tuple(ordered), tuple(signs(h)), len(h.rows))


def signs(h: History) -> list[str]:
    """Up to three phrases on progress: reward, held-out pass@1 (else the pass rate in training), code blocks."""
    if len(h.rows) < STEPS_LEAST:
        return []
    out = []
    reward, passes = h.change("reward"), h.change("pass_rate")
    if reward is not None:
        sure = "" if abs(reward.z) >= 2 else f", no change beside its standard error of {brief(reward.error)}"
        out.append(f"reward {brief(reward.before)} ({span(h.first)}) to {brief(reward.after)} ({span(h.last)}){sure}")
    if gains := diseases_held_out.gains(h):
        gain = gains[0]
        out.append(f"held-out pass@1 {percent(gain.before)} to {percent(gain.after)} ({gain.label})")
    elif passes is not None:
        out.append(f"pass rate {percent(passes.before)} to {percent(passes.after)}")
    form = any(diseases_learning.is_form(channel) for channel in h.channels.values())
    blocks, cut = diseases_learning.blocks(h, h.last), values(h.last, "truncated")
    if form and blocks:
        out.append(f"{percent(mean(blocks))} of the late answers have a code block")
    elif cut:
        out.append(f"{percent(mean(cut))} of the late answers are cut at the length limit")
    return out
