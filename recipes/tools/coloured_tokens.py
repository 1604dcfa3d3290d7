"""Graded answers for a terminal: each token in the colour of its reward, each channel's score and note below.

Positive rewards are green, negative ones red; the strongest token shown has the full colour.
"""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from envs.feedback.plain_text import plain
from recipes.cli.console import for_terminal
from recipes.cli.errors import UserError

SUM = "weighted sum"


def cards(rows: list[dict[str, Any]], channel: str | None) -> list[Panel]:
    """A panel for each completion. Raises UserError for a channel that the run does not have, and for rows of another
    form."""
    if any(not {"tokens", "reward", "task_id"} <= row.keys() for row in rows):
        raise UserError("the rows of this completions.jsonl have no tokens with rewards: another program wrote them")
    names = list(dict.fromkeys(name for row in rows for name in row.get("scores", {})))
    if channel is not None and channel not in names:
        raise UserError(f"reward={channel}: this run has {', '.join(names) or 'no graded completion here'}")
    values = [token_rewards(row, channel) for row in rows]
    scale = max((abs(v) for each in values for v in each), default=0.0) or 1.0
    return [card(row, each, channel, scale) for row, each in zip(rows, values, strict=True)]


def token_rewards(row: dict[str, Any], channel: str | None) -> list[float]:
    """One channel's token rewards, or their weighted sum; zeros where the row was not graded."""
    if row["reward"] is None:
        return [0.0] * len(row["tokens"])
    if channel is not None:
        return row["token_rewards"][channel]
    weighted = ([row["weights"][name] * v for v in each] for name, each in row["token_rewards"].items())
    return [sum(column) for column in zip(*weighted, strict=True)]


def card(row: dict[str, Any], values: list[float], channel: str | None, scale: float) -> Panel:
    """One completion: its coloured tokens, then each channel's score, weight and note."""
    text = Text()
    if row.get("heard"):  # the environment's reply before this turn
        text.append(f"{plain(row['heard'])}\n\n", "italic dim")
    for number, (token, value) in enumerate(zip(row["tokens"], values, strict=True)):
        if number < row.get("given", 0):  # the beginning of the reference, on which nothing is trained
            text.append(for_terminal(token), "dim italic")
            continue
        mark = "⏎" if value and not token.strip("\n") else ""  # a line break and an end token have no width to colour
        text.append(mark + for_terminal(token), colour(value / scale))
    scores = Table(box=None, pad_edge=False, show_header=False)
    for name, score in row.get("scores", {}).items():
        if channel in (None, name):
            scores.add_row(
                name, f"{score:+.3f}", f"x {row['weights'][name]:g}", Text(for_terminal(row["notes"].get(name) or ""))
            )
    reward = "not graded" if row["reward"] is None else f"reward {row['reward']:+.3f}"
    verdict = f", {row['verdict']}" if row["verdict"] and row["reward"] is not None else ""
    place = "" if row["step"] is None else f"step {row['step']}  "
    advantage = "" if row["advantage"] is None else f", advantage {row['advantage']:+.3f}"
    turn = f"  turn {row['turn']} of {row['turns']}, paid {_paid(row)}" if "turn" in row else ""
    title = f"{place}{row['task_id']}{turn}  {reward}{verdict}{advantage}"
    legend = Text(f"{channel or SUM}, full colour {scale:.3g} a token", "dim")
    return Panel(Group(text, Text(), scores, legend), title=Text(for_terminal(title)), title_align="left")


def _paid(row: dict[str, Any]) -> str:
    return "nothing known" if row["paid"] is None else f"{row['paid']:+.3f}"


def colour(share: float) -> str:
    """A style for a share of the strongest reward shown, from -1 to 1."""
    if abs(share) < 0.004:
        return ""
    pale = round(235 - 150 * min(1.0, abs(share)))
    return f"black on rgb({pale},235,{pale})" if share > 0 else f"black on rgb(245,{pale},{pale})"
