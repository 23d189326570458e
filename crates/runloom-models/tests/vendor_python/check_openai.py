"""Lets the official `openai` package judge what we send to OpenAI-shaped APIs, and write streams for our decoders."""

import http.server
import json
import sys
import threading
import typing

import openai
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from judge import FIXTURES, Verdict, frames, requests, strict

# Error frames that the API sends in a shape of its own, and the frames that are broken on purpose.
NOT_EVENTS = {"error_event", "garbage"}


def check_requests(verdict):
    kinds = [
        ("openai_responses", "openai", strict(ResponseCreateParamsStreaming)),
        ("openai_responses", "azure-openai", strict(ResponseCreateParamsStreaming)),
        ("openai_chat", "xai", strict(CompletionCreateParamsStreaming)),
        ("openai_chat", "openai-compatible", strict(CompletionCreateParamsStreaming)),
    ]
    for folder, kind, adapter in kinds:
        for path, request in requests(folder, kind):
            # Lazy iterables inside the types are only checked when they are read.
            verdict.check(f"{kind}/{path.name}", lambda: exhaust(adapter.validate_python(request["body"], strict=True)))


class Address(http.server.BaseHTTPRequestHandler):
    """Remembers where a client posts to, and with which credential."""

    def do_POST(self):
        self.server.called = (self.path, self.headers["api-key"])
        self.send_error(500)

    def log_message(self, *_):
        pass


def check_azure_addresses(verdict):
    """The package's own Azure client must call the addresses that we call."""
    version = "2025-04-01-preview"
    with http.server.HTTPServer(("127.0.0.1", 0), Address) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        azure = {"api_key": "key", "max_retries": 0}
        v1 = lambda: openai.OpenAI(base_url=f"{root}/openai/v1", default_headers={"api-key": "key"}, **azure)
        resource = lambda: openai.AzureOpenAI(azure_endpoint=root, api_version=version, **azure)
        deployment = lambda: openai.AzureOpenAI(
            base_url=f"{root}/openai/deployments/my-deployment", api_version=version, **azure
        )
        forms = {
            "plain": resource,
            "address_of_the_v1_path": v1,
            "address_of_the_resource_alone": v1,
            "address_of_a_deployment": deployment,
        }
        for name, client in forms.items():
            verdict.check(f"azure-openai/{name}", lambda: same_address(server, client(), name))
        server.shutdown()


def same_address(server, client, name):
    try:
        client.responses.create(model="my-deployment", input="Hello")
    except openai.InternalServerError:
        pass
    ours = json.loads((FIXTURES / "openai_responses/requests/azure-openai" / f"{name}.json").read_text())
    assert "api-key" in ours["headers"], ours["headers"]
    assert ours["body"]["model"] == "my-deployment", ours["body"]
    assert server.called == (ours["path"], "key"), f"the package calls {server.called}, we call {ours['path']}"


def exhaust(value):
    if isinstance(value, dict):
        for part in value.values():
            exhaust(part)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for part in value:
            exhaust(part)


def judge_response_event(data):
    """By its type, so that a complaint is about the one event it is meant to be."""
    union = typing.get_args(ResponseStreamEvent)[0]
    kinds = {typing.get_args(kind.model_fields["type"].annotation)[0]: kind for kind in typing.get_args(union)}
    kinds[json.loads(data)["type"]].model_validate_json(data)


def check_streams(verdict):
    kinds = [
        ("openai_responses", judge_response_event),
        ("openai_chat", TypeAdapter(ChatCompletionChunk).validate_json),
    ]
    for folder, judge in kinds:
        for path in sorted((FIXTURES / folder).glob("*.sse")):
            if path.stem in NOT_EVENTS:
                continue
            for data in frames(path):
                if data != "[DONE]":
                    verdict.check(f"{folder}/{path.name}", lambda: judge(data))


def response(status, output, usage=None):
    return Response(
        id="resp_1",
        created_at=1760000000,
        model="gpt-5.5",
        object="response",
        status=status,
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=usage,
    )


def usage():
    return ResponseUsage(
        input_tokens=20,
        input_tokens_details={"cached_tokens": 8, "cache_write_tokens": 0},
        output_tokens=5,
        output_tokens_details={"reasoning_tokens": 0},
        total_tokens=25,
    )


def responses_turn(item_events, items):
    events = [ResponseCreatedEvent(type="response.created", sequence_number=0, response=response("in_progress", []))]
    events += item_events
    done = response("completed", items, usage())
    events.append(ResponseCompletedEvent(type="response.completed", sequence_number=99, response=done))
    return "".join(f"event: {event.type}\ndata: {event.model_dump_json()}\n\n" for event in events)


def item_events(index, item, deltas):
    started = item.model_copy(update={"status": "in_progress"})
    added = ResponseOutputItemAddedEvent(
        type="response.output_item.added", sequence_number=1, output_index=index, item=started
    )
    done = ResponseOutputItemDoneEvent(
        type="response.output_item.done", sequence_number=9, output_index=index, item=item
    )
    return [added, *deltas, done]


def responses_text():
    text = ResponseOutputText(type="output_text", text="Hello, world!", annotations=[])
    message = ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[text]
    )
    deltas = [
        ResponseTextDeltaEvent(
            type="response.output_text.delta",
            sequence_number=2,
            item_id="msg_1",
            output_index=0,
            content_index=0,
            delta=piece,
            logprobs=[],
        )
        for piece in ["Hello", ", world!"]
    ]
    return responses_turn(item_events(0, message, deltas), [message])


def responses_tools():
    reasoning = ResponseReasoningItem(
        id="rs_1", type="reasoning", summary=[], encrypted_content="gAAAA", status="completed"
    )
    call = ResponseFunctionToolCall(
        id="fc_1",
        type="function_call",
        call_id="call_1",
        name="get_weather",
        arguments='{"city":"Oslo"}',
        status="completed",
    )
    deltas = [
        ResponseFunctionCallArgumentsDeltaEvent(
            type="response.function_call_arguments.delta",
            sequence_number=3,
            item_id="fc_1",
            output_index=1,
            delta=piece,
        )
        for piece in ['{"city":', '"Oslo"}']
    ]
    events = item_events(0, reasoning, []) + item_events(1, call, deltas)
    return responses_turn(events, [reasoning, call])


def chunk(delta=None, finish_reason=None, counts=None):
    choices = [] if counts else [{"index": 0, "delta": delta or {}, "finish_reason": finish_reason}]
    return ChatCompletionChunk(
        id="chatcmpl-1",
        object="chat.completion.chunk",
        created=1760000000,
        model="gpt-4.1",
        choices=choices,
        usage=counts,
    )


def chat(deltas, finish_reason):
    counts = {
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    chunks = [chunk({"role": "assistant"}), *map(chunk, deltas), chunk({}, finish_reason), chunk(counts=counts)]
    return "".join(f"data: {one.model_dump_json()}\n\n" for one in chunks) + "data: [DONE]\n\n"


def piece(arguments, **head):
    name = {"name": head.pop("name")} if "name" in head else {}
    return {"tool_calls": [{"index": 0, **head, "function": {"arguments": arguments, **name}}]}


def chat_tools():
    first = piece("", id="call_1", type="function", name="get_weather")
    return chat([first, piece('{"city":'), piece('"Oslo"}')], "tool_calls")


def main():
    verdict = Verdict(write="--write" in sys.argv[1:])
    check_requests(verdict)
    check_azure_addresses(verdict)
    check_streams(verdict)
    streams = {
        "openai_responses/vendor/text.sse": responses_text(),
        "openai_responses/vendor/tools.sse": responses_tools(),
        "openai_chat/vendor/text.sse": chat([{"content": "Hello"}, {"content": ", world!"}], "stop"),
        "openai_chat/vendor/tools.sse": chat_tools(),
    }
    for name, text in streams.items():
        verdict.stream(FIXTURES / name, text)
    verdict.end()


if __name__ == "__main__":
    main()
