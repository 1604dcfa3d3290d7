"""Sampling from a vLLM server: a request for each prompt, answers as they end, the policy's weights sent before.

`launch/vllm_server.sh MODEL` starts one. Tokens are drawn over its completions endpoint; vllm_weights.py has how the
weights get there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from omegaconf import DictConfig

from recipes.cli.console import log
from recipes.cli.errors import UserError
from recipes.sampling.conversation import Conversation, Reread
from recipes.sampling.generate import Complete, Decoding, Ended, cut
from recipes.sampling.policy_copy import require_mergeable
from recipes.sampling.vllm_weights import PAUSES_S, ServerWeights, Unreachable, weights_for_server

SEEDS = 2**31
WHOLE_DISTRIBUTION = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Else the server takes what the model's own generation_config.json says, and the policy is sampled from another
distribution than the one that is trained."""


def server_of_a_model(policy: Any, tokenizer: Any, hardware: DictConfig) -> ServerSampler | None:
    """The profile's server as the sampler of a model that is not trained; None where the profile has none."""
    if hardware.vllm != "server":
        return None
    from accelerate import Accelerator

    require_mergeable(policy)
    weights = weights_for_server(policy, Accelerator(), tokenizer, hardware.vllm_url)
    return ServerSampler(hardware.vllm_url, Decoding(1), (), weights, version=lambda: 0)


@dataclass
class ServerSampler:
    """Called as recipes/sampling/sampler.py's Sampler is.

    Args:
        url: of the server.
        decoding, eos_ids: how tokens are drawn, what ends a completion.
        weights: brings the policy's weights to the server.
        version: a number that changes with the weights: they are sent when it has.
        complete: says of sampled ids that nothing further is needed. The server does not ask it: what it drew beyond
            is cut off, which leaves what a sampler that stops there would have drawn.
    """

    url: str
    decoding: Decoding
    eos_ids: Sequence[int]
    weights: ServerWeights
    version: Callable[[], int]
    complete: Complete | None = None
    _sent: int | None = field(default=None, repr=False)
    _checked: bool = field(default=False, repr=False)
    """Whether the server was asked since the last failure which weights it has."""

    def __call__(
        self,
        policy: Any,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        generator: torch.Generator | None = None,
        ended: Ended | None = None,
        begun: Sequence[Sequence[int]] | None = None,
    ) -> list[list[int]]:
        """`num_samples` completions of each prompt, prompt-major. `ended` hears of a prompt's when all are there.
        `begun`: ids at each prompt's end that are the beginning of its answer, as of `sample`.

        Raises UserError where the server does not answer, after `PAUSES_S`, or refuses.
        """
        self.bring_weights()
        device = generator.device if generator is not None else None
        seeds = torch.randint(SEEDS, (len(prompts),), generator=generator, device=device).tolist()
        answers = [list(ids) for ids in begun] if begun is not None else [[] for _ in prompts]
        return asyncio.run(self._all(prompts, num_samples, seeds, ended or (lambda place, ids, logps: None), answers))

    def bring_weights(self) -> None:
        """Bring the policy's weights to the server where it has older ones. All processes call it together."""
        if self.version() != self._sent:
            self.weights()
            self._sent = self.version()

    @contextmanager
    def conversation(self, policy: Any, generator: torch.Generator | None = None) -> Iterator[Conversation]:
        """Conversations on the server, each sent whole; what it has read before it finds in its own cache."""
        yield Reread(lambda prompts, n, ended: self(policy, prompts, n, generator, ended))

    async def _all(
        self,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        seeds: list[int],
        ended: Ended,
        begun: list[list[int]],
    ) -> list[list[int]]:
        import aiohttp

        completions: list[list[int]] = [[] for _ in range(len(prompts) * num_samples)]
        endless = aiohttp.ClientTimeout(total=None, sock_connect=30)  # an answer may be thousands of tokens
        async with aiohttp.ClientSession(timeout=endless, connector=aiohttp.TCPConnector(limit=0)) as session:
            self._checked = False
            model = (await self._ask(session, "GET", "/v1/models", None))["data"][0]["id"]

            async def one(place: int) -> tuple[int, list[dict[str, Any]]]:
                room = max(1, self.decoding.max_new_tokens - len(begun[place]))
                request = self._request(model, prompts[place], num_samples, seeds[place], room)
                answer = await self._ask(session, "POST", "/v1/completions", request)
                return place, sorted(answer["choices"], key=lambda choice: choice["index"])

            for coming in asyncio.as_completed([one(place) for place in range(len(prompts))]):
                place, choices = await coming
                for row, choice in enumerate(choices, place * num_samples):
                    drawn = self._drawn(choice)
                    completions[row], logps = cut(*drawn, self.eos_ids, self.complete, begun[place])
                    ended(row, completions[row], logps)
        return completions

    def _request(self, model: str, prompt: Sequence[int], num_samples: int, seed: int, room: int) -> dict[str, Any]:
        return {
            "model": model,
            "prompt": list(prompt),
            "n": num_samples,
            "seed": seed,
            "temperature": self.decoding.temperature,
            "top_p": self.decoding.top_p,
            **WHOLE_DISTRIBUTION,
            "max_tokens": room,
            "stop_token_ids": list(self.eos_ids),
            "logprobs": 0,  # of the sampled token alone
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

    def _drawn(self, choice: dict[str, Any]) -> tuple[list[int], list[float]]:
        try:
            return choice["token_ids"], choice["logprobs"]["token_logprobs"]
        except (KeyError, TypeError):
            raise UserError(
                f"the server at hardware.vllm_url={self.url} gives no token ids or log-probabilities: start it with "
                "launch/vllm_server.sh"
            ) from None

    async def _ask(self, session: Any, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        import aiohttp

        failure = ""
        for pause in (0, *PAUSES_S):
            await asyncio.sleep(pause)
            try:
                if not self._checked:  # one that was started anew has other weights
                    self.weights.keep()
                    self._checked = True
                async with session.request(method, f"{self.url}{path}", json=body) as response:
                    if response.status == 200:
                        return await response.json()
                    failure = f"status {response.status}: {(await response.text())[:300]}"
                    if response.status < 500:
                        raise UserError(
                            f"the vLLM server at hardware.vllm_url={self.url} refused a request ({failure}): check the "
                            "model and the --max-model-len that it was started with"
                        )
            except (aiohttp.ClientError, TimeoutError, ValueError, Unreachable) as error:
                failure = f"{type(error).__name__} {error}".strip()
            if self._checked:
                log.warning("the vLLM server at %s failed (%s): asking again", self.url, failure)
            self._checked = False
        raise UserError(
            f"the vLLM server at hardware.vllm_url={self.url} failed ({failure}); run the same command again to resume"
        )
