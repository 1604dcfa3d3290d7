"""trl's PPOConfig with what DensePPOTrainer adds."""

from __future__ import annotations

from dataclasses import dataclass

from trl.experimental.ppo import PPOConfig


@dataclass
class DensePPOConfig(PPOConfig):
    """`per_device_train_batch_size` is the number of prompts of one process in one update; gradients are exact means
    over a mini-batch's tokens however many passes it takes, so `gradient_accumulation_steps` stays 1.
    """

    samples_per_prompt: int = 1
    rows_per_pass: int = 8
    """Completions in one forward and backward pass: memory, never the result."""
    packing_max_tokens: int = 4096
    """A prompt and its completions share a row up to this length; 0: rows of their own."""
    top_p: float = 1.0
    stock_sampling: bool = False
    """Sample with transformers' `generate`."""
    value_learning_rate: float | None = None
    """None: that of the policy."""
    value_warmup_updates: int = 0
    """First updates that train the critic alone."""
    kl_target: float | None = None
    """KL a completion to steer `kl_coef` towards; None keeps it."""
    kl_horizon: float = 10_000.0
    zero_stage: int = 0
    """DeepSpeed's, where there are several processes: 1 spreads optimizer states over them, 2 gradients too."""

    def __post_init__(self):
        self.remove_unused_columns = False
        self.num_sample_generations = 0  # completions.jsonl has them
        super().__post_init__()
        if self.gradient_accumulation_steps != 1:
            raise ValueError("gradient_accumulation_steps must be 1: rows_per_pass sets what lies in memory at once")

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of a reference policy are used at all."""
        return self.kl_coef != 0 or self.kl_target is not None
