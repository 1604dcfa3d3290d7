"""Runs side by side: names that can be told apart, and every run's number beside its point."""

from __future__ import annotations

import re

from recipes import table


def row(name: str, tokens: float, passed: float) -> dict:
    scores = {"pass@1": passed, "low": passed / 2, "high": passed * 2, "mean_tokens": tokens}
    return {"run": name, "recipe": "ppo", "decoding": "greedy", "graded_samples": 32, "minutes": 1.0, **scores}


def test_names_keep_what_tells_runs_apart():
    assert table.without_common_parts(["a_1-model-seed0", "a_2-model-seed0-lr-3"]) == ["a_1", "a_2-lr-3"]
    assert table.without_common_parts(["only-model"]) == ["only-model"]


def test_every_row_has_a_point_and_points_that_coincide_share_a_label():
    rows = [row(f"run{i}", tokens, 0.125) for i, tokens in enumerate((100, 140, 141, 140.5))]
    page = table.page(rows, "humaneval")
    assert page.count("<circle") == 4
    drawing = page[page.index('<g class="greedy">') : page.index("</svg>")]
    assert re.findall("<text[^>]*>([^<]*)</text>", drawing) == ["1", "2, 3, 4"]
