"""An MCP server made with the package `fastmcp`.

One argument: `http` (Streamable HTTP below `/mcp`) or `sse` (below `/sse`).
"""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from fastmcp import FastMCP
from fastmcp.utilities.types import Image
from listen import listen

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def build() -> Any:
    server: Any = FastMCP("interop")

    @server.tool(annotations={"readOnlyHint": True})
    def greet(name: str) -> str:
        """Greets somebody."""
        return f"Hello, {name}!"

    @server.tool
    def weather(city: str) -> dict[str, Any]:
        """The weather of a city."""
        return {"city": city, "celsius": 12}

    @server.tool
    def picture() -> Image:
        """A picture."""
        return Image(data=PIXEL, format="png")

    @server.tool
    def fail() -> str:
        """Always fails."""
        raise ValueError("it broke")

    @server.tool
    async def wait() -> str:
        """Waits until it is cancelled."""
        print("waiting", flush=True)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)
            raise
        return "done"

    return server


if __name__ == "__main__":
    listen(lambda _url: build().http_app(transport=sys.argv[1]))
