"""Rewards that rise without the skill: training against held-out problems.

A reward that rises while held-out problems are solved no better is what reward hacking looks like from outside (Amodei
et al. 2016, arXiv 1606.06565, section 4); it is also what memorising looks like, hence the samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

from recipes.support.charts import Record, finite
from recipes.support.finding import Finding, leash, slower
from recipes.support.history import ONE_SIDED, SOLVED, SURE, Answer, History, brief, mean, percent, span

FOLLOWS = 0.5
"""Share of the rise that held-out pass@1 could at best have followed by (95 %), below which it does not follow."""
FELL = 2.58
"""Standard errors of a fall of held-out pass@1 (99 %, since a run has several evaluations)."""
PASSES_FELL = 0.05
"""Fall of the training pass rate, under a rising reward, that no choice of problems explains."""
PROBLEMS_LEAST = 20
"""Held-out problems below which an interval is wider than any gain."""
SHOWN = 3


class Gain(NamedTuple):
    """pass@1 of one evaluation before and at its latest; `error` is the gain's standard error."""

    label: str
    sampled: bool
    before: float
    after: float
    error: float
    at: int

    @property
    def points(self) -> float:
        return self.after - self.before


def gains(h: History) -> list[Gain]:
    """Each evaluation of the run's own task that was made before and again, sampled ones first."""
    found: dict[tuple, dict[str, Record]] = defaultdict(dict)
    for row in h.evals:
        if row.get("task") == h.setting("task.name") and (row.get("problems") or 0) >= PROBLEMS_LEAST:
            place = "before" if row.get("when") == "before" else "later"
            found[(row.get("split"), row.get("samples"), row.get("temperature"))][place] = row
    out = []
    for (_, samples, temperature), pair in found.items():
        points = [(pair.get(place, {}).get("pass@k") or {}).get("1") for place in ("before", "later")]
        if not all(p and all(finite(p.get(k)) for k in ("value", "low", "high")) for p in points):
            continue
        least = 1 / pair["later"]["problems"]  # an interval of no width is not certainty
        # Intervals of 95 %; the two are over the same problems, so this is on the wide side.
        error = math.hypot(*(max((p["high"] - p["low"]) / (2 * 1.96), least) for p in points if p))
        label = "greedy" if not temperature else f"{samples} samples at temperature {temperature:g}"
        before, after = (p["value"] for p in points if p)
        out.append(Gain(label, bool(temperature), before, after, error, int(pair["later"].get("step") or 0)))
    return sorted(out, key=lambda gain: not gain.sampled)


def hacking(h: History) -> Finding | None:
    """The reward rose; held-out pass@1, or the pass rate in training itself, did not."""
    reward, passes = h.change("reward"), h.change("pass_rate")
    if reward is None or not h.improved:
        return None
    rise = reward.rise / h.reward_scale
    rose = f"The reward rose from {brief(reward.before)} ({span(h.first)}) to {brief(reward.after)} ({span(h.last)})"
    remedy = (
        "Read the samples; then pay for what the tests say alone (task.reward.<channel>.weight), train on problems "
        f"with more tests, or set {leash(h)}."
    )
    if passes is not None and passes.z <= -SURE and passes.rise <= -PASSES_FELL:
        said = f"{rose} while the pass rate in training fell from {percent(passes.before)} to {percent(passes.after)}."
        return Finding("reward hacking", "serious", said, remedy, tuple(suspects(h)))
    gain = next(iter(gains(h)), None)
    if gain is None or gain.points > FOLLOWS * rise or gain.after >= SOLVED:
        return None
    sure = gain.points + ONE_SIDED * gain.error < FOLLOWS * rise
    if not sure and gain.points > 0:
        return None
    went = "stayed" if abs(gain.points) < gain.error else "rose" if gain.points > 0 else "fell"
    said = (
        f"{rose} while held-out pass@1 ({gain.label}) {went}: {percent(gain.before)} before, "
        f"{percent(gain.after)} at step {gain.at}."
    )
    return Finding("reward hacking", "serious" if sure else "warning", said, remedy, tuple(suspects(h)))


def suspects(h: History) -> list[Answer]:
    """Late answers to look at: failing ones by reward, then of the problems whose mean reward rose most."""
    late = h.late_answers
    paid = [a for a in late if a.verdict not in ("pass", "") and (a.reward or 0) >= h.reward_scale / 2]
    start = h.first[-1]["step"]
    by_task: dict[str, tuple[list[float], list[Answer]]] = defaultdict(lambda: ([], []))
    for a in h.answers:
        if a.step <= start and a.reward is not None:
            by_task[a.task_id][0].append(a.reward)
    for a in late:
        by_task[a.task_id][1].append(a)
    rose = {
        task: mean([a.reward or 0.0 for a in now]) - mean(then) for task, (then, now) in by_task.items() if then and now
    }
    changed = [max(by_task[task][1], key=lambda a: a.reward or 0.0) for task in sorted(rose, key=lambda t: -rose[t])]
    ordered = [*sorted(paid, key=lambda a: -(a.reward or 0.0)), *changed, *sorted(late, key=lambda a: -(a.reward or 0))]
    chosen: dict[str, Answer] = {}
    for a in ordered:
        if len(chosen) < SHOWN:
            chosen.setdefault(a.task_id, a)
    return list(chosen.values())


def held_out_fell(h: History) -> Finding | None:
    """pass@1 on held-out problems is surely lower than before training."""
    for gain in gains(h):
        if gain.points < -FELL * gain.error:
            said = (
                f"Held-out pass@1 ({gain.label}) fell from {percent(gain.before)} to {percent(gain.after)} at step "
                f"{gain.at}, {brief(-gain.points / gain.error)} standard errors."
            )
            remedy = f"Set {slower(h)}, or {leash(h)}; or keep an earlier checkpoint."
            return Finding("held-out pass@1 fell", "serious" if gain.sampled else "warning", said, remedy)
    return None


RULES = (hacking, held_out_fell)
