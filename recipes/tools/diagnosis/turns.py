"""Rules that find problems of episodes of several turns: a first turn that gives up, answers repeated, turns that
grow."""

from __future__ import annotations

from recipes.tools.diagnosis.finding import Finding, length_penalty, present
from recipes.tools.diagnosis.history import SIGNIFICANT, History
from recipes.tools.diagnosis.windows import mean, percent, three_digits, values

GIVEN_UP = 0.25
"""Share of the first turn's reward that was lost, where the last turn lost nothing: half of it is serious."""
REPEATED_WARNING, REPEATED_SERIOUS = 0.3, 0.6
"""Share of second answers that repeat the first: told what failed, an honest policy repeats an answer now and then."""
GROWN = 1.5
"""Late over early tokens of a later turn: repairing takes about as many tokens as writing."""


def first_turn_gives_up(run: History) -> Finding | None:
    """The first turn earns less and less while the last keeps its reward: what is paid is the difference."""
    first, last = run.change("turn_1/reward"), run.change("reward")
    if first is None or last is None or first.z > -SIGNIFICANT or last.z <= -SIGNIFICANT or first.before <= 0:
        return None
    lost = -first.rise / first.before
    if lost < GIVEN_UP:
        return None
    return Finding(
        "first turn gives up",
        "serious" if lost >= 2 * GIVEN_UP else "warning",
        evidence=f"The first turn's mean reward fell {first.text} ({run.early_steps} to {run.late_steps}), and the "
        f"episode's went {last.text}: later turns repair what the first leaves undone.",
        remedy=f"Set episode.pay=last {present(run, 'episode.pay')} with episode.gamma=0.8 "
        f"{present(run, 'episode.gamma')}, so that what a later turn earns is worth less.",
    )


def repeats(run: History) -> Finding | None:
    """Told what failed, the policy gives the same answer again."""
    for turn in range(2, _turns(run) + 1):
        late = values(run.last, f"turn_{turn}/repeated")
        if late and mean(late) >= REPEATED_WARNING:
            return Finding(
                "answers repeated",
                "serious" if mean(late) >= REPEATED_SERIOUS else "warning",
                evidence=f"{percent(mean(late))} of the answers of turn {turn} repeat the one before, over "
                f"{run.late_steps}: that turn teaches nothing.",
                remedy=f"Set episode.turns=1 {present(run, 'episode.turns')} until the policy answers what it is told, "
                "or say in episode.template what a repair is; recipe.trl.temperature=1.2 "
                f"{present(run, 'recipe.trl.temperature')} makes repeats rarer.",
            )
    return None


def grows(run: History) -> Finding | None:
    """A later turn's answers become longer and earn no more."""
    for turn in range(2, _turns(run) + 1):
        tokens = run.change(f"turn_{turn}/tokens")
        if tokens is None or tokens.z < SIGNIFICANT or tokens.after < GROWN * tokens.before or run.improved:
            continue
        return Finding(
            "turns grow",
            "warning",
            evidence=f"Answers of turn {turn} grew from {three_digits(tokens.before)} to {three_digits(tokens.after)} "
            f"tokens ({run.early_steps} to {run.late_steps}), and the reward did not rise.",
            remedy=f"Set {length_penalty(run)} or a lower task.max_new_tokens {present(run, 'task.max_new_tokens')}.",
        )
    return None


def _turns(run: History) -> int:
    turns = run.setting("episode.turns")
    return turns if type(turns) is int else 1


RULES = (first_turn_gives_up, repeats, grows)
