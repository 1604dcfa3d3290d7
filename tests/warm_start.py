"""What each recipe finds out anew at its start, found out once by the process that forks for them (warm.py): the parsed
files of conf/; what passes take in its plan of memory; that programs of its sandbox can import what they may, which
tests/envs/sandbox/ tests; what PyTorch and matplotlib prepare at their first use. And that this process's objects are
no garbage, of which each fork would look again."""

from __future__ import annotations

import asyncio
import gc

from hydra.utils import instantiate
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

from recipes.cli import schema
from recipes.cli.overrides import compose
from recipes.run.build import build_task
from recipes.tools.memory import planner
from recipes.tools.report.charts import curve_chart
from tests.traced_once import trace_each_pass_once
from tests.yaml_once import parse_each_text_once


def warm() -> None:
    parse_each_text_once()
    trace_each_pass_once()
    schema.register()
    box = instantiate(compose(["recipe=grpo", "task=basics"]).sandbox)
    try:
        asyncio.run(box.layers())
    except RuntimeError:
        pass  # nothing can be confined here, as each recipe says
    finally:
        asyncio.run(box.close())
    cfg = compose(["recipe=eval", "task=pacman"])  # no gradients: beside a GPU their threads would forbid forks
    planner.plan_of(cfg, planner.lengths_of(cfg, build_task(cfg)))
    curve_chart([("reward", [(1, 0.0), (2, 1.0)])], (1, 2))
    get_checkpoint_conversion_mapping("llama")
    gc.collect()
    gc.freeze()


warm()
