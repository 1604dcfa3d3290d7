"""An evaluation that was stopped draws only the answers that are missing, and ends as one that was not."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from recipes.evaluation.kept_answers import FOLDER, KeptAnswers
from recipes.records.jsonl import read_jsonl
from recipes.sampling.generate import Decoding
from tests import warm

ROOT = Path(__file__).parents[2]
PROMPTS = [[5, 6, 7], [8, 9]]


def command(recipe: str, tiny_model: Path, run: Path, *more: str) -> list[str]:
    settings = ["task=basics", "task.also_evaluate=[]", "hardware.precision=fp32", "task.max_new_tokens=16"]
    settings += [f"model.path={tiny_model}", "hardware.eval_rows=8", "evaluation.samples=2", f"run.dir={run}"]
    return [sys.executable, str(ROOT / "recipes" / f"{recipe}.py"), *settings, *more]


def lines(folder: Path) -> int:
    return sum(len(read_jsonl(file)) for file in folder.glob("*.jsonl"))


def stopped(asked: list[str], run: Path, how: int, batches: int) -> tuple[int | None, str]:
    """Exit status and messages of a command that gets a signal once so many batches of answers are kept."""
    said = run.parent / f"{run.name}-said"
    said.mkdir()
    process = warm.start(asked, output=said)
    while lines(run / FOLDER) < batches:
        assert process.exitcode is None, (said / "stderr").read_text()[-2000:]
        time.sleep(0.005)
    os.kill(process.pid, how)
    process.join()
    return process.exitcode, (said / "stderr").read_text()


def answers(run: Path, name: str = "samples.jsonl") -> list[dict]:
    return [{k: v for k, v in row.items() if k not in ("details", "seconds")} for row in read_jsonl(run / name)]


@pytest.fixture(scope="module")
def whole(tiny_model, tmp_path_factory) -> Path:
    """An evaluation that was not stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    warm.run(command("eval", tiny_model, folder), check=True)
    return folder


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_evaluation_goes_on(tiny_model, whole, tmp_path, how):
    status, said = stopped(command("eval", tiny_model, tmp_path / "cut"), tmp_path / "cut", how, 3)
    if how == signal.SIGINT:
        assert status == 130 and f"resumes from {tmp_path / 'cut'}" in said
    assert not (tmp_path / "cut" / "samples.jsonl").exists()
    done = warm.run(command("eval", tiny_model, tmp_path / "cut"), check=True)
    assert "some answers are stored; the rest is sampled now" in done.stdout
    assert answers(tmp_path / "cut") == answers(whole) and len(answers(whole)) == 66 * 3
    assert not (tmp_path / "cut" / FOLDER).exists()


def test_the_evaluation_before_a_training_goes_on(tiny_model, tmp_path):
    short = ("recipe.trl.max_steps=1", "model.lora_rank=4", "evaluation.greedy=false")
    asked, run = command("sft", tiny_model, tmp_path / "cut", *short), tmp_path / "cut"
    stopped(asked, run, signal.SIGKILL, 2)
    assert not (run / "evals.jsonl").exists()
    done = warm.run(asked, check=True)
    assert "some answers are stored; the rest is sampled now" in done.stdout
    assert [row["when"] for row in read_jsonl(run / "evals.jsonl")] == ["before", "after"]
    assert not (run / FOLDER).exists()


def test_other_weights_seeds_and_prompts_have_other_answers(tiny_model, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    file, decoding = tmp_path / FOLDER / "1-0.jsonl", Decoding(8)
    drawn = [[1, 2], [3], [4], [5, 6]]

    def earlier(policy=model, how=decoding, seed=0, prompts=PROMPTS, samples=2):
        generator = torch.Generator().manual_seed(seed)
        return KeptAnswers(file, policy, how, seed).earlier(prompts, samples, generator)

    generator = torch.Generator().manual_seed(0)
    kept = KeptAnswers(file, model, decoding, 0)
    assert kept.earlier(PROMPTS, 2, generator) is None
    torch.rand(3, generator=generator)
    kept.keep(PROMPTS, 2, generator, drawn)
    expected = torch.rand(1, generator=generator)

    again = torch.Generator().manual_seed(0)
    assert KeptAnswers(file, model, decoding, 0).earlier(PROMPTS, 2, again) == drawn
    assert torch.equal(torch.rand(1, generator=again), expected)  # it goes on where it was
    assert earlier() == drawn
    for changed in ({"how": Decoding(9)}, {"seed": 1}, {"prompts": [[5, 6, 7], [8]]}, {"samples": 1}):
        assert earlier(**changed) is None
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.add_(1e-3)  # an update
    assert earlier() is None
