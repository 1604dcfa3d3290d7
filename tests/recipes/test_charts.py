"""The report's charts: round ticks, every value, the same drawing each time; and the texts of numbers and times."""

import re
from itertools import pairwise

import pytest

from recipes.cli.console import number
from recipes.tools.report import charts, curves
from tests.recipes.test_report import plain


def test_ticks_are_round_and_enclose_the_values() -> None:
    for low, high in ((0, 1), (0.03, 0.97), (-0.013, 0.02), (1, 60), (0, 3.7e-6), (99, 100), (-5, -1)):
        drawing = charts.curve_chart([("x", [(1, low), (2, high)])], (1, 2))
        ticks = [float(plain(text)) for text in re.findall(r"text-anchor: end[^>]*>([^<]*)<", drawing)]
        assert ticks[0] <= low + 1e-9 and ticks[-1] >= high - 1e-9 and 2 <= len(ticks) <= 6
        assert ticks == sorted(set(ticks)) and len({round((b - a) / high, 6) for a, b in pairwise(ticks)}) == 1


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (8.31102, 8.31108, ["8.31", "8.311", "8.312", "8.313"]),
        (8.3104, 8.3106, ["8.309", "8.31", "8.311", "8.312"]),  # not 8.31 beside 8.311 for 8.3104 and 8.3106
        (999_999, 1_000_037, ["998k", "999k", "1M", "1.001M", "1.002M"]),
        (0.49999, 0.50001, ["0.4999", "0.5", "0.5001"]),
        (-1000.4, -1000.1, ["-1,002", "-1,001", "-1,000", "-999"]),
    ],
)
def test_values_that_vary_less_than_four_digits_tell_have_a_wider_axis(low, high, labels) -> None:
    drawing = charts.curve_chart([("x", [(1, low), (2, high)])], (1, 2))
    assert [plain(text) for text in re.findall(r"text-anchor: end[^>]*>([^<]*)<", drawing)] == labels
    heights = re.findall(r'<g class="line">\s*<path d="M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)', drawing)[0]
    assert all(0 < float(height) < charts.SMALL[1] for height in heights)


@pytest.mark.parametrize(
    ("steps", "labels"),
    [
        ((10_000, 10_004), ["step 10,000", "10,002", "10,004"]),
        ((100_051, 100_059), ["step 100,055"]),
        ((100_000, 150_000), ["step 100k", "120k", "140k"]),
    ],
)
def test_steps_are_written_in_full_where_four_digits_do_not_tell_them(steps, labels) -> None:
    drawing = charts.curve_chart([("x", [(step, 1.0) for step in steps])], steps)
    assert re.findall(r"text-anchor: middle[^>]*>([^<]*)<", drawing) == labels


def test_small_shares_have_decimals() -> None:
    drawing = charts.interval_chart(None, charts.Interval(0.001, 0.0, 0.004), 0.004, "x")
    assert re.findall("<text[^>]*>([^<]*)<", drawing) == ["0.0%", "0.1%", "0.2%", "0.3%", "0.4%"]


def test_smoothing_is_a_centred_mean() -> None:
    assert charts.smooth([1.0, 2.0, 6.0, 3.0], 3) == pytest.approx([1.5, 3.0, 11 / 3, 4.5])
    assert charts.smooth([1.0, 5.0], 1) == [1.0, 5.0]
    assert [charts.smooth_window(count) for count in (1, 8, 60, 4000)] == [1, 5, 7, 51]


@pytest.mark.parametrize("count", [1, 60, 4000])
def test_a_chart_keeps_every_value(count: int) -> None:
    points = [(step, float(step % 7)) for step in range(1, count + 1)]
    drawing = charts.curve_chart([("x", points)], (1, count))
    (dots,) = re.findall(r'<g class="dots faint">\s*<path d="([^"]*)"', drawing)
    assert dots.count("M") == count


def test_charts_are_the_same_each_time_and_share_no_name() -> None:
    points = [(1, 0.5), (2, 0.75)]
    band = {"<run> $x$": [(0.4, 0.6), (0.7, 0.8)]}
    first, second = (charts.comparison_chart({"<run> $x$": points}, "x", bands=band) for _ in range(2))
    assert first == second and "id=" not in first and "url(" not in first and "href" not in first
    assert "&lt;run&gt; $x$</text>" in first and "#0000" not in first and "var(--line0)" in first


def test_number_and_duration_texts() -> None:
    texts = {0.31274: "0.3127", 3840: "3,840", 1.5e-6: "1.5e-6", -0.0: "0", 71.2: "71.2", -2.0: "-2"}
    assert {value: plain(number(value)) for value in texts} == texts
    assert [curves.duration(value) for value in (0.26, 48.2, 594, 7501)] == [
        "0.3 s",
        "48 s",
        "9 min 54 s",
        "2 h 05 min",
    ]
    assert [charts.tick_label(value) for value in (5000, 150_000.0, 1.5e6)] == ["5,000", "150k", "1.5M"]


def test_phases_that_ran_beside_the_update_are_not_counted_twice():
    in_turn = {"seconds/rollout": 6.0, "seconds/grade": 2.0, "seconds/wait": 8.0, "seconds/update": 2.0}
    results = curves.phases([in_turn | {"seconds/total": 10.0}])
    assert [(name, share) for name, _, share in results["parts"]] == [
        ("rollout", "60%"),
        ("grade", "20%"),
        ("update", "20%"),
    ]
    beside = {"seconds/rollout": 6.0, "seconds/grade": 2.0, "seconds/wait": 1.0, "seconds/update": 9.0}
    results = curves.phases([beside | {"seconds/total": 10.0}])
    assert [(name, share) for name, _, share in results["parts"]] == [("wait", "10%"), ("update", "90%")]
