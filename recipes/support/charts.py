"""The run report's charts: inline SVG, coloured by the page's CSS, and which metrics are drawn how."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

Record = dict[str, Any]
Point = tuple[float, float]

WIDTH, HEIGHT = 280.0, 128.0
LEFT, RIGHT, TOP, BOTTOM = 36.0, 8.0, 8.0, 20.0
MINUS = "\N{MINUS SIGN}"

# (metric, name on the page, what it is), by section; score channels are put in after the pass rate.
CURVES: dict[str, list[tuple[str, str, str]]] = {
    "Reward": [
        ("reward", "Reward", "mean of the step"),
        ("pass_rate", "Pass rate", "share of samples that pass"),
    ],
    "Sampling and update": [
        ("degenerate_share", "Degenerate groups", "share of groups without a spread in reward"),
        ("completion_tokens", "Completion length", "tokens, mean"),
        ("truncated", "Truncated", "share cut off at the length limit"),
        ("entropy", "Entropy", "of the policy"),
        ("policy/entropy_avg", "Entropy", "of the policy, nats a token"),
        ("kl", "KL", "from the reference model"),
        ("objective/kl", "KL", "from the reference policy, nats a completion"),
        ("loss", "Loss", ""),
        ("loss/policy_avg", "Policy loss", "clipped surrogate"),
        ("policy/clipfrac_avg", "Clipped", "share of tokens whose ratio was clipped"),
        ("grad_norm", "Gradient norm", ""),
        ("learning_rate", "Learning rate", ""),
        ("lr", "Learning rate", ""),
    ],
    "Critic": [
        ("value/explained_variance", "Explained variance", "1: perfect, 0: knows the mean alone"),
        ("loss/value_avg", "Value loss", ""),
        ("val/clipfrac_avg", "Clipped values", "share of states"),
        ("value/grad_norm", "Gradient norm", "of the critic"),
    ],
}
TIME_CURVES = [
    ("seconds/total", "Time a step", "seconds"),
    ("tokens_per_second", "Throughput", "tokens a second"),
]
PHASES = ("rollout", "grade", "wait", "update")


class Interval(NamedTuple):
    """A value with the ends of its interval, all fractions of 1; an end is None where none was recorded."""

    value: float
    low: float | None = None
    high: float | None = None


def numeric(value: Any) -> bool:
    """Whether a decoded JSON value is a number (NaN and infinities included, true and false not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: Any) -> bool:
    """Whether a decoded JSON value is a number that can be added up and drawn."""
    return numeric(value) and math.isfinite(value)


def number(value: float) -> str:
    """Text of a number at four significant digits: 0.3127, 3,840, 1.5e-6, nan."""
    if not math.isfinite(value):
        return str(value)
    if 1000 <= abs(value) < 1e7:
        text = f"{value:,.0f}"
    else:
        text = f"{value + 0.0:.4g}"  # + 0.0 turns minus zero into zero
        if "e" in text:
            mantissa, exponent = text.split("e")
            text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", MINUS)


def duration(seconds: float) -> str:
    """Seconds as `9.6 s`, `48 s`, `9 min 54 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def tick_label(value: float) -> str:
    """Text of a tick: as number(), with k or M for large ones so that it fits the margin."""
    for least, unit, letter in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if least <= abs(value) < 1e9:
            return number(value / unit) + letter
    return number(value)


def round_ticks(low: float, high: float, parts: int = 3) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) from at or below low to at or above high."""
    if high - low <= abs(high) * 1e-9:
        return [low]
    rough = (high - low) / parts
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def smooth_window(count: int) -> int:
    """Steps in the centred mean: an eighth of the run, odd, 5 to 51; 1 (no smoothing) under 8 steps."""
    return 1 if count < 8 else min(51, max(5, count // 8 | 1))


def smooth(values: Sequence[float], window: int) -> list[float]:
    """Centred mean over `window` values; at both ends over those of them that exist."""
    half = window // 2
    means = []
    for index in range(len(values)):
        near = values[max(0, index - half) : index + half + 1]
        means.append(sum(near) / len(near))
    return means


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the value axis: zero belongs to it unless the values vary little beside their size."""
    low, high = min(values), max(values)
    if high - low >= 0.2 * max(abs(low), abs(high)) or low == high:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def polyline(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def text_at(x: float, y: float, anchor: str, text: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def svg(width: float, height: float, label: str, parts: Sequence[str], kind: str) -> Markup:
    head = Markup('<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">')
    return head.format(kind, width, height, label) + Markup("".join(parts)) + Markup("</svg>")


class Frame:
    """The axes of a chart over steps: `steps` are the first and the last, so that charts beside each other agree."""

    def __init__(
        self, values: Sequence[float], steps: tuple[float, float], width: float = WIDTH, height: float = HEIGHT
    ):
        self.width, self.height, self.steps = width, height, steps
        self.ticks = round_ticks(*value_range(values))
        self.bottom = self.ticks[0]
        self.top = self.ticks[-1] if self.ticks[-1] > self.ticks[0] else self.ticks[0] + 1.0

    def across(self, step: float) -> float:
        first, last = self.steps
        share = (step - first) / (last - first) if last > first else 0.5
        return LEFT + 4 + share * (self.width - LEFT - RIGHT - 8)

    def up(self, value: float) -> float:
        return self.height - BOTTOM - (value - self.bottom) / (self.top - self.bottom) * (self.height - TOP - BOTTOM)

    def places(self, points: Sequence[Point]) -> list[Point]:
        return [(self.across(step), self.up(value)) for step, value in points]

    def axes(self, name: str = "step") -> list[str]:
        """Grid and labels; the first label of the lower axis says what it counts."""
        parts: list[str] = []
        for tick in self.ticks:
            kind = "zero" if tick == 0 else "grid"
            parts.append(f'<path class="{kind}" d="M{LEFT} {self.up(tick):.1f}H{self.width - RIGHT}"/>')
            parts.append(text_at(LEFT - 5, self.up(tick) + 3.5, "end", tick_label(tick)))
        first, last = self.steps
        inside = [tick for tick in round_ticks(first, last, 3) if first <= tick <= last] or [first]
        for index, tick in enumerate(inside):
            # The first label names the axis, which saves a line of text below every chart.
            text = f"{name} {tick_label(tick)}" if index == 0 else tick_label(tick)
            parts.append(text_at(self.across(tick), self.height - 4, "middle", text))
            parts.append(f'<path class="grid" d="M{self.across(tick):.1f} {self.height - BOTTOM}v4"/>')
        return parts


def dots(places: Sequence[Point]) -> str:
    """Path data of a dot at each place: a subpath of almost no length with round caps, at a third of a <circle>."""
    return "".join(f"M{x:.1f} {y:.1f}h.01" for x, y in places)


def line_chart(points: Sequence[Point], label: str, steps: tuple[float, float], window: int) -> Markup:
    """Chart of (step, value): every value as a faint dot, their centred mean as a line, the last one marked.

    `steps` are the first and last step of the run, so that charts beside each other share their axis.
    Values that are not finite are left out; with none left the chart is empty.
    """
    points = [(step, value) for step, value in points if finite(value)]
    if not points:
        return Markup("")
    values = [value for _, value in points]
    frame = Frame(values, steps)
    places = frame.places(points)
    means = frame.places(list(zip((step for step, _ in points), smooth(values, window), strict=True)))
    parts = frame.axes()
    parts.append(f'<path class="dots" d="{dots(places)}"/>')
    parts.append(f'<path class="line" d="{polyline(means)}"/>')
    parts.append(f'<circle class="last" cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="2.6"/>')
    return svg(WIDTH, HEIGHT, label, parts, "chart")


def comparison_chart(
    curves: Mapping[str, Sequence[Point]],
    label: str,
    unit: str = "step",
    bands: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Markup:
    """Smoothed lines of (`unit`, value) on shared axes, each named at its end; the n-th has the class c{n modulo 8}.

    `bands`: of a curve by name, low and high at each of its points, drawn as they are behind the lines.

    Values must be finite; curves without any are left out. Empty where none is left.
    """
    width, height, bottom_margin, right = 960.0, 340.0, 24.0, 60.0
    means = {}
    for name, points in curves.items():
        smoothed = smooth([value for _, value in points], smooth_window(len(points)))
        means[name] = [(step, mean) for (step, _), mean in zip(points, smoothed, strict=True)]
    steps = [step for points in means.values() for step, _ in points]
    if not steps:
        return Markup("")
    values = [value for points in means.values() for _, value in points]
    edges = [edge for band in (bands or {}).values() for pair in band for edge in pair]
    ticks = round_ticks(*value_range(values + edges), 4)
    low, high = ticks[0], ticks[-1] if ticks[-1] > ticks[0] else ticks[0] + 1.0
    first, last = min(steps), max(steps)

    def across(step: float) -> float:
        return LEFT + (step - first) / (last - first or 1) * (width - LEFT - right)

    def up(value: float) -> float:
        return height - bottom_margin - (value - low) / (high - low) * (height - TOP - bottom_margin)

    parts: list[str] = []
    for tick in ticks:
        kind = "zero" if tick == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {up(tick):.1f}H{width - right}"/>')
        parts.append(text_at(LEFT - 5, up(tick) + 3.5, "end", tick_label(tick)))
    for index, tick in enumerate(t for t in round_ticks(first, last, 6) if first <= t <= last):
        parts.append(
            text_at(across(tick), height - 6, "middle", f"{unit} {tick_label(tick)}" if not index else tick_label(tick))
        )
    for index, (name, points) in enumerate(means.items()):
        if band := (bands or {}).get(name):
            xs = [across(step) for step, _ in points]
            under = [(x, up(edge)) for x, (edge, _) in zip(xs, band, strict=True)]
            over = [(x, up(edge)) for x, (_, edge) in zip(xs, band, strict=True)]
            parts.append(f'<path class="band c{index % 8}" d="{polyline([*under, *reversed(over)])}Z"/>')
    ends = []
    for index, (name, points) in enumerate(means.items()):
        if points:
            kind = f"line c{index % 8}" + " dashed" * (index // 8 % 2)
            parts.append(f'<path class="{kind}" d="{polyline([(across(s), up(v)) for s, v in points])}"/>')
            ends.append((up(points[-1][1]), across(points[-1][0]), name, index))
    return svg(width, height, label, [*parts, *names_beside(ends)], "comparison")


def names_beside(ends: Sequence[tuple[float, float, str, int]]) -> Iterator[Markup]:
    """Names of lines, from (y, x, name, number) of their ends; those that end together stand one below the other."""
    below = 0.0
    for y, x, name, index in sorted(ends):
        below = max(y, below + 11)
        named = Markup('<text class="c{}" x="{:.1f}" y="{:.1f}">{}</text>')
        yield named.format(index % 8, x + 6, below + 3.5, name)


def interval_chart(before: Interval | None, after: Interval | None, top: float, label: str) -> Markup:
    """Before (hollow) above after (filled), each a dot on its interval; the axis holds 0 to `top`."""
    width, left, right = 280.0, 12.0, 16.0
    ticks = [tick for tick in round_ticks(0.0, top, 4) if tick <= 1.0 + 1e-9]

    def across(value: float) -> float:
        return left + value / ticks[-1] * (width - left - right)

    parts: list[str] = []
    for tick in ticks:
        parts.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="M{across(tick):.1f} 2V38"/>')
        parts.append(Markup('<g class="axis">{}</g>').format(text_at(across(tick), 50, "middle", f"{tick:.0%}")))
    for kind, row, y in (("before", before, 13.0), ("after", after, 27.0)):
        if row is None:
            continue
        if row.low is not None and row.high is not None:
            parts.append(f'<path class="{kind}" d="M{across(row.low):.1f} {y}H{across(row.high):.1f}"/>')
        parts.append(f'<circle class="{kind}" cx="{across(row.value):.1f}" cy="{y}" r="4"/>')
    return svg(width, 54, label, parts, "intervals")


def stacked_bar(seconds: Sequence[float], label: str) -> Markup:
    """One bar split in proportion to `seconds`; part i has the class part-i. Empty when they sum to zero."""
    total = sum(seconds)
    if total <= 0:
        return Markup("")
    parts, x = [], 0.0
    for index, value in enumerate(seconds):
        wide = value / total * 960
        parts.append(f'<rect class="part-{index}" x="{x:.2f}" y="0" width="{max(wide - 1, 0.5):.2f}" height="20"/>')
        x += wide
    return Markup(str(svg(960, 20, label, parts, "bar")).replace("<svg ", '<svg preserveAspectRatio="none" ', 1))


def curve(steps: dict[int, Record], key: str, name: str, about: str) -> Record | None:
    """What the page shows of one metric: its chart and last value; None where no row has it."""
    points = [(step, row[key]) for step, row in steps.items() if numeric(row.get(key))]
    if not points:
        return None
    # A schedule has no noise to smooth, and a mean would bend its corners.
    window = 1 if key == "learning_rate" else smooth_window(len(points))
    last = number(points[-1][1])
    drawn = line_chart(points, f"{name} by step, last value {last}", (min(steps), max(steps)), window)
    odd = sum(not math.isfinite(value) for _, value in points)
    return {"name": name, "about": about, "last": last, "exact": points[-1][1], "svg": drawn, "odd": odd}


def curve_sections(steps: dict[int, Record]) -> list[tuple[str, list[Record]]]:
    """Sections of curves, those without a value left out; metrics this page does not know come last."""
    for row in steps.values():
        if numeric(row.get("groups_skipped")) and numeric(row.get("groups_total")) and row["groups_total"] > 0:
            row["degenerate_share"] = row["groups_skipped"] / row["groups_total"]
    keys = list(dict.fromkeys(key for row in steps.values() for key in row))
    drawn = {key for key in keys if key.startswith("memory/")}
    drawn |= {"step", "seconds/total", "tokens_per_second", *(f"seconds/{phase}" for phase in (*PHASES, "grading"))}
    if "degenerate_share" in keys:
        drawn |= {"groups_skipped", "groups_total"}
    sections = []
    for title, known in CURVES.items():
        scores = [(key, key.removeprefix("scores/"), "score, mean") for key in keys if key.startswith("scores/")]
        listed = known + (scores if title == "Reward" else [])
        drawn.update(key for key, _, _ in listed)
        sections.append((title, [curve(steps, *item) for item in listed]))
        if title == "Reward":
            measured = [
                (k, k.replace("/", ": ", 1), "measured, mean") for k in keys if f"scores/{k.split('/')[0]}" in keys
            ]
            drawn.update(key for key, _, _ in measured)
            sections.append(("Measured by the channels", [curve(steps, *item) for item in measured]))
    sections.append(("Everything else", [curve(steps, key, key, "") for key in keys if key not in drawn]))
    return [(title, shown) for title, found in sections if (shown := [item for item in found if item])]


def phases(rows: list[Record]) -> Record | None:
    """Seconds and share of each phase over the run, with what no phase accounts for; None without any."""
    spent: dict[str, float] = {}
    for phase in (*PHASES, "total"):
        values = [row[f"seconds/{phase}"] for row in rows if finite(row.get(f"seconds/{phase}"))]
        if values:
            spent[phase] = sum(values)
    in_turn = spent.get("rollout", 0.0) + spent.get("grade", 0.0)
    if spent.get("wait", in_turn) < 0.99 * in_turn:  # sampled and graded beside the update: its wait is all that counts
        spent = {phase: value for phase, value in spent.items() if phase not in ("rollout", "grade")}
    else:
        spent.pop("wait", None)
    rest = spent.pop("total", 0.0) - sum(spent.values())
    total = sum(spent.values()) + max(rest, 0.0)
    if not spent or total <= 0:
        return None
    if rest > 0.005 * total:
        spent["other"] = rest
    bar = stacked_bar(list(spent.values()), "Time by phase")
    parts = [(phase, duration(value), f"{value / total:.0%}") for phase, value in spent.items()]
    return {"bar": bar, "parts": parts, "total": duration(total)}
