"""SFT without padding: the loss, the gradient and the metrics are those of TRL's padded rows."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

from recipes.records.log import RunLog
from recipes.trainers.log_probs import attends_by_segment, causal_lm
from recipes.trainers.sft_dpo import SftTrainer

TURNS = [
    ("double x", "2 * x"),
    ("the sum of all numbers in a list", "return sum(numbers)"),
    ("x", "y"),
    ("a b", "c d e"),
]
SAME = {"rtol": 1e-4, "atol": 1e-6}


def made(kind, tiny_model, folder, lora: bool, checkpointing: bool):
    examples = Dataset.from_dict({"prompt": [a for a, _ in TURNS], "completion": [b for _, b in TURNS]})
    torch.manual_seed(0)
    more = {"run_log": RunLog(folder, 4)} if kind is SftTrainer else {}
    return kind(
        model=AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="sdpa"),
        args=SFTConfig(
            output_dir=str(folder),
            per_device_train_batch_size=4,
            max_steps=2,
            optim="sgd",  # Adam would make rounding of a small gradient as large as a step
            learning_rate=0.1,
            gradient_checkpointing=checkpointing,
            use_cpu=True,
            bf16=False,
            report_to="none",
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=examples,
        processing_class=AutoTokenizer.from_pretrained(tiny_model),
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None,
        **more,
    )


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("checkpointing", [True, False])
def test_an_update_is_that_of_padded_rows(lora, checkpointing, tiny_model, tmp_path):
    ours, theirs = (made(kind, tiny_model, tmp_path, lora, checkpointing) for kind in (SftTrainer, SFTTrainer))
    assert attends_by_segment(ours.model)
    (batch,) = list(ours.get_train_dataloader())
    assert batch["input_ids"].shape[0] == 1 and "attention_mask" not in batch
    for trainer in (ours, theirs):
        trainer.train()
    for (name, own), (_, stock) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(own, stock, msg=lambda text, name=name: f"{name}: {text}", **SAME)
    own, stock = ([row for row in t.state.log_history if "loss" in row] for t in (ours, theirs))
    for key in ("loss", "grad_norm", "mean_token_accuracy", "entropy", "num_tokens"):
        assert [row[key] for row in own] == pytest.approx([row[key] for row in stock], rel=1e-3), key


def test_examples_do_not_see_each_other(tiny_model, tmp_path):
    """The hidden states of a row of three are those of the three alone; without lengths they are not."""
    trainer = made(SftTrainer, tiny_model, tmp_path, lora=False, checkpointing=False)
    decoder = causal_lm(trainer.model).base_model.train()
    parts = [torch.tensor([5, 6, 7]), torch.tensor([8, 9]), torch.tensor([6, 5, 4, 3])]
    ids, positions = torch.cat(parts)[None], torch.cat([torch.arange(len(part)) for part in parts])[None]
    seen: list[dict] = []
    attention = decoder.layers[0].self_attn
    hook = attention.register_forward_pre_hook(lambda *call: seen.append(call[2]), with_kwargs=True)
    with torch.no_grad():
        row = decoder(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
        alone = [decoder(input_ids=part[None], use_cache=False).last_hidden_state for part in parts]
        mixed = decoder(input_ids=ids, use_cache=False).last_hidden_state
    hook.remove()
    assert [call.get("segments") for call in seen] == [(0, (3, 2, 4)), None, None, None, None]
    assert seen[0]["attention_mask"].numel() == 1  # none of the whole row was made
    torch.testing.assert_close(row, torch.cat(alone, 1), **SAME)
    assert not torch.allclose(row, mixed, **SAME)


def test_attention_that_takes_no_lengths_keeps_padded_rows(tiny_model, tmp_path):
    trainer = made(SftTrainer, tiny_model, tmp_path, lora=False, checkpointing=False)
    model = trainer.model
    model.set_attn_implementation("eager")
    padded = SftTrainer(
        model=model,
        args=trainer.args,
        train_dataset=trainer.train_dataset,
        processing_class=trainer.processing_class,
        run_log=RunLog(tmp_path, 4),
    )
    assert not padded.data_collator.padding_free


def test_a_raised_max_steps_has_the_new_schedules_rate_at_once(tiny_model, tmp_path):
    """The stored rate is that of the old schedule: 0 at its end."""
    rates: list[float] = []

    class Rates(TrainerCallback):
        def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
            rates.append(optimizer.param_groups[0]["lr"])

    for steps in (2, 4):
        trainer = made(SftTrainer, tiny_model, tmp_path, lora=False, checkpointing=False)
        trainer.args.max_steps, trainer.args.save_steps, trainer.args.save_strategy = steps, 2, "steps"
        trainer.add_callback(Rates())
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2") if steps == 4 else None)
    assert rates == pytest.approx([0.1, 0.05, 0.05, 0.025])
