"""Memory by phase, measured beside planned: what the report shows of metrics.jsonl, evals.jsonl and plan.json."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from recipes.support.charts import Record, finite, number, svg, text_at
from recipes.support.memory import PHASES

WIDE, ROW, LEFT, RIGHT, FOOT = 460.0, 30.0, 118.0, 56.0, 18.0


def memory(rows: Iterable[Record], plan: Record | None) -> dict[str, Any] | None:
    """{svg, note} of the phases' peaks in GiB; None where none was measured. Arguments as those of `by_phase`."""
    measured, planned = by_phase(rows, plan)
    if not measured:
        return None
    budget = (plan or {}).get("budget_gib")
    note = _note(measured, planned, budget)
    if (plan or {}).get("keeps_freed"):
        note += " There is room for twice the plan, so freed memory is kept for reuse, and more is held."
    return {"svg": _bars(measured, planned, budget), "note": note}


def by_phase(rows: Iterable[Record], plan: Record | None) -> tuple[dict[str, float], dict[str, float]]:
    """GiB that each phase held at most, and those planned.

    Args:
        rows: of metrics and evaluations, `memory/<phase>` in GiB.
        plan: Plan.as_dict; None where the run has none.
    """
    measured: dict[str, float] = {}
    for row in rows:
        for phase in PHASES:
            value = row.get(f"memory/{phase}", math.nan)
            if finite(value):
                measured[phase] = max(measured.get(phase, 0.0), value)
    planned = {phase: sum(parts.values()) for phase, parts in (plan or {}).get("phases", {}).items()}
    return measured, planned


def _note(measured: dict[str, float], planned: dict[str, float], budget: float | None) -> str:
    both = [phase for phase in measured if phase in planned]
    said = "Filled: the most that was held; outlined: what the plan said." if both else "The most that was held."
    if both:
        fullest = max(both, key=lambda phase: planned[phase])
        said += f" {fullest.capitalize()}, fullest by plan: {measured[fullest] / planned[fullest]:.0%} of it."
    return said + (f" Budget: {number(round(budget, 2))} GiB." if budget else "")


def _bars(measured: dict[str, float], planned: dict[str, float], budget: float | None) -> Any:
    shown = [phase for phase in PHASES if phase in measured or phase in planned]
    most = max([*measured.values(), *planned.values()])
    whole = WIDE - LEFT - RIGHT
    parts: list[str] = []
    for index, phase in enumerate(shown):
        top, held, said = index * ROW + 6, measured.get(phase), planned.get(phase)
        parts.append(text_at(LEFT - 8, top + 13, "end", phase))
        if held is not None:
            parts.append(f'<rect class="held" x="{LEFT}" y="{top}" width="{held / most * whole:.1f}" height="18"/>')
        if said is not None:
            wide = said / most * whole
            parts.append(f'<rect class="planned" x="{LEFT}" y="{top}" width="{wide:.1f}" height="18"/>')
        end = max(held or 0.0, said or 0.0) / most * whole
        value = number(round(held, 2)) if held is not None else f"({number(round(said or 0.0, 2))})"
        parts.append(text_at(LEFT + end + 6, top + 13, "start", value))
    if budget and budget <= most:
        x = LEFT + budget / most * whole
        parts.append(f'<path class="budget" d="M{x:.1f} 2V{len(shown) * ROW + 2}"/>')
    parts.append(text_at(LEFT, len(shown) * ROW + 14, "start", "GiB"))
    return svg(WIDE, len(shown) * ROW + FOOT, "Memory by phase, GiB, measured and planned", parts, "memory")
