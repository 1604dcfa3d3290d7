"""How the policy's weights reach a vLLM server: from a GPU over NCCL, from a CPU through a folder that both can read.

A delivery gives the server's weights a name, which a server that was started anew does not know: so it is noticed, and
no answer is drawn with the weights that a server starts with.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from safetensors.torch import save_file

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.sampling.policy_copy import merged_weights

PAUSES_S = (1, 2, 4, 8, 16, 30, 30, 30, 30, 30)
"""Between tries: three minutes in all, in which a server that was killed can be started anew."""
PATIENCE_S = 600.0
"""How long a server may take to read its weights anew."""
DEVELOPMENT = "start it with launch/vllm_server.sh, which opens the endpoints that weights come by"


class Unreachable(Exception):
    """The server does not answer, which may pass."""


class _Unknown(UserError):
    """An endpoint that this server does not have."""


class ServerWeights:
    """What a server should sample with. `deliver` and `restore` differ by the way that weights take."""

    def __init__(self, policy: Any, accelerator: Any, url: str):
        self.policy, self.accelerator, self.url = policy, accelerator, url
        self._run, self._number = str(broadcast_object_list([uuid.uuid4().hex])[0]), 0
        self._names = True

    @property
    def name(self) -> str:
        """Of the weights that the server should have, the same in all processes."""
        return f"{self._run}-{self._number}"

    def __call__(self) -> None:
        """Bring the policy's weights, adapters merged. All processes call it together; none returns before they are
        there. Raises UserError where the server refuses, or does not answer."""
        self._number += 1
        if self.accelerator.is_main_process:
            self._deliver_with_patience()
        else:
            self.deliver_together()
        self.accelerator.wait_for_everyone()

    def _deliver_with_patience(self) -> None:
        failure: Exception | None = None
        for pause in (0, *PAUSES_S):
            time.sleep(pause)
            try:
                self.deliver()
                return
            except Unreachable as error:
                if failure is None:
                    log.warning("the vLLM server at %s does not answer (%s): asking again", self.url, error)
                failure = error
        raise UserError(
            f"the vLLM server at hardware.vllm_url={self.url} does not answer ({failure}); run the same command again "
            "to resume"
        )

    def keep(self) -> None:
        """Bring the last weights again where the server has lost them. Any process may call it, at any time.

        Raises Unreachable where the server does not answer; UserError where the weights cannot be brought.
        """
        if self._number and self._names and self._ask("/weight_info").get("weight_version") != self.name:
            self.restore()

    def deliver(self) -> None:
        """In the main process."""
        raise NotImplementedError

    def deliver_together(self) -> None:
        """In the others, while the main process delivers."""

    def restore(self) -> None:
        """Bring the last weights to a server that was started anew."""
        raise NotImplementedError

    def named(self) -> None:
        """Tell the server the name of the weights that it has got."""
        self._ask("/update_weight_version", {"new_version": self.name})

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            if error.code > 500:  # 500 itself: it is there, and could not do what was asked
                raise Unreachable(f"status {error.code}") from None
            raise (_Unknown if error.code == 404 else UserError)(
                f"the vLLM server at hardware.vllm_url={self.url} refused {path} (status {error.code}: "
                f"{error.read()[:300].decode(errors='replace')}): {DEVELOPMENT}"
            ) from None
        except (OSError, ValueError) as error:
            raise Unreachable(f"{type(error).__name__} {error}") from None
        return json.loads(text) if text else {}


class WeightsByFolder(ServerWeights):
    """The policy as one file that the server reads: same machine, or a folder (TMPDIR) that both have."""

    def __init__(self, policy: Any, accelerator: Any, url: str):
        super().__init__(policy, accelerator, url)
        self._own = tempfile.TemporaryDirectory(prefix="codegrain-weights-") if accelerator.is_main_process else None
        self.folder = Path(str(broadcast_object_list([self._own.name if self._own else ""])[0]))

    def deliver(self) -> None:
        part = self.folder / "model.safetensors.part"
        dtype = next(self.policy.parameters()).dtype
        weights = {name: weight.to("cpu", dtype).contiguous() for name, weight in merged_weights(self.policy)}
        save_file(weights, part)
        part.replace(self.folder / "model.safetensors")
        self.restore()

    def restore(self) -> None:
        self._ask("/collective_rpc", {"method": "take_weights", "kwargs": {"folder": str(self.folder)}})
        self._ask("/reset_prefix_cache", {})  # what it has read, it has read with other weights
        self.named()


class WeightsByNccl(ServerWeights):
    """TRL's own transfer, which needs the package vllm and a GPU here."""

    def __init__(self, policy: Any, accelerator: Any, tokenizer: Any, url: str):
        super().__init__(policy, accelerator, url)
        from trl.generation.vllm_generation import VLLMGeneration

        self._transfer = VLLMGeneration(policy, accelerator, tokenizer, mode="server", server_base_url=url)

    def deliver(self) -> None:
        self._transfer.sync_weights()
        try:
            self.named()
        except _Unknown:
            self._names = False  # vLLM before 0.27 has no names for weights

    def deliver_together(self) -> None:
        self._transfer.sync_weights()

    def restore(self) -> None:
        raise UserError(
            f"the vLLM server at hardware.vllm_url={self.url} was started anew: run the same command again to resume"
        )


def weights_for_server(policy: Any, accelerator: Any, tokenizer: Any, url: str) -> ServerWeights:
    """The way for this device: NCCL from a GPU, else a folder."""
    if accelerator.device.type == "cpu":
        return WeightsByFolder(policy, accelerator, url)
    return WeightsByNccl(policy, accelerator, tokenizer, url)
