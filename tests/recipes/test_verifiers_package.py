"""A task with its episodes as a package for verifiers (recipes/environment.py)."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from envs.basics import Basics
from envs.episode import Dialogue, Repair
from envs.feedback.python_tests import PythonTests
from envs.task import demonstration
from recipes import environment
from rewards.channel import as_completion
from rewards.compose import Reward
from rewards.form import Form
from rewards.lint import Linter
from rewards.unit_tests import UnitTests


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "package"
    command = ["task=basics", "task.env.train_size=20", "episode=repair", f"to={folder}", "name=codegrain-repair"]
    assert environment.main(command) == 0
    return folder


def test_the_package_has_its_files(package):
    files = {str(file.relative_to(package)) for file in package.rglob("*") if file.is_file()}
    module = "codegrain_repair"
    names = ("__init__.py", "environment.py", "settings.json")
    assert files == {"pyproject.toml", "README.md", *(f"{module}/{name}" for name in names)}
    project = tomllib.loads((package / "pyproject.toml").read_text())
    assert project["project"]["name"] == "codegrain-repair"
    assert "verifiers>=0.4,<0.5" in project["project"]["dependencies"]
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [module]
    settings = json.loads((package / module / "settings.json").read_text())
    assert settings["task"]["env"]["train_size"] == 20 and settings["episode"]["turns"] == 2
    for file in package.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
    readme = (package / "README.md").read_text()
    assert "task=basics task.env.train_size=20 episode=repair" in readme and "{{" not in readme


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["task=basics"], "episode=null: an environment of several turns is made"),
        (["task=pacman", "episode=repair"], "task=pacman tells nothing of a failing answer"),
        (
            ["task=humaneval", "task.env.style=completion", "episode=repair"],
            "task=humaneval: its prompts begin the answer",
        ),
        (
            ["task=basics", "episode=repair", "task.drop_invalid=true"],
            "task.drop_invalid=true: an environment gives all",
        ),
        (["task=basics", "episode=repair", "name=My_Name"], "name=My_Name: a package's name has small letters"),
        (["task=basics", "episode=repair", "episode.turns=0"], "episode.turns=0: it must be a number of at least 1"),
    ],
)
def test_what_makes_no_package_is_one_line(overrides, message, tmp_path, capsys):
    assert environment.main([*overrides, f"to={tmp_path / 'package'}"]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error
    assert not list(tmp_path.iterdir())


@contextmanager
def chat_server(answers):
    """An OpenAI-compatible server: `answers` gives each text by the messages so far. Yields address and requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(asked["messages"])
            text = answers(asked["messages"])
            message = {"role": "assistant", "content": text}
            body = {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": asked["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": len(text.split()), "total_tokens": 1},
            }
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        server.server_close()


def test_verifiers_plays_the_same_episodes_for_the_same_rewards(package, sandbox, monkeypatch):
    vf = pytest.importorskip("verifiers.v1", reason="verifiers is not installed (pip install 'verifiers>=0.4,<0.5')")
    from verifiers.v1.utils.loaders import resolve_env_config

    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("STAND_IN_KEY", "none")
    settings = json.loads((package / "codegrain_repair" / "settings.json").read_text())["task"]["env"]
    task = Basics(**{key: value for key, value in settings.items() if key != "_target_"})
    reward = Reward({"unit_tests": UnitTests(sandbox), "form": Form()}, {"unit_tests": 1.0, "form": 0.1}, "sparse")
    episode = Repair(PythonTests(sandbox, Linter()))
    problems = task.problems("train")[:4]
    right = [demonstration(task.messages(p), p.reference) for p in problems]
    wrong = [f"def {p.entry_point}(*a):\n    return None\n" for p in problems]
    bad = [demonstration(task.messages(p), code) for p, code in zip(problems, wrong, strict=True)]
    turns = [[right[0]], [bad[1], right[1]], [bad[2], bad[2] + "\n"], ["I cannot.", right[3]]]

    def answer(messages):
        number = next(n for n, p in enumerate(problems) if any(m["content"] == p.question for m in messages))
        return turns[number][sum(m["role"] == "assistant" for m in messages)]

    async def episodes(address):
        env = vf.load_environment(resolve_env_config({"taskset": {"id": "codegrain-repair"}}))
        client = vf.EvalClientConfig(base_url=address, api_key_var="STAND_IN_KEY")
        ctx = vf.ModelContext(client=client, model="stand-in", sampling=vf.SamplingConfig())
        async with env.serving():
            chosen = env.taskset.include(ids=[p.id for p in problems])
            return [await env.run_slot(slot, ctx) for t in chosen for slot in env.slots(t)]

    with chat_server(answer) as (address, requests):
        played = asyncio.run(episodes(address))
    traces = [trace for each in played for trace in each.traces]
    assert [each.ok for each in played] == [True] * 4, [trace.errors for trace in traces]
    assert [trace.task.data.id for trace in traces] == [p.id for p in problems]
    assert [trace.num_turns for trace in traces] == [1, 2, 2, 2] and len(requests) == 7
    last = [as_completion(task, own[-1], lambda text: len(text.split())) for own in turns]
    grades = asyncio.run(reward.grade(problems, last))
    assert [trace.reward for trace in traces] == pytest.approx([grade.total for grade in grades])
    assert [trace.reward for trace in traces] == pytest.approx([1.1, 1.1, 0.1, 1.1])
    assert [trace.metrics["passed"] for trace in traces] == [1.0, 1.0, 0.0, 1.0]
    assert dict(traces[1].rewards).keys() == {"unit_tests", "form"}
    [first] = asyncio.run(episode.step([Dialogue(problems[1], [], as_completion(task, bad[1]))]))
    second = next(m for m in requests if any(x["content"] == bad[1] for x in m))
    assert second[-1] == {"role": "user", "content": first.reply}
    assert second[:2] == task.messages(problems[1])
    # what the policy never wrote is in no record: the reference stays on this machine
    assert json.dumps(problems[2].reference.rstrip())[1:-1] not in traces[2].model_dump_json()


def test_the_package_says_where_codegrain_should_be(package, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setenv("CODEGRAIN", str(tmp_path))
    monkeypatch.delitem(sys.modules, "codegrain_repair", raising=False)
    with pytest.raises(ImportError, match="has no codegrain, which this package grades with: set CODEGRAIN"):
        importlib.import_module("codegrain_repair")
