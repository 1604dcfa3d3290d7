"""Evaluations that end at the same time share results.csv: one heading, and a line of each."""

import csv
import multiprocessing

from omegaconf import OmegaConf

from recipes.evaluation.exports import COLUMNS, MEASURED, append_results

PROCESSES, FILES = 4, 300


def write(folder, number, together):
    cfg = OmegaConf.create({"run": {"dir": f"runs/run{number}"}, "model": {"path": "some/model"}, "adapter": None})
    summary = {"task": "basics", "pass@k": {"1": {"value": 0.5, "low": 0.25, "high": 0.75}}}
    for each in range(FILES):
        together.wait()
        append_results(folder / f"{each}.csv", cfg, [summary])


def test_problems_are_those_that_were_graded(tmp_path):
    cfg = OmegaConf.create({"run": {"dir": "runs/run"}, "model": {"path": "some/model"}, "adapter": None})
    share = {"pass@k": {"1": {"value": 0.5, "low": 0.25, "high": 0.75}}}
    counts = [{"problems": 66, "judged": 60, "ungraded": 7}, {"problems": 66, "judged": 66, "ungraded": 0}]
    append_results(tmp_path / "all.csv", cfg, [{"task": "basics"} | share | each for each in counts])
    with (tmp_path / "all.csv").open(newline="") as lines:
        assert [row["problems"] for row in csv.DictReader(lines)] == ["60", "66"]


def test_lines_of_several_processes_stand_below_one_heading(tmp_path):
    context = multiprocessing.get_context("fork")
    together = context.Barrier(PROCESSES)
    processes = [context.Process(target=write, args=(tmp_path, number, together)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    for each in range(FILES):
        with (tmp_path / f"{each}.csv").open(newline="") as lines:
            header, *rows = csv.reader(lines)
        assert header == [*COLUMNS, *MEASURED]
        assert sorted(row[0] for row in rows) == [f"run{number}" for number in range(PROCESSES)]
        assert {row[header.index("pass@1")] for row in rows} == {"0.5"}
