"""How held-out answers ended at the first and the last evaluation: each verdict's count, and which became which."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from recipes.records.jsonl import split_name
from recipes.tools.report.figures import decoding_name, of_last_evaluation
from recipes.tools.report.templates import render

ROW, LEFT, STEP = 26, 150, 30
"""Of a drawing, in CSS pixels: height of a room's strip, where the strips begin, width of an action."""
SHOWN = 16
"""Actions that are drawn, the last ones."""
REFUSED = re.compile(r"Exception: Robot(GoTo|Ask)Error")
WRONG = re.compile(r"Robot(\w+)Error")


def latest_answers(samples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of eval_samples.jsonl without those of an evaluation that was made again: where a run was prolonged, or
    evaluated before training with other settings, the later answers hold."""
    kept: dict[tuple, tuple[tuple, dict[tuple, int]]] = {}  # step and split, and the row of each answer by its place
    rows = list(samples)
    for number, row in enumerate(rows):
        evaluation = row.get("task"), row.get("temperature"), row.get("when")
        made, place = (int(row.get("step") or 0), row.get("split")), (row.get("task_id"), row.get("sample", number))
        if evaluation not in kept or kept[evaluation][0] != made or place in kept[evaluation][1]:
            kept[evaluation] = made, {}
        kept[evaluation][1][place] = number
    return [rows[number] for number in sorted(n for _, places in kept.values() for n in places.values())]


def verdict_tables(samples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table for each task and decoding of eval_samples.jsonl, of the first and the last evaluation.

    Keys: task, decoding, `stages` (the names of both evaluations, the first "" where there is one alone), `splits`
    (what the problems of each are called), `answers` (how many each has), `names` (the verdicts, the most frequent
    first) and `rows`: (verdict, its count at first, its count at last, and for each verdict of `names` how many answers
    with the row's verdict at first got it at last).
    """
    stages_of: dict[tuple[str, float], dict[str, dict[tuple[str, int], str]]] = defaultdict(lambda: defaultdict(dict))
    latest: dict[tuple[tuple[str, float], str], int] = {}  # a run that was prolonged ended more than once
    splits: dict[tuple[tuple[str, float], str], str] = {}
    for row in sorted(samples, key=lambda row: int(row.get("step") or 0)):
        kind = (str(row.get("task")), float(row.get("temperature") or 0.0))
        place = (str(row.get("task_id")), int(row.get("sample") or 0))
        stages_of[kind][str(row.get("when"))][place] = str(row.get("verdict") or "none")
        latest[kind, str(row.get("when"))] = int(row.get("step") or 0)
        splits[kind, str(row.get("when"))] = split_name(row)
    tables = []
    for (task, temperature), stages in stages_of.items():
        *earlier, when = sorted(stages, key=lambda stage: latest[(task, temperature), stage])
        first = earlier[0] if earlier else ""
        before, after = stages.get(first, {}), stages[when]
        counts = Counter(before.values()), Counter(after.values())
        names = sorted(counts[0] | counts[1], key=lambda name: (-counts[0][name] - counts[1][name], name))
        pairs = Counter((before[place], after[place]) for place in before.keys() & after.keys())
        became = names if pairs else []
        tables.append(
            {
                "task": task,
                "decoding": decoding_name(temperature),
                "names": became,
                "rows": [(n, counts[0][n], counts[1][n], [pairs[n, m] for m in became]) for n in names],
                "stages": (first, when),
                "splits": tuple(splits.get(((task, temperature), stage), "") for stage in (first, when)),
                "answers": (len(before), len(after)),
            }
        )
    return tables


def robot_drawing(detail: dict[str, Any]) -> Markup:
    """An SVG of a robot's run: a strip for each room, its actions from left to right, the call that failed in red.

    `detail` is that of rewards.robot: rooms, start, trace of (kind, text), error. A world that refuses a GoTo or an
    Ask has put it into the trace; any other call that fails has left nothing there, and is drawn behind the rest.
    """
    rooms, events, error = list(detail["rooms"]), list(detail["trace"]), detail.get("error") or ""
    refused, wrong = REFUSED.match(error), WRONG.search(error)
    if error and not (events and refused and refused[1] == events[-1][0]):
        events.append((wrong[1] if wrong else "!", error))
    place = rooms.index(detail["start"]) if detail.get("start") in rooms else 0
    earlier, events = events[:-SHOWN], events[-SHOWN:]
    for kind, text in earlier:
        place = _entered(rooms, kind, text, place)
    actions = [{"x": LEFT + STEP // 2, "y": ROW * place + 11}]
    for number, (kind, text) in enumerate(events, 1):
        place = _entered(rooms, kind, text, place)
        last = number == len(events)
        action = {"x": LEFT + STEP * number + STEP // 2, "y": ROW * place + 11, "kind": kind, "text": text}
        actions.append(action | {"failed": bool(error) and last})
    kinds = list(dict.fromkeys(kind for kind, _ in events if kind != "!"))
    key = ", ".join([f"{kind[0]} {kind}" for kind in kinds] + [f"{len(earlier)} earlier actions"] * bool(earlier))
    label = f"{len(earlier) + len(events)} actions over {len(rooms)} rooms"
    size = {"row": ROW, "left": LEFT, "width": LEFT + STEP * (SHOWN + 1), "height": ROW * len(rooms) + 30}
    return Markup(render("robot.svg.j2", rooms=rooms, actions=actions, error=error, key=key, label=label, **size))


def _entered(rooms: list[str], kind: str, text: str, place: int) -> int:
    """The room's number after an action."""
    if kind != "GoTo":
        return place
    return next((n for n, room in enumerate(rooms) if room.lower() in text.lower()), place)


def robot_runs(samples: Iterable[dict[str, Any]], most: int = 4) -> list[dict[str, Any]]:
    """Drawings of the last evaluation's runs, the longest of each verdict: {task_id, verdict, note, svg}."""
    runs = [row for row in samples if ((row.get("details") or {}).get("simulator") or {}).get("rooms")]
    longest: dict[str, dict[str, Any]] = {}
    for row in sorted(of_last_evaluation(runs), key=lambda row: -len(row["details"]["simulator"]["trace"])):
        longest.setdefault(str(row.get("verdict")), row)
    return [
        {"task_id": row.get("task_id"), "verdict": verdict, "note": row.get("note") or "", "svg": svg}
        for verdict, row in list(longest.items())[:most]
        for svg in [robot_drawing(row["details"]["simulator"])]
    ]
