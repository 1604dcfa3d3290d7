"""Load a policy and its tokenizer: from the hub, a folder, or a Python package that carries one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from omegaconf import DictConfig
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, PreTrainedModel

from envs.local_models import PACKAGE, check_packaged, model_source
from envs.task import TaskError
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.schema import as_dict
from recipes.models.adapter_base import base_named_by, check_adapter_base
from recipes.models.attention import attention_for
from recipes.models.critic import ValueFunction, mlp_score
from recipes.models.tiny import scratch_config, scratch_model, vocabulary_of
from recipes.records.checkpoint_folders import broken_file, latest_checkpoint

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SCRATCH = "scratch"
PLAIN_TURNS = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% elif not loop.last %}{{ '\n\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n\n' }}{% endif %}"
)


def check_model(model: DictConfig, hardware: DictConfig, adapter: str | None, trains: bool = True) -> None:
    """Raise UserError where the model or adapter cannot be there, without loading anything.

    model, hardware, adapter: these parts of the configuration. trains: whether weights are trained at all.
    """
    path = model.path
    if path.startswith(PACKAGE):
        try:
            check_packaged(path.removeprefix(PACKAGE))
        except TaskError as error:
            raise UserError(str(error)) from None
    elif path == SCRATCH:
        if "alphabet" not in model.scratch:
            raise UserError(f"model.path=scratch: model={model.name} has no model.scratch.alphabet; choose model=moves")
        try:
            scratch_config(**as_dict(model.scratch))
        except ValueError as error:
            raise UserError(f"model.scratch: {error}") from None
    elif path.startswith((".", "/", "~")) and not Path(path).expanduser().is_dir():
        raise UserError(f"no such model folder: {path} (model.path)")
    if adapter is not None:
        _check_start(model, _whole(adapter_folder(adapter)))
    if trains and hardware.load_in_4bit and not model.lora_rank and not carries_adapter(adapter):
        raise UserError("hardware.load_in_4bit=true: 4-bit weights cannot be trained; set model.lora_rank=16, or false")


def _check_start(model: DictConfig, folder: Path) -> None:
    """Raise UserError where the weights in `folder` belong to another model."""
    if model.path == SCRATCH:
        size, own = _vocabulary(folder), len(vocabulary_of(model.scratch.alphabet))
        if size not in (None, own):
            raise UserError(
                f"adapter={folder}: its model reads a vocabulary of {size} tokens, and model={model.name} has {own}: "
                "choose the model that it was trained with"
            )
        if _is_adapter(folder):
            raise UserError(
                f"adapter={folder} lies on random weights (model.path=scratch), which were not kept: train with "
                "model.lora_rank=0"
            )
        return
    if not _is_adapter(folder):
        return
    on_disk = (Path(base_named_by(folder)) / "config.json").exists()  # that is loaded, and may be another run's
    if not on_disk or Path(model_source(model.path)).exists():
        check_adapter_base(model.path, folder, by_name=not on_disk)


def _vocabulary(folder: Path) -> int | None:
    """How many tokens the model in a folder knows, or the one below the adapter in it; None if it cannot be told."""
    place = Path(base_named_by(folder)) if _is_adapter(folder) else folder
    file = place / "config.json"
    return json.loads(file.read_text(encoding="utf-8")).get("vocab_size") if file.exists() else None


def adapter_settings(adapter: str | None) -> dict[str, Any]:
    """The adapter_config.json of the LoRA adapter that a run starts from; empty where it starts from none."""
    if adapter is None or not carries_adapter(adapter):
        return {}
    settings: dict[str, Any] = json.loads((adapter_folder(adapter) / "adapter_config.json").read_text(encoding="utf-8"))
    return settings


def tell_adapter_settings(model: DictConfig, adapter: str | None) -> None:
    """Log which of the settings for new adapters have no effect, since training goes on with one that has others."""
    kept = adapter_settings(adapter)
    for ours, theirs in (("lora_rank", "r"), ("lora_alpha", "lora_alpha"), ("lora_dropout", "lora_dropout")):
        if theirs in kept and kept[theirs] != model[ours]:
            log.info("model.%s=%g is for new adapters: adapter=%s has %g", ours, model[ours], adapter, kept[theirs])


def adapter_folder(path: str) -> Path:
    """The folder of weights that `path` means: itself, or the final or latest weights of a run directory."""
    folder = Path(path).expanduser()
    for candidate in (folder, folder / "final", latest_checkpoint(folder)):
        if candidate and any((candidate / f).exists() for f in ("adapter_config.json", "config.json")):
            return candidate
    raise UserError(f"neither an adapter nor a model in {path} (adapter); give a run directory or its final/ folder")


def _whole(folder: Path) -> Path:
    """The folder. Raises UserError where one of its files has been cut."""
    if broken := broken_file(folder):
        raise UserError(f"adapter={folder}: {broken.name} is not whole; copy it again, or give another folder")
    return folder


def load_policy(model: DictConfig, hardware: DictConfig, adapter: str | None) -> tuple[PreTrainedModel, Any]:
    """Policy and tokenizer. A new LoRA is not added here: the trainer does (see `lora`).

    Weights that training leaves frozen are held in the profile's precision, trained ones in fp32 (bf16 weights would
    round small updates away).

    Raises:
        UserError: no such folder, package or adapter; a hub that does not answer.
    """
    if model.path == SCRATCH:
        policy, tokenizer = scratch_model(**as_dict(model.scratch))
        if adapter is not None:
            policy = AutoModelForCausalLM.from_pretrained(adapter_folder(adapter), dtype=torch.float32)
        return policy, tokenizer
    starts_from = None if adapter is None else adapter_folder(adapter)
    is_adapter = starts_from is not None and _is_adapter(starts_from)
    source = model_source(model.path) if starts_from is None else _weights_below(starts_from, model)
    policy = _pretrained(AutoModelForCausalLM, hardware, source, frozen=is_adapter or model.lora_rank > 0)
    tokenizer = _pretrained(AutoTokenizer, hardware, source)
    if is_adapter:
        policy = PeftModel.from_pretrained(policy, starts_from, is_trainable=True)
    return policy, with_template(_with_pad(tokenizer, source))


def _weights_below(starts_from: Path, model: DictConfig) -> str:
    """The whole weights that a run starts from: that folder's own, or what the adapter in it was trained on, which may
    be another run's."""
    if not _is_adapter(starts_from):
        return str(starts_from)
    named = base_named_by(starts_from)
    return named if (Path(named) / "config.json").exists() else model_source(model.path)


def load_tokenizer(model: DictConfig, adapter: str | None) -> tuple[Any, int | None]:
    """The tokenizer that `load_policy` gives, and how many tokens the model sees at once (None where its configuration
    does not say); no weights are loaded.

    Raises:
        UserError: as load_policy.
    """
    starts_from = None if adapter is None else adapter_folder(adapter)
    whole = starts_from is not None and not _is_adapter(starts_from)
    if model.path == SCRATCH and not whole:
        policy, tokenizer = scratch_model(**as_dict(model.scratch))
        return tokenizer, policy.config.max_position_embeddings
    source = str(starts_from) if whole else model_source(model.path)
    tokenizer = _with_pad(_from_source(AutoTokenizer, source, padding_side="left"), source)
    context = getattr(_from_source(AutoConfig, source), "max_position_embeddings", None)
    return with_template(tokenizer), context


def _with_pad(tokenizer: Any, source: str) -> Any:
    """Gives a tokenizer without a pad token its end of sequence as one. Raises UserError where it has no end of
    sequence, which every example ends with."""
    if tokenizer.eos_token is None:
        raise UserError(
            f"model.path={source}: its tokenizer has no end of sequence; name one as eos_token in its "
            "tokenizer_config.json"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def with_template(tokenizer: Any) -> Any:
    """Gives a tokenizer without a chat template a plain one: messages are concatenated, each answer ends with the end
    of sequence, and the beginning of sequence comes first if the tokenizer adds it to texts."""
    if tokenizer.chat_template is None:
        begins = tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
        tokenizer.chat_template = ("{{ bos_token }}" if begins else "") + PLAIN_TURNS
    return tokenizer


def _pretrained(kind: Any, hardware: DictConfig, source: str, frozen: bool = False) -> Any:
    """`kind.from_pretrained(source)` in the right dtype; a hub or folder that fails is a UserError."""
    transformers.utils.logging.disable_progress_bar()
    if kind is AutoTokenizer:
        how: dict[str, Any] = {"padding_side": "left"}
    else:
        precision = DTYPES[hardware.precision]
        how = {
            "dtype": precision if frozen else torch.float32,
            "attn_implementation": attention_for(hardware.device),
        }
        if hardware.load_in_4bit:
            how["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=precision
            )
    loaded = _from_source(kind, source, **how)
    if "quantization_config" in how:
        _keep_backward_pass(loaded)
    return loaded


def _keep_backward_pass(model: Any) -> None:
    """Leave 4-bit weights in the layout that gradients pass through. On a CPU with AVX512-BF16, bitsandbytes changes
    the layout in the first evaluation to one that has no backward pass, and training after that has wrong gradients."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def _from_source(kind: Any, source: str, **how: Any) -> Any:
    """`kind.from_pretrained(source)`; a hub or folder that fails is a UserError."""
    try:
        return kind.from_pretrained(source, **how)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"cannot load model.path={source}: {first}; set model.path to a local folder") from error


def load_value(kind: str, model: DictConfig, hardware: DictConfig, policy: Any) -> ValueFunction:
    """The critic: a linear head on the policy for kind "shared", a small MLP on it for "mlp", or a second model for
    "separate", which starts from the base model and has LoRA where the policy has.
    """
    size = policy.config.hidden_size
    if kind == "shared":
        return ValueFunction(size)
    if kind == "mlp":
        return ValueFunction(size, score=mlp_score(size))
    if model.path == SCRATCH:
        return ValueFunction(size, AutoModel.from_config(policy.config))
    settings = _lora_config(model, task_type=None) if model.lora_rank > 0 else None
    if isinstance(policy, PeftModel):  # it goes on with an adapter, whose settings may be others
        settings = copy.deepcopy(policy.peft_config["default"])
        settings.task_type, settings.inference_mode = None, False
        if not isinstance(settings.target_modules, str):  # names of layers begin with the head's attribute there
            inner = f"{policy.get_base_model().base_model_prefix}."
            settings.target_modules = {name.removeprefix(inner) for name in settings.target_modules or ()}
    backbone = _pretrained(AutoModel, hardware, model_source(model.path), settings is not None)
    if settings is not None:
        backbone = get_peft_model(backbone, settings)
    return ValueFunction(size, backbone)


def add_lora(policy: Any, model: DictConfig, adapter: str | None) -> Any:
    """The policy with the adapter that is to be trained: a new one, or the one it came with, or none."""
    config = lora(model, adapter)
    return policy if config is None else get_peft_model(policy, config)


def reference_adapter(policy: Any, adapter: str | None) -> Any:
    """A context that turns the policy into the one it started from, where that is not simply the model without adapter.

    None otherwise: adapters are switched off, or there is a frozen copy.
    """
    if adapter is None or not carries_adapter(adapter):
        return None
    policy.load_adapter(str(adapter_folder(adapter)), adapter_name="reference", is_trainable=False)

    @contextmanager
    def reference(policy: PeftModel) -> Iterator[None]:
        policy.set_adapter("reference")
        try:
            yield
        finally:
            policy.set_adapter("default")

    return reference


def lora(model: DictConfig, adapter: str | None) -> LoraConfig | None:
    """The adapter to train, None for full fine-tuning or where the policy already carries one."""
    return None if model.lora_rank == 0 or carries_adapter(adapter) else _lora_config(model, "CAUSAL_LM")


def _lora_config(model: DictConfig, task_type: str | None) -> LoraConfig:
    targets = model.lora_targets
    return LoraConfig(
        r=model.lora_rank,
        lora_alpha=model.lora_alpha,
        lora_dropout=model.lora_dropout,
        target_modules=targets if targets == "all-linear" else targets.split(","),
        task_type=task_type,
    )


def carries_adapter(adapter: str | None) -> bool:
    """Whether what the run starts from is a LoRA adapter, and not whole weights or nothing."""
    return adapter is not None and _is_adapter(adapter_folder(adapter))


def _is_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").exists()


def sampling_dtype(hardware: DictConfig) -> torch.dtype | None:
    """The dtype of the sampling copy, None where the policy samples itself."""
    # 4-bit weights take no merged adapter; under ZeRO-3 no process has the weights to copy
    copies = hardware.sampling_copy and not hardware.load_in_4bit and hardware.zero_stage < 3
    return DTYPES[hardware.precision] if copies else None


@torch.no_grad()
def train_in_float32(model: Any) -> None:
    """Hold the parameters that are trained in float32. TRL's trainers make the adapters of a model in 4 bits bfloat16,
    which rounds small updates away."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()
