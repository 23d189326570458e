"""A small Agent2Agent peer on loopback: an agent card and `message/send`."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class A2aPeer:
    """Answers every message with `peer heard: …`, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(peer.card)

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = request["params"]["message"]["parts"][0]["text"]
                peer.heard.append(text)
                reply = {
                    "kind": "message",
                    "role": "agent",
                    "messageId": "m1",
                    "parts": [{"kind": "text", "text": f"peer heard: {text}"}],
                }
                self._answer({"jsonrpc": "2.0", "id": request["id"], "result": reply})

            def _answer(self, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.card_url = f"{url}/.well-known/agent-card.json"
        self.card = {
            "name": "Echo Peer",
            "description": "Repeats what it hears.",
            "url": f"{url}/",
            "version": "1.0.0",
            "protocolVersion": "0.3.0",
            "capabilities": {"streaming": False},
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
            "skills": [{"id": "echo", "name": "Echo", "description": "Repeats.", "tags": []}],
            "x-unknown": {"kept": [1, "two", None]},
        }

    def __enter__(self) -> A2aPeer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
