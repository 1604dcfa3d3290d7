"""What is imitated and preferred is tokenized as the policy is asked and samples, not as one text."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, models, normalizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, SFTConfig, SFTTrainer

from envs.basics import Basics
from envs.etk.completion.task import EtkCompletion
from envs.etk.task import Etk
from envs.humaneval import HumanEval
from envs.task import demonstration
from recipes.cli.errors import UserError
from recipes.data.chat_tokens import ids_behind, prompt_ids, with_answer
from recipes.data.training_data import as_turns, demonstrations, right_answers, tokenized_demonstrations
from recipes.evaluation.preference_pairs import preference_pairs
from recipes.models.load import load_value, train_in_float32
from recipes.records.log import RunLog
from recipes.trainers.sft_dpo import DpoTrainer
from rewards.attribution import TokenBytes, locate
from tests.recipes.test_configs import compose

FUNCTION = {
    "task_id": "HumanEval/0",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "double",
}


@pytest.fixture
def asked(tmp_path):
    """Tasks whose prompts end before the first token of an answer, in a code block that they open, and in a text."""
    rows = [FUNCTION | {"task_id": f"HumanEval/{number}"} for number in range(2)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = HumanEval(train_size=1, path=str(tmp_path / "rows.jsonl"), style="completion")
    return {"turn": Basics(train_size=20), "block": EtkCompletion(), "file": Etk(), "text": text}


@pytest.mark.parametrize(("name", "apart"), [("turn", 0.0), ("block", 0.8), ("file", 0.0), ("text", 1.0)])
def test_an_example_begins_as_the_policy_is_asked(name, apart, asked, smollm2_tokenizer):
    """apart: the least share of examples whose first token would hold the prompt's last line break as well."""
    task, tokenizer = asked[name], smollm2_tokenizer
    problems = [problem for problem in task.problems("train") if problem.reference][:20]
    examples = tokenized_demonstrations(demonstrations(task), tokenizer)
    joined = 0
    for problem, row in zip(problems, examples, strict=False):
        prompt = prompt_ids(task, problem, tokenizer)
        answer = row["input_ids"][len(prompt) :]
        assert row["input_ids"][: len(prompt)] == prompt
        assert row["labels"] == [-100] * len(prompt) + answer
        text = tokenizer.decode(answer, clean_up_tokenization_spaces=False)
        written = demonstration(task.messages(problem), problem.reference)
        assert text.strip() == f"{written}{tokenizer.eos_token}".strip() and text.startswith(written)
        whole = tokenizer.decode(row["input_ids"], clean_up_tokenization_spaces=False)
        joined += tokenizer(whole, add_special_tokens=False)["input_ids"][: len(prompt)] != prompt
    assert joined >= apart * min(20, len(problems)) and (apart or not joined)


def test_without_such_a_token_an_example_is_trls(tiny_model, tiny_tokenizer, tmp_path):
    turns = demonstrations(Basics(train_size=20))
    stock = SFTTrainer(
        model=str(tiny_model),
        args=SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", max_length=None),
        train_dataset=turns,
        processing_class=tiny_tokenizer,
    ).train_dataset
    own = tokenized_demonstrations(turns, tiny_tokenizer)
    assert own["input_ids"] == stock["input_ids"] and own["labels"] == stock["labels"]


def test_pairs_begin_as_the_policy_is_asked(smollm2_tokenizer, tiny_model, tmp_path, asked):
    task = asked["block"]
    problems = task.problems("train")[:3]
    rows = []
    for problem in problems:
        prompt, chosen = as_turns(task.messages(problem), f"{problem.reference}```")
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": as_turns(prompt, "    x = 1;\n```")[1]})
    trainer = DpoTrainer(
        model=str(tiny_model),
        args=DPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", max_length=None),
        train_dataset=Dataset.from_list(rows),
        processing_class=smollm2_tokenizer,
        run_log=RunLog(tmp_path, 1),
    )
    for problem, pair in zip(problems, trainer.train_dataset, strict=True):
        answer = with_answer(task.messages(problem), f"{problem.reference}```", smollm2_tokenizer)[1]
        assert pair["prompt_ids"] == prompt_ids(task, problem, smollm2_tokenizer)
        assert pair["chosen_ids"] == answer != pair["rejected_ids"]
        assert smollm2_tokenizer.decode(pair["rejected_ids"]).startswith("    x = 1;\n```")


def test_a_template_that_drops_what_it_asks_behind_is_refused(tiny_tokenizer):
    """Such as one that opens a block of thoughts and leaves it out of finished turns."""
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    with pytest.raises(UserError, match="shows a finished one in another form"):
        with_answer([{"role": "user", "content": "?"}], "def f(): pass", tokenizer)


def test_texts_are_imitated_without_the_stop_text_that_ended_them(asked, smollm2_tokenizer):
    task = asked["text"]
    [problem] = task.problems("train")
    [row] = demonstrations(task, {problem.id: "    return 2 * x\n\ndef"})
    assert row["completion"] == "    return 2 * x\n"


def test_a_text_in_the_middle_has_no_blank_of_its_own():
    """Llama 2's tokenizer puts one before every text that it is given."""
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {piece: n for n, piece in enumerate(["<s>", "</s>", "<unk>", *pieces, "▁", *"abcdefinrtux"])}
    llama = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=llama, bos_token="<s>", eos_token="</s>")
    table = TokenBytes(tokenizer)
    for text in ("    return x", "return x", " x", "\n  x", ""):
        assert locate(ids_behind(text, tokenizer), table)[0] == text
    assert locate(tokenizer("return x").input_ids, table)[0] == " return x"


def test_an_answer_that_was_cut_is_neither_imitated_nor_preferred(tmp_path):
    rows = [
        {"task_id": "a", "temperature": 1.0, "passed": True, "completion": "cut", "finished": False},
        {"task_id": "b", "temperature": 1.0, "passed": True, "completion": "whole", "finished": True},
        {"task_id": "c", "temperature": 1.0, "passed": True, "completion": "older"},
    ]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert right_answers(str(tmp_path)) == {"b": "whole", "c": "older"}
    graded = [
        {"completion": text, "reward": reward, "tokens": 9, "sample": n, "finished": finished}
        for n, (text, reward, finished) in enumerate([("x", 1.0, False), ("y", 0.5, True), ("z", 0.0, True)])
    ]
    assert [(a["completion"], b["completion"]) for a, b in preference_pairs(graded, 0.1, 4)] == [("y", "z")]


def test_adapters_are_trained_in_float32(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    train_in_float32(model)
    assert {(p.requires_grad, p.dtype) for p in model.parameters()} == {(True, torch.float32), (False, torch.bfloat16)}


def test_a_separate_critic_has_the_adapter_that_the_policy_goes_on_with(tiny_model):
    """Whatever the settings for new adapters say: with weights in 4 bits there is nothing else to train."""
    policy = AutoModelForCausalLM.from_pretrained(tiny_model)
    policy = get_peft_model(policy, LoraConfig(r=3, target_modules="all-linear", task_type="CAUSAL_LM"))
    cfg = compose(f"model.path={tiny_model}", "model.lora_rank=0", "hardware.precision=fp32", recipe="ppo")
    critic = load_value("separate", cfg.model, cfg.hardware, policy).backbone
    assert isinstance(critic, PeftModel) and critic.peft_config["default"].r == 3
    assert policy.peft_config["default"].task_type == "CAUSAL_LM"
    plain = load_value("separate", cfg.model, cfg.hardware, policy.base_model.model).backbone
    assert not isinstance(plain, PeftModel)


def test_pairs_that_lose_their_end_are_counted(smollm2_tokenizer, tiny_model, tmp_path, caplog):
    turn = [{"role": "assistant", "content": "word " * 40}]
    rows = [{"prompt": [{"role": "user", "content": "?"}], "chosen": turn, "rejected": turn[:1]}]
    DpoTrainer(
        model=str(tiny_model),
        args=DPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", max_length=50),
        train_dataset=Dataset.from_list(rows),
        processing_class=smollm2_tokenizer,
        run_log=RunLog(tmp_path, 1),
    )
    assert "1 of 1 pairs are longer than recipe.trl.max_length=50 tokens" in caplog.text
