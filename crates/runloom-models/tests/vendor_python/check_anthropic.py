"""Holds the fixtures of `anthropic` and `bedrock` against the official package.

- Every request snapshot must be one that the package's own types allow, with no field that they do not know.
- Every answer is made here from the package's own event types and read back by its own reader; `--write` writes the
  fixtures, otherwise they are compared. Bedrock's are the same events; the tests put them into AWS's frames.
"""

import json
import pathlib
import sys
import typing

import anthropic.types as t
from anthropic._streaming import SSEDecoder
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import message_create_params
from anthropic.types.shared import ErrorResponse
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from judge import FIXTURES



# ---------------------------------------------------------------- requests


def forbid_unknown_fields() -> None:
    """Every request type of the package, except the JSON Schemas, is closed."""
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith("anthropic.types"):
            continue
        for value in vars(module).values():
            if is_typeddict(value) and not getattr(value, "__pydantic_config__", None):
                value.__pydantic_config__ = ConfigDict(extra="forbid")


def materialise(value: object) -> object:
    """Iterables are checked only when they are read."""
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    if isinstance(value, dict):
        return {key: materialise(inner) for key, inner in value.items()}
    return [materialise(inner) for inner in typing.cast(typing.Iterable[object], value)]


def check_requests() -> int:
    forbid_unknown_fields()
    adapter = TypeAdapter(message_create_params.MessageCreateParamsStreaming)
    count = 0
    for provider in ("anthropic", "bedrock"):
        for path in sorted((FIXTURES / provider / "requests").glob("*/*.json")):
            request = json.loads(path.read_text())
            body = request["body"]
            if provider == "bedrock":
                assert body.pop("anthropic_version") == "bedrock-2023-05-31", path
                assert "model" not in body and "stream" not in body, path
                body |= {"model": "claude", "stream": True}
            else:
                assert request["path"] == "/v1/messages" and "anthropic-version" in request["headers"], path
            assert materialise(adapter.validate_python(body)) == body, path
            assert str(body).count("cache_control") <= 4, path
            check_conversation(body, path)
            count += 1
    return count


def check_conversation(body: dict, path: pathlib.Path) -> None:
    """What the API refuses and no type can say."""
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user" and roles[-1] == "user", path
    assert all(a != b for a, b in zip(roles, roles[1:])), path
    for before, after in zip([None, *body["messages"]], body["messages"]):
        asked = {b["id"] for b in (before or {"content": []})["content"] if b["type"] == "tool_use"}
        answered = [b["tool_use_id"] for b in after["content"] if b["type"] == "tool_result"]
        assert asked == set(answered) and len(asked) == len(answered), path
        kinds = [block["type"] for block in after["content"]]
        assert kinds[: len(answered)] == ["tool_result"] * len(answered), path
        assert all(block["text"].strip() for block in after["content"] if block["type"] == "text"), path
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"], path
    if body.get("tool_choice", {}).get("type") == "tool":
        assert thinking.get("type", "disabled") == "disabled", path


# ---------------------------------------------------------------- responses


def start() -> t.RawMessageStartEvent:
    usage = t.Usage(
        input_tokens=7, output_tokens=1, cache_read_input_tokens=8, cache_creation_input_tokens=5,
        service_tier="standard",
    )
    message = t.Message(
        id="msg_01XFDUDYJgAACzvnptvVoYEL", type="message", role="assistant", model="claude-sonnet-4-5", content=[],
        stop_reason=None, stop_sequence=None, usage=usage,
    )
    return t.RawMessageStartEvent(type="message_start", message=message)


def block(index: int, content, deltas) -> list:
    return [
        t.RawContentBlockStartEvent(type="content_block_start", index=index, content_block=content),
        *(t.RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta) for delta in deltas),
        t.RawContentBlockStopEvent(type="content_block_stop", index=index),
    ]


def text(index: int, *pieces: str) -> list:
    deltas = [t.TextDelta(type="text_delta", text=piece) for piece in pieces]
    return block(index, t.TextBlock(type="text", text=""), deltas)


def thinking(index: int, *pieces: str) -> list:
    deltas: list = [t.ThinkingDelta(type="thinking_delta", thinking=piece) for piece in pieces]
    deltas.append(t.SignatureDelta(type="signature_delta", signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3h"))
    return block(index, t.ThinkingBlock(type="thinking", thinking="", signature=""), deltas)


def redacted(index: int) -> list:
    return block(index, t.RedactedThinkingBlock(type="redacted_thinking", data="EmwKAhgBEgy3va3pzix"), [])


def tool(index: int, name: str, *pieces: str) -> list:
    identifier = f"toolu_01T1x1fJ34qAmk2tNTrN7Up{index}"
    deltas = [t.InputJSONDelta(type="input_json_delta", partial_json=piece) for piece in ("", *pieces)]
    return block(index, t.ToolUseBlock(type="tool_use", id=identifier, name=name, input={}), deltas)


def stop(reason: t.StopReason, output: int = 5, thinking_tokens: int | None = None) -> list:
    details = None if thinking_tokens is None else t.OutputTokensDetails(thinking_tokens=thinking_tokens)
    usage = t.MessageDeltaUsage(output_tokens=output, output_tokens_details=details)
    delta = t.raw_message_delta_event.Delta(stop_reason=reason, stop_sequence=None)
    return [
        t.RawMessageDeltaEvent(type="message_delta", delta=delta, usage=usage),
        t.RawMessageStopEvent(type="message_stop"),
    ]


# Not events of the package: it skips the one and raises the other.
PING = {"type": "ping"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

WEATHER = ('{"city": ', '"Os', 'lo"}')

CASES: dict[str, list] = {
    "text": [start(), PING, *text(0, "Hello", ", ", "world!"), *stop("end_turn")],
    "thinking": [
        start(), *thinking(0, "Six times ", "seven."), *redacted(1), *text(2, "42"), *stop("end_turn", 30, 21),
    ],
    "tool_call": [start(), *tool(0, "get_weather", *WEATHER), *stop("tool_use", 40)],
    "several_calls": [start(), *tool(0, "get_weather", *WEATHER), *tool(1, "get_time"), *stop("tool_use", 60)],
    "text_and_tools": [
        start(), *text(0, "Let me ", "look."), *tool(1, "get_weather", *WEATHER), *stop("tool_use", 50),
    ],
    "refusal": [start(), *text(0, "I"), *stop("refusal", 2)],
    "truncation": [start(), *text(0, "Once ", "upon a"), *stop("max_tokens", 4)],
    "structured": [
        start(), *text(0, "Here is the report."), *tool(1, "final_report", '{"answer"', ": 42}"), *stop("tool_use", 30),
    ],
    "structured_native": [start(), *thinking(0, ""), *text(1, '{"answer"', ": 42}"), *stop("end_turn", 30)],
    "malformed_call": [start(), *tool(0, "get_weather", '{"city": '), *stop("tool_use", 9)],
    "thinking_and_tools": [
        start(), *thinking(0, "I need ", "the weather."), *redacted(1), *text(2, "Let me look."),
        *tool(3, "get_weather", *WEATHER), *stop("tool_use", 70, 12),
    ],
    "megabyte": [start(), *text(0, "@MEGABYTE@"), *stop("end_turn")],
    "error_event": [start(), *text(0, "Hel")[:-1], OVERLOADED],
}

GARBAGE = b"event: content_block_delta\ndata: neither JSON nor anything else\n\n"

# The bodies of refusals: Anthropic's, and what Bedrock says instead.
REFUSALS: dict[str, tuple[str, str]] = {
    "rate_limit": ("rate_limit_error", "This request would exceed your organization's rate limit."),
    "server_error": ("api_error", "Internal server error"),
    "overloaded": ("overloaded_error", "Overloaded"),
    "context": ("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    "auth": ("authentication_error", "invalid x-api-key: key-that-nobody-may-see"),
}


def sse(events: list[dict]) -> bytes:
    encoded = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    assert [json.loads(event.data) for event in SSEDecoder().iter_bytes(iter([encoded]))] == events
    return encoded


def dumped(event) -> dict:
    if isinstance(event, dict):
        return event
    return event.to_dict(mode="json", exclude_unset=False, exclude_none=True)


def check_message(case: str, events: list) -> None:
    """The package's own accumulator understands the stream."""
    snapshot = None
    buffers: dict[int, bytes] = {}
    for event in events:
        if not isinstance(event, dict):
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None and (snapshot.stop_reason or case == "error_event"), case


def settle(path: pathlib.Path, content: bytes, write: bool) -> None:
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert path.read_bytes() == content, f"{path} differs from what the package makes: run with --write"


def main() -> None:
    write = "--write" in sys.argv
    for case, events in CASES.items():
        check_message(case, events)
        stream = sse([dumped(event) for event in events])
        settle(FIXTURES / "anthropic" / f"{case}.sse", stream, write)
        if case == "error_event":
            overloaded = {"message": "The service is overloaded."}
            stream = sse([dumped(event) for event in events[:-1]])
            stream += f"event: exception/serviceUnavailableException\ndata: {json.dumps(overloaded)}\n\n".encode()
        settle(FIXTURES / "bedrock" / f"{case}.sse", stream, write)
    for case, (kind, message) in REFUSALS.items():
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_01"})
        ErrorResponse.model_validate_json(body)
        settle(FIXTURES / "anthropic" / f"{case}.json", body.encode(), write)
        settle(FIXTURES / "bedrock" / f"{case}.json", json.dumps({"message": message}).encode(), write)
    for provider in ("anthropic", "bedrock"):
        settle(FIXTURES / provider / "garbage.sse", GARBAGE, write)
    print(f"{check_requests()} requests, {2 * len(CASES)} streams")


if __name__ == "__main__":
    main()
