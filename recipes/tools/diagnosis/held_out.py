"""Rules that find problems on held-out problems: reward hacking, held-out pass@1 fell, best answer no better.

A reward that rises while held-out problems are solved no better is how reward hacking looks from outside (Amodei et
al. 2016, arXiv 1606.06565, section 4). Memorising looks the same, so the finding shows answers to read.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from recipes.records.jsonl import Record, finite
from recipes.tools.diagnosis.finding import Finding, Severity, smaller_updates, stronger_kl
from recipes.tools.diagnosis.history import SIGNIFICANT, SOLVED, Answer, History, evaluated
from recipes.tools.diagnosis.windows import (
    MIN_WINDOW,
    ONE_SIDED,
    mean,
    median,
    percent,
    steps_text,
    three_digits,
    values,
)

FOLLOWS = 0.5
"""Held-out pass@1 follows the reward where its gain may be (95 %) this share of the reward's rise or more."""
FELL, MAY_HAVE_FALLEN = 2.58, 1.28
"""Standard errors of a fall of held-out pass@1: 99.5 %, since a run has several evaluations, and 90 %, one-sided."""
SURER = 1 / 3
"""Late over early entropy from which the policy samples much as it answers greedily; healthy runs get there too, so
this is a finding only where the greedy answers did not improve."""
PASSES_FELL = 0.05
"""Fall of the training pass rate, under a rising reward, that no choice of problems explains."""
MIN_PROBLEMS = 20
"""Held-out problems below which an interval is wider than any gain."""
SHOWN = 3
"""Answers that a finding shows."""


class Gain(NamedTuple):
    """pass@1 of one evaluation before training and at its latest.

    error: standard error of the gain, over pairs of the same problem where both evaluations stored their answers.
    changed: problems whose share of passes rose, and problems whose share fell; None without stored answers.
    """

    task: str
    own: bool
    label: str
    sampled: bool
    before: float
    after: float
    error: float
    step: int
    changed: tuple[int, int] | None = None

    @property
    def points(self) -> float:
        return self.after - self.before

    @property
    def text(self) -> str:
        """`from 45.5 % to 34.8 % at step 20 (4 problems won, 11 lost)`."""
        pairs = "" if self.changed is None else " ({} problems won, {} lost)".format(*self.changed)
        return f"from {percent(self.before)} to {percent(self.after)} at step {self.step}{pairs}"


def gains(run: History) -> list[Gain]:
    """Each evaluation that was made before training and again later: the run's own task first, sampled ones first."""
    pairs: dict[tuple, dict[str, Record]] = defaultdict(dict)
    for row in run.evals:
        if (row.get("problems") or 0) >= MIN_PROBLEMS:
            when = "before" if row.get("when") == "before" else "later"
            pairs[(row.get("task"), row.get("split"), row.get("samples"), row.get("temperature"))][when] = row
    gains = []
    for (task, _, samples, temperature), pair in pairs.items():
        points = [(pair.get(when, {}).get("pass@k") or {}).get("1") for when in ("before", "later")]
        if not all(p and all(finite(p.get(key)) for key in ("value", "low", "high")) for p in points):
            continue
        smallest = 1 / pair["later"]["problems"]  # an interval of no width is not certainty
        # Intervals of 95 %; both are over the same problems, so this error is rather too large.
        error = math.hypot(*(max((p["high"] - p["low"]) / (2 * 1.96), smallest) for p in points if p))
        label = f"{samples} samples at temperature {temperature:g}" if temperature else "greedy"
        paired = _paired(*(_answered(run, pair[when]) for when in ("before", "later")))
        before, after = (p["value"] for p in points if p)
        changed = None
        if paired:  # all of it over the problems that both have: an answer without a grade is no change
            before, after, error, changed = paired
        own, step = task == run.setting("task.name"), int(pair["later"].get("step") or 0)
        gain = Gain(str(task), own, label, bool(temperature), before, after, error, step, changed)
        gains.append(gain)
    return sorted(gains, key=lambda gain: (not gain.own, not gain.sampled))


def _answered(run: History, evaluation: Record) -> Mapping[str, float]:
    """The share of each problem's answers that passed; nothing where it was made again later with other samples, whose
    answers are stored."""
    latest = [row for row in run.evals if evaluated(row) == evaluated(evaluation)][-1]
    same = latest.get("samples") == evaluation.get("samples")
    return run.held_out.get(evaluated(evaluation), {}) if same else {}


def _paired(
    before: Mapping[str, float], later: Mapping[str, float]
) -> tuple[float, float, float, tuple[int, int]] | None:
    """Over problems that both evaluations have: both means, the standard error of their difference, and how many
    problems rose and fell; None for too few problems."""
    both = sorted(before.keys() & later.keys())
    if len(both) < MIN_PROBLEMS:
        return None
    differences = [later[problem] - before[problem] for problem in both]
    changed = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    error = max(error, 1 / len(differences) ** 1.5)  # one problem's change is not certainty
    means = [statistics.fmean(each[problem] for problem in both) for each in (before, later)]
    return means[0], means[1], error, changed


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
    gain = next((gain for gain in gains(run) if gain.own), None)
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
    """pass@1 on held-out problems of any task is lower than before training, by a test over pairs of one problem."""
    falls = [gain for gain in gains(run) if gain.points < 0]
    if not falls:
        return None
    own = [gain for gain in falls if gain.own and -gain.points / gain.error >= FELL]
    worst = min(own or falls, key=lambda gain: gain.points / gain.error)
    errors = -worst.points / worst.error
    severity: Severity = "note" if errors < MAY_HAVE_FALLEN else "warning"
    if errors >= FELL and worst.own:
        severity = "serious"
    others = [f"{gain.task}, {gain.label}: {gain.text}" for gain in falls if gain is not worst]
    more = f"; also {'; '.join(others)}" if others else ""
    chance = ", which may be chance" if severity == "note" else ""
    return Finding(
        "held-out pass@1 fell",
        severity,
        evidence=f"Held-out pass@1 on {worst.task} ({worst.label}) fell {worst.text}, {three_digits(errors)} standard "
        f"errors{chance}{more}.{_earlier_training(run)}",
        remedy=f"Set {smaller_updates(run)}; or keep an earlier checkpoint.",
    )


def _earlier_training(run: History) -> str:
    """What a comparison is with where another run's evaluation stands for the one before training."""
    before, adapter = run.setting("evaluation.before_from"), run.setting("adapter")
    if not before:
        return ""
    both = f" and of the training that it began from, {adapter}, together" if adapter else ""
    return f' "Before" means the model of {before} (evaluation.before_from): the change is that of this run{both}.'


def no_better_at_its_best(run: History) -> Finding | None:
    """The entropy fell to a third, and greedy answers to held-out problems are no better than before training."""
    key = "entropy" if values(run.last, "entropy") else "policy/entropy_avg"
    before, after = median(values(run.first[:MIN_WINDOW], key)), median(values(run.last, key))
    greedy = next((gain for gain in gains(run) if gain.own and not gain.sampled), None)
    if before is None or after is None or greedy is None or after > SURER * before or greedy.points > 0:
        return None
    if greedy.after >= SOLVED:
        return None
    return Finding(
        "best answer no better",
        "warning",
        evidence=f"The median entropy went from {three_digits(before)} ({steps_text(run.first[:MIN_WINDOW])}) to "
        f"{three_digits(after)} nats a token ({run.late_steps}) and greedy held-out pass@1 {greedy.text}: the policy "
        f"is more certain, not better.{_earlier_training(run)}",
        remedy=f"Set {smaller_updates(run)}, and train on more problems.",
    )


RULES = (hacking, held_out_fell, no_better_at_its_best)
