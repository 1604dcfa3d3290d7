"""Memory of each phase, measured beside planned: what the report shows of metrics.jsonl, evals.jsonl and plan.json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recipes.cli.console import number
from recipes.records.jsonl import Record, finite
from recipes.tools.memory.quantities import PHASES
from recipes.tools.report.charts import memory_bars


def memory(rows: Iterable[Record], plan: Record | None) -> dict[str, Any] | None:
    """{svg, note} of the phases' peaks in GiB; None where none was measured. Arguments as those of `by_phase`."""
    measured, planned = by_phase(rows, plan)
    if not measured:
        return None
    budget = (plan or {}).get("budget_gib")
    bars = {phase: (measured.get(phase), planned.get(phase)) for phase in PHASES if phase in measured | planned}
    both = [phase for phase in measured if phase in planned]
    note = "Filled bars are the most that was measured."
    if both:
        fullest = max(both, key=lambda phase: planned[phase])
        share = f"{measured[fullest] / planned[fullest]:.0%}"
        note = (
            f"Filled bars are the most that was measured, outlined bars are the plan. {fullest.capitalize()} has the "
        )
        note += f"highest plan, and the measurement is {share} of it."
    if budget:
        note += f" Budget: {number(round(budget, 2))} GiB."
    if (plan or {}).get("keeps_freed"):
        note += " There is room for twice the plan, so freed memory is kept for reuse, and more is held."
    return {"svg": memory_bars(bars, budget), "note": note}


def by_phase(rows: Iterable[Record], plan: Record | None) -> tuple[dict[str, float], dict[str, float]]:
    """GiB that each phase held at most, and those planned, both in the order of `PHASES`.

    Args:
        rows: of metrics and evaluations, `memory/<phase>` in GiB.
        plan: Plan.as_dict; None where the run has none.
    """
    every, parts = list(rows), (plan or {}).get("phases", {})
    peaks = {phase: [row[f"memory/{phase}"] for row in every if finite(row.get(f"memory/{phase}"))] for phase in PHASES}
    measured = {phase: max(values) for phase, values in peaks.items() if values}
    return measured, {phase: sum(parts[phase].values()) for phase in PHASES if phase in parts}
