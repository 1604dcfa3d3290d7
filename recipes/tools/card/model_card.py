"""A run's model card: YAML for the hub and text for a reader, from config.yaml, metrics.jsonl and evals.jsonl.

The text names the base model and the data with their licences, the recipe, every number of evals.jsonl with its
interval, the command, the commit, and what got worse.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from recipes.cli.errors import UserError
from recipes.models.load import adapter_settings
from recipes.records.jsonl import Record, finite, problem_count, read_config, setting
from recipes.tools.card.licences import OWN, Source, base_of, data_of, named, trained_on
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.history import load_history

SCRIPT = re.compile(r"\S*?(recipes/\w+\.py)")
WEIGHTED = ("pass@k", "base_pass@k")
"""What an evaluation measures with intervals, by k."""
PLAIN = ("reward", "best", "code", "mean_tokens", "ungraded")
"""What it measures without."""
UNITS = {"code": "share of answers with code", "mean_tokens": "mean tokens", "best": "reward of the best answer"}
FEWER = {"ungraded", "mean_tokens"}
"""Measures of which more is not better."""


@dataclass(frozen=True)
class Weights:
    """Which weights a card describes. step: of the run, None: its end. whole: merged, not an adapter. notes: what was
    done to them, a sentence each."""

    step: int | None = None
    whole: bool = False
    notes: Sequence[str] = ()


def model_card(run_dir: Path, weights: Weights) -> str:
    """The text of a README.md for weights of a run, readable by huggingface_hub.ModelCard.

    Raises FileNotFoundError without config.yaml, ValueError for a record that cannot be read.
    """
    run = load_history(run_dir)
    config = run.config
    base, name = base_of(str(setting(config, "model.path"))), run_dir.resolve().name
    steps, planned = len(run.rows) if weights.step is None else weights.step, setting(config, "recipe.trl.max_steps")
    evals = [row for row in run.evals if (row.get("step") or 0) <= steps]
    text = _template().render(
        name=name,
        base=base,
        weights=weights,
        steps=steps,
        planned=planned,
        unfinished=bool(planned) and len(run.rows) < planned,
        sources=_sources(config),
        started_from=_started_from(config),
        rows=list(_recipe_rows(config)),
        minutes=sum(row.get("seconds/total", 0.0) for row in run.rows if row["step"] <= steps) / 60,
        evaluations=[_line(row) for row in evals],
        before_from=setting(config, "evaluation.before_from") or "",
        adapter=setting(config, "adapter") or "",
        worse=worse(evals),
        compared=bool(_before_and_later(evals)),
        findings=[f"{f.severity}: {f.name}. {f.evidence}" for f in diagnose(run).findings],
        command=command_of(config),
        commit=config.get("commit") or "not recorded",
        system=setting(config, "task.env.system") or "",
    )
    return f"---\n{_header(name, config, base, weights, evals).to_yaml()}\n---\n{text}"


def command_of(config: Record) -> str:
    """The command that made the run, from the repository's root; a home folder stands as ~."""
    command = config.get("command") or ""
    text = shlex.join(map(str, command)) if isinstance(command, list) else str(command)
    text, home = SCRIPT.sub(r"\1", text, count=1), os.path.expanduser("~")
    return text.replace(f"{home}/", "~/") if home not in ("~", "/") else text


def worse(evals: Sequence[Record]) -> list[str]:
    """A sentence for each measure of an evaluation that is lower at its latest than before training."""
    return [sentence for before, later in _before_and_later(evals) for sentence in _falls(before, later)]


def _before_and_later(evals: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Evaluations that were made before training and again later, at the latest."""
    pairs: dict[tuple, dict[str, Record]] = {}
    for row in evals:
        key = (row.get("task"), row.get("split"), row.get("problems"), row.get("samples"), row.get("temperature"))
        when = "before" if row.get("when") == "before" else "later"
        known = pairs.setdefault(key, {}).get(when)
        if known is None or (row.get("step") or 0) >= (known.get("step") or 0):
            pairs[key][when] = row
    return [(pair["before"], pair["later"]) for pair in pairs.values() if len(pair) == 2]


def _falls(before: Record, later: Record) -> Iterator[str]:
    place = f"{later.get('task')} ({decoding(later)}), step {later.get('step')}"
    for kind in WEIGHTED:
        for k, share in (later.get(kind) or {}).items():
            first = (before.get(kind) or {}).get(k)
            if first and share["value"] < first["value"]:
                test = "base tests, " if kind.startswith("base") else ""
                yield f"{place}: {test}pass@{k} fell from {_share(first)} to {_share(share)}"
    measures = {key: (before.get(key), later.get(key)) for key in PLAIN if key not in FEWER}
    scores = later.get("scores") or {}
    measures |= {f"score of {name}": ((before.get("scores") or {}).get(name), score) for name, score in scores.items()}
    for name, (first, last) in measures.items():
        if first is not None and last is not None and finite(first) and finite(last) and last < first:
            yield f"{place}: {UNITS.get(name, name)} fell from {first:.3g} to {last:.3g}"


def decoding(row: Record) -> str:
    """How an evaluation drew its answers."""
    return "greedy" if row.get("temperature") == 0 else f"{row.get('samples')} at temperature {row.get('temperature')}"


def _share(share: Record) -> str:
    return f"{share['value']:.1%} [{share['low']:.1%}, {share['high']:.1%}]"


def _line(row: Record) -> dict[str, str]:
    """An evaluation as a line of the card's table; every number that it has."""
    passes = [f"pass@{k} {_share(share)}" for k, share in (row.get("pass@k") or {}).items()]
    passes += [f"base tests pass@{k} {_share(share)}" for k, share in (row.get("base_pass@k") or {}).items()]
    further = [f"{UNITS.get(key, key)} {row[key]:.3g}" for key in PLAIN if finite(row.get(key))]
    further += [f"{name} {score:.3g}" for name, score in (row.get("scores") or {}).items()]
    further += [f"{name} {value:.3g}" for name, value in (row.get("measures") or {}).items() if finite(value)]
    further += [f"{count} {verdict or 'no verdict'}" for verdict, count in (row.get("verdicts") or {}).items()]
    return {
        "when": f"{row.get('when')}, step {row.get('step')}" if row.get("when") in ("before", "after") else row["when"],
        "what": f"{row.get('task')} {row.get('split')}, {problem_count(row)} problems",
        "decoding": decoding(row),
        "passes": ", ".join(passes) or "not judged",
        "further": ", ".join(further),
    }


def _sources(config: Record) -> list[tuple[str, Source]]:
    """What the run was trained and evaluated on."""
    split = str(setting(config, "evaluation.split") or "test")
    sources = [(f"training ({_use(config)})", source) for source in trained_on(config)]
    if pairs := setting(config, "recipe.pairs"):
        problems = " and ".join(source.name for _, source in sources)
        pairs_of = Source(f"{Path(str(pairs)).name}, answers to {problems}", OWN.licence)
        sources = [("training (preference pairs)", pairs_of)]
    sources.append((f"evaluation ({split} split)", data_of(config)))
    return sources + [("evaluation too", named(str(task))) for task in setting(config, "task.also_evaluate") or []]


def _use(config: Record) -> str:
    """What a run does with its training problems."""
    if setting(config, "recipe.name") != "sft":
        return "problems to answer"
    if not (answers := setting(config, "recipe.answers")):
        return "references to imitate"
    otherwise = "" if setting(config, "recipe.references") is False else ", else references,"
    return f"right answers of {Path(str(answers)).name}{otherwise} to imitate"


def _started_from(config: Record) -> str:
    """What the run began with beside the base model: another run's weights, with that run's recipe and data."""
    adapter = setting(config, "adapter")
    if not adapter:
        return ""
    folder = Path(str(adapter)).expanduser()
    run = next((place for place in (folder, *folder.parents[:2]) if (place / "config.yaml").exists()), None)
    if run is None:
        return f"Training began from the weights in {folder.name}, whose own training is not recorded here."
    first = read_config(run / "config.yaml")[0]
    data = " and ".join(f"{source.name} ({source.licence})" for source in trained_on(first))
    return f"Training began from the run {run.name}: {setting(first, 'recipe.name')} on {data}, `{command_of(first)}`."


def _recipe_rows(config: Record) -> Iterator[tuple[str, str]]:
    """The settings that a reader asks for first."""
    trl, recipe = setting(config, "recipe.trl") or {}, setting(config, "recipe") or {}
    rank = setting(config, "model.lora_rank")
    yield "recipe", str(recipe.get("name"))
    if kept := _adapter(config):
        targets = kept.get("target_modules") or "all-linear"
        named = targets if isinstance(targets, str) else ", ".join(sorted(targets))
        yield "LoRA", f"rank {kept.get('r')}, alpha {kept.get('lora_alpha')}, on {named}"
    elif rank:
        targets = setting(config, "model.lora_targets")
        yield "LoRA", f"rank {rank}, alpha {setting(config, 'model.lora_alpha')}, on {targets}"
    else:
        yield "weights trained", "all"
    four_bit = ", base in 4 bits (NF4)" if setting(config, "hardware.load_in_4bit") else ""
    yield "precision", f"{setting(config, 'hardware.precision')}{four_bit}"
    for key in ("prompts_per_step", "samples_per_prompt", "batch_size"):
        if recipe.get(key) is not None:
            yield key, str(recipe[key])
    for key in ("num_generations", "learning_rate", "lr_scheduler_type", "temperature", "beta", "kl_coef", "loss_type"):
        if trl.get(key) is not None:
            yield key, str(trl[key])
    channels: dict[str, Any] = setting(config, "task.reward") or {}
    paid = [f"{name} {spec['weight']:g}" for name, spec in channels.items() if spec and spec.get("enabled", True)]
    if paid and recipe.get("name") not in ("sft", "dpo"):
        yield "reward channels and weights", ", ".join(paid)
        yield "placement of rewards", str(setting(config, "reward.placement"))
    yield "longest answer", f"{setting(config, 'task.max_new_tokens')} tokens"
    yield "seed", str(setting(config, "seed"))
    yield "processes", str(config.get("processes") or 1)


def _adapter(config: Record) -> Record:
    """The settings of the adapter that the run started from, which it kept; empty if there is none, or it is gone."""
    try:
        return adapter_settings(setting(config, "adapter"))
    except (UserError, OSError, ValueError):
        return {}


def _header(name: str, config: Record, base: Source, weights: Weights, evals: Sequence[Record]) -> ModelCardData:
    """What the hub reads: licence and base where they are known, and pass@1 of the latest evaluations."""
    trained = [row for row in evals if row.get("when") != "before" and (row.get("pass@k") or {}).get("1")]
    trained.sort(key=lambda row: row.get("step") or 0)
    latest = {(row.get("task"), row.get("temperature")): row for row in trained}
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type=named(str(row["task"])).hub_id or str(row["task"]),
            dataset_name=f"{row['task']} ({row.get('split')}, {problem_count(row)} problems)",
            metric_type="pass@1",
            metric_name=f"pass@1, {decoding(row)}",
            metric_value=round(row["pass@k"]["1"]["value"], 4),
            verified=False,
        )
        for row in latest.values()
    ]
    whole = weights.whole or not (setting(config, "model.lora_rank") or adapter_settings(setting(config, "adapter")))
    more: dict[str, Any] = {"base_model": base.hub_id} if base.hub_id else {}
    if base.tag:
        more |= {"license": base.tag} | ({"license_name": "see-base-model"} if base.tag == "other" else {})
    if base.hub_id:
        more["base_model_relation"] = "finetune" if whole else "adapter"
    datasets = [source.hub_id for source in trained_on(config) if source.hub_id]
    return ModelCardData(
        model_name=name,
        library_name="transformers" if whole else "peft",
        pipeline_tag="text-generation",
        language="en",
        datasets=datasets or None,
        tags=["codegrain", "trl", str(setting(config, "recipe.name")), "code", str(setting(config, "task.name"))],
        eval_results=results or None,
        **more,
    )


def _template() -> Any:
    loader = PackageLoader(__name__.rpartition(".")[0], ".")
    environment = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("card.md.j2")
