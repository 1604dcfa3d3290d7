"""The ways to train that tests/bench/learning.py compares: an arm's scripts with their arguments, and its folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

RUNS = Path("runs/learning")
DATA = ("task=basics", "task.env.generated=1", "task.also_evaluate=[]")
SAMPLED = ("evaluation.samples=2",)
TRAINING = (*DATA, "evaluation.before=false", *SAMPLED)
UNEVALUATED = ("evaluation.samples=0", "evaluation.greedy=false")
ALL_WEIGHTS = ("model.lora_rank=0", "recipe.trl.learning_rate=1e-4")
SFT = ("recipes/sft.py", *TRAINING, *ALL_WEIGHTS, "recipe.trl.max_steps=120")
SHIPPED = ("task.env.generated=2", "task.env.validation=0.2")
COLLECTED = (f"task.env.further={RUNS / 'collected.jsonl'}", *SHIPPED)
OF_FOUR = ("recipe.batch_size=4", "recipe.trl.learning_rate=7e-5", "recipe.trl.max_steps=720")
SIMILAR_LENGTHS = "+recipe.trl.train_sampling_strategy=group_by_length"
TRAININGS = {
    "own_answers": (),
    "broad_answers": (f"task.env.further={RUNS / 'mbpp.jsonl'}", "recipe.trl.max_steps=180"),
    "collected_answers": (*COLLECTED, "recipe.trl.max_steps=360", SIMILAR_LENGTHS),
    "practice_answers": (*COLLECTED, "task.env.practice=harder", "recipe.trl.max_steps=480", SIMILAR_LENGTHS),
    "directions_answers": (*COLLECTED, "task.env.practice=harder", *OF_FOUR, SIMILAR_LENGTHS),
    "shipped_answers": (*SHIPPED, "task.env.practice=true", "recipe.trl.max_steps=360", SIMILAR_LENGTHS),
}
"""SFT on own answers that other arms average, and what it sets besides."""
LORA = ("model.lora_rank=16", "recipe.trl.learning_rate=6e-4")
TWO = (*TRAININGS["practice_answers"], "recipe.trl.max_steps=360")
COMPOSED = (*TRAININGS["shipped_answers"], COLLECTED[0], "task.env.composed=2000", "recipe.trl.max_steps=240")
PAIR = (*TRAININGS["directions_answers"], "task.env.validation=0", "recipe.trl.max_steps=800")
TRAININGS |= {
    "two_full": TWO,
    "two_lora": (*TWO, *LORA),
    "composed_full": COMPOSED,
    "composed_lora": (*COMPOSED, *LORA),
    "pair_first": PAIR,
    "pair_second": PAIR,
}
OTHER_SEED = {"pair_second": 1000}
"""Trainings that differ from another one in their seed alone, and what is added to it."""
PAIRS = {
    "two_runs": ("two_full", "two_lora"),
    "composed": ("composed_full", "composed_lora"),
    "pair": ("pair_first", "pair_second"),
}
"""Arms that average the weights of two trainings."""
DRAWN = RUNS / "own-answers-drawn"
DRAW = ["recipes/eval.py", *DATA, "evaluation.split=train", "evaluation.samples=0", f"run.dir={DRAWN}"]
"""The base model's greedy answers to the training problems."""
DRAWN_MORE = RUNS / "three-answers-drawn"
DRAW_MORE = ["recipes/eval.py", *DATA, "evaluation.split=train", "evaluation.samples=2", f"run.dir={DRAWN_MORE}"]
"""The same with two sampled answers to each beside."""
OWN = f"recipe.answers={DRAWN}"
REJECTION = (f"recipe.answers={DRAWN_MORE}", "recipe.references=false", "recipe.trl.max_steps=60")
GRPO = ("recipes/grpo.py", *TRAINING, "recipe.trl.max_steps=20")
GRPO_ARMS = {
    "grpo": (),
    "grpo_prefix": ("recipe.prefix.enabled=true",),
    "stock_grpo": ("reward=sparse", "recipe.trl.scale_rewards=group"),
}
PEERS = ("ssd", "sdpo")
"""Trainers of TRL's that tests/bench/trl_peers.py runs."""
PEER_SETTINGS = (*DATA, "evaluation.before=false", *UNEVALUATED, "recipe.trl.max_steps=20")
EASY = ("task.env.generated_level=1",)
"""Problems that a policy of this size may solve sometimes."""
AFTER = {"own_grpo": ("own", ()), "two_runs_grpo": ("two_runs", ("recipe.trl.max_steps=60", "task.env.validation=0.2"))}
"""Arms that go on with GRPO: the arm before, and what they set besides."""
HUMANEVAL = ("recipes/eval.py", "task=humaneval", "task.env.train_size=0", "evaluation.samples=0")
KEPT = {"collected": "share=0.7", "practice": "share=1.0", "shipped": "share=1.0", "directions": "rank=48"}
"""What recipes/export.py keeps of a training's change, where it is not half of it; shares were chosen on validation."""
AVERAGED = {
    "sft_averaged": "sft",
    "own": "own_answers",
    "broad": "broad_answers",
    "collected": "collected_answers",
    "practice": "practice_answers",
    "shipped": "shipped_answers",
    "directions": "directions_answers",
}
"""Arms that keep a part of what a training changed, and that training."""
BEFORE: dict[str, tuple[str, ...]] = {arm: (training,) for arm, training in AVERAGED.items()}
BEFORE |= {**PAIRS, "own_grpo": ("own_answers",), "two_runs_grpo": PAIRS["two_runs"]}
BEFORE |= {peer: (f"{peer}_training",) for peer in PEERS}
"""The trainings that an arm needs besides its own."""
ARMS = ("base", "sft", *AVERAGED, *PAIRS, *AFTER, "grpo", "grpo_prefix", "stock_grpo", *PEERS, "rejection")
DRAWS = dict.fromkeys((*(arm for arm in AVERAGED if arm != "sft_averaged"), *PAIRS, *AFTER), DRAWN)
DRAWS["rejection"] = DRAWN_MORE
"""Arms that need the base model's answers, and the run that draws these."""


def commands(arm: str, seed: int, overrides: Sequence[str]) -> Iterator[list[str]]:
    """The scripts of one arm with their arguments, in order; the last run lies in `folder(arm, seed, overrides)`."""

    def folder_of(name: str) -> Path:
        return folder(name, seed, overrides)

    where, model = f"run.dir={folder_of(arm)}", folder_of(f"{arm}-model")  # the latter of averaged weights
    weights = [f"adapter={folder_of(arm)}"]
    if arm in TRAININGS:
        yield DRAW
        number = seed + OTHER_SEED.get(arm, 0)
        yield [*SFT, *TRAININGS[arm], OWN, *UNEVALUATED, f"seed={number}", where, *overrides]
        return
    if arm == "base":
        weights = []
        yield ["recipes/eval.py", *DATA, *SAMPLED, where]
    elif arm == "sft":
        yield [*SFT, f"seed={seed}", where, *overrides]
    elif arm == "rejection":
        yield DRAW_MORE
        yield [*SFT, *REJECTION, f"seed={seed}", where, *overrides]
    elif arm in PEERS:
        training = folder_of(f"{arm}_training")
        yield ["tests/bench/trl_peers.py", arm, *PEER_SETTINGS, f"seed={seed}", f"run.dir={training}", *overrides]
        weights = [f"adapter={training}"]
        yield ["recipes/eval.py", *DATA, *SAMPLED, *weights, where]
    elif arm in AVERAGED:
        before = AVERAGED[arm]
        yield from commands(before, seed, overrides)
        weights = [f"model.path={model}"]
        yield ["recipes/export.py", f"run={folder_of(before)}", f"to={model}", KEPT.get(arm, "share=0.5")]
        yield ["recipes/eval.py", *DATA, *SAMPLED, *weights, where]
    elif arm in PAIRS:
        for training in PAIRS[arm]:
            yield from commands(training, seed, overrides)
        weights = [f"model.path={model}"]
        run, other = map(folder_of, PAIRS[arm])
        yield ["recipes/export.py", f"run={run}", f"other={other}", f"to={model}"]
        yield ["recipes/eval.py", *DATA, *SAMPLED, *weights, where]
    elif arm in AFTER:
        before, settings = AFTER[arm]
        yield from commands(before, seed, overrides)
        weights = [f"model.path={folder_of(f'{before}-model')}", *weights]
        yield [*GRPO, *EASY, *settings, weights[0], f"seed={seed}", where, *overrides]
    else:
        yield [*GRPO, *GRPO_ARMS[arm], f"seed={seed}", where, *overrides]
    yield [*HUMANEVAL, *weights, f"{where}-humaneval"]


def finished(command: Sequence[str]) -> bool:
    """Whether a command has run to its end before."""
    values = dict(word.split("=", 1) for word in command[1:] if "=" in word)
    if command[0] == "recipes/export.py":
        return Path(values["to"]).exists()
    last = {"recipes/eval.py": "samples.jsonl", "tests/bench/trl_peers.py": "final"}.get(command[0], "report.html")
    return (Path(values["run.dir"]) / last).exists()  # what it writes at its end


def folder(arm: str, seed: int, overrides: Sequence[str] = ()) -> Path:
    """Where a run of an arm lies; with other settings than the arm's it is another run."""
    return RUNS / "-".join([arm, *(re.sub(r"[^\w.-]", "_", each) for each in overrides), f"seed{seed}"])
