"""One picture of a run: a completion with its tokens coloured by reward, beside the curve of the run it came from.

    python tests/bench/picture.py RUN_DIR PROBLEM --step 12 -o tests/bench/results/tokens.svg

An SVG that reads on light and dark pages. The completion is the first of PROBLEM at that step; --skip: a later one.
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.look import token_rewards
from recipes.support.charts import polyline, round_ticks, smooth, smooth_window, tick_label
from recipes.support.records import read_jsonl
from recipes.support.run_dir import write_text

WIDTH, LINE, CHAR, LEFT, TOP = 980, 19, 7.83, 20, 62
CURVE = (600, 70, 350)
"""Where the curve stands: x, y, width."""
FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("problem")
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--title", default="")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    rows = [
        r for r in read_jsonl(args.run / "completions.jsonl") if (r["step"], r["task_id"]) == (args.step, args.problem)
    ]
    if not rows[args.skip :]:
        sys.exit(f"error: {args.run} keeps no such completion of {args.problem} at step {args.step}")
    metrics = read_jsonl(args.run / "metrics.jsonl")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    write_text(args.output, drawn(rows[args.skip], metrics, args.title or args.run.name))


def drawn(row: dict, metrics: list[dict], title: str) -> str:
    """The picture's source."""
    tokens, lines = coloured(row)
    height = max(TOP + (lines + 2) * LINE + 26, 330)
    said = [f"{name} {score:+.2f}" for name, score in row["scores"].items()]
    notes = "; ".join(note for note in row["notes"].values() if note)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13" font-family="{FAMILY}"'
        f' role="img" aria-label="A completion with its tokens coloured by reward, and the run\'s reward by step">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff" stroke="#ddd"/>',
        f'<text x="{LEFT}" y="26" font-size="14" font-weight="bold" fill="#222">{escape(row["task_id"])}, '
        f"step {row['step']}: reward {row['reward']:+.2f}</text>",
        f'<text x="{LEFT}" y="45" fill="#777">{escape(", ".join(said))}</text>',
        *tokens,
        f'<text x="{LEFT}" y="{height - 14}" fill="#777">{escape(notes[:70])}</text>',
        *curve(metrics, height, title),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def coloured(row: dict) -> tuple[list[str], int]:
    """The tokens, each on the colour of its reward, and how many lines they take."""
    values = token_rewards(row, None)
    scale = max(map(abs, values), default=0.0) or 1.0
    parts, line, column = [], 0, 0
    for token, value in zip(row["tokens"], values, strict=True):
        for index, piece in enumerate(token.split("\n")):
            if index:
                line, column = line + 1, 0
            if not piece:
                continue
            x, y = LEFT + column * CHAR, TOP + line * LINE
            if abs(value) > 0.004 * scale:
                pale = round(235 - 150 * abs(value) / scale)
                fill = f"rgb({pale},235,{pale})" if value > 0 else f"rgb(245,{pale},{pale})"
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{len(piece) * CHAR:.1f}" height="{LINE}" fill="{fill}">'
                    f"<title>{escape(piece)} {value:+.3f}</title></rect>"
                )
            if piece.strip():
                wide = f'textLength="{len(piece) * CHAR:.1f}" xml:space="preserve"'
                parts.append(f'<text x="{x:.1f}" y="{y + 14}" fill="#111" {wide}>{escape(piece)}</text>')
            column += len(piece)
    return parts, line + 1


def curve(metrics: list[dict], height: float, title: str) -> list[str]:
    """Mean reward by step: every step a dot, their running mean a line."""
    x0, y0, width = CURVE
    y1 = height - 50
    steps, rewards = [m["step"] for m in metrics], [m["reward"] for m in metrics]
    ticks = round_ticks(min(0.0, *rewards), max(rewards))
    low, high = ticks[0], ticks[-1]

    def place(step: float, value: float) -> tuple[float, float]:
        share = (step - steps[0]) / max(1, steps[-1] - steps[0])
        return x0 + share * width, y1 - (value - low) / (high - low) * (y1 - y0)

    parts = [f'<text x="{x0 - 30}" y="45" fill="#777">{escape(title)}: mean reward by step</text>']
    for tick in ticks:
        y = place(steps[0], tick)[1]
        parts.append(f'<path d="M{x0} {y:.1f}H{x0 + width}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x0 - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#777">{tick_label(tick)}</text>')
    for step in (steps[0], steps[len(steps) // 2], steps[-1]):
        parts.append(
            f'<text x="{place(step, low)[0]:.1f}" y="{y1 + 20}" text-anchor="middle" fill="#777">{step}</text>'
        )
    for step, value in zip(steps, rewards, strict=True):
        x, y = place(step, value)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="#2266aa" fill-opacity=".35"/>')
    line = [place(s, v) for s, v in zip(steps, smooth(rewards, smooth_window(len(rewards))), strict=True)]
    parts.append(f'<path d="{polyline(line)}" fill="none" stroke="#2266aa" stroke-width="2"/>')
    return parts


if __name__ == "__main__":
    main()
