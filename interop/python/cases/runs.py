"""A run from beginning to end: text, usage, models, metadata, cancel."""

from __future__ import annotations

import asyncio
import threading

from mantyx import MantyxRunError

from support.target import (
    MODEL,
    SYSTEM,
    Recorder,
    RunIds,
    assert_whole,
    async_client,
    client,
    prompt,
    run,
    snapshot,
)


def a_run_answers_and_says_what_it_cost():
    result = run("say Hello from the loom.")
    assert result.text == "Hello from the loom.", result.text
    assert result.run_id.startswith("run_"), result.run_id
    assert result.turns == 1, result.turns
    assert result.tokens is not None
    assert result.tokens.input_tokens > 0 and result.tokens.output_tokens > 0, result.tokens
    assert result.model is not None
    assert result.model.id == MODEL and result.model.provider == "demo", result.model
    assert_whole(result.events)


async def the_asynchronous_client_gets_the_same():
    async with async_client() as mantyx:
        result = await mantyx.run_agent(
            system_prompt=SYSTEM, model_id=MODEL, prompt="say Hello from the loom."
        )
    assert result.text == "Hello from the loom.", result.text
    assert_whole(result.events)


def messages_work_in_place_of_a_prompt():
    with client() as mantyx:
        result = mantyx.run_agent(
            system_prompt=SYSTEM,
            model_id=MODEL,
            messages=[
                {"role": "user", "content": "say one"},
                {"role": "assistant", "content": "one"},
                {"role": "user", "content": "say two"},
            ],
        )
    assert result.text == "two", result.text


def the_catalog_has_the_demo_model_as_its_default():
    with client() as mantyx:
        catalog = mantyx.list_models()
        demo = [model for model in catalog.models if model.id == MODEL]
        assert len(demo) == 1, catalog
        assert demo[0].provider == "demo" and demo[0].source == "platform_offering", demo
        assert demo[0].label and demo[0].vendor_model_id, demo
        assert catalog.default_model_id == MODEL, catalog.default_model_id
        result = mantyx.run_agent(system_prompt=SYSTEM, prompt="say by default")
    assert result.model is not None and result.model.id == MODEL, result.model


def the_snapshot_of_a_finished_run_agrees_with_the_stream():
    result = run("say agreed", metadata={"customer": "c-42", "env": "test"}, name="agreeing")
    stored = snapshot(result.run_id)
    assert stored["id"] == result.run_id
    assert stored["status"] == "succeeded", stored
    assert stored["finalText"] == "agreed", stored
    assert stored["metadata"] == {"customer": "c-42", "env": "test"}, stored
    assert stored["turns"] == result.turns, stored
    assert stored["tokens"]["inputTokens"] == result.tokens.input_tokens, stored
    assert stored["model"]["id"] == MODEL, stored
    assert stored["error"] is None and stored["sessionId"] is None, stored
    assert stored["createdAt"] and stored["startedAt"] and stored["completedAt"], stored


def a_cancel_ends_a_model_that_hangs():
    run_ids = RunIds()
    types: list[str] = []
    with client(run_ids=run_ids) as mantyx:

        def on_event(event) -> None:
            types.append(event.type)
            if event.type == "started":
                mantyx.cancel_run(run_ids.last)

        error = _run_error(mantyx, "hang", on_event=on_event)
    assert error.subtype == "cancelled", error
    assert types[-1] == "cancelled" and types.count("cancelled") == 1, types
    assert snapshot(error.run_id)["status"] == "cancelled"


def a_cancel_does_not_wait_for_a_local_tool():
    run_ids = RunIds()
    ended = threading.Event()
    tool = Recorder("slow", lambda _: "late" if ended.wait(30.0) else "never released")
    with client(run_ids=run_ids) as mantyx:

        def on_event(event) -> None:
            if event.type == "local_tool_call":
                mantyx.cancel_run(run_ids.last)
            if event.type == "cancelled":
                ended.set()

        error = _run_error(mantyx, "call slow", tools=[tool.tool], on_event=on_event)
    assert error.subtype == "cancelled", error
    assert len(tool.calls) == 1, tool.calls
    assert snapshot(error.run_id)["status"] == "cancelled"


def a_cancel_leaves_a_finished_run_as_it_is():
    result = run("say finished")
    with client() as mantyx:
        mantyx.cancel_run(result.run_id)
        mantyx.cancel_run(result.run_id)
    assert snapshot(result.run_id)["status"] == "succeeded"


async def many_runs_at_once_do_not_mix():
    async with async_client() as mantyx:

        async def one(number: int) -> str:
            tool = Recorder("number", str(number))
            result = await mantyx.run_agent(
                system_prompt=SYSTEM,
                model_id=MODEL,
                prompt=prompt(f'call number {{"n": {number}}}'),
                tools=[tool.tool],
            )
            assert tool.calls == [{"n": number}], tool.calls
            assert_whole(result.events)
            return result.text

        texts = await asyncio.gather(*(one(number) for number in range(12)))
    assert texts == [f"number returned: {number}" for number in range(12)], texts


def _run_error(mantyx, lines: str, **options) -> MantyxRunError:
    try:
        result = mantyx.run_agent(system_prompt=SYSTEM, model_id=MODEL, prompt=lines, **options)
    except MantyxRunError as error:
        return error
    raise AssertionError(f"the run succeeded: {result.text!r}")
