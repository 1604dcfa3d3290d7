"""The ablations of tests/bench/README.md: their runs one after another, and the table of each at its end.

    python tests/bench/run_ablation.py corridor                                  half an hour on one core
    python tests/bench/run_ablation.py roboeval basics unlocated channels        some three hours
    python tests/bench/run_ablation.py channels --seeds 0,1,2,3,4
    python tests/bench/run_ablation.py corridor --seeds 0,1 recipe.trl.max_steps=20
    python tests/bench/run_ablation.py all --dry-run                             print the commands, run nothing

corridor    where rewards lie in a task whose parts are known: dense, sparse, uniform; PPO and GRPO
roboeval    the same on 16 robot programs, PPO also pointed, with a policy small enough for many seeds
basics      the same on 16 small functions
unlocated   basics again with tests that do not say which lines failed: what dense spreads over all the code
functions   answers of six short functions, SmolLM2-135M, GRPO: dense, sparse; two hours on one core
twelve      the same with answers of twelve functions; three to four hours on one core
errands     robot programs of several acts with the small policy, GRPO: credit for lines against the answer's advantage;
            half an hour on one core
long_errands  the same with two such programs in turn; two and a half hours on one core
robots      robot programs, SmolLM2-135M: dense with the reference's acts as parts, sparse, credit for lines; eight
            hours on one core, without the SFT before
lines       answers of up to eight masked lines of a simulation, the same; eight hours on one core
channels    roboeval's GRPO again with one channel at a time at weight 0, so that its score is still measured

KEY=VALUE is an override of the runs that are compared. Each command is printed before it runs. A run that is finished
is not run again, one that was stopped goes on; the first command that fails ends it all. Runs and tables are written
below runs/ablation/ in the current folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.cli.in_turn import run_in_turn

FOLDER = "runs/ablation"
PLACEMENTS = {"ppo": "dense,sparse,uniform,pointed", "grpo": "dense,sparse,uniform"}
DEMONSTRATIONS = {
    "roboeval": [f"task.env.train={FOLDER}/roboeval/demonstrations.jsonl"],
    "basics": [f"task.env.path={FOLDER}/basics/demonstrations.jsonl", "task.env.train_size=1024"],
}
UNMEASURED = ["task.also_evaluate=[]", "evaluation.before=false", "evaluation.samples=0", "evaluation.greedy=false"]
CHANNELS = ("simulator", "syntax", "lint")
Commands = Iterator[list[str]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME | KEY=VALUE", help=f"{', '.join(ABLATIONS)}, or all")
    parser.add_argument(
        "--seeds",
        help="where not given: 0,1,2,3,4 for corridor, functions, twelve, robots and lines, 0,1,2,3,4,5 for the others",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    args = parser.parse_intermixed_args(arguments)
    overrides = [name for name in args.names if "=" in name]
    names = [name for name in args.names if "=" not in name]
    if unknown := [name for name in names if name not in (*ABLATIONS, "all")]:
        parser.error(f"{unknown[0]!r} is no ablation; there are {', '.join(ABLATIONS)}, and all")
    if not names:
        parser.error(f"name an ablation: {', '.join(ABLATIONS)}, or all")
    return run_in_turn(commands(list(ABLATIONS) if "all" in names else names, args.seeds, overrides), args.dry_run)


def commands(names: Sequence[str], seeds: str | None, overrides: Sequence[str]) -> list[list[str]]:
    """Scripts with their arguments, in order; what two ablations have in common once."""
    each = (tuple(command) for name in names for command in ABLATIONS[name](seeds, overrides))
    return [list(command) for command in dict.fromkeys(each)]


def corridor(seeds: str | None, overrides: Sequence[str]) -> Commands:
    for recipe in PLACEMENTS:
        settings = ["task=corridor", "reward=dense,sparse,uniform", *overrides]
        yield sweep(recipe, f"corridor/{recipe}/${{reward.name}}", seeds or "0,1,2,3,4", *settings)
    yield table("corridor", f"{FOLDER}/corridor/ppo", f"{FOLDER}/corridor/grpo", "--level", "0.7")


def roboeval(seeds: str | None, overrides: Sequence[str]) -> Commands:
    return ppo_and_grpo("roboeval", seeds, overrides)


def basics(seeds: str | None, overrides: Sequence[str]) -> Commands:
    return ppo_and_grpo("basics", seeds, overrides)


def unlocated(seeds: str | None, overrides: Sequence[str]) -> Commands:
    yield from supervised_start("basics")
    yield placements("basics", "ppo", seeds, overrides)
    settings = ["reward=dense,pointed", "task.reward.unit_tests.locate=false", *overrides]
    yield small_runs("basics", "ppo", "unlocated/${reward.name}", seeds, *settings)
    yield table("unlocated", f"{FOLDER}/basics/ppo", f"{FOLDER}/basics/unlocated", *PASS_RATE)


def functions(seeds: str | None, overrides: Sequence[str]) -> Commands:
    size = ["task.env.functions=6", "task.max_new_tokens=192", "task.env.train_size=233"]
    return answers_in_parts("functions", [], ["--generated"], size, seeds, overrides)


def twelve(seeds: str | None, overrides: Sequence[str]) -> Commands:
    size = ["task.env.functions=12", "task.max_new_tokens=288", "task.env.train_size=221"]
    asked = ["--problems", "97", "--plain"]
    return answers_in_parts("twelve", asked, ["--generated", "--plain", "--longest", "80"], size, seeds, overrides)


def answers_in_parts(
    name: str,
    asked: Sequence[str],
    form: Sequence[str],
    size: Sequence[str],
    seeds: str | None,
    overrides: Sequence[str],
) -> Commands:
    """Answers of several functions: what is asked, the supervised start on others, the runs, the table."""
    folder = f"{FOLDER}/{name}"
    yield ["tests/bench/short_functions.py", f"{folder}/problems.jsonl", *asked]
    yield ["tests/bench/short_functions.py", f"{folder}/form.jsonl", *form]
    learnt = ["task=basics", f"task.env.path={folder}/form.jsonl", *size, *UNMEASURED]
    steps = ["recipe.trl.max_steps=30", "recipe.batch_size=4", "recipe.trl.learning_rate=5e-4"]
    yield ["recipes/sft.py", *learnt, *steps, f"run.dir={folder}/sft"]
    settings = [f"+experiment=ablation_{name}", "reward=dense,sparse", *overrides]
    yield sweep("grpo", f"{name}/grpo/${{reward.name}}", seeds or "0,1,2,3,4", *settings)
    yield table(name, f"{folder}/grpo", "--metric", "scores/unit_tests", "--level", "sparse", "--window", "8")


def errands(seeds: str | None, overrides: Sequence[str]) -> Commands:
    shape = ["--faults", "0.15", "--vocabulary", "900"]
    return by_lines("errands", shape, 128, 40, {"answer": 2e-4, "lines": 2e-4}, seeds, overrides)


def long_errands(seeds: str | None, overrides: Sequence[str]) -> Commands:
    shape = ["--in-turn", "2", "--faults", "0.12", "--vocabulary", "1400"]
    return by_lines("long_errands", shape, 192, 80, {"answer": 1e-4, "lines": 2e-4}, seeds, overrides)


def by_lines(
    name: str,
    shape: Sequence[str],
    tokens: int,
    updates: int,
    rates: Mapping[str, float],
    seeds: str | None,
    overrides: Sequence[str],
) -> Commands:
    """Errands: the small policy, its supervised start, the runs of each credit at its best learning rate, the table."""
    folder = f"{FOLDER}/{name}"
    size = [f"model.path={folder}", f"task.max_new_tokens={tokens}"]
    if not Path(folder, "demonstrations.jsonl").exists():
        yield ["tests/bench/small_policy.py", folder, "--task", "errands", *shape, "--hidden", "128"]
    learnt = [*size, f"task.env.train={folder}/demonstrations.jsonl", "recipe.trl.max_steps=600"]
    yield ["recipes/sft.py", "+experiment=[ablation_roboeval,ablation_sft]", *learnt, f"run.dir={folder}/sft"]
    for credit, rate in rates.items():
        compared = ["reward=sparse", f"recipe.credit={credit}", f"recipe.trl.learning_rate={rate}"]
        compared += [f"recipe.trl.max_steps={updates}", *overrides]
        experiments = "+experiment=[ablation_roboeval,ablation_grpo]"
        yield sweep("grpo", f"{name}/grpo/{credit}", seeds or "0,1,2,3,4,5", experiments, *size, *compared)
    yield table(name, f"{folder}/grpo", "--metric", "pass_rate", "--level", "sparse", "--window", "10")


def robots(seeds: str | None, overrides: Sequence[str]) -> Commands:
    folder = f"{FOLDER}/robots"
    learnt = ["task=roboeval", "task.env.examples=0", *UNMEASURED]
    form = ["task.env.generated=40", "model.lora_rank=0", "recipe.trl.max_steps=280", "recipe.trl.learning_rate=1e-4"]
    form += ["recipe.batch_size=8", "hardware.rows_per_device=8"]
    yield ["recipes/sft.py", *learnt, *form, f"run.dir={folder}/sft"]
    yield ["tests/bench/robot_instructions.py", f"{folder}/asked.jsonl"]
    if not Path(folder, "rates/pass_rates.jsonl").exists():
        asked = ["task=roboeval", "task.env.examples=0", f"task.env.train={folder}/asked.jsonl"]
        asked += ["task.max_new_tokens=192", f"model.path={folder}/sft/final", "evaluation.split=train", "pass_rate=8"]
        yield ["recipes/check.py", *asked, f"run.dir={folder}/rates"]
    experiment, seeds = "+experiment=ablation_robots", seeds or "0,1,2,3,4"
    yield sweep("grpo", "robots/grpo/${reward.name}", seeds, experiment, "reward=dense,sparse", *overrides)
    by_lines = ["reward=sparse", "recipe.credit=lines", *overrides]
    yield sweep("grpo", "robots/grpo/lines", seeds, experiment, *by_lines)
    yield table("robots", f"{folder}/grpo", "--metric", "scores/simulator", "--level", "sparse", "--window", "8")


def lines(seeds: str | None, overrides: Sequence[str]) -> Commands:
    folder, experiment = f"{FOLDER}/lines", "+experiment=ablation_lines"
    yield ["tests/bench/masked_places.py", f"{folder}/cases.jsonl"]
    asked = [f"task.env.cases={folder}/cases.jsonl", "task.env.train_size=5", "task.env.context_chars=2000"]
    steps = ["recipe.trl.max_steps=20", "recipe.batch_size=5", "hardware.rows_per_device=1"]
    steps += ["recipe.trl.learning_rate=5e-4", "recipe.trl.lr_scheduler_type=constant", "recipe.trl.max_length=1200"]
    yield ["recipes/sft.py", "task=etk_completion", *asked, *UNMEASURED, *steps, f"run.dir={folder}/sft"]
    settings = [experiment, "reward=dense,sparse", *overrides]
    yield sweep("grpo", "lines/grpo/${reward.name}", seeds or "0,1,2,3,4", *settings)
    yield table("lines", f"{folder}/grpo", "--metric", "scores/simulation", "--level", "sparse", "--window", "8")


def channels(seeds: str | None, overrides: Sequence[str]) -> Commands:
    yield from supervised_start("roboeval")
    yield placements("roboeval", "grpo", seeds, overrides)
    for channel in CHANNELS:
        settings = [f"task.reward.{channel}.weight=0", *overrides]
        yield small_runs("roboeval", "grpo", f"channels/without-{channel}", seeds, *settings)
    yield ["tests/bench/leave_one_out.py", f"{FOLDER}/roboeval/grpo", f"{FOLDER}/roboeval/channels"]


def ppo_and_grpo(task: str, seeds: str | None, overrides: Sequence[str]) -> Commands:
    """A small policy trained with every placement of rewards, and the table."""
    yield from supervised_start(task)
    for recipe in PLACEMENTS:
        yield placements(task, recipe, seeds, overrides)
    yield table(task, f"{FOLDER}/{task}/ppo", f"{FOLDER}/{task}/grpo", *PASS_RATE)


def supervised_start(task: str) -> Commands:
    """The small policy, trained on demonstrations with planted faults."""
    if not Path(FOLDER, task, "demonstrations.jsonl").exists():
        yield ["tests/bench/small_policy.py", f"{FOLDER}/{task}", "--task", task]
    experiments = f"+experiment=[ablation_{task},ablation_sft]"
    yield ["recipes/sft.py", experiments, *DEMONSTRATIONS[task], f"run.dir={FOLDER}/{task}/sft"]


def placements(task: str, recipe: str, seeds: str | None, overrides: Sequence[str]) -> list[str]:
    """The sweep of a small policy over placements of rewards and seeds."""
    return small_runs(task, recipe, f"{recipe}/${{reward.name}}", seeds, f"reward={PLACEMENTS[recipe]}", *overrides)


def small_runs(task: str, recipe: str, name: str, seeds: str | None, *settings: str) -> list[str]:
    """A sweep of a small policy. name: where the runs lie, below the task's folder."""
    experiments = f"+experiment=[ablation_{task},ablation_{recipe}]"
    return sweep(recipe, f"{task}/{name}", seeds or "0,1,2,3,4,5", experiments, *settings)


def sweep(recipe: str, name: str, seeds: str, *settings: str) -> list[str]:
    return [f"recipes/{recipe}.py", "-m", *settings, f"seed={seeds}", f"run.dir={FOLDER}/{name}-seed${{seed}}"]


PASS_RATE = ("--metric", "pass_rate", "--level", "0.5")


def table(name: str, *arguments: str) -> list[str]:
    return ["tests/bench/ablation.py", *arguments, "--html", f"{FOLDER}/{name}.html"]


ABLATIONS = {
    "corridor": corridor,
    "roboeval": roboeval,
    "basics": basics,
    "unlocated": unlocated,
    "functions": functions,
    "twelve": twelve,
    "errands": errands,
    "long_errands": long_errands,
    "robots": robots,
    "lines": lines,
    "channels": channels,
}

if __name__ == "__main__":
    sys.exit(main())
