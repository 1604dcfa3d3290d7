"""Which data a model card names, by the configuration of a run."""

from __future__ import annotations

from recipes.tools.card.licences import DATA
from recipes.tools.card.model_card import _sources


def test_a_card_names_all_data_that_a_run_was_trained_on():
    def sources(task, env, recipe="grpo", split="test", **settings):
        config = {"task": {"name": task, "env": env}, "evaluation": {"split": split}}
        return [(use, source.name) for use, source in _sources(config | {"recipe": {"name": recipe} | settings})]

    instructions, problems = "OpenCodeInstruct (nvidia/OpenCodeInstruct)", "training (problems to answer)"
    for task, evaluated in (("mbpp", DATA["mbpp"].name), ("mbppplus", "MBPP+ (evalplus/mbppplus)")):
        assert sources(task, {}) == [(problems, instructions), ("evaluation (test split)", evaluated)]
    assert sources("mbpp", {"path": "mbpp.jsonl"})[0] == (problems, instructions)
    assert sources("mbpp", {}, split="validation")[1] == ("evaluation (validation split)", instructions)
    further = sources("basics", {"further": "data/collected.jsonl"})
    assert further[1] == (problems, "the user's own rows (collected.jsonl), in the form of basics")
    assert [name for _, name in (further[0], further[2])] == [DATA["basics"].name] * 2
    assert sources("roboeval", {"train": "hub", "test": "shipped"})[0] == (problems, "zichao22/robo-instruct")
    assert "user's own" in sources("etk_completion", {"application": "mine.toml"})[0][1]
    imitates = [
        sources("basics", {}, "sft", answers=answers, references=references)[0][0]
        for answers, references in ((None, True), ("runs/own", True), ("runs/own", False))
    ]
    assert imitates == [
        "training (references to imitate)",
        "training (right answers of own, else references, to imitate)",
        "training (right answers of own to imitate)",
    ]
