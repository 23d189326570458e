"""What people think of an answer."""

from __future__ import annotations

from mantyx import MantyxError

from support.target import NotApplicable, async_client, client, raw, run


def feedback_is_kept_and_replaced():
    result = run("say judge me")
    with client() as mantyx:
        _needs_feedback(mantyx)
        first = mantyx.submit_run_feedback(result.run_id, "UP", explanation="nice")
        assert first.id.startswith("fb_"), first
        assert first.verdict == "UP" and first.target_kind == "agent_run", first
        assert first.agent_run_id == result.run_id, first
        second = mantyx.submit_run_feedback(
            result.run_id, "DOWN", content_snapshot=result.text
        )
        assert second.id == first.id and second.verdict == "DOWN", second
    listed = raw("GET", "/reply-feedback", params={"agentRunId": result.run_id}).json()
    (item,) = listed["feedback"]
    assert item["id"] == first.id and item["verdict"] == "DOWN", item
    assert item["explanation"] is None and item["contentSnapshot"] == "judge me", item


async def the_asynchronous_client_gives_feedback_too():
    async with async_client() as mantyx:
        _needs_feedback(mantyx)
        result = await mantyx.run_agent(
            system_prompt="x", model_id="platform:demo", prompt="say hello"
        )
        given = await mantyx.submit_run_feedback(result.run_id, "DOWN", explanation="x" * 8000)
        assert given.verdict == "DOWN", given


def feedback_on_an_unknown_run_is_not_found():
    with client() as mantyx:
        _needs_feedback(mantyx)
        try:
            mantyx.submit_run_feedback("run_00000000000000000000000000", "UP")
        except MantyxError as error:
            assert error.status == 404 and error.code == "not_found", repr(error)
        else:
            raise AssertionError("it was accepted")


def _needs_feedback(mantyx):
    if not hasattr(mantyx, "submit_run_feedback"):
        raise NotApplicable("this SDK does not know feedback")
