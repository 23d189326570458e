"""The server under test, and clients for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from mantyx import AsyncMantyxClient, MantyxClient, RunEvent, define_local_tool
from mantyx.sse import iter_sse

MODEL = "platform:demo"
SYSTEM = "You are the subject of an interoperability test."
TERMINAL = ("result", "error", "cancelled")


class NotApplicable(Exception):
    """The SDK at hand cannot do what the case is about; the message says why."""


def setting(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise SystemExit(f"{name} is not set: it must name the server under test")
    return value


BASE_URL = setting("MANTYX_BASE_URL").rstrip("/")
API_KEY = setting("MANTYX_API_KEY")
WORKSPACE = setting("MANTYX_WORKSPACE_SLUG")


class RunIds:
    """The ids of the runs a client started. The SDK tells them only at the end, but a cancel
    wants them before; they are read off the HTTP answers as they pass."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @property
    def last(self) -> str:
        return self.seen[-1]

    def watch(self, response: httpx.Response) -> None:
        if response.request.method == "POST" and response.status_code == 202:
            response.read()
            self.seen.append(response.json()["runId"])

    async def watch_async(self, response: httpx.Response) -> None:
        if response.request.method == "POST" and response.status_code == 202:
            await response.aread()
            self.seen.append(response.json()["runId"])


def client(*, run_ids: RunIds | None = None, **changes: Any) -> MantyxClient:
    options: dict[str, Any] = {
        "api_key": API_KEY,
        "workspace_slug": WORKSPACE,
        "base_url": BASE_URL,
        **changes,
    }
    if run_ids is not None:
        options["http_client"] = httpx.Client(
            timeout=httpx.Timeout(30.0, read=None), event_hooks={"response": [run_ids.watch]}
        )
    return MantyxClient(**options)


def async_client(*, run_ids: RunIds | None = None, **changes: Any) -> AsyncMantyxClient:
    options: dict[str, Any] = {
        "api_key": API_KEY,
        "workspace_slug": WORKSPACE,
        "base_url": BASE_URL,
        **changes,
    }
    if run_ids is not None:
        options["http_client"] = httpx.AsyncClient(
            timeout=httpx.Timeout(30.0, read=None), event_hooks={"response": [run_ids.watch_async]}
        )
    return AsyncMantyxClient(**options)


def prompt(*lines: str) -> str:
    """A prompt for the demo model: one directive per line."""
    return "\n".join(lines)


class Recorder:
    """A local tool that remembers what it was called with."""

    def __init__(self, name: str, answer: Callable[[Any], Any] | str = "done", **options: Any):
        self.calls: list[Any] = []
        self._answer = answer
        self.tool = define_local_tool(name=name, execute=self._execute, **options)

    def _execute(self, arguments: Any) -> Any:
        self.calls.append(arguments)
        return self._answer(arguments) if callable(self._answer) else self._answer


def run(lines: str, *, mantyx: MantyxClient | None = None, **options: Any):
    """One run of the demo model with the synchronous client."""
    with mantyx or client() as opened:
        return opened.run_agent(
            system_prompt=SYSTEM, model_id=MODEL, prompt=lines, **options
        )


def of_type(events: Iterable[RunEvent], *types: str) -> list[RunEvent]:
    return [event for event in events if event.type in types]


def texts(events: Iterable[RunEvent], type_: str) -> str:
    return "".join(event.text for event in of_type(events, type_))


def assert_whole(events: list[RunEvent]) -> None:
    """The stream is gapless from 1, starts with `started` and ends with its one terminal."""
    assert events, "the stream was empty"
    sequence = [event.seq for event in events]
    assert sequence == list(range(1, len(events) + 1)), f"not gapless: {sequence}"
    assert events[0].type == "started", events[0]
    terminals = of_type(events, *TERMINAL)
    assert terminals == [events[-1]], f"terminals: {terminals}, last: {events[-1]}"


def raw(method: str, path: str, *, key: str = API_KEY, workspace: str = WORKSPACE, **options: Any):
    """One plain HTTP request below the workspace, for what the SDK does not show."""
    url = f"{BASE_URL}/api/v1/workspaces/{workspace}{path}"
    headers = {"Authorization": f"Bearer {key}", **options.pop("headers", {})}
    return httpx.request(method, url, headers=headers, timeout=30.0, **options)


def snapshot(run_id: str) -> dict[str, Any]:
    answer = raw("GET", f"/agent-runs/{run_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def replay(run_id: str, after: int = 0) -> list[dict[str, Any]]:
    """Every frame of a finished run after a sequence number, as the wire has it."""
    url = f"{BASE_URL}/api/v1/workspaces/{WORKSPACE}/agent-runs/{run_id}/stream"
    headers = {"Authorization": f"Bearer {API_KEY}"}
    params = {"lastSeq": after} if after else {}
    frames: list[dict[str, Any]] = []
    with httpx.stream("GET", url, headers=headers, params=params, timeout=30.0) as answer:
        assert answer.status_code == 200, answer.status_code
        assert answer.headers["content-type"].startswith("text/event-stream")
        for event in iter_sse(answer.iter_bytes()):
            if not event.data:
                continue
            frame = json.loads(event.data)
            assert event.id == str(frame["seq"]), (event.id, frame)
            assert event.event == frame["type"], (event.event, frame)
            frames.append(frame)
    return frames
