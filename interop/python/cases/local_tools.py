"""Tools that the client executes: plain, A2A and MCP."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mantyx import define_local_a2a, define_local_mcp, define_local_tool
from pydantic import BaseModel

from support.a2a_peer import A2aPeer
from support.target import (
    MODEL,
    SYSTEM,
    Recorder,
    assert_whole,
    async_client,
    client,
    of_type,
    prompt,
    run,
)

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class _Sum(BaseModel):
    a: int
    b: int


def a_local_tool_is_executed_once_and_its_result_reaches_the_model():
    weather = Recorder("weather", "12 degrees", parameters=CITY, description="The weather.")
    result = run('call weather {"city": "Oslo"}', tools=[weather.tool])
    assert weather.calls == [{"city": "Oslo"}], weather.calls
    assert result.text == "weather returned: 12 degrees", result.text
    assert result.turns == 2, result.turns
    assert_whole(result.events)
    (call,) = of_type(result.events, "local_tool_call")
    assert call.data["name"] == "weather" and call.data["kind"] == "local", call
    assert call.data["args"] == {"city": "Oslo"} and call.data["toolUseId"], call
    (answer,) = of_type(result.events, "local_tool_result_in")
    assert answer.data["toolUseId"] == call.data["toolUseId"], answer
    assert answer.data["output"] == "12 degrees", answer


async def the_asynchronous_client_awaits_an_asynchronous_tool():
    calls: list[dict] = []

    async def execute(arguments: dict) -> str:
        calls.append(arguments)
        return "7 degrees"

    tool = define_local_tool(name="weather", execute=execute, parameters=CITY)
    async with async_client() as mantyx:
        result = await mantyx.run_agent(
            system_prompt=SYSTEM,
            model_id=MODEL,
            prompt='call weather {"city": "Bergen"}',
            tools=[tool],
        )
    assert calls == [{"city": "Bergen"}], calls
    assert result.text == "weather returned: 7 degrees", result.text


def arguments_arrive_as_the_pydantic_model_of_the_tool():
    add = Recorder("add", lambda sum_: str(sum_.a + sum_.b), parameters=_Sum)
    result = run('call add {"a": 19, "b": 23}', tools=[add.tool])
    assert result.text == "add returned: 42", result.text
    assert isinstance(add.calls[0], _Sum), add.calls


def several_tools_of_one_turn_are_all_executed_once():
    one, two, three = (Recorder(name, f"result {name}") for name in ("one", "two", "three"))
    result = run(
        prompt("call one", "call two", "call three"), tools=[one.tool, two.tool, three.tool]
    )
    assert [len(tool.calls) for tool in (one, two, three)] == [1, 1, 1]
    assert result.text.splitlines() == [
        "one returned: result one",
        "two returned: result two",
        "three returned: result three",
    ], result.text
    assert result.turns == 2, result.turns
    first_turn = of_type(result.events, "assistant_message")[0]
    assert [call["name"] for call in first_turn.data["toolCalls"]] == ["one", "two", "three"]
    ids = [event.data["toolUseId"] for event in of_type(result.events, "local_tool_call")]
    assert len(set(ids)) == 3, ids


def the_same_tool_may_be_called_several_times_in_one_turn():
    echo = Recorder("echo", lambda arguments: f"heard {arguments['n']}")
    result = run(prompt('call echo {"n": 1}', 'call echo {"n": 2}'), tools=[echo.tool])
    assert sorted(call["n"] for call in echo.calls) == [1, 2], echo.calls
    assert result.text.splitlines() == ["echo returned: heard 1", "echo returned: heard 2"]


def tools_of_later_turns_come_after_those_of_earlier_ones():
    order: list[str] = []
    first = Recorder("first", lambda _: order.append("first") or "1")
    second = Recorder("second", lambda _: order.append("second") or "2")
    result = run(prompt("call first", "then", "call second"), tools=[first.tool, second.tool])
    assert order == ["first", "second"], order
    assert result.turns == 3, result.turns


def a_tool_that_raises_is_told_to_the_model_and_the_run_goes_on():
    def explode(_: object) -> str:
        raise ValueError("the kettle is empty")

    result = run("call kettle", tools=[define_local_tool(name="kettle", execute=explode)])
    assert result.text.startswith("kettle failed: "), result.text
    assert "the kettle is empty" in result.text, result.text
    (answer,) = of_type(result.events, "local_tool_result_in")
    assert "the kettle is empty" in answer.data["error"], answer


def a_result_that_is_no_text_arrives_as_json():
    facts = Recorder("facts", lambda _: {"temperature": 12, "places": ["Oslo", "Bergen"]})
    result = run("call facts", tools=[facts.tool])
    returned = result.text.removeprefix("facts returned: ")
    assert json.loads(returned) == {"temperature": 12, "places": ["Oslo", "Bergen"]}, result.text


def an_empty_result_is_a_result():
    quiet = Recorder("quiet", "")
    result = run("call quiet", tools=[quiet.tool])
    assert result.text.strip() == "quiet returned:", result.text


def text_in_every_script_survives_the_way_there_and_back():
    said = "Grüße, 你好, 🌍, \u2028 and a \\ \"quote\""
    echo = Recorder("echo", lambda arguments: arguments["text"])
    result = run(f"call echo {json.dumps({'text': said})}", tools=[echo.tool])
    assert echo.calls == [{"text": said}], echo.calls
    assert result.text == f"echo returned: {said}", result.text


def a_large_result_arrives_whole():
    large = "x" * 500_000
    tool = Recorder("large", large)
    result = run(prompt("call large", "say enough"), tools=[tool.tool])
    assert result.text == "enough", result.text
    (answer,) = of_type(result.events, "local_tool_result_in")
    assert answer.data["output"] == large, len(answer.data["output"])


def arguments_against_the_schema_are_not_executed():
    weather = Recorder("weather", "12 degrees", parameters=CITY)
    result = run('call weather {"city": 7}', tools=[weather.tool])
    assert weather.calls == [], weather.calls
    assert "tool_input_invalid" in result.text, result.text
    assert of_type(result.events, "local_tool_call") == []


def a_tool_nobody_offered_is_a_failure_the_model_sees():
    known = Recorder("known")
    result = run("call unheard_of", tools=[known.tool])
    assert result.text.startswith("unheard_of failed: "), result.text
    assert known.calls == [], known.calls


def an_a2a_peer_is_reached_through_the_client():
    with A2aPeer() as peer, client() as mantyx:
        result = mantyx.run_agent(
            system_prompt=SYSTEM,
            model_id=MODEL,
            prompt='call peer {"message": "count the sheep"}',
            tools=[define_local_a2a(name="peer", agent_card_url=peer.card_url)],
        )
        _assert_a2a(peer, result)


async def an_a2a_peer_is_reached_through_the_asynchronous_client():
    with A2aPeer() as peer:
        async with async_client() as mantyx:
            result = await mantyx.run_agent(
                system_prompt=SYSTEM,
                model_id=MODEL,
                prompt='call peer {"message": "count the sheep"}',
                tools=[define_local_a2a(name="peer", agent_card_url=peer.card_url)],
            )
        _assert_a2a(peer, result)


async def an_mcp_server_is_reached_through_the_asynchronous_client():
    async with async_client() as mantyx:
        result = await mantyx.run_agent(
            system_prompt=SYSTEM,
            model_id=MODEL,
            prompt=prompt(
                'call calculator_add {"a": 19, "b": 23}',
                "then",
                'call calculator_divide {"a": 1, "b": 0}',
            ),
            tools=[_calculator()],
        )
    added, divided = result.text.splitlines()[:2]
    assert added == "calculator_add returned: 42", result.text
    assert divided.startswith("calculator_divide failed: "), result.text
    first, second = of_type(result.events, "local_tool_call")
    assert first.data["kind"] == "mcp_local", first
    assert first.data["name"] == "calculator_add", first
    assert first.data["mcpServer"] == "calculator", first
    assert first.data["mcpToolName"] == "calculator_add", first
    assert first.data["mcpServerInfo"]["name"] == "calculator", first
    assert first.data["annotations"]["readOnlyHint"] is True, first
    assert second.data["mcpToolName"] == "calculator_divide", second


async def arguments_against_an_mcp_tools_schema_are_not_forwarded():
    async with async_client() as mantyx:
        result = await mantyx.run_agent(
            system_prompt=SYSTEM,
            model_id=MODEL,
            prompt='call calculator_add {"a": "many"}',
            tools=[_calculator()],
        )
    assert "tool_input_invalid" in result.text, result.text
    assert of_type(result.events, "local_tool_call") == []


async def kinds_of_local_tools_mix_in_one_turn():
    plain = Recorder("plain", "plain result")
    with A2aPeer() as peer:
        async with async_client() as mantyx:
            result = await mantyx.run_agent(
                system_prompt=SYSTEM,
                model_id=MODEL,
                prompt=prompt(
                    "call plain",
                    'call peer {"message": "hello"}',
                    'call calculator_add {"a": 1, "b": 2}',
                ),
                tools=[
                    plain.tool,
                    define_local_a2a(name="peer", agent_card_url=peer.card_url),
                    _calculator(),
                ],
            )
    assert result.text.splitlines() == [
        "plain returned: plain result",
        "peer returned: peer heard: hello",
        "calculator_add returned: 3",
    ], result.text


def _assert_a2a(peer: A2aPeer, result) -> None:
    assert peer.heard == ["count the sheep"], peer.heard
    assert result.text == "peer returned: peer heard: count the sheep", result.text
    (call,) = of_type(result.events, "local_tool_call")
    assert call.data["kind"] == "a2a_local", call
    assert call.data["agentCard"] == peer.card, call.data["agentCard"]


def _calculator():
    script = Path(__file__).parents[1] / "support" / "mcp_server.py"
    return define_local_mcp(name="calculator", command=sys.executable, args=[str(script)])
