"""Draw every chart of the project with matplotlib, as SVG whose text stays text and whose colours are the page's.

A chart is drawn in placeholder colours, which `svg` replaces by the CSS variables that theme.css.j2 defines for light
and for dark pages. Matplotlib is imported where it draws, because its import takes a second.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from recipes.cli.console import number

Point = tuple[float, float]
Series = tuple[str, Sequence[Point]]
"""A name and its points (step, value), all finite."""

LINES = tuple(f"line{n}" for n in range(8))
COLOURS = ("ink", "soft", "rule", "paper", "accent", "good", "bad", *LINES, *(f"part{n}" for n in range(4)))
"""CSS variables of theme.css.j2."""
SMALL, MEDIUM, WIDE = (280, 128), (460, 210), (960, 340)
"""Width and height in CSS pixels: of one metric, of several metrics, of several runs."""


class Interval(NamedTuple):
    """A share between 0 and 1 with the ends of its interval, which are None where none was recorded."""

    value: float
    low: float | None = None
    high: float | None = None


def curve_chart(
    series: Sequence[Series],
    steps: Point,
    size: tuple[int, int] = SMALL,
    window: int | None = None,
    colours: Sequence[str] = LINES,
    faint: bool = True,
) -> Markup:
    """Lines over steps: every value as a dot, and a line through the centred means.

    Args:
        series: each with at least one point.
        steps: the first and the last step of the run, so that charts beside each other share their axis.
        window: steps of the centred mean; 1 joins the values themselves. None: `smooth_window` of each series.
        faint: whether the dots are small and pale.
    """
    axes = _axes(size)
    _value_axis(axes, [value for _, points in series for _, value in points])
    _step_axis(axes, steps)
    for colour, (_, points) in zip(colours, series, strict=False):
        means = smooth([value for _, value in points], window)
        _dots(axes, points, colour, *((3, "dots faint") if faint else (5, "dots")))
        axes.plot([step for step, _ in points], means, color=css(colour), linewidth=1.75, gid="line")
        if len(series) == 1:
            _dots(axes, points[-1:], colour, 5, "last")
    last = ", ".join(f"{name} {number(points[-1][1])}" for name, points in series)
    return svg(axes, f"last values: {last}", "chart")


def comparison_chart(
    curves: Mapping[str, Sequence[Point]],
    label: str,
    unit: str = "step",
    bands: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Markup:
    """Centred means of several runs over `unit`, each named at its end. Runs without a value are left out.

    Args:
        curves: the points of each run by its name.
        bands: (low, high) at each point of a run, drawn behind the lines.
    """
    runs = [(name, [step for step, _ in points], smooth([v for _, v in points])) for name, points in curves.items()]
    every = list(chain(*(steps for _, steps, _ in runs)))
    if not every:
        return Markup("")
    bands = bands or {}
    axes = _axes(WIDE, right=70)
    _value_axis(axes, [*chain(*(means for *_, means in runs)), *chain(*chain(*bands.values()))], 4)
    _step_axis(axes, (min(every), max(every)), unit, 6)
    ends = []
    for index, (name, steps, means) in enumerate(runs):
        colour, dashed = LINES[index % len(LINES)], index // len(LINES) % 2
        if bands.get(name):
            low, high = zip(*bands[name], strict=True)
            corners = [*steps, *steps[::-1]], [*low, *high[::-1]]
            axes.fill(*corners, color=css(colour), alpha=0.18, linewidth=0, gid="band")
        if means:
            axes.plot(steps, means, "--" if dashed else "-", color=css(colour), gid="line smoothed")
            ends.append((*axes.transData.transform((steps[-1], means[-1])), name, colour))
    level = np.inf
    for x, y, name, colour in sorted(ends, key=lambda end: -end[1]):
        level = min(y, level - 14)  # names of lines that end together stand one below the other
        _text(axes, (x, level), name, (6, 0), colour, "figure pixels", "name")
    return svg(axes, label, "chart wide")


def pairs_chart(pairs: Sequence[tuple[float, float]], label: str) -> Markup:
    """For each problem a line from its value before to its value after, coloured as a rise or as a fall."""
    axes = _axes(MEDIUM)
    _value_axis(axes, list(chain(*pairs)))
    _step_axis(axes, (1, len(pairs)), "problem", 4)
    ends = [((place, before), (place, after)) for place, (before, after) in enumerate(pairs, 1)]
    _segments(axes, [(a, b) for a, b in ends if b[1] > a[1]], "good", 1.5, "rise")
    _segments(axes, [(a, b) for a, b in ends if b[1] < a[1]], "bad", 1.5, "fall")
    _dots(axes, [before for before, _ in ends], "soft", 5, "dots before")
    _dots(axes, [after for _, after in ends], LINES[0], 5, "dots after")
    return svg(axes, label, "chart")


def interval_chart(before: Interval | None, after: Interval | None, top: float, label: str) -> Markup:
    """Before (hollow) above after (filled), each a dot on its interval; the axis holds 0 to `top`."""
    ticks = [tick for tick in _round_numbers(0.0, top, 4) if tick < 1.0 + 1e-9]
    axes = _axes((280, 54), left=12, right=16, top=2, bottom=16)
    axes.set(xlim=(0, ticks[-1]), ylim=(1, 0))
    axes.set_xticks(ticks, _percentages(ticks))
    axes.xaxis.set_gid("axis")
    for tick in ticks:
        _segments(axes, [((tick, 0), (tick, 1))], "rule" if tick else "soft", 1, "grid")
    looks = (("before", before, 0.3, "soft", 1.5), ("after", after, 0.7, "accent", 2.5))
    for kind, share, height, colour, width in looks:
        if share and share.low is not None and share.high is not None:
            _segments(axes, [((share.low, height), (share.high, height))], colour, width, kind)
        if share:
            _dots(axes, [(share.value, height)], colour, 9, f"dots {kind}")
            _dots(axes, [(share.value, height)] if kind == "before" else [], "paper", 6, "hole")
    return svg(axes, label, "chart intervals")


def stacked_bar(seconds: Sequence[float], label: str) -> Markup:
    """One bar divided in proportion to `seconds`, in the colours part0, part1, ... Empty where their sum is 0."""
    if sum(seconds) <= 0:
        return Markup("")
    axes = _axes((960, 20), left=0, right=0, top=0, bottom=0)
    axes.set(xlim=(0, sum(seconds)), ylim=(0, 1))
    for index, (width, left) in enumerate(zip(seconds, accumulate(seconds, initial=0.0), strict=False)):
        look = {"color": css(f"part{index}"), "edgecolor": css("paper")}
        axes.barh(0.5, width, 1, left, linewidth=1, gid=f"part{index}", **look)
    return svg(axes, label, "bar", Markup(' preserveAspectRatio="none"'))


def memory_bars(phases: Mapping[str, tuple[float | None, float | None]], budget: float | None) -> Markup:
    """For each phase a filled bar of what was measured and an outlined one of the plan; `budget` is a dashed line.

    Args:
        phases: (measured, planned) of each phase in GiB, one of the two None where it does not exist.
        budget: GiB; None draws none, and so does a budget beyond the longest bar.
    """
    ends = [max(held or 0.0, plan or 0.0) for held, plan in phases.values()]
    axes = _axes((460, 30 * len(phases) + 18), left=118, right=56, top=0, bottom=18)
    axes.set(xlim=(0, max(ends) or 1.0), ylim=(len(phases) - 0.5, -0.5))
    axes.set_yticks(range(len(phases)), list(phases))
    for row, (held, plan) in enumerate(phases.values()):
        if held is not None:
            axes.barh(row, held, 0.6, color=css("part0"), linewidth=0, gid="held")
        if plan is not None:
            axes.barh(row, plan, 0.6, fill=False, edgecolor=css("ink"), gid="planned")
        text = number(round(ends[row], 2)) if held is None else number(round(held, 2))
        _text(axes, (ends[row], row), f"({text})" if held is None else text, (6, 0))
    if budget and budget <= max(ends):
        axes.plot([budget] * 2, axes.get_ylim(), "--", color=css("bad"), linewidth=1, gid="budget")
    _text(axes, (0, len(phases) - 0.5), "GiB", (0, -9))
    return svg(axes, "Memory by phase, GiB, measured and planned", "chart memory")


def scatter_chart(groups: Sequence[Sequence[tuple[float, Interval, str]]], x_name: str, y_name: str) -> Markup:
    """Points (x, share with its interval, name), a colour for each group; points that touch share one label."""
    every = list(chain(*groups))
    axes = _axes((960, 420), top=24)
    _value_axis(axes, [0.0, *(share.high or share.value for _, share, _ in every)], 4)
    _step_axis(axes, (0, max(x for x, _, _ in every) * 1.2 or 1.0), x_name, 6)
    _segments(axes, [((x, s.low or 0.0), (x, s.high or s.value)) for x, s, _ in every], "soft", 0.7, "interval")
    for colour, points in zip(LINES, groups, strict=False):
        _dots(axes, [(x, share.value) for x, share, _ in points], colour, 10)
        marks = [(*axes.transData.transform((x, share.value)), name) for x, share, name in points]
        near: list[tuple[float, float, str]] = []
        for mark in [*sorted(marks, key=lambda mark: (round(mark[1] / 14), mark[0])), (np.inf, 0, "")]:
            if near and (mark[0] - near[-1][0] > 30 or abs(mark[1] - near[-1][1]) > 14):
                names = sorted((name for *_, name in near), key=lambda name: (len(name), name))
                _text(axes, near[-1][:2], ", ".join(names), (8, 9), "ink", "figure pixels")
                near = []
            near.append(mark)
    _text(axes, (0, axes.get_ylim()[1]), y_name, (-30, 14))
    return svg(axes, f"{y_name} against {x_name}", "chart wide")


def tick_label(value: float) -> str:
    """Text of a tick: as number(), with k or M for large ones so that it fits the margin."""
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if least <= abs(value) < 1e9:
            return number(value / unit) + letter
    return number(value)


def _last_digit(value: float) -> float:
    """What one more in the last of the four digits that `tick_label` shows adds to a value above 0."""
    return 10.0 ** (math.floor(math.log10(value)) - 3)


def _percentages(shares: Sequence[float]) -> list[str]:
    """Texts of different shares, with as many decimals as tell them apart."""
    texts = ([f"{share:.{decimals}%}" for share in shares] for decimals in range(12))
    return next((each for each in texts if len(set(each)) == len(shares)), [f"{share:g}" for share in shares])


def smooth_window(count: int) -> int:
    """Steps in the centred mean: an eighth of the run, odd, 5 to 51; 1 (no smoothing) under 8 steps."""
    return 1 if count < 8 else min(51, max(5, count // 8 | 1))


def smooth(values: Sequence[float], window: int | None = None) -> list[float]:
    """Centred mean over `window` values (odd; None: `smooth_window`); at both ends over those of them that exist."""
    if not values:
        return []
    window = window or smooth_window(len(values))
    padded = np.pad(np.asarray(values, float), window // 2, constant_values=np.nan)
    return np.nanmean(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1).tolist()


def _axes(size: tuple[int, int], left: int = 36, right: int = 8, top: int = 8, bottom: int = 20) -> Any:
    """Empty axes in a figure of `size` CSS pixels, which leave these margins."""
    from matplotlib.figure import Figure

    (width, height), dpi = size, 72  # of matplotlib's SVG: a unit is a CSS pixel here
    figure = Figure((width / dpi, height / dpi), dpi, frameon=False)
    place = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    axes = figure.add_axes(place, frameon=False, xticks=[], yticks=[], axisbelow=True)
    axes.tick_params("x", length=0, pad=8, labelcolor=css("soft"))
    axes.tick_params("y", length=0, pad=5, labelcolor=css("soft"))
    return axes


def _value_axis(axes: Any, values: Sequence[float], parts: int = 3) -> None:
    """The vertical axis, from a round number to one; zero belongs to it unless the values vary little. Values that vary
    less than labels tell get a wider range: the margin has no room for further digits."""
    low, high = min(values), max(values)
    if high - low >= 0.2 * max(abs(low), abs(high)) or low == high:
        low, high = min(low, 0.0), max(high, 0.0)
    ticks = _round_numbers(low, high, parts)
    while len(ticks) > 1 and ticks[1] - ticks[0] < 0.99 * _last_digit(max(map(abs, ticks))):
        low, high = low - (high - low) / 2, high + (high - low) / 2
        ticks = _round_numbers(low, high, parts)
    axes.set_yticks(ticks, [tick_label(tick) for tick in ticks])
    axes.set_ylim(ticks[0], ticks[-1] if len(ticks) > 1 else ticks[0] + (abs(ticks[0]) or 1.0))
    axes.grid(axis="y", color=css("rule"), linewidth=1)
    if 0.0 in ticks:
        axes.axhline(0, color=css("soft"), linewidth=1, zorder=0.9, gid="axis zero")


def _step_axis(axes: Any, steps: Point, unit: str = "step", parts: int = 3) -> None:
    """The horizontal axis over `steps`. Its first label names the unit, which saves a line of text below the chart."""
    first, last = steps
    ticks = [tick for tick in _round_numbers(first, last, parts, integer=True) if first <= tick <= last] or [first]
    short = all(tick < 1e4 or tick % _last_digit(tick) == 0 for tick in ticks)
    labels = [tick_label(tick) if short else f"{tick:,.0f}" for tick in ticks]
    axes.set_xticks(ticks, [f"{unit} {labels[0]}", *labels[1:]])
    room = (last - first) * 4 / axes.bbox.width or 1.0
    axes.set_xlim(first - room, last + room)


def _round_numbers(low: float, high: float, parts: int, integer: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, from at or below `low` to at or above `high`."""
    from matplotlib.ticker import MaxNLocator

    if high - low <= abs(high) * 1e-9:
        return [low]
    ticks = MaxNLocator(parts, steps=[1, 2, 5, 10], min_n_ticks=1, integer=integer).tick_values(low, high)
    return [0.0 if abs(tick) < (high - low) * 1e-6 else float(tick) for tick in ticks]


def _segments(axes: Any, ends: Sequence[tuple[Point, Point]], colour: str, width: float, kind: str) -> None:
    """Straight lines from point to point, in one path of the class `kind`."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if ends:
        path = Path(np.reshape(ends, (-1, 2)), [Path.MOVETO, Path.LINETO] * len(ends))
        path.should_simplify = False  # that would drop lines of no length
        look = {"edgecolor": css(colour), "linewidth": width, "capstyle": "round", "fill": False}
        axes.add_artist(PathPatch(path, transform=axes.transData, gid=kind, **look))


def _dots(axes: Any, points: Sequence[Point], colour: str, width: float, kind: str = "dots") -> None:
    """A dot at each point: a line of no length with round ends, because a marker would need an id of its own."""
    _segments(axes, [(point, point) for point in points], colour, width, kind)


def _text(
    axes: Any, place: Point, text: str, shift: Point, colour: str = "soft", coordinates: str = "data", kind: str = ""
) -> None:
    """Text `shift` CSS pixels to the right of and above a place."""
    look = {"color": css(colour), "gid": kind or None, "va": "center", "parse_math": False, "annotation_clip": False}
    axes.annotate(text, place, shift, coordinates, "offset points", **look)


def css(variable: str) -> str:
    """The placeholder for a CSS variable: a colour that nothing else has."""
    return f"#0000{COLOURS.index(variable) + 1:02x}"


def svg(axes: Any, label: str, kind: str, attributes: str = "") -> Markup:
    """What is drawn, as an <svg> of the class `kind`; `label` is for those who cannot see it."""
    from matplotlib import rc_context

    for artist in axes.figure.findobj():
        artist.set_clip_on(False)  # a clipping path would need an id, which several charts of a page would share
    drawn = io.StringIO()
    with rc_context({"svg.fonttype": "none", "image.composite_image": False}):
        axes.figure.savefig(drawn, format="svg", metadata={"Date": None})
    source = drawn.getvalue()
    source = source[source.index("<g ") : source.rindex("</svg>")]
    replaced = (
        (r' id="(?:[^"]*_\d+|image[^"]*)"', ""),
        (r' id="', ' class="'),  # what remains are the kinds given above
        (r' (?:d|x|y)="[^"]*"', lambda results: _short(results[0])),
        (r' transform="rotate\(-?0 [^"]*"', ""),
        (r'font(?:-[a-z]+)?: [^;"]*;? ?', ""),
        (r"#0000([0-9a-f]{2})", lambda results: f"var(--{COLOURS[int(results[1], 16) - 1]})"),
        (r"\n\s*", "\n"),
    )
    for pattern, new in replaced:
        source = re.sub(pattern, new, source)
    width, height = axes.figure.bbox.size
    head = Markup('<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}"{}>\n')
    return head.format(kind, width, height, label, attributes) + Markup(source + "</svg>")


def _short(attribute: str) -> str:
    """Coordinates with one decimal, and no line breaks between them."""
    text = re.sub(r"-?\d+\.\d+", lambda results: f"{float(results[0]):.1f}".removesuffix(".0"), attribute)
    return re.sub(r"\s*\n\s*| (?=[ML])|(?<=[ML]) ", "", text.replace(' "', '"'))
