"""A TCP proxy that breaks event streams.

Everything passes untouched but answers to `GET …/stream`: each of those connections dies after
a given number of bytes of its body, until the planned cuts are used up. So a client that resumes
properly needs exactly one connection more than there are cuts. A case may also cut by hand.
"""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit

_CHUNK = 4096


class CuttingProxy:
    """Runs on a thread of its own, so that synchronous and asynchronous clients can use it."""

    def __init__(self, upstream: str, cuts: list[int]) -> None:
        parts = urlsplit(upstream)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 80
        self._planned = list(cuts)
        self.cuts = 0
        self.streams = 0
        self.resumed_after: list[int] = []
        self.url = ""
        self._open_streams: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.daemon = True

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        if not self._ready.wait(10.0):
            raise RuntimeError("the proxy did not come up")
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10.0)

    def cut_now(self) -> None:
        """Breaks every stream that is open at this moment."""
        self._loop.call_soon_threadsafe(self._abort_streams)

    def _abort_streams(self) -> None:
        for writer in list(self._open_streams):
            self.cuts += 1
            writer.transport.abort()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        link = _Link(writer)
        ways = [
            asyncio.create_task(self._requests(reader, upstream_writer, link)),
            asyncio.create_task(self._answers(upstream_reader, writer, link)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._open_streams.discard(writer)
            # An abort is a reset: what a crashed load balancer looks like to a client.
            writer.transport.abort()
            upstream_writer.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> None:
        while data := await reader.read(_CHUNK):
            first_line = data.split(b"\r\n", 1)[0]
            if first_line.startswith(b"GET ") and b"/stream" in first_line:
                self._opened(first_line, link)
            writer.write(data)
            await writer.drain()

    def _opened(self, first_line: bytes, link: _Link) -> None:
        self.streams += 1
        _, _, query = first_line.split(b" ")[1].partition(b"lastSeq=")
        if query:
            self.resumed_after.append(int(query.split(b"&")[0]))
        self._open_streams.add(link.writer)
        link.body_begun = False
        link.left = self._planned.pop(0) if self._planned else None

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> None:
        while data := await reader.read(_CHUNK):
            passed = link.let_through(data)
            writer.write(passed)
            await writer.drain()
            if link.left == 0:
                self.cuts += 1
                return


class _Link:
    """How much of the stream on one connection may still pass; `None`: all of it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.left: int | None = None
        self.body_begun = True
        self._head = b""

    def let_through(self, data: bytes) -> bytes:
        if self.left is None:
            return data
        head = b""
        if not self.body_begun:
            self._head += data
            head_end = self._head.find(b"\r\n\r\n")
            if head_end < 0:
                return data
            body_length = len(self._head) - head_end - 4
            head, data = data[: len(data) - body_length], data[len(data) - body_length :]
            self.body_begun = True
            self._head = b""
        data = data[: self.left]
        self.left -= len(data)
        return head + data
