"""The lexical channel on real files: how many does it charge, and how many planted errors does it find?

    python tests/bench/corpora_lexical.py /usr/include /usr/lib/gcc .venv/lib

Every C, C++ and Fortran file below the folders that is not binary. In each C or C++ file that passes, one bracket is
planted wrong in four ways, at places drawn with a seed: another bracket instead of a closing one, a closing one twice,
a closing one missing, an opening one missing. `at once` counts errors charged at the very character; a missing closing
bracket shows later, or when the answer ends.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from rewards.brackets import judge_c
from rewards.fortran import FIXED, FREE
from rewards.lexical import judge

C = {".c", ".h", ".cc", ".cpp", ".cxx", ".C", ".hh", ".hpp", ".hxx", ".H", ".cu", ".cuh", ".tcc"}
OTHERS = {")": "]}", "]": ")}", "}": ")]"}
PLANTED_LIMIT = 60_000
"""Characters of a file in which errors are planted."""


def _in_code(text: str, place: int) -> bool:
    """Whether another bracket there is charged: not in comments, literals, directives or what is skipped."""
    return any(judge_c(text[:place] + wrong).first == place for wrong in ")]}" if wrong != text[place])


def planted(text: str, randomly: random.Random) -> dict[str, tuple[str, int]]:
    """Kind of error to the text with it and its place."""
    drawn = randomly.sample(range(len(text)), min(400, len(text)))
    places = [i for i in drawn if text[i] in "()[]{}" and _in_code(text, i)]
    closing, opening = [i for i in places if text[i] in OTHERS], [i for i in places if text[i] not in OTHERS]
    found = {}
    if closing:
        i = closing[0]
        found["another bracket"] = text[:i] + randomly.choice(OTHERS[text[i]]) + text[i + 1 :], i
        found["twice"] = text[:i] + text[i] + text[i:], i + 1
        found["closing one missing"] = text[:i] + text[i + 1 :], i
    if opening:
        i = opening[0]
        found["opening one missing"] = text[:i] + text[i + 1 :], i
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("roots", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--planted", type=int, default=1500, help="files to plant errors in")
    options = parser.parse_args()
    randomly, found, seconds, read = random.Random(options.seed), Counter[str](), 0.0, 0
    good: list[str] = []
    for path in sorted(p for root in options.roots for p in root.rglob("*") if p.is_file()):
        if path.suffix not in C | FIXED | FREE or b"\0" in (data := path.read_bytes()):
            continue
        text, language = data.decode("utf-8", "replace"), "c++" if path.suffix in C else "fortran"
        started = time.perf_counter()
        judged = judge(text, language, path.name)
        seconds += time.perf_counter() - started
        read += len(text)
        assert judged is not None
        found[f"{language} files"] += 1
        if judged.first is not None:
            found[f"{language} charged"] += 1
            print(f"charged: {path}, line {text.count(chr(10), 0, judged.first) + 1}", file=sys.stderr)
        elif not judged.whole:
            found[f"{language} left open"] += 1
            print(f"left open: {path}", file=sys.stderr)
        elif language == "c++" and len(text) <= PLANTED_LIMIT:
            good.append(text)
    kinds: dict[str, Counter[str]] = {}
    for text in randomly.sample(good, min(options.planted, len(good))):
        for kind, (wrong, place) in planted(text, randomly).items():
            judged = judge_c(wrong)
            count = kinds.setdefault(kind, Counter())
            count["planted"] += 1
            count["found"] += judged.first is not None or not judged.whole
            count["at once"] += judged.first == place
    print(json.dumps({**found, "us_per_character": round(seconds / read * 1e6, 3), "planted": kinds}))


if __name__ == "__main__":
    main()
