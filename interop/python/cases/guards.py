"""Loop detection, tool budgets and the limit of tool turns."""

from __future__ import annotations

from support.target import Recorder, assert_whole, of_type, prompt, run


def a_loop_is_noticed_nudged_and_cut_off():
    ping = Recorder("ping")
    result = run(
        prompt("call ping", "repeat"),
        tools=[ping.tool],
        loop_detection={"consecutiveThreshold": 2, "hardCutoffThreshold": 4},
    )
    assert_whole(result.events)
    soft, hard = of_type(result.events, "loop_detected")
    assert soft.data["hardCutoff"] is False and soft.data["consecutiveCount"] == 2, soft
    assert hard.data["hardCutoff"] is True and hard.data["consecutiveCount"] == 4, hard
    assert soft.data["tools"] == ["ping"], soft
    assert 1 <= len(ping.calls) < 4, ping.calls
    assert len(ping.calls) == len(of_type(result.events, "local_tool_call"))
    assert result.text, "the finalising turn has a text"
    before = result.events[result.events.index(soft) - 1]
    assert before.type == "tool_result", before


def the_order_of_keys_does_not_hide_a_loop():
    ping = Recorder("ping")
    result = run(
        prompt('call ping {"a": 1, "b": 2}', "then", 'call ping {"b": 2, "a": 1}'),
        tools=[ping.tool],
        loop_detection={"consecutiveThreshold": 2, "hardCutoffThreshold": 5},
    )
    assert len(ping.calls) == 1, ping.calls
    (event,) = of_type(result.events, "loop_detected")
    assert event.data["hardCutoff"] is False, event


def different_arguments_are_no_loop():
    ping = Recorder("ping")
    result = run(
        prompt('call ping {"n": 1}', "then", 'call ping {"n": 2}', "then", 'call ping {"n": 3}'),
        tools=[ping.tool],
        loop_detection={"consecutiveThreshold": 2, "hardCutoffThreshold": 3},
    )
    assert of_type(result.events, "loop_detected") == []
    assert len(ping.calls) == 3, ping.calls


def loop_detection_can_be_switched_off():
    ping = Recorder("ping")
    result = run(
        prompt("call ping", "repeat 8", "say at last"), tools=[ping.tool], loop_detection=False
    )
    assert of_type(result.events, "loop_detected") == []
    assert len(ping.calls) == 8, ping.calls
    assert result.text == "at last", result.text


def calls_past_a_tools_budget_are_not_executed():
    ping, other = Recorder("ping"), Recorder("other")
    result = run(
        prompt(
            'call ping {"n": 1}',
            "then",
            'call ping {"n": 2}',
            "call other",
            "then",
            'call ping {"n": 3}',
        ),
        tools=[ping.tool, other.tool],
        tool_budgets={"ping": {"maxCalls": 1}},
    )
    assert ping.calls == [{"n": 1}], ping.calls
    assert len(other.calls) == 1, "another tool's budget is its own"
    exceeded = of_type(result.events, "tool_budget_exceeded")
    assert [event.data for event in exceeded] == [
        {"tool": "ping", "maxCalls": 1, "callIndex": 2},
        {"tool": "ping", "maxCalls": 1, "callIndex": 3},
    ], exceeded
    for event in exceeded:
        before = result.events[result.events.index(event) - 1]
        assert before.type == "tool_result" and before.data["name"] == "ping", before
    assert_whole(result.events)


def a_budget_of_zero_disables_a_tool():
    ping = Recorder("ping")
    result = run("call ping", tools=[ping.tool], tool_budgets={"ping": {"maxCalls": 0}})
    assert ping.calls == [], ping.calls
    (event,) = of_type(result.events, "tool_budget_exceeded")
    assert event.data["callIndex"] == 1, event


def past_the_limit_of_tool_turns_the_model_must_answer():
    ping = Recorder("ping")
    result = run(
        prompt("call ping", "repeat"),
        tools=[ping.tool],
        loop_detection=False,
        budgets={"maxToolTurns": 3},
    )
    assert len(ping.calls) == 3, ping.calls
    assert result.text, "the finalising turn has a text"
    assert result.turns == 4, result.turns
