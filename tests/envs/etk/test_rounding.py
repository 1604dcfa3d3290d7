"""A right result may differ from the reference's by rounding, and by no more: small waves on a large background."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from envs.etk.build.rounding import LARGEST, LEAST, allowed, few_digits, without_rounding
from envs.etk.completion.__main__ import main

WAVE = """
#include <cmath>
#include <cstdio>
static void write(int number, double time, const double *g) {
    char name[32];
    std::snprintf(name, sizeof name, "g_%d.txt", number);
    std::FILE *file = std::fopen(name, "w");
    std::fprintf(file, "# time %.17g\\n# g\\n", time);
    for (int i = 0; i < 50; ++i) std::fprintf(file, "FORMAT\\n", g[i]);
    std::fclose(file);
}
int main() {
    const double dx = 0.02, cfl = 0.7, speed = 1.3;
    double g[50], k[50], time = 0.0;
    for (int i = 0; i < 50; ++i) g[i] = 1.0 + 1e-8 * std::sin(6.283185307179586 * i * dx), k[i] = 1e-8;
    write(0, time, g);
    for (int step = 0; step < 10; ++step) {
        double dt = cfl * dx / speed;
        time += dt;
        for (int i = 0; i < 50; ++i) k[i] += dt * (g[(i + 1) % 50] - 2.0 * g[i] + g[(i + 49) % 50]) / (dx * dx);
        for (int i = 0; i < 50; ++i) {
            g[i] += dt * k[i];
        }
    }
    write(1, time, g);
    std::puts("finished");
}
"""
ADVECTION = {
    '"# time %.17g\\n# g\\n", time);': '"# time g\\n");',
    '"FORMAT\\n", g[i]': '"%.17g FORMAT\\n", time, g[i]',
    "double dt = cfl * dx / speed;": "double dt = cfl * dx / speed, c = speed;",
    "k[i] += dt * (g[(i + 1) % 50] - 2.0 * g[i] + ": "k[i] = -c * (g[i] - ",
    "/ (dx * dx);": ";",
    "g[i] += dt * k[i];": "g[i] += dt / dx * k[i];",
}
"""What makes of it a wave that moves one way, with the time in a column."""
TOML = """
source_dir = "wave"
cases = "cases.jsonl"
format = "text"
field = "g"
[build]
command = "g++ -o wave.ex wave.cpp"
artifact = "wave.ex"
[run]
command = ["./wave.ex"]
success_regex = "finished"
expect = ["g_1.txt"]
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(WAVE.split("\n")) if text in line)


@pytest.fixture
def rows(tmp_path, monkeypatch, capsys):
    """What completions {id, case, completion} of the wave's update and step score; its numbers printed by `form`."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    monkeypatch.setenv("CODEGRAIN_CACHE", str(tmp_path / "cache"))

    def scores(form: str, completions: dict[str, list[str]], size: str = "1e-8", **kind: bool) -> list[dict]:
        (tmp_path / "wave").mkdir()
        text = WAVE
        for old, new in ADVECTION.items() if kind else ():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "wave" / "wave.cpp").write_text(text.replace("FORMAT", form).replace("1e-8", size))
        (tmp_path / "wave.toml").write_text(TOML)
        starts = {"update": line_of("g[i] += dt"), "step": line_of("double dt")}
        cases = [{"id": name, "file": "wave.cpp", "start": at, "end": at + 1} for name, at in starts.items()]
        asked = [{"id": c, "case": name, "completion": c} for name, texts in completions.items() for c in texts]
        for file, lines in (("cases.jsonl", cases), ("rows.jsonl", asked)):
            (tmp_path / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        assert main(["score", "--application", str(tmp_path / "wave.toml"), str(tmp_path / "rows.jsonl")]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return scores


@pytest.mark.cxx
def test_a_small_wave_on_a_large_background_must_move_rightly(rows):
    """Apples with Apples' linear wave has an amplitude of 1e-8: whatever it does, the metric differs by 1e-8."""
    right, still, back = rows("%.17g", {"update": ["g[i] = k[i] * dt + g[i];", ";", "g[i] -= dt * k[i];"]})
    assert (right["verdict"], still["verdict"], back["verdict"]) == ("pass", "fields", "fields")
    assert still["density"] > 1 - 1e-7 and still["skill"] == 0.0 and right["skill"] > 0.999


@pytest.mark.cxx
def test_digits_that_cannot_tell_make_no_case(rows):
    """As where nothing changes without the masked lines: the case is not sound, and the channel is silent."""
    [still] = rows("%.7f", {"update": [";"]}, size="3e-7")
    assert still["verdict"] == "pass" and still["left_out"] == 1.0 and still["density"] < 1


@pytest.mark.cxx
def test_a_time_may_differ_in_its_last_digit(rows):
    """Of 0.7 * 0.02 / 1.3 and 0.02 * (0.7 / 1.3)."""
    right, other = rows("%.17g", {"step": ["double dt = dx * (cfl / speed);", "double dt = cfl * dx * 0.769;"]}, "0.1")
    assert (right["verdict"], right["header"], right["total"]) == ("pass", 1.0, pytest.approx(1.0))
    assert other["verdict"] == "fields" and other["header"] < 1


@pytest.mark.cxx
def test_the_same_field_at_another_time_is_not_right(rows):
    """A wrong speed: the time step follows from it, so that the field after ten steps is the same. The time stands in a
    column here, and not in the header."""
    update = "        double dt = 1.05 * cfl * dx / speed, c = speed / 1.05;"
    wrong, right = rows(
        "%.17g",
        {"step": [f"{update}\n", "double dt = cfl * dx / speed, c = speed;"]},
        "0.1",
        advection=True,
    )
    assert (wrong["density"], wrong["header"], wrong["verdict"]) == (pytest.approx(1.0), 1.0, "fields")
    assert right["verdict"] == "pass" and wrong["reasons"] == ["other times than the reference's: g_1.txt"]


@pytest.mark.parametrize("header, expected, result", [
    ("# time 0.30000000000000004\n# g\n", "# time 0.3\n# g\n", "# time 0.3\n# g\n"),
    ("t=1.0000000001e-3, n=7", "t=1e-3, n=8", "t=1e-3, n=7"), ("4000000001", "4000000000", "4000000001"),
    ("0.31 2", "0.3 2", "0.31 2"), ("1e-17 nan", "0 nan", "1e-17 nan"),
    ("a 0.1000000000000001", "b 0.1 more words", "a 0.1"), ("a b c", "a", "a b c"), ("", "1", ""),
])  # fmt: skip
def test_numbers_of_a_header(header, expected, result):
    assert without_rounding(header, expected) == result


@pytest.mark.parametrize("values, few", [
    (1.0 + 1e-8 * np.arange(9), False), (np.arange(9) / 7, False), (np.arange(9.0), True),
    ((np.arange(9) / 7).astype(np.float32).astype(np.float64), True), (np.array([0.1428571, 1.2e-30, 3.0]), True),
    (np.append(np.ones(99_999), 1.0 + 1e-8), False), (np.append(np.zeros(9), 1e300 / 7), False),
    (np.float64([f"{number:.10g}" for number in (np.arange(9) / 7).astype(np.float32)]), True),
])  # fmt: skip
def test_numbers_of_few_digits(values, few):
    assert few_digits(values) is few
    assert allowed(1e-6, values) == (LARGEST if few else pytest.approx(1e-9))
    assert allowed(0.1, values) == LARGEST and allowed(0.0, values) == (LARGEST if few else LEAST)
