"""What a run leaves for others: model cards, full weights, averages, an upload, GGUF; with the tiny models."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import ModelCard
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from recipes import export
from recipes.models.load import load_policy
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.tools.card.licences import DATA, MODELS, data_of
from recipes.tools.card.model_card import Weights, model_card
from recipes.tools.export.gguf import CONVERTER
from recipes.tools.export.weights import compare, full_weights
from tests.recipes.after_training.short_run import ROOT, python, refused
from tests.recipes.hub_server import TOKEN, Hub, serving
from tests.recipes.test_configs import compose


def test_checkpoints_and_final_carry_the_runs_own_card(run):
    places = [run / "final", *sorted((run / "checkpoints").glob("checkpoint-*"))]
    assert len(places) == 3 and not (run / "checkpoints" / "README.md").exists()
    for folder, steps in zip(places, (2, 1, 2), strict=True):
        card = ModelCard.load(folder / "README.md")
        assert f"after step {steps} of 2" in card.text and card.data.library_name == "peft"
        assert "None" not in card.text and "[More Information Needed]" not in card.text
        assert "python recipes/sft.py task=basics" in card.text and str(ROOT) not in card.text


def test_a_card_calls_a_run_unfinished_only_where_it_is(run, tmp_path):
    """An earlier step of a finished run is exported with step=, or by run.keep=best."""
    assert "after step 1 of 2." in model_card(run, Weights(1)) and "after step 2 of 2." in model_card(run, Weights())
    shutil.copytree(run, tmp_path / "run")
    write_jsonl(tmp_path / "run" / "metrics.jsonl", read_jsonl(run / "metrics.jsonl")[:1])
    assert "after step 1 of 2, an unfinished run." in model_card(tmp_path / "run", Weights(1))


def test_a_card_has_every_number_of_the_evaluations_with_its_interval(run, exported):
    card, rows = ModelCard.load(exported / "README.md"), read_jsonl(run / "evals.jsonl")
    lines = [line for line in card.text.splitlines() if "problems |" in line and not line.startswith("| when")]
    assert len(lines) == len(rows) == 6
    for line, row in zip(lines, rows, strict=True):
        share = row["pass@k"]["1"]
        assert f"{share['value']:.1%} [{share['low']:.1%}, {share['high']:.1%}]" in line
        assert f"mean tokens {row['mean_tokens']:.3g}" in line and f"reward {row['reward']:.3g}" in line
    assert {result.metric_value for result in card.data.eval_results} == {0.0}
    assert "the user's own rows (mine.jsonl)" in card.text and OmegaConf.load(run / "config.yaml").commit in card.text


def test_a_card_names_what_got_worse(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    rows = read_jsonl(run / "evals.jsonl")
    for row in rows:
        value = 0.5 if row["when"] == "before" else 0.25
        row |= {"pass@k": {"1": {"value": value, "low": value - 0.2, "high": value + 0.2}}, "task": "humaneval"}
    write_jsonl(tmp_path / "run" / "evals.jsonl", rows)
    assert export.main([f"run={tmp_path / 'run'}", f"to={tmp_path / 'out'}"]) == 0
    text = ModelCard.load(tmp_path / "out" / "README.md").text.split("## What got worse")[1]
    assert "humaneval (greedy), step 2: pass@1 fell from 50.0% [30.0%, 70.0%] to 25.0% [5.0%, 45.0%]" in text


def test_a_card_says_where_the_evaluation_before_comes_from(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    cfg = OmegaConf.load(config)
    cfg.evaluation.before_from, cfg.adapter = "runs/demo/before", "runs/demo/sft"
    OmegaConf.save(cfg, config)
    text = model_card(tmp_path / "run", Weights())
    assert '"Before" means the model of runs/demo/before' in text and "began from, runs/demo/sft, together." in text


def test_every_model_and_task_of_conf_has_its_licence():
    tasks = {file.stem for file in (ROOT / "conf" / "task").glob("*.yaml")}
    models = {OmegaConf.load(file).path for file in (ROOT / "conf" / "model").glob("*.yaml")}
    assert tasks == set(DATA) and models == set(MODELS)


def test_a_file_of_the_users_is_the_users_and_a_published_one_is_not():
    licences = [data_of({"task": {"name": name, "env": {"path": "a.json"}}}).licence for name in ("basics", "puzzles")]
    assert licences == ["the user's; not recorded", "MIT"]


def test_an_exported_folder_is_whole_and_evaluates_as_the_run_does(run, exported, place):
    names = {"README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert names | {"chat_template.jinja", "tokenizer_config.json"} == {file.name for file in exported.iterdir()}
    assert json.loads((exported / "generation_config.json").read_text())["eos_token_id"] == 2
    base = AutoModelForCausalLM.from_pretrained(OmegaConf.load(run / "config.yaml").model.path).state_dict()
    merged = AutoModelForCausalLM.from_pretrained(exported).state_dict()
    changed = [name for name in base if not torch.equal(base[name], merged[name])]
    assert changed and all("proj" in name for name in changed)  # LoRA is on the linear layers
    own = (f"task.env.path={place / 'mine.jsonl'}", "task.env.train_size=2", "task.max_new_tokens=12")
    base = f"model.path={OmegaConf.load(run / 'config.yaml').model.path}"
    shared = ("task=basics", *own, "hardware.precision=fp32", "evaluation.samples=2")
    python("eval", *shared, base, f"adapter={run}", "run.dir=of-run", cwd=place)
    python("eval", *shared, f"model.path={exported}", "run.dir=of-export", cwd=place)
    rows = [read_jsonl(place / name / "samples.jsonl") for name in ("of-run", "of-export")]
    assert len(rows[0]) == 6 and rows[0] == rows[1]


def test_a_run_of_all_weights_is_exported_with_its_pass_at_1(tmp_path):
    """The moves model of recipes/models/tiny.py, which solves its task, so that the numbers are not all 0."""
    python("ppo", "task=pacman", "recipe.trl.max_steps=8", "run.dir=run", cwd=tmp_path)
    python("export", "run=run", "to=out", cwd=tmp_path)
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert "All weights were trained" in card.text and card.data.library_name == "transformers"
    python("eval", "task=pacman", "model.path=out", "run.dir=eval", cwd=tmp_path)
    [results] = read_jsonl(tmp_path / "eval" / "evals.jsonl")
    after = read_jsonl(tmp_path / "run" / "evals.jsonl")[-1]
    assert results["pass@k"] == after["pass@k"] and results["pass@k"]["1"]["value"] > 0.2
    rows = [read_jsonl(tmp_path / name) for name in ("eval/samples.jsonl", "run/eval_samples.jsonl")]
    solved = [
        [(r["task_id"], r["sample"], r["passed"]) for r in each if r.get("when", "after") == "after"] for each in rows
    ]
    assert solved[0] == solved[1]


def test_a_4_bit_base_is_dequantised_before_its_adapter_is_merged(smollm2_tokenizer, tmp_path, capsys):
    """Layers 64 wide, the smallest that bitsandbytes packs on the CPU; the adapter is not zero."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**shape, vocab_size=len(smollm2_tokenizer), eos_token_id=2, pad_token_id=2))
    model.save_pretrained(tmp_path / "base")
    smollm2_tokenizer.save_pretrained(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    get_peft_model(model, lora).save_pretrained(tmp_path / "run" / "final")
    cfg = compose(
        f"model.path={tmp_path / 'base'}", "hardware.load_in_4bit=true", "hardware.precision=fp32", recipe="sft"
    )
    OmegaConf.resolve(cfg)
    (tmp_path / "run" / "config.yaml").write_text(OmegaConf.to_yaml(cfg))

    adapter = str(tmp_path / "run" / "final")
    in_4_bits, tokenizer = load_policy(cfg.model, cfg.hardware, adapter)
    merged = full_weights(cfg.model, cfg.hardware, adapter, torch.float32)
    ids = torch.arange(40)[None]
    with torch.no_grad():
        expected, results = (m.eval()(input_ids=ids).logits for m in (in_4_bits, merged))
    cfg.hardware.load_in_4bit = False  # the same adapter on the base as it was before 4 bits is another model
    other = full_weights(cfg.model, cfg.hardware, adapter, torch.float32)
    with torch.no_grad():
        apart = (other(input_ids=ids).logits - expected).norm()
    assert apart > 1e-2
    assert (results - expected).norm() < apart * 1e-2
    prompts = [[5, 6, 7], [50, 60, 70]]
    assert compare(in_4_bits, merged, tokenizer, prompts, 12).same
    assert not compare(in_4_bits, other, tokenizer, prompts, 12).same

    assert export.main([f"run={tmp_path / 'run'}", f"to={tmp_path / 'out'}"]) == 0
    assert "in 4 bits: its weights are dequantised" in capsys.readouterr().out
    assert "dequantised from the 4 bits (NF4)" in ModelCard.load(tmp_path / "out" / "README.md").text
    assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_an_export_that_answers_otherwise_leaves_nothing(run, tmp_path, monkeypatch, capsys):
    """Weights that are damaged on their way to the disk."""
    whole = AutoModelForCausalLM.from_pretrained

    def damaged(source, **how):
        model = whole(source, **how)
        if Path(source).name.startswith("."):
            model.lm_head = copy.deepcopy(model.lm_head)  # it shares its weights with the embedding
            model.lm_head.weight.data = model.lm_head.weight.data.roll(1, 0)
        return model

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", damaged)
    assert "more than rounding" in refused(export.main, [f"run={run}", f"to={tmp_path / 'out'}"], capsys)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_merge_without_its_adapter_is_seen_whatever_rounding_hides(dtype):
    """A small adapter: greedy answers of the model without it may part at ties alone."""
    torch.manual_seed(0)
    size = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    base = AutoModelForCausalLM.from_config(LlamaConfig(**size, num_attention_heads=4, num_key_value_heads=2))
    bare = copy.deepcopy(base).to(dtype).eval()
    policy = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)).eval()
    merged = copy.deepcopy(policy).merge_and_unload().to(dtype).eval()
    tokenizer = SimpleNamespace(eos_token_id=2, pad_token_id=0, chat_template=None)
    right, wrong = (compare(policy, model, tokenizer, [[5, 6, 7], [9, 8]], 8) for model in (merged, bare))
    assert right.merged == pytest.approx(1.0, abs=0.2) and right.whole
    assert wrong.merged < 0.2 and not wrong.whole and not wrong.same
    for module in policy.modules():
        if isinstance(module, LoraLayer):
            module.lora_B["default"].weight.data *= 1e-6  # less than rounding can tell
    assert compare(policy, bare, tokenizer, [[5, 6, 7]], 8).merged == 1.0


def test_an_unfinished_run_is_exported_from_its_newest_checkpoint(unfinished, tmp_path, capsys):
    first, *_ = (unfinished / "metrics.jsonl").read_text().splitlines(keepends=True)
    (unfinished / "metrics.jsonl").write_text(first)
    assert export.main([f"run={unfinished}", f"to={tmp_path / 'out'}", "step=1"]) == 0
    assert export.main([f"run={unfinished}", f"to={tmp_path / 'newest'}"]) == 0
    assert "has no final/: its newest checkpoint is used, step 2 of 2" in capsys.readouterr().out
    assert "an unfinished run" in ModelCard.load(tmp_path / "out" / "README.md").text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run=RUN", "to=TMP"], "exists: name another folder"),
        (["run=RUN", "to=TMP/x", "format=onnx"], "format=onnx: choose safetensors or gguf"),
        (["run=RUN", "to=TMP/x", "dtype=int8"], "dtype=int8: choose fp32, bf16, fp16"),
        (["run=RUN", "to=TMP/x", "step=7"], "step=7: RUN has no such checkpoint; those of steps 1, 2 are there"),
        (["run=RUN", "to=TMP/x", "share=1.5"], "share=1.5: a share of the trained weights lies above 0"),
        (["run=RUN", "to=TMP/x", "other=RUN", "share=1"], "share=1 leaves nothing of other=RUN"),
        (["run=RUN", "to=TMP/x", "rank=0"], "rank=0: at least one direction of each change is kept"),
        (["run=RUN", "to=TMP/x", "rank=4"], "rank=4: it is for runs that trained all weights"),
        (["run=RUN", "to=TMP/x", "other=TMP"], "no run directory"),
        (["run=TMP", "to=TMP/x"], "no run directory"),
        (["run=RUN", "to=TMP/x", "push=me"], "give USER/NAME"),
        (["run=RUN", "to=TMP/x", "push=me/x"], "no token of the hub"),
        (["run=RUN", "to=TMP/x", "dry_run=true"], "push is not given"),
        (["run=RUN", "to=TMP/x", "format=gguf"], f"llama.cpp's {CONVERTER}, which is not installed"),
        (["run=RUN"], "to"),
    ],
)
def test_an_export_that_cannot_work_is_one_line(run, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    monkeypatch.setattr("recipes.tools.export.hub.get_token", lambda: None)
    given = [a.replace("RUN", str(run)).replace("TMP", str(tmp_path)) for a in arguments]
    assert message.replace("RUN", str(run)) in refused(export.main, given, capsys)
    assert not any(tmp_path.iterdir())


def test_the_other_run_is_named_by_its_own_key(run, tmp_path, capsys):
    evaluation = tmp_path / "evaluation"
    evaluation.mkdir()
    (evaluation / "config.yaml").write_text("recipe:\n  name: eval\n")
    refusal = refused(export.main, [f"run={run}", f"other={evaluation}", f"to={tmp_path / 'out'}"], capsys)
    assert refusal.startswith(f"error: other={evaluation} is a run of eval, which trains nothing")


def test_a_dry_run_names_the_files_and_asks_nobody(run, tmp_path, capsys):
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert export.main([f"run={run}", f"to={tmp_path / 'out'}", "push=me/tiny", "dry_run=true"]) == 0
    message = capsys.readouterr().out
    assert "would upload 7 files" in message and "me/tiny: README.md" in message


def test_an_upload_brings_every_file_to_the_hub(exported):
    """Through huggingface_hub itself, to a server on loopback."""
    program = "import sys; from pathlib import Path; from recipes.tools.export import hub; "
    program += "hub.check_access('me/tiny'); print(hub.upload(Path(sys.argv[1]), 'me/tiny', True))"
    hub = Hub()
    with serving(hub) as address:
        done = pushed(program, exported, address, TOKEN)
        assert done.returncode == 0, done.stderr[-2000:]
        assert hub.repositories["me/tiny"]["visibility"] == "private"
        assert hub.files == {file.name: file.read_bytes() for file in exported.iterdir()}
        wrong = pushed(program, exported, address, "another")
        assert "status 401; check the token" in wrong.stderr
    gone = pushed(program, exported, address, TOKEN)
    assert gone.returncode == 1 and f"{address} cannot be reached" in gone.stderr


def pushed(program: str, folder: Path, address: str, token: str) -> subprocess.CompletedProcess:
    more = {"HF_ENDPOINT": address, "HF_TOKEN": token, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", program, str(folder)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, timeout=300)


def test_a_gguf_file_loads_again_through_transformers(exported, tmp_path):
    """With llama.cpp's own converter, where LLAMA_CPP or PATH has it."""
    from recipes.cli.errors import UserError
    from recipes.tools.export.gguf import converter, write_gguf

    try:
        script = converter()
    except UserError as error:
        pytest.skip(str(error))
    shutil.copytree(exported, tmp_path / "model")
    file = write_gguf(script, tmp_path / "model", "fp32")
    again = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    ids = torch.arange(30)[None]
    whole = AutoModelForCausalLM.from_pretrained(exported)
    torch.testing.assert_close(again(input_ids=ids).logits, whole(input_ids=ids).logits, rtol=1e-4, atol=1e-4)


def test_a_converter_that_fails_is_one_line_and_leaves_the_weights(run, tmp_path, monkeypatch, capsys):
    (tmp_path / CONVERTER).write_text("raise SystemExit('this architecture is not known')")
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    arguments = [f"run={run}", f"to={tmp_path / 'out'}", "format=gguf"]
    assert "failed: this architecture is not known; the weights in" in refused(export.main, arguments, capsys)
    assert (tmp_path / "out" / "model.safetensors").exists()
