"""The plan of a run's memory: weights against real models, budgets, advice, the command, measured peaks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, LlamaConfig

from recipes import plan
from recipes.cli import memory_use
from recipes.cli.memory_use import GIB
from recipes.cli.schema import CONF
from recipes.plan import task_to_count
from recipes.tools.memory import advice, contents, planner, quantities
from recipes.tools.memory.network import Network, known_config
from recipes.tools.memory.prompt_lengths import Lengths
from recipes.tools.memory.quantities import Plan, Zero, added, fuller
from recipes.tools.report.memory_chart import memory
from tests import warm
from tests.recipes.small_llama import SMALL, composed, config

ROOT = Path(__file__).parents[2]
LENGTHS = Lengths(train=512, test=512, answer=128, test_problems=66)
# what is counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, millions",
    [
        ("smollm2_135m", 134.5),
        ("qwen25_coder_0_5b", 494.0),
        ("qwen25_coder_1_5b", 1543.7),
        ("qwen25_coder_7b", 7615.6),
        ("deepseek_coder_1_3b", 1346.5),
        ("qwen3_4b_instruct", 4022.5),
    ],
)
def test_models_written_down_have_the_weights_that_their_makers_say(name, millions):
    path = OmegaConf.load(Path(CONF) / "model" / f"{name}.yaml").path
    network = Network(known_config(path), torch.bfloat16)
    assert network.parameters / 1e6 == pytest.approx(millions, abs=0.06)
    whole = network.build(network.shape.num_hidden_layers)
    assert sum(p.numel() for p in whole.parameters()) == network.parameters


def test_adapters_and_four_bits_as_peft_and_bitsandbytes_make_them():
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL))
    whole, layers = (sum(p.numel() for p in m.parameters()) for m in (model, model.model.layers))
    norms = sum(p.numel() for n, p in model.model.layers.named_parameters() if "norm" in n)
    assert Network(config(), torch.float32).weight_bytes == 4 * whole
    packed = Network(config(), torch.bfloat16, four_bit=True)
    assert packed.weight_bytes == 2 * (whole - layers + norms) + (layers - norms) * 0.5625
    for targets in ("all-linear", "q_proj,v_proj"):
        model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL))
        modules = targets if targets == "all-linear" else targets.split(",")
        adapted = get_peft_model(model, LoraConfig(r=8, target_modules=modules))
        network = Network(config(), torch.float32, lora_rank=8, lora_targets=targets)
        assert network.adapters == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_the_cache_of_a_token_is_what_a_model_keeps():
    model, cache = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL)), DynamicCache()
    model(input_ids=torch.zeros(1, 5, dtype=torch.long), past_key_values=cache)
    numbers = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert Network(config(), torch.float32).cache == numbers / 5


def test_optimizers_and_zero():
    model = torch.nn.Linear(100, 10, bias=False)
    adam = torch.optim.AdamW(model.parameters())
    model(torch.ones(100)).sum().backward()
    adam.step()
    states = sum(t.numel() * 4 for t in adam.state[model.weight].values() if t.dim())
    assert quantities.optimizer_states(1000, "adamw_torch") == states == 8000
    assert quantities.optimizer_states(1000, "paged_adamw_8bit") == pytest.approx(2031.25)
    assert quantities.optimizer_step(1000, "adamw_torch", "cuda") == 4000
    assert quantities.optimizer_step(1000, "paged_adamw_8bit", "cuda") == 0
    stage_2 = Zero(2, 4)
    assert stage_2.states(8000, 1000) == (8000 + 4000) / 4 and stage_2.gradient_sums(1000, "cpu") == 1000
    assert stage_2.gradient_sums(1000, "cuda") == 1000 + 4 * quantities.BUCKET
    assert stage_2.weights(100.0, 4) == 100.0 and Zero(3, 4).weights(100.0, 4) == 125.0
    assert Zero(0, 2).gradient_sums(1000, "cpu") == 4000 and Zero(0, 1).gradient_sums(1000, "cpu") == 0
    assert added({"weights": 1.0}, {"weights": 2.0, "logits": 1.0}) == {"weights": 3.0, "logits": 1.0}
    assert fuller({"weights": 2.0}, {"weights": 1.0, "logits": 2.0}) == {"weights": 1.0, "logits": 2.0}


# plans ------------------------------------------------------------------------------------------------------------


def test_the_t4_holds_the_etk_run_with_its_context_whole():
    """The 0.5B policy, its 1.5B judge, three thorns at once of 4,096 tokens: 16 GB, phase by phase."""
    for experiment in ("etk_t4", "etk_t4_better"):
        cfg = composed("recipe=ppo", f"+experiment={experiment}", "task.prompt_tokens=4096")
        plan = planner.plan_of(cfg, planner.lengths_of(cfg, task_to_count(cfg)))
        assert {"load", "rollout", "grading", "log-probabilities", "update", "evaluation"} == set(plan.phases)
        assert plan.phases["grading"]["judge"] > GIB
        assert not plan.over, plan.as_dict()


# the ablations train a model that tests/bench/run_ablation.py makes
EXPERIMENTS = [f.stem for f in (Path(CONF) / "experiment").glob("*.yaml") if not f.stem.startswith("ablation_")]
EXPERIMENTS = [name for name in EXPERIMENTS if name not in ("etk_t4", "etk_t4_better")]  # planned above


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_experiment_fits_the_hardware_it_names(name):
    recipe = {"sft": "sft", "dpo": "dpo", "pairs": "pairs", "base": "eval", "reinforce": "reinforce"}
    chosen = next((r for part, r in recipe.items() if part in name), "grpo" if "grpo" in name else "ppo")
    overrides = [f"recipe={chosen}", f"+experiment={name}", "adapter=null"]
    if not name.startswith("humaneval"):  # the data are on the hub, or written by another command
        overrides.append("task.prompt_tokens=1024")
    cfg = composed(*overrides)
    if cfg.hardware.memory_gib is None:
        cfg.hardware.memory_gib = 12  # a laptop's; else what happens to be free here
    plan = planner.plan_of(cfg, planner.lengths_of(cfg, task_to_count(cfg)))
    assert not plan.over, (name, plan.fullest, plan.as_dict())


def test_one_change_makes_an_impossible_run_fit_and_its_sentence_says_which():
    many = ("hardware.rows_per_device=64", "recipe.packing_max_tokens=0", "hardware.memory_gib=9")
    cfg = composed("recipe=grpo", "task=basics", "hardware=t4", *many)
    plan = planner.plan_of(cfg, LENGTHS)
    assert plan.over and plan.fullest == "update"
    sentence = advice.advice_for(cfg, plan, LENGTHS)
    assert "\n" not in sentence and "hardware=t4 has 9.0" in sentence
    change = re.search(r"hardware.rows_per_device=(\d+) makes it fit, in ([\d.]+) GiB", sentence)
    assert cfg.hardware.rows_per_device == 64  # trying changes nothing
    cfg.hardware.rows_per_device = int(change[1])
    better = planner.plan_of(cfg, LENGTHS)
    assert not better.over and f"{better.peak / GIB:.1f}" == change[2]


def test_vllm_takes_its_share_of_the_device_or_none_of_it():
    def rollout(*how):
        return planner.plan_of(composed("recipe=grpo", "task=basics", "hardware=h200", *how), LENGTHS).phases["rollout"]

    assert rollout("hardware.vllm=colocate")["vLLM"] == pytest.approx(0.3 * 139 * GIB)
    assert {"KV cache", "sampling copy"} <= rollout().keys()
    assert {"vLLM", "KV cache", "sampling copy"}.isdisjoint(rollout("hardware.vllm=server"))
    served = composed("recipe=grpo", "task=basics", "hardware=h200", "hardware.vllm=server")
    assert {"KV cache", "sampling copy"}.isdisjoint(planner.plan_of(served, LENGTHS).phases["evaluation"])


def test_sft_on_conversations_is_planned_with_their_length():
    def activations(*how):
        plan = planner.plan_of(composed("recipe=sft", "task=basics", "hardware.memory_gib=64", *how), LENGTHS)
        return plan.phases["update"]["activations"]

    own = activations("recipe.answers=runs/own")
    assert activations() <= own < activations("recipe.answers=runs/told", "episode=repair")


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        (("recipe=ppo", "hardware=slurm_nodes"), "set recipe.trl.num_mini_batches=1"),
        (("recipe=sft", "recipe.batch_size=6", "hardware.rows_per_device=4"), "set hardware.rows_per_device=3"),
        (("recipe=ppo", "hardware=a100x2_zero3"), "hardware.zero_stage"),
    ],
)
def test_what_a_recipe_refuses_is_not_said_to_fit(asked, remedy, capsys):
    assert plan.main(["task=basics", *asked]) == 2
    assert remedy in capsys.readouterr().err


def test_zero_3_brings_all_weights_together_to_sample():
    """TRL's unwrap_model_for_generation does, so what is divided is whole for a while."""

    def parts(stage):
        asked = ("recipe=grpo", "task=basics", "hardware=a100x2_zero3", f"hardware.zero_stage={stage}")
        return planner.plan_of(composed(*asked), LENGTHS).phases

    whole = parts(2)["load"]["weights"]
    for phase in ("rollout", "evaluation"):
        assert parts(3)[phase]["gathered weights"] == pytest.approx(whole)
        assert "gathered weights" not in parts(2)[phase]
    assert "gathered weights" not in parts(3)["update"] and parts(3)["update"]["weights"] < whole


@pytest.mark.parametrize(
    ("overrides", "left_out"),
    [
        (["recipe=grpo", "recipe.lookahead=1"], "hardware.load_in_4bit=true"),
        (["recipe=grpo", "hardware.vllm=server"], "hardware.load_in_4bit=true"),
        (["recipe=reinforce", "recipe.samples_per_prompt=4"], "recipe.samples_per_prompt=1"),
    ],
)
def test_no_change_is_advised_that_the_run_would_refuse(overrides, left_out):
    cfg = composed(*overrides, "task=basics", "hardware.load_in_4bit=false", "hardware=h200")
    options = {str(change) for change in advice.changes(cfg)}
    assert left_out not in options
    without = composed(overrides[0], "recipe.baseline=none" if "reinforce" in overrides[0] else "recipe.lookahead=0")
    assert left_out in {str(change) for change in advice.changes(without)}


def test_where_no_single_change_helps_it_says_so():
    cfg = composed("recipe=grpo", "task=basics", "hardware=t4", "hardware.memory_gib=0.5")
    assert advice.advice_for(cfg, planner.plan_of(cfg, LENGTHS), LENGTHS).endswith("no single change makes it fit")


def test_a_model_that_nobody_here_knows():
    cfg = composed("recipe=grpo", "task=basics", "model.path=nobody/nothing", "task.prompt_tokens=64")
    with pytest.raises(contents.UnknownModel, match="write its architecture into conf/model/"):
        planner.plan_of(cfg, planner.lengths_of(cfg, task_to_count(cfg)))


def test_the_budget_of_a_cpu_is_what_is_free_within_its_container(tmp_path):
    free = quantities.available_memory(tmp_path)
    assert 0 < free <= psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("1500000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 500000\n")  # given back when it is needed
    assert quantities.available_memory(tmp_path) == 4000000
    (tmp_path / "memory.max").write_text("max\n")
    assert quantities.available_memory(tmp_path) == pytest.approx(free, rel=0.2)


@pytest.mark.parametrize(
    ("own", "folder", "names"),
    [
        ("0::/job/step\n", "job", ("memory.max", "memory.current", "inactive_file")),
        ("4:memory:/job\n", "memory/job", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
        ("4:memory:/host/job\n", "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
    ],
)
def test_the_budget_of_a_cpu_is_what_its_control_groups_leave(own, folder, names, tmp_path):
    """Of a scheduler's job, of the first version of control groups, and of a container that sees its own as the top."""
    limit, used, cached = names
    (tmp_path / "own").write_text("9:cpu:/elsewhere\n" + own)
    (tmp_path / folder).mkdir(parents=True)
    for name, text in ((limit, "5000000\n"), (used, "1500000\n"), ("memory.stat", f"{cached} 500000\n")):
        (tmp_path / folder / name).write_text(text)
    assert quantities.available_memory(tmp_path, tmp_path / "own") == 4000000


def test_the_budget_of_a_device_is_what_the_setting_says():
    assert quantities.memory_budget(None, "cuda", 1) is None
    assert quantities.memory_budget(2.0, "cpu", 4) == 2 * GIB


# the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_or_json_and_its_status_says_whether_it_fits(capsys):
    asked = ["recipe=grpo", "task=basics", "hardware=t4", "task.prompt_tokens=256"]
    assert plan.main(asked) == 0
    shown = capsys.readouterr().out
    assert "KV cache" in shown and "fits: " in shown
    assert plan.main([*asked, "hardware.memory_gib=2", "json=true"]) == 1
    results = json.loads(capsys.readouterr().out)
    assert results["fits"] is False and "makes it fit" in results["advice"]
    assert results["peak_gib"] == pytest.approx(sum(results["phases"][results["phase"]].values()), abs=1e-3)


@pytest.mark.parametrize(
    "asked, message",
    [
        (["recipe=grpo", "task=nothing"], "nothing"),
        (["task=basics"], "recipe= is missing; there are check, dpo, eval, grpo,"),
        (["recipe=check", "task=basics"], "pass_rate"),
        (["recipe=grpo", "json=["], "json=[: its value is no YAML"),
        (["recipe=grpo", "json=maybe"], "json=maybe: it must be true or false"),
        (
            ["recipe=grpo", "task=roboeval", "task.benchmark_dir=/no/such"],
            "/no/such",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line(asked, message, capsys):
    assert plan.main(asked) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and message in shown and shown.count("\n") == 1


def test_training_refuses_what_cannot_fit_before_the_model_loads_unless_forced(tmp_path):
    asked = [
        sys.executable,
        "recipes/grpo.py",
        "task=pacman",
        "hardware.memory_gib=0.3",
        "recipe.trl.max_steps=1",
        f"run.dir={tmp_path}/run",
    ]
    refused = warm.run(asked, ROOT)
    assert refused.returncode == 2 and "force=true trains anyway" in refused.stderr
    assert not (tmp_path / "run").exists()
    forced = warm.run([*asked, "force=true"], ROOT)
    assert forced.returncode == 0, forced.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    planned = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert {"memory/load", "memory/rollout", "memory/update"} <= rows[0].keys()
    assert (
        not planned["fits"]
        and planned["keeps_freed"] is False
        and {"load", "rollout", "update"} <= planned["phases"].keys()
    )
    assert "Memory against the plan" in (tmp_path / "run" / "report.html").read_text()


# measured ---------------------------------------------------------------------------------------------------------


def test_the_peak_of_a_phase_is_its_own():
    if not memory_use.STATUS.exists():
        pytest.skip("no /proc here: the high-water mark is that of the whole run")
    memory_use.take()
    memory_use.settle("before")
    held = bytearray(300 << 20)
    del held
    memory_use.settle("large")
    memory_use.settle("after")
    results = memory_use.take("large", "after")
    assert results["memory/large"] > results["memory/after"] + 0.25
    assert "memory/before" in memory_use.take() and memory_use.take() == {}


HOLDS_AFTER = """
from recipes.cli.memory_use import STATUS, give_back_freed_memory, keep_at_most, keep_freed_memory, trim
def resident():
    return next(float(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
keep_freed_memory()
{then}
before = resident()
blocks = [bytearray(b"x" * (8 << 20)) for _ in range(40)]
del blocks
small = [bytearray(b"x" * 100_000) for _ in range(2000)]
few = small[::200]
del small
trim()
print((resident() - before) / (1 << 20))
"""


@pytest.mark.parametrize(
    ("then", "kept"),
    [
        ("", (300, 600)),
        ("keep_at_most(1 << 33)", (300, 600)),
        ("keep_at_most(1 << 27)", (-1, 40)),
        ("give_back_freed_memory()", (-1, 40)),
    ],
    ids=["roomy", "below the limit", "above the limit", "tight"],
)
def test_freed_memory_is_kept_where_there_is_room_and_goes_back_where_not(then, kept):
    if not memory_use.STATUS.exists():
        pytest.skip("no /proc here")
    code = HOLDS_AFTER.format(then=then)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert kept[0] < float(done.stdout) < kept[1]


@pytest.mark.parametrize(("budget", "roomy"), [(None, True), (4.0, True), (3.9, False)])
def test_there_is_room_where_twice_the_peak_is(budget, roomy):
    plan = Plan({"load": {"weights": GIB}, "update": {"weights": GIB, "logits": GIB}}, budget and budget * GIB)
    assert plan.roomy == roomy
    note = memory([{"memory/update": 1.8}], plan.as_dict() | {"keeps_freed": roomy})["note"]
    assert ("room for twice the plan" in note) == roomy
    assert "room for twice" not in memory([{"memory/update": 1.8}], plan.as_dict())["note"]


def test_the_page_lays_measured_beside_planned():
    plan = {"phases": {"load": {"weights": 1.0}, "update": {"weights": 1.0, "logits": 1.0}}, "budget_gib": 1.5}
    results = memory([{"memory/update": 1.8, "memory/load": 0.5}, {"memory/update": 1.6}], plan)
    assert "90% of it" in results["note"] and "Budget: 1.5 GiB" in results["note"]
    assert results["svg"].count('class="held"') == 2 and results["svg"].count('class="planned"') == 2
    assert 'class="budget"' in results["svg"]
    assert memory([{"reward": 1.0}], plan) is None
    assert "planned" not in memory([{"memory/load": 0.5}], None)["svg"].replace("and planned", "")


def test_a_configuration_file_names_the_architecture_as_the_hub_would():
    path = OmegaConf.load(Path(CONF) / "model" / "qwen25_coder_0_5b.yaml").path
    results = AutoConfig.for_model(**json.loads(known_config(path)))
    assert (results.model_type, results.hidden_size, results.num_key_value_heads) == ("qwen2", 896, 2)
