"""A model that is out of service, and the one that takes over."""

from __future__ import annotations

import inspect

from mantyx import MantyxError, MantyxRunError

from support.target import (
    MODEL,
    SYSTEM,
    NotApplicable,
    assert_whole,
    client,
    of_type,
    prompt,
    raw,
    run,
    snapshot,
)

SPARE = "platform:demo-spare"
OUTAGE = prompt("fail 503", "say the spare speaks")


def the_fallback_answers_when_the_model_is_out_of_service():
    _needs_fallbacks()
    events = []
    result = run(OUTAGE, fallback_model_id=SPARE, on_event=events.append)
    assert result.text == "the spare speaks", result.text
    assert result.model is not None and result.model.id == SPARE, result.model
    assert result.turns == 1, result.turns
    assert_whole(events)
    (moved,) = of_type(events, "model_fallback")
    assert moved.data["errorClass"] == "overloaded", moved.data
    assert moved.data["primaryModelId"] == MODEL, moved.data
    assert moved.data["fallbackModelId"] == SPARE, moved.data
    assert moved.data["model"]["id"] == SPARE, moved.data
    (message,) = of_type(events, "assistant_message")
    assert message.data["model"] == SPARE, message.data
    assert snapshot(result.run_id)["agentSpec"]["fallbackModelId"] == SPARE


def without_an_outage_nobody_falls_back():
    _needs_fallbacks()
    events = []
    result = run("say all is well", fallback_model_id=SPARE, on_event=events.append)
    assert result.model is not None and result.model.id == MODEL, result.model
    assert not of_type(events, "model_fallback"), events


def a_rate_limit_is_no_outage():
    _needs_fallbacks()
    try:
        run("fail 429", fallback_model_id=SPARE)
    except MantyxRunError as error:
        assert error.error_class == "rate_limit", error
        assert error.model is not None and error.model.id == MODEL, error.model
    else:
        raise AssertionError("the run succeeded")


def a_session_stays_on_the_fallback():
    _needs_fallbacks()
    with client() as mantyx:
        session = mantyx.create_session(
            system_prompt=SYSTEM, model_id=MODEL, fallback_model_id=SPARE
        )
        first = session.send(OUTAGE)
        assert first.model is not None and first.model.id == SPARE, first.model
        spec = raw("GET", f"/agent-sessions/{session.id}").json()["agentSpec"]
        assert spec["activeModelId"] == SPARE and spec["modelId"] == MODEL, spec
        events = list(session.stream("say still here"))
        assert_whole(events)
        assert not of_type(events, "model_fallback"), events
        assert events[-1].data["model"]["id"] == SPARE, events[-1]
        session.end()


def a_fallback_that_nobody_knows_is_refused():
    _needs_fallbacks()
    try:
        run("say hello", fallback_model_id="platform:nothing-like-it")
    except MantyxError as error:
        assert error.status == 400 and error.code == "invalid_model", repr(error)
    else:
        raise AssertionError("the run was accepted")
    body = {"systemPrompt": SYSTEM, "prompt": "hi", "fallbackModelId": "platform:nothing-like-it"}
    told = raw("POST", "/agent-runs", json=body).json()
    assert told["message"].startswith("fallbackModelId: "), told


def _needs_fallbacks():
    with client() as mantyx:
        known = inspect.signature(mantyx.run_agent).parameters
    if "fallback_model_id" not in known:
        raise NotApplicable("this SDK does not know fallback_model_id")
