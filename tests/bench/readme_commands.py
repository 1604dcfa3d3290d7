"""Every command of README.md, run as printed in a fresh clone where no model hub can be reached.

    git clone . /tmp/clone && cd /tmp/clone && make install
    .venv/bin/python tests/bench/readme_commands.py --limit 120

Run it in the clone, by the user whose install it is. Commands are taken from README.md: the lines of its code blocks
and of its results table. A command that still runs after --limit seconds is stopped as Ctrl-C stops it; `make demo` has
--demo-limit seconds, since later commands read its run. Of each command a row of a Markdown table says how it ended:
its seconds, its exit status, its last line, the folders and files that it left. The last line is one JSON object: a
command that ended with another status than 0 without being stopped is among `refused`, and among `tracebacks` where it
printed one. Without tracebacks the status is 0: what needs a GPU is refused where there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_HERE = ("make test",)
"""What takes the suite's own time."""
NO_HUB = {"HF_ENDPOINT": "http://127.0.0.1:9"}
PATIENCE_S = 300
"""For what was stopped to save and to end."""


def commands(readme: str) -> list[str]:
    """The commands of a document, in its order, each once."""
    shown = re.findall(r"^ {4}((?:make|python|accelerate) .*?)(?: {2,}#.*)?$", readme, re.MULTILINE)
    quoted = re.findall(r"`((?:make|python) [^`\n]+)`", readme)
    return [command for command in dict.fromkeys([*shown, *quoted]) if command not in NOT_HERE]


def write_the_readers_files(readme: str) -> list[Path]:
    """What README.md has its reader write: a channel, and problems (here those of basics)."""
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    channel, problems = ROOT / "rewards" / "comments.py", ROOT / "mine.jsonl"
    if there := [str(file) for file in (channel, problems) if file.exists()]:
        sys.exit(f"{' and '.join(there)} would be overwritten and deleted: run this in a fresh clone")
    channel.write_text(block)
    problems.write_text("".join(file.read_text() for file in sorted((ROOT / "envs/basics/problems").glob("*.jsonl"))))
    return [channel, problems]


def present() -> set[str]:
    """Runs and other new files of the clone."""
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    new = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    runs = {str(file.parent.relative_to(ROOT)) for file in (ROOT / "runs").rglob("config.yaml")}
    return runs | {line[3:] for line in new if not line[3:].startswith("runs/")}


def run(command: str, limit_s: float) -> dict[str, object]:
    """How one command ended."""
    before, started = present(), time.monotonic()
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env={**os.environ, **NO_HUB, "PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stopped = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            stopped = True
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        text = output.read()
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return {
        "command": command,
        "seconds": round(time.monotonic() - started),
        "stopped": stopped,
        "status": process.returncode,
        "last": lines[-1].strip()[:200] if lines else "",
        "traceback": "Traceback (most recent call last)" in text,
        "left": sorted(present() - before),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a command may run")
    parser.add_argument("--demo-limit", type=float, default=1800.0, help="seconds that make demo may run")
    parser.add_argument("--only", default="", help="commands that have this in them")
    args = parser.parse_args()
    # a shell's background job ignores Ctrl-C, and so would the commands
    signal.signal(signal.SIGINT, signal.default_int_handler)
    readme = (ROOT / "README.md").read_text()
    chosen = [command for command in commands(readme) if args.only in command]
    if not chosen:
        parser.error(f"no command of README.md has {args.only!r} in it")
    written = write_the_readers_files(readme)
    results = []
    print("| command | seconds | exit status | last line | left |\n|---|---|---|---|---|")
    try:
        for command in chosen:
            results.append(row := run(command, args.demo_limit if command == "make demo" else args.limit))
            seconds = f"{row['seconds']}{', stopped' if row['stopped'] else ''}"
            last, left = str(row["last"]).replace("|", "\\|"), ", ".join(row["left"]) or "nothing"
            print(f"| `{command}` | {seconds} | {row['status']} | {last} | {left} |", flush=True)
    finally:
        for file in written:
            file.unlink(missing_ok=True)
    tracebacks = [row["command"] for row in results if row["traceback"]]
    refused = [row["command"] for row in results if row["status"] and not row["stopped"]]
    result = {"user": os.geteuid(), "commands": len(results), "refused": refused, "tracebacks": tracebacks}
    print(json.dumps(result))
    sys.exit(bool(tracebacks))


if __name__ == "__main__":
    main()
