"""The plan of a run's memory: numbers of weights against real models, traced passes against PyTorch's own count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig

from recipes import plan as command
from recipes.support import advice, config, holdings, machine, passes, peak_memory, planning
from recipes.support.lengths import Lengths
from recipes.support.main import CONF
from recipes.support.memory import GIB, Plan, Spread, Trained, added, fuller
from recipes.support.memory_chart import memory
from recipes.support.network import Network, find_facts
from recipes.support.passes import Batch
from recipes.support.tracing import total
from tests import warm

ROOT = Path(__file__).parents[2]
LENGTHS = Lengths(train=512, test=512, answer=128, test_problems=66)
SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "tie_word_embeddings": True,
}


def facts() -> str:
    return json.dumps(LlamaConfig(**SMALL).to_dict(), sort_keys=True, default=str)


def composed(*overrides: str):
    config.register()
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("config", list(overrides))
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    return cfg


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
    network = Network(find_facts(path), torch.bfloat16)
    assert network.architecture.parameters / 1e6 == pytest.approx(millions, abs=0.06)
    whole = network.skeleton(network.depth)
    assert sum(p.numel() for p in whole.parameters()) == network.architecture.parameters


def test_adapters_and_four_bits_as_peft_and_bitsandbytes_make_them():
    architecture = Network(facts(), torch.float32, lora_rank=8).architecture
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL))
    whole, packed = (sum(p.numel() for p in m.parameters()) for m in (model, model.model.layers))
    norms = sum(p.numel() for n, p in model.model.layers.named_parameters() if "norm" in n)
    assert architecture.weight_bytes(4) == 4 * whole
    assert architecture.weight_bytes(2, four_bit=True) == 2 * (whole - packed + norms) + (packed - norms) * 0.5625
    adapted = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
    assert architecture.adapters(8) == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_optimizers_and_zero():
    adam = Trained(1000, 100, 4, "adamw_torch", fused_lists=False)
    assert (adam.gradients, adam.states, adam.passing) == (4000, 8000, 800)
    eight = Trained(1000, 100, 4, "paged_adamw_8bit", fused_lists=True)
    assert eight.states == pytest.approx(2031.25) and eight.passing == 0
    two = Spread(2, 4)
    assert two.states(adam) == (8000 + 4000) / 4 and two.gradients(adam, bucket=False) == 1000
    assert two.weights(100.0, 4) == 100.0 and Spread(3, 4).weights(100.0, 4) == 125.0
    assert Spread(0, 2).gradients(adam, bucket=True) == 4000  # what is being summed
    assert added({"weights": 1.0}, {"weights": 2.0, "logits": 1.0}) == {"weights": 3.0, "logits": 1.0}
    assert fuller({"weights": 2.0}, {"weights": 1.0, "logits": 2.0}) == {"weights": 1.0, "logits": 2.0}


# what is traced ---------------------------------------------------------------------------------------------------


def allocated(run) -> int:
    """Bytes that `run` holds at most, by PyTorch's own count of what its allocator gives and takes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    kineto = found.profiler.kineto_results.events()
    events = sorted((e for e in kineto if e.name() == "[memory]"), key=lambda e: e.start_ns())
    held = most = 0
    for event in events:
        held += event.nbytes()
        most = max(most, held)
    return most


@pytest.mark.parametrize("rank, checkpointing", [(0, False), (8, False), (8, True)])
def test_a_traced_update_holds_what_a_real_one_holds(rank, checkpointing):
    network = Network(
        facts(), torch.float32, trained=not rank, lora_rank=rank, checkpointing=checkpointing, lora_targets="all-linear"
    )
    batch = Batch(rows=4, group=2, prompt=96, completion=160, packing=1024)
    planned = total(passes.ppo_update.__wrapped__(network, batch, None, critic=True, held=False))

    from recipes.trainers.forward import backbone_of, causal_lm, completion_logps, hidden_states
    from recipes.trainers.value import ValueFunction

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL))
    if rank:
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM"))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    value = ValueFunction(SMALL["hidden_size"])

    def update() -> None:
        rows = batch.laid_out()
        hidden = hidden_states(backbone_of(model), rows)
        logps, _ = completion_logps(causal_lm(model).get_output_embeddings(), hidden, rows, 1.0, with_entropy=True)
        loss = (logps * rows.mask).sum() + value(hidden).square().sum()
        del hidden, logps
        loss.backward()

    update()
    model.zero_grad()
    assert planned == pytest.approx(allocated(update), rel=0.1)


def test_more_layers_rows_and_tokens_take_more_and_checkpoints_less():
    def update(batch, **how):
        return total(passes.ppo_update(Network(facts(), torch.float32, lora_rank=4, **how), batch, None, True, False))

    small, more = Batch(2, 1, 32, 64), Batch(4, 1, 32, 128)
    assert update(small) < update(more)
    assert update(more, checkpointing=True) < 0.6 * update(more)


def test_a_gpu_without_flash_attention_needs_its_keys_repeated_and_no_scores():
    """(B, H, T, T) would be 8 * 4 * 2048^2 * 4 bytes in each layer."""
    batch = Batch(8, 8, 1792, 256)

    def update(flash):
        return total(passes.grpo_pass(Network(facts(), torch.float32, lora_rank=4, flash=flash), batch, None, True))

    repeated = 6 * 2 * 8 * 2048 * 64 * 4
    assert update(flash=False) <= update(flash=True) + repeated < 8 * 4 * 2048**2 * 4 * 6


def test_both_attentions_are_sdpa():
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from recipes.support.attention import attention_for, grouped_sdpa, repeated_sdpa

    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = 3, True
    for tokens in (1, 7):
        query, key, value = (torch.randn(2, heads, tokens, 16) for heads in (6, 2, 2))
        asked = {"dropout": 0.0, "scaling": 0.25}
        wanted, _ = sdpa_attention_forward(module, query, key, value, None, **asked)
        for attention in (grouped_sdpa, repeated_sdpa):
            torch.testing.assert_close(attention(module, query, key, value, None, **asked)[0], wanted)
    assert attention_for("cpu") == "sdpa"


# plans ------------------------------------------------------------------------------------------------------------


def test_the_t4_holds_the_etk_run_with_its_context_whole():
    """The 0.5B policy, its 1.5B judge, three thorns at once of 4,096 tokens: 16 GB, phase by phase."""
    for experiment in ("etk_t4", "etk_t4_better"):
        cfg = composed("recipe=ppo", f"+experiment={experiment}", "task.prompt_tokens=4096")
        plan = planning.plan_of(cfg)
        assert {"load", "rollout", "grading", "log-probabilities", "update", "evaluation"} == set(plan.phases)
        assert plan.phases["grading"]["judge"] > GIB
        assert not plan.over, plan.as_dict()


@pytest.mark.parametrize("name", sorted(f.stem for f in (Path(CONF) / "experiment").glob("*.yaml")))
def test_every_experiment_fits_the_hardware_it_names(name):
    recipe = {"sft": "sft", "dpo": "dpo", "pairs": "pairs", "base": "eval", "reinforce": "reinforce"}
    chosen = next((r for part, r in recipe.items() if part in name), "grpo" if "grpo" in name else "ppo")
    far = [] if name.startswith("humaneval") else ["task.prompt_tokens=1024"]  # its data are on the hub
    cfg = composed(f"recipe={chosen}", f"+experiment={name}", "adapter=null", *far)
    if cfg.hardware.memory_gib is None:
        cfg.hardware.memory_gib = 12  # a laptop's; else what happens to be free here
    plan = planning.plan_of(cfg)
    assert not plan.over, (name, plan.fullest, plan.as_dict())


def test_one_change_makes_an_impossible_run_fit_and_its_sentence_says_which():
    cfg = composed("recipe=grpo", "task=basics", "hardware=t4", "hardware.rows_per_device=64", "hardware.memory_gib=9")
    plan = planning.plan_of(cfg, LENGTHS)
    assert plan.over and plan.fullest == "update"
    change, better = advice.advise(cfg, plan, LENGTHS)
    assert change.said.startswith("hardware.rows_per_device=") and not better.over
    said = advice.sentence(cfg, plan, LENGTHS)
    assert change.said in said and "\n" not in said and "hardware=t4 has 9.0" in said
    assert cfg.hardware.rows_per_device == 64  # trying changes nothing


def test_vllm_takes_its_share_of_the_device_or_none_of_it():
    def rollout(*how):
        return planning.plan_of(composed("recipe=grpo", "task=basics", "hardware=h200", *how), LENGTHS).phases[
            "rollout"
        ]

    assert rollout("hardware.vllm=colocate")["vLLM"] == pytest.approx(0.3 * 139 * GIB)
    assert {"KV cache", "sampling copy"} <= rollout().keys()
    assert {"vLLM", "KV cache", "sampling copy"}.isdisjoint(rollout("hardware.vllm=server"))


def test_where_no_single_change_helps_it_says_so():
    cfg = composed("recipe=grpo", "task=basics", "hardware=t4", "hardware.memory_gib=0.5")
    assert advice.sentence(cfg, planning.plan_of(cfg, LENGTHS), LENGTHS).endswith("no single change makes it fit")


def test_a_model_that_nobody_here_knows():
    cfg = composed("recipe=grpo", "task=basics", "model.path=nobody/nothing", "task.prompt_tokens=64")
    with pytest.raises(holdings.UnknownModel, match="write its architecture into conf/model/"):
        planning.plan_of(cfg)


def test_the_budget_of_a_cpu_is_what_is_free_within_its_container(tmp_path):
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    cgroup.mkdir()
    assert machine.available_memory(meminfo, cgroup) == 8000 * 1024
    (cgroup / "memory.max").write_text("5000000\n")
    (cgroup / "memory.current").write_text("1000000\n")
    assert machine.available_memory(meminfo, cgroup) == 4000000
    (cgroup / "memory.max").write_text("max\n")
    assert machine.available_memory(meminfo, cgroup) == 8000 * 1024
    hardware = OmegaConf.create({"memory_gib": None, "device": "cuda", "num_processes": 1})
    assert machine.memory_budget(hardware) is None


# the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_or_json_and_its_status_says_whether_it_fits(capsys):
    asked = ["recipe=grpo", "task=basics", "hardware=t4", "task.prompt_tokens=256"]
    assert command.main(asked) == 0
    shown = capsys.readouterr().out
    assert "KV cache" in shown and "fits: " in shown
    assert command.main([*asked, "hardware.memory_gib=2", "json=true"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False and "makes it fit" in found["advice"]
    assert found["peak_gib"] == pytest.approx(sum(found["phases"][found["phase"]].values()), abs=1e-3)


@pytest.mark.parametrize(
    "asked, said",
    [
        (["recipe=grpo", "task=nothing"], "nothing"),
        (["recipe=check", "task=basics"], "pass_rate"),
        (
            ["recipe=grpo", "task=roboeval", "task.benchmark_dir=/no/such"],
            "/no/such",
        ),
    ],
)
def test_what_cannot_be_planned_is_one_line(asked, said, capsys):
    assert command.main(asked) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and said in shown and shown.count("\n") == 1


def test_training_refuses_what_cannot_fit_before_the_model_loads_unless_forced(tmp_path):
    asked = [
        sys.executable,
        "recipes/grpo.py",
        "task=pacman",
        "hardware.memory_gib=0.3",
        "recipe.max_steps=1",
        f"run.dir={tmp_path}/run",
    ]
    refused = warm.run(asked, ROOT)
    assert refused.returncode == 2 and "force=true trains all the same" in refused.stderr
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
    if not peak_memory.STATUS.exists():
        pytest.skip("no /proc here: the high-water mark is that of the whole run")
    peak_memory.take()
    peak_memory.settle("before")
    held = bytearray(300 << 20)
    del held
    peak_memory.settle("large")
    peak_memory.settle("after")
    found = peak_memory.take("large", "after")
    assert found["memory/large"] > found["memory/after"] + 0.25
    assert "memory/before" in peak_memory.take() and peak_memory.take() == {}


HOLDS_AFTER = """
from recipes.support.heap import give_back_freed_memory, keep_freed_memory, trim
from recipes.support.peak_memory import _status
keep_freed_memory()
{then}
before = _status("VmRSS")
blocks = [bytearray(b"x" * (8 << 20)) for _ in range(40)]
del blocks
small = [bytearray(b"x" * 100_000) for _ in range(2000)]
few = small[::200]
del small
trim()
print((_status("VmRSS") - before) / (1 << 20))
"""


@pytest.mark.parametrize(
    ("then", "kept"), [("", (300, 600)), ("give_back_freed_memory()", (-1, 40))], ids=["roomy", "tight"]
)
def test_freed_memory_is_kept_where_there_is_room_and_goes_back_where_not(then, kept):
    if not peak_memory.STATUS.exists():
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
    found = memory([{"memory/update": 1.8, "memory/load": 0.5}, {"memory/update": 1.6}], plan)
    assert "90% of it" in found["note"] and "Budget: 1.5 GiB" in found["note"]
    assert found["svg"].count('class="held"') == 2 and found["svg"].count('class="planned"') == 2
    assert 'class="budget"' in found["svg"]
    assert memory([{"reward": 1.0}], plan) is None
    assert "planned" not in memory([{"memory/load": 0.5}], None)["svg"].replace("and planned", "")


def test_a_configuration_file_names_the_architecture_as_the_hub_would():
    path = OmegaConf.load(Path(CONF) / "model" / "qwen25_coder_0_5b.yaml").path
    found = AutoConfig.for_model(**json.loads(find_facts(path)))
    assert (found.model_type, found.hidden_size, found.num_key_value_heads) == ("qwen2", 896, 2)
