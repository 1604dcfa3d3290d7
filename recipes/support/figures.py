"""The run in four pictures, as the Einstein Toolkit work draws its training and its evaluation over checkpoints: the
reward with its parts, the losses, held-out scores from evaluation to evaluation, and each held-out problem before and
after. From metrics.jsonl, evals.jsonl and eval_samples.jsonl alone, of any run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from recipes.support.charts import (
    Frame,
    Point,
    Record,
    dots,
    finite,
    number,
    polyline,
    smooth,
    smooth_window,
    svg,
)

WIDE, HIGH, HALF = 460.0, 210.0, 118.0
COLOURS = 7
"""Lines that the page has a colour for."""
LOSSES = (("loss/policy_avg", "policy"), ("loss", "policy"), ("loss/value_avg", "value"))
MOST_PROBLEMS = 200
SAME = 1e-9

Series = tuple[str, list[Point]]
"""A name and its (step, value), all finite."""


def figures(
    steps: dict[int, Record], evals: Sequence[Record], samples: Iterable[Record], config_task: str
) -> list[dict[str, Any]]:
    """What the page shows: {title, note, legend, svgs}, legend of (colour, name); pictures without data are left out.

    Args:
        steps: metrics by step.
        evals, samples: rows of evals.jsonl and eval_samples.jsonl.
        config_task: the run's own task; of other tasks nothing is drawn.
    """
    drawn = [_reward(steps), _losses(steps)]
    drawn += _evaluations([row for row in evals if row.get("task", config_task) == config_task])
    drawn += _problems([row for row in samples if row.get("task", config_task) == config_task])
    return [figure for figure in drawn if figure]


def column(rows: dict[int, Record], key: str) -> list[Point]:
    """(step, value) of one metric where it is a number."""
    return [(step, row[key]) for step, row in rows.items() if finite(row.get(key))]


def _reward(steps: dict[int, Record]) -> dict[str, Any] | None:
    keys = list(dict.fromkeys(key for row in steps.values() for key in row if key.startswith("scores/")))
    series = [("reward", column(steps, "reward"))]
    series += [(key.removeprefix("scores/"), column(steps, key)) for key in keys]
    note = "Means of a step: the reward that was paid, and each channel's score before its weight."
    return _figure("Reward and its parts", note, series, steps)


def _losses(steps: dict[int, Record]) -> dict[str, Any] | None:
    found: dict[str, list[Point]] = {}
    for key, name in LOSSES:
        if points := column(steps, key):
            found.setdefault(name, points)
    if not found:
        return None
    charts = [_lines([(name, points)], _span(steps), HALF, first=i) for i, (name, points) in enumerate(found.items())]
    legend = [(i, f"{name} loss") for i, name in enumerate(found)]
    return {"title": "Losses", "note": "Each on its own scale.", "legend": legend, "svgs": charts}


def _evaluations(evals: Sequence[Record]) -> list[dict[str, Any]]:
    """A picture for each way of sampling: what held-out answers earned at each evaluation."""
    ways: dict[float, dict[int, Record]] = defaultdict(dict)
    for row in evals:
        if finite(row.get("step")):
            ways[float(row.get("temperature") or 0.0)][int(row["step"])] = _held_out(row)
    pictures = []
    for temperature, rows in sorted(ways.items(), reverse=True):
        rows = dict(sorted(rows.items()))
        keys = list(dict.fromkeys(key for row in rows.values() for key in row))
        series = [(key, column(rows, key)) for key in keys]
        how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
        note = f"Means over held-out answers at each evaluation, {how}."
        picture = _figure("Held-out scores by checkpoint", note, series, rows, marked=True)
        pictures += [picture] if picture else []
    return pictures


def _held_out(row: Record) -> Record:
    """An evaluation's numbers by name: pass@1, the reward, and its stages or else its channels' scores."""
    passed = ((row.get("pass@k") or {}).get("1") or {}).get("value")
    stages = {
        key.split("/", 1)[1]: value
        for key, value in (row.get("measures") or {}).items()
        if key.split("/")[0] in (row.get("scores") or {}) and not key.endswith("/baseline")
    }
    shown = {"reward": row.get("reward"), "pass@1": passed} | (stages or row.get("scores") or {})
    return {key: value for key, value in shown.items() if finite(value)}


def _problems(samples: Sequence[Record]) -> list[dict[str, Any]]:
    """Each problem's mean reward in the first and in the last evaluation, for each way of sampling."""
    ways: dict[float, dict[int, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    names = {}
    for row in samples:
        if finite(row.get("reward")) and finite(row.get("step")):
            names[int(row["step"])] = str(row.get("when"))
            at = ways[float(row.get("temperature") or 0.0)][int(row["step"])]
            at[str(row.get("task_id"))].append(float(row["reward"]))
    pictures = []
    for temperature, stages in sorted(ways.items(), reverse=True):
        if len(stages) > 1:
            first, last = ({k: sum(v) / len(v) for k, v in stages[step].items()} for step in (min(stages), max(stages)))
            how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
            pairs = sorted((first[name], last[name]) for name in first.keys() & last.keys())
            if pairs:
                pictures.append(_paired(pairs, how, names[min(stages)], names[max(stages)]))
    return pictures


def _paired(pairs: Sequence[tuple[float, float]], how: str, first: str, last: str) -> dict[str, Any]:
    """Problems from worst to best at first; a line from what each earned then to what it earned at last."""
    up = sum(b > a + SAME for a, b in pairs)
    down = sum(b < a - SAME for a, b in pairs)
    count = min(len(pairs), MOST_PROBLEMS)
    shown = [pairs[i * len(pairs) // count] for i in range(count)]
    frame = Frame([value for pair in shown for value in pair], (1, len(shown)), WIDE, HIGH)
    before, after = (frame.places([(i, pair[end]) for i, pair in enumerate(shown, 1)]) for end in (0, 1))
    rise = "".join(f"M{x:.1f} {y:.1f}V{z:.1f}" for (x, y), (_, z) in zip(before, after, strict=True) if z < y)
    fall = "".join(f"M{x:.1f} {y:.1f}V{z:.1f}" for (x, y), (_, z) in zip(before, after, strict=True) if z > y)
    parts = [
        *frame.axes("problem"),
        f'<path class="rise" d="{rise}"/><path class="fall" d="{fall}"/>',
        f'<path class="dots was" d="{dots(before)}"/><path class="dots s0" d="{dots(after)}"/>',
    ]
    then, now = (f"{w} training" if w in ("before", "after") else f"at {w}" for w in (first, last))
    label = f"{len(pairs)} problems, {up} earned more {now}, {down} less"
    note = f"Held-out problems by what they earned {then}, {how}: {up} of {len(pairs)} earn more {now}, {down} less."
    if len(shown) < len(pairs):
        note += f" Every {len(pairs) / len(shown):.1f}th is drawn."
    legend = [("was", first), (0, last)]
    svgs = [svg(WIDE, HIGH, label, parts, "picture")]
    return {"title": f"Each problem, {first} and {last}", "note": note, "legend": legend, "svgs": svgs}


def _figure(
    title: str, note: str, series: Sequence[Series], rows: dict[int, Record], marked: bool = False
) -> dict[str, Any] | None:
    series = _told_apart(series)[:COLOURS]
    if not series:
        return None
    chart = _lines(series, _span(rows), HIGH, marked=marked)
    return {"title": title, "note": note, "legend": [(i, name) for i, (name, _) in enumerate(series)], "svgs": [chart]}


def _told_apart(series: Sequence[Series]) -> list[Series]:
    """Those with points; of equal ones, which would hide each other, one line under all names."""
    names: dict[tuple[Point, ...], list[str]] = {}
    for name, points in series:
        if points:
            names.setdefault(tuple(points), []).append(name)
    return [(" = ".join(same), list(points)) for points, same in names.items()]


def _lines(
    series: Sequence[Series], steps: tuple[float, float], height: float, marked: bool = False, first: int = 0
) -> Markup:
    """Lines in colours from `first` on: centred means over faint dots, or (`marked`) the values themselves, dotted."""
    values = [value for _, points in series for _, value in points]
    frame = Frame(values, steps, WIDE, height)
    parts = frame.axes()
    for colour, (_, points) in enumerate(series, first):
        window = 1 if marked else smooth_window(len(points))
        means = list(zip((step for step, _ in points), smooth([value for _, value in points], window), strict=True))
        faint = "" if marked else " faint"
        parts.append(f'<path class="dots{faint} s{colour}" d="{dots(frame.places(points))}"/>')
        parts.append(f'<path class="line s{colour}" d="{polyline(frame.places(means))}"/>')
    last = ", ".join(f"{name} {number(points[-1][1])}" for name, points in series)
    return svg(WIDE, height, f"last values: {last}", parts, "picture")


def _span(rows: dict[int, Record]) -> tuple[float, float]:
    return float(min(rows)), float(max(rows))
