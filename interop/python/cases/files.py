"""Files: attached to messages, and brought by tools."""

from __future__ import annotations

import base64

import mantyx as sdk
from mantyx import MantyxError

from support.target import (
    MODEL,
    SYSTEM,
    NotApplicable,
    Recorder,
    assert_whole,
    async_client,
    client,
    of_type,
    raw,
    replay,
    run,
    snapshot,
)

PICTURE = b"\x89PNG\r\n\x1a\n secret picture"
WORDS = "secret words, äöü"
SHOWN = [f"a.png (image/png, {len(PICTURE)} bytes)", f"n.md (text/markdown, {len(WORDS.encode())} bytes): {WORDS}"]


def _attachments() -> list:
    make = getattr(sdk, "input_file_attachment", None)
    if make is None:
        raise NotApplicable("this SDK knows no attachments")
    encoded = lambda data: base64.b64encode(data).decode()  # noqa: E731
    return [
        make(mime_type="image/png", filename="a.png", data=encoded(PICTURE)),
        make(mime_type="text/markdown", filename="n.md", data=encoded(WORDS.encode())),
    ]


def attached_files_reach_the_model_and_no_event_or_snapshot_has_their_bytes():
    result = run("files", attachments=_attachments())
    assert result.text.splitlines() == SHOWN, result.text
    assert_whole(result.events)
    told = run("say seen", attachments=_attachments())
    listed = raw("GET", "/agent-runs", params={"limit": 1}).text
    for shown in (str(snapshot(told.run_id)), str(replay(told.run_id)), listed):
        for hidden in ("secret", base64.b64encode(PICTURE).decode()):
            assert hidden not in shown, shown
    (first, second) = snapshot(result.run_id)["attachments"]
    assert first == {"type": "input_file", "mimeType": "image/png", "filename": "a.png", "size": len(PICTURE)}
    assert second["filename"] == "n.md", second


async def the_asynchronous_client_attaches_files_too():
    attachments = _attachments()
    async with async_client() as mantyx:
        result = await mantyx.run_agent(
            system_prompt=SYSTEM, model_id=MODEL, prompt="files", attachments=attachments
        )
    assert result.text.splitlines() == SHOWN, result.text


def a_session_tells_of_its_files_and_the_model_is_given_them_once():
    attachments = _attachments()
    with client() as mantyx:
        session = mantyx.create_session(system_prompt=SYSTEM, model_id=MODEL)
        first = session.send("files", attachments=attachments)
        assert first.text.splitlines() == SHOWN, first.text
        second = session.send("files")
        assert second.text == "I was given no files.", second.text
        history = session.send("history")
        assert "a.png (image/png" in history.text, history.text
        told = session.info().messages[0]["attachments"]
        assert [file["filename"] for file in told] == ["a.png", "n.md"], told
        assert all("data" not in file and file["size"] > 0 for file in told), told
        events = raw("GET", f"/agent-sessions/{session.id}/events").json()["events"]
        assert events[0]["attachments"] == told, events[0]
        session.end()


def files_that_cannot_be_taken_are_refused_with_their_place():
    make = getattr(sdk, "input_file_url_attachment", None)
    if make is None:
        raise NotApplicable("this SDK knows no attachments")
    zipped = {"type": "input_file", "mimeType": "application/zip", "filename": "a.zip", "data": "UEs="}
    for attachment, path in [
        (zipped, "mimeType"),
        (make(url="http://files.example/a.pdf"), "url"),
        (make(url="https://127.0.0.1/a.pdf"), "url"),
        (make(url="https://169.254.169.254/latest/meta-data", mime_type="text/plain"), "url"),
    ]:
        try:
            run("files", attachments=[attachment])
        except MantyxError as error:
            assert error.status == 400 and error.code == "invalid_request", repr(error)
        else:
            raise AssertionError(f"{attachment} was taken")
        message = {"role": "user", "content": "files", "attachments": [attachment]}
        body = {"systemPrompt": SYSTEM, "modelId": MODEL, "messages": [message]}
        (issue,) = raw("POST", "/agent-runs", json=body).json()["issues"]
        assert issue["path"] == f"messages[0].attachments[0].{path}", issue


def files_of_a_local_tool_reach_the_model():
    if not hasattr(sdk, "ToolResult"):
        raise NotApplicable("this SDK's tools bring no files")
    picture = sdk.ToolResultFile(
        filename="chart.png", mime_type="image/png", data=base64.b64encode(PICTURE).decode()
    )
    draw = Recorder("draw", lambda _: sdk.ToolResult(result="drawn", files=[picture]))
    result = run("call draw", tools=[draw.tool])
    line = f"chart.png (image/png, {len(PICTURE)} bytes)"
    assert result.text.splitlines() == ["draw returned: drawn", line], result.text
    assert_whole(result.events)
    (event,) = of_type(result.events, "tool_files")
    assert event.data == {
        "name": "draw",
        "files": [{"filename": "chart.png", "mimeType": "image/png", "sizeBytes": len(PICTURE)}],
    }, event
    after = result.events[result.events.index(event) + 1]
    assert after.type == "local_tool_result_in", after
    assert picture.data not in str(replay(result.run_id))
