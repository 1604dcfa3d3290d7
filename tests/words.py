"""Wordings that a reader whose second language is English trips over; `make lint` names where one stands.

    python tests/words.py

Checks the text of all tracked files but the changelog, stored results, this file and its test. codespell finds
misspelled words.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLAIN = {
    r"talk their way": "cannot cheat",
    r"as \w+ is,? it makes \w+'s own": "matches ...'s numerically",
    r"number for number[.;)]": "numerically equal",
    r"goes? on where it (?:was )?stopped": "resumes",
    r"goes? over the profile": "overrides",
    r"anything else says what it is": "other values are labelled",
    r"what cannot point": "rewards without a location",
    r"is no beginning of": "is not the beginning of",
    r"(?:has|have|had) not[.;,]": "a full verb: does not have it",
    r"says whether it has": "measures",
    r"whatever else": "name what is meant",
    r"ends what runs beside": "stops the background workers",
    r"the works'": "the published works'",
    r"what (?:was|has been) said": "message, reply, output",
    r"\bgoes again\b": "is removed",
    r"(?:class|def) \w*(?-i:Manager|Helper|Utils?)\b": "name what it does",
    r"\b(?:helpers?|utils?|misc|support)\.py": "name what it holds",
}
"""Wordings, as regular expressions, with what to write instead."""
LEFT_OUT = ("CHANGELOG.md", "tests/words.py", "tests/test_words.py", "tests/bench/results/")
KINDS = (".py", ".md", ".yaml", ".toml", ".j2", ".sh", "Makefile")


def complaints(text: str) -> list[tuple[int, str, str]]:
    """(line, wording, what to write instead) of a text."""
    return [
        (number, match.group(), instead)
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in PLAIN.items()
        if (match := re.search(pattern, line, re.IGNORECASE))
    ]


def text_files() -> list[str]:
    """The project's files: those that git tracks or, in a copy without git, all but hidden and made ones."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout.splitlines()
    names = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [str(n) for n in names if not n.parts[0].startswith((".", "runs", "outputs", "build", "dist"))]


def main() -> int:
    files = [name for name in text_files() if name.endswith(KINDS) and not name.startswith(LEFT_OUT)]
    status = 0
    for name in files:
        for line, wording, instead in complaints((ROOT / name).read_text()):
            print(f"{name}:{line}: {wording!r}: write plainly ({instead})")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
