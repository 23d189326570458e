"""Holds the fixtures of `gemini` against the official package.

- Every request snapshot must be one that the package's own types (closed ones) allow.
- Every answer is made here from the package's own types and read back by them; `--write` writes the fixtures, otherwise
  they are compared.
"""

import json
import pathlib
import sys

import pydantic
from google.genai import types as t

import judge

FIXTURES = judge.FIXTURES / "gemini"


# ---------------------------------------------------------------- requests


class Body(pydantic.BaseModel):
    """`GenerateContentRequest`: the package has its pieces, and assembles them as untyped JSON."""

    model_config = pydantic.ConfigDict(extra="forbid")

    contents: list[t.Content]
    systemInstruction: t.Content | None = None
    tools: list[t.Tool] | None = None
    toolConfig: t.ToolConfig | None = None
    generationConfig: t.GenerationConfig | None = None


def check_requests() -> int:
    assert t.Part.model_config["extra"] == "forbid"
    count = 0
    for path in sorted((FIXTURES / "requests").glob("*/*.json")):
        request = json.loads(path.read_text())
        assert request["path"].startswith("/v1beta/models/"), path
        assert request["path"].endswith(":streamGenerateContent?alt=sse"), path
        assert request["headers"]["x-goog-api-key"] == "***", path
        body = Body.model_validate_json(json.dumps(request["body"]))
        check_conversation(body, path)
        count += 1
    return count


def check_conversation(body: Body, path: pathlib.Path) -> None:
    """What the API refuses and no type can say."""
    assert body.contents[0].role == "user" and body.contents[-1].role == "user", path
    for before, after in zip([None, *body.contents], body.contents):
        asked = [p.function_call.name for p in (before.parts if before else []) if p.function_call]
        answered = [p.function_response.name for p in after.parts if p.function_response]
        assert asked == answered, path
        assert not answered or len(answered) == len(after.parts), path
    config = body.generationConfig.thinking_config if body.generationConfig else None
    assert not (config and config.thinking_level and config.thinking_budget is not None), path


# ---------------------------------------------------------------- responses


def chunk(*parts: t.Part, finish: t.FinishReason | None = None, usage: dict | None = None) -> t.GenerateContentResponse:
    candidate = t.Candidate(content=t.Content(role="model", parts=list(parts)), finish_reason=finish, index=0)
    return t.GenerateContentResponse(
        candidates=[candidate],
        usage_metadata=t.GenerateContentResponseUsageMetadata(**usage) if usage else None,
        model_version="gemini-3.1-pro-preview",
        response_id="lOgYafeXFqO5nvgP8Yq2sAI",
    )


def counts(answer: int, thoughts: int | None = None, cached: int | None = None) -> dict:
    return {
        "prompt_token_count": 20,
        "cached_content_token_count": cached,
        "candidates_token_count": answer,
        "thoughts_token_count": thoughts,
        "total_token_count": 20 + answer + (thoughts or 0),
    }


def says(text: str) -> t.Part:
    return t.Part(text=text)


def thinks(text: str) -> t.Part:
    return t.Part(text=text, thought=True)


def calls(number: int, name: str, args: dict, signature: bytes | None = None) -> t.Part:
    call = t.FunctionCall(id=f"8f2b1a3{number}", name=name, args=args)
    return t.Part(function_call=call, thought_signature=signature)


STOP = t.FinishReason.STOP
SIGNATURE = b"\x12\x34 an opaque signature \xff"
WEATHER = calls(1, "get_weather", {"city": "Oslo"}, SIGNATURE)

CASES: dict[str, list[t.GenerateContentResponse | dict]] = {
    "text": [
        chunk(says("Hello"), usage=counts(1, cached=8)),
        chunk(says(", ")),
        chunk(says("world!"), finish=STOP, usage=counts(5, cached=8)),
    ],
    "thinking": [
        chunk(thinks("Six times ")),
        chunk(thinks("seven.")),
        chunk(says("42"), usage=counts(2, 21)),
        chunk(t.Part(text="", thought_signature=SIGNATURE), finish=STOP, usage=counts(2, 21)),
    ],
    "tool_call": [chunk(WEATHER), chunk(says(""), finish=STOP, usage=counts(12, 30))],
    "several_calls": [chunk(WEATHER, calls(2, "get_time", {})), chunk(says(""), finish=STOP, usage=counts(20, 30))],
    "text_and_tools": [chunk(says("Let me ")), chunk(says("look.")), chunk(WEATHER, finish=STOP, usage=counts(16, 9))],
    "refusal": [
        t.GenerateContentResponse(
            prompt_feedback=t.GenerateContentResponsePromptFeedback(block_reason=t.BlockedReason.PROHIBITED_CONTENT),
            usage_metadata=t.GenerateContentResponseUsageMetadata(prompt_token_count=20, total_token_count=20),
        ),
    ],
    "truncation": [chunk(says("Once ")), chunk(says("upon a"), finish=t.FinishReason.MAX_TOKENS, usage=counts(4))],
    "structured": [chunk(says('{"answer"')), chunk(says(": 42}"), finish=STOP, usage=counts(6))],
    "structured_hidden": [
        chunk(says("Here it is."), calls(1, "set_model_response", {"answer": 42}), finish=STOP, usage=counts(9)),
    ],
    "malformed_call": [chunk(finish=t.FinishReason.MALFORMED_FUNCTION_CALL, usage=counts(7))],
    "megabyte": [chunk(says("@MEGABYTE@"), finish=STOP, usage=counts(5))],
    "error_event": [
        chunk(says("Hel")),
        {"error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}},
    ],
}

GARBAGE = b"data: neither JSON nor anything else\r\n\r\n"

REFUSALS: dict[str, dict] = {
    "rate_limit": {"code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED"},
    "server_error": {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"},
    "overloaded": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"},
    "context": {
        "code": 400,
        "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "status": "INVALID_ARGUMENT",
    },
    "auth": {
        "code": 401,
        "message": "Request had invalid authentication credentials: key-that-nobody-may-see",
        "status": "UNAUTHENTICATED",
    },
}


def sse(case: str, chunks: list) -> bytes:
    encoded = b""
    for item in chunks:
        if isinstance(item, dict):
            data = json.dumps(item)
        else:
            data = item.model_dump_json(by_alias=True, exclude_none=True)
            assert t.GenerateContentResponse.model_validate_json(data) == item, case
        encoded += f"data: {data}\r\n\r\n".encode()
    return encoded


def settle(path: pathlib.Path, content: bytes, write: bool) -> None:
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert path.read_bytes() == content, f"{path} differs from what the package makes: run with --write"


def main() -> None:
    write = "--write" in sys.argv
    for case, chunks in CASES.items():
        settle(FIXTURES / f"{case}.sse", sse(case, chunks), write)
    for case, error in REFUSALS.items():
        settle(FIXTURES / f"{case}.json", json.dumps({"error": error}).encode(), write)
    settle(FIXTURES / "garbage.sse", GARBAGE, write)
    print(f"{check_requests()} requests, {len(CASES)} streams")


if __name__ == "__main__":
    main()
