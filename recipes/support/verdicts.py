"""How held-out answers ended at the first and the last evaluation: each verdict's count, and which became which."""

from __future__ import annotations

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

ROW, LEFT, STEP, SHOWN = 26, 150, 30, 16
"""Of a drawing, in pixels: height of a room's strip, where the strips begin, width of an action; how many actions."""
WIDTH = LEFT + STEP * (SHOWN + 1)
REFUSED = re.compile(r"Exception: Robot(GoTo|Ask)Error")
WRONG = re.compile(r"Robot(\w+)Error")


def verdict_tables(samples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each task and decoding of eval_samples.jsonl: rows (verdict, first, last, became) of its two `stages`, the
    first and the last evaluation, one where there is no other. `became` counts for each verdict of `names` the answers
    that had it in the place of one that ended as the row's first."""
    found: dict[tuple[str, float], dict[str, dict[tuple[str, int], str]]] = defaultdict(lambda: defaultdict(dict))
    for row in samples:
        kind = (str(row.get("task")), float(row.get("temperature") or 0.0))
        place = (str(row.get("task_id")), int(row.get("sample") or 0))
        found[kind][str(row.get("when"))][place] = str(row.get("verdict") or "none")
    tables = []
    for (task, temperature), stages in found.items():
        *earlier, when = stages
        before, after = stages[earlier[0]] if earlier else {}, stages[when]
        counts = Counter(before.values()), Counter(after.values())
        names = sorted(set(counts[0]) | set(counts[1]), key=lambda name: (-counts[0][name] - counts[1][name], name))
        pairs = Counter((before[p], after[p]) for p in before.keys() & after.keys())
        tables.append(
            {
                "task": task,
                "decoding": "greedy" if temperature == 0 else f"temperature {temperature:g}",
                "names": names if pairs else [],
                "rows": [(n, counts[0][n], counts[1][n], [pairs[n, m] for m in names if pairs]) for n in names],
                "stages": (earlier[0] if earlier else "", when),
                "answers": (len(before), len(after)),
            }
        )
    return tables


def robot_drawing(detail: dict[str, Any]) -> str:
    """An SVG of a robot's run: a strip for each room, its actions from left to right, the call that failed in red.

    `detail` is that of rewards.simulator: rooms, start, trace of (kind, text), error. A world that refuses a GoTo or an
    Ask has put it into the trace; any other call that fails has left nothing there, and is drawn behind the rest.
    """
    rooms, events, error = list(detail["rooms"]), list(detail["trace"]), detail.get("error") or ""
    refused, wrong = REFUSED.match(error), WRONG.search(error)
    if error and not (events and refused and refused[1] == events[-1][0]):
        events.append((wrong[1] if wrong else "!", error))
    earlier, events = events[:-SHOWN], events[-SHOWN:]
    width, height = WIDTH, ROW * len(rooms) + 30
    place = rooms.index(detail["start"]) if detail.get("start") in rooms else 0
    for kind, text in earlier:
        place = _entered(rooms, kind, text, place)
    strips = "".join(
        f'<rect x="{LEFT}" y="{ROW * n}" width="{width - LEFT}" height="{ROW - 4}" class="room"/>'
        f'<text x="{LEFT - 8}" y="{ROW * n + 15}" text-anchor="end">{html.escape(room)}</text>'
        for n, room in enumerate(rooms)
    )
    marks, points = [], [(LEFT + STEP / 2, ROW * place + 11.0)]
    for number, (kind, text) in enumerate(events, 1):
        place = _entered(rooms, kind, text, place)
        x, y = LEFT + STEP * number + STEP / 2, ROW * place + 11.0
        points.append((x, y))
        failed = " failed" if error and number == len(events) else ""
        said = html.escape(f"{kind}: {text}", quote=True)
        marks.append(
            f'<g class="action{failed}"><title>{said}</title><circle cx="{x:g}" cy="{y:g}" r="8"/>'
            f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{html.escape(kind[:1])}</text></g>'
        )
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    (start_x, start_y), kinds = points[0], list(dict.fromkeys(kind for kind, _ in events if kind != "!"))
    start = f'<circle class="start" cx="{start_x:g}" cy="{start_y:g}" r="4"/>'
    note = f'<text x="{LEFT}" y="{height - 8}" class="error">{html.escape(error[:60])}</text>' if error else ""
    key = ", ".join([f"{kind[0]} {kind}" for kind in kinds] + [f"{len(earlier)} earlier actions"] * bool(earlier))
    label = html.escape(f"{len(earlier) + len(events)} actions over {len(rooms)} rooms", quote=True)
    return (
        f'<svg class="robot" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">'
        f'{strips}<polyline points="{line}"/>{start}{"".join(marks)}{note}'
        f'<text x="{width}" y="{height - 8}" text-anchor="end" class="key">{html.escape(key)}</text></svg>'
    )


def _entered(rooms: list[str], kind: str, text: str, place: int) -> int:
    """The room's number after an action."""
    if kind != "GoTo":
        return place
    return next((n for n, room in enumerate(rooms) if room.lower() in text.lower()), place)


def robot_runs(samples: Iterable[dict[str, Any]], most: int = 4) -> list[dict[str, Any]]:
    """Drawings of the last evaluation's runs, the longest of each verdict: {task_id, verdict, note, svg}."""
    runs = [row for row in samples if ((row.get("details") or {}).get("simulator") or {}).get("rooms")]
    longest: dict[str, dict[str, Any]] = {}
    for row in sorted(runs, key=lambda row: -len(row["details"]["simulator"]["trace"])):
        if row.get("when") == runs[-1].get("when"):
            longest.setdefault(str(row.get("verdict")), row)
    return [
        {
            "task_id": row.get("task_id"),
            "verdict": verdict,
            "note": row.get("note") or "",
            "svg": robot_drawing(row["details"]["simulator"]),
        }
        for verdict, row in list(longest.items())[:most]
    ]
