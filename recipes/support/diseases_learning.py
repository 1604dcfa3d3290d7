"""What can be wrong with how a policy learns: each function takes a History and names one disease, or None.

Severities and thresholds were set beside real runs of 60 to 150 steps (GRPO, PPO, REINFORCE; some healthy, one fallen
to an empty block, one that unlearnt to stop); each threshold says its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from recipes.support.charts import Record, finite, numeric
from recipes.support.finding import Finding, Severity, leash, now, slower, times
from recipes.support.history import (
    SOLVED,
    SURE,
    History,
    at_least,
    brief,
    change,
    mean,
    median,
    percent,
    span,
    values,
)

LOSSES = ("loss", "loss/policy_avg", "loss/value_avg", "grad_norm", "value/grad_norm")
NOT_FINITE_STEPS = 3
"""One overflow is how fp16's loss scaling finds its scale; a few are a fault."""
EXPLODED = 50.0
"""Late over early size of a loss: healthy gradient norms move by a factor of ten as groups go degenerate and back."""
LOSS_FLOOR = 1.0
"""A policy loss of whitened or group-centred advantages is well below 1; smaller ones cannot explode."""
NEVER = 0.01
"""A pass rate no better than this teaches nothing: one of a hundred samples, at most one group in ten has a spread."""
ALWAYS = 0.98
"""Nearly all passes, after most did (SOLVED) from the start: what is left is noise."""
SAME_ANSWER = 0.5
"""Share of late answers that are one text, over different problems: no honest answer serves half of them."""
ANSWERS_LEAST, PROBLEMS_LEAST = 30, 5
"""Stored answers and problems among them before their share says anything."""
LOST = 0.2
"""Late over earlier pass rate that counts as lost: problems of unlike difficulty alone make it vary by half."""
FALLS_SERIOUS, FALLS_WARNING = 0.5, 0.25
"""Share of the reward that was lost, where the loss is sure: half is a failed run, a quarter one to watch."""
FORMAT_SERIOUS, FORMAT_WARNING = 0.2, 0.1
"""Loss of complete code blocks: a fifth is beyond what exploration costs (a healthy run varies by a tenth)."""
DEGENERATE_SERIOUS, DEGENERATE_WARNING = 0.95, 0.8
"""Healthy runs on few samples a group have half of their groups degenerate; at four fifths a step is mostly waste."""
ENTROPY_FLOOR = 0.02
"""Nats a token: the likeliest token has 99.7 %. Runs that go on learning stay above 0.05."""
KL_LARGE = 1.0
"""Nats a token from the reference: its own likeliest tokens have become e times less likely. Healthy: 0.1 to 0.3."""
KL_GROWS = 3.0
"""Late over middle KL where the reward still rises: moving away is learning, accelerating is not."""
CRITIC_LEAST = 10
"""Steps of the second half that report an explained variance, before it is called never above 0."""
CRITIC_LUCK = 0.1
"""Share of those steps in which a critic that knows nothing may be above 0; healthy ones are in half of them."""
VALUE_GROWS = 5.0
"""Late over middle value loss; a growing return alone makes it grow by two or three."""


def not_finite(h: History) -> Finding | None:
    """A loss or gradient that is NaN or infinite; the log leaves such values out, so a gap says the same."""
    found: dict[str, list[int]] = {}
    for key in LOSSES:
        begun = False
        for row in h.rows:
            begun |= numeric(row.get(key))
            odd = numeric(row.get(key)) and not finite(row[key])
            gap = begun and key not in row and finite(row.get("reward"))
            if odd or (gap and not (key == "value/grad_norm" and "grad_norm" in row)):  # the critic's: in its warm-up
                found.setdefault(key, []).append(row["step"])
    if not found:
        return None
    key = max(found, key=lambda name: len(found[name]))
    steps = found[key]
    lasting = len(steps) >= NOT_FINITE_STEPS or steps[-1] == h.rows[-1]["step"]
    where = f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps, the first {steps[0]}, the last {steps[-1]}"
    remedy = f"Resume from a checkpoint before step {steps[0]} with {slower(h)}"
    if h.setting("hardware.precision") == "fp16":
        remedy += " and hardware.precision=bf16 (now fp16) where the GPU has it"
    return Finding("loss not finite", _grave(lasting), f"{key} was no finite number at {where}.", remedy + ".")


def exploding(h: History) -> Finding | None:
    """A policy loss or gradient norm many times its former size."""
    late, half = h.rows[-5:], h.rows[: len(h.rows) // 2]
    clip = h.setting("recipe.max_grad_norm")
    floors = {"loss": LOSS_FLOOR, "loss/policy_avg": LOSS_FLOOR, "grad_norm": 10 * (clip if finite(clip) else 1.0)}
    for key, floor in floors.items():
        before, after = (median([abs(v) for v in values(rows, key)]) for rows in (half, late))
        if before is not None and after is not None and after >= max(floor, EXPLODED * max(before, 1e-3)):
            said = f"{key} has a median size of {brief(after)} over {span(late)}, {brief(before)} over {span(half)}."
            return Finding("loss exploding", "serious", said, f"{_clip(h)}{slower(h)}.")
    return None


def _clip(h: History) -> str:
    clip = h.setting("recipe.max_grad_norm")
    return "Set recipe.max_grad_norm=1 (now 0: no clipping) and " if clip == 0 else "Set "


def collapse(h: History) -> Finding | None:
    """The policy gives one answer to everything, or no longer solves what it solved."""
    remedy = f"Start again from an earlier checkpoint (adapter=) with {slower(h)}, then {leash(h)}."
    late = h.late_answers
    if len(late) >= ANSWERS_LEAST and len({a.task_id for a in late}) >= PROBLEMS_LEAST and not h.solved:
        text, count = Counter(a.completion.strip() for a in late).most_common(1)[0]
        passed = sum(a.verdict == "pass" for a in late if a.completion.strip() == text)
        if at_least(count, len(late)) >= SAME_ANSWER and passed < count / 2:
            shown = repr(text if len(text) <= 60 else text[:57] + "...")
            said = f"{count} of the {len(late)} stored answers of {span(h.last)} are {shown}, {passed} of them pass"
            return Finding("collapse", "serious", said + _furthest(h) + ".", remedy)
    after = values(h.last, "pass_rate")
    for rows in (h.first, h.middle):
        c = change(values(rows, "pass_rate"), after)
        if c is not None and c.z <= -SURE and c.after <= LOST * c.before:
            said = f"{percent(c.after)} of the samples pass over {span(h.last)}, {percent(c.before)} over {span(rows)}"
            return Finding("collapse", "serious", said + _furthest(h) + ".", remedy)
    return None


def reward_falling(h: History) -> Finding | None:
    """The reward is surely lower than it was."""
    changes = [
        (rows, c) for rows in (h.first, h.middle) if (c := change(values(rows, "reward"), values(h.last, "reward")))
    ]
    if not changes:
        return None
    rows, c = min(changes, key=lambda found: found[1].rise)
    if c.z > -SURE or -c.rise < FALLS_WARNING * abs(c.before):
        return None
    said = f"The reward is {brief(c.after)} over {span(h.last)} and was {brief(c.before)} over {span(rows)}"
    remedy = f"Set {slower(h)}, or {leash(h)}."
    return Finding(
        "reward falling", _grave(-c.rise >= FALLS_SERIOUS * abs(c.before)), said + _furthest(h) + ".", remedy
    )


def _furthest(h: History) -> str:
    """The step whose update moved the policy most, which is where to look."""
    moved = {row["step"]: row["policy/approxkl_avg"] for row in h.rows if finite(row.get("policy/approxkl_avg"))}
    if not moved:
        return ""
    step = max(moved, key=lambda s: moved[s])
    return f"; the largest update was at step {step}, {brief(moved[step])} nats a token"


def flat(h: History) -> Finding | None:
    """Nothing passes and the reward does not rise, or all has passed from the start."""
    passes, reward = values(h.last, "pass_rate"), h.change("reward")
    early = values(h.first, "pass_rate")
    if not passes or not early or reward is None:
        return None
    samples = len(passes) * h.samples_per_step
    if mean(early) >= SOLVED and mean(passes) >= ALWAYS:
        said = f"{percent(mean(early))} of the samples passed over {span(h.first)} and {percent(mean(passes))} over"
        remedy = "Train on harder problems: task.pass_rates with task.pass_rate_range, or another task."
        return Finding("reward flat at 1", "serious", f"{said} {span(h.last)}.", remedy)
    if mean(passes) > NEVER or h.improved or _part_rises(h):
        return None
    said = (
        f"{round(mean(passes) * samples)} of {samples:,} samples passed over {span(h.last)}, and the reward went from "
        f"{brief(reward.before)} to {brief(reward.after)}."
    )
    remedy = (
        "Look at answers (recipes/look.py) and tests (recipes/check.py); then choose problems the model can solve "
        "(task.pass_rates), pay for part of the tests (task.reward.unit_tests.fractional=true), or a larger model."
    )
    return Finding("reward flat at 0", "serious", said, remedy)


def _part_rises(h: History) -> bool:
    """Whether a channel other than the form is surely paid more: partial success, before anything passes whole."""
    scores = (h.change(f"scores/{name}") for name, channel in h.channels.items() if not is_form(channel))
    return any(c is not None and c.z >= SURE for c in scores)


def blocks(h: History, rows: Sequence[Record]) -> list[float]:
    """Share of answers with a complete code block by step, from the form channel's score, else from stored answers."""
    if found := values(rows, "format_rate"):
        return found
    for name, channel in h.channels.items():
        if not is_form(channel) or not values(rows, f"scores/{name}"):
            continue
        block, none, alpha = (channel.get(k, d) for k, d in (("block", 1.0), ("no_block", 0.0), ("length_alpha", 0.0)))
        if block != none:
            return [
                (row[f"scores/{name}"] + alpha * row.get("completion_tokens", 0.0) / 100 - none) / (block - none)
                for row in rows
                if finite(row.get(f"scores/{name}"))
            ]
    shares: dict[int, list[bool]] = {row["step"]: [] for row in rows}
    for a in h.answers:
        if a.step in shares:
            shares[a.step].append(a.block)
    return [mean(found) for found in shares.values() if found]


def is_form(channel: Record) -> bool:
    return str(channel.get("_target_", "")).endswith(".Form")


def format_falling(h: History) -> Finding | None:
    """Fewer answers with a code block than before, and not because they are cut (`answers_cut` says that)."""
    changes = [(rows, c) for rows in (h.first, h.middle) if (c := change(blocks(h, rows), blocks(h, h.last)))]
    if not changes:
        return None
    rows, c = min(changes, key=lambda found: found[1].rise)
    cut = change(values(rows, "truncated"), values(h.last, "truncated"))
    if c.rise > -FORMAT_WARNING or c.z > -SURE or (cut is not None and cut.rise >= -0.8 * c.rise):
        return None
    said = (
        f"{percent(c.before)} of the answers had a code block over {span(rows)}, {percent(c.after)} over {span(h.last)}"
    )
    name = next((n for n, channel in h.channels.items() if is_form(channel)), None)
    more = times(h, f"task.reward.{name}.weight", 2, 0.1) if name else "+task.reward.form (rewards.form.Form, 0.1)"
    return Finding("format falling", _grave(c.rise <= -FORMAT_SERIOUS), said + ".", f"Set {more}, or {slower(h)}.")


def degenerate(h: History) -> Finding | None:
    """Nearly all groups have one reward and so no advantage."""
    counted = [row for row in h.last if finite(row.get("groups_total")) and finite(row.get("groups_skipped"))]
    groups = sum(row["groups_total"] for row in counted)
    none = sum(row["groups_skipped"] for row in counted)
    if h.solved or at_least(none, groups) < DEGENERATE_WARNING:
        return None
    said = f"{none:.0f} of {groups:.0f} groups over {span(h.last)} had one reward for all their samples: no advantage."
    remedy = (
        f"Draw more samples a group, {times(h, 'recipe.num_generations', 2, 8)}, at recipe.temperature=1 "
        f"{now(h, 'recipe.temperature')}, and problems that are sometimes solved: task.pass_rates."
    )
    return Finding("degenerate groups", _grave(none / groups >= DEGENERATE_SERIOUS), said, remedy)


def entropy_collapse(h: History) -> Finding | None:
    """The policy has stopped exploring and has not solved the task."""
    for key in ("entropy", "policy/entropy_avg"):
        before, after = median(values(h.first, key)), median(values(h.last, key))
        if before is None or after is None or after > ENTROPY_FLOOR or h.solved:
            continue
        reward = h.change("reward")
        level = f"The median entropy is {brief(after)} nats a token over {span(h.last)}"
        said = f"{level}, {brief(before)} over {span(h.first)}"
        paid = f"; the reward went from {brief(reward.before)} to {brief(reward.after)}." if reward else "."
        bonus = f" Sampling at recipe.temperature={max(1.0, h.setting('recipe.temperature') or 1.0):g} or above helps."
        return Finding(
            "entropy collapse", _grave(not h.improved), said + paid, f"Set {slower(h)}, or {leash(h)}.{bonus}"
        )
    return None


def kl_running_away(h: History) -> Finding | None:
    """Far from the reference and no better for it, or going ever faster."""
    middle, late = (median(_kl_per_token(rows)) for rows in (h.middle, h.last))
    reward = h.change("reward")
    if late is None or middle is None or reward is None or late < KL_LARGE:
        return None
    if h.improved and late < KL_GROWS * middle:
        return None
    said = (
        f"The median KL from the reference is {brief(late)} nats a token over {span(h.last)}, {brief(middle)} before, "
        f"and the reward went from {brief(reward.before)} to {brief(reward.after)}."
    )
    return Finding("KL running away", _grave(not h.improved), said, f"Set {leash(h)}, or {slower(h)}.")


def _kl_per_token(rows: Sequence[Record]) -> list[float]:
    """GRPO logs nats a token (`kl`), PPO nats a completion (`objective/kl`)."""
    if found := values(rows, "kl"):
        return found
    tokens, whole = (lambda row: row.get("completion_tokens")), "objective/kl"
    return [row[whole] / tokens(row) for row in rows if finite(row.get(whole)) and finite(tokens(row)) and tokens(row)]


def critic(h: History) -> Finding | None:
    """Values that explain nothing of the returns, or a value loss that grows."""
    key, rows = "value/explained_variance", h.rows[len(h.rows) // 2 :]
    explained = values(rows, key)
    if len(explained) < CRITIC_LEAST or h.solved:
        return None
    middle, late = (median(values(part, "loss/value_avg")) for part in (h.middle, h.last))
    remedy = (
        f"Set {times(h, 'value.learning_rate', 3, 1e-3)} and value.warmup_updates=5 {now(h, 'value.warmup_updates')}"
    )
    typical = median(values(h.last, key)) or 0.0
    if middle and late and late >= VALUE_GROWS * middle and typical <= 0:
        said = (
            f"The median value loss rose from {brief(middle)} to {brief(late)} ({span(h.last)}), where the explained "
            f"variance is {brief(typical)}."
        )
        remedy = f"Set {times(h, 'value.learning_rate', 1 / 3, 1e-4)}, or {times(h, 'value.coef', 0.3, 0.1)}"
        return Finding("critic does not settle", "serious", said, remedy + ".")
    above = sum(v > 0 for v in explained)
    if above > CRITIC_LUCK * len(explained):
        return None
    said = (
        f"The critic's explained variance is above 0 in {above} of {len(explained)} steps ({span(rows)}), its median "
        f"{brief(typical)}."
    )
    return Finding("critic does not settle", "warning", said, f"{remedy}, or value=separate.")


def _grave(serious: bool) -> Severity:
    return "serious" if serious else "warning"


RULES = (
    not_finite,
    exploding,
    collapse,
    reward_falling,
    flat,
    format_falling,
    degenerate,
    entropy_collapse,
    kl_running_away,
    critic,
)
