"""The doctor names each disease of a made-up run and nothing else, and raises no alarm over healthy ones."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from accelerate import PartialState
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from recipes import doctor
from recipes.cli import schema
from recipes.cli.schema import CONF
from recipes.records.jsonl import read_jsonl
from recipes.run.build import build_reward
from recipes.run.stages import Stages
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.finding import length_penalty, stronger_kl
from recipes.tools.diagnosis.grading import timeouts
from recipes.tools.diagnosis.history import MIN_STEPS, History, load_history
from recipes.tools.diagnosis.windows import change, lower_bound
from recipes.tools.report.page import write_report
from tests.recipes.made_up_runs import MadeUp

SERIOUS = {
    "reward flat at 0": "grpo",
    "reward flat at 1": "grpo",
    "reward falling": "ppo",
    "collapse": "ppo",
    "format falling": "grpo",
    "reward hacking": "grpo",
    "tests gamed": "ppo",
    "held-out pass@1 fell": "ppo",
    "loss exploding": "grpo",
    "loss not finite": "grpo",
    "degenerate groups": "grpo",
    "timeouts": "ppo",
    "KL running away": "ppo",
    "critic does not settle": "ppo",
    "entropy collapse": "ppo",
    "sandbox starves training": "grpo",
    "ungraded samples": "ppo",
    "answers cut": "grpo",
}
RESULTS = Path(__file__).parents[1] / "bench" / "results"
HOSTILE = "</pre><script>alert(1)</script>[bold]\x1b[2J\ud83d"


def found(folder):
    return diagnose(load_history(folder))


@pytest.mark.parametrize("name", SERIOUS)
@pytest.mark.parametrize("seed", range(4))
def test_each_disease_is_named_and_no_other_serious_one(tmp_path, name, seed):
    diagnosis = found(MadeUp(SERIOUS[name], seed, sick=name).write(tmp_path))
    assert [f.name for f in diagnosis.findings if f.severity == "serious"] == [name]
    assert diagnosis.status == "serious"
    first = diagnosis.findings[0]
    assert first.name == name and re.search(r"step", first.evidence) and re.search(r"\d", first.evidence)


@pytest.mark.parametrize("recipe", ["grpo", "ppo"])
@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_run_raises_no_alarm(tmp_path, recipe, seed):
    diagnosis = found(MadeUp(recipe, seed).write(tmp_path))
    assert diagnosis.findings == () and diagnosis.status == "healthy"
    assert "held-out pass@1" in diagnosis.headline and "reward" in diagnosis.headline.lower()


@pytest.mark.parametrize("name", SERIOUS)
def test_a_remedy_names_keys_that_the_recipe_has(tmp_path, name):
    recipe = SERIOUS[name]
    diagnosis = found(MadeUp(recipe, 0, sick=name).write(tmp_path))
    remedy = diagnosis.findings[0].remedy
    overrides = re.findall(r"([a-z_]+(?:\.[a-z_0-9]+)+=[^\s,;()]*[^\s,;().])", remedy)
    named = re.findall(r"(?:recipe|task|value|sandbox)\.[a-z_.]+[a-z]", remedy)
    assert named
    schema.register()
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("config", [f"recipe={recipe}", "task=basics", *overrides])
    for key in named:
        if "<" not in remedy:
            OmegaConf.select(cfg, key, throw_on_missing=True)
            assert key.rpartition(".")[2] in OmegaConf.select(cfg, key.rpartition(".")[0])


def test_a_length_penalty_is_one_that_the_task_can_have(tmp_path):
    folder = MadeUp("grpo", 0).write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    assert length_penalty(load_history(folder)) == "task.reward.form.length_alpha=0.02 (now 0.0)"
    del config["task"]["reward"]["form"]
    (folder / "config.yaml").write_text(json.dumps(config))
    advice = length_penalty(load_history(folder))
    schema.register()
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("config", ["recipe=grpo", "task=roboeval", *shlex.split(advice)])
    assert build_reward(cfg, None).weights["length"] == 1.0


def test_where_before_is_another_runs_model_the_finding_says_so(tmp_path):
    folder = MadeUp("grpo", 0, sick="held-out pass@1 fell").write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    config["evaluation"] = {"before_from": "runs/before"}
    config["adapter"] = "runs/sft"
    (folder / "config.yaml").write_text(json.dumps(config))
    evidence = found(folder).findings[0].evidence
    assert '"Before" means the model of runs/before' in evidence and "began from, runs/sft, together." in evidence


def test_advice_for_sft_names_no_kl_penalty(tmp_path):
    folder = MadeUp("ppo", 0, sick="held-out pass@1 fell").write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    config["recipe"]["name"] = "sft"
    (folder / "config.yaml").write_text(json.dumps(config))
    remedy = found(folder).findings[0].remedy
    assert remedy == "Set recipe.trl.learning_rate=0.0001 (now 0.0003); or keep an earlier checkpoint."


@pytest.mark.parametrize(
    ("estimator", "advised"),
    [("k1", "recipe.trl.kl_coef=0.06 (now 0.02)"), ("k3", "recipe.trl.kl_estimator=k1 (now k3)")],
)
def test_a_penalty_that_does_not_hold_the_policy_is_not_made_stronger(estimator, advised):
    trl = {"kl_coef": 0.02, "kl_estimator": estimator}
    assert stronger_kl(History({"recipe": {"name": "ppo", "trl": trl}}, [], [], [])) == advised


def test_answers_in_parts_need_not_pass_as_a_whole():
    folders = sorted(file.parent for file in (RESULTS / "ablation" / "functions").rglob("config.yaml"))
    assert folders
    names = {finding.name for folder in folders for finding in found(folder).findings}
    assert "reward flat at 0" not in names


def test_the_largest_reward_leaves_out_what_is_switched_off(tmp_path):
    folder = MadeUp("grpo", 0).write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    config["task"]["reward"] = {"a": {"weight": 0.6}, "b": {"weight": 0.4}, "off": {"weight": 0.4, "enabled": False}}
    (folder / "config.yaml").write_text(json.dumps(config))
    assert load_history(folder).largest_reward == 1.0
    config["task"] |= {"mean_reward": True, "reward": {"a": {"weight": 3.0}}}
    (folder / "config.yaml").write_text(json.dumps(config))
    assert load_history(folder).largest_reward == 1.0


def test_runs_with_keys_of_an_older_form_are_read():
    folders = sorted(file.parent for file in RESULTS.rglob("config.yaml"))[::10]
    assert folders and all(found(folder).status in ("healthy", "warning", "too short") for folder in folders)


def test_a_critic_that_knows_nothing_is_a_warning(tmp_path):
    diagnosis = found(MadeUp("ppo", 1, sick="critic knows nothing").write(tmp_path))
    assert [(f.name, f.severity) for f in diagnosis.findings] == [("critic does not settle", "warning")]
    assert doctor.main([f"run={tmp_path}"]) == 0


def test_a_critic_trained_alone_at_first_raises_no_alarm(tmp_path):
    MadeUp("ppo", 0).write(tmp_path)
    rows = read_jsonl(tmp_path / "metrics.jsonl")
    for row in rows[:4]:
        row["value/grad_norm"] = row.pop("grad_norm")
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert found(tmp_path).status == "healthy"


@pytest.mark.parametrize("steps", [0, 1, MIN_STEPS - 1])
def test_no_trend_of_a_short_run_is_judged(tmp_path, steps, capsys):
    MadeUp("grpo", 0, steps, sick="reward flat at 0" if steps else "").write(tmp_path)
    assert found(tmp_path).status == "too short"
    assert doctor.main([f"run={tmp_path}"]) == 0
    assert "Too short to tell" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_is_reported_in_a_short_run(tmp_path):
    MadeUp("grpo", 0, 8).write(tmp_path)
    rows = read_jsonl(tmp_path / "metrics.jsonl")
    rows[-1]["loss"] = float("nan")
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [f.name for f in found(tmp_path).findings] == ["loss not finite", "too short to tell"]


def rewritten(folder: Path, change) -> Path:
    """A run's metrics with another form of each row."""
    rows = read_jsonl(folder / "metrics.jsonl")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(change(row)) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("healthy", [0, 5])
def test_weights_that_are_not_finite_are_found_where_rows_have_no_reward(tmp_path, healthy):
    """The log of an SFT run leaves out what is not finite; also where no step was healthy."""
    folder = MadeUp("grpo", 0, 20).write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    config["recipe"] = {"name": "sft", "batch_size": 4, "trl": config["recipe"]["trl"]}
    (folder / "config.yaml").write_text(json.dumps(config))

    def offline(row):
        kept = {"step": row["step"], "loss": 0.5, "grad_norm": 1.0}
        return kept if row["step"] < healthy else {"step": row["step"], "seconds/update": 1.0}

    names = [finding.name for finding in found(rewritten(folder, offline)).findings]
    assert "loss not finite" in names


def test_an_evaluation_has_no_diagnosis(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text("recipe: {name: eval}\n")
    assert doctor.main([f"run={tmp_path}"]) == 2
    assert "nothing was trained there (it is a run of eval)" in capsys.readouterr().err


def test_steps_that_share_a_rollout_count_for_the_steps_that_are_needed(tmp_path):
    folder = MadeUp("grpo", 0, 8).write(tmp_path)
    config = json.loads((folder / "config.yaml").read_text())
    config["recipe"]["trl"]["num_iterations"] = 2
    (folder / "config.yaml").write_text(json.dumps(config))
    [short] = [finding for finding in found(folder).findings if finding.name == "too short to tell"]
    assert "recipe.trl.max_steps=30 or more" in short.remedy


def test_trends_are_judged_by_the_steps_that_have_a_rollout(tmp_path):
    """With two updates of each rollout every other row has neither reward nor pass rate."""
    folder = MadeUp("grpo", 0, 40, sick="collapse").write(tmp_path)
    of_update = ("step", "loss", "grad_norm", "entropy")

    def second(row):
        return row if row["step"] % 2 else {key: row[key] for key in of_update if key in row}

    assert "collapse" in [finding.name for finding in found(rewritten(folder, second)).findings]
    short = MadeUp("grpo", 0, MIN_STEPS + 2).write(tmp_path / "short")
    assert found(rewritten(short, second)).status == "too short"


def test_hacking_shows_three_answers_of_different_problems(tmp_path, capsys):
    folder = MadeUp("grpo", 2, sick="reward hacking").write(tmp_path)
    samples = found(folder).findings[0].samples
    assert len({answer.task_id for answer in samples}) == 3 and all(answer.step > 40 for answer in samples)
    assert doctor.main([f"run={folder}", "json=true"]) == 1
    printed = capsys.readouterr().out
    row = json.loads(printed)
    assert len(printed.splitlines()) == 1 and row["status"] == "serious" and row["run"] == str(folder)
    assert [a["completion"] for a in row["findings"][0]["samples"]] == [a.completion for a in samples]


def test_highly_paid_failures_are_shown_first(tmp_path):
    folder = MadeUp("grpo", 2, sick="reward hacking").write(tmp_path)
    rows = read_jsonl(folder / "completions.jsonl")
    rows[-3] |= {"verdict": "fail", "reward": 1.05, "completion": HOSTILE}
    (folder / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert found(folder).findings[0].samples[0].completion == HOSTILE


def test_what_a_model_wrote_stays_text(tmp_path, capsys):
    folder = MadeUp("grpo", 2, sick="reward hacking").write(tmp_path)
    rows = read_jsonl(folder / "completions.jsonl")
    for row in rows:
        row |= {"completion": HOSTILE, "task_id": HOSTILE + row["task_id"], "verdict": "fail", "reward": 1.05}
    (folder / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert doctor.main([f"run={folder}"]) == 1
    printed = capsys.readouterr().out
    assert "[bold]" in printed and "\x1b[2J" not in printed and "collapse" in printed
    page = write_report(folder).read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page


def test_the_report_and_the_end_of_training_show_the_diagnosis(tmp_path, caplog, capsys):
    folder = MadeUp("ppo", 0, sick="collapse").write(tmp_path)
    evaluation = {"samples": 0, "greedy": False, "before_from": None}
    cfg = OmegaConf.create({"evaluation": evaluation, "task": {"also_evaluate": []}})
    trainer = SimpleNamespace(accelerator=PartialState(cpu=True))
    with caplog.at_level("INFO", logger="codegrain"):
        Stages(cfg, folder, trainer, None, None, [], None, None).report()
    lines = [message for message in caplog.messages if message.startswith("serious: ")]
    diagnosis = found(folder)
    assert lines == diagnosis.lines[:1] and "collapse" in lines[0]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 0 < page.index(diagnosis.headline) < page.index("What the run changed")
    assert diagnosis.findings[0].remedy in page


def test_answers_from_the_prompt_alone_are_judged_where_those_trained_on_are_selected(tmp_path):
    """A prefix that shrinks, or groups that all pass and are left out, lower the reward of a run that learns."""
    falling = MadeUp("ppo", 0, sick="reward falling").write(tmp_path / "falling")
    learns = read_jsonl(MadeUp("ppo", 0).write(tmp_path / "learns") / "metrics.jsonl")
    rows = [
        row | {f"from_prompt/{name}": own[name] for name in ("reward", "pass_rate")}
        for row, own in zip(read_jsonl(falling / "metrics.jsonl"), learns, strict=True)
    ]
    assert "reward falling" in [finding.name for finding in found(falling).findings]
    (falling / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert not {"reward falling", "collapse"} & {finding.name for finding in found(falling).findings}


def test_a_resumed_run_is_read_by_its_later_rows(tmp_path):
    folder = MadeUp("grpo", 3).write(tmp_path)
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text() * 2 + '{"step": 61, "rew')
    assert found(folder).status == "healthy" and found(folder).steps == 60


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["run=/nowhere"], "no run directory"),
        (["json=true"], "run"),
        (["run=RUN", "colour=red"], "colour"),
        (["run=RUN", "json=perhaps"], "perhaps"),
        (["run=RUN"], "metrics.jsonl, line 1"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, capsys, arguments, printed):
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "metrics.jsonl").write_text('{"step": \n{"step": 2}\n')
    assert doctor.main([a.replace("RUN", str(tmp_path)) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert printed in error and len(error.splitlines()) == 1


def test_statistics_known_by_hand():
    # Wilson's interval for 5 of 10 at z = 1.645: (0.5 + 0.1353 - 1.645 * sqrt(0.025 + 0.006765)) / 1.2706
    assert lower_bound(5, 10) == pytest.approx(0.26925, abs=1e-4)
    assert lower_bound(0, 50) == 0 and lower_bound(0, 0) == 0
    # variances 2.5 each, five values each: standard error 1
    moved = change([1, 2, 3, 4, 5], [4, 5, 6, 7, 8])
    assert (moved.before, moved.after, moved.error, moved.z) == pytest.approx((3, 6, 1, 3))
    assert change([1, 2, 3, 4], [4, 5, 6, 7, 8]) is None


def write_evaluations(folder, *evaluations):
    """Two evaluations, before and after, of each (task, temperature, problems won, problems lost, problems that stay
    solved) of 66; `evals.jsonl` is added to."""
    rows, samples = [], []
    for task, temperature, won, lost, solved in evaluations:
        solved_before = {*range(won, won + lost + solved)}
        solved_after = {*range(won), *range(won + lost, won + lost + solved)}
        for when, step, right in (("before", 0, solved_before), ("after", 60, solved_after)):
            for problem in range(66):
                place = {"when": when, "step": step, "task": task, "temperature": temperature}
                samples.append({**place, "task_id": f"{task}/{problem}", "sample": 0, "passed": problem in right})
            share = len(right) / 66
            half = 1.96 * (share * (1 - share) / 66) ** 0.5
            passes = {"1": {"value": share, "low": share - half, "high": share + half}}
            one = {"problems": 66, "samples": 1, "split": "test", "pass@k": passes}
            rows.append({"when": when, "step": step, "task": task, "temperature": temperature, **one})
    for name, lines in (("evals.jsonl", rows), ("eval_samples.jsonl", samples)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("task", "won", "lost", "severity"),
    [
        ("basics", 4, 11, "warning"),  # 45.5 to 34.8 %: what the demo once called healthy
        ("basics", 1, 12, "serious"),
        ("humaneval", 4, 6, "note"),
        ("humaneval", 1, 12, "warning"),  # another task than the run's own
        ("basics", 11, 4, None),
    ],
)
def test_a_loss_in_any_evaluation_is_found_by_a_test_over_pairs_of_one_problem(tmp_path, task, won, lost, severity):
    MadeUp("grpo", 0).write(tmp_path)
    write_evaluations(tmp_path, (task, 0.0, won, lost, 19), ("basics", 1.0, 9, 2, 10))
    diagnosis = found(tmp_path)
    falls = {f.name: f for f in diagnosis.findings}
    if severity is None:
        assert not falls and diagnosis.status == "healthy"
        return
    fall = falls["held-out pass@1 fell"]
    assert fall.severity == severity and task in fall.evidence and f"({won} problems won, {lost} lost)" in fall.evidence
    assert diagnosis.status == ("healthy" if severity == "note" else severity)


def test_entropy_that_fell_without_better_greedy_answers_is_found(tmp_path):
    """The made-up run's entropy falls from 0.6 to 0.15 nats, which alone is healthy."""
    MadeUp("grpo", 0).write(tmp_path)
    for won, named in ((3, ["best answer no better"]), (9, [])):
        write_evaluations(tmp_path, ("basics", 0.0, won, 3, 19), ("basics", 1.0, 14, 1, 10))
        findings = found(tmp_path).findings
        assert [f.name for f in findings] == named
        assert all(re.search(r"entropy went from 0\.\d+ .* greedy held-out", f.evidence) for f in findings)


@pytest.mark.parametrize(
    ("verdict", "named", "not_named"), [("timeout", "wall_s=10", "memory"), ("killed", "memory_mib=2048", "wall_s")]
)
def test_what_stopped_answers_decides_which_limit_is_named(verdict, named, not_named):
    """A program is killed by the limit of memory as well as by that of processor time."""
    limits = {"wall_s": 5.0, "cpu_s": 4.0, "memory_mib": 1024}
    settings = {f"sandbox.limits.{name}": value for name, value in limits.items()}
    answers = [SimpleNamespace(verdict=verdict)] * 60
    found = timeouts(SimpleNamespace(late_answers=answers, late_steps="steps 1 to 9", setting=settings.get))
    assert found is not None and named in found.remedy and not_named not in found.remedy
    assert ("cpu_s=8" in found.remedy) == (verdict == "killed")
