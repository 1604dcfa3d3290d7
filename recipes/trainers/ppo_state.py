"""What DensePPOTrainer logs and keeps: the metrics of an update, checkpoints, exact resume."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from peft import PeftModel, set_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors.torch import load_file
from trl.experimental.ppo.ppo_trainer import OnlineTrainerState

from recipes.support.checkpoints import EXTRA, AtomicCheckpoints, random_states, set_random_states
from recipes.support.main import Stopped
from recipes.support.rollout import Rollout, measured, rollout_rows
from recipes.trainers.experience import Experience
from recipes.trainers.gae import explained_variance


class PPOState(AtomicCheckpoints):
    """Mix in before a PPOTrainer that has `policy`, `value`, `prompts`, `kl_coefficient`, `reward` and `run_log`."""

    control: Any

    def log_update(self, e: Experience, statistics: dict[str, float]) -> None:
        """One line of metrics under TRL's names, and this step's sampled completions."""
        mean, kl = functools.partial(self._mean, e), e.kl.sum(1)
        penalty = self.kl_coefficient.value * kl
        metrics = {
            "reward": mean(e.scores),
            "objective/kl": mean(kl),
            "objective/entropy": mean(-(e.logps * e.mask).sum(1)),
            "objective/non_score_reward": mean(-penalty),
            "objective/rlhf_reward": mean(e.scores - penalty),
            "objective/scores": mean(e.scores),
            "kl_coef": self.kl_coefficient.value,
            "lr": self.lr_scheduler.get_last_lr()[0],
            **self._grades(e),
            **statistics,
            **self._clock,
        }
        if "loss/value_avg" in statistics:
            metrics["value/explained_variance"] = explained_variance(e.values, e.returns, e.states, self._total).item()
        self.state.episode += self.args.batch_size * self.args.samples_per_prompt
        metrics["episode"] = self.state.episode
        self.state.epoch = self.state.global_step * self.args.batch_size / self.train_dataset_len
        rollout = Rollout(e.problems, e.answers, e.grades)
        picked = rollout_rows(rollout, e.advantages, self.state.global_step, self.run_log.per_step)
        picked = gather_object(picked)
        if self.accelerator.is_main_process:
            self.run_log.completions(picked)
        self.log(metrics)

    def _mean(self, e: Experience, per_row: torch.Tensor) -> float:
        """Mean of one number a completion over those of all processes that were graded; NaN where none was."""
        rows = (~e.scores.isnan()).float()
        return (self._total((per_row.nan_to_num() * rows).sum()) / self._total(rows.sum())).item()

    def _grades(self, e: Experience) -> dict[str, float]:
        """Means over all processes' completions: pass rate, channel scores, length; NaN where there is none."""
        columns: dict[str, list[float]] = {
            "pass_rate": [torch.nan if g is None or g.passed is None else float(g.passed) for g in e.grades],
            "ungraded": [float(g is None) for g in e.grades],
            "truncated": [float(not a.finished) for a in e.answers],
            "completion_tokens": [float(len(c)) for c in e.completions],
        }
        for name in self.reward.channels:
            columns[f"scores/{name}"] = [torch.nan if g is None else g.scores.get(name, torch.nan) for g in e.grades]
        for name in measured(e.grades):
            columns[name] = [torch.nan if g is None else g.measures.get(name, torch.nan) for g in e.grades]
        table = torch.tensor(list(columns.values()), device=e.mask.device)
        sums, counts = self._total(table.nansum(1)), self._total((~table.isnan()).sum(1))
        means = dict(zip(columns, (sums / counts).tolist(), strict=True))
        means["ungraded"] *= counts[list(columns).index("ungraded")].item()
        return means

    def adapt(self, e: Experience) -> None:
        """KL coefficient and learning rate of the next update."""
        kl = self._mean(e, e.kl.sum(1))
        if not math.isnan(kl):
            self.kl_coefficient.update(kl, self.args.batch_size * self.args.samples_per_prompt)
        self.lr_scheduler.step()

    def save(self) -> None:
        """A checkpoint where one is due."""
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
        if self.control.should_save:
            self._save_checkpoint(self.model, trial=None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    @contextmanager
    def undone_if_stopped(self) -> Iterator[None]:
        """The part of a step that changes no weight: stopped in it, the run is saved as it was before."""
        before, place = random_states(), self.prompts.state()
        try:
            yield
        except Stopped:
            self.prompts.load_state(place)
            set_random_states(before)
            if self.state.global_step:
                self._save_checkpoint(self.model, trial=None)
            raise

    def extra_state(self) -> dict[str, Any]:
        """The critic's trained weights, the place in the data, the KL coefficient, this process's share of states."""
        trained = {name for name, p in self.value.named_parameters() if p.requires_grad}
        critic = {name: t for name, t in self.value.state_dict().items() if name in trained}
        return {
            "value": critic if self.accelerator.is_main_process else {},
            "prompts": self.prompts.state(),
            "kl_coef": self.kl_coefficient.value,
            "steps": [step.state() for step in self.steps],
        }

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self.prompts.load_state(state["prompts"])
        self.kl_coefficient.value = state["kl_coef"]
        for step, own in zip(self.steps, state["steps"], strict=True):
            step.load_state(own)

    def resume(self, checkpoint: str) -> None:
        """Everything as it was when the checkpoint was made, random states last."""
        self.restore(Path(checkpoint))
        self._load_optimizer_and_scheduler(checkpoint)  # and extra_state
        self._load_scaler(checkpoint)
        schedule = self.lr_scheduler  # where max_steps was raised, the stored rates are those of the old schedule
        for group, base, rate in zip(self.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True):
            group["lr"] = base * rate(schedule.last_epoch)
        self._load_rng_state(checkpoint)

    def restore(self, checkpoint: Path) -> None:
        """Weights of policy and critic, and the step reached, without training on."""
        if isinstance(self.policy, PeftModel):
            set_peft_model_state_dict(self.policy, load_peft_weights(str(checkpoint), device="cpu"))
        else:
            _load_whole(self.policy, checkpoint / "model.safetensors")
        extra = torch.load(checkpoint / EXTRA.format(rank=0), map_location="cpu", weights_only=True)
        self.value.load_state_dict(extra["value"], strict=False)
        self.state = OnlineTrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()


def _load_whole(model: torch.nn.Module, file: Path) -> None:
    """Load every weight in place; safetensors' load_model refuses those that share a storage, as under ZeRO."""
    found = load_file(file)
    names = model.load_state_dict(found, strict=False)
    own = model.state_dict()
    tied = {own[name].data_ptr() for name in found if name in own}
    missing = [name for name in names.missing_keys if own[name].data_ptr() not in tied]
    if missing or names.unexpected_keys:
        raise ValueError(f"{file} is of another model: {', '.join([*missing, *names.unexpected_keys][:3])}")
