"""One self-contained HTML page about a run; `python -m recipes.tools.report.page RUN_DIR` writes it there."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import defaultdict
from pathlib import Path

from recipes.evaluation.base_tests import with_base_tests
from recipes.records.directory import write_text
from recipes.records.jsonl import (
    Record,
    by_step,
    finite,
    model_name,
    problem_count,
    problem_kinds,
    read_config,
    read_jsonl,
    setting,
    split_name,
    stream_jsonl,
)
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.history import history, shares_passed, with_splits
from recipes.tools.report.charts import Interval, interval_chart, smooth_window
from recipes.tools.report.curves import completions_per_prompt, curve_sections, duration, graded_samples, phases
from recipes.tools.report.fields import field_drawings
from recipes.tools.report.figures import figures, of_last_evaluation
from recipes.tools.report.memory_chart import memory
from recipes.tools.report.samples import sample_sections
from recipes.tools.report.templates import render
from recipes.tools.report.verdicts import latest_answers, robot_runs, verdict_tables


def write_report(run_dir: Path) -> Path:
    """Write RUN_DIR/report.html from the run's files and return its path.

    Raises FileNotFoundError without config.yaml and ValueError for a file that cannot be read as what it is.
    """
    config, text = read_config(run_dir / "config.yaml")
    rows, evals, answers = (read_jsonl(run_dir / f"{name}.jsonl") for name in ("metrics", "evals", "eval_samples"))
    every_answer = list(with_splits(answers, evals))
    answers = latest_answers(every_answer)
    shown = with_base_tests(evals)
    steps = by_step(rows)
    sections, scales = sample_sections(run_dir / "completions.jsonl")
    plan = next(iter(read_jsonl(run_dir / "plan.json")), None)
    curves = curve_sections(steps)
    command = config.get("command") or ""
    page = render(
        "page.html.j2",
        run=run_dir.resolve().name,
        title={key: pick(config, f"{key}.name") for key in ("recipe", "task")}
        | {"model": model_name(config), "seed": pick(config, "seed")},
        summary=summary(rows, steps, config),
        diagnosis=diagnose(
            history(config, steps, stream_jsonl(run_dir / "completions.jsonl"), evals, shares_passed(every_answer))
        ),
        gains=gains(shown),
        before_from=pick(config, "evaluation.before_from"),
        adapter=pick(config, "adapter"),
        verdicts=verdict_tables(answers),
        robots=robot_runs(answers),
        fields=field_drawings(answers),
        evals=[record | {"decoding": decoding(record)} for record in shown],
        ks=sorted({k for record in evals for k in record.get("pass@k") or {}}, key=lambda k: (len(k), k)),
        interval=interval,
        one_split=len({split_name(row) for row in answers}) == 1,
        kinds=problem_kinds(answers),
        last_kinds=problem_kinds(of_last_evaluation(answers)),
        pictures=figures(steps, evals, answers, pick(config, "task.name")),
        times=curves.pop("Time", []),
        curves=curves,
        window=smooth_window(len(steps)),
        phases=phases(rows),
        memory=memory([*rows, *evals], plan),
        sections=sections,
        scales=scales,
        places=max((len(card["channels"]) for section in sections for card in section["cards"]), default=0),
        config=text,
        command=shlex.join(map(str, command)) if isinstance(command, list) else str(command),
    )
    # A completion can hold half of a surrogate pair, which UTF-8 cannot hold: it becomes a question mark.
    write_text(run_dir / "report.html", page.encode("utf-8", errors="replace").decode())
    return run_dir / "report.html"


def pick(config: Record, dotted: str) -> str:
    """Text of the config value at a dotted key, "" where it is absent or a mapping."""
    value = setting(config, dotted)
    return "" if value is None or isinstance(value, dict) else str(value)


def summary(rows: list[Record], steps: dict[int, Record], config: Record) -> list[str]:
    """The parts of the line below the title; sums count repeated steps too, since their time was spent."""
    if not rows:
        return ["No step recorded yet."]
    parts = [f"{len(steps):,} step" + "s" * (len(steps) != 1)]
    drawn = graded_samples(rows)
    if drawn is None:  # a run of an older version
        groups = [row["groups_total"] for row in rows if finite(row.get("groups_total"))]
        drawn = rows[-1].get("episode")  # PPO counts its completions itself
        if len(groups) == len(rows):
            drawn = sum(groups) * completions_per_prompt(config)
    if drawn and finite(drawn):
        ungraded = sum(row["ungraded"] for row in rows if finite(row.get("ungraded")))
        parts.append(f"{drawn:,.0f} samples, {ungraded:,.0f} ungraded" if ungraded else f"{drawn:,.0f} graded samples")
    totals = [row["seconds/total"] for row in rows if finite(row.get("seconds/total"))]
    if totals:
        parts.append(duration(sum(totals)))
    if again := len(rows) - len(steps):
        parts.append(f"{again:,} step{'s' * (again != 1)} run again")
    return parts


def decoding(record: Record) -> str:
    """How an evaluation sampled: `greedy` or `temperature 1.0, 4 samples`; "" where it does not say."""
    temperature, samples = record.get("temperature"), record.get("samples")
    if temperature == 0:
        return "greedy"
    parts = [f"temperature {temperature}"] if temperature is not None else []
    return ", ".join(parts + ([f"{samples} samples"] if samples else []))


def interval(record: Record | None, k: str) -> Interval | None:
    """The pass@k of an evaluation, None where it has none."""
    share = ((record or {}).get("pass@k") or {}).get(k)
    if not isinstance(share, dict) or not finite(share.get("value")):
        return None
    return Interval(share["value"], *(share[end] if finite(share.get(end)) else None for end in ("low", "high")))


def gains(evals: list[Record]) -> list[Record]:
    """A row for each task, split and decoding: pass@1 before and after, with the gain in points.

    In a run that is not finished the latest evaluation stands in for the one after; `at` then says which.
    """
    grouped: dict[tuple[str, str, str], dict[str, Record]] = defaultdict(dict)
    for record in evals:
        key = (str(record.get("task", "")), str(record.get("split", "")), decoding(record))
        grouped[key][str(record.get("when", ""))] = record
    rows: list[Record] = []
    for (task, split, how), stages in grouped.items():
        between = [when for when in stages if when not in ("before", "after")]
        latest = max(between, key=lambda when: stages[when].get("step") or 0, default="")
        ended = (stages.get("after", {}).get("step") or 0) >= (stages.get(latest, {}).get("step") or 0)
        at = "after" if "after" in stages and ended else latest  # a run that is being prolonged has a later one
        before, after = interval(stages.get("before"), "1"), interval(stages.get(at), "1")
        gain = (after.value - before.value) * 100 if before and after else None
        counts = [problem_count(stages[when]) for when in ("before", at) if stages.get(when, {}).get("problems")]
        problems = ", ".join(dict.fromkeys(counts)) or None
        row: Record = {"task": task, "split": split, "decoding": how, "problems": problems}
        rows.append(row | {"before": before, "after": after, "gain": gain, "at": "" if at == "after" else at})
    ends = [end for row in rows for share in (row["before"], row["after"]) for end in share or () if end is not None]
    for row in rows:
        label = f"{row['task']}, {row['decoding']}: pass@1 before and after"
        row["svg"] = interval_chart(row["before"], row["after"], min(1.0, max(ends, default=1.0)) or 1.0, label)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """The command: 0 and the page's path on standard output, or 1 and what is wrong on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m recipes.tools.report.page", description="Write a run's report.html."
    )
    parser.add_argument("run_dir", type=Path, help="directory of the run, with its config.yaml")
    try:
        print(write_report(parser.parse_args(arguments).run_dir))
    except (OSError, ValueError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
