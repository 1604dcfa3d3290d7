"""A server on loopback that speaks the part of the hub's API that an upload uses, and keeps what it is sent."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_a_test"


class Hub:
    """repositories: those created, each with what it was created with. files: contents by path in the last commit."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.large: dict[str, bytes] = {}

    def answer(self, path: str, body: bytes, address: str) -> tuple[int, Any]:
        """Status and JSON of a POST."""
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.repositories[name] = asked
            return 200, {"url": f"{address}/{name}"}
        if path.startswith("/api/validate-yaml"):
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            modes = [
                (f["path"], "lfs" if f["path"].endswith(".safetensors") else "regular")
                for f in json.loads(body)["files"]
            ]
            return 200, {"files": [{"path": p, "uploadMode": mode, "shouldIgnore": False} for p, mode in modes]}
        if path.endswith("/info/lfs/objects/batch"):
            asked = json.loads(body)["objects"]
            href = {each["oid"]: f"{address}/large/{each['oid']}" for each in asked}
            objects = [{**each, "actions": {"upload": {"href": href[each["oid"]]}}} for each in asked]
            return 200, {"transfer": "basic", "objects": objects}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.files[value["path"]] = self.large[value["oid"]]
            return 200, {
                "success": True,
                "commitOid": "0" * 40,
                "commitUrl": address + path.replace("/api/models", "").replace("/main", f"/{'0' * 40}"),
                "hookOutput": "",
            }
        return 404, {"error": f"no {path} here"}


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """Serve on a free port; yields the address, for HF_ENDPOINT."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self, status: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            self._reply(*((200, {"name": "me", "type": "user"}) if known else (401, {"error": "who?"})))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._reply(*hub.answer(self.path, body, address))

        def do_PUT(self) -> None:
            hub.large[self.path.rpartition("/")[2]] = self.rfile.read(int(self.headers["Content-Length"]))
            self._reply(200, {})

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield address
    finally:
        server.shutdown()
