"""Results of tools that later messages of a session are told."""

from __future__ import annotations

import inspect
import json

from mantyx import define_local_tool

from support.target import MODEL, SYSTEM, NotApplicable, Recorder, client, prompt


def a_retained_result_is_told_to_later_messages():
    if "retain" not in inspect.signature(define_local_tool).parameters:
        raise NotApplicable("this SDK does not know retain")
    kept, dropped = Recorder("kept", "the code is 4711", retain=True), Recorder("dropped", "noise")
    with client() as mantyx:
        session = mantyx.create_session(
            system_prompt=SYSTEM, model_id=MODEL, tools=[kept.tool, dropped.tool]
        )
        session.send(prompt('call kept {"n": 1}', "call dropped", "say done"))
        told = json.loads(session.send("history").text)
        assert [message["role"] for message in told] == ["user", "tool", "assistant"], told
        assert told[1] == {"role": "tool", "name": "kept", "content": "the code is 4711"}, told
        shown = session.history()
        assert [message["role"] for message in shown] == ["user", "assistant"] * 2, shown
        assert len(kept.calls) == len(dropped.calls) == 1
        session.end()
