"""SFT without padding: the loss, the gradient and the metrics are those of TRL's padded rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

from recipes.records.log import RunLog
from recipes.trainers import sft_dpo
from recipes.trainers.packing import causal_lm
from recipes.trainers.sft_dpo import SftTrainer

TURNS = [
    ("double x", "2 * x"),
    ("the sum of all numbers in a list", "return sum(numbers)"),
    ("x", "y"),
    ("a b", "c d e"),
]
SAME = {"rtol": 1e-4, "atol": 1e-6}


def made(kind, tiny_model, folder, lora: bool, checkpointing: bool, beginning: str = "", **settings):
    prompts, answers = [beginning + a for a, _ in TURNS], [b for _, b in TURNS]
    examples = Dataset.from_dict({"prompt": prompts, "completion": answers})
    torch.manual_seed(0)
    more = {"run_log": RunLog(folder, 4)} if kind is SftTrainer else {}
    return kind(
        model=AutoModelForCausalLM.from_pretrained(tiny_model, attn_implementation="sdpa"),
        args=SFTConfig(
            output_dir=str(folder),
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
            **{"per_device_train_batch_size": 4} | settings,
        ),
        train_dataset=examples,
        processing_class=AutoTokenizer.from_pretrained(tiny_model),
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None,
        **more,
    )


def lengths_read(trainer) -> list[tuple[int, tuple[int, ...]]]:
    """Trains, and returns with which lengths the decoder was called: what examples share, and what each has more; None
    where they are in a mask."""
    seen = []

    def note(module, args, kwargs):
        seen.append(kwargs.get("segments"))
        if seen[-1]:
            assert len(kwargs["input_ids"]) == 1 and kwargs["attention_mask"].numel() == 1

    hook = causal_lm(trainer.model).base_model.register_forward_pre_hook(note, with_kwargs=True)
    trainer.train()
    hook.remove()
    return seen


ALL = list(itertools.product([True, False], repeat=4))
HALF = [case if sum(case) % 2 == 0 else pytest.param(*case, marks=pytest.mark.slow) for case in ALL]
"""Of three settings each combination; the other half takes as long again."""


@pytest.mark.parametrize(("by_segment", "shares", "checkpointing", "lora"), HALF)  # by segment: as on a CPU
def test_an_update_is_that_of_padded_rows(by_segment, shares, checkpointing, lora, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(sft_dpo, "CHUNK", 3)
    monkeypatch.setattr(sft_dpo, "WORTH_SHARING", 8)
    beginning = "Return a list of them, or nothing: " if shares else ""
    ours, theirs = (
        made(kind, tiny_model, tmp_path, lora, checkpointing, beginning) for kind in (SftTrainer, SFTTrainer)
    )
    (batch,) = list(ours.get_train_dataloader())
    lengths = batch["attention_mask"].sum(1)
    if not by_segment:
        causal_lm(ours.model).set_attn_implementation("sdpa")
    both = lengths_read(ours)
    theirs.train()
    for shared, more in both if by_segment else ():
        assert (shared >= sft_dpo.WORTH_SHARING) if shares else shared == 0
        assert sorted(shared + n for n in more) == sorted(lengths.tolist())
    for (name, own), (_, stock) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(own, stock, msg=lambda text, name=name: f"{name}: {text}", **SAME)
    own, stock = ([row for row in t.state.log_history if "loss" in row] for t in (ours, theirs))
    assert len(own) == len(both) == 2
    for key in ("loss", "grad_norm", "mean_token_accuracy", "entropy", "num_tokens"):
        assert [row[key] for row in own] == pytest.approx([row[key] for row in stock], rel=1e-3), key


def test_several_passes_make_one_update(tiny_model, tmp_path):
    """With one example a pass and four passes an update: the mean is over all tokens, not over passes."""
    ours, theirs = (
        made(kind, tiny_model, tmp_path, True, False, per_device_train_batch_size=1, gradient_accumulation_steps=4)
        for kind in (SftTrainer, SFTTrainer)
    )
    for trainer in (ours, theirs):
        trainer.train()
    for own, stock in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(own, stock, **SAME)


@pytest.mark.parametrize("by_segment", [True, False])
def test_the_first_token_of_a_row_cut_at_its_beginning_is_not_trained(by_segment, tiny_model, tmp_path):
    """Rows of an answer's end alone: nothing predicts their first token."""
    cut = {"truncation_mode": "keep_end", "max_length": 2}
    ours, theirs = (made(kind, tiny_model, tmp_path, False, False, **cut) for kind in (SftTrainer, SFTTrainer))
    (batch,) = list(ours.get_train_dataloader())
    assert (batch["labels"][:, 0] != -100).any()
    if not by_segment:
        causal_lm(ours.model).set_attn_implementation("sdpa")
    for trainer in (ours, theirs):
        trainer.train()
    for own, stock in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(own, stock, **SAME)


@pytest.mark.parametrize("setting", [{"loss_type": "dft"}, {"label_smoothing_factor": 0.1}, {"neftune_noise_alpha": 5}])
def test_another_loss_is_trls(setting, tiny_model, tmp_path):
    assert not made(SftTrainer, tiny_model, tmp_path, True, False, **setting).packs


def test_labels_in_what_examples_share_are_trained_in_each(tiny_model, tmp_path):
    """A beginning of which a part is trained is shared up to that part."""
    trainer = made(SftTrainer, tiny_model, tmp_path, lora=False, checkpointing=False)
    ids = torch.tensor([[*range(5, 25), 3, 4], [*range(5, 25), 9, 0]])
    mask = torch.tensor([[1] * 22, [1] * 21 + [0]])
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :18] = -100
    loss, _, _ = sft_dpo._loss_of_answers(trainer.model, ids, mask, labels)
    with torch.no_grad():
        logps = trainer.model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
    alone = -logps[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1)[labels[:, 1:] != -100].sum()
    torch.testing.assert_close(loss.detach(), alone, **SAME)


def test_a_run_that_began_with_adamw_torch_continues_with_it(tiny_model, tmp_path):
    """The optimizer's state says which one it is of, so the profiles' fused one may resume it."""

    def trained(folder, *optimizers: str):
        for number, name in enumerate(optimizers):
            trainer = made(SftTrainer, tiny_model, folder, False, False, save_steps=2)
            trainer.args.optim, trainer.args.learning_rate, trainer.args.save_strategy = name, 1e-3, "steps"
            trainer.args.max_steps = 4 if number else 2
            trainer.train(resume_from_checkpoint=str(folder / "checkpoint-2") if number else None)
        (fused,) = {group["fused"] for group in trainer.optimizer.param_groups}
        return fused, [weight.detach() for weight in trainer.model.parameters()]

    fused, resumed = trained(tmp_path / "a", "adamw_torch", "adamw_torch_fused")
    _, whole = trained(tmp_path / "b", "adamw_torch", "adamw_torch")
    assert not fused and all(torch.equal(one, other) for one, other in zip(resumed, whole, strict=True))


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
