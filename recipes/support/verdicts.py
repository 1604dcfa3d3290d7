"""How held-out answers ended before and after training: each verdict's count, and which became which."""

from __future__ import annotations

import html
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

MOST_CHANGES = 12
ROW, LEFT, STEP = 26, 150, 30
"""Of a drawing, in pixels: height of a room's strip, where the strips begin, width of an action."""


def verdict_tables(samples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each task and decoding of eval_samples.jsonl: rows (verdict, before, after), and the changes most common
    first as (before, after, count), over the answers that both evaluations gave to the same place."""
    found: dict[tuple[str, float], dict[str, dict[tuple[str, int], str]]] = defaultdict(lambda: defaultdict(dict))
    for row in samples:
        kind = (str(row.get("task")), float(row.get("temperature") or 0.0))
        place = (str(row.get("task_id")), int(row.get("sample") or 0))
        found[kind][str(row.get("when"))][place] = str(row.get("verdict") or "none")
    tables = []
    for (task, temperature), stages in found.items():
        before, after = stages.get("before", {}), stages.get("after", {})
        counts = Counter(before.values()), Counter(after.values())
        names = sorted(set(counts[0]) | set(counts[1]), key=lambda name: -counts[0][name] - counts[1][name])
        changed = Counter((before[p], after[p]) for p in before.keys() & after.keys() if before[p] != after[p])
        tables.append(
            {
                "task": task,
                "decoding": "greedy" if temperature == 0 else f"temperature {temperature:g}",
                "rows": [(name, counts[0][name], counts[1][name]) for name in names],
                "answers": (len(before), len(after)),
                "changes": [(a, b, n) for (a, b), n in changed.most_common(MOST_CHANGES)],
            }
        )
    return tables


def robot_drawing(detail: dict[str, Any]) -> str:
    """An SVG of a robot's run: a strip for each room, its actions from left to right, the call that failed in red.

    `detail` is that of rewards.simulator: rooms, start, trace of (kind, text), error.
    """
    rooms, events, error = list(detail["rooms"]), list(detail["trace"]), detail.get("error") or ""
    width, height = LEFT + STEP * (len(events) + 2), ROW * len(rooms) + 30
    place = rooms.index(detail["start"]) if detail.get("start") in rooms else 0
    strips = "".join(
        f'<rect x="{LEFT}" y="{ROW * n}" width="{width - LEFT}" height="{ROW - 4}" class="room"/>'
        f'<text x="{LEFT - 8}" y="{ROW * n + 15}" text-anchor="end">{html.escape(room)}</text>'
        for n, room in enumerate(rooms)
    )
    marks, points = [], [(LEFT + STEP / 2, ROW * place + 11.0)]
    for number, (kind, text) in enumerate(events, 1):
        if kind == "GoTo":
            place = next((n for n, room in enumerate(rooms) if room.lower() in text.lower()), place)
        x, y = LEFT + STEP * number + STEP / 2, ROW * place + 11.0
        points.append((x, y))
        failed = " failed" if error and number == len(events) else ""
        said = html.escape(f"{kind}: {text}", quote=True)
        marks.append(
            f'<g class="action{failed}"><title>{said}</title><circle cx="{x:g}" cy="{y:g}" r="8"/>'
            f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{html.escape(kind[:1])}</text></g>'
        )
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    note = f'<text x="{LEFT}" y="{height - 8}" class="error">{html.escape(error[:110])}</text>' if error else ""
    label = html.escape(f"{len(events)} actions over {len(rooms)} rooms", quote=True)
    return (
        f'<svg class="robot" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">'
        f'{strips}<polyline points="{line}"/>{"".join(marks)}{note}</svg>'
    )


def robot_runs(samples: Iterable[dict[str, Any]], most: int = 4) -> list[dict[str, Any]]:
    """Drawings of the last evaluation's runs, one a verdict at most: {task_id, verdict, note, svg}."""
    last: dict[str, dict[str, Any]] = {}
    for row in samples:
        detail = (row.get("details") or {}).get("simulator") or {}
        if detail.get("rooms"):
            last[str(row.get("verdict"))] = row
    return [
        {
            "task_id": row.get("task_id"),
            "verdict": verdict,
            "note": row.get("note") or "",
            "svg": robot_drawing(row["details"]["simulator"]),
        }
        for verdict, row in list(last.items())[:most]
    ]
