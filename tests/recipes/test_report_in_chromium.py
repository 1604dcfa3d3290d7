"""The report as a browser shows it: its numbers are the files', nothing is fetched, it fits phone, dark and paper.

`REPORT_PICTURES=folder pytest tests/recipes/test_report_in_chromium.py` keeps the screenshots and PDFs there.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from pathlib import Path

import pytest

from recipes.records.jsonl import read_jsonl
from recipes.tools.diagnosis.diagnose import diagnose
from recipes.tools.diagnosis.history import load_history
from recipes.tools.report.curves import duration
from recipes.tools.report.page import write_report
from tests.recipes.chromium import NAMES, Chromium, find
from tests.recipes.made_up_runs import MadeUp
from tests.recipes.test_report import plain

pytestmark = pytest.mark.skipif(find() is None, reason=f"no Chromium on the PATH ({', '.join(NAMES)})")

DESKTOP, PHONE = 1280, 390
PLAN = {
    "phases": {
        "load": {"weights": 0.5},
        "rollout": {"weights": 0.5, "cache": 0.75},
        "update": {"weights": 0.5, "logits": 2.25},
    },
    "budget_gib": 2.5,
}
LONG = "x" * 300
RUNS = {"healthy": ("grpo", ""), "sick": ("ppo", "reward hacking")}


def made_up(folder: Path, recipe: str, sick: str) -> Path:
    """A run directory with all that a page shows: memory and its plan, tokens with rewards, long words, a command."""
    MadeUp(recipe, 2, sick=sick).write(folder)
    config = json.loads((folder / "config.yaml").read_text())
    command = ["python", f"recipes/{recipe}.py", "task=basics", f"run.dir={LONG}"]
    more = {"command": command, "seed": 2, "model": {"name": "smollm2_135m"}}
    (folder / "config.yaml").write_text(json.dumps(config | more, indent=1))
    (folder / "plan.json").write_text(json.dumps(PLAN))
    metrics = read_jsonl(folder / "metrics.jsonl")
    for row in metrics:
        row |= {
            "memory/load": 0.5,
            "memory/rollout": 1.0 + row["step"] / 1000,
            "memory/update": 2.4 + row["step"] / 500,
        }
    write(folder / "metrics.jsonl", metrics)
    answers = read_jsonl(folder / "completions.jsonl")
    for row in answers:
        row["completion"] += f"\n# {LONG}"
        row["tokens"] = re.findall(r"\s+|\S+", row["completion"])
        count = len(row["tokens"])
        paid = {"unit_tests": [row["reward"] / count] * count, "form": [0.0] * (count - 1) + [0.1]}
        row |= {
            "token_rewards": paid,
            "weights": {"unit_tests": 1.0, "form": 0.1},
            "prompt": "Write it.",
            "advantage": 0.5,
        }
        row |= {"scores": {"unit_tests": float(row["verdict"] == "pass"), "form": 1.0}, "notes": {"form": LONG}}
    write(folder / "completions.jsonl", answers)
    return write_report(folder)


def write(path: Path, rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(find(), tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module", params=RUNS)
def page(request, tmp_path_factory) -> Path:
    return made_up(tmp_path_factory.mktemp(request.param) / "run", *RUNS[request.param])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = Path(os.environ.get("REPORT_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def texts(browser, selector: str) -> list[str]:
    """What a reader sees of the elements, in lines joined."""
    results = browser.ask(f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)")
    return [plain(" ".join(text.split())) for text in results]


def score(results) -> str:
    value, low, high = (100 * results["pass@k"]["1"][key] for key in ("value", "low", "high"))
    return f"{value:.1f}% {low:.1f}-{high:.1f}"


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_numbers_shown_are_those_of_the_files(browser, page, width):
    browser.open(page, width)
    rows, evals = read_jsonl(page.parent / "metrics.jsonl"), read_jsonl(page.parent / "evals.jsonl")
    last = rows[-1]
    curves = browser.ask(
        "[...document.querySelectorAll('.multiples figure')].map(f => [f.querySelector('b').innerText,"
        " +f.querySelector('data').value, f.querySelector('data').innerText,"
        " f.querySelector('.dots path').getAttribute('d').split('M').length - 1])"
    )
    shown = {name: (exact, plain(text), dots) for name, exact, text, dots in curves}
    for name, key in (("Reward", "reward"), ("Pass rate", "pass_rate"), ("unit_tests", "scores/unit_tests")):
        exact, text, dots = shown[name]
        assert exact == last[key] and float(text) == pytest.approx(last[key], rel=1e-3)
        assert dots == len(rows)  # every step's value stands behind its smoothed line
    assert (
        shown["Time a step"][0] == last["seconds/total"] and shown["Completion length"][0] == last["completion_tokens"]
    )

    assert f"{len(rows)} steps" in texts(browser, ".sum")[0]
    before, after = evals
    gain = 100 * (after["pass@k"]["1"]["value"] - before["pass@k"]["1"]["value"])
    cells = texts(browser, ".gains td:not(.what):not(:last-child)")
    assert cells == [score(before), score(after), f"{gain:+.1f}"]

    spent = {phase: sum(row[f"seconds/{phase}"] for row in rows) for phase in ("rollout", "grade", "update")}
    whole = sum(spent.values())
    assert texts(browser, ".parts li") == [f"{k} {duration(v)} {v / whole:.0%}" for k, v in spent.items()]

    held = {phase: max(row[f"memory/{phase}"] for row in rows) for phase in PLAN["phases"]}
    drawn = browser.ask("[...document.querySelectorAll('.memory text')].map(e => e.textContent)")
    assert drawn == [*held, *(f"{value:.4g}" for value in held.values()), "GiB"]
    planned = sum(PLAN["phases"]["update"].values())
    assert f"{held['update'] / planned:.0%} of it" in plain(browser.ask("document.body.innerText"))
    bars = browser.ask("[...document.querySelectorAll('.memory .planned path')].map(e => e.getBBox().width)")
    assert [round(wide / max(bars) * planned, 2) for wide in bars] == [0.5, 1.25, 2.75]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_doctors_verdict_comes_first(browser, page, width):
    browser.open(page, width)
    diagnosis = diagnose(load_history(page.parent))
    first = browser.ask("document.querySelector('section').className")
    assert first.split() == ["diagnosis", diagnosis.status]
    assert texts(browser, ".diagnosis > p") == [plain(diagnosis.headline)]
    assert texts(browser, ".findings .remedy") == [plain(" ".join(f.remedy.split())) for f in diagnosis.findings]
    tops = browser.ask("[...document.querySelectorAll('section')].map(e => e.getBoundingClientRect().top)")
    assert tops == sorted(tops) and tops[0] < 300


def test_completions_are_leafed_through_channel_by_channel(browser, page):
    browser.open(page, DESKTOP)
    titles = [text.split()[0] for text in texts(browser, "section > h3")]
    assert titles[-4:] == ["Best", "Worst", "Where", "Most"]
    tokens = "[...document.querySelectorAll('article .completion')[0].children].filter(e => e.textContent)"
    colours = f"{tokens}.map(e => getComputedStyle(e).background)"
    whole = browser.ask(colours)
    browser.ask("document.querySelectorAll('article')[0].querySelectorAll('label')[2].click()")
    form = browser.ask(colours)
    assert form != whole and len(set(form)) == 2 and form[-1] != form[0]  # the last token alone has earned it
    best = max(r["reward"] for r in read_jsonl(page.parent / "completions.jsonl") if r["step"] > 45)
    assert browser.ask("+document.querySelector('article .numbers data').value") == best
    assert not browser.ask("document.querySelector('article details').open")


def test_it_says_how_to_repeat_the_run(browser, page):
    browser.open(page, DESKTOP)
    command = " ".join(json.loads((page.parent / "config.yaml").read_text())["command"])
    assert texts(browser, "section:last-of-type > pre") == [command]
    browser.ask("document.querySelector('section:last-of-type details').open = true")
    assert '"prompts_per_step": 4' in texts(browser, "section:last-of-type details pre")[0]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_nothing_is_fetched(browser, page, width):
    browser.open(page, width)
    assert browser.requested == [page.as_uri()]
    linked = "[...document.querySelectorAll('*')].filter(e => e.hasAttribute('src') || e.hasAttribute('href')).length"
    assert browser.ask(linked) == 0 and browser.ask("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_nothing_sticks_out_sideways(browser, page, width):
    browser.open(page, width)
    browser.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.ask("[innerWidth, document.scrollingElement.scrollWidth]") == [width, width]
    beyond = (
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll')).map(e => [e.tagName,"
        " e.textContent.slice(0, 40), e.getBoundingClientRect()]).filter(([, , r]) => r.width && (r.left < -1 ||"
        " r.right > innerWidth + 1)).map(([tag, text, r]) => [tag, text, r.left, r.right])"
    )
    assert browser.ask(beyond) == []
    small = (
        "[...document.querySelectorAll('svg text')].map(e => [e.textContent, e.getBoundingClientRect().height])"
        ".filter(([, high]) => high && high < 9)"
    )
    assert browser.ask(small) == []  # pixels of a line of a chart's text


CONTRAST = """(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => { const [r, g, b] = parts(colour).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (parts(c).length < 4 || parts(c)[3]) return c } };
  return [...document.querySelectorAll('h1, h2, h3, h4, p, td, li, small, summary, pre, data, .verdict, .numbers')]
    .map(e => { const [a, b] = [light(getComputedStyle(e).color), light(paper(e))].sort((x, y) => y - x);
      return [e.tagName, e.textContent.slice(0, 30), (a + .05) / (b + .05)] }).filter(([, , ratio]) => ratio < 4.5)
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_in_the_light_and_in_the_dark(browser, page, dark):
    browser.open(page, DESKTOP, dark=dark)
    assert browser.ask(CONTRAST) == []  # WCAG 2.2, 1.4.3: 4.5 to 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_its_picture(browser, page, pictures, width, dark):
    browser.open(page, width, dark=dark)
    name = f"{page.parent.parent.name}-{width}-{'dark' if dark else 'light'}.png"
    size, corner, rows = png(browser.picture(pictures / name))
    assert size == (width, browser.ask("document.scrollingElement.scrollHeight")) and size[1] > 2000
    assert max(corner) < 60 if dark else min(corner) > 240
    assert len(rows) > 100  # different ones: the page is not blank


def png(path: Path) -> tuple[tuple[int, int], tuple[int, ...], set[bytes]]:
    """Width and height in pixels, the first pixel, and the rows that differ, as they are stored."""
    data, place, packed = path.read_bytes(), 8, b""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += length + 12
    raw, wide = zlib.decompress(packed), width * {2: 3, 6: 4}[kind] + 1
    return (width, height), tuple(raw[1:4]), {raw[i : i + wide] for i in range(0, len(raw), wide)}


def test_its_print(browser, page, pictures):
    browser.open(page, DESKTOP)
    data = browser.pdf(pictures / f"{page.parent.parent.name}.pdf").read_bytes()
    assert data.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", data)) >= 3
    box = [float(x) for x in re.search(rb"/MediaBox\s*\[([^\]]+)\]", data)[1].split()]
    assert box == pytest.approx([0, 0, 595, 842], abs=2)  # A4, in points
    browser.open(page, 718, dark=True, media="print")  # as wide as A4 between its margins, on a dark screen
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("getComputedStyle(document.querySelector('.gains tr')).display") == "table-row"
    assert browser.ask("document.scrollingElement.scrollWidth") <= 718
    assert browser.ask(CONTRAST) == []
