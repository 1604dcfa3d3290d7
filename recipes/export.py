"""A trained run as a folder that other programs load: full weights, tokenizer, chat template, model card.

    python recipes/export.py run=runs/demo/grpo to=my-model
    python recipes/export.py run=... to=my-model step=10                    a checkpoint instead of the end
    python recipes/export.py run=... to=my-model share=0.5                  halfway between the start and the end
    python recipes/export.py run=... to=my-model rank=48                    the main directions of the change alone
    python recipes/export.py run=... other=... to=my-model                  halfway between two runs of one model
    python recipes/export.py run=A other=B,C to=my-model                    the average of three
    python recipes/export.py run=... to=my-model push=USER/NAME             upload it as well; dry_run=true asks nobody
    python recipes/export.py run=... to=my-model format=gguf                a GGUF file too, by llama.cpp's converter

LoRA is merged into the base; a base that was trained on in 4 bits is dequantised first. With `share` the weights are
averaged with those that training began with, which often keeps more of what the model could do before; with `other`
they are averaged with those of other runs, which may answer more than each (tests/bench/results/learning.md). With
`rank` a run that trained all weights keeps so many directions of the change of each matrix, and the embeddings as they
were (what that does to answers: the same page, "Main directions of a change"). The folder is read again before it is
kept: its greedy answers must equal those of the run's own weights, except where two tokens are equally likely but for
rounding.
README.md is the model card: base, data, licences, recipe, every number of evals.jsonl with its interval, the command,
the commit, what got worse.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import MISSING

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.cli.places import require_writable

FORMATS = ("safetensors", "gguf")
DTYPES = ("fp32", "bf16", "fp16")
QUESTIONS = (
    "Write a function double(n) that returns n twice.",
    "Write a Python function that counts the vowels of a text.",
    "Write a Python function that returns the largest number of a list.",
)
"""What is asked where the run's own problems are not on this machine."""


@dataclass
class ExportConfig:
    run: str = MISSING
    """The run directory."""
    to: str = MISSING
    """The folder to write; it must not exist."""
    step: int | None = None
    """A checkpoint's step; null: final/, or the newest checkpoint of a run that is not finished."""
    format: str = "safetensors"
    """"safetensors", or "gguf" for a GGUF file beside them."""
    dtype: str | None = None
    """"fp32", "bf16" or "fp16" for the weights; null: what the run computed in."""
    push: str | None = None
    """USER/NAME: upload the folder to the hub."""
    private: bool = True
    """Whether a repository that `push` creates is private."""
    dry_run: bool = False
    """Write the folder and say what `push` would upload, without asking the hub."""
    other: str | None = None
    """The directory of another run of the same model, to average with; several with commas between them."""
    share: float | None = None
    """Share of the trained weights; the rest are those that the training began with (of LoRA, the base's), or those of
    `other`, all of equal weight. null: 1, and with `other` all runs have equal weight."""
    rank: int | None = None
    """Of a run that trained all weights: singular directions that are kept of the change of each matrix; embeddings are
    then as before training. null: the whole change."""
    prompts: int = 8
    """Held-out problems whose greedy answers are compared before and after."""


def export(cfg: ExportConfig) -> int:
    """Write the folder that `cfg` names. Raises UserError before anything is loaded where that cannot work, and where
    the answers of the written weights differ."""
    from recipes.tools.export import gguf, hub

    folder = Path(cfg.to).expanduser()
    check_keys(cfg, folder)
    if cfg.push:
        hub.check_name(cfg.push)
    script = gguf.converter() if cfg.format == "gguf" else None
    if cfg.push and not cfg.dry_run:
        hub.check_access(cfg.push)
    write(cfg, folder)
    if script:
        file = gguf.write_gguf(script, folder, cfg.dtype or "fp32")
        log.info("wrote %s", file)
    log.info("wrote %s", folder)
    if cfg.push and cfg.dry_run:
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        size = sum((folder / path).stat().st_size for path in files) / 1e6
        log.info(
            "dry run: would upload %d files, %.1f MB, to %s: %s", len(files), size, cfg.push, ", ".join(map(str, files))
        )
    elif cfg.push:
        log.info("uploaded: %s", hub.upload(folder, cfg.push, cfg.private))
    return 0


def check_keys(cfg: ExportConfig, folder: Path) -> None:
    """Raise UserError for values that cannot be followed."""
    if folder.exists():
        raise UserError(f"to={cfg.to} exists: name another folder, or remove it")
    require_writable(f"to={cfg.to}", folder)
    if cfg.format not in FORMATS:
        raise UserError(f"format={cfg.format}: choose {' or '.join(FORMATS)}")
    if cfg.dtype not in (None, *DTYPES):
        raise UserError(f"dtype={cfg.dtype}: choose {', '.join(DTYPES)}")
    if not 0 < share_of(cfg) <= 1:
        raise UserError(f"share={cfg.share}: a share of the trained weights lies above 0 and is at most 1")
    if cfg.other and cfg.share == 1:
        raise UserError(f"share=1 leaves nothing of other={cfg.other}: set share below 1, or leave out one of them")
    if cfg.rank is not None and cfg.rank < 1:
        raise UserError(f"rank={cfg.rank}: at least one direction of each change is kept; null keeps all")
    if cfg.prompts < 1:
        raise UserError(f"prompts={cfg.prompts}: the answers to at least one problem are compared")
    if cfg.dry_run and not cfg.push:
        raise UserError("dry_run=true says what push=USER/NAME would upload, and push is not given")


def share_of(cfg: ExportConfig) -> float:
    """The share of the trained weights."""
    return cfg.share if cfg.share is not None else 1 / (1 + len(others_of(cfg)))


def others_of(cfg: ExportConfig) -> list[str]:
    """The run directories of `other`."""
    text = cfg.other or ""
    names = [text] if Path(text).expanduser().exists() else text.split(",")  # a sweep's folders may have commas
    return [name for name in names if name] if text else []


def write(cfg: ExportConfig, folder: Path) -> None:
    """Merge, write, read again, compare, add the card; the folder appears only when all of it succeeded."""
    from transformers import AutoModelForCausalLM

    from recipes.models.load import DTYPES as TORCH
    from recipes.models.load import carries_adapter, load_policy
    from recipes.records.directory import appears_whole, write_text
    from recipes.run.trained import trained
    from recipes.tools.card.model_card import Weights, model_card
    from recipes.tools.export.weights import Kept, averaged_runs, compare, full_weights, kept_change, write_weights

    others, share = others_of(cfg), share_of(cfg)
    runs = [trained(cfg.run, cfg.step), *(trained(other, key="other") for other in others)]
    run, given, weights = runs[0], runs[0].cfg, str(runs[0].weights)
    dtype = cfg.dtype or given.hardware.precision
    if share < 1 and not others:
        check_start(run, "share", share, "set share=1")
    check_rank(cfg, runs)
    four_bit, *_ = [prepared(each) for each in runs]
    policy, tokenizer = load_policy(given.model, given.hardware, weights)
    asked = prompts(given, tokenizer, cfg.prompts)
    if others:
        loaded = [(each.cfg.model, each.cfg.hardware, str(each.weights)) for each in runs]
        policy = averaged_runs(loaded, share, cfg.rank)
        merged = copy.deepcopy(policy).to(TORCH[dtype])
    else:
        kept = Kept(share, cfg.rank)
        merged = full_weights(given.model, given.hardware, weights, TORCH[dtype], kept)
        policy = kept_change(policy, given.model, given.hardware, kept)
    with appears_whole(folder) as staging:
        write_weights(merged, tokenizer, staging)
        del merged
        again = AutoModelForCausalLM.from_pretrained(staging, dtype=TORCH[dtype]).eval()
        results = compare(policy.eval(), again.to(policy.device), tokenizer, asked, given.task.max_new_tokens)
        if not results.alike:
            raise UserError(
                f"{results.text}, and others part by {results.apart:.2g} of the largest logit, more than rounding to "
                f"dtype={dtype} explains: nothing is written; try dtype=fp32"
            )
        if not results.whole:
            raise UserError(
                f"the merged weights change the logits by {results.merged:.2f} of what the adapter does, and not by 1: "
                "nothing is written"
            )
        log.info(results.text)
        averaged = with_whom([each.folder.name for each in runs[1:]])
        notes = [describe(four_bit, carries_adapter(weights), dtype, share, averaged, cfg.rank), f"{results.text}."]
        write_text(staging / "README.md", model_card(run.folder, Weights(run.step, True, notes)))


def check_rank(cfg: ExportConfig, runs: Sequence[Any]) -> None:
    """Raise UserError where `rank` has nothing to act on, or a start that it needs is not known."""
    from recipes.models.load import carries_adapter

    if cfg.rank is None:
        return
    whole = [run for run in runs if not carries_adapter(str(run.weights))]
    if not whole:
        raise UserError(f"rank={cfg.rank}: it is for runs that trained all weights; a LoRA adapter has its own rank")
    for run in whole:
        check_start(run, "rank", cfg.rank, "leave out rank")


def check_start(run: Any, key: str, value: float, remedy: str) -> None:
    """Raise UserError where the weights before training, which a setting needs, cannot be loaded."""
    from recipes.models.load import SCRATCH

    if run.cfg.model.path == SCRATCH:
        raise UserError(f"{key}={value}: {run.folder} began with random weights, which were not kept; {remedy}")
    if run.continued:
        raise UserError(
            f"{key}={value}: {run.folder} went on with another run's adapter, and the model before both would be taken "
            f"for its start; {remedy}"
        )
    if run.start_is_gone:
        raise UserError(f"{key}={value}: {run.folder} began with weights that are not there any more; {remedy}")


def prepared(run: Any) -> bool:
    """Change a run's configuration to this machine, and log what a user should know of it. Returns whether its adapter
    was trained on a base in 4 bits."""
    from recipes.models.load import carries_adapter
    from recipes.run.trained import on_this_machine

    four_bit = bool(run.cfg.hardware.load_in_4bit) and carries_adapter(str(run.weights))
    note = on_this_machine(run.cfg, load_in_4bit=four_bit)
    for line in filter(None, (*run.notes, note)):
        log.info(line)
    if four_bit:
        log.info("The base was trained on in 4 bits: its weights are dequantised before the adapter is merged.")
    return four_bit


def with_whom(names: Sequence[str]) -> str:
    """What the trained weights are averaged with, in words of the card. names: of the other runs."""
    if not names:
        return "the weights before training"
    return f"those of {'another run' if len(names) == 1 else f'{len(names)} other runs'}, {', '.join(names)}"


def describe(four_bit: bool, adapter: bool, dtype: str, share: float, others: str, rank: int | None) -> str:
    """What was done to the weights, in sentences of the card. others: what they are averaged with, if share < 1."""
    averaged = ""
    if rank is not None:
        averaged = (
            f" Where all weights were trained, the change of each matrix is reduced to rank {rank}, and the embeddings "
            "are as before. The scores below were measured before that."
        )
    if share < 1:
        averaged += (
            f" They are averaged with {others}: {share:.3g} of the trained ones and {1 - share:.3g} of "
            "the others. The scores below were measured with the trained weights alone."
        )
    if not adapter:
        return f"All weights were trained; they are stored in {dtype}.{averaged}"
    base = "its base, dequantised from the 4 bits (NF4) that it was trained on" if four_bit else "its base"
    return f"The LoRA adapter is merged into {base}; the weights are stored in {dtype}.{averaged}"


def prompts(given: Any, tokenizer: Any, most: int) -> list[list[int]]:
    """Token ids of held-out problems of the run's task, or of QUESTIONS where their data is not here."""
    from envs.task import TaskError
    from recipes.data.chat_tokens import encoded, prompt_ids
    from recipes.run.build import build_task

    try:
        task = build_task(given, given.evaluation.split)
        problems = task.problems(given.evaluation.split) or task.problems("train")
        return [prompt_ids(task, problem, tokenizer) for problem in problems[:most]]
    except (UserError, TaskError, OSError) as error:
        log.info("The run's problems are not here (%s): other questions are asked.", str(error).splitlines()[0])
    return [encoded([{"role": "user", "content": question}], tokenizer) for question in QUESTIONS[:most]]


main = small_command(keys_of(ExportConfig), __doc__, export)

if __name__ == "__main__":
    sys.exit(main())
