"""The completions that the page shows, with each token's reward, chosen from completions.jsonl."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from recipes.cli.console import as_text, number
from recipes.records.jsonl import Record, finite, numeric, stream_jsonl


class Sample(NamedTuple):
    """A graded completion; `offset` is where its line starts in completions.jsonl, in bytes, and `earlier` where those
    of the earlier turns of its episode do."""

    offset: int
    step: int
    task_id: str
    reward: float
    earlier: tuple[int, ...] = ()


class Channel(NamedTuple):
    """One line of a completion's scores; `rewards` are per token, empty where the run recorded none."""

    name: str
    score: float | None
    weight: float | None
    note: str
    rewards: list[float]


def sample_sections(path: Path) -> tuple[list[Record], dict[str, float]]:
    """Sections {title, note, cards} of completions, and the largest token reward among them for each channel."""
    sections = [(title, note, [(r, channels(r)) for r in chosen]) for title, note, chosen in choose(path)]
    scales: dict[str, float] = defaultdict(float)
    for channel in (channel for *_, chosen in sections for _, listed in chosen for channel in listed):
        if channel.rewards:
            scales[channel.name] = max(scales[channel.name], *(abs(v) if finite(v) else 0.0 for v in channel.rewards))
    shown = [
        {"title": title, "note": note, "cards": [card(record, listed, scales) for record, listed in chosen]}
        for title, note, chosen in sections
    ]
    return shown, dict(scales)


def choose(path: Path) -> list[tuple[str, str, list[Record]]]:
    """The completions to show, as (title, note, records) by section. Completions without a grade are left out."""
    samples = list(last_turns(stream_jsonl(path)))
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

        def read(offset: int) -> Record:
            file.seek(offset)
            return json.loads(file.readline())

        def load(sample: Sample) -> Record:
            return read(sample.offset) | {"earlier": [read(offset) for offset in sample.earlier]}

        return [(title, note, [load(s) for s in chosen]) for title, note, chosen in sections if chosen]


def last_turns(rows: Iterable[tuple[int, Record]]) -> Iterator[Sample]:
    """The graded completions of (offset, record); of an episode its last turn, which knows the earlier ones."""
    earlier: list[int] = []
    for offset, record in rows:
        if (record.get("turn") or 1) == 1:
            earlier = []
        if (record.get("turn") or 1) < (record.get("turns") or 1):
            earlier.append(offset)
        elif finite(record.get("reward")) and finite(record.get("step")):
            task, step = str(record.get("task_id", "")), int(record["step"])
            yield Sample(offset, step, task, float(record["reward"]), tuple(earlier))


def take(pool: Sequence[Sample], count: int, sign: int) -> list[Sample]:
    """The `count` highest (sign 1) or lowest (sign -1) rewards; among equals, new tasks, then late steps."""
    taken: list[Sample] = []
    while len(taken) < min(count, len(pool)):
        seen = {sample.task_id for sample in taken}
        rest = (sample for sample in pool if sample not in taken)
        taken.append(min(rest, key=lambda s: (-sign * s.reward, s.task_id in seen, -s.step, s.offset)))
    return taken


def most_changed(early: Sequence[Sample], late: Sequence[Sample]) -> tuple[str, list[Sample]]:
    """A sentence on the task whose mean reward changed most, and the sample nearest to each of its means.

    Means, because the widest pair of single samples would mostly show the spread within a group.
    """
    groups: list[dict[str, list[Sample]]] = [defaultdict(list), defaultdict(list)]
    for group, samples in zip(groups, (early, late), strict=True):
        for sample in samples:
            group[sample.task_id].append(sample)
    before, after = ({task: fmean(s.reward for s in group[task]) for task in group} for group in groups)
    change = {task: abs(after[task] - mean) for task, mean in before.items() if task in after}
    if not any(change.values()):
        return "", []
    task = max(change, key=lambda task: change[task])
    parts, pair = [], []
    for mean, samples in ((before[task], groups[0][task]), (after[task], groups[1][task])):
        pair.append(min(samples, key=lambda s: (abs(s.reward - mean), s.offset)))
        size = f"{len(samples)} sample" + "s" * (len(samples) != 1)
        parts.append(f"{number(mean)} over {size} at {step_range(samples)}")
    return f"{task}: mean reward {parts[0]}, {parts[1]}. Shown: the sample nearest to each mean.", pair


def step_range(samples: Sequence[Sample]) -> str:
    """`step 3` or `steps 46 to 60`."""
    first, last = min(s.step for s in samples), max(s.step for s in samples)
    return f"step {first}" if first == last else f"steps {first} to {last}"


def channels(record: Record) -> list[Channel]:
    """The weighted sum that the run trained on, then each channel of a completion."""
    scores, weights, notes, rewards = (
        value if isinstance(value := record.get(key), dict) else {}
        for key in ("scores", "weights", "notes", "token_rewards")
    )
    listed = []
    for name in dict.fromkeys([*scores, *rewards]):
        values = [float(value) if numeric(value) else 0.0 for value in rewards.get(name) or []]
        note = as_text(notes[name]) if notes.get(name) else ""
        listed.append(Channel(name, scores.get(name), weights.get(name), note, values))
    total = [0.0] * max((len(channel.rewards) for channel in listed), default=0)
    for channel in listed:
        weight = channel.weight if channel.weight is not None and finite(channel.weight) else 1.0
        for index, value in enumerate(channel.rewards):
            total[index] += weight * value
    return [Channel("weighted sum", record.get("reward"), None, "", total), *listed]


def card(record: Record, listed: Sequence[Channel], scales: dict[str, float]) -> Record:
    """What the page needs of one completion. `plain` is its text where its tokens do not join to it."""
    completion, joined = record.get("completion") or "", "".join(record.get("tokens") or [])
    tokens = list(spans(record, listed, scales))
    if completion.startswith(joined):  # what no token covers, all of it where no token was recorded
        tokens.append({"text": as_text(completion[len(joined) :])})
    agree = completion.startswith(joined) or joined.startswith(completion)
    shown = {"record": record, "prompt": as_text(record.get("prompt", "")), "channels": listed, "tokens": tokens}
    shown |= {
        "earlier": [turn(each) for each in record.get("earlier") or []],
        "heard": as_text(record.get("heard") or ""),
    }
    return shown | {"plain": "" if agree else as_text(completion)}


def turn(record: Record) -> Record:
    """An earlier turn of an episode: what it heard, its tokens in the colour of their weighted sum, its verdict."""
    listed = channels(record)
    scales = {c.name: max((abs(v) for v in c.rewards if finite(v)), default=0.0) or 1.0 for c in listed}
    tokens = list(spans(record, listed, scales))
    return {"record": record, "tokens": tokens, "heard": as_text(record.get("heard") or "")}


def spans(record: Record, listed: Sequence[Channel], scales: dict[str, float]) -> Iterator[Record]:
    """Each token, its rewards as CSS variables (--c0 the sum, --c1 the first channel, ...) from -1 to 1."""
    for index, token in enumerate(record.get("tokens") or []):
        rewards = [(n, c.name, c.rewards[index]) for n, c in enumerate(listed) if index < len(c.rewards)]
        styles = [f"--c{n}:{value / scales[name]:.3f}" for n, name, value in rewards if value and finite(value)]
        title = "\n".join(f"{name} {number(value)}" for _, name, value in rewards)
        if index < record.get("given", 0):  # the beginning of the reference, on which nothing is trained
            yield {"text": as_text(token), "given": True, "title": "given"}
            continue
        # A line break has no width to colour, so the page prints a mark before one that earned something.
        only_break = bool(styles) and not as_text(token).strip("\n")
        yield {"text": as_text(token), "style": ";".join(styles), "title": title, "mark": only_break}
