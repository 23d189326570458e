"""The official A2A client of generation 0.3."""

from __future__ import annotations

from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    Message,
    Part,
    Role,
    Task,
    TaskIdParams,
    TaskQueryParams,
    TaskState,
    TextPart,
    TransportProtocol,
)

from target import agent_url, key, package

PACKAGE = package("a2a-sdk")

@asynccontextmanager
async def _client(slug: str = "support", usage: str = "a2a", allowed: tuple[str, ...] = (), **config):
    headers = {"Authorization": f"Bearer {key(usage, *allowed)}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, agent_url(slug)).get_agent_card()
        transports = [TransportProtocol.jsonrpc]
        config = ClientConfig(httpx_client=http, supported_transports=transports, **config)
        yield ClientFactory(config).create(card)


def _message(text: str, **more) -> Message:
    parts = [Part(root=TextPart(text=text))]
    return Message(role=Role.user, message_id=str(uuid4()), parts=parts, **more)


async def _all(events) -> list:
    return [event async for event in events]


def _text(holder) -> str:
    return "".join(part.root.text for part in holder.parts)


async def the_card_is_read_with_its_skills():
    async with _client() as client:
        card = await client.get_card()
    assert card.name == "Support" and card.protocol_version == "0.3.0", card
    assert card.url == agent_url("support"), card.url
    assert card.capabilities.streaming is True
    assert [skill.name for skill in card.skills] == ["Refunds"], card.skills


async def a_message_is_answered_by_a_message_that_says_what_it_cost():
    async with _client(streaming=False) as client:
        [reply] = await _all(client.send_message(_message("say Hello.")))
    assert isinstance(reply, Message), reply
    assert reply.role == Role.agent and _text(reply) == "Hello.", reply
    used = reply.metadata["mantyx"]
    assert used["turns"] == 1 and used["tokens"]["outputTokens"] > 0, used
    assert used["model"]["id"] == "platform:demo", used


async def a_stream_ends_with_the_whole_answer():
    async with _client() as client:
        # The client goes on to change the task that it shows.
        events = [(task.status.state, task, update) async for task, update in client.send_message(_message("tokens 40"))]
    assert events[0][0] == TaskState.submitted, events[0]
    state, task, last = events[-1]
    assert last.final is True and state == TaskState.completed, last
    [artifact] = task.artifacts
    assert len(_text(artifact).split()) == 40, artifact
    assert task.metadata["mantyx"]["turns"] == 1, task.metadata


async def the_artifact_of_a_stream_is_the_last_turns_text():
    async with _client() as client:
        events = await _all(client.send_message(_message("text Let me see.\ncall nothing {}\nthen\nsay Done.")))
    task, _ = events[-1]
    assert _text(task.artifacts[0]) == "Done.", task.artifacts


async def a_context_remembers_what_was_said():
    async with _client(streaming=False) as client:
        [first] = await _all(client.send_message(_message("say one")))
        context = first.context_id
        [second] = await _all(client.send_message(_message("history", context_id=context)))
    assert second.context_id == context
    assert "one" in _text(second) and "say one" in _text(second), second


async def a_context_of_nobody_or_of_another_agent_is_unknown():
    async with _client("shaped", streaming=False) as client:
        [other] = await _all(client.send_message(_message("hi")))
    for context in (other.context_id, "ses_nobody", "mine"):
        async with _client(streaming=False) as client:
            try:
                await _all(client.send_message(_message("say hi", context_id=context)))
            except A2AClientJSONRPCError as error:
                assert error.error.code == -32602, error
            else:
                raise AssertionError(f"{context} was taken")


async def a_task_that_nobody_waits_for_is_found_again():
    async with _client(streaming=False, polling=True) as client:
        [(task, _)] = await _all(client.send_message(_message("slow 20ms\ntokens 20")))
        assert isinstance(task, Task), task
    async with _client() as client:
        # Of a task that has ended by now the whole stream comes as well.
        events = await _all(client.resubscribe(TaskIdParams(id=task.id)))
        found = await client.get_task(TaskQueryParams(id=task.id))
    assert events[-1][0].status.state == TaskState.completed, events[-1]
    assert found.status.state == TaskState.completed, found
    assert len(_text(found.artifacts[0]).split()) == 20, found


async def who_subscribes_to_a_task_sees_its_end():
    async with _client(streaming=False, polling=True) as client:
        [(task, _)] = await _all(client.send_message(_message("hang")))
        assert task.status.state in (TaskState.submitted, TaskState.working), task
    async with _client() as client:
        events = client.resubscribe(TaskIdParams(id=task.id))
        await anext(events)
        await client.cancel_task(TaskIdParams(id=task.id))
        [*_, (last, _)] = await _all(events)
    assert last.status.state == TaskState.canceled, last


async def a_cancel_stops_the_task():
    async with _client(streaming=False, polling=True) as client:
        [(task, _)] = await _all(client.send_message(_message("hang")))
        stopped = await client.cancel_task(TaskIdParams(id=task.id))
        assert stopped.status.state == TaskState.canceled, stopped
        try:
            await client.cancel_task(TaskIdParams(id=task.id))
        except A2AClientJSONRPCError as error:
            assert error.error.code == -32002, error
        else:
            raise AssertionError("a stopped task was stopped again")


async def a_failure_is_a_failed_task_with_its_reason():
    async with _client(streaming=False) as client:
        [(task, _)] = await _all(client.send_message(_message("fail 400")))
    assert task.status.state == TaskState.failed, task
    assert "fail" in _text(task.status.message), task.status


async def tasks_of_other_agents_are_not_found():
    async with _client("shaped", streaming=False) as client:
        [reply] = await _all(client.send_message(_message("hi")))
    async with _client() as client:
        for task in (reply.task_id, "run_nobody", "x"):
            try:
                await client.get_task(TaskQueryParams(id=task))
            except A2AClientJSONRPCError as error:
                assert error.error.code == -32001, error
            else:
                raise AssertionError(f"{task} was found")


async def an_agent_outside_the_keys_list_is_not_there():
    try:
        async with _client("support", allowed=("shaped",)):
            raise AssertionError("the card was shown")
    except A2AClientHTTPError as error:
        assert error.status_code == 404, error


async def an_agent_that_needs_its_clients_tools_is_refused_at_once():
    try:
        async with _client("clients-tools"):
            raise AssertionError("the card was shown")
    except A2AClientHTTPError as error:
        assert error.status_code == 409, error
