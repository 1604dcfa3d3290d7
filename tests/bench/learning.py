"""What training gains in the best answer: several ways to train on `basics`, on the same held-out problems.

    python tests/bench/learning.py --dry-run                 print the commands, run nothing
    python tests/bench/learning.py base own own_grpo --seeds 0 1 2
    python tests/bench/learning.py --summary                 the table, and one JSON line, of what is stored

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
two_runs       the data of practice twice, 360 updates each: with all weights, and LoRA at 6e-4; then the average of
               both, recipes/export.py other=RUN
shipped        all that comes with the package and nothing else, those of practice/easy/ too, 360 updates, a share of 1
own_grpo       own, then GRPO with rewards on tokens
grpo           GRPO with rewards on tokens, from the base model
grpo_prefix    the same, and groups without a pass are drawn again behind the beginning of their reference
stock_grpo     GRPO as TRL has it: rewards on the last token, divided by the group's deviation
rejection      SFT on the base model's own right answers alone

Trained on hand-written and generated problems; held out are the 66 hand-written problems and one problem of each of 200
further families. Runs lie below runs/learning/ in the current folder; one that is finished is not run again, one that
was stopped goes on. Of each, the share of right answers to every problem, the minutes of training and the number of
graded samples are stored in tests/bench/results/learning/. Gains are in points of 100, paired by problem, with 95 %
bootstrap intervals over problems and seeds. KEY=VALUE goes to every training command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.cli.in_turn import run_in_turn
from recipes.records.directory import write_text
from recipes.records.jsonl import read_config, read_jsonl
from tests.bench.ablation import compared, level_of, read

RUNS = Path("runs/learning")
STORED = Path(__file__).parent / "results" / "learning"
DATA = ("task=basics", "task.env.generated=1", "task.also_evaluate=[]")
SAMPLED = ("evaluation.samples=2",)
TRAINING = (*DATA, "evaluation.before=false", *SAMPLED)
UNEVALUATED = ("evaluation.samples=0", "evaluation.greedy=false")
ALL_WEIGHTS = ("model.lora_rank=0", "recipe.trl.learning_rate=1e-4")
SFT = ("recipes/sft.py", *TRAINING, *ALL_WEIGHTS, "recipe.trl.max_steps=120")
SHIPPED = ("task.env.generated=2", "task.env.validation=0.2")
COLLECTED = (f"task.env.further={RUNS / 'collected.jsonl'}", *SHIPPED)
SIMILAR_LENGTHS = "+recipe.trl.train_sampling_strategy=group_by_length"
WITH_FURTHER = {
    "broad_answers": (f"task.env.further={RUNS / 'mbpp.jsonl'}", "recipe.trl.max_steps=180"),
    "collected_answers": (*COLLECTED, "recipe.trl.max_steps=360", SIMILAR_LENGTHS),
    "practice_answers": (*COLLECTED, "task.env.practice=harder", "recipe.trl.max_steps=480", SIMILAR_LENGTHS),
    "shipped_answers": (*SHIPPED, "task.env.practice=true", "recipe.trl.max_steps=360", SIMILAR_LENGTHS),
}
"""Trainings with further problems beside, and what they set besides."""
TWO_RUNS = {"two_full": (), "two_lora": ("model.lora_rank=16", "recipe.trl.learning_rate=6e-4")}
"""The trainings whose weights `two_runs` averages."""
DRAWN = RUNS / "own-answers-drawn"
DRAW = ["recipes/eval.py", *DATA, "evaluation.split=train", "evaluation.samples=0", f"run.dir={DRAWN}"]
"""The base model's greedy answers to the training problems."""
OWN = f"recipe.answers={DRAWN}"
GRPO = ("recipes/grpo.py", *TRAINING, "recipe.trl.max_steps=20")
GRPO_ARMS = {
    "grpo": (),
    "grpo_prefix": ("recipe.prefix.enabled=true",),
    "stock_grpo": ("reward=sparse", "recipe.trl.scale_rewards=group"),
}
EASY = ("task.env.generated_level=1",)
"""Problems that a policy of this size may solve sometimes."""
HUMANEVAL = ("recipes/eval.py", "task=humaneval", "task.env.train_size=0", "evaluation.samples=0")
SHARE, SHARES = 0.5, {"collected": 0.7, "practice": 1.0, "shipped": 1.0}
"""Of the trained weights where they are averaged with those before; some arms have their own, chosen on validation."""
NEW = "basics/new/"
"""Beginning of the ids of generated problems."""
SETS = ("written", "generated", "humaneval")
FUNCTIONS = Path(__file__).parent / "results" / "ablation" / "functions" / "grpo"
"""What `run_ablation.py functions` stored."""
MODULES = 8
"""How many prompts those runs have; each update draws one of them."""

Shares = dict[str, float]
"""Share of right answers by problem."""


def commands(arm: str, seed: int, overrides: Sequence[str]) -> Iterator[list[str]]:
    """The scripts of one arm with their arguments, in order; the last training run lies in `folder(arm, seed)`."""
    where = f"run.dir={folder(arm, seed)}"
    weights = [f"adapter={folder(arm, seed)}"]
    if arm in WITH_FURTHER:
        yield DRAW
        yield [*SFT, *WITH_FURTHER[arm], OWN, *UNEVALUATED, f"seed={seed}", where, *overrides]
        return
    if arm in TWO_RUNS:
        settings = [*WITH_FURTHER["practice_answers"], "recipe.trl.max_steps=360", *TWO_RUNS[arm]]
        yield DRAW
        yield [*SFT, *settings, OWN, *UNEVALUATED, f"seed={seed}", where, *overrides]
        return
    if arm == "base":
        weights = []
        yield ["recipes/eval.py", *DATA, *SAMPLED, where]
    elif arm == "sft":
        yield [*SFT, f"seed={seed}", where, *overrides]
    elif arm == "rejection":
        yield DRAW
        yield [*SFT, OWN, "recipe.references=false", f"seed={seed}", where, *overrides]
    elif arm == "own_answers":
        yield DRAW
        yield [*SFT, OWN, *UNEVALUATED, f"seed={seed}", where, *overrides]
        return
    elif arm in AVERAGED:
        before = AVERAGED[arm]
        yield from commands(before, seed, overrides)
        weights = [f"model.path={averaged(arm, seed)}"]
        share = f"share={SHARES.get(arm, SHARE)}"
        yield ["recipes/export.py", f"run={folder(before, seed)}", f"to={averaged(arm, seed)}", share]
        yield ["recipes/eval.py", *DATA, *SAMPLED, *weights, where]
    elif arm == "two_runs":
        for training in TWO_RUNS:
            yield from commands(training, seed, overrides)
        weights = [f"model.path={averaged(arm, seed)}"]
        run, other = (folder(training, seed) for training in TWO_RUNS)
        yield ["recipes/export.py", f"run={run}", f"other={other}", f"to={averaged(arm, seed)}"]
        yield ["recipes/eval.py", *DATA, *SAMPLED, *weights, where]
    elif arm == "own_grpo":
        yield from commands("own", seed, overrides)
        weights = [f"model.path={averaged('own', seed)}", f"adapter={folder(arm, seed)}"]
        yield [*GRPO, *EASY, f"model.path={averaged('own', seed)}", f"seed={seed}", where, *overrides]
    else:
        yield [*GRPO, *GRPO_ARMS[arm], f"seed={seed}", where, *overrides]
    yield [*HUMANEVAL, *weights, f"run.dir={folder(arm, seed)}-humaneval"]


def finished(command: Sequence[str]) -> bool:
    """Whether a command has run to its end before."""
    values = dict(word.split("=", 1) for word in command[1:] if "=" in word)
    if command[0] == "recipes/export.py":
        return Path(values["to"]).exists()
    last = "evals.jsonl" if command[0] == "recipes/eval.py" else "report.html"  # what it writes at its end
    return (Path(values["run.dir"]) / last).exists()


AVERAGED = {
    "sft_averaged": "sft",
    "own": "own_answers",
    "broad": "broad_answers",
    "collected": "collected_answers",
    "practice": "practice_answers",
    "shipped": "shipped_answers",
}
"""Arms that average the weights of a training with those before it, and that training."""
BEFORE = {arm: (training,) for arm, training in AVERAGED.items()}
BEFORE |= {"own_grpo": ("own_answers",), "two_runs": tuple(TWO_RUNS)}
"""The trainings that an arm needs besides its own."""
ARMS = ("base", "sft", *AVERAGED, "two_runs", "own_grpo", "grpo", "grpo_prefix", "stock_grpo", "rejection")
DRAWS = ("own", "broad", "collected", "practice", "shipped", "two_runs", "own_grpo", "rejection")
"""Arms that need the base model's answers."""


def averaged(arm: str, seed: int) -> Path:
    """Where the averaged weights of an arm lie."""
    return RUNS / f"{arm}-model-seed{seed}"


def folder(arm: str, seed: int) -> Path:
    return RUNS / f"{arm}-seed{seed}"


def store(arm: str, seed: int) -> None:
    """Write down what the finished runs of an arm measured."""
    run = folder(arm, seed)
    written = read_jsonl(run / "eval_samples.jsonl") or read_jsonl(run / "samples.jsonl")
    rows = [row for row in written if row.get("when", "after") == "after"]
    shares = by_problem(row for row in rows if row["task_id"].startswith("basics/"))
    human = by_problem(read_jsonl(Path(f"{run}-humaneval") / "samples.jsonl"))
    parts = [*(folder(before, seed) for before in BEFORE.get(arm, ())), run]
    steps = [row for part in parts for row in read_jsonl(part / "metrics.jsonl")]
    seconds, samples = sum(row.get("seconds/total", 0.0) for row in steps), 0.0
    if arm in DRAWS:
        seconds += sum(row["seconds"] for row in read_jsonl(DRAWN / "evals.jsonl"))
        samples += len(read_jsonl(DRAWN / "samples.jsonl"))
    precision = read_config(run / "config.yaml")[0]["hardware"]["precision"]
    kept = {
        "arm": arm,
        "seed": seed,
        "precision": precision,
        "minutes": round(seconds / 60, 1),
        "updates": len(steps),
        "graded_samples": int(samples + sum(row.get("graded_samples", 0) for row in steps)),
        "greedy": shares.get("greedy", {}),
        "sampled": shares.get("sampled", {}),
        "humaneval": human.get("greedy", {}),
    }
    STORED.mkdir(parents=True, exist_ok=True)
    write_text(STORED / f"{arm}-{precision}-seed{seed}.json", json.dumps(kept) + "\n")


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


def gain(pairs: Sequence[tuple[Shares, Shares]]) -> dict[str, float] | None:
    """Mean gain in points of 100 with its interval, over the problems that all have; None without any.

    pairs: of each run the shares of the base model and its own.
    """
    names = sorted(set.intersection(*(set(shares) for pair in pairs for shares in pair))) if pairs else []
    if not names:
        return None
    gains = 100 * np.array([[run[name] - base[name] for name in names] for base, run in pairs])
    runs = pairs
    generator = np.random.default_rng(0)
    draws = [
        gains[np.ix_(generator.integers(0, len(runs), len(runs)), generator.integers(0, len(names), len(names)))].mean()
        for _ in range(4000)
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"mean": float(gains.mean()), "low": float(low), "high": float(high)}


def stored(precision: str) -> dict[str, list[dict[str, Any]]]:
    """Stored runs by arm, of those evaluated in one precision: rounding alone changes a few greedy answers."""
    runs: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    for file in sorted(STORED.glob("*-seed*.json")):
        row = json.loads(file.read_text())
        if row["precision"] == precision:
            runs[row["arm"]].append(row)
    return runs


def summary(runs: Mapping[str, Sequence[Mapping[str, Any]]], ours: str) -> dict[str, Any]:
    """The figures of the arm `ours` beside its rivals, None where a run is missing."""
    written, generated, human = (over_base(runs, ours, "greedy", name) for name in SETS)
    rivals = {arm: over_base(runs, arm, "greedy", "written") for arm in ARMS}
    sampled = [v for run in runs[ours] for v in of_set(run, "sampled", "written").values()]
    return {
        "arm": ours,
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
        "seeds": len(runs[ours]),
        "samples_ratio_functions": samples_ratio(FUNCTIONS),
        "samples_ratio_second": None,  # robot programs or masked lines with this model: not measured
        **{f"{arm}_greedy_gain_mean": row and row["mean"] for arm, row in rivals.items() if arm != "base"},
    }


def samples_ratio(folder: Path) -> float | None:
    """How many times the graded samples of sparse dense takes to the level that sparse reaches at its end."""
    for runs in read([folder], "scores/unit_tests", MODULES).values():
        times = compared(("", ""), runs, level_of(runs))["dense_minus"].get("sparse")
        return times and times["times"]["value"]
    return None


def over_base(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], arm: str, how: str, name: str
) -> dict[str, float] | None:
    """The gain of an arm's runs over the base model."""
    [base] = runs["base"]
    return gain([(of_set(base, how, name), of_set(run, how, name)) for run in runs[arm]])


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
                cells.append(f"{row['mean']:+.1f} \\[{row['low']:+.1f}, {row['high']:+.1f}]" if row else "-")
        minutes = f"{max(run['minutes'] for run in own):.0f}"
        drawn.add_row(arm, str(len(own)), minutes, str(max(run["graded_samples"] for run in own)), *cells)
    return drawn


def run_arms(
    parser: argparse.ArgumentParser,
    args: argparse.Namespace,
    known: Sequence[str],
    seeds: Callable[[str], Sequence[int]],
    commands: Callable[[str, int, Sequence[str]], Iterable[list[str]]],
    store: Callable[[str, int], None],
) -> int:
    """Run what is left of the arms that `args` names, all of `known` where it names none, and store what they measured.

    Returns the exit status of a command that failed or was stopped, else 0. With args.summary nothing runs.
    """
    overrides = [name for name in args.names if "=" in name]
    arms = [name for name in args.names if "=" not in name] or list(known)
    if unknown := [name for name in arms if name not in known]:
        parser.error(f"{unknown[0]!r} is no arm; there are {', '.join(known)}")
    pairs = [] if args.summary else [(name, seed) for name in arms for seed in seeds(name)]
    for arm, seed in pairs:
        left = (command for command in commands(arm, seed, overrides) if args.dry_run or not finished(command))
        if status := run_in_turn(left, args.dry_run):
            return status
        if not args.dry_run:
            store(arm, seed)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ARM | KEY=VALUE", help=f"{', '.join(ARMS)}; none: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ours", choices=ARMS[1:], default="own", help="the arm that the JSON line is about")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="the stored runs that are read")
    parser.add_argument("--summary", action="store_true", help="run nothing; the table of what is stored")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    args = parser.parse_intermixed_args(arguments)
    status = run_arms(parser, args, ARMS, lambda arm: args.seeds if arm != "base" else [0], commands, store)
    if status or (args.dry_run and not args.summary):
        return status
    runs = stored(args.precision)
    if not runs["base"]:
        sys.exit(f"{STORED} has no run of base in {args.precision}: python tests/bench/learning.py base")
    line = summary(runs, args.ours)
    Console(stderr=True, width=180).print(table(runs))
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
