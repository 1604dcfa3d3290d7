"""The project's text is spelled right and free of wordings that readers trip over (tests/words.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.words import ROOT, complaints, main


def test_no_text_has_a_wording_to_avoid(capsys):
    assert main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["The text has not.", "Where it goes over the profile's.", "class RunManager:", "see recipes/utils.py"],
)
def test_a_wording_to_avoid_is_named(text):
    assert [line for line, *_ in complaints(f"first line\n{text}\n")] == [2]


def test_words_are_spelled_right():
    done = subprocess.run([sys.executable, "-m", "codespell_lib"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
