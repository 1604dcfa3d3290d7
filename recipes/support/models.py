"""Load a policy and its tokenizer: from the hub, a folder, or a Python package that carries one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from omegaconf import DictConfig
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, PreTrainedModel

from envs.packaged import PACKAGE, model_source, package_gguf
from envs.task import TaskError
from recipes.support.attention import attention_for
from recipes.support.build import as_dict
from recipes.support.checkpoints import latest_checkpoint
from recipes.support.main import UserError
from recipes.support.scratch import scratch_model
from recipes.trainers.value import ValueFunction

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SCRATCH = "scratch"
PLAIN_TURNS = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% elif not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n\n' }}{% endif %}"
)


def check_model(cfg: DictConfig) -> None:
    """Raise UserError where the model or adapter cannot be there, without loading anything."""
    path = cfg.model.path
    if path.startswith(PACKAGE):
        try:
            package_gguf(path.removeprefix(PACKAGE))
        except TaskError as error:
            raise UserError(str(error)) from None
    elif path.startswith((".", "/", "~")) and not Path(path).expanduser().is_dir():
        raise UserError(f"no such model folder: {path} (model.path)")
    if cfg.adapter is not None:
        adapter_folder(cfg.adapter)
    trains = cfg.recipe.name != "eval"
    if trains and cfg.hardware.load_in_4bit and not cfg.model.lora_rank and not carries_adapter(cfg):
        raise UserError("4-bit weights cannot be trained: set model.lora_rank, or hardware.load_in_4bit=false")


def adapter_folder(path: str) -> Path:
    """The folder of weights that `path` means: itself, or the final or latest weights of a run directory."""
    folder = Path(path).expanduser()
    for candidate in (folder, folder / "final", latest_checkpoint(folder)):
        if candidate and any((candidate / f).exists() for f in ("adapter_config.json", "config.json")):
            return candidate
    raise UserError(f"neither an adapter nor a model in {path} (adapter); give a run directory or its final/ folder")


def load_policy(cfg: DictConfig) -> tuple[PreTrainedModel, Any]:
    """Policy and tokenizer. LoRA is not added here: the trainer does (see `lora`).

    Weights that training leaves frozen are held in the profile's precision, trained ones in fp32 (bf16 weights would
    round small updates away).

    Raises:
        UserError: no such folder, package or adapter; a hub that does not answer.
    """
    check_model(cfg)
    if cfg.model.path == SCRATCH:
        model, tokenizer = scratch_model(**as_dict(cfg.model.scratch))
        if cfg.adapter is not None:
            model = AutoModelForCausalLM.from_pretrained(adapter_folder(cfg.adapter), dtype=torch.float32)
        return model, tokenizer
    starts_from = None if cfg.adapter is None else adapter_folder(cfg.adapter)
    is_adapter = starts_from is not None and _is_adapter(starts_from)
    source = str(starts_from) if starts_from and not is_adapter else model_source(cfg.model.path)
    model = _pretrained(AutoModelForCausalLM, cfg, source, frozen=is_adapter or cfg.model.lora_rank > 0)
    tokenizer = _pretrained(AutoTokenizer, cfg, source)
    if is_adapter:
        model = PeftModel.from_pretrained(model, starts_from, is_trainable=True)
        _require_plain_lora(cfg, model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, with_template(tokenizer)


def with_template(tokenizer: Any) -> Any:
    """A base model's tokenizer has no chat form: turns then stand one after the other, the answer's end marked."""
    if tokenizer.chat_template is None:
        tokenizer.chat_template = PLAIN_TURNS
    return tokenizer


def _pretrained(kind: Any, cfg: DictConfig, source: str, frozen: bool = False) -> Any:
    """`kind.from_pretrained(source)` in the right dtype; a hub or folder that fails is a UserError."""
    transformers.utils.logging.disable_progress_bar()
    if kind is AutoTokenizer:
        how: dict[str, Any] = {"padding_side": "left"}
    else:
        precision = DTYPES[cfg.hardware.precision]
        how = {
            "dtype": precision if frozen else torch.float32,
            "attn_implementation": attention_for(cfg.hardware.device),
        }
        if cfg.hardware.load_in_4bit:
            how["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=precision
            )
    try:
        return kind.from_pretrained(source, **how)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UserError(
            f"cannot load model.path={cfg.model.path}: {first}; set model.path to a local folder"
        ) from error


def load_value(cfg: DictConfig, policy: Any) -> ValueFunction:
    """The critic that `value=` names. A separate one has LoRA where the policy has, and starts from the base model."""
    size = policy.config.hidden_size
    if cfg.value.name == "shared":
        return ValueFunction(size)
    if cfg.model.path == SCRATCH:
        return ValueFunction(size, AutoModel.from_config(policy.config))
    frozen = cfg.model.lora_rank > 0
    backbone = _pretrained(AutoModel, cfg, model_source(cfg.model.path), frozen)
    if frozen:
        backbone = get_peft_model(backbone, _lora_config(cfg, task_type=None))
    return ValueFunction(size, backbone)


def add_lora(cfg: DictConfig, policy: Any) -> Any:
    """The policy with the adapter that is to be trained: a new one, or the one it came with, or none."""
    config = lora(cfg)
    if config is None:
        return policy
    return get_peft_model(policy, config)


def reference_adapter(cfg: DictConfig, policy: Any) -> Any:
    """A context that turns the policy into the one it started from, where that is not simply the model without adapter.

    None otherwise: adapters are switched off, or there is a frozen copy.
    """
    if not carries_adapter(cfg):
        return None
    policy.load_adapter(str(adapter_folder(cfg.adapter)), adapter_name="reference", is_trainable=False)

    @contextmanager
    def reference(policy: PeftModel) -> Iterator[None]:
        policy.set_adapter("reference")
        try:
            yield
        finally:
            policy.set_adapter("default")

    return reference


def lora(cfg: DictConfig) -> LoraConfig | None:
    """The adapter to train, None for full fine-tuning or where the policy already carries one."""
    if cfg.model.lora_rank == 0 or carries_adapter(cfg):
        return None
    return _lora_config(cfg, "CAUSAL_LM")


def _lora_config(cfg: DictConfig, task_type: str | None) -> LoraConfig:
    targets = cfg.model.lora_targets
    return LoraConfig(
        r=cfg.model.lora_rank,
        lora_alpha=cfg.model.lora_alpha,
        lora_dropout=cfg.model.lora_dropout,
        target_modules=targets if targets == "all-linear" else targets.split(","),
        task_type=task_type,
    )


def _require_plain_lora(cfg: DictConfig, policy: PeftModel) -> None:
    config = policy.peft_config["default"]
    plain = isinstance(config, LoraConfig) and not config.use_dora and not config.modules_to_save
    if cfg.hardware.sampling_copy and not (plain and config.bias == "none"):
        raise UserError("the sampling copy merges plain LoRA alone: set hardware.sampling_copy=false for this adapter")


def carries_adapter(cfg: DictConfig) -> bool:
    """Whether the run starts from a LoRA adapter."""
    return bool(cfg.adapter) and _is_adapter(adapter_folder(cfg.adapter))


def _is_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").exists()


def sampling_dtype(cfg: DictConfig) -> torch.dtype | None:
    """The dtype of the sampling copy, None where the policy samples itself."""
    hardware = cfg.hardware
    # 4-bit weights take no merged adapter; under ZeRO-3 no process has the weights to copy
    copies = hardware.sampling_copy and not hardware.load_in_4bit and hardware.zero_stage < 3
    return DTYPES[hardware.precision] if copies else None
