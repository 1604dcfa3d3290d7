"""What a second turn gains on `basics`, before and after training in episodes, beside as many tokens of first answers.

    python tests/bench/episodes.py --dry-run                 print the commands, run nothing
    python tests/bench/episodes.py base repair --seeds 0 1 2
    python tests/bench/episodes.py --summary                 the table, and one JSON line, of what is stored

base        the model as it is
repair      GRPO in episodes of two turns (episode=repair)
one_turn    GRPO on answers of one turn, for as many updates
sft         SFT of all weights on right answers, also behind failed answers of the model's and the replies to them
sft_repair  GRPO in episodes of two turns after that, 15 updates

Each is evaluated in episodes of two turns on the 66 held-out problems: pass@1 after turn 1 and after turn 2, and the
rival, independent first answers of as many tokens, of which one that passes the shown tests is kept
(recipes/evaluation/episodes.py). Runs lie below runs/episodes/ in the current folder; one that is finished is not run
again, one that was stopped goes on. What was measured is stored in tests/bench/results/episodes/. Gains are in points
of 100, with intervals over seeds and families of problems (paired.py). KEY=VALUE goes to every command, `recipe.` keys
to GRPO alone; such runs have folders and files of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from rich.console import Console
from rich.table import Table

from recipes.evaluation.episodes import FEWEST, rival
from recipes.records.directory import write_text
from recipes.records.jsonl import read_config, read_jsonl
from tests.bench.learning import PRECISIONS, run_arms
from tests.bench.paired import gain

RUNS = Path("runs/episodes")
STORED = Path(__file__).parent / "results" / "episodes"
ARMS = ("base", "repair", "one_turn", "sft", "sft_repair")
TASK = ("task=basics", "task.also_evaluate=[]", "evaluation.greedy=false", "evaluation.samples=4")
BASICS = ("task=basics", "task.also_evaluate=[]")
UNEVALUATED = ("evaluation.before=false", "evaluation.greedy=false")
GRPO = ("recipes/grpo.py", *BASICS, *UNEVALUATED)
EASY = ("task.env.generated=1", "task.env.generated_level=1")
DRAW = ["recipes/eval.py", *BASICS, *EASY, "evaluation.split=train", "evaluation.samples=1", "episode=repair"]
"""The base model's episodes on the hand-written and the easy generated training problems, greedy and drawn once."""
SFT = ("recipes/sft.py", *BASICS, *EASY, *UNEVALUATED, "evaluation.samples=0", "episode=repair")
SFT_SETTINGS = ("model.lora_rank=0", "recipe.trl.learning_rate=1e-4", "recipe.trl.max_steps=60")

INTERVAL = ("mean", "low", "high")

Run = Mapping[str, Any]


def commands(arm: str, seed: int, overrides: Sequence[str]) -> Iterator[list[str]]:
    """The scripts of one arm with their arguments, in order; the last one's evaluation is the arm's."""
    where, own = f"run.dir={folder(arm, seed, overrides)}", [o for o in overrides if not o.startswith("recipe.")]
    evaluation = ["recipes/eval.py", *TASK, "episode=repair", f"seed={seed}"]
    sft, drawn = folder("sft-training", seed, own), folder("drawn", None, own)
    if arm == "base":
        yield [*evaluation, where, *own]
        return
    after_sft = [f"adapter={sft}"] if arm == "sft_repair" else []
    if arm.startswith("sft"):
        yield [*DRAW, f"run.dir={drawn}", *own]
        yield [*SFT, *SFT_SETTINGS, f"recipe.answers={drawn}", f"seed={seed}", f"run.dir={sft}", *own]
    if arm == "sft":
        yield [*evaluation, f"adapter={sft}", where, *own]
    elif arm == "one_turn":
        training = folder("one_turn-training", seed, overrides)
        yield [*GRPO, f"seed={seed}", f"run.dir={training}", *overrides, "evaluation.samples=0"]
        yield [*evaluation, f"adapter={training}", where, *own]
    else:
        steps = ["recipe.trl.max_steps=15"] if arm == "sft_repair" else []
        yield [*GRPO, *steps, *after_sft, "evaluation.samples=4", "episode=repair", f"seed={seed}", where, *overrides]


def folder(arm: str, seed: int | None, overrides: Sequence[str] = ()) -> Path:
    """Where the run lies whose evaluation is the arm's; with other settings than the arm's it is another run."""
    settings = [re.sub(r"[^\w.-]", "_", each) for each in overrides]
    return RUNS / "-".join([arm, *settings, *([] if seed is None else [f"seed{seed}"])])


def store(arm: str, seed: int, overrides: Sequence[str]) -> Path:
    """Write down what the finished runs of an arm measured; returns the file."""
    run = folder(arm, seed, overrides)
    trainings = [folder(f"{arm}-training", seed, overrides)]
    if arm.startswith("sft"):
        trainings = [folder("sft-training", seed, [each for each in overrides if not each.startswith("recipe.")])]
    written = read_jsonl(run / "eval_samples.jsonl") or read_jsonl(run / "samples.jsonl")
    rows = [row for row in written if row.get("when", "after") == "after" and "turns" in row]
    [summary] = [row for row in read_jsonl(run / "evals.jsonl") if row["when"] != "before" and "turns" in row]
    steps = [row for part in (*trainings, run) for row in read_jsonl(part / "metrics.jsonl")]
    kept = {
        "arm": " ".join([arm, *overrides]),
        "seed": seed,
        "precision": read_config(run / "config.yaml")[0]["hardware"]["precision"],
        "updates": len(steps),
        "minutes": round(sum(row.get("seconds/total", 0.0) for row in steps) / 60, 1),
        "turn_1": after(rows, 1),
        "turn_2": after(rows, 2),
        "second_turns": summary["turns"][1]["share"],
        "mean_tokens": summary["mean_tokens"],
        "reply_tokens": summary["reply_tokens"],
        "rival": summary["equal_tokens"],
        "rival_by_problem": rivals(rows),
    }
    STORED.mkdir(parents=True, exist_ok=True)
    file = STORED / f"{run.name.removesuffix(f'-seed{seed}')}-{kept['precision']}-seed{seed}.json"
    write_text(file, json.dumps(kept) + "\n")
    return file


def after(rows: Sequence[Mapping[str, Any]], number: int) -> dict[str, float]:
    """Share of right answers to each problem after a turn; an episode of fewer turns stands where it ended. A turn
    without a verdict does not count."""
    results: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        passed = row["turns"][min(number, len(row["turns"])) - 1]["passed"]
        if passed is not None:
            results[row["task_id"]].append(passed)
    return {name: fmean(each) for name, each in results.items()}


def rivals(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The rival's pass@1 to each problem, from the columns of its episodes (recipes/evaluation/episodes.py); none of a
    problem with too few."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["task_id"]].append(row)
    results = {}
    for name, group in groups.items():
        turns = [row["turns"] for row in group]
        first, tokens = [each[0]["passed"] for each in turns], [each[0]["tokens"] for each in turns]
        if None not in first and len(group) >= FEWEST:
            fine = [len(each) == 1 for each in turns]
            results[name] = rival(fine, first, tokens, [row["tokens"] for row in group])[1]
    return results


def stored(precision: str) -> dict[str, list[Run]]:
    """Stored runs by arm, of those evaluated in one precision."""
    runs: dict[str, list[Run]] = {arm: [] for arm in ARMS}
    for file in sorted(STORED.glob("*-seed*.json")):
        row = json.loads(file.read_text())
        if row["precision"] == precision:
            runs.setdefault(row["arm"], []).append(row)
    return runs


def figures(runs: Sequence[Run]) -> dict[str, Any]:
    """Of an arm's runs: pass@1 after each turn and the rival's, means over seeds in points of 100; the gain of turn 2
    over turn 1 with its interval. None where there is no run, or no rival."""
    one, two = ([100 * fmean(run[f"turn_{number}"].values()) for run in runs] for number in (1, 2))
    bought = [100 * run["rival"]["pass@1"]["value"] for run in runs if run["rival"]]
    paired = gain([(run["turn_1"], run["turn_2"]) for run in runs]) or {}
    return {
        "seeds": len(runs),
        "turn_1": fmean(one) if one else None,
        "turn_2": fmean(two) if two else None,
        "rival": fmean(bought) if bought else None,
        **{f"gain_{name}": paired.get(name) for name in INTERVAL},
        **{f"over_rival_{name}": (over_rival(runs) or {}).get(name) for name in INTERVAL},
    }


def over_rival(runs: Sequence[Run]) -> dict[str, float] | None:
    """What turn 2 gains over the rival, paired by problem; None where there is no rival."""
    return gain([(run["rival_by_problem"], run["turn_2"]) for run in runs if run.get("rival_by_problem")])


def trained(runs: Mapping[str, Sequence[Run]], arm: str, turn: int) -> dict[str, float] | None:
    """The gain of an arm's training over the base model after a turn, seeds in pairs; None without such a pair."""
    bases = {(run["seed"], run["precision"]): run for run in runs["base"]}
    pairs = [(bases[key], run) for run in runs[arm] if (key := (run["seed"], run["precision"])) in bases]
    return gain([(base[f"turn_{turn}"], run[f"turn_{turn}"]) for base, run in pairs])


def summary(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """One line of all arms."""
    line = {f"{arm}_{name}": value for arm in ARMS for name, value in figures(runs[arm]).items()}
    for arm in ARMS[1:]:
        for turn in (1, 2):
            result = trained(runs, arm, turn)
            line |= {f"{arm}_training_turn_{turn}": result and result["mean"]}
            line |= {f"{arm}_training_turn_{turn}_{name}": result and result[name] for name in INTERVAL[1:]}
    return line


def table(runs: Mapping[str, Sequence[Run]]) -> Table:
    """A row for each arm."""
    drawn = Table(title="pass@1 on 66 held-out problems in points of 100; gains with 95 % intervals")
    columns = ("arm", "seeds", "after turn 1", "after turn 2", "gain of turn 2", "rival", "over it")
    for column in columns:
        drawn.add_column(column, justify="left" if column == "arm" else "right")
    for arm, own in runs.items():
        f = figures(own)
        if not own:
            continue
        seconds = {"mean": f["gain_mean"], "low": f["gain_low"], "high": f["gain_high"]}
        bought = "-" if f["rival"] is None else f"{f['rival']:.1f}"
        cells = (f"{f['turn_1']:.1f}", f"{f['turn_2']:.1f}", interval(seconds), bought, interval(over_rival(own)))
        drawn.add_row(arm, str(f["seeds"]), *cells)
    return drawn


def interval(result: Mapping[str, Any] | None) -> str:
    """A gain with its interval, as a cell."""
    if result is None or result["mean"] is None:
        return "-"
    return f"{result['mean']:+.1f} \\[{result['low']:+.1f}, {result['high']:+.1f}]"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ARM | KEY=VALUE", help=f"{', '.join(ARMS)}; none: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precision", choices=PRECISIONS, help="of the evaluation: of what ran last, or bf16")
    parser.add_argument("--summary", action="store_true", help="run nothing; the table of what is stored")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    args = parser.parse_intermixed_args(arguments)
    status, last = run_arms(parser, args, ARMS, lambda arm: args.seeds, commands, store)
    if status or (args.dry_run and not args.summary):
        return status
    precision = args.precision or (json.loads(last.read_text())["precision"] if last else PRECISIONS[0])
    runs = stored(precision)
    if not any(runs.values()):
        sys.exit(f"{STORED} has no run in {precision}: python tests/bench/episodes.py base")
    Console(stderr=True, width=160).print(table(runs))
    print(json.dumps(summary(runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
