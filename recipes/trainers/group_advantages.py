"""From graded groups to GRPO's advantages: the answer's own, its turns', its parts' and its tokens'."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from accelerate import PartialState
from accelerate.utils import gather, gather_object

from recipes.data.parts import Earned, centred, earned, groups_that_differ, without_other_parts
from recipes.sampling.group_batch import GroupRollout, degenerate_groups
from recipes.trainers.advantages import group_relative, token_shaping
from recipes.trainers.line_credit import LineCredit
from recipes.trainers.turns import advantages_by_turn, lengths_by_turn, turn_columns


@dataclass(frozen=True)
class GroupAdvantages:
    """
    Args:
        group: G, completions of a group. longest: tokens of the longest answer of one turn.
        scale: what advantages are divided by; see advantages.group_relative.
        shaping: weight of a token's own reward; with 0 every token has its answer's group-relative advantage, and parts
            are not compared.
        turns, discount: of episodes: turns at most, and the discount between them.
        lines: credit for lines, in place of all that is said above; None: none.

    All processes call its methods together. Parts count in answers of one turn.

    Raises ValueError where advantages with a token's own reward are to be divided: token rewards can differ much in
    answers whose totals hardly differ, and would be divided by next to nothing.
    """

    group: int
    longest: int
    scale: str
    shaping: float
    turns: int
    discount: float
    lines: LineCredit | None = None

    def __post_init__(self) -> None:
        if self.shaping and self.scale != "none":
            raise ValueError(f"shaping={self.shaping:g} with scale={self.scale!r}: set one of them to 0 or 'none'")

    def returns_by_turn(self, rollout: GroupRollout, rewards_NG: torch.Tensor) -> list[torch.Tensor]:
        """For each turn the discounted reward from that turn on, of all processes: (N, G) each. Of one turn these are
        the rewards."""
        if self.turns == 1:
            return [rewards_NG]
        own = rollout.returns_by_turn(self.group, self.turns, self.discount)
        return [gather(returns_NG.to(rewards_NG.device)) for returns_NG in own]

    def __call__(self, rollout: GroupRollout, returns_by_turn: list[torch.Tensor]) -> torch.Tensor:
        """Of all processes: (B,), or where tokens or turns differ (B, T) or wider."""
        device, completions = returns_by_turn[0].device, rollout.completions
        width = self._width(rollout, device)
        if self.lines is not None:
            return gather(self.lines(rollout, width).to(device))
        own = self._own_rewards(rollout, width, device) if self.shaping else None
        lengths = gather(lengths_by_turn(completions, self.turns).to(device))
        if self.turns > 1:
            columns = gather(turn_columns(completions, width).to(device))
            return advantages_by_turn(self._of_one_turn, returns_by_turn, own, lengths, columns)
        whole = self._of_one_turn(returns_by_turn[0], own, lengths[:, 0])
        if own is None:
            return whole
        if (parts := self._earned(rollout)) is None:
            return whole
        first = PartialState().process_index * len(completions)
        own_parts = centred(parts, self.group)[first : first + len(completions)]
        return whole + gather(without_other_parts(rollout.grades, completions, own_parts, width).to(device))

    def differ(self, rollout: GroupRollout, device: torch.device) -> torch.Tensor | None:
        """Which groups teach by one of their parts, (N,) of all processes; None where parts do not count."""
        parts = self._earned(rollout)
        return None if parts is None else groups_that_differ(parts, self.group).to(device)

    def _earned(self, rollout: GroupRollout) -> list[Earned | None] | None:
        """What each answer earned with its parts, of all processes; None where none has any or they do not count."""
        if not self.shaping or self.turns > 1:
            return None
        rows = gather_object(earned(rollout.grades))
        return rows if any(rows) else None

    def _of_one_turn(
        self, rewards_NG: torch.Tensor, own_BT: torch.Tensor | None, lengths_B: torch.Tensor
    ) -> torch.Tensor:
        advantages = group_relative(rewards_NG, self.scale).flatten()
        if own_BT is not None:
            shaping = token_shaping(own_BT, lengths_B, rewards_NG)
            advantages = advantages[:, None] + self.shaping * shaping
        advantages[degenerate_groups(rewards_NG).repeat_interleave(self.group)] = 0.0
        return advantages

    def _own_rewards(self, rollout: GroupRollout, width: int, device: torch.device) -> torch.Tensor:
        """What each token itself earned, of all processes: (B, width)."""
        own = torch.zeros(len(rollout.grades), width, device=device)
        for row, grade in enumerate(rollout.grades):
            if grade is not None:
                sampled = grade.own_rewards[rollout.completions[row].given :]
                own[row, : len(sampled)] = torch.tensor(sampled, device=device)
        return gather(own)

    def _width(self, rollout: GroupRollout, device: torch.device) -> int:
        """Columns that all processes agree on: of one turn, those of the longest possible answer."""
        if self.turns == 1:
            return self.longest
        longest = max(len(completion.token_ids) for completion in rollout.completions)
        return int(gather(torch.tensor([longest], device=device)).max())
