"""The official A2A client of generation 1.0, and its own way to speak 0.3."""

from __future__ import annotations

from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from target import agent_url, key, package

PACKAGE = package("a2a-sdk")


@asynccontextmanager
async def _client(slug: str = "support", usage: str = "a2a", only: str | None = None, **config):
    headers = {"X-API-Key": key(usage)}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, agent_url(slug)).get_agent_card()
        if only is not None:
            kept = [face for face in card.supported_interfaces if face.protocol_version == only]
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(kept)
        yield ClientFactory(ClientConfig(httpx_client=http, **config)).create(card)


def _ask(text: str, context: str = "") -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, message_id=str(uuid4()), parts=[Part(text=text)], context_id=context)
    return SendMessageRequest(message=message)


async def _all(events) -> list:
    return [event async for event in events]


def _text(holder) -> str:
    return "".join(part.text for part in holder.parts)


async def the_card_is_read_with_both_generations():
    headers = {"Authorization": f"Bearer {key('a2a')}"}
    async with httpx.AsyncClient(headers=headers) as http:
        card = await A2ACardResolver(http, agent_url("support")).get_agent_card()
    spoken = [(face.protocol_binding, face.protocol_version) for face in card.supported_interfaces]
    assert spoken == [("JSONRPC", "1.0"), ("JSONRPC", "0.3")], spoken
    schemes = card.security_schemes
    assert schemes["bearer"].http_auth_security_scheme.scheme == "bearer", schemes
    assert schemes["apiKey"].api_key_security_scheme.name == "X-API-Key", schemes
    assert len(card.security_requirements) == 2, card


async def a_message_is_answered_by_a_message_that_says_what_it_cost():
    async with _client(streaming=False) as client:
        [reply] = await _all(client.send_message(_ask("say Hello.")))
    assert _text(reply.message) == "Hello." and reply.message.role == Role.ROLE_AGENT, reply
    used = MessageToDict(reply.message.metadata)["mantyx"]
    assert used["turns"] == 1 and used["model"]["id"] == "platform:demo", used


async def a_stream_ends_with_the_whole_answer():
    async with _client() as client:
        events = await _all(client.send_message(_ask("tokens 40")))
    assert events[0].task.status.state == TaskState.TASK_STATE_SUBMITTED, events[0]
    said = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [update.append for update in said] == [False] + [True] * (len(said) - 1), said
    assert len("".join(_text(update.artifact) for update in said).split()) == 40, said
    last = events[-1].status_update
    assert last.status.state == TaskState.TASK_STATE_COMPLETED, last
    assert MessageToDict(last.metadata)["mantyx"]["turns"] == 1, last


async def the_newer_client_speaks_the_older_generation_as_well():
    async with _client(only="0.3", streaming=False) as client:
        [reply] = await _all(client.send_message(_ask("say Hello.")))
        assert _text(reply.message) == "Hello.", reply
    async with _client(only="0.3") as client:
        events = await _all(client.send_message(_ask("say Hello.")))
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events[-1]


async def a_context_remembers_what_was_said():
    async with _client(streaming=False) as client:
        [first] = await _all(client.send_message(_ask("say one")))
        [second] = await _all(client.send_message(_ask("history", first.message.context_id)))
    assert second.message.context_id == first.message.context_id
    assert "say one" in _text(second.message), second


async def an_unknown_context_is_refused():
    async with _client(streaming=False) as client:
        try:
            await _all(client.send_message(_ask("say hi", "mine")))
        except InvalidParamsError as error:
            assert "contextId" in str(error), error
        else:
            raise AssertionError("an unknown context was taken")


async def a_task_that_nobody_waits_for_is_found_again():
    async with _client(streaming=False, polling=True) as client:
        [begun] = await _all(client.send_message(_ask("slow 20ms\ntokens 20")))
    async with _client() as client:
        found = begun.task
        while found.status.state != TaskState.TASK_STATE_COMPLETED:
            found = await client.get_task(GetTaskRequest(id=begun.task.id))
    assert len(_text(found.artifacts[0]).split()) == 20, found


async def who_subscribes_to_a_task_sees_its_end_and_nobody_afterwards():
    async with _client(streaming=False, polling=True) as client:
        [begun] = await _all(client.send_message(_ask("hang")))
    async with _client() as client:
        named = SubscribeToTaskRequest(id=begun.task.id)
        events = client.subscribe(named)
        await anext(events)
        await client.cancel_task(CancelTaskRequest(id=begun.task.id))
        [*_, last] = await _all(events)
        assert last.status_update.status.state == TaskState.TASK_STATE_CANCELED, last
        try:
            await _all(client.subscribe(named))
        except UnsupportedOperationError:
            pass
        else:
            raise AssertionError("a task that has ended was subscribed to")


async def a_cancel_stops_the_task():
    async with _client(streaming=False, polling=True) as client:
        [begun] = await _all(client.send_message(_ask("hang")))
        stopped = await client.cancel_task(CancelTaskRequest(id=begun.task.id))
        assert stopped.status.state == TaskState.TASK_STATE_CANCELED, stopped
        try:
            await client.cancel_task(CancelTaskRequest(id=begun.task.id))
        except TaskNotCancelableError:
            pass
        else:
            raise AssertionError("a stopped task was stopped again")


async def an_unknown_task_is_not_found():
    async with _client() as client:
        try:
            await client.get_task(GetTaskRequest(id="run_nobody"))
        except TaskNotFoundError:
            pass
        else:
            raise AssertionError("nobody's task was found")


async def a_failure_is_a_failed_task_with_its_reason():
    async with _client(streaming=False) as client:
        [reply] = await _all(client.send_message(_ask("fail 400")))
    assert reply.task.status.state == TaskState.TASK_STATE_FAILED, reply
    assert "fail" in _text(reply.task.status.message), reply
