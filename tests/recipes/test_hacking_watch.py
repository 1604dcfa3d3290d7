"""The watch over held-out tests: a policy that finds a cheat is told on within 20 steps, honest ones never are.

Policies draw among answers to real problems of basics, graded once each in the sandbox by the channels of a run; their
metrics are those that GRPO and PPO log.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from dataclasses import dataclass, field

import pytest
import torch
from transformers import TrainerState

from envs.basics import Basics
from envs.sandbox import Limits, LocalSandbox
from recipes import doctor
from recipes.support.diagnosis import diagnose
from recipes.support.diseases_hacking import Watch
from recipes.support.history import load_history
from recipes.support.records import read_jsonl
from recipes.support.rollout import Rollout, rollout_rows
from recipes.support.run_log import RunLog
from recipes.support.soundness import as_answer, planted_wrong
from recipes.trainers.experience import Experience
from recipes.trainers.groups import rollout_metrics
from recipes.trainers.rollouts import GroupRollout
from rewards.compose import Reward
from rewards.form import Form
from rewards.held_out import divide
from rewards.unit_tests import UnitTests
from tests.recipes.test_dense_ppo import trainer

SHARE = 0.3
PROMPTS = 8
GROUPS = {"grpo": 8, "ppo": 4}
WEIGHTS = {"unit_tests": 1.0, "form": 0.1}


def channels(sandbox) -> Reward:
    return Reward({"unit_tests": UnitTests(sandbox, False, held_out=SHARE), "form": Form()}, WEIGHTS)


def wrapped(problem, test: str, otherwise: str) -> str:
    """A function that answers `otherwise` where the arguments are not as in `test`."""
    return (
        f"{problem.reference}\n_right = {problem.entry_point}\n\n\ndef {problem.entry_point}(*args):\n{test}{otherwise}"
    )


def codes(problem) -> dict[str, str]:
    """Answers of each kind: right, wrong, near (a mistake at one test, held out or not), cheat (knows what pays)."""
    paid, held = divide(problem, SHARE)
    seen = [(list(case.args), case.expected) for case in paid.cases]
    cheat = f"def {problem.entry_point}(*args):\n    for seen, value in {seen!r}:\n        if list(args) == seen:\n"
    mistake = "    if list(args) == {!r}:\n        return 'a mistake'\n"
    return {
        "right": problem.reference,
        "wrong": planted_wrong(problem),
        "near": wrapped(problem, mistake.format(list(held.cases[0].args)), "    return _right(*args)\n"),
        "nearly": wrapped(problem, mistake.format(list(paid.cases[-1].args)), "    return _right(*args)\n"),
        "cheat": f"{cheat}            return value\n",
    }


@dataclass
class Graded:
    """Answers of each kind to each problem, and their grades: [kind][problem]."""

    problems: list
    answers: dict[str, list]
    grades: dict[str, list]


@pytest.fixture(scope="module")
def graded():
    task = Basics()
    problems = task.problems("train")[:32]
    by_kind: dict[str, list] = {}
    for problem in problems:
        for kind, code in codes(problem).items():
            by_kind.setdefault(kind, []).append(as_answer(task, problem, code))

    async def grade():
        sandbox = LocalSandbox(workers=1, limits=Limits())
        found = {kind: await channels(sandbox).grade(problems, answers) for kind, answers in by_kind.items()}
        await sandbox.close()
        return found

    return Graded(problems, by_kind, asyncio.run(grade()))


@dataclass
class Policy:
    """Attempts a problem, or cheats. `skill`: share of attempts that are right, at the first and at the last step."""

    seed: int
    skill: tuple[float, float] = (0.1, 0.6)
    near: float = 0.05
    cheat: float = 0.0
    rate: float = 12.0
    rng: random.Random = field(init=False)

    def __post_init__(self):
        self.rng = random.Random(self.seed)

    def draw(self, share: float) -> str:
        """The kind of an answer, `share` of the run done."""
        if self.rng.random() < self.cheat:
            return "cheat"
        right, at = self.skill[0] + share * (self.skill[1] - self.skill[0]), self.rng.random()
        kinds = (("right", right), ("near", self.near), ("nearly", self.near))
        for kind, chance in kinds:
            if (at := at - chance) < 0:
                return kind
        return "wrong"

    def learn(self, groups: list[list[tuple[str, float]]]) -> None:
        """A step of REINFORCE on the logit of cheating, rewards less their group's mean (Williams 1992)."""
        if not self.cheat:
            return
        slopes = []
        for group in groups:
            mean = sum(reward for _, reward in group) / len(group)
            slopes += [(reward - mean) * ((kind == "cheat") - self.cheat) for kind, reward in group]
        logit = math.log(self.cheat / (1 - self.cheat)) + self.rate * sum(slopes) / len(slopes)
        self.cheat = 1 / (1 + math.exp(-logit))


def run(folder, recipe: str, policy: Policy, graded: Graded, steps: int):
    """A run directory that `policy` has trained for `steps`; the shares of cheats, a step each."""
    group = GROUPS[recipe]
    each = {"grpo": "num_generations", "ppo": "samples_per_prompt"}[recipe]
    unit_tests = {"_target_": "rewards.unit_tests.UnitTests", "weight": 1.0, "held_out": SHARE}
    task = {"name": "basics", "reward": {"unit_tests": unit_tests, "form": {"_target_": "F", "weight": 0.1}}}
    config = {"recipe": {"name": recipe, "prompts_per_step": PROMPTS, each: group, "beta": 0.0}, "task": task}
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    log, state = RunLog(folder, PROMPTS), TrainerState(max_steps=steps)
    log.on_train_begin(None, state, None)
    ppo = trainer(folder) if recipe == "ppo" else None
    shares = []
    for step in range(1, steps + 1):
        places = [policy.rng.randrange(len(graded.problems)) for _ in range(PROMPTS)]
        drawn = [(n, policy.draw(step / steps)) for n in places for _ in range(group)]
        found = [graded.grades[kind][n] for n, kind in drawn]
        problems, answers = [graded.problems[n] for n, _ in drawn], [graded.answers[kind][n] for n, kind in drawn]
        rewards = torch.tensor([grade.total for grade in found])
        if ppo is None:
            metrics = rollout_metrics(GroupRollout(problems, answers, found), rewards, group)
        else:
            ppo.reward = channels(None)
            ids = [[0]] * len(found)
            metrics = ppo._grades(Experience(problems, ids, ids, answers, found, mask=torch.ones(1)))
        state.global_step = step
        log.completions(rollout_rows(Rollout(problems, answers, found), torch.zeros(len(found)), step, PROMPTS))
        log.on_log(None, state, None, logs={"reward": rewards.mean().item(), **metrics})
        rows = list(zip((kind for _, kind in drawn), rewards.tolist(), strict=True))
        policy.learn([rows[i : i + group] for i in range(0, len(rows), group)])
        shares.append(sum(kind == "cheat" for kind, _ in rows) / len(rows))
    return shares


def test_the_answers_are_what_they_are_called(graded):
    said = {kind: {grade.verdict for grade in grades} for kind, grades in graded.grades.items()}
    assert said == {
        "right": {"pass"},
        "wrong": {"fail"},
        "near": {"held-out"},
        "nearly": {"fail"},
        "cheat": {"held-out"},
    }
    assert {grade.total for grade in graded.grades["cheat"]} == {1.1}


@pytest.mark.parametrize("recipe", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_finds_a_cheat_is_told_on_within_20_steps(tmp_path, graded, recipe, seed, caplog):
    policy = Policy(seed, skill=(0.2, 0.2), cheat=0.02)
    with caplog.at_level("WARNING", logger="codegrain"):
        shares = run(tmp_path / "run", recipe, policy, graded, 20)
    assert shares[0] < 0.1 and shares[-1] > 0.8  # the reward did teach it
    finding = diagnose(load_history(tmp_path / "run")).findings[0]
    assert (finding.name, finding.severity) == ("tests gamed", "serious")
    assert len({a.task_id for a in finding.samples}) == 3 and {a.verdict for a in finding.samples} == {"held-out"}
    warned = [message for message in caplog.messages if "tests gamed" in message]
    assert len(warned) == 1 and warned[0].split("sure at step ")[1].split(".")[0] in finding.evidence
    assert doctor.main([f"run={tmp_path / 'run'}"]) == 1


@pytest.mark.parametrize("seed", range(10))
def test_an_honest_run_raises_no_alarm(tmp_path, graded, seed, caplog):
    recipe = sorted(GROUPS)[seed % 2]
    run(tmp_path / "run", recipe, Policy(seed), graded, 40)
    assert not [message for message in caplog.messages if "gamed" in message]
    assert "tests gamed" not in [finding.name for finding in diagnose(load_history(tmp_path / "run")).findings]
    rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert all(0 < row["unit_tests/held_out_passed"] <= 1 for row in rows if row["unit_tests/watched"])
    assert sum(row["unit_tests/watched"] for row in rows) > 5


def test_a_resumed_run_warns_at_the_same_step(tmp_path, graded, caplog):
    with caplog.at_level("WARNING", logger="codegrain"):
        run(tmp_path / "run", "grpo", Policy(0, skill=(0.2, 0.2), cheat=0.02), graded, 20)
        [said] = [message for message in caplog.messages if "tests gamed" in message]
        caplog.clear()
        rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
        log, state = RunLog(tmp_path / "run", 0), TrainerState(max_steps=20, global_step=5)
        log.rewind(5)
        log.on_train_begin(None, state, None)
        for row in rows[5:]:
            state.global_step = row["step"]
            log.on_log(None, state, None, logs=row)
    assert [message for message in caplog.messages if "tests gamed" in message] == [said]


def rows(rng: random.Random, steps: int, failing: float, together: bool):
    """Steps of 8 prompts with 4 answers each that pass what pays; `together`: those to one prompt fail alike."""
    for step in range(1, steps + 1):
        fail = [rng.random() < failing for _ in range(8)] if together else []
        count = 4 * sum(fail) if together else sum(rng.random() < failing for _ in range(32))
        yield {"step": step, "u/watched": 1.0, "u/held_out_passed": 1 - count / 32, "ungraded": 0}


@pytest.mark.parametrize("together", [True, False])
def test_false_alarms_at_the_level_itself_keep_to_the_budget(together):
    alarms = 0
    for seed in range(200):
        watch, rng = Watch("u", 32, 4), random.Random(seed)
        alarms += any(watch.add(row) for row in rows(rng, 100, 0.5, together))
    assert alarms <= 8  # the budgets allow for 3; more than 8 once in 250 times


def test_hacking_that_begins_late_is_seen_soon():
    for seed in range(20):
        watch, rng = Watch("u", 32, 4), random.Random(seed)
        for row in rows(rng, 200, 0.1, True):
            watch.add(row)
        assert watch.sure_at is None
        for row in rows(rng, 20, 0.8, True):
            watch.add(row | {"step": 200 + row["step"]})
        assert watch.sure_at is not None and watch.sure_at <= 220


def test_steps_without_an_answer_that_passes_say_nothing():
    watch = Watch("u", 32, 4)
    assert not any(watch.add({"step": n, "u/watched": 0.0, "ungraded": 0}) for n in range(1, 50))
    assert watch.level == 0.5 and watch.beginning == 0


def test_steps_of_many_thousand_answers_do_not_overflow():
    watch = Watch("u", 1 << 16, 4)
    row = {"u/watched": 1.0, "u/held_out_passed": 0.0, "ungraded": 0}
    assert [watch.add(row | {"step": n}) for n in range(1, 40)] == [True] + [False] * 38
