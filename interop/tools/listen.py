"""Serves an ASGI application on a loopback port, a free one unless PORT names one, and says which on standard output."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import uvicorn


def listen(application: Callable[[str], Any]) -> None:
    """Makes the application for the URL it will have, prints `listening on URL`, and serves until killed."""
    server_socket = socket.socket()
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server_socket.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    server_socket.listen(64)
    url = f"http://127.0.0.1:{server_socket.getsockname()[1]}"
    app = application(url)
    print(f"listening on {url}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[server_socket])
