"""The report's four pictures hold what the run's files say."""

from __future__ import annotations

import re

import pytest

from recipes.tools.report.curves import curve_sections
from recipes.tools.report.figures import MOST_PROBLEMS, figures

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
    results = {"task": task, "step": step, "temperature": temperature, "reward": 0.5, "pass@k": passed}
    return results | {"scores": {"simulation": 0.5}, "measures": stages}


def sample(step: int, name: str, reward: float | None, temperature: float = 1.0) -> dict:
    when = "after" if step else "before"
    row = {"task": "etk_completion", "when": when, "step": step, "task_id": name}
    return row | {"temperature": temperature, "reward": reward}


def named(results: list[dict]) -> dict[str, dict]:
    return {figure["title"]: figure for figure in results}


def paths(drawn: str, kind: str) -> list[list[tuple[float, float]]]:
    """The corners of each path of a kind, in CSS pixels."""
    results = re.findall(rf'<g class="{kind}">\s*<path d="([^"]*)"', str(drawn))
    return [[tuple(map(float, place.split())) for place in re.split("[MLz]", path) if place] for path in results]


def value_at(drawn: str, y: float) -> float:
    """What the vertical axis says at a height."""
    ticks = re.findall(r'text-anchor: end[^>]*y="([\d.]+)">([^<]*)<', str(drawn))
    (low_y, low), (high_y, high) = ((float(height), float(text)) for height, text in (ticks[0], ticks[-1]))
    baseline = float(ticks[0][0]) - paths(drawn, "axis zero")[0][0][1]
    return low + (y + baseline - low_y) / (high_y - low_y) * (high - low)


def test_the_reward_stands_beside_its_parts_and_each_loss_has_its_scale():
    results = named(figures(STEPS, [], [], "etk"))
    assert set(results) == {"Reward and its parts", "Losses"}
    assert [name for _, name in results["Reward and its parts"]["legend"]] == [
        "reward",
        "bleu",
    ]  # no judge: not a number
    chart = results["Reward and its parts"]["svgs"][0]
    assert "reward 0.3, bleu 0.5" in chart
    line, part = paths(chart, "line")
    assert [value_at(chart, y) for _, y in line] == pytest.approx([0.1, 0.2, 0.3], abs=0.002)
    assert [value_at(chart, y) for _, y in part] == pytest.approx([0.5, 0.5, 0.5], abs=0.002)
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)
    assert [name for _, name in results["Losses"]["legend"]] == ["policy loss", "value loss"]
    assert len(results["Losses"]["svgs"]) == 2


def test_held_out_scores_are_drawn_by_checkpoint_for_each_way_of_sampling():
    evals = [evaluation(step, density) for step, density in ((0, 0.2), (50, 0.4), (100, 0.6))]
    evals += [evaluation(0, 0.3, temperature=0.0), *(evaluation(step, 0.9, task="basics") for step in (0, 50))]
    sampled, greedy, other = (f for f in figures({}, evals, [], "etk_completion"))
    assert other["title"] == f"{sampled['title']}, basics"  # evaluated beside the run's own task
    assert {len(dots) // 2 for dots in paths(other["svgs"][0], "dots")} == {2}
    assert [name for _, name in sampled["legend"]] == ["reward", "pass@1", "compile", "density"]
    assert "temperature 1" in sampled["note"] and "greedy" in greedy["note"]
    assert "pass@1 0.3, compile 1, density 0.6" in sampled["svgs"][0]
    assert [len(dots) // 2 for dots in paths(sampled["svgs"][0], "dots")] == [3, 3, 3, 3]


def test_each_problem_is_paired_with_itself():
    rows = [sample(0, "a", 0.2), sample(0, "a", 0.4), sample(0, "b", 0.9), sample(0, "c", 0.1), sample(0, "d", None)]
    rows += [sample(10, "a", 0.8), sample(10, "b", 0.5), sample(10, "c", 0.1), sample(10, "d", 1.0), sample(10, "e", 1)]
    rows += [sample(0, "a", 0.5, temperature=0.0)]
    [figure] = figures({}, [], rows, "etk_completion")
    assert "earned before training" in figure["note"] and "1 of 3 earn more after training, 1 less" in figure["note"]
    chart = figure["svgs"][0]
    [(a, b)], [(c, d)] = paths(chart, "rise"), paths(chart, "fall")
    assert (a[0], c[0]) == (b[0], d[0]) and b[1] < a[1] and d[1] > c[1]  # upwards is less in an SVG
    many = [sample(step, f"p{n:04}", n + step) for step in (0, 10) for n in range(3 * MOST_PROBLEMS)]
    [figure] = figures({}, [], many, "etk_completion")
    assert "600 of 600" in figure["note"] and f"{MOST_PROBLEMS} of them are drawn" in figure["note"]
    assert len(paths(figure["svgs"][0], "dots before")[0]) == 2 * MOST_PROBLEMS


@pytest.mark.parametrize(
    ("channels", "says"), [(7, ""), (8, " 1 further one is not drawn."), (9, " 2 further ones are not drawn.")]
)
def test_lines_for_which_there_is_no_colour_are_counted(channels, says):
    steps = {step: {"reward": step} | {f"scores/c{n}": n + step / 9 for n in range(channels)} for step in (1, 2)}
    [figure] = figures(steps, [], [], "etk")
    assert figure["note"].endswith("before its weight." + says) and len(figure["legend"]) == 8


def test_problems_are_named_by_their_split():
    rows = [sample(step, name, step / 10) for step in (0, 10) for name in "ab"]
    evals = [evaluation(step, step / 100) | {"split": "train"} for step in (0, 10)]
    scores, problems = figures({}, evals, rows, "etk_completion")
    assert "answers to training problems" in scores["note"] and problems["note"].startswith("Training problems by")
    _, problems = figures({}, [row | {"split": "validation"} for row in evals], rows, "etk_completion")
    assert problems["note"].startswith("Held-out problems by")


def test_nothing_is_drawn_of_nothing():
    assert figures({}, [], [], "etk") == []


def test_measures_have_a_section_of_their_own():
    titles = {title: [curve["name"] for curve in section] for title, section in curve_sections(STEPS).items()}
    assert titles["Measured by the channels"] == ["bleu: copy_bleu"] and "Everything else" not in titles
