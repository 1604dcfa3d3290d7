"""Show a run's completions: each token in the colour of its reward, and each channel's score and note.

    python recipes/look.py run=runs/grpo/basics/smollm2_135m-dense-seed0            the last step
    python recipes/look.py run=... step=37 reward=lint                              one step, one channel
    python recipes/look.py run=... step=37 html=look.html                           the same as a page
    python recipes/look.py run=... replay=true                                      grade every stored row again

An episode of several turns is shown as a conversation: a panel for each turn, which begins with what the environment
replied before it. Positive rewards are green, negative ones red; the strongest token shown has the full colour. Tokens
that were given, as the beginning of an answer, are pale and slanted. A replay builds the run's task, sandbox and
channels from its config.yaml, grades every row of completions.jsonl and compares scores and token rewards with the
stored ones; the exit status is 1 where any differs.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import MISSING, OmegaConf
from rich.console import Console, Group
from rich.text import Text

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.console import print_table, started_as
from recipes.cli.errors import UserError
from recipes.cli.places import require_folder
from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl
from recipes.tools.coloured_tokens import cards


@dataclass
class LookConfig:
    run: str = MISSING
    """The run directory."""
    step: int | None = None
    """null: the last one that has completions."""
    reward: str | None = None
    """The channel whose token rewards are drawn; null: the weighted sum, which the policy was trained on."""
    problem: str | None = None
    """Only completions of this problem; without `step`, of every step."""
    limit: int = 8
    """Completions to show, at most; an episode is shown whole."""
    html: str | None = None
    """Write a page there instead of to the terminal, or a drawing where it ends in .svg."""
    replay: bool = False


def look(cfg: LookConfig) -> int:
    """Draw or replay the completions that the configuration names. Returns 1 where a replay differs, else 0.

    Raises:
        UserError: there is no such run, completion or channel, or the page cannot be written.
    """
    from recipes.run.replay import replay, run_folder

    if cfg.limit < 1:
        raise UserError(f"limit={cfg.limit}: it must be a number of at least 1")
    if cfg.html:
        require_folder(f"html={cfg.html}", Path(cfg.html))
    folder = run_folder(cfg.run)
    rows = read_jsonl(folder / "completions.jsonl")
    if not rows:
        kept = next((name for name in ("eval_samples.jsonl", "samples.jsonl") if (folder / name).exists()), None)
        where = f": answers of its evaluations are in {folder / kept}" if kept else " yet"
        raise UserError(f"{folder} has no completions{where}")
    if cfg.replay:
        graded = sum(row["reward"] is not None for row in rows)
        differing = replay(OmegaConf.load(folder / "config.yaml"), rows)  # type: ignore[arg-type]
        for row, how in differing[:20]:
            print(f"step {row['step']} {row['task_id']}: {how}")
        print(f"{graded - len(differing)} of {graded} stored rows give the stored numbers")
        return 1 if differing else 0
    shown = chosen(rows, cfg)
    command = f"{started_as('look')} {shlex.quote(f'run={folder}')} replay=true"
    again = Text(f"grade all {len(rows)} stored rows again: {command}", "dim")
    if cfg.html is None:
        Console().print(*cards(shown, cfg.reward), sep="\n")
        print_table(again)  # in one line, so that it can be copied
        return 0
    drawing = Group(*cards(shown, cfg.reward), again)
    page = Console(record=True, width=120, file=io.StringIO())
    page.print(drawing)
    svg = cfg.html.endswith(".svg")
    write_text(Path(cfg.html), drawing_of(page) if svg else page.export_html(inline_styles=True))
    print(cfg.html)
    return 0


def drawing_of(page: Console) -> str:
    """What was printed as an SVG that fetches nothing: Rich's own names fonts of another machine."""
    return re.sub(r"@font-face \{.*?\}\n?", "", page.export_svg(title=""), flags=re.DOTALL)


def chosen(rows: list[dict[str, Any]], cfg: LookConfig) -> list[dict[str, Any]]:
    """The rows of the step and problem that the configuration names. Raises UserError where there are none."""
    step = cfg.step if cfg.step is not None or cfg.problem else rows[-1]["step"]
    matching = [r for r in rows if step in (None, r["step"]) and cfg.problem in (None, r["task_id"])]
    if not matching:
        steps = sorted({row["step"] for row in rows})
        named = " ".join(f"{k}={v}" for k, v in (("step", step), ("problem", cfg.problem)) if v is not None)
        raise UserError(f"{named}: the run stored no such completion; choose from steps {steps[0]} to {steps[-1]}")
    return matching[: whole_episodes(matching, cfg.limit)]


def whole_episodes(rows: list[dict[str, Any]], limit: int) -> int:
    """How many rows to show: `limit`, and the rest of an episode whose first turns are among them."""
    while 0 < limit < len(rows) and rows[limit].get("turn", 1) > 1:
        limit += 1
    return limit


main = small_command(keys_of(LookConfig), __doc__, look)

if __name__ == "__main__":
    sys.exit(main())
