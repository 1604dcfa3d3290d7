"""A server on loopback that speaks vLLM's completions endpoint as far as the trainers use it, with its own model."""

from __future__ import annotations

import copy
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from safetensors.torch import load_file

from recipes.sampling.generate import Decoding, sample


class Completions:
    """
    model: samples, with the weights that the last delivery brought; `start_anew` goes back to the first.
    held: what an answer to a prompt waits for, by its first token. failures: statuses to answer first, -1: hang up.
    """

    def __init__(self, model, eos=2):
        self.model, self.eos = copy.deepcopy(model).eval(), eos
        self._first, self.version = copy.deepcopy(self.model.state_dict()), "default"
        self.held: dict[int, threading.Event] = {}
        self.failures: list[int] = []
        self.requests: list[dict] = []
        self.weights_taken = 0
        self._one_at_a_time = threading.Lock()

    def start_anew(self):
        self.model.load_state_dict(self._first)
        self.version = "default"

    def control(self, path, asked):
        """What vLLM's endpoints for development do; None where it has no such endpoint."""
        if path == "/collective_rpc" and asked["method"] == "take_weights":
            weights = load_file(f"{asked['kwargs']['folder']}/model.safetensors")
            missing = self.model.load_state_dict(weights, strict=False).missing_keys
            assert missing in ([], ["lm_head.weight"]), missing  # the latter where it is the embedding's
            self.weights_taken += 1
            return {"results": [None]}
        if path == "/update_weight_version":
            self.version = asked["new_version"]
            return {"success": True}
        return {"success": True} if path == "/reset_prefix_cache" else None

    def answer(self, asked):
        if (event := self.held.get(asked["prompt"][0])) is not None and not event.wait(60):
            raise TimeoutError("nobody let this answer go")
        logps = {}
        with self._one_at_a_time:
            self.requests.append(asked)
            generator = torch.Generator().manual_seed(asked["seed"])
            decoding = Decoding(asked["max_tokens"], asked["temperature"], asked["top_p"])
            ends = asked["stop_token_ids"]
            ids = sample(
                self.model,
                [asked["prompt"]],
                asked["n"],
                decoding,
                ends,
                self.eos,
                generator=generator,
                ended=lambda place, _, results: logps.update({place: results}),
            )
        choices = [
            {"index": n, "token_ids": ids[n], "logprobs": {"token_logprobs": logps[n]}} for n in range(asked["n"])
        ]
        return {"choices": choices[::-1]}  # in any order

    @contextmanager
    def serving(self):
        """The server's address."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def reply(self, body, status=200):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                answers = {"/v1/models": {"data": [{"id": "tiny"}]}, "/weight_info": {"weight_version": outer.version}}
                self.reply(answers.get(self.path, {}))

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer.failures:
                    status = outer.failures.pop(0)
                    if status == -1:
                        self.connection.close()
                        return
                    self.reply({"error": "as asked"}, status)
                    return
                if self.path == "/v1/completions":
                    self.reply(outer.answer(asked))
                    return
                done = outer.control(self.path, asked)
                self.reply(done or {}, 404 if done is None else 200)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
