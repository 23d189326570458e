"""What is streamed: order, completeness, replay, thinking."""

from __future__ import annotations

from support.target import (
    MODEL,
    SYSTEM,
    Recorder,
    assert_whole,
    async_client,
    client,
    of_type,
    prompt,
    replay,
    run,
    texts,
)


def deltas_come_in_order_and_make_up_the_text():
    with client() as mantyx:
        events = list(
            mantyx.stream_agent(system_prompt=SYSTEM, model_id=MODEL, prompt="tokens 200")
        )
    assert_whole(events)
    assert len(of_type(events, "assistant_delta")) == 200
    (message,) = of_type(events, "assistant_message")
    assert texts(events, "assistant_delta") == message.text == events[-1].text
    assert events[-1].type == "result"


async def the_asynchronous_stream_is_the_same():
    async with async_client() as mantyx:
        events = [
            event
            async for event in mantyx.stream_agent(
                system_prompt=SYSTEM, model_id=MODEL, prompt="tokens 200"
            )
        ]
    assert_whole(events)
    assert texts(events, "assistant_delta") == events[-1].text


def callbacks_see_every_delta_and_every_event():
    deltas: list[str] = []
    events: list = []
    result = run(
        "say one two three", on_assistant_delta=deltas.append, on_event=events.append
    )
    assert "".join(deltas) == result.text == "one two three", deltas
    assert len(deltas) == 3, deltas
    assert events == result.events


def every_turn_closes_with_one_message():
    tool = Recorder("ping")
    result = run(
        prompt("text Let me see.", "call ping", "say All done."), tools=[tool.tool]
    )
    first, last = of_type(result.events, "assistant_message")
    assert first.text.strip() == "Let me see.", first
    assert first.data["finishReason"] == "tool_use", first
    assert [call["name"] for call in first.data["toolCalls"]] == ["ping"], first
    assert last.text == "All done." == result.text, last
    assert last.data["finishReason"] == "end_turn", last
    assert (first.data["turn"], last.data["turn"]) == (0, 1), (first, last)


def a_tool_is_called_before_it_is_answered_and_answered_before_the_next_turn():
    tool = Recorder("ping")
    result = run(prompt("call ping", "say done"), tools=[tool.tool])
    types = [event.type for event in result.events if event.type != "assistant_delta"]
    assert types == [
        "started",
        "assistant_message",
        "local_tool_call",
        "local_tool_result_in",
        "assistant_message",
        "result",
    ], types


def a_finished_run_replays_the_same_events_and_closes():
    tool = Recorder("ping")
    result = run(prompt("call ping", "say once more"), tools=[tool.tool])
    frames = replay(result.run_id)
    assert [(frame["seq"], frame["type"], frame["data"]) for frame in frames] == [
        (event.seq, event.type, event.data) for event in result.events
    ]
    half = len(frames) // 2
    assert replay(result.run_id, after=half) == frames[half:]
    assert len(tool.calls) == 1, "a replay executes nothing"


def the_payload_stands_flat_and_under_data():
    result = run("say both")
    for frame in replay(result.run_id):
        for key, value in frame["data"].items():
            assert frame[key] == value, frame


def thinking_is_shown_when_it_was_asked_for():
    result = run(prompt("think First I greet.", "say Hello."), reasoning_level="high")
    assert texts(result.events, "thinking_delta").strip() == "First I greet."
    assert result.text == "Hello.", result.text
    assert result.model is not None and result.model.reasoning_effort == "high", result.model
    assert result.tokens is not None and result.tokens.reasoning_tokens > 0, result.tokens
    first_text = of_type(result.events, "thinking_delta", "assistant_delta")[0]
    assert first_text.type == "thinking_delta", first_text


def thinking_is_not_shown_unasked():
    for level in (None, "off", 0):
        result = run(prompt("think Secretly.", "say Hello."), reasoning_level=level)
        assert of_type(result.events, "thinking_delta") == [], level
        assert result.text == "Hello.", result.text


def a_level_may_be_a_number():
    result = run("say Hello.", reasoning_level=40)
    assert result.model is not None and result.model.reasoning_effort == "medium", result.model
