"""Pictures of computed fields: which answers get one, and what is drawn of them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from recipes.evaluation.pictures import chosen, pictured, with_pictures
from recipes.tools.report.fields import field_drawing, field_drawings, standalone
from recipes.tools.report.page import write_report
from rewards.channel import ChannelResult
from rewards.compose import Grade

SHAPES = {(8,): (1, 8), (8, 6): (6, 8), (8, 6, 4): (6, 8)}


def picture(cells=(8, 6), factor=1.0, **more):
    reference = np.arange(np.prod(SHAPES[cells]), dtype=float).reshape(SHAPES[cells])
    return {
        "field": "density",
        "plotfile": "plt00005",
        "time": 0.1,
        "cells": list(cells),
        "skill": 0.25,
        "time_mismatch": False,
        "reference": reference.tolist(),
        "result": (factor * reference).tolist(),
        **more,
    }


def row(task_id, reward, **more):
    made = {"when": "after", "task": "t", "task_id": task_id, "sample": 0, "temperature": 0.0, "reward": reward}
    return made | {"passed": reward == 1, "verdict": "pass" if reward == 1 else "fields", **more}


def graded(made):
    return Grade({"simulation": ChannelResult(0.0, picture=None if made is None else lambda: made)}, {}, {})


def test_one_that_passes_and_failing_ones_from_the_worst_to_the_best():
    rows = [row("a", 1), row("b", 0.9), row("a", 0.1), *(row(f"c{n}", n / 10) for n in range(8)), row("d", 1)]
    results = [(rows[i]["task_id"], rows[i]["reward"]) for i in chosen(rows)]
    assert results == [("a", 1), ("c0", 0.0), ("c4", 0.4), ("b", 0.9)]
    few = rows[-3:]
    assert [few[i]["task_id"] for i in chosen(few)] == ["d", "c6", "c7"]
    assert chosen([row("a", 1), row("b", 1), row("c", 1)], 2) == [0, 1] and chosen([]) == []
    assert chosen(rows, 0) == []


def test_the_reference_is_stored_once_and_a_failed_build_has_no_picture():
    made = [picture(), None, picture(factor=2.0), picture(factor=3.0)]
    rows = [row("a", 1), row("b", 0, verdict="build"), row("c", 0.5), row("d", 0.6)]
    stored = with_pictures(rows, [*map(graded, made[:3]), None])
    assert ["picture" in each for each in stored] == [True, False, True, False]
    assert "reference" in stored[0]["picture"] and "reference" not in stored[2]["picture"]
    assert [each["picture"] for each in pictured(stored)] == [made[0], made[2]]
    assert with_pictures(rows, [*map(graded, made)], 0) == rows


@pytest.mark.parametrize("cells", SHAPES)
def test_three_panels_are_drawn(cells):
    drawn = field_drawing(row("t/<case>", 0.5, picture=picture(cells, 2.0)))
    for text in ("t/&lt;case&gt;: fields, skill 0.25", "density in plt00005 at time 0.1", "x, cells"):
        assert text in drawn
    flat = len(cells) == 1
    assert drawn.count("<image") == (0 if flat else 5) and drawn.count('class="line"') == (3 if flat else 0)
    assert ("y, cells" in drawn) == (not flat) and ("middle slice in z" in drawn) == (len(cells) == 3)
    assert "≥" not in drawn and ("≥" in field_drawing(row("t", 0, picture=picture(cells, 9.0)))) == (not flat)
    late = field_drawing(row("t", 0, picture=picture(cells, time_mismatch=True, skill=None)))
    assert "the result at another time" in late and "skill" not in late


@pytest.mark.parametrize("values", [0.0, 1e308, -1e-300])
def test_a_field_of_one_value_and_a_huge_result_can_be_drawn(values):
    reference, result = [[1.0, 1.0]] * 2, [[values, -values]] * 2
    assert field_drawing(row("t", 0, picture=picture(reference=reference, result=result))).count("<image") == 5


def test_drawings_are_of_the_last_evaluation_and_equal_each_time():
    rows = [row("a", 1, when="before", picture=picture()), row("a", 1, picture=picture()), row("b", 0.5)]
    (drawn,) = field_drawings(rows)
    assert field_drawings(rows) == [drawn] and field_drawings(rows[::2]) == field_drawings([]) == []


def test_a_run_that_was_prolonged_draws_its_last_end():
    rows = [row(name, 1, when="after", step=20, picture=picture()) for name in ("a", "b", "c")]
    rows += [row("a", 1, when="after", step=40, picture=picture())]
    assert len(field_drawings(rows)) == 1


def test_the_file_needs_nothing_else():
    text = standalone(field_drawings([row("a", 1, picture=picture()), row("b", 0.1, picture=picture((8,)))]))
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and "var(" not in text
    words = "".join(root.itertext())
    assert "a: pass, skill 0.25" in words and "b: fields" in words


def test_the_page_contains_the_drawing(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: {name: ppo}\ntask: {name: t}\nmodel: {name: m}\nseed: 0\n")
    for more, count in (({"picture": picture()}, 1), ({}, 0)):
        (tmp_path / "eval_samples.jsonl").write_text(json.dumps(row("a", 1, **more)) + "\n")
        page = write_report(tmp_path).read_text()
        assert page.count('class="chart wide fields"') == page.count("What the programs computed") == count
        assert page.count("img-src data:") == count
