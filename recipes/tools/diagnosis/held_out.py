"""Knows the diseases that held-out problems show: reward hacking, held-out pass@1 fell.

A reward that rises while held-out problems are solved no better is how reward hacking looks from outside (Amodei et
al. 2016, arXiv 1606.06565, section 4). Memorising looks the same, so the finding shows answers to read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

from recipes.records.jsonl import Record, finite
from recipes.tools.diagnosis.finding import Finding, smaller_updates, stronger_kl
from recipes.tools.diagnosis.history import SIGNIFICANT, SOLVED, Answer, History
from recipes.tools.diagnosis.windows import ONE_SIDED, mean, percent, three_digits

FOLLOWS = 0.5
"""Held-out pass@1 follows the reward where its gain may be (95 %) this share of the reward's rise or more."""
FELL = 2.58
"""Standard errors of a fall of held-out pass@1 (99 %, since a run has several evaluations)."""
PASSES_FELL = 0.05
"""Fall of the training pass rate, under a rising reward, that no choice of problems explains."""
MIN_PROBLEMS = 20
"""Held-out problems below which an interval is wider than any gain."""
SHOWN = 3
"""Answers that a finding shows."""


class Gain(NamedTuple):
    """pass@1 of one evaluation before training and at its latest; `error` is the gain's standard error."""

    label: str
    sampled: bool
    before: float
    after: float
    error: float
    step: int

    @property
    def points(self) -> float:
        return self.after - self.before


def gains(run: History) -> list[Gain]:
    """Each evaluation of the run's own task that was made before training and again later, sampled ones first."""
    pairs: dict[tuple, dict[str, Record]] = defaultdict(dict)
    for row in run.evals:
        if row.get("task") == run.setting("task.name") and (row.get("problems") or 0) >= MIN_PROBLEMS:
            when = "before" if row.get("when") == "before" else "later"
            pairs[(row.get("split"), row.get("samples"), row.get("temperature"))][when] = row
    gains = []
    for (_, samples, temperature), pair in pairs.items():
        points = [(pair.get(when, {}).get("pass@k") or {}).get("1") for when in ("before", "later")]
        if not all(p and all(finite(p.get(key)) for key in ("value", "low", "high")) for p in points):
            continue
        smallest = 1 / pair["later"]["problems"]  # an interval of no width is not certainty
        # Intervals of 95 %; both are over the same problems, so this error is rather too large.
        error = math.hypot(*(max((p["high"] - p["low"]) / (2 * 1.96), smallest) for p in points if p))
        label = f"{samples} samples at temperature {temperature:g}" if temperature else "greedy"
        before, after = (p["value"] for p in points if p)
        gains.append(Gain(label, bool(temperature), before, after, error, int(pair["later"].get("step") or 0)))
    return sorted(gains, key=lambda gain: not gain.sampled)


def hacking(run: History) -> Finding | None:
    """The reward rose; held-out pass@1, or the pass rate in training itself, did not."""
    reward, passes = run.change("reward"), run.change("pass_rate")
    if reward is None or not run.improved:
        return None
    rose = f"The reward rose from {run.text(reward)}"
    remedy = (
        "Read the samples; then pay only for what the tests measure (task.reward.<channel>.weight), train on problems "
        f"with more tests, or set {stronger_kl(run)}."
    )
    if passes is not None and passes.z <= -SIGNIFICANT and passes.rise <= -PASSES_FELL:
        fell = f"from {percent(passes.before)} to {percent(passes.after)}"
        evidence = f"{rose} while the pass rate in training fell {fell}."
        return Finding("reward hacking", "serious", evidence, remedy, suspects(run))
    gain = next(iter(gains(run)), None)
    expected = FOLLOWS * reward.rise / run.largest_reward
    if gain is None or gain.points > expected or gain.after >= SOLVED:
        return None
    certain = gain.points + ONE_SIDED * gain.error < expected
    if not certain and gain.points > 0:
        return None
    verb = "stayed" if abs(gain.points) < gain.error else "rose" if gain.points > 0 else "fell"
    evidence = f"{rose} while held-out pass@1 ({gain.label}) {verb}: {percent(gain.before)} before, "
    evidence += f"{percent(gain.after)} at step {gain.step}."
    return Finding("reward hacking", "serious" if certain else "warning", evidence, remedy, suspects(run))


def suspects(run: History) -> tuple[Answer, ...]:
    """Late answers to read, of different problems: first failing ones with a high reward, then those to the problems
    whose mean reward rose most, then the best paid."""
    late = sorted(run.late_answers, key=lambda a: -(a.reward or 0.0))
    failing = [a for a in late if a.verdict not in ("pass", "") and (a.reward or 0) >= run.largest_reward / 2]
    early: dict[str, list[float]] = defaultdict(list)
    for a in run.answers:
        if a.step <= run.first[-1]["step"] and a.reward is not None:
            early[a.task_id].append(a.reward)
    later: dict[str, list[Answer]] = defaultdict(list)
    for a in late:
        later[a.task_id].append(a)
    rises = {
        task: mean([a.reward or 0.0 for a in later[task]]) - mean(early[task]) for task in early.keys() & later.keys()
    }
    improved = [later[task][0] for task in sorted(rises, key=lambda task: (-rises[task], task))]
    chosen: dict[str, Answer] = {}
    for a in (*failing, *improved, *late):
        chosen.setdefault(a.task_id, a)
    return tuple(chosen.values())[:SHOWN]


def held_out_fell(run: History) -> Finding | None:
    """pass@1 on held-out problems is significantly lower than before training."""
    for gain in gains(run):
        if gain.points < -FELL * gain.error:
            return Finding(
                "held-out pass@1 fell",
                "serious" if gain.sampled else "warning",
                evidence=f"Held-out pass@1 ({gain.label}) fell from {percent(gain.before)} to {percent(gain.after)} at "
                f"step {gain.step}, {three_digits(-gain.points / gain.error)} standard errors.",
                remedy=f"Set {smaller_updates(run)}; or keep an earlier checkpoint.",
            )
    return None


RULES = (hacking, held_out_fell)
