"""The fields that programs of the last evaluation computed, beside their reference and the difference.

Rows come from eval_samples.jsonl or samples.jsonl; a few of each evaluation have a `picture` (rewards/simulation.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from recipes.cli.console import number
from recipes.evaluation.pictures import chosen, pictured
from recipes.records.jsonl import Record, finite
from recipes.tools.report.charts import css, svg, tick_label
from recipes.tools.report.figures import of_last_evaluation
from recipes.tools.report.templates import render

WIDTH, SIDE, LEAST = 960, 232, 70
"""Of a drawing, in CSS pixels: its width, the longer side of a panel, and the least length of the shorter one."""
PANELS = (44, 306, 650)
"""Where the panels begin: reference, result, difference."""
ABOVE, BELOW, CURVE = 52, 34, 150
"""Room over and under the panels; height of the panels of a field in one dimension."""
COLOURS, DIFFERENCES = "viridis", "RdBu_r"
FAINTEST = 0.01
"""The least that full colour of a difference stands for, as a share of the reference's range: rounding stays pale."""
PIXELS = 256
"""Of an image's longer side, at least: viewers that smooth what they enlarge then leave cells their edges."""


def field_drawings(samples: Sequence[Record]) -> list[Markup]:
    """Drawings of the last evaluation's pictures, of up to four problems; none without pictures."""
    rows = pictured(of_last_evaluation(samples))
    return [field_drawing(rows[i]) for i in chosen(rows)]


def field_drawing(row: Record) -> Markup:
    """Reference, result and difference of one row with a picture; two dimensions in colours, one as curves."""
    from matplotlib.figure import Figure

    picture = row["picture"]
    reference, result = (np.array(picture[name], float) for name in ("reference", "result"))
    panels = (("reference", reference), ("result", result), ("difference, result minus reference", result - reference))
    across, up = (*picture["cells"], 0)[:2]
    flat = len(picture["cells"]) == 1
    width, height = (SIDE, CURVE) if flat else _sides(across, up)
    whole = ABOVE + height + BELOW
    figure = Figure((WIDTH / 72, whole / 72), 72, frameon=False)
    scales = _scales(reference, result)
    for place, (name, values), limits in zip(PANELS, panels, scales, strict=True):
        box = (place / WIDTH, BELOW / whole, width / WIDTH, height / whole)
        axes = figure.add_axes(box, frameon=not flat, xticks=[], yticks=[])
        _label(axes, name, (0, height + 12), "ink")
        _frame(axes, across, 0 if flat else up)
        if flat:
            _curve(axes, values[0], limits, across, named=place != PANELS[1])
            continue
        colours = COLOURS if limits is scales[0] else DIFFERENCES
        _image(axes, _enlarged(values, limits), colours, limits, (0, across, 0, up))
        if place != PANELS[0]:
            beyond = bool(values.min() < limits[0]), bool(values.max() > limits[1])
            _scale(figure, (place + width + 10, BELOW, 10, height), limits, beyond, colours)
    title, about = _title(row)
    _label(figure.axes[0], title, (-PANELS[0], height + 40), "ink", "name")
    _label(figure.axes[0], about, (WIDTH - PANELS[0], height + 40), "soft", right=True)
    return svg(figure.axes[0], f"{title}; {about}; reference, result, difference", "chart wide fields")


def _title(row: Record) -> tuple[str, str]:
    """What the answer got, and what is drawn."""
    picture = row["picture"]
    skill = f", skill {picture['skill']:.2f}" if finite(picture.get("skill")) else ""
    about = f"{picture['field']} in {picture['plotfile']} at time {number(picture['time'])}"
    about += ", the result at another time" if picture.get("time_mismatch") else ""
    about += ", middle slice in z" if len(picture["cells"]) == 3 else ""
    return f"{row.get('task_id')}: {row.get('verdict') or 'no verdict'}{skill}", about


def _sides(across: int, up: int) -> tuple[int, int]:
    """Width and height of a panel; a side of a domain that is very long and thin is widened."""
    longer = max(across, up)
    return max(LEAST, SIDE * across // longer), max(LEAST, SIDE * up // longer)


def _scales(reference: np.ndarray, result: np.ndarray) -> list[tuple[float, float]]:
    """Limits of the panels' colours: those of both fields are equal, those of the difference have 0 in their middle.

    A result far outside the reference's range would hide the reference, so they exceed that range by its width at most.
    """
    low, high = float(reference.min()), float(reference.max())
    span = high - low or abs(high) or 1.0
    least, most = max(low - span, min(low, float(result.min()))), min(high + span, max(high, float(result.max())))
    both = (least, most if most > least else least + span)
    largest = max(FAINTEST * span, min(float(np.abs(result - reference).max()), 2 * span))
    return [both, both, (-largest, largest)]


def _enlarged(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Each cell as a square of pixels; values beyond the limits have their colours anyway."""
    times = -(-PIXELS // max(values.shape))
    return np.clip(values, *limits).repeat(times, 0).repeat(times, 1)


def _image(axes: Any, values: np.ndarray, colours: str, limits: tuple[float, float], extent: Sequence[float]) -> None:
    look: dict[str, Any] = {"interpolation": "none", "origin": "lower", "aspect": "auto"}
    axes.imshow(values, colours, vmin=limits[0], vmax=limits[1], extent=extent, **look)


def _frame(axes: Any, across: int, up: int) -> None:
    """The axes' ends in cells of the reference, and their names."""
    look = {"length": 0, "labelcolor": css("soft")}
    axes.set_xticks([0, across], ["0", str(across)])
    axes.tick_params("x", pad=4, **look)
    axes.set_xlabel("x, cells", color=css("soft"))
    axes.xaxis.set_label_coords(0.5, -4 / axes.bbox.height)
    if up:
        axes.set_yticks([0, up], ["0", str(up)])
        axes.tick_params("y", pad=4, **look)
        axes.set_ylabel("y, cells", color=css("soft"))
        axes.yaxis.set_label_coords(-8 / axes.bbox.width, 0.5)
    for spine in axes.spines.values():
        spine.set(color=css("rule"), linewidth=1)


def _curve(axes: Any, values: np.ndarray, limits: tuple[float, float], across: int, named: bool) -> None:
    """A field in one dimension, its cells as steps; `named` writes the numbers of the vertical axis."""
    room = 0.05 * (limits[1] - limits[0])
    axes.set(xlim=(0, across), ylim=(limits[0] - room, limits[1] + room))
    shown = [limits[0], limits[1]] if limits[0] != -limits[1] else [limits[0], 0.0, limits[1]]
    axes.set_yticks(shown, [_short(value, limits) if named else "" for value in shown])
    axes.tick_params("y", length=0, pad=4, labelcolor=css("soft"))
    axes.grid(axis="y", color=css("rule"), linewidth=1)
    edges = np.linspace(0, across, len(values) + 1)
    axes.stairs(np.clip(values, *axes.get_ylim()), edges, color=css("line0"), linewidth=1.75, baseline=None, gid="line")


def _scale(
    figure: Any, box: Sequence[float], limits: tuple[float, float], beyond: tuple[bool, bool], colours: str
) -> None:
    """The colours from the lower limit to the upper one, with their numbers; `beyond` which of them values exceed.

    `box` is left, bottom, width and height in CSS pixels.
    """
    left, bottom, width, height = box
    whole = figure.bbox.height
    axes = figure.add_axes((left / WIDTH, bottom / whole, width / WIDTH, height / whole), xticks=[])
    ramp = np.linspace(*limits, PIXELS)[:, None].repeat(16, 1)
    _image(axes, ramp, colours, limits, (0, 1, *limits))
    ticks = [limits[0], sum(limits) / 2, limits[1]]
    names = [_short(tick, limits) for tick in ticks]
    axes.set_yticks(ticks, ["≤ " * beyond[0] + names[0], names[1], "≥ " * beyond[1] + names[2]])
    axes.yaxis.tick_right()
    axes.tick_params("y", length=0, pad=4, labelcolor=css("soft"))
    for spine in axes.spines.values():
        spine.set(color=css("rule"), linewidth=1)


def _short(value: float, limits: tuple[float, float]) -> str:
    """A number of three digits; 0 for what cannot be seen between the limits."""
    return tick_label(float(f"{value:.3g}") if abs(value) > 1e-4 * (limits[1] - limits[0]) else 0.0)


def _label(axes: Any, text: str, place: tuple[float, float], colour: str, kind: str = "", right: bool = False) -> None:
    """Text at a place in CSS pixels from the lower left corner of the axes."""
    look = {"color": css(colour), "gid": kind or None, "ha": "right" if right else "left", "annotation_clip": False}
    axes.annotate(text, place, xycoords="axes pixels", va="center", parse_math=False, **look)


def standalone(drawings: Sequence[Markup]) -> str:
    """The drawings one below the other as a file that any viewer of SVG shows, in the colours of a light page."""
    theme = render("theme.css.j2")
    light = dict(re.findall(r"--(\w+): ([^;]+);", theme[: theme.index("@media")]))
    parts, top = [], 16
    for drawn in drawings:
        height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', drawn)[1])  # type: ignore[index]
        body = drawn[drawn.index("\n") : drawn.rindex("</svg>")]
        parts.append(f'<g transform="translate(16 {top})">{body}</g>')
        top += height + 24
    size = f'width="{WIDTH + 32}" height="{top}" viewBox="0 0 {WIDTH + 32} {top}"'
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    style = "<style>text { font: 12px sans-serif; } .name text { font-weight: 600; }</style>"
    paper = '<rect width="100%" height="100%" fill="var(--paper)"/>'
    whole = f"<svg {namespaces} {size}>\n{style}\n{paper}\n" + "\n".join(parts) + "\n</svg>\n"
    return re.sub(r"var\(--(\w+)\)", lambda results: light[results[1]], whole)
