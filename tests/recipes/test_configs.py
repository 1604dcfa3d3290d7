"""Every file of conf/ composes, and the CPU profile becomes what the trainers take."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import hydra
import pytest
import yaml
from omegaconf import OmegaConf

from envs.etk.build.application import Application, Build, Run
from envs.etk.build.compare import EXPECT, Metric
from recipes.cli import schema
from recipes.cli.errors import UserError
from recipes.cli.overrides import compose as compose_run
from recipes.cli.processes import accelerate_config
from recipes.cli.schema import CONF
from recipes.run.build import build_reward, build_task

LAUNCH = Path(CONF).parent / "launch"
GROUPS = ("model", "hardware", "task", "reward", "sandbox")


def compose(*overrides: str, recipe: str = "grpo"):
    schema.register()
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        return hydra.compose("config", [f"recipe={recipe}", *overrides])


TRAINS = ("grpo", "ppo", "reinforce", "sft", "dpo")
HERE = ("hardware.device=cpu", "hardware.zero_stage=0")  # TRL's classes refuse a GPU's settings where there is none


def trl_config(cfg, folder):
    """The arguments that the recipe hands to its trainer."""
    from trl import DPOConfig, GRPOConfig, SFTConfig

    from recipes.run.trl_config import trl_arguments
    from recipes.trainers.own_ppo import PPOConfig

    cfg.run.dir = str(folder)
    kinds = {"grpo": GRPOConfig, "sft": SFTConfig, "dpo": DPOConfig}
    return trl_arguments(cfg, kinds.get(cfg.recipe.name, PPOConfig))


def choices(group: str) -> list[str]:
    return sorted(f"{group}={file.stem}" for file in (Path(CONF) / group).glob("*.yaml"))


@pytest.mark.parametrize("override", [c for group in GROUPS for c in choices(group)])
def test_every_choice_composes_and_says_what_it_is(override):
    cfg = compose(override)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    group, name = override.split("=")
    if group != "sandbox":
        assert cfg[group].name == name


@pytest.mark.parametrize("file", sorted(Path(CONF).rglob("*.yaml")), ids=lambda f: str(f.relative_to(CONF)))
def test_every_file_says_what_it_is_where_it_ran_how_to_run_it_and_what_that_takes(file):
    head = list(itertools.takewhile(lambda line: line.startswith("#"), file.read_text().splitlines()))
    what, *rest = (line for line in head if not line.startswith("# @package"))
    assert len(what) > 10
    text = "\n".join(rest)
    assert re.search(r"[Tt]ested|[Cc]hecked|[Nn]ot yet run|[Nn]ot run|[Nn]ot been run|composed in tests", what + text)
    assert re.search(r"^# (python|accelerate|sbatch|launch/|make) ?\S*", text, re.MULTILINE)
    assert re.search(r"^# Expected", text, re.MULTILINE)


def every_third(number: int, group: str) -> list[str]:
    """Of the choices of a group those that the task of this number meets in each run of the tests; two further tasks
    meet the others."""
    return [choice for place, choice in enumerate(choices(group)) if (place + number) % 3 == 0]


MEETINGS = [
    pytest.param(task, hardware, id=f"{task}-{hardware}", marks=() if hardware in often else pytest.mark.slow)
    for number, task in enumerate(choices("task"))
    for often in [every_third(number, "hardware")]
    for hardware in choices("hardware")
]


@pytest.mark.parametrize(("task", "hardware"), MEETINGS)
def test_every_task_runs_on_every_hardware(task, hardware, tmp_path):
    cfg = compose(task, hardware, *HERE)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    args = trl_config(cfg, tmp_path)
    assert (args.bf16, args.fp16) == (cfg.hardware.precision == "bf16", cfg.hardware.precision == "fp16")
    assert args.optim == cfg.hardware.optimizer


@pytest.mark.parametrize("hardware", choices("hardware"))
def test_a_profile_names_the_model_that_fits_it_and_a_named_one_goes_first(hardware, tmp_path):
    fitting = {"cpu": "smollm2_135m", "cpux2": "smollm2_135m", "t4": "qwen25_coder_0_5b"}
    fitting |= dict.fromkeys(("a100", "a100x2"), "qwen25_coder_1_5b")
    name = hardware.removeprefix("hardware=")
    cfg = compose(hardware, recipe="ppo")
    assert cfg.model.name == fitting.get(name, "qwen25_coder_7b")
    assert cfg.model.name in (Path(CONF) / "hardware" / f"{name}.yaml").read_text().split("defaults:")[0]
    assert compose(hardware, "model=deepseek_coder_1_3b").model.name == "deepseek_coder_1_3b"
    assert compose(hardware, "task=pacman").model.name == "moves"
    assert trl_config(compose(hardware, *HERE, recipe="ppo"), tmp_path).per_device_train_batch_size == 8


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16", "bf16"),
        ("flags\t\t: avx512f amx_bf16", "bf16"),
        ("Features\t: fp asimd bf16", "bf16"),
        ("flags\t\t: fpu avx2 avx512f", "fp32"),
        ("model name\t: bf16", "fp32"),
    ],
)
def test_a_cpu_computes_in_what_it_has_instructions_for(line, dtype, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\nbugs\t\t:\n")
    assert schema.native_precision(str(tmp_path / "cpuinfo")) == dtype
    assert compose("hardware=cpu").hardware.precision == schema.native_precision()
    assert schema.native_precision(str(tmp_path / "none")) == "fp32"


def test_schemas_are_made_of_the_files_once(monkeypatch):
    schema.register()
    monkeypatch.setattr(schema, "schema_of", None)
    schema.register()
    assert compose("recipe.prompts_per_step=3").recipe.prompts_per_step == 3


def test_an_experiment_without_a_model_takes_the_profiles():
    assert compose("+experiment=humaneval_base", "hardware=t4", recipe="eval").model.name == "qwen25_coder_0_5b"
    assert compose("+experiment=etk_t4", recipe="ppo").hardware.name == "t4"


@pytest.mark.parametrize("hardware", choices("hardware"))
def test_accelerates_files_agree_with_the_profiles(hardware):
    profile = compose(hardware).hardware
    head = (Path(CONF) / "hardware" / f"{profile.name}.yaml").read_text().split("defaults:")[0]
    if profile.num_processes == 1:
        assert "launch/" not in head
        return
    name = re.search(r"launch/(\w+)\.(yaml|sh)", head).group(1)
    assert yaml.safe_load((LAUNCH / f"{name}.yaml").read_text()) == accelerate_config(profile)


@pytest.mark.parametrize("script", sorted(LAUNCH.glob("*.sh")), ids=lambda s: s.name)
def test_launch_scripts_are_bash(script):
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.parametrize("plugin", ["submitit", "ray"])
def test_hydras_launchers_for_sweeps_compose_where_they_are_installed(plugin):
    pytest.importorskip(f"hydra_plugins.hydra_{plugin}_launcher")
    choice = {"submitit": "submitit_slurm", "ray": "ray"}[plugin]
    schema.register()
    with hydra.initialize_config_dir(CONF, version_base="1.3"):
        cfg = hydra.compose("config", ["recipe=grpo", f"hydra/launcher={choice}"], return_hydra_config=True)
    assert plugin in cfg.hydra.launcher._target_


TUNED = {file.stem.split("_")[0] for file in (Path(CONF) / "tuned").glob("*.yaml")}
"""Recipes that have numbers of their own for some tasks."""
TAKEN = [
    pytest.param(recipe, task, id=f"{recipe}-{task}", marks=() if task in often else pytest.mark.slow)
    for number, recipe in enumerate(["grpo", "ppo", "reinforce", "sft", "dpo", "pairs", "check", "eval"])
    for often in [choices("task") if recipe in TUNED else every_third(number, "task")]
    for task in choices("task")
]


@pytest.mark.parametrize(("recipe", "task"), TAKEN)
def test_every_recipe_takes_every_task(recipe, task):
    needed = ["recipe.pairs=somewhere"] if recipe == "dpo" else []
    OmegaConf.to_container(compose(task, *needed, recipe=recipe), resolve=True, throw_on_missing=True)


@pytest.mark.parametrize("override", choices("value"))
def test_every_critic_composes(override):
    assert f"value={compose(override, recipe='ppo').value.name}" == override


def test_a_task_brings_its_numbers_and_the_command_line_has_the_last_word():
    cfg = compose("task=pacman", "recipe.trl.learning_rate=0.5", recipe="ppo")
    assert cfg.model.name == "moves" and cfg.recipe.samples_per_prompt == 32 and cfg.recipe.trl.learning_rate == 0.5
    assert compose("task=pacman", "model=smollm2_135m", recipe="ppo").model.name == "smollm2_135m"
    names = {f.stem for f in (Path(CONF) / "tuned").glob("*.yaml")}
    known = {f"{r}_{t.removeprefix('task=')}" for r in ("grpo", "ppo", "reinforce") for t in choices("task")}
    assert names <= known


@pytest.mark.parametrize("override", choices("experiment") + choices("debug"))
def test_every_experiment_composes_with_the_recipe_in_its_command(override, tmp_path):
    group, name = override.split("=")
    text = (Path(CONF) / group / f"{name}.yaml").read_text()
    recipe = re.search(r"recipes/(\w+)\.py \+", text).group(1)
    cfg = compose(f"+{override}", recipe=recipe)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert cfg.recipe.name == recipe
    if group == "experiment":
        assert cfg.run.name.startswith(name)
    if recipe in TRAINS:
        trl_config(compose(f"+{override}", *HERE, recipe=recipe), tmp_path)


@pytest.mark.parametrize("task", ["basics", "humaneval"])
@pytest.mark.parametrize("placement", ["dense", "sparse"])
def test_every_task_has_problems_and_a_reward(task, placement, sandbox):
    cfg = compose(f"task={task}", f"reward={placement}")
    assert build_task(cfg).problems("train")
    reward = build_reward(cfg, sandbox)
    assert set(reward.channels) == {"unit_tests", "form"} and reward.placement == placement


@pytest.mark.parametrize("recipe", ["sft", "reinforce", "ppo", "grpo", "dpo"])
def test_debugging_makes_any_training_two_short_steps(recipe):
    cfg = compose("+debug=fast", recipe=recipe)
    short = (cfg.recipe.trl.max_steps, cfg.task.max_new_tokens, cfg.evaluation.samples, cfg.run.name)
    assert short == (2, 24, 1, "debug")


@pytest.mark.parametrize("recipe", ["eval", "check", "pairs"])
def test_debugging_makes_an_evaluation_short(recipe):
    cfg = compose("+debug=fast_eval", recipe=recipe)
    assert (cfg.task.max_new_tokens, cfg.evaluation.samples, cfg.run.name) == (24, 1, "debug")


def test_the_amrex_task_becomes_an_application(tmp_path):
    """And what can be configured there has the defaults of the code, but for the example's own commands."""
    (tmp_path / "main.cpp").write_text("int one;\nint two;\n")
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "file": "main.cpp", "start": 0, "end": 1}\n')
    paths = (f"task.env.application.source_dir={tmp_path}", f"task.env.cases={tmp_path}/cases.jsonl")
    task = build_task(compose("task=etk_completion_amrex", *paths, "task.env.application.norm=l2", recipe="eval"))
    assert [problem.data["application"] for problem in task.problems("test")] == [task.application]
    assert task.application == Application(
        name="amrex",
        source_dir=tmp_path,
        build=Build(
            "make -j4 > build.log 2>&1",
            timeout=600,
            log="build.log",
            success_regex="SUCCESS",
            artifact="main2d.gnu.ex",
            discard=[],
        ),
        run=Run(["./main2d.gnu.ex", "inputs"], inputs=["inputs"], success_regex="finalized", timeout=120),
        metric=Metric(expect=list(EXPECT), norm="l2"),
    )
    with pytest.raises(UserError, match="unknown key timout"):
        build_task(compose("task=etk_completion_amrex", *paths, "+task.env.application.run.timout=1"))
    with pytest.raises(UserError, match="source_dir=app: no such folder"):
        build_task(compose("task=etk_completion_amrex", paths[1]))


def test_the_cpu_profile_becomes_a_grpo_config(tmp_path):
    args = trl_config(compose("+recipe.trl.epsilon_high=0.3", "hardware.precision=bf16"), tmp_path)
    assert args.gradient_accumulation_steps == args.steps_per_generation == 8
    assert args.epsilon_high == 0.3 and args.bf16 and args.report_to == []


def test_a_step_smaller_than_a_pass_is_one_pass(tmp_path):
    args = trl_config(
        compose("recipe.prompts_per_step=1", "recipe.trl.num_generations=4", *HERE, recipe="grpo"), tmp_path
    )
    assert (args.per_device_train_batch_size, args.gradient_accumulation_steps) == (4, 1)


def test_the_cpu_profile_becomes_a_ppo_config(tmp_path):
    args = trl_config(compose("recipe.trl.vf_coef=0.3", "hardware.precision=bf16", recipe="ppo"), tmp_path)
    assert args.vf_coef == 0.3 and args.bf16 and args.gradient_accumulation_steps == 1
    assert args.total_episodes == 60 * args.per_device_train_batch_size


@pytest.mark.parametrize("recipe", TRAINS)
def test_every_field_of_trls_is_passed_on_as_it_stands(recipe, tmp_path):
    cfg = compose("recipe.trl.save_total_limit=7", "+recipe.trl.adam_beta2=0.9", *PAIRS.get(recipe, ()), recipe=recipe)
    args = trl_config(cfg, tmp_path)
    for name, value in OmegaConf.to_container(cfg.recipe.trl, resolve=True).items():
        taken = getattr(args, name)
        assert taken == value or (name, value, taken) == ("report_to", "none", []), name
    assert (args.save_total_limit, args.adam_beta2) == (7, 0.9)


PAIRS = {"dpo": ("recipe.pairs=somewhere",)}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+recipe.trl.bf16=true", "recipe.trl.bf16=True: hardware.precision decides it"),
        ("+recipe.trl.seed=3", "recipe.trl.seed=3: seed decides it"),
        ("+recipe.trl.epsilon_hihg=0.3", "GRPOConfig has no such field; did you mean epsilon_high"),
        ("recipe.trl.max_steps=many", "recipe.trl.max_steps=many: a whole number expected"),
        ("recipe.trl.temperature=hot", "recipe.trl.temperature=hot: a number expected"),
        ("recipe.trl.lr_scheduler_type=often", "GRPOConfig refuses a value"),
        # what the trainer could not make of them, when there are a model and a run directory
        ("recipe.trl.lr_scheduler_type=cosine_with_min_lr", "its settings go into +recipe.trl.lr_scheduler_kwargs="),
        ("hardware.optimizer=galore_adamw", "hardware.optimizer=adamw_torch needs no further package"),
        ("hardware.optimizer=lomo", "hardware.optimizer=adamw_torch needs no further package"),
    ],
)
def test_a_field_that_trl_would_not_take_is_one_line(tmp_path, override, message):
    with pytest.raises(UserError, match=re.escape(message)):
        trl_config(compose(override), tmp_path)


def test_a_schedule_with_the_settings_that_it_needs_is_taken(tmp_path):
    schedule = ("recipe.trl.lr_scheduler_type=cosine_with_min_lr", "+recipe.trl.lr_scheduler_kwargs={min_lr_rate:0.1}")
    assert trl_config(compose(*schedule), tmp_path).lr_scheduler_kwargs == {"min_lr_rate": 0.1}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("recipe.max_steps=3", "there is no recipe.max_steps; did you mean recipe.trl.max_steps?"),
        ("recipe.trl.max_step=3", "there is no recipe.trl.max_step; did you mean recipe.trl.max_steps"),
        ("max_steps=3", "there is no max_steps; did you mean recipe.trl.max_steps?"),
        ("recipe.trl.foo=3", "+recipe.trl.foo=VALUE passes it on to TRL"),
        ("recipe.lookahaed=1", "did you mean recipe.lookahead?"),
        ("recipe.prompts_per_step=two", "recipe.prompts_per_step=two: it must be a number of at least 1"),
        ("recipe.refill=perhaps", "recipe.refill=perhaps: it must be true or false"),
        ("+learning_rate=1e-5", "there is no learning_rate; did you mean recipe.trl.learning_rate?"),
        ("++learnin_rate=1e-5", "there is no learnin_rate; did you mean recipe.trl.learning_rate?"),
        ("+max_steps=3", "there is no max_steps; did you mean recipe.trl.max_steps?"),
        ("+evaluation.samplez=1", "there is no evaluation.samplez; did you mean evaluation.samples?"),
        ("+hardware.rowsperdevice=2", "there is no hardware.rowsperdevice; did you mean hardware.rows_per_device"),
        ("+run.foo=1", "there is no run.foo; there are dir, name,"),
        ("+task.foo=1", "there is no task.foo; there are name,"),
        ("+model.foo=1", "there is no model.foo; there are name,"),
        ("+reward.form.weight=0.3", "there is no reward.form; there are name, placement"),
        ("+recipe.samples_per_prompt=4", "there is no recipe.samples_per_prompt; there are name,"),
        ("+recipe.curriculum.foo=2", "there is no recipe.curriculum.foo; there are enabled, memory, least"),
        ("+value.lam=0.3", "there is no value.lam: only PPO has a critic"),
        ("+value=mlp", "+value=mlp: write value=mlp"),
        ("+etk_prompt.template=x", "there is no etk_prompt.template: only task=etk has a choice of prompts"),
        ("+episode.turns=3", "there is no episode.turns: answers have one turn; set episode=repair too"),
        ("episode.turns=3", "there is no episode.turns: answers have one turn; set episode=repair too"),
    ],
)
def test_a_key_that_is_not_there_says_which_is(override, message):
    """Nor does + add one that nothing reads."""
    schema.register()
    with pytest.raises(UserError, match=re.escape(message)):
        compose_run(["recipe=grpo", override])


def test_a_plus_adds_keys_where_any_is_taken_and_chooses_set_ups():
    schema.register()
    below = (
        "recipe.trl.top_k",
        "task.env.a",
        "task.reward.b.c",
        "sandbox.d",
        "model.scratch.e",
        "model.architecture.f",
    )
    added = [f"+{key}=1" for key in (*below, "task.feedback.g")]
    cfg = compose_run(["recipe=grpo", "+experiment=[ablation_basics,ablation_grpo]", "++seed=3", *added])
    assert cfg.seed == 3 and all(OmegaConf.select(cfg, key) == 1 for key in below)
    asked = ["recipe=ppo", "task=etk", "++etk_prompt.template=x", "++value.lam=0.5"]
    assert compose_run(asked).etk_prompt.template == "x"


@pytest.mark.parametrize(
    ("overrides", "weights"),
    [
        (["task=etk", "~task.reward.judge"], {"bleu": 1.0}),
        (["task=basics"], {"unit_tests": 1.0, "form": 0.1}),
        (["task=basics", "task.mean_reward=true"], {"unit_tests": 1 / 1.1, "form": 0.1 / 1.1}),
    ],
)
def test_a_mean_of_the_channels_that_are_there(overrides, weights):
    assert build_reward(compose(*overrides), None).weights == pytest.approx(weights)


def test_weights_that_cannot_be_are_said_in_a_line():
    for weight in (-1, 0):
        with pytest.raises(UserError, match="none may be below 0"):
            build_reward(compose("task=pacman", f"task.reward.moves.weight={weight}"), None)


@pytest.mark.parametrize("key", ["enabled", "sandbox"])
def test_a_channel_is_switched_by_true_or_false_alone(key):
    """YAML 1.2 has a text in `no`, which is true in Python."""
    with pytest.raises(UserError, match=f"task.reward.form.{key}=no: true or false expected"):
        build_reward(compose(f"+task.reward.form.{key}=no"), None)
