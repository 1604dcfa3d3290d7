"""Rules that find problems around the policy: timeouts, sandbox starves training, ungraded samples, answers cut."""

from __future__ import annotations

from collections import Counter

from recipes.tools.diagnosis.finding import Finding, length_penalty, lower_learning_rate, present, scaled
from recipes.tools.diagnosis.history import SIGNIFICANT, History
from recipes.tools.diagnosis.learning import MIN_ANSWERS
from recipes.tools.diagnosis.windows import lower_bound, median, percent, steps_text, values

TIMEOUT_SERIOUS, TIMEOUT_WARNING = 0.3, 0.1
"""Share of graded answers stopped by a limit. One in a few hundred is usual; at a third the policy learns from the
limits, not from the tests."""
GRADING_SERIOUS, GRADING_WARNING = 0.5, 0.3
"""Share of a step spent in grading. A sandbox with enough workers takes 1 to 5 %; at a half the accelerator mostly
waits."""
UNGRADED_SERIOUS, UNGRADED_WARNING = 0.03, 0.01
"""Share of samples without a grade, which leave the batch. A few do no harm; more are a fault of the infrastructure,
and it affects slow answers first, which biases what is learned."""
MIN_SAMPLES = 100
"""Samples before that share is judged."""
CUT_SERIOUS, CUT_WARNING = 0.5, 0.25
"""Share of answers cut by the length limit. A base model starts near 0.4 and comes down within ten steps."""


def timeouts(run: History) -> Finding | None:
    """Many answers are stopped by a limit of wall-clock time, processor time or memory."""
    late = run.late_answers
    verdicts = Counter(a.verdict for a in late)
    stopped = verdicts["timeout"] + verdicts["killed"]
    share = lower_bound(stopped, len(late))
    if len(late) < MIN_ANSWERS or share < TIMEOUT_WARNING:
        return None
    more = scaled(run, "sandbox.limits.wall_s", 2, 10)
    if verdicts["killed"] > verdicts["timeout"]:  # by the limit of processor time or of memory, or by its own signal
        more = f"{scaled(run, 'sandbox.limits.cpu_s', 2, 4)}, or {scaled(run, 'sandbox.limits.memory_mib', 2, 1024)}"
    return Finding(
        "timeouts",
        "serious" if share >= TIMEOUT_SERIOUS else "warning",
        evidence=f"{stopped} of the {len(late)} stored answers of {run.late_steps} were stopped "
        f"({verdicts['timeout']} timeout, {verdicts['killed']} killed), {percent(stopped / len(late))}.",
        remedy=f"Look at them (recipes/look.py): where they are right but slow or large, set {more}; where "
        f"they loop, {lower_learning_rate(run)}.",
    )


def starving(run: History) -> Finding | None:
    """Grading takes so long that sampling and the update wait for it."""
    shares, totals = [], []
    for row in run.last:
        phases = [values([row], f"seconds/{phase}") for phase in ("rollout", "grade", "update")]
        mixed = sum(values([row], "seconds/mixed"))  # of recipe.credit=lines
        if all(phases) and (total := sum(seconds for [seconds] in phases) + mixed) > 0:
            shares.append((phases[1][0] + mixed) / total)
            totals.append(total)
    share, seconds = median(shares), median(totals)
    if share is None or seconds is None or share < GRADING_WARNING:
        return None
    if run.setting("sandbox.concurrency") is not None:
        more = scaled(run, "sandbox.concurrency", 2, 64)
    else:
        more = scaled(run, "sandbox.workers", 2, 8) + " up to the number of free cores"
    return Finding(
        "sandbox starves training",
        "serious" if share >= GRADING_SERIOUS else "warning",
        evidence=f"Grading takes {percent(share)} of a step (median over {run.late_steps}, of {seconds:.3g} s), "
        "sampling and the update the rest.",
        remedy=f"Set {more}, or {scaled(run, 'sandbox.limits.cpu_s', 0.5, 2)}.",
    )


def ungraded(run: History) -> Finding | None:
    """Samples that no channel could grade, which is never the program's fault: lately, or over the whole run."""
    for rows, limit, severe in ((run.last, UNGRADED_SERIOUS, True), (run.rows, UNGRADED_WARNING, False)):
        counts = values(rows, "ungraded")
        missing, samples = sum(counts), len(counts) * (run.answers_per_step or 0)
        if samples < MIN_SAMPLES or lower_bound(missing, samples) < limit:
            continue
        if run.setting("sandbox.url") is not None:
            patience = scaled(run, "sandbox.patience_s", 2, 120)
            remedy = f"See run.log for the server's errors; set {patience}, or a lower sandbox.concurrency."
        else:
            one = run.setting("sandbox.workers") == 1  # which cannot be halved
            fewer = "a lower sandbox.limits.memory_mib" if one else scaled(run, "sandbox.workers", 0.5, 1)
            remedy = f"See run.log: it names the channel that could not grade; where memory is short, set {fewer}."
        return Finding(
            "ungraded samples",
            "serious" if severe else "warning",
            evidence=f"{missing:.0f} of {samples:,} samples ({percent(missing / samples)}) of {steps_text(rows)} were "
            "not graded.",
            remedy=remedy,
        )
    return None


def answers_cut(run: History) -> Finding | None:
    """Many answers end at the length limit, and their share does not come down."""
    cut = run.change("truncated")
    if cut is None or cut.after < CUT_WARNING or cut.z <= -SIGNIFICANT:
        return None
    blocks = run.change("format_rate")
    fewer = ""
    if blocks is not None and blocks.rise < 0:
        fewer = f"; complete code blocks went from {percent(blocks.before)} to {percent(blocks.after)}"
    longer = scaled(run, "task.max_new_tokens", 2, 512)
    penalty = length_penalty(run)
    if cut.z >= SIGNIFICANT:
        if run.setting("recipe.name") in ("ppo", "reinforce"):
            penalty = f"recipe.trl.missing_eos_penalty=1 {present(run, 'recipe.trl.missing_eos_penalty')}"
        remedy = f"The policy unlearns to stop: set {penalty} or {lower_learning_rate(run)}."
    else:
        remedy = f"Set {longer}, or reward shorter answers with {penalty}."
    return Finding(
        "answers cut",
        "serious" if cut.after >= CUT_SERIOUS else "warning",
        evidence=f"{percent(cut.after)} of the answers over {run.late_steps} are cut at the length limit, "
        f"{percent(cut.before)} over {run.early_steps}{fewer}.",
        remedy=remedy,
    )


RULES = (timeouts, starving, answers_cut)
"""What needs a trend; `ungraded` does not."""
