"""A picture of a run's report, as a browser shows it.

    python tests/bench/report_picture.py RUN_DIR -o tests/bench/results/report.png

Needs Chromium. Draws the report again, opens it 1,000 pixels wide, and keeps the first --height of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from PIL import Image

from recipes.tools.report.page import write_report
from tests.recipes.chromium import NAMES, Chromium, find

WIDTH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--height", type=int, default=1500, help="pixels from the top")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    program = find()
    if program is None:
        sys.exit(f"error: no browser: install one of {', '.join(NAMES)}")
    page = write_report(args.run)
    with tempfile.TemporaryDirectory() as folder, Chromium(program, Path(folder)) as browser:
        browser.open(page.resolve(), WIDTH)
        whole = Image.open(browser.picture(Path(folder) / "whole.png"))
        shown = whole.crop((0, 0, WIDTH, min(args.height, whole.height)))
        args.output.parent.mkdir(parents=True, exist_ok=True)
        shown.convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(args.output, optimize=True)
    print(args.output)


if __name__ == "__main__":
    main()
