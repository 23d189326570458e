"""An agent of the 1.0 generation, made with `a2a-sdk` 1.x. One argument: `jsonrpc` or `rest`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from listen import listen
from starlette.applications import Starlette


class Agent(AgentExecutor):
    """`task …` works on a task, `ask …` wants input, `wait …` never ends, anything else is answered at once."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if not text.startswith(("task", "ask", "wait")):
            await event_queue.enqueue_event(new_text_message(f"heard: {text}"))
            return
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text.startswith("ask"):
            await updater.requires_input(updater.new_agent_message([new_text_part("which city?")]))
            return
        print(f"working on {text}", flush=True)
        await asyncio.sleep(3600 if text.startswith("wait") else 0.5)
        await updater.add_artifact([new_text_part(f"done: {text}"), new_data_part({"degrees": 21})])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        print(f"cancelled {task.id}", flush=True)
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()


def build(url: str, binding: str) -> Any:
    name = "JSONRPC" if binding == "jsonrpc" else "HTTP+JSON"
    interface = AgentInterface(url=f"{url}/agent", protocol_binding=name, protocol_version="1.0")
    card = AgentCard(
        name="Interop",
        description="Answers what it is told to.",
        version="1.0.0",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="s", tags=["interop"])],
    )
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card)
    if binding == "jsonrpc":
        routes += create_jsonrpc_routes(handler, rpc_url="/agent")
    else:
        routes += create_rest_routes(handler, path_prefix="/agent")
    return Starlette(routes=routes)


if __name__ == "__main__":
    listen(lambda url: build(url, sys.argv[1]))
