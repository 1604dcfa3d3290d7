"""The alarm over held-out tests: it is raised within 20 steps of a policy that finds a cheat, never of honest ones.

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
from recipes.data.completions import Rollout, completion_rows
from recipes.evaluation.task_soundness import as_answer, planted_wrong
from recipes.records.jsonl import read_jsonl
from recipes.records.log import RunLog
from recipes.run.callbacks import WarnOfGamedTests
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.hacking import LIMIT, HeldOutAlarm
from recipes.tools.diagnosis.history import load_history
from recipes.trainers.metrics import completion_metrics
from rewards.analysis.held_out_tests import divide
from rewards.compose import Reward
from rewards.form import Form
from rewards.unit_tests import UnitTests
from tests.recipes.made_up_runs import MadeUp

SHARE = 0.3
PROMPTS = 8
GROUPS = {"grpo": 8, "ppo": 4}
LOSS = {"grpo": "loss", "ppo": "loss/policy_avg"}
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
        results = {kind: await channels(sandbox).grade(problems, answers) for kind, answers in by_kind.items()}
        await sandbox.close()
        return results

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
    sampling = {"grpo": {"trl": {"num_generations": group, "beta": 0.0}}, "ppo": {"samples_per_prompt": group}}
    unit_tests = {"_target_": "rewards.unit_tests.UnitTests", "weight": 1.0, "held_out": SHARE}
    task = {"name": "basics", "reward": {"unit_tests": unit_tests, "form": {"_target_": "F", "weight": 0.1}}}
    config = {"recipe": {"name": recipe, "prompts_per_step": PROMPTS, **sampling[recipe]}, "task": task}
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    log, state = RunLog(folder, PROMPTS), TrainerState(max_steps=steps)
    warning = WarnOfGamedTests(folder)
    for callback in (log, warning):
        callback.on_train_begin(None, state, None)
    shares = []
    for step in range(1, steps + 1):
        places = [policy.rng.randrange(len(graded.problems)) for _ in range(PROMPTS)]
        drawn = [(n, policy.draw(step / steps)) for n in places for _ in range(group)]
        results = [graded.grades[kind][n] for n, kind in drawn]
        problems, answers = [graded.problems[n] for n, _ in drawn], [graded.answers[kind][n] for n, kind in drawn]
        rewards = torch.tensor([grade.total for grade in results])
        rollout = Rollout(problems, answers, results)
        metrics = completion_metrics(rollout, list(WEIGHTS), torch.device("cpu"))
        state.global_step = step
        log.record_completions(completion_rows(rollout, torch.zeros(len(results)), step, PROMPTS))
        for callback in (log, warning):
            callback.on_log(None, state, None, logs={"reward": rewards.mean().item(), LOSS[recipe]: 0.0, **metrics})
        rows = list(zip((kind for _, kind in drawn), rewards.tolist(), strict=True))
        policy.learn([rows[i : i + group] for i in range(0, len(rows), group)])
        shares.append(sum(kind == "cheat" for kind, _ in rows) / len(rows))
    return shares


def test_the_answers_are_what_they_are_called(graded):
    verdicts = {kind: {grade.verdict for grade in grades} for kind, grades in graded.grades.items()}
    assert verdicts == {
        "right": {"pass"},
        "wrong": {"fail"},
        "near": {"held-out"},
        "nearly": {"fail"},
        "cheat": {"held-out"},
    }
    assert {grade.total for grade in graded.grades["cheat"]} == {1.1}


@pytest.mark.parametrize("recipe", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_finds_a_cheat_raises_the_alarm_within_20_steps(tmp_path, graded, recipe, seed, caplog):
    policy = Policy(seed, skill=(0.2, 0.2), cheat=0.02)
    with caplog.at_level("WARNING", logger="codegrain"):
        shares = run(tmp_path / "run", recipe, policy, graded, 20)
    assert shares[0] < 0.1 and shares[-1] > 0.8  # the reward did teach it
    finding = diagnose(load_history(tmp_path / "run")).findings[0]
    assert (finding.name, finding.severity) == ("tests gamed", "serious")
    assert len({a.task_id for a in finding.samples}) == 3 and {a.verdict for a in finding.samples} == {"held-out"}
    warned = [message for message in caplog.messages if "tests gamed" in message]
    assert len(warned) == 1 and warned[0].split("alarm at step ")[1].split(".")[0] in finding.evidence
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
        [warned] = [message for message in caplog.messages if "tests gamed" in message]
        caplog.clear()
        rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
        RunLog(tmp_path / "run", 0).rewind(5)
        warning, state = WarnOfGamedTests(tmp_path / "run"), TrainerState(max_steps=20, global_step=5)
        warning.on_train_begin(None, state, None)
        for row in rows[5:]:
            state.global_step = row["step"]
            warning.on_log(None, state, None, logs=row)
    assert [message for message in caplog.messages if "tests gamed" in message] == [warned]


def rows(rng: random.Random, steps: int, failing: float, together: bool):
    """Steps of 8 prompts with 4 answers each that pass what pays; `together`: those to one prompt fail alike."""
    for step in range(1, steps + 1):
        fail = [rng.random() < failing for _ in range(8)] if together else []
        count = 4 * sum(fail) if together else sum(rng.random() < failing for _ in range(32))
        yield {"step": step, "u/watched": 1.0, "u/held_out_passed": 1 - count / 32, "ungraded": 0}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("failing", [0.1, 1 / 3])
def test_a_third_of_failures_or_fewer_raises_no_alarm(failing, together):
    for seed in range(200):
        alarm, rng = HeldOutAlarm("u", 32, 4), random.Random(seed)
        assert not any(alarm.add(row) for row in rows(rng, 100, failing, together))


@pytest.mark.parametrize("together", [True, False])
def test_a_cheat_that_begins_late_raises_the_alarm_within_ten_steps(together):
    for seed in range(50):
        alarm, rng = HeldOutAlarm("u", 32, 4), random.Random(seed)
        for row in rows(rng, 200, 0.1, together):
            alarm.add(row)
        assert alarm.raised_at is None
        for row in rows(rng, 20, 0.8, together):
            alarm.add(row | {"step": 200 + row["step"]})
        assert alarm.raised_at is not None and 200 < alarm.raised_at <= 210


def test_the_score_counts_failures_less_passes_a_prompt():
    alarm = HeldOutAlarm("u", 32, 4)
    steps = [(0.5, 0.25), (1.0, 0.0), (1.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    scores = []
    for n, (watched, passed) in enumerate(steps):
        alarm.add({"step": n, "u/watched": watched, "u/held_out_passed": passed, "ungraded": 0})
        scores.append(alarm.score)
    # 16 paid answers of which 12 fail, then 32 that fail or pass, 4 to a prompt
    assert scores == [2, 10, 2, 10, 18, 26] and LIMIT == 20 and alarm.raised_at == 5


def test_a_cheat_that_has_ended_is_a_warning(tmp_path):
    folder = MadeUp("ppo", 0, sick="tests gamed").write(tmp_path)
    metrics = read_jsonl(folder / "metrics.jsonl")
    ended = [row | {"unit_tests/held_out_passed": 1.0} if row["step"] > 55 else row for row in metrics]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ended))
    [finding] = [finding for finding in diagnose(load_history(folder)).findings if finding.name == "tests gamed"]
    assert finding.severity == "warning" and "0% over the last steps" in finding.evidence


def test_steps_without_an_answer_that_passes_leave_the_score():
    alarm = HeldOutAlarm("u", 32, 4)
    assert not any(alarm.add({"step": n, "u/watched": 0.0, "ungraded": 0}) for n in range(1, 50))
    assert alarm.score == 0


def test_a_step_of_many_thousand_answers_raises_the_alarm_once():
    alarm = HeldOutAlarm("u", 1 << 16, 4)
    row = {"u/watched": 1.0, "u/held_out_passed": 0.0, "ungraded": 0}
    assert [alarm.add(row | {"step": n}) for n in range(1, 40)] == [True] + [False] * 38
