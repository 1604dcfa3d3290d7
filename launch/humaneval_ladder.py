"""The HumanEval study's ladder: base, SFT, REINFORCE, PPO and DPO on HumanEval one after another, then their table.

    python launch/humaneval_ladder.py model=smollm2_135m             about a day on 2 CPU cores (estimate)
    python launch/humaneval_ladder.py samples=32 sft_steps=24 eval_samples=2 temperature=0.7 hardware.rows_per_device=1
    python launch/humaneval_ladder.py hardware=t4                    its 1.3B base model with QLoRA (not yet run)
    python launch/humaneval_ladder.py model=smollm2_135m --dry-run   print the commands, run nothing

samples: graded samples of each row after SFT. sft_steps: updates of SFT. eval_samples: answers a problem in evaluation.
temperature: of all sampling. Where one is not given, the row's file conf/experiment/humaneval_*.yaml has the number.
style: chat, or completion, in which the prompt is a text that the model continues; not given: completion for a model
whose name ends in _base, chat for others. hardware=t4 without a model takes deepseek_coder_1_3b_base. Any other
KEY=VALUE is an override of every command, as model=..., seed=... or hardware=... are. Each command is printed before it
runs. A training that is finished is not run again and one that was stopped goes on; the base model is evaluated each
time. The first row that fails ends the ladder. The table is written to runs/humaneval.html and runs/humaneval.csv.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.errors import UserError
from recipes.cli.in_turn import run_in_turn
from recipes.cli.schema import updates

LENGTH_PENALTIES = "task.reward.form.length_alpha=0.01,0.03"
BATCHES = (4, 8)
SAMPLES_A_PROBLEM = 4
"""Graded for the pairs of a training problem."""
SAMPLES_AN_UPDATE_OF_DPO = 16
"""A batch of 8 pairs, two of each problem's samples."""
POLICIES = {"t4": "deepseek_coder_1_3b_base"}
"""By hardware profile, the model where none is named; without an entry it is the profile's own."""
LEARNING_RATES = {"smollm2_135m": {"sft": 2.0e-4, "online": 3.0e-5}}
"""By model, where the study's rates (5e-5 for SFT, 5e-6 after it, for 1.3B) move it too little in so few updates: with
SmolLM2-135M, SFT learned at 2e-4; at 3e-4 REINFORCE with a penalty of 0.03 lost all passes in 8 updates of 4."""
COMPLETION = ("task.env.style=completion", "task.reward.form.block=0", "task.reward.form.no_block=0")
"""A completion has no code block, whose absence would cost it the same everywhere."""


@dataclass
class Ladder:
    """The numbers of the ladder's length, None: as conf/experiment/ has them; and the prompts' style."""

    samples: int | None = None
    sft_steps: int | None = None
    eval_samples: int | None = None
    temperature: float | None = None
    style: str | None = None
    """"chat" or "completion"; None: by the model's name."""


def commands(ladder: Ladder, overrides: Sequence[str]) -> list[list[str]]:
    """The rows' commands in their order, and the table's, as `run_in_turn` takes them."""
    problems = setting("recipe.problems", ladder.samples and updates(ladder.samples, SAMPLES_A_PROBLEM))
    decoding = setting("evaluation.samples", ladder.eval_samples)
    decoding += setting("evaluation.temperature", ladder.temperature)
    last = [*decoding, *(COMPLETION if ladder.style == "completion" else ()), *overrides]
    online = [
        LENGTH_PENALTIES,
        *setting("recipe.trl.temperature", ladder.temperature),
        *rate("online", overrides),
        *last,
    ]
    sft = [*setting("recipe.trl.max_steps", ladder.sft_steps), *rate("sft", overrides)]
    ppo = [[f"recipe.prompts_per_step={batch}", *steps(ladder, batch)] for batch in BATCHES]
    return [
        row("eval.py", "base", *last),
        row("sft.py", "sft", named("sft"), *sft, *last),
        row("reinforce.py -m", "reinforce", *steps(ladder, BATCHES[0]), *online),
        *(row("ppo.py -m", "ppo", *batch, *online) for batch in ppo),
        row("pairs.py", "pairs", named("pairs"), *problems, *setting("recipe.temperature", ladder.temperature), *last),
        row("dpo.py", "dpo", *steps(ladder, SAMPLES_AN_UPDATE_OF_DPO), *last),
        [
            "recipes/table.py",
            "task=humaneval",
            "match=humaneval_",
            "html=runs/humaneval.html",
            "csv=runs/humaneval.csv",
        ],
    ]


def row(recipe: str, name: str, *overrides: str) -> list[str]:
    """The command of a row's experiment. recipe: its file and, for a sweep, -m."""
    return [*f"recipes/{recipe}".split(), f"+experiment=humaneval_{name}", *overrides]


def named(row: str) -> str:
    """The name that the experiments of later rows look for, even if other settings are overridden."""
    return f"run.name=humaneval_{row}-${{model.name}}-seed${{seed}}"


def setting(key: str, value: object) -> list[str]:
    """An override, or nothing for None."""
    return [] if value is None else [f"{key}={value}"]


def rate(rows: str, overrides: Sequence[str]) -> list[str]:
    """The learning rate of LEARNING_RATES for these rows, or nothing: the experiments' own, which are the study's."""
    given = dict(override.split("=", 1) for override in overrides)
    model = given.get("model") or ("smollm2_135m" if given.get("hardware", "cpu").startswith("cpu") else "")
    return setting("recipe.trl.learning_rate", LEARNING_RATES.get(model, {}).get(rows))


def steps(ladder: Ladder, batch: int) -> list[str]:
    """Updates of so many graded samples each."""
    return setting("recipe.trl.max_steps", ladder.samples and updates(ladder.samples, batch))


def read(arguments: Sequence[str]) -> tuple[Ladder, list[str], bool]:
    """The ladder's own numbers, the overrides for every command, and whether to print alone. Raises UserError."""
    own = [a for a in arguments if a.split("=")[0] in {field.name for field in fields(Ladder)}]
    overrides = [a for a in arguments if a not in own and a != "--dry-run"]
    if wrong := [a for a in overrides if "=" not in a or a.startswith("-")]:
        raise UserError(f"{wrong[0]!r} is neither KEY=VALUE, as samples=32 and model=smollm2_135m are, nor --dry-run")
    ladder = keys_of(Ladder)(own)
    given = dict(override.split("=", 1) for override in overrides)
    model = given.get("model") or POLICIES.get(given.get("hardware", ""), "")
    if model and "model" not in given:
        overrides.append(f"model={model}")
    ladder.style = ladder.style or ("completion" if model.endswith("_base") else "chat")
    if ladder.style not in ("chat", "completion"):
        raise UserError(f"style={ladder.style}: must be chat or completion")
    for name in ("samples", "sft_steps"):
        if (value := getattr(ladder, name)) is not None and value < 1:
            raise UserError(
                f"{name}={value}: a row needs at least one; leave it out for the number in conf/experiment/"
            )
    return ladder, overrides, "--dry-run" in arguments


def climb(asked: tuple[Ladder, list[str], bool]) -> int:
    ladder, overrides, dry_run = asked
    return run_in_turn(commands(ladder, overrides), dry_run)


main = small_command(read, __doc__, climb)

if __name__ == "__main__":
    sys.exit(main())
