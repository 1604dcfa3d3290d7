"""Which metrics of a run the page draws, in which sections and under which names, and where its time went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from recipes.records.jsonl import Record, finite, numeric, setting
from recipes.tools.report.charts import curve_chart, smooth_window, stacked_bar

KNOWN: dict[str, dict[str, tuple[str, str]]] = {
    "Reward": {
        "reward": ("Reward", "mean of the step"),
        "pass_rate": ("Pass rate", "share of completions that pass"),
        "from_prompt/reward": ("Reward from the prompt", "of all answers to the prompt alone, trained on or not"),
        "from_prompt/pass_rate": ("Pass rate from the prompt", "of all answers to the prompt alone, trained on or not"),
    },
    "Measured by the channels": {},
    "Sampling and update": {
        "degenerate_share": ("Degenerate groups", "share of groups whose rewards are all equal"),
        "prefix/share": ("Reference shown", "share of the reference, mean over groups that were drawn again"),
        "prefix/groups": ("Drawn again", "groups without a pass, behind the beginning of their reference"),
        "curriculum/tried": ("Tried problems", "share of the first process's problems"),
        "curriculum/least": ("Least weight", "share of the first process's problems with the smallest weight"),
        "graded_samples": ("Graded answers", "sent to the channels in the step"),
        "completion_tokens": ("Completion length", "tokens, mean"),
        "truncated": ("Truncated", "share cut off at the length limit"),
        "entropy": ("Entropy", "of the policy"),
        "policy/entropy_avg": ("Entropy", "of the policy, nats a token"),
        "kl": ("KL", "from the reference policy"),
        "objective/kl": ("KL", "from the reference policy, nats a completion"),
        "loss": ("Loss", ""),
        "loss/policy_avg": ("Policy loss", "clipped surrogate"),
        "policy/clipfrac_avg": ("Clipped", "share of tokens whose ratio was clipped"),
        "grad_norm": ("Gradient norm", ""),
        "learning_rate": ("Learning rate", ""),
        "lr": ("Learning rate", ""),
    },
    "Critic": {
        "value/explained_variance": ("Explained variance", "1 is perfect; 0 is no better than the mean"),
        "loss/value_avg": ("Value loss", ""),
        "val/clipfrac_avg": ("Clipped values", "share of states"),
        "value/grad_norm": ("Gradient norm", "of the critic"),
    },
    "Time": {
        "seconds/total": ("Time a step", "seconds"),
        "tokens_per_second": ("Throughput", "tokens a second"),
    },
    "Everything else": {},
}
"""Section, then metric, then its name on the page and what it is."""
PHASES = ("rollout", "grade", "wait", "update")
SAMPLED_AGAIN = ("rollout_again", "continuations")
"""Further parts of a rollout: behind prefixes, and for Monte Carlo values."""
NOT_DRAWN = {"step", "groups_skipped", "groups_total", *(f"seconds/{phase}" for phase in (*PHASES, "grading"))}
"""Metrics that the page shows in another form."""


def duration(seconds: float) -> str:
    """Seconds as `9.6 s`, `48 s`, `9 min 54 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def completions_per_prompt(config: Record) -> int:
    """Completions of each prompt in a step, of any recipe; 0 where the configuration has no such setting."""
    names = ("recipe.samples_per_prompt", "recipe.trl.num_generations", "recipe.num_generations")
    return next((size for name in names if isinstance(size := setting(config, name), int)), 0)


def graded_samples(rows: Iterable[Record]) -> int | None:
    """How many answers were sent to the channels in these rows of metrics.jsonl; None where no row says it, as in runs
    of older versions."""
    counts = [row["graded_samples"] for row in rows if finite(row.get("graded_samples"))]
    return int(sum(counts)) if counts else None


def curve_sections(steps: Mapping[int, Record]) -> dict[str, list[Record]]:
    """Title of a section to its curves, without empty sections; see `_curve`. Arguments: metrics by step."""
    rows = {step: dict(row) for step, row in steps.items()}
    for row in rows.values():
        if numeric(row.get("groups_skipped")) and finite(row.get("groups_total")) and row["groups_total"] > 0:
            row["degenerate_share"] = row["groups_skipped"] / row["groups_total"]
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    channels = {key.removeprefix("scores/") for key in keys if key.startswith("scores/")}
    known = {key for section in KNOWN.values() for key in section}
    sections = {title: dict(section) for title, section in KNOWN.items()}
    for key in keys:
        if key.startswith("scores/"):
            sections["Reward"][key] = (key.removeprefix("scores/"), "score, mean")
        elif key.split("/")[0] in channels:
            sections["Measured by the channels"][key] = (key.replace("/", ": ", 1), "measured, mean")
        elif key not in known | NOT_DRAWN and not key.startswith("memory/"):
            sections["Everything else"][key] = (key, "")
    drawn = {
        title: [curve for key, names in section.items() if (curve := _curve(rows, key, *names))]
        for title, section in sections.items()
    }
    return {title: curves for title, curves in drawn.items() if curves}


def _curve(rows: Mapping[int, Record], key: str, name: str, about: str) -> Record | None:
    """One metric: {name, about, last, svg, odd}; `odd` counts its values that are not finite. None without a value."""
    points = [(step, row[key]) for step, row in rows.items() if numeric(row.get(key))]
    if not points:
        return None
    drawable = [(step, value) for step, value in points if math.isfinite(value)]
    # A schedule has no noise to smooth, and a mean would bend its corners.
    window = 1 if key in ("learning_rate", "lr") else smooth_window(len(points))
    chart = drawable and curve_chart([(name, drawable)], (min(rows), max(rows)), window=window, colours=("accent",))
    last, odd = points[-1][1], len(points) - len(drawable)
    return {"name": name, "about": about, "last": last, "svg": chart or "", "odd": odd}


def phases(rows: list[Record]) -> Record | None:
    """Time of each phase and its share of the run, with what belongs to no phase: {bar, parts}; None without any."""
    spent: dict[str, float] = {}
    for phase in (*PHASES, "total"):
        values = [row[f"seconds/{phase}"] for row in rows if finite(row.get(f"seconds/{phase}"))]
        if values:
            spent[phase] = sum(values)
    if seconds := sum(row.get(f"seconds/{part}") or 0.0 for row in rows for part in SAMPLED_AGAIN):
        spent["rollout"] = spent.get("rollout", 0.0) + seconds
    in_turn = spent.get("rollout", 0.0) + spent.get("grade", 0.0)
    if spent.get("wait", in_turn) < 0.99 * in_turn:  # rollout and grading ran beside the update, which waited for them
        spent = {phase: value for phase, value in spent.items() if phase not in ("rollout", "grade")}
    else:
        spent.pop("wait", None)
    rest = spent.pop("total", 0.0) - sum(spent.values())
    total = sum(spent.values()) + max(rest, 0.0)
    if not spent or total <= 0:
        return None
    if rest > 0.005 * total:
        spent["other"] = rest
    parts = [(phase, duration(value), f"{value / total:.0%}") for phase, value in spent.items()]
    return {"bar": stacked_bar(list(spent.values()), "Time by phase"), "parts": parts}
