"""The plan counts the rows that are drawn together, the weights that an adapter trains, and the caches of episodes."""

from __future__ import annotations

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

from recipes.plan import others_to_count, task_to_count
from recipes.tools.memory import contents, planner
from recipes.tools.memory.prompt_lengths import Lengths
from tests.recipes.small_llama import SMALL, composed
from tests.recipes.test_plan import LENGTHS


def test_no_more_answers_of_a_problem_are_planned_than_are_drawn_together():
    few, many = (
        planner.plan_of(composed("recipe=eval", "task=basics", "hardware=h200", f"evaluation.samples={n}"), LENGTHS)
        for n in (512, 4096)
    )
    rows = composed("recipe=eval", "task=basics", "hardware=h200").hardware.eval_rows
    assert rows <= 512 and few.phases == many.phases


def test_examples_in_one_row_are_planned_with_their_mask():
    """On a GPU; on a CPU there is none."""

    def activations(device):
        how = ["hardware.memory_gib=64", f"hardware.device={device}", "hardware.precision=bf16"]
        cfg = composed("recipe=sft", "task=basics", *how, "recipe.trl.max_length=null")
        assert cfg.hardware.rows_per_device == cfg.recipe.batch_size == 8
        return planner.plan_of(cfg, Lengths(train=500, test=512, answer=124)).phases["update"]["activations"]

    mask = (8 * 624) ** 2  # bytes, of booleans; attention makes further ones of it
    assert activations("cuda") - activations("cpu") > mask


def test_an_adapter_is_planned_with_what_it_trains(tmp_path):
    """Its own modules and those that it saves whole, not model.lora_targets."""
    for name, saved in (("few", None), ("whole", ["lm_head"])):
        wanted = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=saved, task_type="CAUSAL_LM")
        model = get_peft_model(AutoModelForCausalLM.from_config(LlamaConfig(**SMALL)), wanted)
        model.save_pretrained(tmp_path / name)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        LlamaConfig(**SMALL).save_pretrained(tmp_path / "base")
        cfg = composed("recipe=grpo", "task=basics", f"adapter={tmp_path / name}", f"model.path={tmp_path / 'base'}")
        assert contents.policy_of(cfg).adapters == trained


def test_an_episode_before_its_last_turn_is_kept_beside_the_cache():
    def cache(turns):
        cfg = composed("recipe=eval", "task=basics", "hardware=h200", "episode=repair", f"episode.turns={turns}")
        return planner.plan_of(cfg, LENGTHS).phases["evaluation"]["KV cache"], cfg

    (two, cfg), (four, _) = cache(2), cache(4)
    assert four > 1.9 * two
    assert planner.Planner(cfg, LENGTHS).before_last == cfg.task.max_new_tokens


def test_tasks_that_are_evaluated_too_are_planned_with_their_own_lengths():
    cfg = composed("recipe=grpo", "task=basics", "hardware.memory_gib=64", "evaluation.samples=0")
    task, others = task_to_count(cfg), others_to_count(cfg)
    assert [other.task.name for other in others] == ["humaneval"]
    alone = planner.lengths_of(cfg, task)
    beside = planner.lengths_of(cfg, task, others)
    [humaneval] = beside.others
    assert (
        humaneval.samples == 1 and humaneval.prompt > beside.test and humaneval.answer > cfg.evaluation.max_new_tokens
    )
    own, both = (planner.plan_of(cfg, lengths).phases["evaluation"]["KV cache"] for lengths in (alone, beside))
    assert both > own
    cfg.evaluation.greedy = False
    assert "evaluation" in planner.plan_of(cfg, beside).phases
