"""The run report: what it shows equals the files, hostile text stays text, and nothing is fetched."""

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from recipes.cli.console import MINUS_SIGN
from recipes.records.jsonl import by_step, stream_jsonl
from recipes.tools.report.page import main, write_report
from recipes.tools.report.verdicts import latest_answers, verdict_tables

CONFIG = """
recipe: {name: grpo, num_generations: 8}
task: {name: basics}
model: {name: example/coder-0.5b}
seed: 7
command: python -m recipes.train recipe=grpo
"""
HOSTILE = '</pre></script><script>alert("x")</script><img src=http://evil.example/a.png onerror=alert(1)>&amp;'
VOID = {"meta", "input", "br", "img", "link"}


def plain(text: str) -> str:
    """Text with a hyphen for the minus signs and dashes of typeset numbers."""
    return text.replace(MINUS_SIGN, "-").replace("\N{EN DASH}", "-")


class Page(HTMLParser):
    """A report taken apart: its elements, the text of every completion, and all of its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.completions: list[str] = []
        self.text = ""
        self.inside = False
        self.open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.text = plain(" ".join(self.text.split()))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre" and ("class", "completion") in attrs:
            self.inside = True
            self.completions.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data
        if self.inside:
            # A browser drops the line break that directly follows <pre>.
            self.completions[-1] += "" if self.open[-1] == "pre" else data

    def values(self) -> set[float]:
        """Numbers the page states exactly, in <data value>."""
        return {float(attrs["value"] or "nan") for tag, attrs in self.elements if tag == "data"}


def metric_row(step: int) -> dict[str, Any]:
    """One step's metrics, every value of its own so that a mix-up shows."""
    return {
        "step": step,
        "reward": 0.31 + step / 1000,
        "pass_rate": 0.12 + step / 1000,
        "scores/unit_tests": 0.23 + step / 1000,
        "scores/form": 0.64 + step / 1000,
        "groups_skipped": 3,
        "groups_total": 6,
        "ungraded": 0,
        "loss": -0.015,
        "grad_norm": 0.41,
        "learning_rate": 1e-4,
        "entropy": 0.97,
        "kl": 0.002,
        "completion_tokens": 71.25,
        "truncated": 0.14,
        "tokens_per_second": 301.5,
        "seconds/rollout": 5.1,
        "seconds/grade": 0.3,
        "seconds/update": 4.0,
        "seconds/total": 9.9,
        "brand_new_metric": 42.125,
    }


def evaluation(when: str, value: float, **other: Any) -> dict[str, Any]:
    """One evaluation of the basics task at temperature 1."""
    results = {"1": {"value": value, "low": value - 0.04, "high": value + 0.04}}
    base = {"when": when, "step": 0, "task": "basics", "split": "test", "problems": 58, "samples": 4}
    return base | {"temperature": 1.0, "pass@k": results, "mean_tokens": 70.1, "seconds": 55.0} | other


def completion(step: int, reward: float | None, text: str = "return x", **other: Any) -> dict[str, Any]:
    """One completion of two channels whose token rewards sit on the first and the last token."""
    tokens = re.findall(r"\s+|[^\s]+", text)
    unit_tests = [0.0] * (len(tokens) - 1) + [0.5]
    form = [-0.5] + [0.0] * (len(tokens) - 1)
    base = {
        "step": step,
        "task_id": f"basics/task{step}",
        "prompt": "Write it.",
        "completion": text,
        "tokens": tokens,
        "token_rewards": {"unit_tests": unit_tests, "form": form},
        "scores": {"unit_tests": 0.625, "form": -0.375},
        "weights": {"unit_tests": 1.0, "form": 0.1},
        "reward": reward,
        "advantage": 0.1875,
        "verdict": "fail",
        "notes": {"unit_tests": "3 of 5 cases"},
    }
    return base | other


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of twenty steps."""
    path = tmp_path / "run"
    path.mkdir()
    (path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    write_lines(path / "metrics.jsonl", [metric_row(step) for step in range(1, 21)])
    greedy = {"temperature": 0.0, "samples": 1}
    rows = [evaluation("before", 0.1121), evaluation("before", 0.25, **greedy)]
    rows += [evaluation("step 10", 0.2), evaluation("after", 0.4243), evaluation("after", 0.225, **greedy)]
    write_lines(path / "evals.jsonl", rows)
    samples = [completion(step, step / 32, f"step {step} reward {step / 32}") for step in range(1, 21)]
    write_lines(path / "completions.jsonl", samples)
    return path


def test_complete_run_has_every_part(run: Path) -> None:
    path = write_report(run)
    assert path == run / "report.html"
    assert not [other for other in run.iterdir() if other.name.startswith(".report")]
    page = Page(path)
    assert page.open == []
    for text in (
        "grpo on basics",
        "example/coder-0.5b, seed 7",
        "20 steps",
        "python -m recipes.train recipe=grpo",
    ):
        assert text in page.text
    titles = [
        "What the run changed",
        "The run at a glance",
        "Training curves",
        "Time by phase",
        "Sample completions",
        "How to repeat the run",
    ]
    places = [page.text.index(title) for title in titles]
    assert places == sorted(places)
    for title in (
        "Best",
        "Worst",
        "Where it started",
        "num_generations: 8",
        "3 of 5 cases",
        "brand_new_metric",
    ):
        assert title in page.text


def test_numbers_equal_the_files(run: Path) -> None:
    page = Page(write_report(run))
    row = metric_row(20)
    drawn = set(row) - {
        "step",
        "groups_total",
        "groups_skipped",
        "seconds/rollout",
        "seconds/grade",
        "seconds/update",
    }
    assert {row[key] for key in drawn} <= page.values()
    assert 3 / 6 in page.values()  # degenerate groups, as a share
    assert {0.625, -0.375, 0.1875, 20 / 32, 1 / 32} <= page.values()  # of the completions
    assert "960 graded samples" in page.text  # 20 steps of 6 groups of 8
    assert "3 min 18 s" in page.text  # 20 * 9.9 s
    assert "rollout 1 min 42 s 52%" in page.text and "other 10 s 5%" in page.text
    assert "11.2% 7.2-15.2" in page.text and "42.4% 38.4-46.4 +31.2" in page.text
    assert "22.5% 18.5-26.5 -2.5" in page.text  # greedy, which got worse
    assert "temperature 1.0, 4 samples, 58 problems" in page.text and "greedy, 58 problems" in page.text


def test_only_config(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    page = Page(write_report(tmp_path))
    assert "grpo on basics" in page.text
    assert "No step recorded yet." in page.text and "No evaluation recorded yet." in page.text
    assert "Training curves" not in page.text and "Sample completions" not in page.text


def test_empty_files_and_empty_config(tmp_path: Path) -> None:
    for name in ("config.yaml", "metrics.jsonl", "evals.jsonl", "completions.jsonl"):
        (tmp_path / name).touch()
    assert tmp_path.name in Page(write_report(tmp_path)).text


def test_hostile_text_stays_text(run: Path) -> None:
    hostile = completion(20, 9.0, HOSTILE, task_id=HOSTILE, prompt=HOSTILE, verdict=HOSTILE)
    hostile |= {"scores": {HOSTILE: 1.0}, "notes": {HOSTILE: HOSTILE}, "token_rewards": {HOSTILE: [1.0]}}
    write_lines(run / "completions.jsonl", [hostile])
    write_lines(run / "metrics.jsonl", [metric_row(1) | {f"scores/{HOSTILE}": 1.0, HOSTILE: 2.0}])
    write_lines(run / "evals.jsonl", [evaluation("before", 0.1, task=HOSTILE), evaluation(HOSTILE, 0.2)])
    (run / "config.yaml").write_text(json.dumps({"recipe": {"name": HOSTILE}, "command": HOSTILE}))
    page = Page(write_report(run))
    assert page.open == []
    assert HOSTILE in page.completions
    assert not {"script", "img", "iframe", "link", "object"} & {tag for tag, _ in page.elements}
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]


def test_nothing_is_fetched(run: Path) -> None:
    page = Page(write_report(run))
    names = {name for _, attrs in page.elements for name in attrs}
    assert not names & {"src", "href", "srcset", "xlink:href", "action", "poster"}
    assert "url(" not in page.source and "@import" not in page.source
    policy = [attrs["content"] for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "evals.jsonl", "completions.jsonl"])
def test_cut_last_line_is_ignored(run: Path, name: str) -> None:
    whole = write_report(run).read_text(encoding="utf-8")
    with (run / name).open("ab") as file:
        file.write('{"step": 21, "task_id": "é'.encode()[:-1])  # cut inside a character
    assert write_report(run).read_text(encoding="utf-8") == whole


def test_broken_line_before_the_last_is_an_error(run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 21, "rew\n' + json.dumps(metric_row(22)) + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 21"):
        write_report(run)
    assert not (run / "report.html").exists()


def test_chosen_completions(run: Path) -> None:
    rows = [completion(1, None, "not graded"), completion(1, 0.9, "first", task_id="same")]
    rows += [completion(1, 0.2, "second"), completion(1, 0.1, "third", task_id="same")]
    rows += [completion(10, 5.0, "best, but in the middle")]
    rows += [completion(20, reward / 10, f"late {reward}") for reward in (4, 1, 6, 3, 2, 5, 0)]
    rows += [completion(20, 0.35, "late, same task", task_id="same")]
    write_lines(run / "completions.jsonl", rows)
    page = Page(write_report(run))
    best, worst, started = ["late 6", "late 5", "late 4"], ["late 0", "late 1", "late 2"], ["first", "second"]
    # "same" went from a mean of 0.5 to 0.35; of the two at 0.4 from the mean the one written first is shown.
    assert page.completions == best + worst + started + ["first", "late, same task"]
    assert "same: mean reward 0.5 over 2 samples at step 1, 0.35 over 1 sample at step 20" in page.text


def test_equal_rewards_show_different_tasks(run: Path) -> None:
    tasks = ["a", "a", "a", "b", "c"]
    rows = [completion(5, 1.0, f"{task}{index}", task_id=task) for index, task in enumerate(tasks)]
    write_lines(run / "completions.jsonl", rows)
    assert Page(write_report(run)).completions[:3] == ["a0", "b3", "c4"]


def test_tokens_carry_their_rewards(run: Path) -> None:
    write_lines(run / "completions.jsonl", [completion(1, 0.5, "pass now")])
    spans = [attrs for tag, attrs in Page(write_report(run)).elements if tag == "span" and "title" in attrs]
    # --c0 is the weighted sum: -0.5 * 0.1 and 0.5 * 1.0, drawn beside the largest, 0.5.
    assert spans[0]["style"] == "--c0:-0.100;--c2:-1.000"
    assert plain(spans[0]["title"] or "") == "weighted sum -0.05\nunit_tests 0\nform -0.5"
    assert "style" not in spans[1]
    assert spans[2]["style"] == "--c0:1.000;--c1:1.000"


def test_text_without_matching_tokens_is_not_lost(run: Path) -> None:
    rows = [completion(1, 3.0, "no tokens", tokens=[], token_rewards={})]
    rows += [
        completion(1, 2.0, "more text", tokens=["more"]),
        completion(1, 1.0, "text", tokens=["te\ufffd"]),
    ]
    write_lines(run / "completions.jsonl", rows)
    page = Page(write_report(run))
    assert page.completions[:3] == ["no tokens", "more text", "te\ufffd"]
    assert "do not join to the completion's text, shown here text" in page.text


def test_half_a_surrogate_pair_and_control_characters(run: Path) -> None:
    write_lines(run / "completions.jsonl", [completion(1, 1.0, "a\ud83d\x00\x1b", tokens=["a\ud83d\x00\x1b"])])
    assert Page(write_report(run)).completions[0] == "a?␀␛"


def test_sparse_rows_and_values_that_are_not_finite(run: Path) -> None:
    write_lines(run / "metrics.jsonl", [{"step": 1, "loss": math.nan}, {"loss": 0.5, "note": "x"}, {"step": 3}])
    write_lines(run / "completions.jsonl", [{"step": 1, "reward": 0.5}])
    write_lines(run / "evals.jsonl", [{"when": "before"}, {"task": "basics", "pass@k": {"1": {"value": 0.5}}}])
    page = Page(write_report(run))
    assert "3 steps" in page.text and "graded samples" not in page.text
    assert "1 value not finite" in page.text and 0.5 in page.values()
    drawings = re.findall("<svg.*?</svg>", page.source, re.DOTALL)
    assert drawings and "nan" not in "".join(drawings).lower() and not any(map(math.isnan, page.values()))


def test_unfinished_run_says_which_evaluation_stands_in(run: Path) -> None:
    write_lines(run / "evals.jsonl", [evaluation("before", 0.1), evaluation("step 40", 0.3, step=40)])
    assert "30.0% 26.0-34.0 so far, at step 40 +20.0" in Page(write_report(run)).text


def test_ungraded_samples_are_not_called_graded(run: Path) -> None:
    write_lines(run / "metrics.jsonl", [metric_row(1) | {"ungraded": 5}])
    page = Page(write_report(run))
    assert "48 samples, 5 ungraded" in page.text and "graded samples" not in page.text


def test_all_graded_answers_are_counted_where_the_rows_say_how_many(run: Path) -> None:
    """Second turns and replaced groups too. With num_iterations=2 every second row has no rollout."""
    update = {"step": 2, "loss": 0.1, "seconds/total": 1.0}
    write_lines(run / "metrics.jsonl", [metric_row(1) | {"graded_samples": 96.0}, update])
    assert "96 graded samples" in Page(write_report(run)).text
    write_lines(run / "metrics.jsonl", [metric_row(1) | {"graded_samples": 96.0, "episode": 48}])
    assert "96 graded samples" in Page(write_report(run)).text


def test_resumed_run_keeps_the_later_row_of_a_step(run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(metric_row(20) | {"reward": 0.77}) + "\n")
    page = Page(write_report(run))
    assert "20 steps" in page.text and "1 steps run again" not in page.text and "1 step run again" in page.text
    assert 0.77 in page.values() and metric_row(20)["reward"] not in page.values()
    assert list(by_step([{"step": 2}, {"step": 1}])) == [1, 2]


def test_records_offsets_lead_back_to_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes('{"a": "é\u2028"}\n\n{"a": 2}\n'.encode())
    results = list(stream_jsonl(path))
    assert [record["a"] for _, record in results] == ["é\u2028", 2]
    assert [json.loads(path.read_bytes()[offset:].split(b"\n")[0]) for offset, _ in results] == [r for _, r in results]


def test_command_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert main([str(run / "absent")]) == 1
    assert "config.yaml" in capsys.readouterr().err


def test_answers_of_an_evaluation_that_was_made_again_do_not_count():
    """A run that was prolonged with fewer samples: its first end, and what was before training with more samples."""

    def rows(when, step, samples, verdict):
        places = [("a", 0), ("a", 1), ("b", 0), ("b", 1)] if samples == 2 else [("a", 0), ("b", 0)]
        kind = {"task": "basics", "temperature": 1.0, "when": when, "step": step, "verdict": verdict}
        return [kind | {"task_id": name, "sample": sample} for name, sample in places]

    again = [*rows("before", 0, 1, "pass"), *rows("after", 3, 1, "pass")]
    written = [*rows("before", 0, 2, "fail"), *rows("after", 2, 2, "fail"), *again]
    assert latest_answers(written) == again
    [table] = verdict_tables(latest_answers(written))
    assert table["answers"] == (2, 2) and [row[0] for row in table["rows"]] == ["pass"]
    greedy = [row | {"temperature": 0.0} for row in rows("after", 3, 1, "fail")]
    assert latest_answers([*written, *greedy]) == [*again, *greedy]
