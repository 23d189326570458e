"""What goes wrong, and how the SDK's typed errors tell it."""

from __future__ import annotations

from mantyx import MantyxAuthError, MantyxError, MantyxRunError

from support.target import (
    API_KEY,
    MODEL,
    SYSTEM,
    WORKSPACE,
    Recorder,
    client,
    of_type,
    prompt,
    raw,
    replay,
    run,
    snapshot,
)

#: The right prefix and length, and still nobody's key.
API_SHAPED = "mantyx_" + "0" * 40


def a_wrong_key_is_an_authentication_error():
    for key in ("mantyx_wrong", API_SHAPED, "not a key at all"):
        error = _refused(lambda key=key: run("say hello", mantyx=client(api_key=key)))
        assert isinstance(error, MantyxAuthError) and error.status == 401, repr(error)


def a_missing_key_is_told_in_the_documented_body():
    answer = raw("GET", "/models", headers={"Authorization": ""})
    assert answer.status_code == 401, answer.text
    assert answer.json()["error"] == "Unauthorized", answer.text
    assert answer.json()["code"] == "unauthorized", answer.text


def the_key_may_stand_in_its_own_header():
    answer = raw("GET", "/models", headers={"Authorization": "", "X-API-Key": API_KEY})
    assert answer.status_code == 200, answer.text


def another_workspaces_path_is_not_found_and_the_hint_names_ours():
    error = _refused(lambda: run("say hello", mantyx=client(workspace_slug="elsewhere")))
    assert error.status == 404 and error.code == "not_found", repr(error)
    assert error.hint and WORKSPACE in error.hint, error.hint


def an_unknown_model_is_refused():
    with client() as mantyx:
        error = _refused(
            lambda: mantyx.run_agent(
                system_prompt=SYSTEM, model_id="platform:nothing-like-it", prompt="say hello"
            )
        )
    assert error.status == 400 and error.code == "invalid_model", repr(error)


def a_spec_beyond_the_limits_is_refused():
    error = _refused(lambda: run("say hello", budgets={"maxToolTurns": 1000}))
    assert error.status == 400 and error.code == "invalid_request", repr(error)


def two_tools_of_one_name_are_refused():
    twice = [Recorder("twin").tool, Recorder("twin").tool]
    error = _refused(lambda: run("say hello", tools=twice))
    assert error.status == 400 and error.code == "invalid_request", repr(error)


def every_issue_of_a_spec_is_told_with_its_place():
    answer = raw(
        "POST",
        "/agent-runs",
        json={
            "systemPrompt": SYSTEM,
            "modelId": MODEL,
            "prompt": "say hello",
            "budgets": {"maxToolTurns": 0},
            "metadata": {"bad key!": "x"},
            "tools": [
                {"kind": "local", "name": "twin"},
                {"kind": "local", "name": "twin"},
            ],
        },
    )
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert body["error"] == body["code"] == "invalid_request", body
    assert len(body["issues"]) >= 3, body
    for issue in body["issues"]:
        assert issue["path"] and issue["message"], body
    told = " ".join(f"{issue['path']} {issue['message']}" for issue in body["issues"])
    for word in ("maxToolTurns", "metadata", "twin"):
        assert word in told, (word, body)


def prompt_and_messages_together_or_neither_are_refused():
    base = {"systemPrompt": SYSTEM, "modelId": MODEL}
    both = {**base, "prompt": "hi", "messages": [{"role": "user", "content": "hi"}]}
    for body in (base, both):
        answer = raw("POST", "/agent-runs", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "invalid_request", answer.text


def a_body_that_is_no_json_is_refused():
    answer = raw(
        "POST",
        "/agent-runs",
        content=b'{"prompt": ',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "invalid_request", answer.text


def an_agent_nobody_knows_is_forbidden():
    with client() as mantyx:
        error = _refused(
            lambda: mantyx.run_agent(
                agent_id="agent_00000000000000000000000000", prompt="say hello"
            )
        )
    assert error.status == 403, repr(error)


def an_unknown_run_is_not_found():
    with client() as mantyx:
        error = _refused(lambda: mantyx.cancel_run("run_00000000000000000000000000"))
    assert error.status == 404 and error.code == "not_found", repr(error)
    assert raw("GET", "/agent-runs/run_00000000000000000000000000").status_code == 404
    assert raw("GET", "/agent-runs/run_00000000000000000000000000/stream").status_code == 404


def a_truncated_answer_is_an_error_that_carries_what_there_was():
    whole = "one two three four five six seven eight"
    error = _failed(prompt(f"say {whole}", "truncate"))
    assert error.error_class == error.subtype == "truncation", repr(error)
    assert error.finish_reason == "max_tokens", error.finish_reason
    assert error.partial_text and len(error.partial_text) < len(whole), error.partial_text
    assert whole.startswith(error.partial_text.strip()), error.partial_text
    assert error.tokens is not None and error.tokens.output_tokens > 0, error.tokens
    assert error.turns == 1, error.turns
    assert error.model is not None and error.model.id == MODEL, error.model
    stored = snapshot(error.run_id)
    assert stored["status"] == "failed", stored
    assert stored["finalText"] == error.partial_text, stored
    assert stored["failureReason"]["errorClass"] == "truncation", stored
    assert stored["failureReason"]["finishReason"] == "max_tokens", stored
    frames = replay(error.run_id)
    assert frames[-2]["type"] == "assistant_message", frames[-2]
    assert frames[-2]["data"]["text"] == error.partial_text, frames[-2]
    assert frames[-2]["data"]["finishReason"] == "max_tokens", frames[-2]
    assert frames[-1]["data"]["code"] == "truncation", frames[-1]


def a_providers_refusals_are_classified():
    classes = {"401": "auth", "400": "invalid_request", "context": "context_window"}
    for fault, expected in classes.items():
        error = _failed(prompt(f"fail {fault}", "say never"))
        assert error.error_class == expected, (fault, repr(error))
        assert error.turns == 1 and error.tokens is not None, (fault, error.turns)


def a_provider_that_recovers_is_asked_again_within_the_turn():
    result = run(prompt("fail 503 1", "say recovered"))
    assert result.text == "recovered", result.text
    assert result.turns == 1, result.turns
    assert len(of_type(result.events, "assistant_message")) == 1


def nothing_is_asked_again_after_text_was_shown():
    error = _failed(prompt("say one two three four five", "fail reset"))
    deltas = [frame for frame in replay(error.run_id) if frame["type"] == "assistant_delta"]
    assert len(deltas) == 2, deltas


def a_result_for_a_finished_run_is_refused():
    result = run("say finished")
    answer = raw(
        "POST",
        f"/agent-runs/{result.run_id}/tool-results",
        json={"toolUseId": "tu_unknown", "result": "late"},
    )
    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "run_terminal", answer.text


def _refused(call) -> MantyxError:
    try:
        outcome = call()
    except MantyxError as error:
        return error
    raise AssertionError(f"not refused: {outcome}")


def _failed(lines: str, **options) -> MantyxRunError:
    error = _refused(lambda: run(lines, **options))
    assert isinstance(error, MantyxRunError), repr(error)
    return error
