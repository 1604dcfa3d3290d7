"""What launch/vllm_server.sh adds to vLLM's worker: its weights are read anew from a folder, while it serves."""

from __future__ import annotations

from typing import Any


class WeightsFromFolder:
    """vLLM makes its worker a subclass of this (--worker-extension-cls); /collective_rpc calls the method."""

    reload_weights: Any
    model_runner: Any

    def take_weights(self, folder: str) -> None:
        """Read `folder`'s safetensors.

        On a CPU vLLM packs each weight for its kernels. Reading anew packs those again that a file has, but not a head
        that shares the embedding's weight: it would go on with the old one.
        """
        self.reload_weights(weights_path=folder)
        head = getattr(self.model_runner.get_model(), "lm_head", None)
        if hasattr(head, "quant_method"):
            head.quant_method.process_weights_after_loading(head)
