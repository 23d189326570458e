"""A connection that keeps breaking: nothing lost, nothing twice, no tool executed again."""

from __future__ import annotations

import time

from support.proxy import CuttingProxy
from support.target import (
    BASE_URL,
    MODEL,
    SYSTEM,
    Recorder,
    assert_whole,
    async_client,
    client,
    of_type,
    prompt,
    replay,
    texts,
)

#: Bytes of the stream's body after which each connection dies: inside the first frame, between
#: frames, and in the middle of later ones.
CUTS = [40, 700, 1500, 1501, 2900]

LINES = prompt(
    "text Looking it up.",
    "call lookup",
    "call note",
    "then",
    'call lookup {"again": true}',
    "tokens 120",
)


def the_synchronous_client_resumes_where_it_was_cut():
    lookup, note = Recorder("lookup", "found"), Recorder("note", "noted")
    with CuttingProxy(BASE_URL, CUTS) as proxy:
        with client(base_url=proxy.url) as mantyx:
            result = mantyx.run_agent(
                system_prompt=SYSTEM, model_id=MODEL, prompt=LINES, tools=[lookup.tool, note.tool]
            )
        _assert_nothing_lost(proxy, result, lookup, note)


async def the_asynchronous_client_resumes_where_it_was_cut():
    lookup, note = Recorder("lookup", "found"), Recorder("note", "noted")
    with CuttingProxy(BASE_URL, CUTS) as proxy:
        async with async_client(base_url=proxy.url) as mantyx:
            result = await mantyx.run_agent(
                system_prompt=SYSTEM, model_id=MODEL, prompt=LINES, tools=[lookup.tool, note.tool]
            )
        _assert_nothing_lost(proxy, result, lookup, note)


def a_cut_while_a_tool_is_at_work_does_not_execute_it_again():
    with CuttingProxy(BASE_URL, []) as proxy:

        def answer_after_a_reconnect(_: object) -> str:
            before = proxy.streams
            proxy.cut_now()
            return _wait_for(lambda: proxy.streams > before)

        tool = Recorder("patient", answer_after_a_reconnect)
        with client(base_url=proxy.url) as mantyx:
            result = mantyx.run_agent(
                system_prompt=SYSTEM,
                model_id=MODEL,
                prompt=prompt("call patient", "then", 'call patient {"again": true}'),
                tools=[tool.tool],
            )
        assert proxy.cuts == 2, proxy.cuts
    assert len(tool.calls) == 2, tool.calls
    assert result.text.splitlines() == ["patient returned: patience rewarded"] * 2, result.text
    assert_whole(result.events)


def a_session_resumes_too():
    with CuttingProxy(BASE_URL, CUTS) as proxy, client(base_url=proxy.url) as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        result = session.send("tokens 150")
        assert_whole(result.events)
        assert texts(result.events, "assistant_delta") == result.text
        assert session.history()[-1]["content"] == result.text
        assert proxy.cuts == len(CUTS), proxy.cuts


def _assert_nothing_lost(proxy: CuttingProxy, result, lookup: Recorder, note: Recorder) -> None:
    assert proxy.cuts == len(CUTS), f"only {proxy.cuts} cuts: the case tests nothing"
    assert proxy.streams == len(CUTS) + 1, proxy.streams
    assert proxy.resumed_after == sorted(proxy.resumed_after), proxy.resumed_after
    assert_whole(result.events)
    assert lookup.calls == [{}, {"again": True}], lookup.calls
    assert note.calls == [{}], note.calls
    last_turn = of_type(result.events, "local_tool_result_in")[-1].seq
    shown = [event for event in result.events if event.seq > last_turn]
    assert len(of_type(shown, "assistant_delta")) == 120
    assert texts(shown, "assistant_delta") == result.text
    stored = [(frame["seq"], frame["type"], frame["data"]) for frame in replay(result.run_id)]
    assert stored == [(event.seq, event.type, event.data) for event in result.events]


def _wait_for(condition) -> str:
    """Waits on what the proxy saw; the SDK reconnects after half a second."""
    deadline = time.monotonic() + 30.0
    while not condition():
        if time.monotonic() > deadline:
            return "gave up"
        time.sleep(0.02)
    return "patience rewarded"
