"""What is wrong with a training run? Reads its directory, finished or not, and says it, worst first, with a remedy.

    python recipes/doctor.py run=runs/grpo/basics/smollm2_135m-dense-seed0
    python recipes/doctor.py run=... json=true      one line of JSON

The exit status is 0 where nothing serious was found, 1 where something was, 2 where the command cannot be followed.
Trends are judged from 15 steps on. Thresholds and their reasons are in recipes/support/diseases_*.py.
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

from recipes.support.diagnosis import Diagnosis, diagnose
from recipes.support.finding import Finding
from recipes.support.history import Answer, load_history
from recipes.support.main import UserError
from recipes.support.report import as_text
from recipes.support.small_command import keys_of, small_command

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
    """Print the diagnosis of a run directory; 1 where something serious is wrong. Raises UserError where it is none."""
    folder = Path(cfg.run)
    if not (folder / "config.yaml").exists():
        raise UserError(f"{folder} is no run directory (no config.yaml in it): give one of runs/<recipe>/<task>/<name>")
    found = diagnose(load_history(folder))
    if cfg.json:
        print(json.dumps({"run": str(folder), "status": found.status, **asdict(found)}))
    else:
        Console().print(drawn(found))
    return int(found.status == "serious")


def drawn(found: Diagnosis) -> Group:
    """The headline, then each finding with its evidence, remedy and samples."""
    return Group(Text(found.headline, COLOURS[found.status]), *(part for f in found.findings for part in lines(f)))


def lines(finding: Finding) -> list[Any]:
    """One finding. What a model wrote is shown as plain text, control characters as their pictures."""
    title = Text.assemble("\n", (f"{finding.severity}: {finding.name}", COLOURS[finding.severity]))
    said = Padding(Group(plain(finding.evidence), Text(finding.remedy, "cyan")), (0, 0, 0, 2))
    return [title, said, *(Padding(card(a), (0, 0, 0, 2)) for a in finding.samples)]


def card(answer: Answer) -> Panel:
    """An answer to look at."""
    reward = "not graded" if answer.reward is None else f"reward {answer.reward:+.3f}"
    title = f"step {answer.step}  {answer.task_id}  {reward}, {answer.verdict or 'no verdict'}"
    return Panel(plain(answer.completion), title=plain(title), title_align="left")


def plain(text: str) -> Text:
    """Text for a terminal: control characters as their pictures, half of a surrogate pair as a question mark."""
    return Text(as_text(text).encode("utf-8", "replace").decode())


main = small_command(keys_of(DoctorConfig), __doc__, examine)

if __name__ == "__main__":
    sys.exit(main())
