"""Episodes of several turns as trainers and logs see them: one row of tokens, of which the policy wrote a part.

A row holds the policy's turns and, between them, the environment's replies. An episode of one turn is a plain
Completion with a plain Grade, so that nothing changes for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from accelerate import PartialState

from envs.episode import Pay
from recipes.data.completions import Rollout, completion_rows
from recipes.records.completion_rows import completion_row, picked, rows_of_all
from rewards.attribution import TokenBytes, locate
from rewards.channel import Completion
from rewards.compose import Grade


@dataclass(frozen=True)
class Turn:
    """answer: what the policy wrote, with the log-probabilities that it was drawn with (none: not known). reply,
    reply_ids: the environment's reply to it, with the marks between two messages; empty in the last turn."""

    answer: Completion
    logps: Sequence[float] = ()
    reply: str = ""
    reply_ids: Sequence[int] = ()


@dataclass(frozen=True)
class EpisodeCompletion(Completion):
    """The whole row. `code_span`, `finished` and `closed` are the last turn's."""

    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class EpisodeGrade(Grade):
    """What an episode earned: `results`, `rewards` and `weights` of the whole row, as of one completion.

    turns: each turn's own grade. pays: what each turn is paid; they sum to `total`.
    """

    turns: tuple[Grade | None, ...] = ()
    pays: tuple[float, ...] = field(default=())


def joined(turns: Sequence[Turn], token_bytes: TokenBytes) -> Completion:
    """The row of an episode's turns."""
    if len(turns) == 1:
        return turns[0].answer
    text, ids, offsets = "", [], []
    for turn in turns:
        written = turn.answer
        start = len(text)
        ids += [*written.token_ids, *turn.reply_ids]
        message, places = locate(list(turn.reply_ids), token_bytes)
        offsets += [(a + start, b + start) for a, b in written.offsets]
        offsets += [(a + start + len(written.text), b + start + len(written.text)) for a, b in places]
        text += written.text + message
    last = turns[-1].answer
    at = len(text) - len(last.text)
    span = None if last.code_span is None else (last.code_span[0] + at, last.code_span[1] + at)
    return EpisodeCompletion(text, ids, offsets, span, last.finished, last.closed, turns=tuple(turns))


def turns_of(completion: Completion) -> tuple[Turn, ...]:
    """The turns of a row; a plain completion is one."""
    return completion.turns if isinstance(completion, EpisodeCompletion) else (Turn(completion),)


def places_of(completion: Completion) -> list[tuple[int, int]]:
    """Tokens (start, end) that the policy wrote in each turn."""
    places, at = [], 0
    for turn in turns_of(completion):
        places.append((at, at + len(turn.answer.sampled_ids)))
        at = places[-1][1] + len(turn.reply_ids)
    return places


def written_tokens(completion: Completion) -> int:
    """How many tokens the policy wrote."""
    return sum(end - start for start, end in places_of(completion))


def row_logps(completion: Completion, drawn_with: Sequence[float]) -> list[float]:
    """Log-probabilities of a row's tokens, 0 at the environment's; a plain completion's are `drawn_with`."""
    if not isinstance(completion, EpisodeCompletion):
        return list(drawn_with)
    logps: list[float] = []
    for turn in completion.turns:
        logps += [*(turn.logps or [math.nan] * len(turn.answer.token_ids)), *([0.0] * len(turn.reply_ids))]
    return logps


def pays_of(totals: Sequence[float], pay: Pay) -> list[float]:
    """What each turn is paid, of the turns' own rewards; the sum is the last turn's reward."""
    if pay == "last":
        return [*([0.0] * (len(totals) - 1)), totals[-1]]
    return [totals[0], *(after - before for before, after in itertools.pairwise(totals))]


def episode_grade(
    completion: Completion, grades: Sequence[Grade | None], pay: Pay, weights: Mapping[str, float]
) -> Grade | None:
    """The grade of a row of its turns' grades; None where a turn that is paid for could not be graded.

    Each paid turn's rewards lie on its own tokens. What is taken for the turn before lies on a turn's last token, so
    each channel's token rewards sum to its score, which is what the placement `sparse` pays. It is no token's own
    reward (`Grade.form`): the token that ends a turn is not to blame for the turn before. weights: the reward's own.
    """
    if len(grades) == 1:
        return grades[0]
    counted: list[Grade | None] = list(grades) if pay == "improvement" else [*([None] * (len(grades) - 1)), grades[-1]]
    last = grades[-1]
    if last is None or (pay == "improvement" and None in counted):
        return None
    rewards = {name: [0.0] * len(completion.token_ids) for name in weights}
    form = [0.0] * len(completion.token_ids)
    for number, ((start, end), grade) in enumerate(zip(places_of(completion), counted, strict=True)):
        if grade is None:
            continue
        before = counted[number - 1] if number else None
        form[start:end] = grade.form or [0.0] * (end - start)
        form[end - 1] -= before.total if before is not None else 0.0
        for name, row in rewards.items():
            share = _share(grade, name, weights)
            row[start:end] = [share * value for value in grade.rewards[name]]
            if before is not None:
                row[end - 1] -= _share(before, name, weights) * before.results[name].score
    results = {name: replace(r, score=sum(rewards[name]), spans=()) for name, r in last.results.items()}
    totals = [0.0 if grade is None else grade.total for grade in counted]
    pays = tuple(pays_of(totals, pay))
    return EpisodeGrade(results, rewards, dict(weights), form=form, turns=tuple(grades), pays=pays)


def _share(grade: Grade, name: str, weights: Mapping[str, float]) -> float:
    """A turn's own weight of a channel (a silent channel's weight goes to the others) as a share of the reward's."""
    return grade.weights[name] / weights[name] if weights[name] else 1.0


def returns_of(grade: Grade | None, gamma: float) -> list[float]:
    """From each turn on, what is paid, later turns discounted; empty where there is no grade."""
    if grade is None:
        return []
    if not isinstance(grade, EpisodeGrade):
        return [grade.total]
    returns = [0.0]
    for paid in reversed(grade.pays):
        returns.append(paid + gamma * returns[-1])
    return returns[:0:-1]


def turn_grades(completion: Completion, grade: Grade | None) -> list[Grade | None]:
    """Each turn's own grade."""
    if isinstance(grade, EpisodeGrade):
        return list(grade.turns)
    turns = len(turns_of(completion))
    return [grade] if turns == 1 else [None] * turns


def episode_rows(rollout: Rollout, advantages: torch.Tensor, step: int, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` episodes as rows of completions.jsonl, a row for each turn: an answer like any other, with
    `episode` (its number in the step's batch, of all processes), `turn` (from 1), `turns`, `heard` (the environment's
    reply before it) and `paid`."""
    rows = []
    first = PartialState().process_index * len(rollout.grades)
    for i in picked(len(rollout.grades), limit):
        completion, grade = rollout.completions[i], rollout.grades[i]
        grades, places = turn_grades(completion, grade), places_of(completion)
        heard = ""
        for number, turn in enumerate(turns_of(completion)):
            start, end = places[number]
            own = advantages[i][start:end] if advantages.dim() > 1 else advantages[i]
            row = completion_row(rollout.problems[i], turn.answer, grades[number], own, step)
            paid = grade.pays[number] if isinstance(grade, EpisodeGrade) else row["reward"]
            place = {"episode": first + i, "turn": number + 1, "turns": len(places)}
            rows.append(row | place | {"heard": heard, "paid": paid})
            heard = turn.reply
    return rows


def rows_of_step(rollout: Rollout, advantages: torch.Tensor, step: int, limit: int, turns: int) -> list[dict[str, Any]]:
    """Rows of completions.jsonl of all processes: up to `limit` answers, or episodes of up to `turns` turns."""
    rows_of = episode_rows if turns > 1 else completion_rows
    return rows_of_all(rows_of(rollout, advantages, step, limit), limit)
