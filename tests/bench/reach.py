"""Problems that the model never solves: does GRPO with a reference's beginning shown reach them?

    python tests/bench/reach.py                       draw, choose, train, evaluate; one JSON line
    python tests/bench/reach.py --dry-run             print the commands, run nothing
    python tests/bench/reach.py --steps 60 recipe.trl.learning_rate=1e-4
    python tests/bench/reach.py --imitate --steps 50  SFT on the references of the same problems, to compare with

One generated problem of basics of each easy training family. The model answers each 16 times; the problems without a
right answer are kept, and parted by family into those to train on and those held out. GRPO with recipe.prefix trains on
the first. Then both are answered again, 16 times and greedily, from nothing but the prompt. A problem counts as solved
where one of the 16 answers passes. The model itself would solve a few in another 16 answers, so it draws once more with
another seed: that is what chance alone reaches (`again` in the JSON line; not asked for a second time by --imitate).

Runs lie below runs/reach/ in the current folder, those of other settings in another folder; one that is finished is not
run again, one that was stopped goes on. KEY=VALUE goes to the training.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from envs.basics import families
from recipes.cli.in_turn import run_in_turn
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl
from tests.bench.learning import by_problem
from tests.bench.learning_arms import finished

RUNS = Path("runs/reach")
CANDIDATES, CHOSEN = RUNS / "candidates.jsonl", RUNS / "unsolved.jsonl"
ANSWERS = 16
BASICS = ("task=basics", "task.also_evaluate=[]")
SIDES = ("train", "test")
WRITERS = ("again", "after")
"""Who answers the chosen problems: the model as it was, drawn once more, and the trained one."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the training")
    parser.add_argument("--steps", type=int, default=100, help="updates of the training")
    parser.add_argument("--train", type=int, default=48, help="problems to train on; the rest is held out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--imitate", action="store_true", help="SFT on the references, in place of GRPO with prefixes")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    args = parser.parse_intermixed_args(arguments)
    if unknown := [override for override in args.overrides if "=" not in override]:
        parser.error(f"{unknown[0]!r} is not KEY=VALUE, a setting of the training")
    if not args.dry_run and not CANDIDATES.exists():
        easy = (family for family in families.split(200, 0)[0] if family.level == 1)
        write_rows(CANDIDATES, [families.row(family, 0) for family in easy])
    if status := run_in_turn(unfinished([draw(RUNS / "drawn", CANDIDATES, 0)], args.dry_run), args.dry_run):
        return status
    if not args.dry_run and not CHOSEN.exists():
        rows = unsolved(read_jsonl(CANDIDATES), read_jsonl(RUNS / "drawn" / "samples.jsonl"))
        if len(rows) <= args.train:
            sys.exit(
                f"{len(rows)} problems are without a right answer, and --train {args.train} leaves none to hold out"
            )
        write_rows(CHOSEN, rows)
    status = run_in_turn(unfinished(training(args), args.dry_run), args.dry_run)
    if status or args.dry_run:
        return status
    found = {
        (writer, side): by_problem(read_jsonl(folder(args) / f"{writer}-{side}" / "samples.jsonl"))
        for writer in writers(args)
        for side in SIDES
    }
    print(json.dumps(summary(found, read_jsonl(folder(args) / "training" / "metrics.jsonl"))))
    return 0


def draw(run: Path, file: Path, train: int, *settings: str) -> list[str]:
    """Sixteen sampled answers to each problem of one side, and a greedy one."""
    where = (f"task.env.path={file}", f"task.env.train_size={train}", f"run.dir={run}")
    return ["recipes/eval.py", *BASICS, f"evaluation.samples={ANSWERS}", *settings, *where]


def training(args: argparse.Namespace) -> Iterator[list[str]]:
    """The training, and the answers of both writers to both sides."""
    where = folder(args) / "training"
    grpo = ("recipes/grpo.py", "recipe.prefix.enabled=true", "recipe.trl.learning_rate=3e-4")
    script, *settings = ("recipes/sft.py",) if args.imitate else grpo
    yield [
        script,
        *BASICS,
        f"task.env.path={CHOSEN}",
        f"task.env.train_size={args.train}",
        *settings,
        f"recipe.trl.max_steps={args.steps}",
        "evaluation.before=false",
        "evaluation.samples=0",
        "evaluation.greedy=false",
        f"seed={args.seed}",
        f"run.dir={where}",
        *args.overrides,
    ]
    for writer in writers(args):
        for side in SIDES:
            settings = [f"evaluation.split={side}", f"seed={1000 + args.seed}"]
            settings += [f"adapter={where}"] if writer == "after" else []
            yield draw(folder(args) / f"{writer}-{side}", CHOSEN, args.train, *settings)


def writers(args: argparse.Namespace) -> Sequence[str]:
    return WRITERS[1:] if args.imitate else WRITERS


def folder(args: argparse.Namespace) -> Path:
    """Where the training with these settings lies, and what was drawn before and after it."""
    settings = ["imitate"] if args.imitate else []
    settings += [re.sub(r"[^\w.-]", "_", override) for override in args.overrides]
    return RUNS / "-".join([f"train{args.train}", f"steps{args.steps}", *settings, f"seed{args.seed}"])


def unfinished(commands: Iterable[list[str]], dry_run: bool) -> Iterator[list[str]]:
    """The commands that have not run to their end."""
    return (command for command in commands if dry_run or not finished(command))


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, "".join(json.dumps(row) + "\n" for row in rows))


def unsolved(rows: Iterable[dict[str, Any]], samples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The problems of which ANSWERS answers were graded and none passed."""
    failed = Counter(s["task_id"] for s in samples if s["temperature"] and s["passed"] is False)
    return [row for row in rows if failed[row["id"]] == ANSWERS]


def summary(
    found: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]], steps: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Problems solved by at least one of the answers, greedily, and the share of right answers, by side and writer, of
    the problems to which all writers have answers with verdicts."""
    asked = [writer for writer in WRITERS if (writer, SIDES[0]) in found]
    line: dict[str, Any] = {"updates": len(steps), "minutes": sum(s.get("seconds/total", 0.0) for s in steps) / 60}
    line["graded_samples"] = int(sum(s.get("graded_samples", 0) for s in steps))
    for side in SIDES:
        everywhere = set.intersection(*(set(found[writer, side]["sampled"]) for writer in asked))
        line[f"{side}_problems"] = len(everywhere)
        for writer in asked:
            shares, greedy = (
                {problem: share for problem, share in found[writer, side][how].items() if problem in everywhere}
                for how in ("sampled", "greedy")
            )
            name = f"{side}_{writer}"
            line[f"{name}_solved"] = sum(share > 0 for share in shares.values())
            line[f"{name}_greedy"] = sum(share > 0 for share in greedy.values())
            line[f"{name}_sampled_percent"] = 100 * sum(shares.values()) / len(shares)
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in line.items()}


if __name__ == "__main__":
    sys.exit(main())
