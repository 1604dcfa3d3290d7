"""One picture of a run: a completion with its tokens coloured by reward, beside the curve of the run it came from.

    python tests/bench/picture.py RUN_DIR PROBLEM --step 12 -o tests/bench/results/tokens.svg

An SVG that reads on light and dark pages. The completion is the first of PROBLEM at that step; --skip: a later one.
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path
from textwrap import shorten

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from recipes.records.directory import write_text
from recipes.records.jsonl import read_jsonl
from recipes.tools.coloured_tokens import token_rewards
from recipes.tools.report.charts import curve_chart

WIDTH, LINE, CHAR, LEFT, TOP = 980, 19, 7.83, 20, 62
CURVE = (565, 60, 395)
"""Where the curve stands: x, y, width."""
FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
STYLE = "svg { --soft: #777; --rule: #e4e4e4; --line0: #2266aa } .faint { opacity: .35 }"
"""Of the curve: the picture is white on every page."""


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
    scores = ", ".join(f"{name} {score:+.2f}" for name, score in row["scores"].items())
    notes = "; ".join(note for note in row["notes"].values() if note)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-size="13" font-family="{FAMILY}"'
        f' role="img" aria-label="A completion with its tokens coloured by reward, and the run\'s reward by step">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff" stroke="#ddd"/>',
        f'<text x="{LEFT}" y="26" font-size="14" font-weight="bold" fill="#222">{escape(row["task_id"])}, '
        f"step {row['step']}: reward {row['reward']:+.2f}</text>",
        f'<text x="{LEFT}" y="45" fill="#777">{escape(scores)}</text>',
        f'<text x="{CURVE[0]}" y="26" fill="#222">{escape(title)}</text>',
        f'<text x="{CURVE[0]}" y="45" fill="#777">mean reward by step</text>',
        *tokens,
        f'<text x="{LEFT}" y="{height - 14}" fill="#777">{escape(shorten(notes, 68))}</text>',
        curve(metrics, height, title),
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


def curve(metrics: list[dict], height: float, title: str) -> str:
    """Mean reward by step: every step a dot, their running mean a line."""
    x, y, width = CURVE
    points = [(row["step"], row["reward"]) for row in metrics]
    size = (width, height - y - 20)
    chart = curve_chart([(title, points)], (points[0][0], points[-1][0]), size)
    return str(chart).replace("<svg ", f'<svg x="{x}" y="{y}" width="{size[0]}" height="{size[1]}" ', 1)


if __name__ == "__main__":
    main()
