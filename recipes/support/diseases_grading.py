"""What can be wrong around a policy: grading that fails or is slow, programs that do not end, answers that are cut."""

from __future__ import annotations

from collections import Counter

from recipes.support.diseases_learning import ANSWERS_LEAST, blocks
from recipes.support.finding import Finding, now, slower, times
from recipes.support.history import SURE, History, at_least, change, mean, median, percent, span, values

TIMEOUT_SERIOUS, TIMEOUT_WARNING = 0.3, 0.1
"""Share of graded answers stopped by a limit. One in a few hundred is usual; at a third the limits are what is learned
from, not the tests."""
GRADING_SERIOUS, GRADING_WARNING = 0.5, 0.3
"""Share of a step spent in grading. A sandbox with enough workers takes 1 to 5 %; at a half the accelerator mostly
waits."""
UNGRADED_SERIOUS, UNGRADED_WARNING = 0.03, 0.01
"""Share of samples without a grade. They leave the batch, so a few do no harm; more are an infrastructure's fault, and
fall on the slow answers first, which biases what is learned."""
UNGRADED_LEAST = 100
"""Samples before that share is judged."""
CUT_SERIOUS, CUT_WARNING = 0.5, 0.25
"""Share of answers cut by the length limit. A base model starts near 0.4 and comes down within ten steps."""


def timeouts(h: History) -> Finding | None:
    """Many answers are stopped by a limit of time or processor."""
    late = h.late_answers
    verdicts = Counter(a.verdict for a in late)
    stopped = verdicts["timeout"] + verdicts["killed"]
    low = at_least(stopped, len(late))
    if len(late) < ANSWERS_LEAST or low < TIMEOUT_WARNING:
        return None
    said = (
        f"{stopped} of the {len(late)} stored answers of {span(h.last)} were stopped ({verdicts['timeout']} timeout, "
        f"{verdicts['killed']} killed), {percent(stopped / len(late))}."
    )
    key = "wall_s" if verdicts["timeout"] >= verdicts["killed"] else "cpu_s"
    remedy = (
        f"Look at them (recipes/look.py): where they are right but slow, {times(h, f'sandbox.limits.{key}', 2, 10)}; "
        f"where they loop, {slower(h)}."
    )
    return Finding("timeouts", "serious" if low >= TIMEOUT_SERIOUS else "warning", said, remedy)


def starving(h: History) -> Finding | None:
    """Grading takes so long that sampling and update wait for it."""
    shares, seconds = [], []
    for row in h.last:
        spent = [values([row], f"seconds/{phase}") for phase in ("rollout", "grade", "update")]
        if all(spent) and (total := sum(s[0] for s in spent)) > 0:
            shares.append(spent[1][0] / total)
            seconds.append(total)
    share, step = median(shares), median(seconds)
    if share is None or step is None or share < GRADING_WARNING:
        return None
    said = (
        f"Grading takes {percent(share)} of a step (median over {span(h.last)}, of {step:.3g} s), sampling and update "
        "the rest."
    )
    if h.setting("sandbox.concurrency") is not None:
        more = times(h, "sandbox.concurrency", 2, 64)
    else:
        more = times(h, "sandbox.workers", 2, 8) + " up to the number of free cores"
    remedy = f"Set {more}, or {times(h, 'sandbox.limits.cpu_s', 0.5, 2)}."
    return Finding("sandbox starves training", "serious" if share >= GRADING_SERIOUS else "warning", said, remedy)


def ungraded(h: History) -> Finding | None:
    """Samples that no channel could grade, which is never the program's fault."""
    for rows, least, severe in ((h.last, UNGRADED_SERIOUS, True), (h.rows, UNGRADED_WARNING, False)):
        missing, samples = sum(values(rows, "ungraded")), len(values(rows, "ungraded")) * h.samples_per_step
        if samples < UNGRADED_LEAST or at_least(missing, samples) < least:
            continue
        said = f"{missing:.0f} of {samples:,} samples ({percent(missing / samples)}) of {span(rows)} were not graded."
        if h.setting("sandbox.url") is not None:
            longer = times(h, "sandbox.patience_s", 2, 120)
            remedy = f"See run.log for the server's errors; set {longer}, or a lower sandbox.concurrency."
        else:
            remedy = f"See run.log for the reason; {times(h, 'sandbox.workers', 0.5, 1)} where memory is short."
        return Finding("ungraded samples", "serious" if severe else "warning", said, remedy)
    return None


def answers_cut(h: History) -> Finding | None:
    """Answers that end at the length limit, not by themselves."""
    late = values(h.last, "truncated")
    if len(late) < 5 or mean(late) < CUT_WARNING:
        return None
    before = values(h.first, "truncated")
    cut = change(before, late)
    if cut is not None and cut.z <= -SURE:  # still coming down
        return None
    said = (
        f"{percent(mean(late))} of the answers over {span(h.last)} are cut at the length limit, "
        f"{percent(mean(before))} over {span(h.first)}"
    )
    whole = change(blocks(h, h.first), blocks(h, h.last))
    if whole is not None and whole.rise < 0:
        said += f"; complete code blocks went from {percent(whole.before)} to {percent(whole.after)}"
    longer = times(h, "task.max_new_tokens", 2, 512)
    if cut is not None and cut.z >= SURE:
        end = "task.reward.form.length_alpha=0.02"
        if h.setting("recipe.name") in ("ppo", "reinforce"):
            end = f"recipe.missing_eos_penalty=1 {now(h, 'recipe.missing_eos_penalty')}"
        remedy = f"The policy unlearns to stop: set {end}, or {slower(h)}; {longer} only if answers need it."
    else:
        remedy = f"Set {longer}, or ask for shorter answers with task.reward.form.length_alpha=0.02."
    return Finding("answers cut", "serious" if mean(late) >= CUT_SERIOUS else "warning", said + ".", remedy)


RULES = (timeouts, starving, ungraded, answers_cut)
