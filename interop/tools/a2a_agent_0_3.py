"""An agent of the 0.3 generation, made with `a2a-sdk` 0.3. One argument: `jsonrpc` or `rest`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, DataPart, Part, TextPart
from a2a.utils import new_agent_text_message, new_task
from listen import listen


class Agent(AgentExecutor):
    """`task …` works on a task, `ask …` wants input, `wait …` never ends, anything else is answered at once."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        if not text.startswith(("task", "ask", "wait")):
            await event_queue.enqueue_event(new_agent_text_message(f"heard: {text}"))
            return
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text.startswith("ask"):
            question = updater.new_agent_message([Part(root=TextPart(text="which city?"))])
            await updater.requires_input(question)
            return
        print(f"working on {text}", flush=True)
        await asyncio.sleep(3600 if text.startswith("wait") else 0.5)
        parts = [Part(root=TextPart(text=f"done: {text}")), Part(root=DataPart(data={"degrees": 21}))]
        await updater.add_artifact(parts)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        print(f"cancelled {task.id}", flush=True)
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()


def build(url: str, binding: str) -> Any:
    card = AgentCard(
        name="Interop",
        description="Answers what it is told to.",
        url=f"{url}/",
        version="1.0.0",
        protocol_version="0.3.0",
        preferred_transport="JSONRPC" if binding == "jsonrpc" else "HTTP+JSON",
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="s", tags=["interop"])],
    )
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore())
    application = A2AStarletteApplication if binding == "jsonrpc" else A2ARESTFastAPIApplication
    return application(agent_card=card, http_handler=handler).build()


if __name__ == "__main__":
    listen(lambda url: build(url, sys.argv[1]))
