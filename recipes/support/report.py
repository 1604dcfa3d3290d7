"""One self-contained HTML page about a run; `python -m recipes.support.report RUN_DIR` writes it there."""

import argparse
import json
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader

from recipes.support import charts
from recipes.support.charts import Interval, Record, duration, finite, numeric
from recipes.support.diagnosis import diagnose
from recipes.support.figures import figures
from recipes.support.history import history
from recipes.support.memory_chart import memory
from recipes.support.records import by_step, read_config, records, setting
from recipes.support.verdicts import robot_runs, verdict_tables

# The HTML parser would drop or mangle control characters in a completion: show their pictures instead.
CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}


class Sample(NamedTuple):
    """What choosing a completion needs; `offset` is where its line starts in completions.jsonl, in bytes."""

    offset: int
    step: int
    task_id: str
    reward: float


class Channel(NamedTuple):
    """One line of a completion's scores; `rewards` are per token, empty when the run recorded none."""

    name: str
    score: float | None
    weight: float | None
    note: str
    rewards: list[float]


def pick(config: Record, dotted: str) -> str:
    """Text of the config value at a dotted key, "" where it is absent or a mapping."""
    value = setting(config, dotted)
    return "" if value is None or isinstance(value, dict) else str(value)


def values_under(tree: Any, key: str) -> Iterator[Any]:
    """Every value stored under `key` anywhere in nested mappings and lists."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    if isinstance(tree, dict) and key in tree:
        yield tree[key]
    for child in children:
        yield from values_under(child, key)


def as_text(value: Any) -> str:
    """A value of completions.jsonl as text to show, control characters as their pictures."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r\n", "\n").translate(CONTROL_PICTURES)


def summary(rows: list[Record], steps: dict[int, Record], config: Record) -> list[str]:
    """The parts of the line below the title; sums count repeated steps too, since their time was spent."""
    if not rows:
        return ["No step recorded yet."]
    parts = [f"{len(steps):,} step" + "s" * (len(steps) != 1)]
    sizes = {size for size in values_under(config, "num_generations") if type(size) is int}
    groups = [row["groups_total"] for row in rows if finite(row.get("groups_total"))]
    drawn = rows[-1].get("episode")  # PPO counts its completions itself
    if len(sizes) == 1 and len(groups) == len(rows):
        drawn = sum(groups) * sizes.pop()
    if drawn and finite(drawn):
        ungraded = sum(row["ungraded"] for row in rows if finite(row.get("ungraded")))
        samples = f"{drawn:,.0f}"
        parts.append(f"{samples} samples, {ungraded:,.0f} ungraded" if ungraded else f"{samples} graded samples")
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
    found = ((record or {}).get("pass@k") or {}).get(k)
    if not isinstance(found, dict) or not finite(found.get("value")):
        return None
    ends = [found.get(end) if finite(found.get(end)) else None for end in ("low", "high")]
    return Interval(found["value"], *ends)


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
        at = "after" if "after" in stages else latest
        before, after = interval(stages.get("before"), "1"), interval(stages.get(at), "1")
        gain = (after.value - before.value) * 100 if before and after else None
        problems = next((r["problems"] for r in stages.values() if r.get("problems")), None)
        row = {"task": task, "split": split, "decoding": how, "problems": problems}
        rows.append(row | {"before": before, "after": after, "gain": gain, "at": "" if at == "after" else at})
    scores = [score for row in rows for score in (row["before"], row["after"]) if score]
    top = max((end for score in scores for end in score if end is not None), default=1.0)
    for row in rows:
        label = f"{row['task']}, {row['decoding']}: pass@1 before and after"
        row["svg"] = charts.interval_chart(row["before"], row["after"], min(1.0, top) or 1.0, label)
    return rows


def take(pool: list[Sample], count: int, sign: int) -> list[Sample]:
    """The `count` highest (sign 1) or lowest (sign -1) rewards; among equals, new tasks, then late steps."""
    taken: list[Sample] = []
    while pool and len(taken) < count:
        seen = {sample.task_id for sample in taken}
        best = min(pool, key=lambda s: (-sign * s.reward, s.task_id in seen, -s.step, s.offset))
        pool = [sample for sample in pool if sample is not best]
        taken.append(best)
    return taken


def most_changed(early: list[Sample], late: list[Sample]) -> tuple[str, list[Sample]]:
    """A sentence on the task whose mean reward changed most, and the sample nearest to each of its means.

    Means, because the widest pair of single samples would mostly show the spread within a group.
    """
    groups: list[dict[str, list[Sample]]] = [defaultdict(list), defaultdict(list)]
    for group, samples in zip(groups, (early, late), strict=True):
        for sample in samples:
            group[sample.task_id].append(sample)

    def mean(samples: list[Sample]) -> float:
        return sum(sample.reward for sample in samples) / len(samples)

    both = [task for task in groups[0] if task in groups[1]]
    change = {task: abs(mean(groups[1][task]) - mean(groups[0][task])) for task in both}
    if not any(change.values()):
        return "", []
    task = max(both, key=lambda task: change[task])
    parts, pair = [], []
    for samples in (groups[0][task], groups[1][task]):
        middle = mean(samples)
        pair.append(min(samples, key=lambda s: (abs(s.reward - middle), s.offset)))
        size = f"{len(samples)} sample" + "s" * (len(samples) != 1)
        parts.append(f"{charts.number(middle)} over {size} at {step_range(samples)}")
    return f"{task}: mean reward {parts[0]}, {parts[1]}. Shown: the sample nearest to each mean.", pair


def step_range(samples: list[Sample]) -> str:
    """`step 3` or `steps 46 to 60`."""
    first, last = min(s.step for s in samples), max(s.step for s in samples)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def choose(path: Path) -> list[tuple[str, str, list[Record]]]:
    """The completions to show, as (title, note, records) by section; ungraded ones are never chosen."""
    samples = []
    for offset, record in records(path):
        reward, step = record.get("reward"), record.get("step")
        if reward is not None and step is not None and finite(reward) and finite(step):
            samples.append(Sample(offset, int(step), str(record.get("task_id", "")), float(reward)))
    if not samples:
        return []
    first, last = min(s.step for s in samples), max(s.step for s in samples)
    late = [s for s in samples if s.step > 0.75 * last]
    early = [s for s in samples if s.step <= max(first, 0.25 * last) and s.step <= 0.75 * last]
    best = take(late, 3, 1)
    worst = take([s for s in late if s not in best], 3, -1)
    started = [s for s in samples if s.step == first][:2]
    note, pair = most_changed(early, late)
    when = f"of the last quarter, {step_range(late)}"
    sections = [
        ("Best", when, best),
        ("Worst", when, worst),
        ("Where it started", step_range(started), started),
        ("Most changed", note, pair),
    ]
    with path.open("rb") as file:

        def load(sample: Sample) -> Record:
            file.seek(sample.offset)
            return json.loads(file.readline())

        return [(title, note, [load(s) for s in chosen]) for title, note, chosen in sections if chosen]


def channels(record: Record) -> list[Channel]:
    """The weighted sum that the run trained on, then each channel of a completion."""
    scores, weights, notes, rewards = (
        found if isinstance(found := record.get(key), dict) else {}
        for key in ("scores", "weights", "notes", "token_rewards")
    )
    listed = []
    for name in dict.fromkeys([*scores, *rewards]):
        values = [float(value) if numeric(value) else 0.0 for value in rewards.get(name) or []]
        note = as_text(notes[name]) if notes.get(name) else ""
        listed.append(Channel(name, scores.get(name), weights.get(name), note, values))
    total = [0.0] * max((len(channel.rewards) for channel in listed), default=0)
    for channel in listed:
        weight = 1.0 if channel.weight is None or not finite(channel.weight) else channel.weight
        for index, value in enumerate(channel.rewards):
            total[index] += weight * value
    return [Channel("weighted sum", record.get("reward"), None, "", total), *listed]


def spans(record: Record, shown: list[Channel], scales: dict[str, float]) -> Iterator[Record]:
    """Each token, its rewards as CSS variables (--c0 the sum, --c1 the first channel, ...) from -1 to 1."""
    for index, token in enumerate(record.get("tokens") or []):
        styles, titles = [], []
        for place, channel in enumerate(shown):
            if index < len(channel.rewards):
                value = channel.rewards[index]
                titles.append(f"{channel.name} {charts.number(value)}")
                if value and finite(value):
                    styles.append(f"--c{place}:{value / scales[channel.name]:.3f}")
        text = as_text(token)
        # A line break has no width to colour, so the page prints a mark before a rewarded one.
        only_break = bool(styles) and not text.strip("\n")
        yield {"text": text, "style": ";".join(styles), "title": "\n".join(titles), "mark": only_break}


def cards(path: Path) -> tuple[list[Record], dict[str, float]]:
    """Sections of completions ready to show, and the largest token reward among them for each channel."""
    sections = [(t, note, [(r, channels(r)) for r in chosen]) for t, note, chosen in choose(path)]
    scales: dict[str, float] = defaultdict(float)
    for channel in (c for _, _, chosen in sections for _, listed in chosen for c in listed):
        if channel.rewards:
            sizes = [abs(value) for value in channel.rewards if finite(value)]
            scales[channel.name] = max([scales[channel.name], *sizes])
    result = []
    for title, note, chosen in sections:
        shown = []
        for record, listed in chosen:
            completion, joined = record.get("completion") or "", "".join(record.get("tokens") or [])
            tokens = list(spans(record, listed, scales))
            if completion.startswith(joined):  # what no token covers, all of it where none is recorded
                tokens.append({"text": as_text(completion[len(joined) :]), "style": "", "title": "", "mark": False})
            same = completion.startswith(joined) or joined.startswith(completion)
            card = {"record": record, "prompt": as_text(record.get("prompt", "")), "channels": listed}
            shown.append(card | {"tokens": tokens, "plain": "" if same else as_text(completion)})
        result.append({"title": title, "note": note, "cards": shown})
    return result, dict(scales)


def write_report(run_dir: Path) -> Path:
    """Write RUN_DIR/report.html from the run's files and return its path.

    Raises FileNotFoundError without config.yaml and ValueError for a file that cannot be read as what it is.
    """
    config, text = read_config(run_dir / "config.yaml")
    rows = [row for _, row in records(run_dir / "metrics.jsonl")]
    steps = by_step(rows)
    evals = [record for _, record in records(run_dir / "evals.jsonl")]
    sections, scales = cards(run_dir / "completions.jsonl")
    answers = [row for _, row in records(run_dir / "eval_samples.jsonl")]
    diagnosis = diagnose(history(config, steps, records(run_dir / "completions.jsonl"), evals))
    command = config.get("command") or ""
    names = [pick(config, key) for key in ("recipe.name", "task.name", "model.name", "seed")]
    times = [found for item in charts.TIME_CURVES if (found := charts.curve(steps, *item))]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # by hand: select_autoescape goes by the ending, which is .j2 here
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": charts.number,
        "text": as_text,
        "points": lambda value: f"{value:+.1f}".replace("-", charts.MINUS),
    }
    environment.tests["numeric"] = numeric
    page = environment.get_template("report.html.j2").render(
        run=run_dir.resolve().name,
        title=dict(zip(("recipe", "task", "model", "seed"), names, strict=True)),
        summary=summary(rows, steps, config),
        diagnosis=diagnosis,
        gains=gains(evals),
        verdicts=verdict_tables(answers),
        robots=robot_runs(answers),
        evals=[record | {"decoding": decoding(record)} for record in evals],
        ks=sorted({k for record in evals for k in record.get("pass@k") or {}}, key=lambda k: (len(k), k)),
        interval=interval,
        pictures=figures(steps, evals, answers, pick(config, "task.name")),
        curves=charts.curve_sections(steps),
        window=charts.smooth_window(len(steps)),
        phases=charts.phases(rows),
        memory=memory([*rows, *evals], next((plan for _, plan in records(run_dir / "plan.json")), None)),
        times=times,
        sections=sections,
        scales=scales,
        places=max((len(card["channels"]) for found in sections for card in found["cards"]), default=0),
        config=text,
        command=shlex.join(map(str, command)) if isinstance(command, list) else str(command),
    )
    path = run_dir / "report.html"
    temporary = run_dir / f".report.html.{os.getpid()}"
    try:
        # A completion can hold half of a surrogate pair, which UTF-8 cannot hold: it becomes a question mark.
        temporary.write_text(page, encoding="utf-8", errors="replace")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    """The command: 0 and the page's path on standard output, or 1 and what is wrong on standard error."""
    parser = argparse.ArgumentParser(prog="python -m recipes.support.report", description="Write a run's report.html.")
    parser.add_argument("run_dir", type=Path, help="directory of the run, with its config.yaml")
    try:
        print(write_report(parser.parse_args(arguments).run_dir))
    except (OSError, ValueError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
