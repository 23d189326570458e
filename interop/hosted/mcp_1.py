"""The official MCP client of the generation with a handshake."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification

from target import MCP_URL, end_of, key, package

PACKAGE = package("mcp")


@asynccontextmanager
async def _session(*allowed: str, **options):
    headers = {"Authorization": f"Bearer {key('mcp', *allowed)}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(MCP_URL, http_client=http) as (read, write, _),
        ClientSession(read, write, **options) as session,
    ):
        await session.initialize()
        yield session


async def the_agents_are_tools():
    async with _session() as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        await session.send_ping()
    assert set(tools) == {"support", "shaped"}, tools
    assert tools["support"].description == "Answers support questions."
    assert tools["support"].inputSchema["required"] == ["message"]
    assert tools["shaped"].outputSchema["required"] == ["city"]


async def a_key_for_some_agents_sees_only_those():
    async with _session("shaped") as session:
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["shaped"], names
        try:
            await session.call_tool("support", {"message": "say hi"})
        except McpError as error:
            assert error.error.code == -32602, error
        else:
            raise AssertionError("an agent outside the list was called")


async def a_call_is_answered_and_tells_of_its_progress():
    heard: list[tuple[float, str | None]] = []

    async def progress(value: float, total: float | None, message: str | None) -> None:
        heard.append((value, message))

    async with _session() as session:
        result = await session.call_tool("support", {"message": "say Hello."}, progress_callback=progress)
    assert not result.isError and result.content[0].text == "Hello.", result
    assert result.meta["mantyx"]["turns"] == 1, result.meta
    assert len(heard) >= 2 and heard == sorted(heard), heard


async def an_answer_with_a_schema_is_structured():
    async with _session() as session:
        result = await session.call_tool("shaped", {"message": "Which city?"})
    assert isinstance(result.structuredContent["city"], str), result


async def a_failure_and_bad_arguments_are_errors_that_a_model_can_read():
    async with _session() as session:
        failed = await session.call_tool("support", {"message": "fail 400"})
        bad = await session.call_tool("support", {"text": "hi"})
    assert failed.isError and "fail" in failed.content[0].text, failed
    assert bad.isError and "message" in bad.content[0].text, bad


async def a_call_that_its_client_gives_up_by_a_notification_is_cancelled_and_the_next_one_answered():
    word = str(uuid4())
    begun = asyncio.Event()

    async def progress(value: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with _session() as session:
        call = session.call_tool("support", {"message": f"hang\n{word}"}, progress_callback=progress)
        hanging = asyncio.create_task(call)
        await begun.wait()
        # This client numbers its requests from 0: initialize, the call.
        notice = CancelledNotification(params=CancelledNotificationParams(requestId=1))
        await session.send_notification(ClientNotification(notice))
        result = await hanging
        assert result.isError and "cancelled" in result.content[0].text, result
        result = await session.call_tool("support", {"message": "say on"})
    assert result.content[0].text == "on", result
    assert await asyncio.to_thread(end_of, word) == "cancelled"
