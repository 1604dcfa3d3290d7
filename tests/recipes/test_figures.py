"""The report's four pictures hold what the run's files say."""

from __future__ import annotations

import re

from recipes.support.charts import Frame, curve_sections
from recipes.support.figures import MOST_PROBLEMS, figures

STEPS = {
    step: {
        "step": step,
        "reward": step / 10,
        "scores/bleu": 0.5,
        "scores/judge": float("nan"),
        "bleu/copy_bleu": 0.25,
        "loss/policy_avg": -0.01,
        "loss/value_avg": 2.0,
    }
    for step in (1, 2, 3)
}


def evaluation(step: int, density: float, temperature: float = 1.0, task: str = "etk_completion") -> dict:
    stages = {"simulation/compile": 1.0, "simulation/density": density, "simulation/baseline": 0.9, "other/x": 5.0}
    passed = {"1": {"value": density / 2}}
    found = {"task": task, "step": step, "temperature": temperature, "reward": 0.5, "pass@k": passed}
    return found | {"scores": {"simulation": 0.5}, "measures": stages}


def sample(step: int, name: str, reward: float | None, temperature: float = 1.0) -> dict:
    when = "after" if step else "before"
    row = {"task": "etk_completion", "when": when, "step": step, "task_id": name}
    return row | {"temperature": temperature, "reward": reward}


def named(found: list[dict]) -> dict[str, dict]:
    return {figure["title"]: figure for figure in found}


def paths(drawn: str, kind: str) -> list[str]:
    return re.findall(rf'<path class="{kind}" d="([^"]*)"', str(drawn))


def test_the_reward_stands_beside_its_parts_and_each_loss_has_its_scale():
    found = named(figures(STEPS, [], [], "etk"))
    assert set(found) == {"Reward and its parts", "Losses"}
    assert [name for _, name in found["Reward and its parts"]["legend"]] == ["reward", "bleu"]  # no judge: not a number
    chart = found["Reward and its parts"]["svgs"][0]
    assert "reward 0.3, bleu 0.5" in chart
    [line] = paths(chart, "line s0")
    frame = Frame([0.1, 0.2, 0.3, 0.5], (1, 3), 460, 210)
    expected = "L".join(f"{x:.1f} {y:.1f}" for x, y in frame.places([(1, 0.1), (2, 0.2), (3, 0.3)]))
    assert line == f"M{expected}"
    assert [name for _, name in found["Losses"]["legend"]] == ["policy loss", "value loss"]
    assert len(found["Losses"]["svgs"]) == 2


def test_held_out_scores_are_drawn_by_checkpoint_for_each_way_of_sampling():
    evals = [evaluation(step, density) for step, density in ((0, 0.2), (50, 0.4), (100, 0.6))]
    evals += [evaluation(0, 0.3, temperature=0.0), evaluation(0, 0.9, task="basics")]
    sampled, greedy = (f for f in figures({}, evals, [], "etk_completion"))
    assert [name for _, name in sampled["legend"]] == ["reward", "pass@1", "compile", "density"]
    assert "temperature 1" in sampled["note"] and "greedy" in greedy["note"]
    assert "pass@1 0.3, compile 1, density 0.6" in sampled["svgs"][0]
    assert paths(sampled["svgs"][0], "dots s3")[0].count("h.01") == 3


def test_each_problem_is_paired_with_itself():
    rows = [sample(0, "a", 0.2), sample(0, "a", 0.4), sample(0, "b", 0.9), sample(0, "c", 0.1), sample(0, "d", None)]
    rows += [sample(10, "a", 0.8), sample(10, "b", 0.5), sample(10, "c", 0.1), sample(10, "d", 1.0), sample(10, "e", 1)]
    rows += [sample(0, "a", 0.5, temperature=0.0)]
    [figure] = figures({}, [], rows, "etk_completion")
    assert "earned before training" in figure["note"] and "1 of 3 earn more after training, 1 less" in figure["note"]
    chart = figure["svgs"][0]
    assert [path.count("V") for path in paths(chart, "rise") + paths(chart, "fall")] == [1, 1]
    many = [sample(step, f"p{n:04}", n + step) for step in (0, 10) for n in range(3 * MOST_PROBLEMS)]
    [figure] = figures({}, [], many, "etk_completion")
    assert "600 of 600" in figure["note"] and "Every 3.0th is drawn" in figure["note"]
    assert paths(figure["svgs"][0], "dots was")[0].count("h.01") == MOST_PROBLEMS


def test_nothing_is_drawn_of_nothing():
    assert figures({}, [], [], "etk") == []


def test_measures_have_a_section_of_their_own():
    titles = {title: [curve["name"] for curve in found] for title, found in curve_sections(dict(STEPS))}
    assert titles["Measured by the channels"] == ["bleu: copy_bleu"] and "Everything else" not in titles
