"""Writes rows of the Einstein Toolkit task from Cactus checkouts as JSON lines, and prints a summary as one JSON line.

python -m envs.etk build CHECKOUT... -o rows.jsonl.gz
python -m envs.etk build Cactus --thornlist einsteintoolkit.th --languages c,c++ --drop-generated -o rows.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tqdm import tqdm

from envs.etk.checkout import Checkouts, Filters, decoded
from envs.etk.languages import changed_sources
from envs.etk.thorns import listed
from envs.task import TaskError

LEVEL = 6
"""Of gzip: level 9 takes two to three times as long for 1 % less."""


def build(options: argparse.Namespace) -> dict[str, Any]:
    """Write the rows and return the summary. After a TaskError or OSError there is no output file."""
    out = options.output
    if not out.name.endswith((".jsonl", ".jsonl.gz")) or (out.exists() and not out.is_file()):
        raise TaskError(f"-o {out}: must be a file that ends in .jsonl or .jsonl.gz")
    if not out.absolute().parent.is_dir():
        raise TaskError(f"-o {out}: there is no folder {out.parent}")
    filters = Filters(
        options.max_src_chars,
        options.min_src_chars,
        None if options.languages is None else options.languages.split(","),
        options.drop_generated,
        options.drop_duplicates,
    )
    names = None if options.thornlist is None else listed(decoded(options.thornlist.read_bytes()))
    if names == []:
        raise TaskError(f"{options.thornlist} names no thorn (a name has a / and stands below !CHECKOUT)")
    sources = changed_sources(options.sources.split(",") if options.sources else ())
    beside = options.beside.split(",") if options.beside else []
    if unknown := sorted(set(beside) - {"ccl", "par"}):
        raise TaskError(f"--beside {unknown[0]}: must be ccl, par or ccl,par")
    checkouts = Checkouts(options.checkout, names, options.arrangement, filters, sources=sources, beside=beside)
    written, languages = write(checkouts, options.output)
    return {
        "out": str(options.output),
        "checkouts": [str(checkout) for checkout in options.checkout],
        "thorns": len(written),
        "rows": sum(written.values()),
        "languages": dict(languages),
        "skipped": dict(checkouts.skipped.most_common()),
        "absent": checkouts.absent,
        "filters": filters.on,
    }


def write(checkouts: Checkouts, out: Path) -> tuple[Counter[Any], Counter[str]]:
    """Write rows to a file that appears only when complete, compressed if its name ends in .gz.

    Returns the number of rows by thorn and by language.
    """
    by_thorn, languages = Counter[Any](), Counter[str]()
    staging = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with ExitStack() as stack:
            file: Any = stack.enter_context(staging.open("wb"))
            if out.suffix == ".gz":  # without name and time, so that equal rows give equal bytes
                file = stack.enter_context(gzip.GzipFile("", "wb", LEVEL, fileobj=file, mtime=0))
            text = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n"))
            for thorn in tqdm(checkouts.thorns, unit="thorn", disable=not sys.stderr.isatty()):
                for row in checkouts.rows(thorn):
                    text.write(json.dumps(row, ensure_ascii=False) + "\n")
                    by_thorn[thorn] += 1
                    languages[row["language"]] += 1
                if not by_thorn[thorn]:
                    checkouts.skipped["thorn without a row"] += 1
        os.replace(staging, out)
    finally:
        staging.unlink(missing_ok=True)
    return +by_thorn, languages


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m envs.etk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="checkouts to rows")
    building.add_argument("checkout", nargs="+", type=Path, help="a Cactus tree, or a folder of arrangements or thorns")
    building.add_argument("-o", "--output", required=True, type=Path, metavar="OUT", help=".jsonl or .jsonl.gz")
    building.add_argument("--thornlist", type=Path, metavar="F", help="only these thorns, in its order")
    building.add_argument("--arrangement", help="name for thorns at the top level; default: the checkout folder's name")
    building.add_argument("--max-src-chars", type=int, metavar="N", help="leave out longer files")
    building.add_argument("--min-src-chars", type=int, metavar="N", help="leave out shorter files")
    building.add_argument("--languages", metavar="c,c++,fortran,make,ccl,par", help="leave out the others")
    building.add_argument("--sources", metavar=".cl=.c,.inc=", help="take .cl files, as .c files; leave .inc files out")
    building.add_argument("--beside", metavar="ccl,par", help="also rows for declarations and parameter files")
    building.add_argument("--drop-generated", action="store_true", help="leave out files with a generator's mark")
    building.add_argument("--drop-duplicates", action="store_true", help="leave out files that another thorn has too")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit status is 1 if nothing could be written."""
    options = parsed(arguments)
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        print(json.dumps(build(options)))
    except (OSError, TaskError) as error:
        print(f"envs.etk: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("envs.etk: stopped, nothing is written", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _stop(number: int, _: Any) -> None:
    """SIGTERM ends the command as Ctrl-C does, so that its temporary file goes."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
