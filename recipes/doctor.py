"""What is wrong with a training run? Reads its directory, finished or not, and prints findings with remedies.

    python recipes/doctor.py run=runs/grpo/basics/smollm2_135m-dense-seed0
    python recipes/doctor.py run=... json=true      one line of JSON

The worst finding comes first. The exit status is 0 without a serious finding, 1 with one, 2 where the command is wrong.
Trends are judged from 15 steps on. Thresholds and their reasons are in recipes/tools/diagnosis/.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from omegaconf import MISSING
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from recipes.cli.arguments import keys_of, small_command
from recipes.cli.console import for_terminal
from recipes.cli.errors import UserError
from recipes.records.jsonl import read_config, setting
from recipes.tools.diagnosis.diagnose import Diagnosis, diagnose
from recipes.tools.diagnosis.finding import Finding
from recipes.tools.diagnosis.history import Answer, load_history
from recipes.tools.progress import TRAINS

COLOURS = {
    "serious": "bold red",
    "warning": "bold yellow",
    "note": "bold",
    "too short": "bold",
    "healthy": "bold green",
}


@dataclass
class DoctorConfig:
    run: str = MISSING
    """The run directory."""
    json: bool = False
    """One line of JSON instead of text."""


def examine(cfg: DoctorConfig) -> int:
    """Print the diagnosis of a run directory; 1 with a serious finding. Raises UserError for another directory
    and for a run that trained nothing."""
    folder = Path(cfg.run)
    if not (folder / "config.yaml").exists():
        raise UserError(f"run={cfg.run}: no run directory (no config.yaml in it); give runs/<recipe>/<task>/<name>")
    recipe = setting(read_config(folder / "config.yaml")[0], "recipe.name")
    if recipe is not None and recipe not in TRAINS:
        raise UserError(f"run={cfg.run}: nothing was trained there (it is a run of {recipe}); give a training's run")
    diagnosis = diagnose(load_history(folder))
    if cfg.json:
        print(json.dumps({"run": str(folder), "status": diagnosis.status, **asdict(diagnosis)}))
    else:
        Console().print(drawing(diagnosis))
    return int(diagnosis.status == "serious")


def drawing(diagnosis: Diagnosis) -> Group:
    """The headline, then each finding."""
    headline = Text(diagnosis.headline, COLOURS[diagnosis.status])
    return Group(headline, *(part for finding in diagnosis.findings for part in finding_parts(finding)))


def finding_parts(finding: Finding) -> list[Any]:
    """A finding's name, evidence, remedy and samples."""
    title = Text.assemble("\n", (f"{finding.severity}: {finding.name}", COLOURS[finding.severity]))
    text = Group(Text(for_terminal(finding.evidence)), Text(finding.remedy, "cyan"))
    return [title, Padding(Group(text, *map(card, finding.samples)), (0, 0, 0, 2))]


def card(answer: Answer) -> Panel:
    """An answer to read."""
    reward = "not graded" if answer.reward is None else f"reward {answer.reward:+.3f}"
    title = f"step {answer.step}  {answer.task_id}  {reward}, {answer.verdict or 'no verdict'}"
    return Panel(Text(for_terminal(answer.completion)), title=Text(for_terminal(title)), title_align="left")


main = small_command(keys_of(DoctorConfig), __doc__, examine)

if __name__ == "__main__":
    sys.exit(main())
