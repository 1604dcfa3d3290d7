"""The commands of launch/humaneval_ladder.py and tests/bench/run_ablation.py: each composes, what one writes the next
reads, and the first that fails or is stopped ends them."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from pathlib import Path

import hydra
import pytest
from omegaconf import DictConfig

from launch import humaneval_ladder
from recipes.cli import schema
from recipes.cli.in_turn import run_in_turn
from recipes.cli.overrides import compose
from recipes.cli.schema import CONF
from recipes.cli.sweep import jobs_of
from recipes.records.jsonl import read_jsonl
from tests.bench import leave_one_out, run_ablation

ONLINE = ("reinforce", "ppo")


def runs_of(command: list[str]) -> list[DictConfig]:
    """The configuration of each run that a recipe's command starts; none for another script."""
    script, *arguments = command
    if not script.startswith("recipes/") or script == "recipes/table.py":
        return []
    overrides = [f"recipe={Path(script).stem}", *(a for a in arguments if a != "-m")]
    schema.register()
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        jobs, swept, _ = jobs_of(overrides)
    return [compose([*job, f"run.swept=[{','.join(swept)}]"]) for job in jobs]


def ladder(*arguments: str) -> dict[str, list[DictConfig]]:
    """The ladder's runs by recipe."""
    rows: dict[str, list[DictConfig]] = {}
    numbers, overrides, _ = humaneval_ladder.read(arguments)
    for command in humaneval_ladder.commands(numbers, overrides):
        for cfg in runs_of(command):
            rows.setdefault(cfg.recipe.name, []).append(cfg)
    return rows


def test_each_row_of_the_ladder_starts_from_what_an_earlier_row_writes():
    rows = ladder("samples=32", "temperature=0.7", "hardware.rows_per_device=1", "seed=3")
    counts = {recipe: len(runs) for recipe, runs in rows.items()}
    assert counts == {"eval": 1, "sft": 1, "reinforce": 2, "ppo": 4, "pairs": 1, "dpo": 1}
    (sft,), (pairs,), (dpo,) = rows["sft"], rows["pairs"], rows["dpo"]
    assert {cfg.adapter for recipe in (*ONLINE, "pairs", "dpo") for cfg in rows[recipe]} == {sft.run.dir}
    assert dpo.recipe.pairs == pairs.run.dir
    names = [cfg.run.name for runs in rows.values() for cfg in runs]
    assert len(set(names)) == 10 and all(name.startswith("humaneval_") for name in names)  # what its table matches


@pytest.mark.parametrize(("arguments", "samples"), [((), 524), (("samples=33",), 33)])
def test_the_rows_of_the_ladder_have_equal_numbers_of_graded_samples(arguments, samples):
    rows = ladder(*arguments)
    for cfg in (*rows["reinforce"], *rows["ppo"]):
        batch = cfg.recipe.prompts_per_step * cfg.recipe.samples_per_prompt
        assert 0 <= batch * cfg.recipe.trl.max_steps - samples < batch
    (pairs,), (dpo,) = rows["pairs"], rows["dpo"]
    problems = pairs.recipe.problems or pairs.task.env.train_size
    assert 0 <= problems * pairs.recipe.samples_per_prompt - samples < pairs.recipe.samples_per_prompt
    most_pairs = problems * pairs.recipe.pairs_per_prompt
    assert 0 <= dpo.recipe.batch_size * dpo.recipe.trl.max_steps - most_pairs < 2 * dpo.recipe.batch_size


def test_the_ladders_settings_reach_every_row_that_has_them():
    rows = ladder("sft_steps=24", "eval_samples=2", "temperature=0.7", "hardware.rows_per_device=1")
    runs = [cfg for each in rows.values() for cfg in each]
    assert {(c.evaluation.samples, c.evaluation.temperature, c.hardware.rows_per_device) for c in runs} == {(2, 0.7, 1)}
    assert rows["sft"][0].recipe.trl.max_steps == 24 and rows["pairs"][0].recipe.temperature == 0.7
    assert {cfg.recipe.trl.temperature for recipe in ONLINE for cfg in rows[recipe]} == {0.7}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("smollm2_135m", "'smollm2_135m' is neither KEY=VALUE"),
        ("--dryrun", "'--dryrun' is neither KEY=VALUE"),
        ("samples=0", "samples=0: a row needs at least one"),
        ("style=poem", "style=poem: must be chat or completion"),
        ("samples=few", "Value 'few' of type 'str' could not be converted to Integer"),
    ],
)
def test_what_the_ladder_cannot_take_is_one_line(argument, message, capsys):
    assert humaneval_ladder.main([argument]) == 2
    assert message in capsys.readouterr().err


def test_a_base_model_climbs_the_ladder_with_completions():
    rows = ladder("hardware=t4", "samples=32")
    runs = [cfg for each in rows.values() for cfg in each]
    assert len(runs) == 10 and {cfg.model.name for cfg in runs} == {"deepseek_coder_1_3b_base"}
    assert {(cfg.hardware.name, cfg.hardware.load_in_4bit) for cfg in runs} == {("t4", True)}
    assert {cfg.model.lora_rank for recipe, each in rows.items() for cfg in each if recipe != "eval"} == {8}
    assert {cfg.task.env.style for cfg in runs} == {"completion"}
    assert {cfg.recipe.trl.learning_rate for recipe in ONLINE for cfg in rows[recipe]} == {5e-6}
    assert rows["sft"][0].recipe.trl.learning_rate == 5e-5
    assert {(cfg.task.reward.form.block, cfg.task.reward.form.no_block) for cfg in runs} == {(0, 0)}


@pytest.mark.parametrize(
    ("arguments", "model", "style"),
    [
        ((), "smollm2_135m", "chat"),
        (("hardware=t4", "model=qwen25_coder_0_5b"), "qwen25_coder_0_5b", "chat"),
        (("model=smollm2_135m", "style=completion"), "smollm2_135m", "completion"),
        (("model=deepseek_coder_1_3b_base", "style=chat"), "deepseek_coder_1_3b_base", "chat"),
    ],
)
def test_the_ladders_prompts_go_by_its_model_where_no_style_is_named(arguments, model, style):
    runs = [cfg for each in ladder(*arguments).values() for cfg in each]
    assert {(cfg.model.name, cfg.task.env.style) for cfg in runs} == {(model, style)}


def test_a_dry_run_prints_the_commands_and_runs_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert humaneval_ladder.main(["model=smollm2_135m", "--dry-run"]) == 0
    assert run_ablation.main(["all", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 + 49 and all(line.startswith("python ") for line in lines)
    assert not list(tmp_path.iterdir())


SUPERVISED_STEPS = {"errands": 600, "long_errands": 600, "functions": 30, "twelve": 30, "robots": 280, "lines": 20}
SUPERVISED_STEPS |= {"roboeval": 1000, "basics": 1000}


def test_the_ablations_tables_read_what_their_runs_write():
    commands = run_ablation.commands(list(run_ablation.ABLATIONS), "3", ["recipe.trl.max_steps=3"])
    written: dict[str, DictConfig] = {}
    for script, *arguments in commands:
        for cfg in runs_of([script, *arguments]):
            assert cfg.run.dir not in written
            written[cfg.run.dir] = cfg
            name = Path(cfg.run.dir).relative_to(run_ablation.FOLDER).parts[0]
            if script == "recipes/check.py":
                continue
            assert cfg.recipe.trl.max_steps == (SUPERVISED_STEPS[name] if cfg.recipe.name == "sft" else 3)
            assert cfg.adapter is None or written[cfg.adapter].recipe.name == "sft"
            if cfg.model.name == "small":
                task = "errands" if "errands" in name else cfg.task.name
                policy = ["tests/bench/small_policy.py", cfg.model.path, "--task", task]
                assert any(command[:4] == policy for command in commands)
        if script == "tests/bench/ablation.py":
            for folder in itertools.takewhile(lambda argument: not argument.startswith("--"), arguments):
                runs = [c for path, c in written.items() if path.startswith(f"{folder}/")]
                compared = {(c.reward.placement, c.recipe.get("credit")) for c in runs}
                usual = ("sparse", "answer") if "errands" in folder else ("dense", runs[0].recipe.get("credit"))
                assert {usual} < compared
        if script == "tests/bench/leave_one_out.py":
            names = [Path(path).name for path in written if path.startswith(tuple(f"{a}/" for a in arguments))]
            kept = [match[1] for name in names if (match := leave_one_out.NAME.fullmatch(name))]
            assert sorted(set(kept)) == ["dense", "without-lint", "without-simulator", "without-syntax"]
    assert {cfg.seed for cfg in written.values()} == {0, 3}  # 0: of SFT, which the seeds share


def test_an_ablation_without_one_channel_measures_it_and_pays_nothing():
    for command in run_ablation.channels("0", []):
        for cfg in runs_of(command):
            left_out = [name for name, channel in cfg.task.reward.items() if channel.weight == 0]
            named = leave_one_out.NAME.fullmatch(Path(cfg.run.dir).name)
            assert left_out == ([named[1].removeprefix("without-")] if named and "without" in named[1] else [])


@pytest.mark.parametrize(
    ("names", "message"), [(["nowhere"], "'nowhere' is no ablation"), (["a=1"], "name an ablation")]
)
def test_an_unknown_ablation_is_refused(names, message, capsys):
    with pytest.raises(SystemExit):
        run_ablation.main(names)
    assert message in capsys.readouterr().err


def script(folder: Path, name: str, text: str) -> list[str]:
    (folder / name).write_text(f"from pathlib import Path\nPath({name + '.ran'!r}).touch()\n{text}")
    return [str(folder / name)]


def test_the_first_command_that_fails_ends_the_others(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    programs = {"a.py": "", "b.py": "raise SystemExit(3)", "c.py": ""}
    commands = [script(tmp_path, name, text) for name, text in programs.items()]
    assert run_in_turn(commands) == 3
    assert [Path(f"{name}.py.ran").exists() for name in "abc"] == [True, True, False]
    out, err = capfd.readouterr()
    assert out.splitlines() == ["python a.py", "python b.py"] and "exit status 3 of the command above" in err


def test_a_command_that_is_stopped_and_ends_well_ends_the_others_too(tmp_path, monkeypatch, capfd):
    """A recipe saves what it has at a signal and has exit status 0."""
    monkeypatch.chdir(tmp_path)
    saves = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(0))\nPath('ready').touch()\nsignal.pause()\n"

    def stop_when_ready() -> None:
        while not Path("ready").exists() or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_when_ready, daemon=True).start()
    assert run_in_turn([script(tmp_path, "a.py", saves), script(tmp_path, "b.py", "")]) == 130
    assert not Path("b.py.ran").exists() and "the same command goes on" in capfd.readouterr().err


LETTERS = """
from rewards.channel import ChannelResult

class Letters:
    pays_outside_code = True

    async def score(self, problems, completions):
        return [ChannelResult(sum(c.isalpha() for c in each.text) / 10) for each in completions]
"""


QLORA_HERE = ["hardware=t4", "hardware.device=cpu", "hardware.optimizer=adamw_torch", "hardware.memory_gib=null"]


@pytest.fixture(scope="module")
def wider_model(tiny_model, tmp_path_factory) -> Path:
    """The tiny model with rows of 64 weights, the fewest that 4-bit layers take on some CPUs. After some tokens it is
    likely to end its answer: pairs are made of ended answers alone."""
    import torch
    from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM

    config = AutoConfig.from_pretrained(tiny_model)
    config.hidden_size, config.head_dim = 64, 16
    folder = tmp_path_factory.mktemp("wider")
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data[tokenizer.eos_token_id] = torch.randn(64)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("hardware", "model"), [([], "smollm2_135m"), (QLORA_HERE, "deepseek_coder_1_3b_base")])
def test_the_ladder_runs_from_its_first_row_to_its_table(hardware, model, wider_model, tmp_path, monkeypatch):
    """With a channel that tells a random model's answers apart, so that there are pairs."""
    monkeypatch.chdir(tmp_path)
    Path("letters.py").write_text(LETTERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = ["samples=16", "sft_steps=2", "eval_samples=1", "temperature=0.7"]
    small = [f"model.path={wider_model}", "hardware.precision=fp32", "task.max_new_tokens=6"]
    channel = "+task.reward.letters={_target_:letters.Letters,weight:10}"
    assert humaneval_ladder.main([*hardware, *settings, *small, channel]) == 0
    rows = Path("runs/humaneval.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * 9  # greedy and sampled; pairs are not evaluated
    assert Path("runs/humaneval.html").exists()
    assert f"humaneval_ppo-0.03-batch8-{model}-seed0" in Path("runs/humaneval.csv").read_text()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_ablation_runs_from_its_policy_to_its_table(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    commands = run_ablation.commands(["unlocated"], "0", ["recipe.trl.max_steps=1"])
    for command in commands:
        if command[0] == "recipes/sft.py":
            command.append("recipe.trl.max_steps=2")
    assert run_in_turn(commands) == 0
    assert Path("runs/ablation/unlocated.html").exists()
    metrics = Path("runs/ablation/basics/unlocated/pointed-seed0/metrics.jsonl")
    assert len(read_jsonl(metrics)) == 1
    written = metrics.read_text()
    capfd.readouterr()
    assert run_in_turn([command for command in commands if "task.reward.unit_tests.locate=false" in command]) == 0
    assert "is finished" in capfd.readouterr().out and metrics.read_text() == written
