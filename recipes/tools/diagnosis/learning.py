"""Rules that find problems of learning: loss not finite, loss exploding, collapse, reward falling, reward flat at 0 or
at 1, format falling, degenerate groups, entropy collapse, KL running away, critic does not settle.

Severities and thresholds were set beside real runs of 60 to 150 steps (GRPO, PPO, REINFORCE; most of them healthy, one
that collapsed to an empty code block, one that unlearned to stop); each threshold says its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from recipes.records.jsonl import Record, finite, numeric
from recipes.tools.diagnosis.finding import Finding, lower_learning_rate, present, scaled, smaller_updates, stronger_kl
from recipes.tools.diagnosis.history import SIGNIFICANT, SOLVED, History
from recipes.tools.diagnosis.windows import (
    change,
    lower_bound,
    mean,
    median,
    percent,
    steps_text,
    three_digits,
    values,
)

LOSSES = ("loss", "loss/policy_avg", "loss/value_avg", "grad_norm", "value/grad_norm")
OWN_LOSS = dict.fromkeys(("grpo", "sft", "dpo"), "loss") | dict.fromkeys(("ppo", "reinforce"), "loss/policy_avg")
"""What a recipe logs of each update, if it is finite."""
NOT_FINITE_STEPS = 3
"""One overflow is how fp16's loss scaling finds its scale; a few are a fault."""
EXPLODED = 50.0
"""Late over early size of a loss: healthy gradient norms vary by a factor of ten as groups become degenerate."""
LOSS_FLOOR = 1.0
"""A policy loss of whitened or group-centred advantages is well below 1; smaller ones cannot explode."""
NEVER = 0.01
"""A pass rate no better than this teaches nothing: one of a hundred samples, at most one group in ten has a spread."""
ALWAYS = 0.98
"""Nearly all passes, after most did (SOLVED) from the start: what is left is noise."""
SAME_ANSWER = 0.5
"""Share of late answers that are one text, over different problems: no honest answer serves half of them."""
MIN_ANSWERS, MIN_PROBLEMS = 30, 5
"""Stored answers, and problems among them, before their share is judged."""
LOST = 0.2
"""Late over earlier pass rate that counts as lost: problems of unlike difficulty alone make it vary by half."""
FALLS_SERIOUS, FALLS_WARNING = 0.5, 0.25
"""Share of the reward that was lost, where the loss is significant: half is a failed run, a quarter one to watch."""
FORMAT_SERIOUS, FORMAT_WARNING = 0.2, 0.1
"""Loss of complete code blocks: a fifth is beyond what exploration costs (a healthy run varies by a tenth)."""
DEGENERATE_SERIOUS, DEGENERATE_WARNING = 0.95, 0.8
"""Healthy runs on few samples a group have half of their groups degenerate; at four fifths a step is mostly waste."""
ENTROPY_FLOOR = 0.02
"""Nats a token: the likeliest token has 99.7 %. Runs that continue to learn stay above 0.05."""
KL_LARGE = 1.0
"""Nats a token from the reference: its own likeliest tokens have become e times less likely. Healthy: 0.1 to 0.3."""
KL_GROWS = 3.0
"""Late over middle KL where the reward still rises: learning moves the policy away, but not ever faster."""
MIN_CRITIC_STEPS = 10
"""Steps of the second half that report an explained variance, before it is called never above 0."""
CRITIC_LUCK = 0.1
"""Share of those steps in which a critic that knows nothing may be above 0; healthy ones are in half of them."""
VALUE_GROWS = 5.0
"""Late over middle value loss; a growing return alone makes it grow by two or three."""


def not_finite(run: History) -> Finding | None:
    """A loss or gradient norm is NaN or infinite, or missing: the log leaves out values that are not finite."""
    bad_steps: dict[str, list[int]] = {}
    offline = run.setting("recipe.name") in ("sft", "dpo")  # whose rows have no reward
    whole = any("seconds/update" in row for row in run.rows)  # not an excerpt that was kept of a run
    never = whole and not any(key in row for row in run.rows for key in LOSSES)
    for key in LOSSES:
        logged = never and OWN_LOSS.get(str(run.setting("recipe.name"))) == key
        for row in run.rows:
            logged |= numeric(row.get(key))
            warm = key == "value/grad_norm" and "grad_norm" in row  # the critic's own norm: only while it warms up
            missing = key not in row and (offline or finite(row.get("reward"))) and not warm
            if logged and (missing or (key in row and not finite(row[key]))):
                bad_steps.setdefault(key, []).append(row["step"])
    if not bad_steps:
        return None
    key = max(bad_steps, key=lambda name: len(bad_steps[name]))
    steps = bad_steps[key]
    lasts = len(steps) >= NOT_FINITE_STEPS or steps[-1] == run.rows[-1]["step"]
    where = f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps, the first {steps[0]}, the last {steps[-1]}"
    half = " and hardware.precision=bf16 (now fp16) where the GPU has it"
    return Finding(
        "loss not finite",
        "serious" if lasts else "warning",
        evidence=f"{key} is NaN or infinite at {where}.",
        remedy=f"Resume from a checkpoint before step {steps[0]} with {lower_learning_rate(run)}"
        f"{half if run.setting('hardware.precision') == 'fp16' else ''}.",
    )


def exploding(run: History) -> Finding | None:
    """A policy loss or gradient norm is many times its former size."""
    late, early = run.rows[-5:], run.rows[: len(run.rows) // 2]
    clip = run.setting("recipe.trl.max_grad_norm")
    floors = {"loss": LOSS_FLOOR, "loss/policy_avg": LOSS_FLOOR, "grad_norm": 10 * (clip if finite(clip) else 1.0)}
    for key, floor in floors.items():
        before, after = (median([abs(v) for v in values(rows, key)]) for rows in (early, late))
        if before is None or after is None or after < max(floor, EXPLODED * max(before, 1e-3)):
            continue
        clipping = "recipe.trl.max_grad_norm=1 (now 0: no clipping) and " if clip == 0 else ""
        return Finding(
            "loss exploding",
            "serious",
            evidence=f"The median size of {key} is {three_digits(after)} over {steps_text(late)}, "
            f"{three_digits(before)} over {steps_text(early)}.",
            remedy=f"Set {clipping}{lower_learning_rate(run)}.",
        )
    return None


def collapse(run: History) -> Finding | None:
    """The policy gives one answer to everything, or no longer solves what it solved."""
    evidence = _one_answer(run) or _unlearned(run)
    if evidence is None:
        return None
    return Finding(
        "collapse",
        "serious",
        evidence=f"{evidence}{_largest_update(run)}.",
        remedy=f"Start again from an earlier checkpoint (adapter=) with {lower_learning_rate(run)}; if it collapses "
        f"again, with {stronger_kl(run)}.",
    )


def _one_answer(run: History) -> str | None:
    late = run.late_answers
    if run.solved or len(late) < MIN_ANSWERS or len({a.task_id for a in late}) < MIN_PROBLEMS:
        return None
    text, count = Counter(a.completion.strip() for a in late).most_common(1)[0]
    passed = sum(a.verdict == "pass" for a in late if a.completion.strip() == text)
    if lower_bound(count, len(late)) < SAME_ANSWER or passed >= count / 2:
        return None
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return f"{count} of the {len(late)} stored answers of {run.late_steps} are {shown}, {passed} of them pass"


def _unlearned(run: History) -> str | None:
    fall = run.fall("pass_rate")
    if fall is None or fall[1].after > LOST * fall[1].before:
        return None
    rows, c = fall
    return f"{percent(c.after)} of the samples pass over {run.late_steps}, {percent(c.before)} over {steps_text(rows)}"


def _largest_update(run: History) -> str:
    """The step whose update moved the policy most, which is where to look."""
    moved = {row["step"]: row["policy/approxkl_avg"] for row in run.rows if finite(row.get("policy/approxkl_avg"))}
    if not moved:
        return ""
    step = max(moved, key=lambda s: moved[s])
    return f"; the largest update was at step {step}, {three_digits(moved[step])} nats a token"


def reward_falling(run: History) -> Finding | None:
    """The reward is significantly lower than it was."""
    fall = run.fall("reward")
    if fall is None or -fall[1].rise < FALLS_WARNING * abs(fall[1].before):
        return None
    rows, c = fall
    return Finding(
        "reward falling",
        "serious" if -c.rise >= FALLS_SERIOUS * abs(c.before) else "warning",
        evidence=f"The reward is {three_digits(c.after)} over {run.late_steps} and was {three_digits(c.before)} "
        f"over {steps_text(rows)}{_largest_update(run)}.",
        remedy=f"Set {smaller_updates(run)}.",
    )


def flat_at_1(run: History) -> Finding | None:
    """Nearly everything passes from the start."""
    early, late = values(run.first, "pass_rate"), values(run.last, "pass_rate")
    if not early or not late or mean(early) < SOLVED or mean(late) < ALWAYS:
        return None
    return Finding(
        "reward flat at 1",
        "serious",
        evidence=f"{percent(mean(early))} of the samples passed over {run.early_steps} and {percent(mean(late))} "
        f"over {run.late_steps}.",
        remedy="Train on harder problems: task.pass_rates with task.pass_rate_range, or another task.",
    )


def flat_at_0(run: History) -> Finding | None:
    """Nothing passes, and neither the reward nor a channel of partial success rises; nor do parts of answers earn."""
    passed, reward = values(run.last, "pass_rate"), run.change("reward")
    if not passed or reward is None or mean(passed) > NEVER or run.improved or _partial_success_rises(run):
        return None
    if _parts_earn(run):
        return None
    count = len(passed) * (run.answers_per_step or 0)
    share = f"{round(mean(passed) * count)} of {count:,} samples" if count else f"{percent(mean(passed))} of samples"
    return Finding(
        "reward flat at 0",
        "serious",
        evidence=f"{share} passed over {run.late_steps}, and the reward went {reward.text}.",
        remedy="Look at answers (recipes/look.py) and tests (recipes/check.py); then choose problems the model can "
        f"solve (task.pass_rates), {_partly_paid(run)}or take a larger model.",
    )


def _partly_paid(run: History) -> str:
    """The advice to pay for a part of the tests, where a channel runs tests."""
    tests = (name for name, c in run.channels.items() if str(c.get("_target_", "")).endswith(".UnitTests"))
    return "".join(f"pay for part of the tests (task.reward.{name}.fractional=true), " for name in tests)


def _parts_earn(run: History) -> bool:
    """Whether answers have several parts, each graded by itself, and some of these earn: no whole answer needs to pass
    for groups to differ."""
    parts = max(run.setting(f"task.env.{name}") or 1 for name in ("functions", "places"))
    form = f"scores/{run.form_channel or 'form'}"
    measured = {key for row in run.last for key in row if key.startswith("scores/") and key != form}
    scores = (values(run.last, key) for key in measured)
    return parts > 1 and any(score and mean(score) > NEVER for score in scores)


def _partial_success_rises(run: History) -> bool:
    """Whether a channel other than the form scores significantly higher, which comes before a whole pass."""
    scores = (run.change(f"scores/{name}") for name in run.channels if name != run.form_channel)
    return any(c is not None and c.z >= SIGNIFICANT for c in scores)


def format_falling(run: History) -> Finding | None:
    """Fewer answers have a complete code block than before, for another reason than the length limit."""
    fall = run.fall("format_rate")
    if fall is None or fall[1].rise > -FORMAT_WARNING:
        return None
    rows, c = fall
    cut = change(values(rows, "truncated"), values(run.last, "truncated"))
    if cut is not None and cut.rise >= -0.8 * c.rise:
        return None
    pay = "+task.reward.form._target_=rewards.form.Form +task.reward.form.weight=0.1"
    if run.form_channel:
        pay = scaled(run, f"task.reward.{run.form_channel}.weight", 2, 0.1)
    return Finding(
        "format falling",
        "serious" if c.rise <= -FORMAT_SERIOUS else "warning",
        evidence=f"{percent(c.after)} of the answers have a code block over {run.late_steps}, {percent(c.before)} over "
        f"{steps_text(rows)}.",
        remedy=f"Set {pay} or {lower_learning_rate(run)}.",
    )


def degenerate(run: History) -> Finding | None:
    """Nearly all groups have one reward and so no advantage."""
    counted = [row for row in run.last if finite(row.get("groups_total")) and finite(row.get("groups_skipped"))]
    groups, equal = (sum(row[key] for row in counted) for key in ("groups_total", "groups_skipped"))
    if run.solved or lower_bound(equal, groups) < DEGENERATE_WARNING:
        return None
    return Finding(
        "degenerate groups",
        "serious" if equal / groups >= DEGENERATE_SERIOUS else "warning",
        evidence=f"In {equal:.0f} of {groups:.0f} groups over {run.late_steps} all samples have the same reward: "
        "no advantage.",
        remedy=f"Draw more samples a group, {scaled(run, 'recipe.trl.num_generations', 2, 8)}, at "
        f"recipe.trl.temperature=1 {present(run, 'recipe.trl.temperature')}, and train on problems that are sometimes "
        "solved: task.pass_rates.",
    )


def entropy_collapse(run: History) -> Finding | None:
    """The policy has stopped exploring and has not solved the task."""
    key = "entropy" if values(run.last, "entropy") else "policy/entropy_avg"
    before, after = median(values(run.first, key)), median(values(run.last, key))
    if before is None or after is None or after > ENTROPY_FLOOR or run.solved:
        return None
    reward = run.change("reward")
    paid = f"; the reward went {reward.text}" if reward else ""
    warmer = max(1.0, run.setting("recipe.trl.temperature") or 1.0)
    return Finding(
        "entropy collapse",
        "warning" if run.improved else "serious",
        evidence=f"The median entropy is {three_digits(after)} nats a token over {run.late_steps}, "
        f"{three_digits(before)} over {run.early_steps}{paid}.",
        remedy=f"Set {smaller_updates(run)}. Sampling at recipe.trl.temperature={warmer:g} or above helps.",
    )


def kl_running_away(run: History) -> Finding | None:
    """The policy is far from the reference and no better for it, or leaves it ever faster."""
    middle, late = (median(_kl_per_token(rows)) for rows in (run.middle, run.last))
    reward = run.change("reward")
    if late is None or middle is None or reward is None or late < KL_LARGE:
        return None
    if run.improved and late < KL_GROWS * middle:
        return None
    return Finding(
        "KL running away",
        "warning" if run.improved else "serious",
        evidence=f"The median KL from the reference is {three_digits(late)} nats a token over {run.late_steps}, "
        f"{three_digits(middle)} before, and the reward went {reward.text}.",
        remedy=f"Set {stronger_kl(run)} or {lower_learning_rate(run)}.",
    )


def _kl_per_token(rows: Sequence[Record]) -> list[float]:
    """GRPO logs nats a token (`kl`), PPO nats a completion (`objective/kl`)."""
    if per_token := values(rows, "kl"):
        return per_token
    keys = ("objective/kl", "completion_tokens")
    pairs = [[row[key] for key in keys] for row in rows if all(finite(row.get(key)) for key in keys)]
    return [kl / tokens for kl, tokens in pairs if tokens]


def critic(run: History) -> Finding | None:
    """The critic's values explain nothing of the returns; serious where its loss grows as well."""
    rows = run.rows[len(run.rows) // 2 :]
    explained = values(rows, "value/explained_variance")
    if len(explained) < MIN_CRITIC_STEPS or run.solved:
        return None
    above, typical = sum(v > 0 for v in explained), median(values(run.last, "value/explained_variance")) or 0.0
    middle, late = (median(values(part, "loss/value_avg")) or 0.0 for part in (run.middle, run.last))
    grows = typical <= 0 and 0 < middle <= late / VALUE_GROWS
    if not grows and above > CRITIC_LUCK * len(explained):
        return None
    evidence = (
        f"The critic's explained variance is above 0 in {above} of {len(explained)} steps ({steps_text(rows)}), its "
        f"median {three_digits(typical)} over {run.late_steps}"
    )
    if grows:
        loss = f"the median value loss rose from {three_digits(middle)} to {three_digits(late)}"
        remedy = f"Set {scaled(run, 'value.learning_rate', 1 / 3, 1e-4)} or {scaled(run, 'value.vf_coef', 0.3, 0.1)}."
        return Finding("critic does not settle", "serious", f"{evidence}; {loss}.", remedy)
    warmup = f"value.warmup_updates=5 {present(run, 'value.warmup_updates')}"
    remedy = f"Set {scaled(run, 'value.learning_rate', 3, 1e-3)} and {warmup}, or value=separate."
    return Finding("critic does not settle", "warning", f"{evidence}.", remedy)


RULES = (
    exploding,
    collapse,
    reward_falling,
    flat_at_1,
    flat_at_0,
    format_falling,
    degenerate,
    entropy_collapse,
    kl_running_away,
    critic,
)
"""What needs a trend; `not_finite` does not."""
