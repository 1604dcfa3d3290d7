"""What training gains in the best answer: several ways to train on `basics`, on the same held-out problems.

    python tests/bench/learning.py --dry-run                 print the commands, run nothing
    python tests/bench/learning.py base own own_grpo --seeds 0 1 2
    python tests/bench/learning.py --summary                 the table, and one JSON line, of what is stored
    python tests/bench/learning.py --summary --ours broad --machine earlier --precision fp32

base           the model as it is
sft            all weights on references: of the 200 hand-written problems, and of one problem of each generated family
sft_averaged   halfway between the model and sft: recipes/export.py with share=0.5
own            SFT on the base model's own right answers, and on references where it has none; then averaged as above
broad          the same with MBPP's problems of 511 to 974 beside, and 180 updates in place of 120; it needs
               runs/learning/mbpp.jsonl, which results/learning.md says how to make
collected      the same with problems of five collections beside, two problems of each generated family, 360 updates, a
               fifth of the training families kept for validation, examples of similar length together, and a share of
               0.7; it needs runs/learning/collected.jsonl, which results/learning.md says how to make
practice       the same with the problems of envs/basics/practice/harder/ beside those, 480 updates, and a share of 1
directions     the same in 720 updates of 4; 48 directions of the change of each matrix, recipes/export.py rank=48
two_runs       the data of practice twice, 360 updates each, all weights and LoRA at 6e-4; their average (other=RUN)
pair           the data of practice without validation, all weights with two seeds, 800 updates of 4 each; their average
composed       the same as two_runs with the problems of practice/easy/ and 2,000 composed ones beside, 240 updates each
shipped        all that comes with the package and nothing else, those of practice/easy/ too, 360 updates, a share of 1
own_grpo       own, then GRPO with rewards on tokens, 20 updates
two_runs_grpo  two_runs, then the same, 60 updates
grpo           GRPO with rewards on tokens, from the base model
grpo_prefix    the same, and groups without a pass are drawn again behind the beginning of their reference
stock_grpo     GRPO as TRL has it: rewards on the last token, divided by the group's deviation
ssd            simple self-distillation by TRL's trainer, 20 updates (tests/bench/trl_peers.py)
sdpo           self-distillation policy optimization by TRL's trainer, 20 updates
rejection      SFT on the base model's own right answers alone, the best of a greedy and two sampled ones, 60 updates

Trained on hand-written and generated problems; held out are the 66 hand-written problems and one problem of each of 200
further families. Runs lie below runs/learning/ in the current folder; one that is finished is not run again, one that
was stopped goes on. Of each, the share of right answers to every problem, the minutes of training and the number of
graded samples are stored in tests/bench/results/learning/, in a folder for each kind of machine, since rounding alone
changes a few greedy answers: a run is compared with the base model on its own kind, in its own precision, in points of
100, with intervals over seeds and families (paired.py). KEY=VALUE goes to every training; such runs have own folders.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.cli.in_turn import run_in_turn
from recipes.cli.schema import native_precision
from recipes.records.directory import write_text
from recipes.records.jsonl import read_config, read_jsonl
from tests.bench.ablation import compared, level_of, read
from tests.bench.learning_arms import ARMS, BEFORE, DRAWS, commands, finished, folder
from tests.bench.paired import gain

STORED = Path(__file__).parent / "results" / "learning"
PRECISIONS = ("bf16", "fp32")
OURS = ("two_runs", "avx512_amx_bf16", "bf16")
"""Arm, machine and precision of the summary where nothing ran."""
NEW = "basics/new/"
"""Beginning of the ids of generated problems."""
SETS = ("written", "generated", "humaneval")
FUNCTIONS, ROBOTS = (Path(__file__).parent / "results" / "ablation" / name / "grpo" for name in ("functions", "robots"))
MODULES = 8
"""How many prompts those runs have; a mean is taken over as many updates."""

Shares = dict[str, float]
"""Share of right answers by problem."""


def machine(device: str = "cpu") -> str:
    """What products are rounded by: the instructions of this CPU, with its faster dtype, or the name of the GPU."""
    import torch

    if device == "cuda":
        return re.sub(r"\W+", "_", torch.cuda.get_device_name()).lower()
    tiles = "_amx" if torch.cpu._is_amx_tile_supported() else ""  # they round otherwise: two or three answers of the 66
    return f"{torch.backends.cpu.get_cpu_capability()}{tiles}_{native_precision()}".lower()


def store(arm: str, seed: int, overrides: Sequence[str]) -> Path:
    """Write down what the finished runs of an arm measured; returns the file. SystemExit where no answer is found."""
    run = folder(arm, seed, overrides)
    written = read_jsonl(run / "eval_samples.jsonl") or read_jsonl(run / "samples.jsonl")
    rows = [row for row in written if row.get("when", "after") == "after"]
    shares = by_problem(row for row in rows if row["task_id"].startswith("basics/"))
    if not shares["greedy"]:
        sys.exit(f"{run} has no greedy answers: nothing is stored")
    human = by_problem(read_jsonl(Path(f"{run}-humaneval") / "samples.jsonl"))
    parts = [*(folder(before, seed, overrides) for before in BEFORE.get(arm, ())), run]
    steps = [row for part in parts for row in read_jsonl(part / "metrics.jsonl")]
    seconds, samples = sum(row.get("seconds/total", 0.0) for row in steps), 0.0
    if arm in DRAWS:
        seconds += sum(row["seconds"] for row in read_jsonl(DRAWS[arm] / "evals.jsonl"))
        samples += len(read_jsonl(DRAWS[arm] / "samples.jsonl"))
    hardware = read_config(run / "config.yaml")[0]["hardware"]
    kept = {
        "arm": " ".join([arm, *overrides]),
        "seed": seed,
        "machine": machine(hardware.get("device", "cpu")),
        "precision": hardware["precision"],
        "minutes": round(seconds / 60, 1),
        "updates": len(steps),
        "graded_samples": int(samples + sum(row.get("graded_samples", 0) for row in steps)),
        "greedy": shares["greedy"],
        "sampled": shares["sampled"],
        "humaneval": human["greedy"],
    }
    file = STORED / kept["machine"] / f"{run.name.removesuffix(f'-seed{seed}')}-{kept['precision']}-seed{seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps(kept) + "\n")
    return file


def by_problem(rows: Any) -> dict[str, Shares]:
    """Share of right answers to each problem, greedy and sampled; an answer without a verdict does not count."""
    results: dict[str, dict[str, list[bool]]] = {"greedy": defaultdict(list), "sampled": defaultdict(list)}
    for row in rows:
        if row["passed"] is not None:
            results["sampled" if row["temperature"] else "greedy"][row["task_id"]].append(row["passed"])
    return {how: {name: float(np.mean(v)) for name, v in each.items()} for how, each in results.items()}


def of_set(run: Mapping[str, Any], how: str, name: str) -> Shares:
    """A stored run's shares on one of SETS."""
    if name == "humaneval":
        return run["humaneval"] if how == "greedy" else {}
    return {p: v for p, v in run[how].items() if p.startswith(NEW) == (name == "generated")}


def stored(kind: str, precision: str) -> dict[str, list[dict[str, Any]]]:
    """Stored runs by arm, of those evaluated on one kind of machine in one precision."""
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for file in sorted((STORED / kind).glob("*-seed*.json")):
        row = json.loads(file.read_text())
        if row["precision"] == precision:
            runs.setdefault(row["arm"], []).append(row)
    return runs


def anywhere(arm: str, kind: str, precision: str) -> dict[str, float] | None:
    """The greedy gain of an arm on the hand-written problems over the base model of its own machine and precision:
    where it is stored for these, else where it is found first."""
    asked = [(kind, precision), *((d.name, p) for d in sorted(STORED.iterdir()) if d.is_dir() for p in PRECISIONS)]
    found = (over_base(runs, arm, "greedy", "written") for runs in starmap(stored, asked) if runs["base"])
    return next(filter(None, found), None)


def summary(runs: Mapping[str, Sequence[Mapping[str, Any]]], ours: str, kind: str, precision: str) -> dict[str, Any]:
    """The figures of the arm `ours` beside its rivals, None where a run is missing."""
    written, generated, human = (over_base(runs, ours, "greedy", name) for name in SETS)
    rivals = {arm: anywhere(arm, kind, precision) for arm in ARMS}
    sampled = [v for run in runs[ours] for v in of_set(run, "sampled", "written").values()]
    return {
        "arm": ours,
        "machine": kind,
        "precision": precision,
        "greedy_gain_mean": written and written["mean"],
        "greedy_gain_low": written and written["low"],
        "greedy_gain_high": written and written["high"],
        "new_families_gain_mean": generated and generated["mean"],
        "new_families_gain_low": generated and generated["low"],
        "new_families_gain_high": generated and generated["high"],
        "sampled_after": 100 * float(np.mean(sampled)) if sampled else None,
        "humaneval_change": human and human["mean"],
        "humaneval_low": human and human["low"],
        "humaneval_high": human and human["high"],
        "minutes": max((run["minutes"] for run in runs[ours]), default=None),
        "updates": [run["updates"] for run in runs[ours]],
        "seeds": len(runs[ours]),
        "samples_ratio_functions": samples_ratio(FUNCTIONS),
        "samples_ratio_second": samples_ratio(ROBOTS, "scores/simulator", "lines"),
        **{f"{arm}_greedy_gain_mean": row and row["mean"] for arm, row in rivals.items() if arm != "base"},
    }


def samples_ratio(folder: Path, metric: str = "scores/unit_tests", ours: str = "dense") -> float | None:
    """How many times the graded samples of sparse `ours` takes to the level that sparse reaches at its end."""
    for runs in read([folder], metric, MODULES).values():
        times = compared(("", ""), runs, level_of(runs))[f"{ours}_minus"].get("sparse")
        return times and times["times"]["value"]
    return None


def over_base(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], arm: str, how: str, name: str
) -> dict[str, float] | None:
    """The gain of an arm's runs over the base model, of the runs that were evaluated on this set."""
    [base] = runs["base"]
    pairs = [(of_set(base, how, name), shares) for run in runs[arm] if (shares := of_set(run, how, name))]
    return gain(pairs)


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    """A row for each arm: gains over the base model on each held-out set, greedy and sampled."""
    drawn = Table(title="Gain over the base model, in points of pass@1, with 95 % intervals")
    for column in ("arm", "seeds", "minutes", "graded", *(f"greedy, {name}" for name in SETS), "sampled, written"):
        drawn.add_column(column, justify="left" if column == "arm" else "right")
    asked = [*(("greedy", name) for name in SETS), ("sampled", "written")]
    for arm, own in runs.items():
        if not own:
            continue
        cells = []
        for how, name in asked:
            row = over_base(runs, arm, how, name)
            if arm == "base":
                means = [float(np.mean(list(shares.values()))) for run in own if (shares := of_set(run, how, name))]
                cells.append(", ".join(f"{100 * mean:.1f} %" for mean in means) or "-")
            else:
                of = f" ({row['runs']} of {len(own)})" if row and row["runs"] < len(own) else ""
                cells.append(f"{row['mean']:+.1f} \\[{row['low']:+.1f}, {row['high']:+.1f}]{of}" if row else "-")
        minutes = f"{max(run['minutes'] for run in own):.0f}"
        drawn.add_row(arm, str(len(own)), minutes, str(max(run["graded_samples"] for run in own)), *cells)
    return drawn


def run_arms(
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    known: Sequence[str],
    seeds: Callable[[str], Sequence[int]],
    commands: Callable[[str, int, Sequence[str]], Iterable[list[str]]],
    store: Callable[[str, int, Sequence[str]], Path],
) -> tuple[int, Path | None]:
    """Run what is left of the arms that `args` names, all of `known` where it names none, and store what they measured.

    Returns the exit status of a command that failed or was stopped, else 0, and the file that was stored last, None
    where nothing ran to its end. With args.summary nothing runs.
    """
    last = None
    overrides = [name for name in args.names if "=" in name]
    arms = [name for name in args.names if "=" not in name] or list(known)
    if unknown := [name for name in arms if name not in known]:
        parser.error(f"{unknown[0]!r} is no arm; there are {', '.join(known)}")
    pairs = [] if args.summary else [(name, seed) for name in arms for seed in seeds(name)]
    for arm, seed in pairs:
        left = (command for command in commands(arm, seed, overrides) if args.dry_run or not finished(command))
        if status := run_in_turn(left, args.dry_run):
            return status, last
        if not args.dry_run:
            last = store(arm, seed, overrides)
    return 0, last


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ARM | KEY=VALUE", help=f"{', '.join(ARMS)}; none: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ours", help=f"the arm that the JSON line is about: what ran last, or {OURS[0]}")
    parser.add_argument("--machine", help=f"a folder of results/learning: this kind of machine, or {OURS[1]}")
    parser.add_argument("--precision", choices=PRECISIONS, help=f"of the evaluation: of what ran last, or {OURS[2]}")
    parser.add_argument("--summary", action="store_true", help="run nothing; the table of what is stored")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    args = parser.parse_intermixed_args(arguments)
    status, last = run_arms(parser, args, ARMS, lambda arm: args.seeds if arm != "base" else [0], commands, store)
    if status or (args.dry_run and not args.summary):
        return status
    ran = json.loads(last.read_text()) if last else dict(zip(("arm", "machine", "precision"), OURS, strict=True))
    ours, kind, precision = args.ours or ran["arm"], args.machine or ran["machine"], args.precision or ran["precision"]
    runs = stored(kind, precision)
    if not runs["base"]:
        sys.exit(f"{STORED / kind} has no run of base in {precision}: python tests/bench/learning.py base")
    if not runs.get(ours):
        sys.exit(f"{STORED / kind} has no run of {ours} in {precision}; it has {', '.join(a for a in runs if runs[a])}")
    Console(stderr=True, width=180).print(table(runs))
    print(json.dumps(summary(runs, ours, kind, precision)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
