"""An MCP server over Streamable HTTP, made with the official `mcp` package, 1.x or 2.x.

One argument: `sessions`, `stateless` or `json`, the package's three ways to answer.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from listen import listen
from mcp.types import ImageContent, TextContent, ToolAnnotations

try:
    from mcp.server import MCPServer as Server  # mcp 2.x
    from mcp.server.mcpserver import Context

    NEWEST = True
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server  # mcp 1.x

    NEWEST = False

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def build(mode: str) -> Any:
    options = {
        "json_response": mode == "json",
        "stateless_http": mode != "sessions",
    }
    server = Server("interop", log_level="CRITICAL", **({} if NEWEST else options))

    @server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
    def add(a: int, b: int) -> dict[str, int]:
        """Adds two whole numbers."""
        return {"sum": a + b}

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        """A text and a picture."""
        return [
            TextContent(type="text", text="a pixel"),
            ImageContent.model_validate({"type": "image", "data": PIXEL, "mimeType": "image/png"}),
        ]

    @server.tool()
    def fail() -> str:
        """Always fails."""
        raise ValueError("no luck today")

    @server.tool()
    async def work(steps: int, ctx: Context) -> str:
        """Reports progress, then ends."""
        for step in range(steps):
            await asyncio.sleep(0.2)
            await ctx.report_progress(step + 1, steps)
        return "worked"

    return server.streamable_http_app(**(options if NEWEST else {}))


if __name__ == "__main__":
    listen(lambda _url: build(sys.argv[1]))
