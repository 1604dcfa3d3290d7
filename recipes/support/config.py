"""The shape of every configuration: a misspelt key or a wrong type is refused by name before anything loads.

The numbers live in conf/; these classes hold names and types only, registered as the schemas that the files extend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

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
    """Sampling by vLLM: "server", on GPUs of its own (launch/vllm_server.sh); "colocate", beside training, GRPO alone.
    null: by this project's own loop."""
    vllm_url: str = "http://localhost:8000"
    memory_gib: float | None = None
    """What one device can give, in GiB, as torch sees it; null: a CPU's available memory, of a GPU unknown."""


@dataclass
class RecipeConfig:
    name: str = MISSING
    max_steps: int = MISSING
    save_steps: int = MISSING
    learning_rate: float = MISSING
    lr_schedule: str = MISSING
    warmup_steps: int = MISSING
    max_grad_norm: float = MISSING
    report_to: list[str] = MISSING
    """"wandb", "trackio": where TRL also sends its metrics."""


@dataclass
class OnlineConfig(RecipeConfig):
    """What every recipe has that learns from its own samples."""

    prompts_per_step: int = MISSING
    max_new_tokens: int = MISSING
    temperature: float = MISSING
    top_p: float = MISSING
    packing_max_tokens: int = MISSING
    """Completions of a prompt share a row up to this length; 0: rows of their own."""
    trl: dict[str, Any] = field(default_factory=dict)
    """Any further field of TRL's configuration class."""


@dataclass
class GrpoConfig(OnlineConfig):
    num_generations: int = MISSING
    """Completions a prompt, G in the paper."""
    beta: float = MISSING
    """Weight of the KL term; 0 needs no reference policy."""
    epsilon: float = MISSING
    num_iterations: int = MISSING
    """Updates made of one rollout."""
    loss_type: str = MISSING
    scale_rewards: str = MISSING
    """"none", "group" or "batch": what the group-centred reward is divided by the deviation of."""
    shaping: float = MISSING
    grading_chunk: int = MISSING
    """Completions graded together while others are sampled; 0: all, when the last is sampled."""
    refill: bool = MISSING
    """Replace groups without a signal by groups of further prompts (DAPO's dynamic sampling)."""
    refill_rounds: int = MISSING
    lookahead: int = MISSING
    """1: sample and grade the next batch while this one trains, off-policy by one update; 0: in turn."""


@dataclass
class KLConfig:
    coef: float = MISSING
    """Weight of the KL penalty on each token's reward."""
    estimator: str = MISSING
    """"k1" or "k3"."""
    target: float | None = MISSING
    """Nats a completion to steer `coef` towards; null keeps it."""
    horizon: float = MISSING


@dataclass
class RolloutConfig(OnlineConfig):
    """What PPO and REINFORCE have in common."""

    samples_per_prompt: int = MISSING
    gamma: float = MISSING
    kl: KLConfig = field(default_factory=KLConfig)
    missing_eos_penalty: float | None = MISSING
    sampler: str = MISSING
    """"fast", or "generate" for transformers' own."""


@dataclass
class PpoConfig(RolloutConfig):
    epochs: int = MISSING
    mini_batches: int = MISSING
    clip: float = MISSING
    lam: float = MISSING
    ratio: str = MISSING
    """"token" or "sequence"."""
    whiten_rewards: bool = MISSING


@dataclass
class ReinforceConfig(RolloutConfig):
    baseline: str = MISSING
    """"none", "batch" or "group"."""


@dataclass
class OfflineConfig(RecipeConfig):
    """What learns from examples that are there before: SFT."""

    batch_size: int = MISSING
    """Examples an update, over all processes."""
    max_length: int = MISSING
    """Tokens of prompt and answer; longer examples are cut at the end."""
    trl: dict[str, Any] = field(default_factory=dict)


@dataclass
class DpoConfig(OfflineConfig):
    pairs: str = MISSING
    """A run directory of recipes/pairs.py, or a pairs.jsonl."""
    beta: float = MISSING
    loss_type: str = MISSING


@dataclass
class PairsConfig:
    name: str = MISSING
    problems: int | None = None
    """The first so many training problems; null: all."""
    samples_per_prompt: int = MISSING
    pairs_per_prompt: int = MISSING
    margin: float = MISSING
    """Least difference in reward between chosen and rejected."""
    temperature: float = MISSING
    top_p: float = MISSING
    prompts_at_once: int = MISSING


@dataclass
class ValueConfig:
    name: str = MISSING
    """"shared" or "separate"."""
    learning_rate: float | None = MISSING
    warmup_updates: int = MISSING
    coef: float = MISSING
    clip: float = MISSING


@dataclass
class EvalConfig:
    name: str = MISSING


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
    drop_invalid: bool = False
    """Only problems whose reference passes its own tests and whose tests refuse nonsense: trainings leave the others
    out of what they train on, recipes/eval.py out of what it evaluates."""
    pass_rates: str | None = None
    """A pass_rates.jsonl of recipes/check.py: train only on problems with a pass rate in `pass_rate_range`."""
    pass_rate_range: list[float] = field(default_factory=lambda: [0.05, 0.95])


@dataclass
class RewardConfig:
    name: str = MISSING
    placement: str = MISSING


@dataclass
class EvaluationConfig:
    before: bool = MISSING
    """Also before training. What starts from another run's adapter was evaluated there."""
    every: int = MISSING
    """Also each so many steps of training, the run's own task alone; 0: before and after it."""
    samples: int = MISSING
    """Sampled completions a problem; 0 leaves sampling out."""
    temperature: float = MISSING
    top_p: float = MISSING
    greedy: bool = MISSING
    """Also one greedy completion a problem."""
    max_new_tokens: int = MISSING
    k: list[int] = MISSING
    """pass@k is reported for these k up to `samples`."""
    split: str = MISSING


@dataclass
class RunConfig:
    dir: str = MISSING
    name: str = MISSING
    if_exists: str = MISSING
    """"resume", "refuse" or "replace"."""
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
    lines = Path(cpuinfo).read_text().splitlines() if Path(cpuinfo).exists() else []
    lists = (line.split(":", 1)[1] for line in lines if line.startswith(FLAGS))
    known = set(next(lists, "").split())
    return "bf16" if known & {"avx512_bf16", "amx_bf16", "bf16"} else "fp32"


def register() -> None:
    """Make the schemas known to Hydra, and `${native_precision:}`; conf/ names them."""
    OmegaConf.register_new_resolver("native_precision", native_precision, replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=Config)
    for group, node in (
        ("model", ModelConfig),
        ("hardware", HardwareConfig),
        ("task", TaskConfig),
        ("reward", RewardConfig),
        ("value", ValueConfig),
    ):
        store.store(group=group, name="schema", node=node)
    store.store(group="recipe", name="grpo_schema", node=GrpoConfig)
    store.store(group="recipe", name="ppo_schema", node=PpoConfig)
    store.store(group="recipe", name="reinforce_schema", node=ReinforceConfig)
    store.store(group="recipe", name="sft_schema", node=OfflineConfig)
    store.store(group="recipe", name="dpo_schema", node=DpoConfig)
    store.store(group="recipe", name="pairs_schema", node=PairsConfig)
    store.store(group="recipe", name="eval_schema", node=EvalConfig)
    store.store(group="recipe", name="check_schema", node=EvalConfig)
