"""The pictures at the head of the curves: the reward with its parts, the losses, scores by checkpoint, and each
evaluated problem before and after. They need metrics.jsonl, evals.jsonl and eval_samples.jsonl, of any recipe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from recipes.records.jsonl import Record, finite, problem_kinds, split_name
from recipes.tools.diagnosis.history import with_splits
from recipes.tools.report.charts import LINES, MEDIUM, Point, Series, curve_chart, pairs_chart

LOW = (MEDIUM[0], 118)
LOSSES = (("loss/policy_avg", "policy loss"), ("loss", "policy loss"), ("loss/value_avg", "value loss"))
MOST_PROBLEMS = 200
SAME = 1e-9

Picture = dict[str, Any]
"""{title, note, legend, svgs}; `legend` holds (colour, name)."""


def of_last_evaluation(samples: Iterable[Record]) -> list[Record]:
    """The rows of the latest evaluation; a run that was prolonged has several of one name, and one before training may
    have been added later."""
    rows = list(samples)
    latest = max(rows, key=lambda row: (row.get("step") or 0, row.get("when") != "before"), default={})
    return [row for row in rows if all(row.get(key) == latest.get(key) for key in ("when", "step"))]


def figures(
    steps: Mapping[int, Record], evals: Sequence[Record], samples: Iterable[Record], config_task: str
) -> list[Picture]:
    """The pictures that have data.

    Args:
        steps: metrics by step.
        evals, samples: rows of evals.jsonl and eval_samples.jsonl.
        config_task: the run's own task. Of others that were evaluated beside it, scores by checkpoint alone are drawn.
    """
    scores = dict.fromkeys(key for row in steps.values() for key in row if key.startswith("scores/"))
    reward = [
        ("reward", _points(steps, "reward")),
        *((key.removeprefix("scores/"), _points(steps, key)) for key in scores),
    ]
    note = "Means over the completions of a step: the reward, and each channel's score before its weight."
    pictures = [_curves("Reward and its parts", note, reward, steps), _losses(steps)]
    for task in dict.fromkeys([config_task, *(str(row["task"]) for row in evals if row.get("task"))]):
        title = "Scores by checkpoint" + (f", {task}" if task != config_task else "")
        for temperature, rows in _by_temperature(evals, task):
            splits = dict.fromkeys(map(split_name, rows))
            for split in splits:
                kind = problem_kinds(rows) if len(splits) == 1 else split
                pictures.append(_scores(title, [r for r in rows if split_name(r) == split], temperature, kind))
    answers = _by_temperature(with_splits(samples, evals), config_task)
    pictures += [_problems(rows, temperature) for temperature, rows in answers]
    return [picture for picture in pictures if picture]


def _scores(title: str, rows: Sequence[Record], temperature: float, kind: str) -> Picture | None:
    """Curves of one task's evaluations, all of one split and decoded at one temperature, over the steps of training.
    kind: what the problems are called."""
    held_out = {int(row["step"]): _held_out(row) for row in sorted(rows, key=lambda row: row["step"])}
    names = dict.fromkeys(name for row in held_out.values() for name in row)
    note = f"Means over answers to {kind} problems at each evaluation, {decoding_name(temperature)}."
    return _curves(title, note, [(name, _points(held_out, name)) for name in names], held_out, smoothed=False)


def decoding_name(temperature: float) -> str:
    """`greedy` at temperature 0."""
    return "greedy" if temperature == 0 else f"temperature {temperature:g}"


def _by_temperature(rows: Iterable[Record], task: str) -> list[tuple[float, list[Record]]]:
    """Rows of the task that have a step, by the temperature they were sampled at, the highest first."""
    results: dict[float, list[Record]] = defaultdict(list)
    for row in rows:
        if row.get("task", task) == task and finite(row.get("step")):
            results[float(row.get("temperature") or 0.0)].append(row)
    return sorted(results.items(), reverse=True)


def _points(rows: Mapping[int, Record], key: str) -> list[Point]:
    """(step, value) of one metric where it is a number."""
    return [(step, row[key]) for step, row in rows.items() if finite(row.get(key))]


def _losses(steps: Mapping[int, Record]) -> Picture | None:
    losses: dict[str, list[Point]] = {}
    for key, name in LOSSES:
        if points := _points(steps, key):
            losses.setdefault(name, points)
    if not losses:
        return None
    legend = list(zip(LINES, losses, strict=False))
    span = (min(steps), max(steps))
    charts = [curve_chart([(name, losses[name])], span, LOW, colours=(colour,)) for colour, name in legend]
    return {"title": "Losses", "note": "Each loss has its own scale.", "legend": legend, "svgs": charts}


def _held_out(row: Record) -> Record:
    """An evaluation's numbers by name: pass@1, the reward, and its stages or else its channels' scores."""
    passed = ((row.get("pass@k") or {}).get("1") or {}).get("value")
    stages = {
        key.split("/", 1)[1]: value
        for key, value in (row.get("measures") or {}).items()
        if key.split("/")[0] in (row.get("scores") or {}) and not key.endswith("/baseline")
    }
    return {"reward": row.get("reward"), "pass@1": passed} | (stages or row.get("scores") or {})


def _problems(samples: Sequence[Record], temperature: float) -> Picture | None:
    """Each problem's mean reward in the first and in the last evaluation, problems from worst to best at first."""
    rewards: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows = {}
    for row in samples:
        if finite(row.get("reward")):
            rows[int(row["step"])] = row
            rewards[int(row["step"])][str(row.get("task_id"))].append(float(row["reward"]))
    if len(rewards) < 2:
        return None
    before, after = rewards[min(rewards)], rewards[max(rewards)]
    pairs = sorted((fmean(before[task]), fmean(after[task])) for task in before.keys() & after.keys())
    if not pairs:
        return None
    shown = pairs[:: -(-len(pairs) // MOST_PROBLEMS)]
    ends = [rows[min(rewards)], rows[max(rewards)]]
    first, last = (str(row.get("when")) for row in ends)
    then, now = (f"{when} training" if when in ("before", "after") else f"at {when}" for when in (first, last))
    more = sum(b > a + SAME for a, b in pairs)
    less = sum(b < a - SAME for a, b in pairs)
    counts = f"{more} of {len(pairs)} earn more {now}, {less} less"
    splits = [split_name(row) for row in ends]
    problems = f"{problem_kinds(ends[:1]).capitalize()} problems"
    if splits[0] != splits[1]:
        problems = f"Problems of both evaluations ({splits[0]} problems {then}, {splits[1]} problems {now})"
    note = f"{problems} by what they earned {then}, {decoding_name(temperature)}: {counts}."
    if len(shown) < len(pairs):
        note += f" {len(shown)} of them are drawn."
    legend = [("soft", first), (LINES[0], last)]
    charts = [pairs_chart(shown, counts)]
    return {"title": f"Each problem, {first} and {last}", "note": note, "legend": legend, "svgs": charts}


def _curves(
    title: str, note: str, series: Sequence[Series], rows: Mapping[int, Record], smoothed: bool = True
) -> Picture | None:
    """Several series in one chart; those with equal points, which would hide each other, as one line with all names."""
    names: dict[tuple[Point, ...], list[str]] = {}
    for name, points in series:
        if points:
            names.setdefault(tuple(points), []).append(name)
    told_apart = [(" = ".join(same), points) for points, same in names.items()]
    if not told_apart:
        return None
    if (more := len(told_apart) - len(LINES)) > 0:
        note += f" {more} further {'one is' if more == 1 else 'ones are'} not drawn."
        told_apart = told_apart[: len(LINES)]
    chart = curve_chart(told_apart, (min(rows), max(rows)), MEDIUM, None if smoothed else 1, faint=smoothed)
    legend = [(colour, name) for colour, (name, _) in zip(LINES, told_apart, strict=False)]
    return {"title": title, "note": note, "legend": legend, "svgs": [chart]}
