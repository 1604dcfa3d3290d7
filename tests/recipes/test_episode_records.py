"""Episodes in the log: shown as conversations by look and the report, their diseases known to the doctor."""

from __future__ import annotations

import io
import json
import random

import pytest
from rich.console import Console, Group

from envs.sandbox import LocalSandbox
from recipes import look
from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from recipes.look import LookConfig, chosen
from recipes.run.build import build_episode
from recipes.run.checks import check_grpo, check_one_turn, check_ppo, check_sft
from recipes.tools.coloured_tokens import cards
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.history import History
from recipes.tools.report.page import write_report
from recipes.tools.report.samples import last_turns, sample_sections
from tests.recipes.made_up_runs import MadeUp


def row(step, turn, turns, reward, paid, heard="", text="x = 1\n", task="basics/a"):
    return {
        "step": step,
        "task_id": task,
        "prompt": "Do it.",
        "completion": text,
        "tokens": [text[:3], text[3:]],
        "offsets": [[0, 3], [3, len(text)]],
        "code_span": None,
        "finished": True,
        "closed": True,
        "advantage": 0.5,
        "reward": reward,
        "verdict": "pass" if reward else "fail",
        "scores": {"unit_tests": reward},
        "weights": {"unit_tests": 1.0},
        "notes": {"unit_tests": ""},
        "token_rewards": {"unit_tests": [0.0, reward]},
        "measures": {},
        "episode": 0,
        "turn": turn,
        "turns": turns,
        "heard": heard,
        "paid": paid,
    }


HEARD = "This fails: f(1)\x1b[2J\nExpected: 2"
EPISODES = [
    row(1, 1, 2, 0.0, 0.0, text="first = 1\n"),
    row(1, 2, 2, 1.0, 1.0, heard=HEARD, text="second = 2\n"),
    row(1, 1, 1, 1.0, 1.0, text="alone = 3\n", task="basics/b"),
]


def drawn(rows) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(Group(*cards(rows, None)))
    return console.file.getvalue()


def test_look_shows_an_episode_as_a_conversation():
    text = drawn(EPISODES)
    assert "turn 1 of 2, paid +0.000" in text and "turn 2 of 2, paid +1.000" in text
    assert text.index("first = 1") < text.index("This fails: f(1)") < text.index("second = 2")
    assert "\x1b[2J" not in text


def test_look_cuts_no_episode_in_two():
    assert len(chosen(EPISODES, LookConfig(run="", limit=1))) == 2
    assert len(chosen(EPISODES, LookConfig(run="", limit=2))) == 2
    assert look.whole_episodes(EPISODES, 3) == 3


def test_the_report_shows_an_episode_as_a_conversation(tmp_path):
    assert [(s.task_id, len(s.earlier)) for s in last_turns(enumerate(EPISODES))] == [("basics/a", 1), ("basics/b", 0)]
    folder = MadeUp("grpo", 0, steps=16).write(tmp_path)
    (folder / "completions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in EPISODES))
    sections, _ = sample_sections(folder / "completions.jsonl")
    conversation = next(c for s in sections for c in s["cards"] if c["record"]["task_id"] == "basics/a")
    assert [each["record"]["completion"] for each in conversation["earlier"]] == ["first = 1\n"]
    page = write_report(folder).read_text()
    assert "Turn 1 of 2, fail" in page and "Turn 2 of 2" in page and "This fails: f(1)" in page and "\x1b" not in page


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["recipe=grpo", "hardware=a100x2_zero3"], "ZeRO-3 and hardware.vllm=colocate sample all processes' rows"),
        (["recipe=grpo", "recipe.prefix.enabled=true"], "recipe.prefix.enabled=true gives the beginning of one answer"),
        (["recipe=ppo", "recipe.ratio=sequence"], "recipe.ratio=sequence takes an answer as one action"),
        (["recipe=ppo", "value=montecarlo"], "value=montecarlo continues one answer"),
        (["recipe=pairs"], "recipe=pairs takes answers of one turn"),
        (["recipe=sft"], "recipe=sft imitates conversations of an evaluation"),
        (["recipe=grpo", "task=pacman"], "task=pacman tells nothing of a failing answer"),
        (["recipe=ppo", "task=etk"], "task.reward.compile.workdir is null: give"),
    ],
)
def test_what_episodes_do_not_go_with_is_refused_in_one_line(overrides, message):
    schema.register()
    cfg = compose([*overrides, "episode=repair"])
    check = {"grpo": check_grpo, "ppo": check_ppo, "sft": check_sft}.get(cfg.recipe.name, check_one_turn)
    with pytest.raises(UserError, match=message) as error:
        check(cfg)
        build_episode(cfg, LocalSandbox(workers=1))
    assert "\n" not in str(error.value)


def history(**trends) -> History:
    """Sixty steps whose metrics go from one value to another, with noise."""
    draws = random.Random(0)
    rows = []
    for step in range(1, 61):
        values = {name: a + (b - a) * step / 60 + draws.gauss(0, 0.02) for name, (a, b) in trends.items()}
        rows.append({"step": step, **values})
    config = {
        "recipe": {"name": "grpo", "trl": {"temperature": 1.0}},
        "episode": {"turns": 2, "pay": "improvement", "gamma": 1.0},
        "task": {"max_new_tokens": 72, "reward": {"form": {"weight": 0.1, "length_alpha": 0.0}}},
    }
    return History(config, rows, [], [])


HEALTHY = {
    "reward": (0.2, 0.6),
    "turn_1/reward": (0.1, 0.4),
    "turn_2/repeated": (0.1, 0.05),
    "turn_2/tokens": (40.0, 42.0),
}


@pytest.mark.parametrize(
    ("name", "severity", "sick"),
    [
        ("first turn gives up", "serious", {"turn_1/reward": (0.5, 0.05), "reward": (0.5, 0.6)}),
        ("first turn gives up", "warning", {"turn_1/reward": (0.5, 0.22), "reward": (0.5, 0.5)}),
        ("answers repeated", "serious", {"turn_2/repeated": (0.3, 0.9)}),
        ("answers repeated", "warning", {"turn_2/repeated": (0.1, 0.5)}),
        ("turns grow", "warning", {"turn_2/tokens": (30.0, 70.0), "reward": (0.4, 0.4)}),
    ],
)
def test_the_doctor_knows_the_diseases_of_episodes(name, severity, sick):
    findings = {f.name: f for f in diagnose(history(**HEALTHY | sick)).findings}
    assert findings[name].severity == severity and "(now " in findings[name].remedy
    assert {"first turn gives up", "answers repeated", "turns grow"} & findings.keys() == {name}


def test_healthy_episodes_raise_no_alarm():
    assert diagnose(history(**HEALTHY)).findings == ()
    longer = HEALTHY | {"turn_2/tokens": (30.0, 70.0)}  # and better
    assert diagnose(history(**longer)).findings == ()
