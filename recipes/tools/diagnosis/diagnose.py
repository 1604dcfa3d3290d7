"""What is wrong with a training run, from its records: findings, worst first, or the numbers that show its health."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from recipes.tools.diagnosis import grading, hacking, held_out, learning, turns
from recipes.tools.diagnosis.finding import RANK, Finding
from recipes.tools.diagnosis.history import MIN_STEPS, History
from recipes.tools.diagnosis.windows import mean, percent, three_digits, values

AT_ONCE = (learning.not_finite, grading.ungraded, hacking.gaming)
"""Rules that apply from the first step on: they judge no trend, and the alarm of the last one is a sequential test."""
TRENDS = (*learning.RULES, *turns.RULES, *held_out.RULES, *grading.RULES)
"""Rules that apply from MIN_STEPS on."""
CONSEQUENCES: dict[str, Collection[str]] = {
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
        "best answer no better",
    ),
    "collapse": (
        "reward falling",
        "reward flat at 0",
        "entropy collapse",
        "degenerate groups",
        "held-out pass@1 fell",
        "best answer no better",
    ),
    "entropy collapse": ("best answer no better",),
    "held-out pass@1 fell": ("best answer no better",),
    "reward flat at 0": ("entropy collapse", "degenerate groups", "critic does not settle"),
    "reward flat at 1": ("entropy collapse", "degenerate groups", "critic does not settle"),
    "reward falling": ("held-out pass@1 fell", "best answer no better"),
    "format falling": ("reward falling", "held-out pass@1 fell", "best answer no better"),
    "answers cut": ("reward falling", "held-out pass@1 fell", "best answer no better"),
    "tests gamed": ("reward hacking", "held-out pass@1 fell", "best answer no better"),
    "reward hacking": ("held-out pass@1 fell", "best answer no better"),
}
"""Findings that follow from a serious one, by its name, and are left out beside it."""

Status = Literal["serious", "warning", "healthy", "too short"]


@dataclass(frozen=True)
class Diagnosis:
    """findings: worst first. signs: phrases on the run's progress. steps: how many the trends are judged by."""

    findings: tuple[Finding, ...]
    signs: tuple[str, ...]
    steps: int

    @property
    def status(self) -> Status:
        severities = {finding.severity for finding in self.findings}
        if "serious" in severities:
            return "serious"
        if self.steps < MIN_STEPS:
            return "too short"
        return "warning" if "warning" in severities else "healthy"

    @property
    def lines(self) -> list[str]:
        """One line a finding, or the headline."""
        return [f"{f.severity}: {f.name}: {f.evidence} {f.remedy}" for f in self.findings] or [self.headline]

    @property
    def headline(self) -> str:
        """The run's state in one line."""
        severities = [finding.severity for finding in self.findings]
        counted = ((severities.count("serious"), "serious finding"), (severities.count("warning"), "warning"))
        counts = " and ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counted if count)
        state = {
            "serious": f"Something is wrong: {counts}",
            "warning": f"Nothing serious, {counts}",
            "healthy": "Healthy",
            "too short": "Too short to tell",
        }[self.status]
        signs = "; ".join(self.signs) if self.status in ("healthy", "warning") else ""
        return f"{state}. {signs[:1].upper()}{signs[1:]}." if signs else f"{state}."


def diagnose(run: History) -> Diagnosis:
    """All findings of a run."""
    short = len(run.judged) < MIN_STEPS
    rules = AT_ONCE if short else (*AT_ONCE, *TRENDS)
    findings = {finding.name: finding for rule in rules if (finding := rule(run))}
    for name, following in CONSEQUENCES.items():
        if name in findings and findings[name].severity == "serious":
            findings = {other: finding for other, finding in findings.items() if other not in following}
    if short:
        steps = f"{len(run.judged)} step{'s' * (len(run.judged) != 1)}" if run.rows else "No step"
        uses = run.setting("recipe.trl.num_iterations") or 1  # steps that share a rollout
        steps += " with a rollout" if len(run.judged) < len(run.rows) else ""
        findings["too short to tell"] = Finding(
            "too short to tell",
            "note",
            evidence=f"{steps} recorded; trends are judged from {MIN_STEPS} on.",
            remedy=f"Repeat the command with recipe.trl.max_steps={MIN_STEPS * uses} or more.",
        )
    ordered = sorted(findings.values(), key=lambda finding: RANK[finding.severity])
    return Diagnosis(tuple(ordered), tuple(signs(run)), len(run.judged))


def signs(run: History) -> list[str]:
    """Up to three phrases on progress: reward, held-out pass@1 (else the pass rate in training), code blocks."""
    if len(run.judged) < MIN_STEPS:
        return []
    phrases = []
    reward, passes = run.change("reward"), run.change("pass_rate")
    if reward is not None:
        small = "" if abs(reward.z) >= 2 else f", a change below two standard errors ({three_digits(reward.error)})"
        phrases.append(f"reward {run.text(reward)}{small}")
    if own := [gain for gain in held_out.gains(run) if gain.own]:
        measured = [f"{percent(gain.before)} to {percent(gain.after)} ({gain.label})" for gain in own]
        phrases.append(f"held-out pass@1 {' and '.join(measured)}")
    elif passes is not None:
        phrases.append(f"pass rate {percent(passes.before)} to {percent(passes.after)}")
    blocks, cut = values(run.last, "format_rate"), values(run.last, "truncated")
    if run.form_channel and blocks:
        phrases.append(f"{percent(mean(blocks))} of the late answers have a code block")
    elif cut:
        phrases.append(f"{percent(mean(cut))} of the late answers are cut at the length limit")
    return phrases
