"""tests/bench/trl_peers.py: TRL's own trainers on a task, their rewards from the sandbox, and the folder they leave."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose
from tests.bench import trl_peers


def settings(folder, model) -> list[str]:
    return [
        "task=basics",
        "task.also_evaluate=[]",
        "evaluation.before=false",
        "evaluation.samples=0",
        "evaluation.greedy=false",
        f"model.path={model}",
        "recipe.prompts_per_step=2",
        "recipe.trl.num_generations=4",
        "recipe.trl.max_steps=2",
        "recipe.trl.max_completion_length=8",
        f"run.dir={folder}",
    ]


@pytest.mark.parametrize(("peer", "graded"), [("sdpo", 8), ("ssd", 0)])
def test_a_peer_trains_and_leaves_an_adapter_that_evaluations_take(peer, graded, tiny_model, tmp_path):
    from peft import PeftModel
    from safetensors.torch import load_file

    from recipes.models.load import load_policy

    schema.register()
    folder = trl_peers.train(peer, settings(tmp_path / peer, tiny_model))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2] and all(row["graded_samples"] == graded for row in rows)
    adapter = load_file(folder / "final" / "adapter_model.safetensors")
    trained = any(weights.abs().sum() > 0 for name, weights in adapter.items() if "lora_B" in name)
    assert trained == (peer == "ssd")  # random answers all fail, so SDPO has no teacher
    with pytest.raises(UserError, match="trained to its end"):
        trl_peers.train(peer, settings(folder, tiny_model))
    cfg = compose(["recipe=eval", "task=basics", f"model.path={tiny_model}", f"adapter={folder}"])
    assert isinstance(load_policy(cfg.model, cfg.hardware, cfg.adapter)[0], PeftModel)


def test_sdpo_learns_where_an_answer_of_the_group_is_right(tiny_model, tmp_path, monkeypatch):
    """A random model is never right, so every second answer is called so."""
    from safetensors.torch import load_file

    def alternate(run):
        return lambda completions, **_: [float(i % 2) for i in range(len(completions))], [1]

    schema.register()
    monkeypatch.setattr(trl_peers, "verdicts", alternate)
    folder = trl_peers.train("sdpo", settings(tmp_path / "run", tiny_model))
    adapter = load_file(folder / "final" / "adapter_model.safetensors")
    assert any(weights.abs().sum() > 0 for name, weights in adapter.items() if "lora_B" in name)


def test_an_answer_earns_one_if_it_passes_the_tests_and_else_nothing():
    from recipes.run.build import build_reward, build_sandbox, build_task

    schema.register()
    cfg = compose(["recipe=grpo", "task=basics"])
    run = SimpleNamespace(task=build_task(cfg, "train"), reward=build_reward(cfg, build_sandbox(cfg)))
    problem = run.task.problems("train")[0]
    right, wrong = f"```python\n{problem.reference}\n```", "```python\ndef other(): pass\n```"
    passes, counts = trl_peers.verdicts(run)
    given = [[{"role": "assistant", "content": text}] for text in (right, wrong)] + ["no code"]
    assert passes(completions=given, problem_id=[problem.id] * 3, prompts=[None] * 3) == [1.0, 0.0, 0.0]
    assert counts == [3]
