"""The shape of every configuration: a misspelt key or a wrong type is refused by name before anything loads.

The numbers live in conf/; these classes hold names and types only, registered as the schemas that the files extend. The
schemas of conf/recipe/ are made from the files themselves (`schema_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

CONF = str(Path(__file__).parents[2] / "conf")
FLAGS = ("flags", "Features")  # the line of /proc/cpuinfo, x86 and ARM


@dataclass
class ModelConfig:
    name: str = MISSING
    path: str = MISSING
    """Hub name, local folder, "package:NAME" for a model that a Python package carries, "scratch" for `scratch`."""
    scratch: dict[str, Any] = field(default_factory=dict)
    """A randomly initialised model: its alphabet, and fields of LlamaConfig."""
    lora_rank: int = MISSING
    """0 trains every weight."""
    lora_alpha: int = MISSING
    lora_dropout: float = MISSING
    lora_targets: str = MISSING
    """"all-linear", or module names joined by commas."""
    architecture: dict[str, Any] = field(default_factory=dict)
    """Fields of its config.json, for recipes/plan.py where the model is not on this machine."""


@dataclass
class HardwareConfig:
    name: str = MISSING
    device: str = MISSING
    """"cpu" or "cuda"."""
    num_machines: int = MISSING
    num_processes: int = MISSING
    """On all machines together."""
    zero_stage: int = MISSING
    """DeepSpeed's: 0 none, 1 optimizer states spread over the processes, 2 gradients too, 3 weights too."""
    precision: str = MISSING
    """"fp32", "bf16" or "fp16": the dtype of the matrix products. ${native_precision:} is this CPU's faster one."""
    load_in_4bit: bool = MISSING
    sampling_copy: bool = MISSING
    """Sample from a copy in `precision` where the trained weights are wider."""
    rows_per_device: int = MISSING
    """Completions in one forward and backward pass of one process."""
    rollout_rows: int | None = None
    """Completions of a GRPO step sampled at once; null: all. Fewer take less memory and are graded sooner."""
    eval_rows: int = MISSING
    """Completions sampled at once in evaluation."""
    logits_at_once: int = MISSING
    """Completion tokens whose logits GRPO has in memory at once; 0: all of a pass. (PPO never has more than 256.)"""
    gradient_checkpointing: bool = MISSING
    optimizer: str = MISSING
    vllm: str | None = None
    """Sampling by vLLM: "server", another process (launch/vllm_server.sh); "colocate", beside training, GRPO alone.
    null: by this project's own loop."""
    vllm_url: str = "http://localhost:8000"
    memory_gib: float | None = None
    """What one device can give, in GiB, as torch sees it; null: a CPU's available memory, of a GPU unknown."""


@dataclass
class ValueConfig:
    name: str = MISSING
    """"shared", "mlp", "separate" or "montecarlo"."""
    learning_rate: float | None = MISSING
    warmup_updates: int = MISSING
    vf_coef: float = MISSING
    cliprange_value: float = MISSING
    lam: float = MISSING
    """Of generalised advantage estimation: over tokens, for "montecarlo" over segments."""
    continuations: int = 0
    """"montecarlo": answers drawn at each cut."""
    cuts: int = 0
    """"montecarlo": how often a completion is cut at most."""


@dataclass
class TaskConfig:
    name: str = MISSING
    max_new_tokens: int = MISSING
    """Longest answer, in tokens."""
    env: dict[str, Any] = MISSING
    """The Task's class and arguments."""
    benchmark_dir: str | None = None
    """A benchmark that may be evaluated on and is not shipped: a folder of the user's."""
    reward: dict[str, Any] = MISSING
    """Channels by name: class, weight, arguments."""
    mean_reward: bool = False
    """The weights are divided by their sum: channels that are left out leave it to the others."""
    prompt_tokens: int | None = None
    """Tokens of the longest prompt, for recipes/plan.py; null: counted in the problems."""
    also_evaluate: list[str] = field(default_factory=list)
    """Other tasks whose held-out problems are evaluated before and after training: greedily, or as the task says."""
    feedback: dict[str, Any] | None = None
    """What an episode of several turns tells of a failing answer: a class of envs/feedback and its arguments."""
    drop_invalid: bool = False
    """Only problems whose reference passes its own tests and whose tests refuse nonsense: trainings leave the others
    out of what they train on, recipes/eval.py out of what it evaluates."""
    pass_rates: str | None = None
    """A pass_rates.jsonl of recipes/check.py: train only on problems with a pass rate in `pass_rate_range`."""
    pass_rate_range: list[float] = field(default_factory=lambda: [0.05, 0.95])


@dataclass
class EpisodeConfig:
    name: str = MISSING
    turns: int = MISSING
    """Turns of the policy, at most."""
    pay: str = MISSING
    """"last" pays the last turn alone, "improvement" each turn what it adds to the turn before."""
    gamma: float = MISSING
    """Discount between turns."""
    max_chars: int = MISSING
    """Longest feedback, in characters."""
    template: str = MISSING
    """The reply; {feedback} stands for what failed, {answer} for what is to be answered."""
    kind: str = MISSING
    """The class of the episode."""


@dataclass
class RewardConfig:
    name: str = MISSING
    placement: str = MISSING


@dataclass
class EtkPromptConfig:
    template: str | None = None
    """A text file in place of the task's own words; the other settings of conf/etk_prompt/ are of task.env."""


@dataclass
class EvaluationConfig:
    before: bool = MISSING
    """Evaluate before training too. Not needed if the run that made `adapter` has evaluated that model."""
    before_from: str | None = None
    """A run whose evaluation before training is used as this run's, for example that of the model below `adapter`."""
    every: int = MISSING
    """Steps between evaluations in training; 0: before and after it alone."""
    every_task: bool = MISSING
    """Evaluations in training are of the tasks in task.also_evaluate as well, not of the run's own alone."""
    samples: int = MISSING
    """Sampled completions a problem; 0 leaves sampling out."""
    temperature: float = MISSING
    top_p: float = MISSING
    greedy: bool = MISSING
    """Also one greedy completion a problem."""
    max_new_tokens: int = MISSING
    k: list[int] = MISSING
    """pass@k of sampled answers is reported for these k, none above `samples`; of greedy answers pass@1."""
    split: str = MISSING


@dataclass
class RunConfig:
    dir: str = MISSING
    name: str = MISSING
    if_exists: str = MISSING
    """"resume", "refuse" or "replace"."""
    keep: str = MISSING
    """The weights in final/: "last", or "best", those of the evaluated step that is best on the run's own task."""
    keep_every: int = MISSING
    """Checkpoints of steps that are a multiple of this stay, whatever recipe.trl.save_total_limit is; 0: none does."""
    completions_per_step: int = MISSING
    swept: list[str] = field(default_factory=list)
    """Keys that a sweep varies: they are part of the run's name whatever they are."""


@dataclass
class Config:
    recipe: Any = MISSING
    model: ModelConfig = MISSING
    hardware: HardwareConfig = MISSING
    task: TaskConfig = MISSING
    reward: RewardConfig = MISSING
    sandbox: dict[str, Any] = MISSING
    evaluation: EvaluationConfig = MISSING
    run: RunConfig = MISSING
    value: Any = None
    """PPO's critic (ValueConfig); no other recipe has one."""
    etk_prompt: Any = None
    """conf/etk_prompt/: the prompt of task=etk (EtkPromptConfig); null: another task."""
    episode: Any = None
    """conf/episode/: answers of several turns (EpisodeConfig); null: one turn."""
    seed: int = MISSING
    adapter: str | None = None
    """A run directory, adapter folder or full checkpoint to start from."""
    force: bool = False
    """Train though the plan of its memory says that it cannot fit."""
    pass_rate: int | None = None
    """recipes/check.py: completions to sample of each training problem."""


def native_precision(cpuinfo: str = "/proc/cpuinfo") -> str:
    """The faster dtype of this CPU's matrix products: "bf16" where it has instructions for them, else "fp32".

    avx512_bf16 and amx_bf16 on x86, bf16 on ARM, as Linux lists them: asking torch would load it before a misspelt
    key is answered. Without, PyTorch widens bf16 at each product: half the speed of fp32 or less
    (tests/bench/README.md).
    """
    lines = Path(cpuinfo).read_text(encoding="utf-8").splitlines() if Path(cpuinfo).exists() else []
    lists = (line.split(":", 1)[1] for line in lines if line.startswith(FLAGS))
    known = set(next(lists, "").split())
    return "bf16" if known & {"avx512_bf16", "amx_bf16", "bf16"} else "fp32"


def updates(samples: int, batch: int) -> int:
    """How many updates of `batch` samples each use `samples` of them, rounded up."""
    return -(-samples // batch)


def register() -> None:
    """Make the schemas known to Hydra, and the resolvers `${native_precision:}` and `${updates:SAMPLES,BATCH}`."""
    OmegaConf.register_new_resolver("native_precision", native_precision, replace=True)
    OmegaConf.register_new_resolver("updates", updates, replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for group, node in (
        ("model", ModelConfig),
        ("hardware", HardwareConfig),
        ("task", TaskConfig),
        ("reward", RewardConfig),
        ("episode", EpisodeConfig),
        ("value", ValueConfig),
    ):
        store.store(group=group, name="schema", node=node)
    store.store(group="etk_prompt", name="schema", node=EtkPromptConfig, package="etk_prompt")  # its files set task too
    known = store.repo.setdefault("recipe", {})  # reading the files takes as long as a fifth of composing
    for file in sorted((Path(CONF) / "recipe").glob("*.yaml")):
        if f"{file.stem}_schema.yaml" not in known:
            store.store(group="recipe", name=f"{file.stem}_schema", node=schema_of(file))


def schema_of(file: Path) -> type:
    """A dataclass with the keys of a file of conf/recipe/: a key has the type of the value that the file gives it.
    A group of keys is a dataclass too.

    So a knob of a trainer is written in two places, that file and the trainer. Where the file's value is null, missing
    or an interpolation, any value is taken. `trl` takes any field, which TRL's own dataclass checks.
    """
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    return _shape(file.stem, {key: value for key, value in settings.items() if key != "defaults"})


def _shape(name: str, settings: dict[str, Any]) -> type:
    shapes: list[tuple[str, Any, Any]] = []
    for key, value in settings.items():
        if key == "trl":
            shapes.append((key, dict[str, Any], field(default_factory=dict)))
            continue
        known = type(value) in (bool, int, float) or (isinstance(value, str) and not value.startswith(("$", "?")))
        kind: Any = type(value) if known else Any
        if isinstance(value, dict):
            kind = _shape(f"{name}_{key}", value) | None  # null is answered with what to set (recipes/cli/ranges.py)
        shapes.append((key, kind, field(default=MISSING)))
    return make_dataclass(f"{name.title()}Config", shapes)


def as_dict(node: Any, resolve: bool = True) -> dict[str, Any]:
    """A configuration node as a plain dictionary; `resolve`: with its interpolations replaced by their values."""
    plain = OmegaConf.to_container(node, resolve=resolve)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}
