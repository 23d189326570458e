"""Conversations: memory, tools, metadata, the end."""

from __future__ import annotations

import asyncio
import json

from mantyx import MantyxError, MantyxRunError

from support.target import (
    MODEL,
    SYSTEM,
    Recorder,
    assert_whole,
    async_client,
    client,
    prompt,
    raw,
    snapshot,
)


def a_session_remembers_what_was_said():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL, name="memory")
        assert session.id.startswith("ses_"), session.id
        first = session.send("say I am the first answer.")
        assert first.text == "I am the first answer.", first.text
        second = session.send("history")
        expected = [
            {"role": "user", "content": "say I am the first answer."},
            {"role": "assistant", "content": "I am the first answer."},
        ]
        assert json.loads(second.text) == expected, second.text
        assert session.history() == [
            *expected,
            {"role": "user", "content": "history"},
            {"role": "assistant", "content": second.text},
        ]
        info = session.info()
        assert info.status == "active" and info.ended_at is None, info
        assert info.name == "memory", info
        assert snapshot(first.run_id)["sessionId"] == session.id
        session.end()


async def the_asynchronous_session_remembers_too():
    async with async_client() as mantyx:
        session = await mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        await session.send("say one")
        events = [event async for event in session.stream("history")]
        assert_whole(events)
        assert json.loads(events[-1].text)[1] == {"role": "assistant", "content": "one"}
        assert len(await session.history()) == 4
        await session.end()


def an_ended_session_refuses_messages():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        session.send("say before the end")
        session.end()
        info = session.info()
        assert info.status == "ended" and info.ended_at, info
        assert len(info.messages) == 2, info.messages
        try:
            session.send("say too late")
        except MantyxError as error:
            assert error.status == 409 and error.code == "session_ended", repr(error)
        else:
            raise AssertionError("an ended session took a message")


def ending_a_session_cancels_the_run_in_flight():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)

        def on_event(event) -> None:
            if event.type == "started":
                mantyx.end_session(session.id)

        try:
            session.send("hang", on_event=on_event)
        except MantyxRunError as error:
            assert error.subtype == "cancelled", error
        else:
            raise AssertionError("the run went on after the session's end")


def tools_of_a_session_serve_every_message():
    tool = Recorder("ping", lambda arguments: f"pong {arguments.get('n')}")
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL, tools=[tool.tool])
        assert session.send('call ping {"n": 1}').text == "ping returned: pong 1"
        assert session.send('call ping {"n": 2}').text == "ping returned: pong 2"
        assert [message["role"] for message in session.history()] == ["user", "assistant"] * 2
    assert tool.calls == [{"n": 1}, {"n": 2}], tool.calls


def a_session_is_resumed_by_another_client_with_its_tools():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        session.send("say from the first client")
    tool = Recorder("ping", "pong")
    with client() as mantyx:
        resumed = mantyx.resume_session(session.id, tools=[tool.tool])
        assert resumed.send("call ping").text == "ping returned: pong"
        assert len(resumed.history()) == 4
    assert len(tool.calls) == 1, tool.calls


def a_failed_message_leaves_no_trace_in_the_conversation():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        session.send("say kept")
        try:
            session.send(prompt("say this will be cut short", "truncate"))
        except MantyxRunError as error:
            assert error.error_class == "truncation", error
        else:
            raise AssertionError("a truncated message succeeded")
        assert [message["content"] for message in session.history()] == ["say kept", "kept"]
        assert json.loads(session.send("history").text)[-1]["content"] == "kept"


def metadata_of_a_message_is_laid_over_the_sessions():
    with client() as mantyx:
        session = mantyx.create_session(
            system_prompt=SYSTEM, model_id=MODEL, metadata={"customer": "c-1", "stage": "a"}
        )
        result = session.send("say noted", metadata={"stage": "b", "turn": "1"})
        merged = {"customer": "c-1", "stage": "b", "turn": "1"}
        assert snapshot(result.run_id)["metadata"] == merged
        assert session.info().metadata == {"customer": "c-1", "stage": "a"}


async def two_messages_at_once_run_one_after_the_other():
    async with async_client() as mantyx:
        session = await mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        await asyncio.gather(
            session.send(prompt("slow 5ms", "say alpha beta gamma")),
            session.send(prompt("slow 5ms", "say delta epsilon zeta")),
        )
        history = await session.history()
    assert [message["role"] for message in history] == ["user", "assistant"] * 2, history
    for asked, answered in zip(history[::2], history[1::2], strict=True):
        assert asked["content"].endswith(answered["content"]), history


def an_unknown_session_is_not_found():
    with client() as mantyx:
        for call in (mantyx.get_session_info, mantyx.end_session, mantyx.resume_session):
            try:
                call("ses_00000000000000000000000000")
            except MantyxError as error:
                assert error.status == 404 and error.code == "not_found", repr(error)
            else:
                raise AssertionError(f"{call} found a session that does not exist")


def a_session_can_be_ended_twice():
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        session.end()
        assert raw("DELETE", f"/agent-sessions/{session.id}").status_code == 200
