"""Look at stored completions and grade them again: a thousand rows of real answers, right, wrong and hostile."""

from __future__ import annotations

import asyncio
import io
import itertools
import json

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from rich.console import Console

from recipes import look
from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.schema import CONF
from recipes.data.completions import Rollout, completion_rows
from recipes.run.build import build_reward, build_sandbox, build_task
from recipes.tools.coloured_tokens import cards
from rewards.channel import Completion

FURTHER = (
    "task.reward.unit_tests.locate=true",
    "+task.reward.syntax={_target_: rewards.syntax.Syntax, sandbox: true, weight: 0.1}",
    "+task.reward.lint={_target_: rewards.lint.Lint, weights: {F: 0.5, E: 0.2, B: 0.3}, weight: 0.1}",
    "+task.reward.similarity={_target_: rewards.similarity.Similarity, weight: 0.1}",
)
CHANGES = (("", ""), ("return ", "return not "), ("return ", "retrun "), ("):", "):\n    import os\n    os._exit(0)"))


def answers(task, edit: tuple[str, str]):
    for problem in [*task.problems("train"), *task.problems("test")][::2]:
        text = f"```python\n{problem.reference.replace(*edit)}```"
        code = task.extract(text)
        edges = [*range(0, len(text), 3), len(text)]
        offsets = [*itertools.pairwise(edges), (len(text), len(text))]
        yield problem, Completion(text, range(len(offsets)), offsets, (code.start, code.end), closed=code.closed)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with 532 graded completions of basics."""
    schema.register()
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("config", ["recipe=grpo", "task=basics", *FURTHER])
    OmegaConf.resolve(cfg)
    folder = tmp_path_factory.mktemp("run")
    task, sandbox = build_task(cfg), build_sandbox(cfg)
    reward = build_reward(cfg, sandbox)
    with (folder / "completions.jsonl").open("w") as file, asyncio.Runner() as runner:
        for step, edit in enumerate(CHANGES, 1):
            problems, completions = map(list, zip(*answers(task, edit), strict=True))
            grades = runner.run(reward.grade(problems, completions))
            rollout = Rollout(problems, completions, grades)
            rows = completion_rows(rollout, torch.zeros(len(problems)), step, len(problems))
            file.writelines(json.dumps(row) + "\n" for row in rows)
        runner.run(sandbox.close())
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg))
    return folder


def test_every_stored_row_gives_its_numbers_again(run, capsys):
    assert look.main([f"run={run}", "replay=true"]) == 0
    assert "532 of 532 stored rows give the stored numbers" in capsys.readouterr().out


def test_a_row_whose_numbers_were_changed_is_named(run, tmp_path, capsys):
    rows = [json.loads(line) for line in (run / "completions.jsonl").read_text().splitlines()[:4]]
    rows[0]["reward"] += 0.5
    rows[1]["token_rewards"]["similarity"] = rows[1]["token_rewards"]["similarity"][::-1]
    (tmp_path / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    assert look.main([f"run={tmp_path}", "replay=true"]) == 1
    message = capsys.readouterr().out
    assert "2 of 4 stored rows" in message and "now" in message and "similarity lies on other tokens" in message


def test_what_each_channel_says_is_drawn(run, tmp_path, capsys):
    assert look.main([f"run={run}", "step=3", "limit=2"]) == 0
    message = capsys.readouterr().out
    assert (
        "retrun" in message
        and "no program can continue" in message
        and "unit_tests" in message
        and "replay=true" in message
    )
    page = tmp_path / "look.html"
    assert look.main([f"run={run}", "step=3", "reward=syntax", f"html={page}"]) == 0
    assert "background-color" in page.read_text() and "similarity" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run=/nowhere"], "no run directory"),
        (["run=RUN", "step=99"], "step=99: the run stored no such completion; choose from steps 1 to 4"),
        (["run=RUN", "reward=beauty"], "this run has unit_tests, form"),
        (["run=RUN", "colour=red"], "colour"),
        (["run=RUN", "step=many"], "many"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(run, capsys, arguments, message):
    assert look.main([a.replace("RUN", str(run)) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_tokens_that_were_given_are_pale_and_have_no_colour():
    row = {"tokens": ["def", " f", "()"], "given": 2, "reward": 1.0, "step": 1, "task_id": "t", "verdict": "pass"}
    row |= {"advantage": 0.5, "scores": {"a": 1.0}, "weights": {"a": 1.0}, "notes": {"a": ""}}
    (panel,) = cards([row | {"token_rewards": {"a": [0.2, 0.3, 0.5]}}], None)
    text = panel.renderable.renderables[0]
    assert [(text.plain[s.start : s.end], str(s.style)[:3]) for s in text.spans] == [
        ("def", "dim"),
        (" f", "dim"),
        ("()", "bla"),
    ]


def test_what_a_policy_wrote_does_not_steer_the_terminal():
    row = {
        "tokens": ["\x1b]0;title\x07", "\udcff"],
        "reward": 1.0,
        "token_rewards": {"a": [1.0, 0.0]},
        "weights": {"a": 1.0},
    }
    row |= {
        "scores": {"a": 1.0},
        "notes": {"a": "\x1b[2J"},
        "verdict": "\x1bc",
        "step": 1,
        "task_id": "t",
        "advantage": None,
    }
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(*cards([row], None))
    text = console.export_text()
    text.encode()
    assert "\x1b" not in text and "\x07" not in text and "␛]0;title␇?" in text


def test_rows_of_another_program_are_one_line():
    with pytest.raises(UserError, match="another program wrote them"):
        cards([{"step": 1, "task_id": "a"}], None)


def test_what_cannot_be_shown_or_written_is_refused(run, tmp_path, capsys):
    for limit in (0, -1):
        assert look.main([f"run={run}", f"limit={limit}"]) == 2
        assert f"limit={limit}: it must be a number of at least 1" in capsys.readouterr().err
    assert look.main([f"run={run}", f"html={tmp_path}"]) == 2
    assert f"html={tmp_path} is a folder; name a file in it" in capsys.readouterr().err
