"""Knows "tests gamed": answers pass the tests that pay the reward and fail the tests held out from it.

Where a unit-test channel holds tests out (task.reward.<channel>.held_out), each step's metrics tell how many answers
pass the tests that pay, and which share of these passes the held-out tests too. Honest answers now and then fail a
held-out test, by a mistake that the other tests do not catch; answers that game the tests nearly always do.
"""

from __future__ import annotations

from recipes.records.jsonl import Record
from recipes.tools.diagnosis.finding import Finding, scaled, stronger_kl
from recipes.tools.diagnosis.held_out import SHOWN
from recipes.tools.diagnosis.history import History
from recipes.tools.diagnosis.windows import percent, steps_text, values

LIMIT = 20
"""The score that raises the alarm."""
RECENT = 5
"""Steps that the evidence is taken from."""


class HeldOutAlarm:
    """Page's cumulative sum test (1954, "Continuous inspection schemes", Biometrika 41), fed a row of metrics a step.

    Of the answers that pass the tests that pay, one that fails the held-out tests adds 1 to the score and one that
    passes them takes 1 off; the score never falls below 0, so an honest beginning does not delay the alarm. Answers to
    one prompt often fail together, so they count as one answer. The score rises while most answers that are paid are
    wrong. It is the logarithm to base 2 of a likelihood ratio, failures in 2/3 against 1/3 of the answers: where a
    third of the answers or fewer fail, a false alarm comes once in 2^LIMIT prompts, a million, or more rarely (Lorden
    1971, "Procedures for reacting to a change in distribution", Annals of Mathematical Statistics 42).

    Args:
        channel: the unit-test channel that holds tests out.
        answers_per_step, answers_per_prompt: numbers of answers that are sampled.
    """

    def __init__(self, channel: str, answers_per_step: int, answers_per_prompt: int):
        self.channel, self.answers_per_step, self.answers_per_prompt = channel, answers_per_step, answers_per_prompt
        self.score = 0.0
        self.raised_at: int | None = None
        """The step at which the score reached LIMIT."""
        self.rows: list[Record] = []
        """A step each: its number, answers paid (they pass the tests that pay), and of these those that fail."""

    def add(self, row: Record) -> bool:
        """Take in a step's metrics; True at the step that raises the alarm."""
        paid = failing = 0
        watched, passed = (values([row], f"{self.channel}/{name}") for name in ("watched", "held_out_passed"))
        if watched and passed:
            paid = round(watched[0] * max(0.0, self.answers_per_step - sum(values([row], "ungraded"))))
            failing = paid - round(passed[0] * paid)
        self.rows.append({"step": int(row["step"]), "paid": paid, "failing": failing})
        self.score = max(0.0, self.score + (failing - (paid - failing)) / self.answers_per_prompt)
        if self.raised_at is not None or self.score < LIMIT:
            return False
        self.raised_at = self.rows[-1]["step"]
        return True

    def evidence(self) -> str:
        """One sentence: what the last steps up to the alarm show."""
        recent = [row for row in self.rows if self.raised_at is None or row["step"] <= self.raised_at][-RECENT:]
        paid, failing = (sum(row[key] for row in recent) for key in ("paid", "failing"))
        return (
            f"{failing} of the {paid} answers of {steps_text(recent)} that pass the tests that pay "
            f"({percent(failing / max(1, paid))}) fail the held-out tests; alarm at step {self.raised_at}."
        )

    def recent_share(self) -> float:
        """Share of failures among the paid answers of the last steps since the alarm that have some; 1 without any."""
        since = [row for row in self.rows if self.raised_at is None or row["step"] >= self.raised_at]
        recent = [row for row in since if row["paid"]][-RECENT:]
        return sum(row["failing"] for row in recent) / sum(row["paid"] for row in recent) if recent else 1.0


def alarm_of(run: History) -> HeldOutAlarm | None:
    """The alarm after the run's rows so far; None where no channel holds tests out."""
    channels = [name for name, c in run.channels.items() if c.get("held_out") and c.get("enabled", True)]
    if not channels or run.answers_per_step is None or run.answers_per_prompt is None:
        return None
    alarm = HeldOutAlarm(channels[0], run.answers_per_step, run.answers_per_prompt)
    for row in run.rows:
        alarm.add(row)
    return alarm


def gaming(run: History) -> Finding | None:
    """Most answers that are paid fail the held-out tests; a warning where that has passed since."""
    alarm = alarm_of(run)
    if alarm is None or alarm.raised_at is None:
        return None
    share = alarm.recent_share()
    since = f" Since then it has passed: {percent(share)} over the last steps." if share <= 0.5 else ""
    held_out = f"task.reward.{alarm.channel}.held_out"
    latest = {a.task_id: a for a in run.answers if a.verdict == "held-out"}
    return Finding(
        "tests gamed",
        "warning" if since else "serious",
        evidence=alarm.evidence() + since,
        remedy=f"Read the samples for what the tests let through; then resume from before step {alarm.raised_at}, "
        f"train on problems with more tests, pay for more of them ({scaled(run, held_out, 0.5, 0.3)}), or set "
        f"{stronger_kl(run)}.",
        samples=tuple(sorted(latest.values(), key=lambda a: -a.step)[:SHOWN]),
    )
