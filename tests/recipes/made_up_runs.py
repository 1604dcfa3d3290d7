"""Made-up run directories, sample by sample: sixteen answers a step to problems of unlike difficulty, as noisy as real.

Metrics are counted from the samples that were drawn, so a step's pass rate, reward, groups and lengths agree.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROMPTS, GENERATIONS, LIMIT = 4, 4, 72
HELD_OUT = 66
PAID = ("pass", "held-out")
"""Verdicts of answers that pass the tests that pay."""


@dataclass
class MadeUp:
    """A run to be written. `sick` names what is wrong with it, "" nothing."""

    recipe: str = "grpo"
    seed: int = 0
    steps: int = 60
    sick: str = ""
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.recipe} {self.sick} {self.seed}")
        self.hard = {f"basics/problem_{i}": self.rng.gauss(0, 1.5) for i in range(200)}
        self.held_out = [self.rng.gauss(0, 1.5) for _ in range(HELD_OUT)]

    def share(self, step: int) -> float:
        """How far the run is, 0 to 1."""
        return step / max(1, self.steps)

    def chance(self, hard: float, step: int, held_out: bool = False) -> float:
        """That an answer with a complete block passes."""
        if self.sick == "reward flat at 0":
            return 0.0
        if self.sick == "reward flat at 1":
            return 0.998
        skill = -1.6 + 2.0 * self.share(step)
        if self.sick in ("KL running away", "entropy collapse", "held-out pass@1 fell"):
            skill = -0.6 - 0.4 * self.share(step)
        if self.sick == "reward falling":
            skill = 1.2 - 4.3 * self.share(step)
        if self.sick in ("reward hacking", "tests gamed"):
            skill = -1.0 - 2.0 * self.share(step) if held_out else -1.6 + 4.0 * self.share(step)
        if self.sick == "held-out pass@1 fell" and held_out:
            skill = 1.0 - 5.0 * self.share(step)
        return 1 / (1 + math.exp(hard - skill))

    def form(self, step: int) -> tuple[float, float]:
        """Chances that an answer has a complete block where it is not cut, and that it is cut."""
        if self.sick == "reward flat at 1":
            return 1.0, 0.0
        form, cut = 0.97 - 0.35 * math.exp(-step / 4), 0.4 * math.exp(-step / 5) + 0.02
        if self.sick == "format falling":
            form = 0.95 - 0.6 * self.share(step)
        return form, 0.65 if self.sick == "answers cut" else cut

    def sample(self, task: str, step: int) -> dict[str, Any]:
        """One answer and what it earned."""
        form, cut = self.form(step)
        cut = self.rng.random() < cut
        if self.sick == "collapse" and step > 0.4 * self.steps:
            return answer(task, "```\n```", "fail", 3, True)
        block = not cut and self.rng.random() < form
        passed = block and self.rng.random() < self.chance(self.hard[task], step)
        body = f"return {'right' if passed else 'wrong'}(x, {self.rng.randrange(50)})"
        text = f"```python\ndef {task.split('/')[1]}(x):\n    {body}\n" + "```" * block
        verdict = "pass" if passed else "fail"
        if self.sick == "timeouts" and self.rng.random() < 0.5:
            verdict = self.rng.choice(("timeout", "timeout", "killed"))
        made = answer(task, text, verdict, LIMIT if cut else min(LIMIT - 1, round(self.rng.gauss(34, 8))), block)
        made["finished"] = not cut
        if self.sick == "tests gamed" and passed and self.rng.random() < self.share(step):
            made["verdict"] = "held-out"
        if self.sick == "ungraded samples" and self.rng.random() < 0.1:
            made |= {"reward": None, "verdict": "not graded"}
        return made

    def group(self, step: int) -> list[dict[str, Any]]:
        """The answers to one prompt."""
        task = self.rng.choice(list(self.hard))
        drawn = [self.sample(task, step) for _ in range(GENERATIONS)]
        return [dict(drawn[0]) for _ in drawn] if self.sick == "degenerate groups" else drawn

    def metrics(self, step: int, groups: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """The line of metrics.jsonl for a step's groups."""
        rows = [row for group in groups for row in group]
        graded = [row for row in rows if row["reward"] is not None]
        out = {
            "step": step,
            "reward": mean(row["reward"] for row in graded),
            "pass_rate": mean(row["verdict"] == "pass" for row in graded),
            "scores/unit_tests": mean(row["verdict"] in PAID for row in graded),
            "scores/form": mean(row["closed"] for row in graded),
            "ungraded": len(rows) - len(graded),
            "format_rate": mean(row["closed"] for row in rows),
            "truncated": mean(not row["finished"] for row in rows),
            "completion_tokens": mean(row["length"] for row in rows),
            **self.seconds(),
        }
        paid = [row["verdict"] == "pass" for row in graded if row["verdict"] in PAID]
        if self.sick == "tests gamed":
            out["unit_tests/watched"] = len(paid) / len(graded)
            out |= {"unit_tests/held_out_passed": mean(paid)} if paid else {}
        return out | (self.grpo(step, groups) if self.recipe == "grpo" else self.ppo(step, out["completion_tokens"]))

    def noisy(self, middle: float, spread: float = 0.4) -> float:
        """A positive number around `middle`, now and then far above it."""
        return middle * math.exp(self.rng.gauss(0, spread)) * (8 if self.rng.random() < 0.03 else 1)

    def seconds(self) -> dict[str, float]:
        grade = 20.0 if self.sick == "sandbox starves training" else 0.05
        results = {"rollout": self.noisy(5), "grade": self.noisy(grade), "update": self.noisy(3)}
        return {f"seconds/{k}": v for k, v in results.items()} | {"seconds/total": sum(results.values())}

    def entropy(self, step: int) -> float:
        low = 0.008 if self.sick == "entropy collapse" and step > self.steps / 2 else 0.15
        return self.noisy(low + 0.7 * math.exp(-step / 5) * (low > 0.1), 0.3)

    def grpo(self, step: int, groups: list[list[dict[str, Any]]]) -> dict[str, Any]:
        degenerate = sum(len({row["reward"] for row in group} - {None}) < 2 for group in groups)
        explodes = math.exp(max(0.0, step - 0.75 * self.steps)) if self.sick == "loss exploding" else 1.0
        out = {"groups_total": len(groups), "groups_skipped": degenerate, "loss": 0.0, "grad_norm": 0.0}
        if degenerate < len(groups):
            loss, norm = self.rng.gauss(0, 0.03) * explodes, self.noisy(0.1, 0.6) * explodes
            out |= {"loss": loss, "grad_norm": norm, "entropy": self.entropy(step)}
        if self.sick == "loss not finite" and step > 0.9 * self.steps:
            del out["grad_norm"]  # the log leaves a value out that is not finite
        return out

    def ppo(self, step: int, tokens: float) -> dict[str, Any]:
        kl, value = 4 * (1 - math.exp(-step / 6)), 0.03
        explained = min(0.9, self.rng.gauss(0.15 * self.share(step), 0.3)) - (self.rng.random() < 0.1) * 3
        if self.sick == "KL running away":
            kl = 2 * math.exp(5 * self.share(step))
        if self.sick == "critic does not settle":
            value, explained = 0.03 * math.exp(9 * self.share(step)), self.rng.gauss(-1.5, 0.6)
        if self.sick == "critic knows nothing":
            explained = -abs(self.rng.gauss(0.1, 0.2))
        return {
            "objective/kl": self.noisy(kl, 0.7) * tokens / 34,
            "policy/entropy_avg": self.entropy(step),
            "policy/approxkl_avg": self.noisy(0.003, 1.0),
            "loss/policy_avg": self.rng.gauss(0, 0.03),
            "loss/value_avg": self.noisy(value, 0.6),
            "value/explained_variance": explained,
            "grad_norm": self.noisy(0.5),
            "episode": 16 * step,
        }

    def evaluation(self, when: str, step: int) -> dict[str, Any]:
        """Eight samples to each held-out problem, with the interval over problems."""
        dead = self.sick == "collapse" and when == "after"
        form, cut = self.form(step)
        whole = 0.0 if dead else form * (1 - cut)
        chances = [whole * self.chance(hard, step, held_out=True) for hard in self.held_out]
        shares = [mean(self.rng.random() < p for _ in range(8)) for p in chances]
        value = mean(shares)
        error = 1.96 * math.sqrt(mean((s - value) ** 2 for s in shares) / HELD_OUT)
        results = {"1": {"value": value, "low": value - error, "high": value + error}}
        base = {"when": when, "step": step, "task": "basics", "split": "test", "problems": HELD_OUT, "samples": 8}
        return base | {"temperature": 1.0, "pass@k": results}

    def config(self) -> dict[str, Any]:
        trl: dict[str, Any] = {"learning_rate": 3e-4, "temperature": 1.0, "max_grad_norm": 1.0}
        recipe: dict[str, Any] = {"name": self.recipe, "prompts_per_step": PROMPTS, "trl": trl}
        if self.recipe == "grpo":
            trl |= {"num_generations": GENERATIONS, "beta": 0.0}
        else:
            recipe["samples_per_prompt"] = GENERATIONS
            trl |= {"kl_coef": 0.02, "missing_eos_penalty": None}
        form = {"_target_": "rewards.form.Form", "weight": 0.1, "block": 1.0, "no_block": 0.0, "length_alpha": 0.0}
        unit_tests = {"_target_": "rewards.unit_tests.UnitTests", "weight": 1.0}
        if self.sick == "tests gamed":
            unit_tests["held_out"] = 0.3
        reward = {"unit_tests": unit_tests, "form": form}
        limits = {"cpu_s": 4.0, "wall_s": 5.0}
        value = {"learning_rate": 1e-3, "vf_coef": 0.1, "warmup_updates": 0} if self.recipe == "ppo" else None
        return {
            "recipe": recipe,
            "task": {"name": "basics", "max_new_tokens": LIMIT, "reward": reward},
            "sandbox": {"workers": 2, "limits": limits},
            "value": value,
        }

    def write(self, folder: Path) -> Path:
        """The files of a run directory that the diagnosis reads."""
        folder.mkdir(parents=True, exist_ok=True)
        metrics, answers = [], []
        evals = [self.evaluation("before", 0)]
        for step in range(1, self.steps + 1):
            groups = [self.group(step) for _ in range(PROMPTS)]
            metrics.append(self.metrics(step, groups))
            answers += [row | {"step": step} for group in groups for row in group[::2]]
        evals.append(self.evaluation("after", self.steps))
        (folder / "config.yaml").write_text(json.dumps(self.config()))  # JSON is YAML
        for name, rows in (("metrics", metrics), ("completions", answers), ("evals", evals)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder


def answer(task: str, text: str, verdict: str, tokens: int, closed: bool) -> dict[str, Any]:
    """A line of completions.jsonl, as far as the diagnosis reads it."""
    reward = 1.0 * (verdict == "pass") + 0.1 * closed
    base = {"task_id": task, "completion": text, "reward": reward, "verdict": verdict, "length": tokens}
    return base | {"closed": closed, "finished": True}


def mean(results) -> float:
    results = list(results)
    return sum(results) / len(results)
