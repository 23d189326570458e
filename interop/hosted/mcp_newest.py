"""The newest official MCP client: without a handshake, and with one."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from target import MCP_URL, end_of, key, package

PACKAGE = package("mcp")

MODES = ("auto", "2026-07-28", "legacy")


@asynccontextmanager
async def _client(mode: str):
    headers = {"Authorization": f"Bearer {key('mcp')}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(MCP_URL, http_client=http), mode=mode) as client:
            yield client


async def the_newest_revision_is_agreed_on():
    async with _client("auto") as client:
        assert client.protocol_version == "2026-07-28", client.protocol_version
    async with _client("legacy") as client:
        assert client.protocol_version == "2025-11-25", client.protocol_version


async def the_agents_are_tools_in_every_mode():
    for mode in MODES:
        async with _client(mode) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"support", "shaped"}, (mode, names)


async def a_call_is_answered_and_tells_of_its_progress_in_every_mode():
    for mode in MODES:
        heard: list[float] = []

        async def progress(value: float, total: float | None, message: str | None) -> None:
            heard.append(value)

        async with _client(mode) as client:
            result = await client.call_tool("support", {"message": "say Hello."}, progress_callback=progress)
        assert not result.is_error and result.content[0].text == "Hello.", (mode, result)
        assert len(heard) >= 2 and heard == sorted(heard), (mode, heard)


async def an_answer_with_a_schema_is_structured_in_every_mode():
    for mode in MODES:
        async with _client(mode) as client:
            result = await client.call_tool("shaped", {"message": "Which city?"})
        assert isinstance(result.structured_content["city"], str), (mode, result)


async def an_unknown_tool_and_a_failure_are_told_apart():
    async with _client("auto") as client:
        failed = await client.call_tool("support", {"message": "fail 400"})
        assert failed.is_error, failed
        try:
            await client.call_tool("nobody", {"message": "hi"})
        except MCPError as error:
            assert error.code == -32602, error
        else:
            raise AssertionError("nobody answered")


async def a_call_that_its_client_gives_up_is_cancelled_and_the_next_one_answered():
    for mode in ("auto", "legacy"):
        word = str(uuid4())
        begun = asyncio.Event()

        async def progress(value: float, total: float | None, message: str | None) -> None:
            begun.set()

        async with _client(mode) as client:
            call = client.call_tool("support", {"message": f"hang\n{word}"}, progress_callback=progress)
            hanging = asyncio.create_task(call)
            await begun.wait()
            hanging.cancel()
            await asyncio.wait([hanging])
            result = await client.call_tool("support", {"message": "say on"})
            assert result.content[0].text == "on", (mode, result)
            ended = await asyncio.to_thread(end_of, word)
        assert ended == "cancelled", (mode, ended)
